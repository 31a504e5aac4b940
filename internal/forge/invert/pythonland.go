package invert

import (
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"assay/internal/image"
)

// dist is an installed Python distribution.
type dist struct {
	name, version string
	site          string   // the directory it is installed in
	info          string   // its dist-info or egg-info directory
	tops          []string // its packages and modules: paths
	size          int64
}

// sitePackages are the directories in which the project's interpreter finds
// packages, those of virtual environments first.
func (g *Ground) sitePackages() []string {
	var all []string
	add := func(prefix string) {
		for _, lib := range g.List(prefix + "/lib") {
			for _, n := range []string{"site-packages", "dist-packages"} {
				if p := "/" + lib.Path + "/" + n; strings.HasPrefix(path.Base(lib.Path), "python3") && g.IsDir(p) {
					all = append(all, p)
				}
			}
		}
	}
	for _, home := range g.venvs() {
		add(home)
	}
	for _, home := range []string{"/usr/local", "/usr"} {
		add(home)
	}
	return all
}

// venvs are the virtual environments that the ground has.
func (g *Ground) venvs() []string {
	var all []string
	for _, dir := range []string{g.Dir(), path.Clean(g.Env.Workdir), "/opt", "/", g.Home(), "/srv"} {
		for _, e := range g.List(dir) {
			if p := "/" + e.Path; e.IsDir() && g.isFile(p+"/pyvenv.cfg") && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

var (
	importLine  = regexp.MustCompile(`(?m)^[ \t]*(?:import[ \t]+([\w., \t]+)|from[ \t]+([\w.]+)[ \t]+import\b)`)
	fromImport  = regexp.MustCompile(`(?m)^from[ \t]+([\w.]+)[ \t]+import[ \t]+\(?([\w, \t\n]+)`)
	requireLine = regexp.MustCompile(`(?m)^Requires-Dist:\s*([\w.-]+)(.*)$`)
)

// imported are the first names of all modules that these sources import.
func imported(text string) []string {
	var all []string
	for _, m := range importLine.FindAllStringSubmatch(text, -1) {
		for n := range strings.SplitSeq(m[1]+","+m[2], ",") {
			n, _, _ = strings.Cut(strings.TrimSpace(n), " ")
			n, _, _ = strings.Cut(n, ".")
			if n != "" && !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	sort.Strings(all)
	return all
}

// pythonImports are the modules that the project and its tests import.
func (g *Ground) pythonImports() []string { return g.pythonUse().imports }

type pythonUse struct {
	imports []string
	text    string // of all sources, at most some megabytes
}

func (g *Ground) lookPython() pythonUse {
	var b strings.Builder
	for _, p := range g.Everything(".py") {
		if b.Len() > 8<<20 {
			break
		}
		t, _ := g.Text(p)
		b.WriteString(t + "\n")
	}
	return pythonUse{imported(b.String()), b.String()}
}

// dists are the installed distributions that the project uses: what it or its
// tests import, and what these require. The least come first.
func (g *Ground) lookDists() []dist {
	var all []dist
	for _, site := range g.sitePackages() {
		all = append(all, g.distsIn(site)...)
	}
	used := map[string]bool{}
	var need []string
	for _, d := range all {
		if slices.ContainsFunc(d.tops, func(p string) bool { return slices.Contains(g.pythonImports(), module(p)) }) || d.name == "pytest" {
			need = append(need, d.name)
		}
	}
	for len(need) > 0 {
		n := need[0]
		need = need[1:]
		if used[n] {
			continue
		}
		used[n] = true
		for _, d := range all {
			if d.name == n {
				need = append(need, g.requires(d)...)
			}
		}
	}
	all = slices.DeleteFunc(all, func(d dist) bool { return !used[d.name] || len(d.tops) == 0 })
	slices.SortStableFunc(all, func(a, b dist) int { return int(min(a.size, 1<<30)) - int(min(b.size, 1<<30)) })
	return all
}

// module is the name under which a path of a site directory is imported.
func module(p string) string {
	n, _, _ := strings.Cut(path.Base(p), ".")
	return n
}

func normal(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name))
}

func (g *Ground) distsIn(site string) []dist {
	var all []dist
	for _, e := range g.List(site) {
		p := "/" + e.Path
		base, isInfo := strings.CutSuffix(path.Base(p), ".dist-info")
		if !isInfo {
			base, isInfo = strings.CutSuffix(path.Base(p), ".egg-info")
		}
		if !isInfo || !e.IsDir() {
			continue
		}
		name, version, _ := strings.Cut(base, "-")
		d := dist{name: normal(name), version: version, site: site, info: p}
		for _, top := range g.tops(site, p) {
			d.tops = append(d.tops, top)
			_ = g.Tree.Walk(top, func(e image.Entry) error { d.size += e.Size; return nil })
		}
		all = append(all, d)
	}
	return all
}

// tops are the packages and modules of a distribution, by its own record.
func (g *Ground) tops(site, info string) []string {
	var all []string
	add := func(n string) {
		for _, p := range []string{site + "/" + n, site + "/" + n + ".py"} {
			if n != "" && !strings.HasPrefix(n, ".") && g.Has(p) && !slices.Contains(all, p) && n != "__pycache__" && !strings.HasSuffix(n, "-info") {
				all = append(all, p)
			}
		}
	}
	if t, ok := g.Text(info + "/top_level.txt"); ok {
		for n := range strings.FieldsSeq(t) {
			add(n)
		}
	}
	if t, ok := g.Text(info + "/RECORD"); ok && len(all) == 0 {
		for l := range strings.Lines(t) {
			f, _, _ := strings.Cut(l, ",")
			n, rest, deep := strings.Cut(f, "/")
			if deep && strings.HasSuffix(rest, ".py") || strings.HasSuffix(n, ".py") {
				add(n)
			}
		}
	}
	return all
}

// requires are the distributions that one needs in any case.
func (g *Ground) requires(d dist) []string {
	t, ok := g.Text(d.info + "/METADATA")
	if !ok {
		t, _ = g.Text(d.info + "/PKG-INFO")
	}
	var all []string
	for _, m := range requireLine.FindAllStringSubmatch(t, -1) {
		if !strings.Contains(m[2], "extra ==") && !strings.Contains(m[2], "extra==") {
			all = append(all, normal(m[1]))
		}
	}
	return all
}

// usesPython reports whether the project is Python's at all.
func (g *Ground) usesPython() bool { return g.Speaks("python") }

// pythonPackages are the project's own packages: directories with an
// __init__.py below Dir, the highest ones, and none of tests.
func (g *Ground) pythonPackages() []string {
	var all []string
	for _, p := range g.Sources("/__init__.py") {
		dir := path.Dir(p)
		if dir == g.Dir() || slices.ContainsFunc(all, func(a string) bool { return below(dir, a) }) {
			continue
		}
		if n := path.Base(dir); n == "tests" || n == "test" || n == "docs" || n == "examples" {
			continue
		}
		all = append(all, dir)
	}
	return all
}
