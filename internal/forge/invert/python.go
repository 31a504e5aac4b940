package invert

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// maxMoved bounds what a fault may move about: a task's layer holds it.
const maxMoved = 300 << 10

// python lists the faults of Python's interpreters and packages: rows 1 to 18
// of the catalogue, and what else its environment variables can do.
func python() []Operator {
	return slices.Concat(pythonDists(), pythonPaths(), pythonHooks(), pythonVariables(), pythonProject())
}

func pythonDists() []Operator {
	return []Operator{
		{
			Name: "python-dependency-missing", Number: 1, Ecosystem: Python, Family: Dependency, Realism: 5,
			Hint:  "which packages the interpreter that runs the tests can find",
			Sites: distSites(func(_ *Ground, d dist) []string { return all(d.size <= maxMoved, "") }),
			Apply: moveDist,
		},
		{
			Name: "python-dependency-older", Number: 2, Ecosystem: Python, Family: Dependency, Realism: 5,
			Hint:  "which versions of the installed packages are really there",
			Sites: distSites(func(g *Ground, d dist) []string { return g.exportsOf(d, g.pythonUse().text) }),
			Apply: olderDist,
		},
		{
			Name: "python-transitive-older", Number: 3, Ecosystem: Python, Family: Dependency, Realism: 5,
			Hint:  "whether the installed packages fit each other",
			Sites: distSites(func(g *Ground, d dist) []string { return g.exportsOf(d, g.textOfUsers(d)) }),
			Apply: olderDist,
		},
		{
			Name: "python-metadata-drift", Number: 4, Ecosystem: Python, Family: Dependency, Realism: 3,
			Hint:  "what the installed packages say of themselves",
			Sites: distSites(metadataVariants),
			Apply: driftMetadata,
		},
		{
			Name: "python-extension-tag", Number: 18, Ecosystem: Python, Family: Exotic, Realism: 3,
			Hint:  "whether compiled modules fit the interpreter",
			Sites: extensionSites,
			Apply: func(g *Ground, s Site, _ *rand.Rand) (Fault, error) {
				to := regexp.MustCompile(`\.cpython-3(\d+)-`).ReplaceAllString(s.Path, ".cpython-39-")
				d, err := g.Move(s.Path, to)
				return Fault{d, map[string]string{"from": s.Path, "to": to}}, err
			},
		},
	}
}

// all is one variant if a condition holds, else none.
func all(ok bool, variants ...string) []string {
	if ok {
		return variants
	}
	return nil
}

// distSites are the sites in distributions that the project uses; the path is
// that of the distribution's metadata.
func distSites(variants func(g *Ground, d dist) []string) func(g *Ground) []Site {
	return func(g *Ground) []Site {
		if !g.usesPython() {
			return nil
		}
		var sites []Site
		for _, d := range g.dists() {
			for _, v := range variants(g, d) {
				if g.Ours(d.info) {
					sites = append(sites, Site{Path: d.info, What: v})
				}
			}
		}
		return sites
	}
}

var errSite = errors.New("no such site")

func (g *Ground) distAt(s Site) (dist, error) {
	for _, d := range g.dists() {
		if d.info == s.Path {
			return d, nil
		}
	}
	return dist{}, fmt.Errorf("%w: %s", errSite, s)
}

// moveDist puts a distribution where another interpreter would look, as by an
// install with the wrong one.
func moveDist(g *Ground, s Site, _ *rand.Rand) (Fault, error) {
	d, err := g.distAt(s)
	if err != nil {
		return Fault{}, err
	}
	to := regexp.MustCompile(`/python3(\.\d+)?/`).ReplaceAllString(d.site, "/python3.8/")
	var out forge.Delta
	for _, p := range append(slices.Clone(d.tops), d.info) {
		more, err := g.Move(p, path.Join(to, path.Base(p)))
		if err != nil {
			return Fault{}, err
		}
		out = merge(out, more)
	}
	return Fault{out, map[string]string{"distribution": d.name, "from": d.site, "to": to}}, nil
}

// merge appends edits, and leaves out directories that are made already.
func merge(d, more forge.Delta) forge.Delta {
	for _, e := range more {
		if e.Type == image.TypeDir && slices.ContainsFunc(d, func(x forge.Edit) bool { return x.Path == e.Path && x.Type == e.Type }) {
			continue
		}
		d = append(d, e)
	}
	return d
}

// exportsOf are names that text imports from a distribution and that its
// __init__.py takes, on a line of their own, from one of its modules.
func (g *Ground) exportsOf(d dist, text string) []string {
	var names []string
	for _, top := range d.tops {
		init, ok := g.Text(top + "/__init__.py")
		if !ok {
			continue
		}
		var want []string
		for _, m := range fromImport.FindAllStringSubmatch(text, -1) {
			if m[1] == module(top) {
				for n := range strings.SplitSeq(m[2], ",") {
					n, _, _ = strings.Cut(strings.TrimSpace(n), " ")
					want = append(want, n)
				}
			}
		}
		for _, m := range regexp.MustCompile(`\b`+regexp.QuoteMeta(module(top))+`\.(\w+)`).FindAllStringSubmatch(text, -1) {
			want = append(want, m[1])
		}
		slices.Sort(want)
		for _, n := range slices.Compact(want) {
			if n != "" && exportLine(n).MatchString(init) {
				names = append(names, module(top)+"."+n)
			}
		}
	}
	return names[:min(len(names), 6)]
}

