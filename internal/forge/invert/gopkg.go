package invert

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
)

// golang are faults of Go's modules, its build constraints and its settings.
func golang() []Operator {
	op := func(number int, name string, f Family, realism int, hint string) Operator {
		return Operator{Name: "go-" + name, Number: number, Ecosystem: Go, Family: f, Realism: realism, Hint: hint}
	}
	module := "what the module says about itself and what it needs"
	files := "which files the compiler takes into a package"
	return slices.Concat([]Operator{
		rewritten(op(29, "directive-new", Config, 5, module), goMods, goDirective),
		chosen(op(30, "work-stray", Config, 4, "which modules the tool believes it works on"), goWork),
		chosen(op(31, "file-suffix", FileState, 4, files), goSuffix),
		rewritten(op(32, "build-tag", FileState, 4, files), goSources, goTag),
		rewritten(op(35, "sum-hash", Dependency, 5, "how downloaded modules are verified"), goSums, goSumHash),
		rewritten(op(0, "sum-missing", Dependency, 5, "how downloaded modules are verified"), goSums, goSumMissing),
		rewritten(op(36, "replace-missing", Dependency, 5, module), goMods, goReplace),
		rewritten(op(37, "vendor-skew", Dependency, 5, "what the vendored modules were made from"), goVendors, goVendorSkew),
		rewritten(op(0, "module-path", Config, 4, module), goMods, goModulePath),
		rewritten(op(0, "require-drift", Dependency, 5, module), goMods, goRequireDrift),
		rewritten(op(0, "require-missing", Dependency, 5, module), goMods, goRequireMissing),
		chosen(op(0, "stray-package", FileState, 5, files), goStrayPackage),
		chosen(op(0, "stray-copy", FileState, 4, files), goStrayCopy),
		chosen(op(0, "embed-renamed", FileState, 4, "which files are built into the program"), goEmbed),
	}, goSettings())
}

func goMods(g *Ground) []string {
	if p := g.near("go.mod"); p != "" {
		return []string{p}
	}
	return nil
}

func goSums(g *Ground) []string {
	if goVendored(g) { // nobody reads go.sum then
		return nil
	}
	if p := g.near("go.sum"); p != "" {
		return []string{p}
	}
	return nil
}

func goVendors(g *Ground) []string {
	if p := g.near("vendor/modules.txt"); p != "" {
		return []string{p}
	}
	return nil
}

func goVendored(g *Ground) bool { return len(goVendors(g)) > 0 }

// goVersion is the installed one's minor number; 0: not known.
func goVersion(g *Ground) int {
	text := ""
	if root := goRoot(g); root != "" {
		text, _ = g.Text(root + "/VERSION")
	}
	minor := 0
	if _, err := fmt.Sscanf(text, "go1.%d", &minor); err != nil {
		return 0
	}
	return minor
}

func goRoot(g *Ground) string {
	for _, tool := range []string{g.Which("go"), "/usr/local/go/bin/go", "/usr/lib/go/bin/go"} {
		if real := g.Real(tool); tool != "" && real != "" {
			return path.Dir(path.Dir(real))
		}
	}
	return ""
}

func goDirective(g *Ground, _, text string) []rewrite {
	line := regexp.MustCompile(`(?m)^go\s+1\.\d+(\.\d+)?\s*$`)
	if !line.MatchString(text) {
		return nil
	}
	minor := max(goVersion(g), 30)
	var all []rewrite
	for _, v := range []string{fmt.Sprintf("1.%d", minor+1), fmt.Sprintf("1.%d.0", minor+2)} {
		all = append(all, rewrite{what: v, text: line.ReplaceAllString(text, "go "+v)})
	}
	return all
}

func goWork(g *Ground) []choice {
	mod := g.near("go.mod")
	if mod == "" || g.near("go.work") != "" {
		return nil
	}
	dir := path.Dir(mod)
	v := "1.21"
	if text, _ := g.Text(mod); text != "" {
		if m := regexp.MustCompile(`(?m)^go\s+(1\.\d+)`).FindStringSubmatch(text); m != nil {
			v = m[1]
		}
	}
	return slices.Concat(
		g.added(path.Join(path.Dir(dir), "go.work"), "parent", "go "+v+"\n\nuse ./services/api\n"),
		g.added(path.Join(dir, "go.work"), "member", "go "+v+"\n\nuse (\n\t.\n\t./tools\n)\n"))
}

// goSources are the files that a build on this system surely takes.
func goSources(g *Ground) []string {
	return slices.DeleteFunc(g.Sources(".go"), func(p string) bool {
		n := strings.TrimSuffix(path.Base(p), ".go")
		if strings.HasSuffix(n, "_test") || strings.HasPrefix(n, "_") || strings.HasPrefix(n, ".") || strings.Contains(p, "/testdata/") {
			return true
		}
		text, ok := g.Text(p)
		return !ok || strings.Contains(text, "\n//go:build ") || strings.HasPrefix(text, "//go:build ") || strings.HasPrefix(text, "// +build ")
	})
}

func goSuffix(g *Ground) []choice {
	var all []choice
	suffixes := []string{"_windows", "_darwin", "_arm64", "_js"}
	for i, p := range goSources(g) {
		all = append(all, g.moved(p, strings.TrimSuffix(p, ".go")+suffixes[i%len(suffixes)]+".go")...)
	}
	return all
}

func goTag(_ *Ground, p, text string) []rewrite {
	tags := []string{"integration", "ignore", "windows", "go1.99", "!linux"}
	tag := tags[len(p)%len(tags)]
	return []rewrite{{what: tag, text: "//go:build " + tag + "\n\n" + text}}
}