// exportLine is a line of an __init__.py that takes one name, or one of
// several lines in parentheses.
func exportLine(name string) *regexp.Regexp {
	n := regexp.QuoteMeta(name)
	return regexp.MustCompile(`(?m)^(?:from \.[\w.]* import ` + n + `(?: as ` + n + `)?|    ` + n + `(?: as ` + n + `)?,)[ \t]*\n`)
}

// textOfUsers is the text of distributions that require one, in part.
func (g *Ground) textOfUsers(d dist) string {
	var b strings.Builder
	for _, u := range g.dists() {
		if u.info == d.info || !slices.Contains(g.requires(u), d.name) {
			continue
		}
		for _, top := range u.tops {
			_ = g.Tree.Walk(top, func(e image.Entry) error {
				if strings.HasSuffix(e.Path, ".py") && b.Len() < 2<<20 {
					t, _ := g.Text("/" + e.Path)
					b.WriteString(t + "\n")
				}
				return nil
			})
		}
	}
	return b.String()
}

// olderDist takes one exported name away, as in a release that did not have it
// yet, and lets the metadata say so.
func olderDist(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
	d, err := g.distAt(s)
	if err != nil {
		return Fault{}, err
	}
	top, name, _ := strings.Cut(s.What, ".")
	init := d.site + "/" + top + "/__init__.py"
	text, _ := g.Text(init)
	at := exportLine(name).FindStringIndex(text)
	if at == nil {
		return Fault{}, fmt.Errorf("%w: %s", errSite, s)
	}
	out := g.Write(init, []byte(text[:at[0]]+text[at[1]:]))
	facts := map[string]string{"distribution": d.name, "version": d.version, "lost": s.What, "path": init}
	if meta, ok := g.Text(d.info + "/METADATA"); ok {
		old := lower(d.version, rng)
		facts["claims"] = old
		out = append(out, g.Write(d.info+"/METADATA", []byte(replaceVersion(meta, old)))...)
	}
	return Fault{out, facts}, nil
}

var versionLine = regexp.MustCompile(`(?m)^Version: .*$`)

func replaceVersion(meta, version string) string {
	done := false
	return versionLine.ReplaceAllStringFunc(meta, func(l string) string {
		if done {
			return l
		}
		done = true
		return "Version: " + version
	})
}

// lower is a version before another, of the same shape.
func lower(version string, rng *rand.Rand) string {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 0 {
		return "0.1"
	}
	switch {
	case minor > 0:
		return fmt.Sprintf("%d.%d.%d", major, rng.IntN(minor), rng.IntN(4))
	case major > 0:
		return fmt.Sprintf("%d.%d.%d", rng.IntN(major), 1+rng.IntN(9), rng.IntN(4))
	}
	return "0.0." + fmt.Sprint(1+rng.IntN(9))
}

// metadataVariants: a plugin's entry point that names a module which is not
// there, or a version that the project compares.
func metadataVariants(g *Ground, d dist) []string {
	var v []string
	if t, ok := g.Text(d.info + "/entry_points.txt"); ok && strings.Contains(t, "[pytest11]") && g.Runs("pytest") {
		v = append(v, "plugin")
	}
	if strings.Contains(g.pythonUse().text, "importlib.metadata") || strings.Contains(g.pythonUse().text, "importlib_metadata") {
		v = append(v, "version", "name")
	}
	return v
}

func driftMetadata(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
	d, err := g.distAt(s)
	if err != nil {
		return Fault{}, err
	}
	file := d.info + "/METADATA"
	if !g.Has(file) {
		file = d.info + "/PKG-INFO"
	}
	if s.What == "plugin" {
		file = d.info + "/entry_points.txt"
	}
	text, ok := g.Text(file)
	if !ok {
		return Fault{}, fmt.Errorf("%w: %s", errSite, s)
	}
	facts := map[string]string{"distribution": d.name, "path": file, "what": s.What}
	switch s.What {
	case "plugin":
		head, rest, _ := strings.Cut(text, "[pytest11]\n")
		line, tail, _ := strings.Cut(rest, "\n")
		return Fault{g.Write(file, []byte(head+"[pytest11]\n"+line+"_plugin\n"+tail)), facts}, nil
	case "version":
		return Fault{g.Write(file, []byte(replaceVersion(text, lower(d.version, rng)))), facts}, nil
	}
	// A directory that an interrupted install has left under a temporary name.
	to := path.Join(d.site, "~"+path.Base(d.info)[1:])
	out, err := g.Move(d.info, to)
	facts["to"] = to
	return Fault{out, facts}, err
}

func extensionSites(g *Ground) []Site {
	if !g.usesPython() {
		return nil
	}
	var sites []Site
	for _, d := range g.dists() {
		for _, top := range d.tops {
			_ = g.Tree.Walk(top, func(e image.Entry) error {
				if e.Type == image.TypeFile && strings.Contains(e.Path, ".cpython-3") && strings.HasSuffix(e.Path, ".so") && e.Size <= maxMoved {
					sites = append(sites, Site{Path: "/" + e.Path})
				}
				return nil
			})
		}
	}
	return sites
}