// goRequire is one line of what a module needs.
func goRequire() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(?:require)?\s+([\w.~-]+(?:\.[\w~-]+)+(?:/[\w.~-]+)*)\s+(v\d\S*)[ \t]*(// indirect)?`)
}

type goNeed struct{ path, version, line string }

// goNeeds are the modules that this one uses itself.
func goNeeds(g *Ground) []goNeed {
	text, _ := g.Text(g.near("go.mod"))
	var all []goNeed
	for _, m := range goRequire().FindAllStringSubmatch(text, -1) {
		if m[3] == "" {
			all = append(all, goNeed{m[1], m[2], m[0]})
		}
	}
	return all
}

func goSumHash(g *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, n := range goNeeds(g) {
		at := strings.Index(text, n.path+" "+n.version+" h1:")
		if at < 0 {
			continue
		}
		at += len(n.path + " " + n.version + " h1:")
		b := []byte(text)
		for _, i := range []int{at + 3, at + 17} { // two letters of base64 become others
			if i < len(b) {
				b[i] = map[bool]byte{true: 'q', false: 'Z'}[b[i] == 'Z']
			}
		}
		all = append(all, rewrite{what: n.path, text: string(b)})
	}
	return all
}

func goSumMissing(g *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, n := range goNeeds(g) {
		all = append(all, rewrite{what: n.path, text: without(text, regexp.MustCompile("^"+regexp.QuoteMeta(n.path+" "+n.version)+"( |/go.mod )"))})
	}
	return all
}

func goReplace(g *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, n := range goNeeds(g) {
		if !strings.Contains(text, n.path+" =>") {
			all = append(all, rewrite{what: n.path, text: strings.TrimRight(text, "\n") + "\n\nreplace " + n.path + " => ../" + path.Base(n.path) + "\n"})
		}
	}
	return all
}

func goVendorSkew(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range regexp.MustCompile(`(?m)^# (\S+) (v\S+)$`).FindAllStringSubmatch(text, -1) {
		all = append(all, rewrite{what: m[1], text: strings.Replace(text, m[0], "# "+m[1]+" "+bump(m[2]), 1)},
			rewrite{what: m[1] + " unmarked", text: strings.Replace(text, m[0]+"\n## explicit", m[0]+"\n##", 1)})
	}
	return all
}

func goModulePath(_ *Ground, _, text string) []rewrite {
	line := regexp.MustCompile(`(?m)^module\s+(\S+)`)
	m := line.FindStringSubmatch(text)
	if m == nil || strings.HasPrefix(m[1], `"`) {
		return nil
	}
	next := m[1] + "/v2"
	if v := regexp.MustCompile(`/v\d+$`); v.MatchString(m[1]) {
		next = v.ReplaceAllString(m[1], "")
	}
	return []rewrite{{what: next, text: strings.Replace(text, m[0], "module "+next, 1)}}
}

func goRequireDrift(g *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, n := range goNeeds(g) {
		all = append(all, rewrite{what: n.path, text: strings.Replace(text, n.line, strings.Replace(n.line, n.version, bump(n.version), 1), 1)})
	}
	return all
}

func goRequireMissing(g *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, n := range goNeeds(g) {
		all = append(all, rewrite{what: n.path, text: strings.Replace(text, n.line, "", 1)})
	}
	return all
}

// goDirs are the directories of packages, with the name of each.
func goDirs(g *Ground) (dirs []string, names map[string]string) {
	names = map[string]string{}
	clause := regexp.MustCompile(`(?m)^package (\w+)`)
	for _, p := range goSources(g) {
		text, _ := g.Text(p)
		if m := clause.FindStringSubmatch(text); m != nil && names[path.Dir(p)] == "" {
			dirs = append(dirs, path.Dir(p))
			names[path.Dir(p)] = m[1]
		}
	}
	return dirs, names
}

func goStrayPackage(g *Ground) []choice {
	var all []choice
	dirs, names := goDirs(g)
	for _, d := range dirs {
		text := "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"try\")\n}\n"
		if names[d] == "main" {
			text = "package scratch\n\n// Try is for trying things out.\nfunc Try() {}\n"
		}
		all = append(all, g.added(path.Join(d, "scratch.go"), names[d], text)...)
	}
	return all
}

// goStrayCopy leaves a copy of a file beside it, as people do before they try
// something.
func goStrayCopy(g *Ground) []choice {
	declares := regexp.MustCompile(`(?m)^(func|type|var|const) [A-Za-z]`)
	var all []choice
	for _, p := range goSources(g) {
		to := strings.TrimSuffix(p, ".go") + "_old.go"
		if text, _ := g.Text(p); g.Has(to) || !declares.MatchString(text) {
			continue
		}
		all = append(all, choice{Site{Path: to, What: path.Base(p)}, func(*rand.Rand) (forge.Delta, error) { return g.Copy(p, to) }})
	}
	return all
}

func goEmbed(g *Ground) []choice {
	var all []choice
	for _, p := range goSources(g) {
		text, _ := g.Text(p)
		for _, m := range regexp.MustCompile(`(?m)^//go:embed ([\w./-]+)\s*$`).FindAllStringSubmatch(text, -1) {
			from := path.Join(path.Dir(p), m[1])
			to := path.Join(path.Dir(from), strings.ToUpper(path.Base(from)[:1])+path.Base(from)[1:])
			if to == from {
				to = path.Join(path.Dir(from), strings.ToLower(path.Base(from)))
			}
			all = append(all, g.moved(from, to)...)
		}
	}
	return all
}
