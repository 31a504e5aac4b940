package invert

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// pythonPaths are faults in how an interpreter is found and finds modules.
func pythonPaths() []Operator {
	return []Operator{
		{
			Name: "python-module-shadowed", Number: 5, Ecosystem: Python, Family: FileState, Realism: 5,
			Hint:   "which file a module that is imported really comes from",
			Masked: "a module that the interpreter has loaded already is not looked for again",
			Sites:  shadowSites,
			Apply: func(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
				return Fault{g.Write(s.Path, []byte(scratchModule(s.What, rng))), map[string]string{"path": s.Path, "shadows": s.What}}, nil
			},
		},
		{
			Name: "python-pth-hijack", Number: 6, Ecosystem: Python, Family: Exotic, Realism: 3,
			Hint:  "what the interpreter adds to its search path when it starts",
			Sites: hijackSites,
			Apply: applyHijack,
		},
		Carried(Operator{
			Name: "python-path-poison", Number: 8, Ecosystem: Python, Family: Config, Realism: 5,
			Hint: "in which directories the interpreter looks for modules first",
		}, pathPoison),
		{
			Name: "python-venv-dangling", Number: 11, Ecosystem: Python, Family: Dependency, Realism: 5,
			Hint:  "which interpreter the project's environment runs on",
			Sites: venvLinks,
			Apply: func(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
				e, _ := g.Entry(s.Path)
				to := pick(rng, "/usr/local/bin/python3.8", "/opt/python/3.9.2/bin/python3", "/usr/bin/python3.7")
				return Fault{g.Link(s.Path, to), map[string]string{"path": s.Path, "was": e.Link, "is": to}}, nil
			},
		},
		{
			Name: "python-venv-config", Number: 12, Ecosystem: Python, Family: Config, Realism: 3,
			Hint:   "how the project's environment is set up",
			Masked: "a wrong home alone does not keep an interpreter from running",
			Sites: func(g *Ground) []Site {
				var sites []Site
				for _, v := range g.usedVenvs() {
					sites = append(sites, Site{Path: v + "/pyvenv.cfg", What: "renamed"}, Site{Path: v + "/pyvenv.cfg", What: "system"}, Site{Path: v + "/pyvenv.cfg", What: "lib"})
				}
				return sites
			},
			Apply: driftVenv,
		},
		{
			Name: "python-script-shebang", Number: 13, Ecosystem: Python, Family: Dependency, Realism: 5,
			Hint:  "what runs when a program of the environment is called",
			Sites: scriptSites,
			Apply: func(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
				text, ok := g.Text(s.Path)
				first, rest, _ := strings.Cut(text, "\n")
				if !ok || !strings.HasPrefix(first, "#!") {
					return Fault{}, fmt.Errorf("%w: %s", errSite, s)
				}
				to := pick(rng, "#!/home/build/.venv/bin/python", "#!/opt/old-venv/bin/python3", "#!/builds/project/venv/bin/python")
				return Fault{g.Write(s.Path, []byte(to+"\n"+rest)), map[string]string{"path": s.Path, "was": first, "is": to}}, nil
			},
		},
		{
			Name: "python-editable-elsewhere", Number: 14, Ecosystem: Python, Family: Dependency, Realism: 5,
			Hint:  "where the project's own package is imported from",
			Sites: editableSites,
			Apply: func(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
				text, ok := g.Text(s.Path)
				wd := path.Clean(g.Env.Workdir)
				if !ok || !strings.Contains(text, wd) {
					return Fault{}, fmt.Errorf("%w: %s", errSite, s)
				}
				to := pick(rng, "/workspace", "/home/build/src", wd+"-old", "/src")
				return Fault{g.Write(s.Path, []byte(strings.ReplaceAll(text, wd, to))), map[string]string{"path": s.Path, "was": wd, "is": to}}, nil
			},
		},
		Carried(Operator{
			Name: "python-interpreter-order", Ecosystem: Python, Family: Config, Realism: 5,
			Hint: "which interpreter is found first",
		}, func(g *Ground) []Payload {
			if !g.usesPython() || len(g.usedVenvs()) == 0 {
				return nil
			}
			return []Payload{{Name: "system-first", File: "path", Why: "prefer the distribution's tools", Lines: []string{`export PATH="/usr/bin:/bin:$PATH"`}}}
		}),
	}
}

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

// usedVenvs are the virtual environments that the suite's session finds.
func (g *Ground) usedVenvs() []string {
	var all []string
	if !g.usesPython() {
		return nil
	}
	for _, v := range g.venvs() {
		if slices.Contains(g.Search(), v+"/bin") || strings.Contains(g.Commands(), v+"/") ||
			below(v, g.Dir()) && strings.Contains(g.Commands(), strings.TrimPrefix(v, g.Dir()+"/")+"/bin") {
			all = append(all, v)
		}
	}
	return all
}

// lazyModules are modules of the standard library that no interpreter has
// loaded when it looks for a project's, and that people name files after.
func lazyModules() []string {
	return []string{"tempfile", "random", "calendar", "statistics", "secrets", "string", "queue", "logging", "csv", "html",
		"email", "json", "uuid", "decimal", "fractions", "datetime", "copy", "pprint", "textwrap", "shlex", "socket", "ssl",
		"select", "token", "test", "profile", "code", "cmd", "numbers", "array", "bisect", "heapq", "http", "xml", "sqlite3",
		"platform", "argparse", "difflib", "inspect", "typing", "subprocess", "dataclasses", "glob", "gzip", "zipfile", "hashlib"}
}

// shadowSites are names in directories that come first in the search path.
func shadowSites(g *Ground) []Site {
	if !g.usesPython() {
		return nil
	}
	dirs := []string{g.Dir()}
	if g.IsDir(g.Dir() + "/src") {
		dirs = append(dirs, g.Dir()+"/src")
	}
	var sites []Site
	for _, d := range dirs {
		for _, m := range g.pythonImports() {
			p := d + "/" + m + ".py"
			installed := slices.ContainsFunc(g.dists(), func(d dist) bool {
				return slices.ContainsFunc(d.tops, func(t string) bool { return module(t) == m })
			})
			if (installed || slices.Contains(lazyModules(), m)) && !g.Has(p) && !g.Has(d+"/"+m) && g.Ours(p) {
				sites = append(sites, Site{Path: p, What: m})
			}
		}
	}
	return sites
}

// scratchModule is what people leave lying about.
func scratchModule(name string, rng *rand.Rand) string {
	return pick(rng,
		"\"\"\"Scratch notes, not finished.\"\"\"\n\nRESULTS = []\n\n\ndef main():\n    for row in RESULTS:\n        print(row)\n\n\nif __name__ == \"__main__\":\n    main()\n",
		"# quick experiment with "+name+"\n\n\ndef run(values):\n    return [v for v in values if v]\n",
		"\"\"\"Helpers that were moved elsewhere; kept for old scripts.\"\"\"\n\n\ndef helper(*args):\n    return args\n")
}

// hijackSites: an older copy of a package that the project uses, its own too.
func hijackSites(g *Ground) []Site {
	var sites []Site
	for _, site := range g.usedSites() {
		for _, m := range g.hijackable() {
			sites = append(sites, Site{Path: site + "/" + "legacy-compat.pth", What: m})
		}
	}
	return sites
}

// usedSites are the site directories of the project's interpreter.
func (g *Ground) usedSites() []string {
	if !g.usesPython() {
		return nil
	}
	count := map[string]int{}
	for _, d := range g.dists() {
		count[d.site]++
	}
	var all []string
	for _, s := range g.sitePackages() {
		if count[s] > 0 {
			all = append(all, s)
		}
	}
	return all
}

// hijackable are module names of which a copy elsewhere could come first.
func (g *Ground) hijackable() []string {
	var names []string
	for _, p := range g.pythonPackages() {
		names = append(names, path.Base(p))
	}
	for _, d := range g.dists() {
		for _, top := range d.tops {
			if n := module(top); slices.Contains(g.pythonImports(), n) && n != "pytest" && g.Has(top+"/__init__.py") {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), 8)]
}

// legacy lays an early copy of a package below a directory: its beginning,
// without what came later.
func (g *Ground) legacy(dir, name string) forge.Delta {
	text := "\"\"\"" + name + ", early copy.\"\"\"\n\n__version__ = \"0.0.9\"\n\n\ndef version():\n    return __version__\n"
	return g.Write(dir+"/"+name+"/__init__.py", []byte(text))
}

func applyHijack(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
	dir := pick(rng, "/opt/legacy/lib", "/opt/compat/python3", "/srv/shared/python")
	out := g.legacy(dir, s.What)
	out = merge(out, g.Write(s.Path, []byte("import sys; sys.path.insert(0, '"+dir+"')\n")))
	return Fault{out, map[string]string{"path": s.Path, "package": s.What, "copy": dir}}, nil
}

func pathPoison(g *Ground) []Payload {
	if !g.usesPython() {
		return nil
	}
	var all []Payload
	for _, m := range g.hijackable() {
		dir := "/opt/shared/python"
		all = append(all, Payload{Name: m, File: "pythonpath", Why: "shared helpers", Tool: "python3", Lines: []string{prepend("PYTHONPATH", dir)},
			More: func(g *Ground) forge.Delta { return g.legacy(dir, m) }})
	}
	return all
}

// venvLinks are the links by which an environment names its interpreter. Of a
// chain of them the last one counts.
func venvLinks(g *Ground) []Site {
	var sites []Site
	for _, v := range g.usedVenvs() {
		for _, n := range []string{"python", "python3"} {
			if e, ok := g.Entry(v + "/bin/" + n); ok && e.Type == image.TypeSymlink {
				sites = append(sites, Site{Path: v + "/bin/" + n})
			}
		}
	}
	return sites
}

func driftVenv(g *Ground, s Site, _ *rand.Rand) (Fault, error) {
	text, ok := g.Text(s.Path)
	if !ok {
		return Fault{}, fmt.Errorf("%w: %s", errSite, s)
	}
	facts := map[string]string{"path": s.Path, "what": s.What}
	switch s.What {
	case "renamed":
		d, err := g.Move(s.Path, strings.TrimSuffix(s.Path, ".cfg")+".conf")
		return Fault{d, facts}, err
	case "system":
		flip := strings.NewReplacer("include-system-site-packages = false", "include-system-site-packages = true",
			"include-system-site-packages = true", "include-system-site-packages = false")
		return Fault{g.Write(s.Path, []byte(flip.Replace(text))), facts}, nil
	}
	// The directory of packages has another version's name, as after an
	// upgrade of the interpreter below an old environment.
	for _, lib := range g.List(path.Dir(s.Path) + "/lib") {
		from := "/" + lib.Path
		if !lib.IsDir() || !strings.HasPrefix(path.Base(from), "python3") || g.sizeOf(from) > maxMoved {
			continue
		}
		d, err := g.Move(from, path.Dir(from)+"/python3.8")
		return Fault{d, facts}, err
	}
	return Fault{}, fmt.Errorf("%w: %s", errSite, s)
}

func (g *Ground) sizeOf(p string) (n int64) {
	_ = g.Tree.Walk(p, func(e image.Entry) error { n += e.Size; return nil })
	return n
}

var shebang = regexp.MustCompile(`^#!.*python`)

// scriptSites are the programs of environments that the suite runs by name.
func scriptSites(g *Ground) []Site {
	var sites []Site
	dirs := []string{"/usr/local/bin", g.Home() + "/.local/bin"}
	for _, v := range g.usedVenvs() {
		dirs = append(dirs, v+"/bin")
	}
	for _, d := range dirs {
		for _, e := range g.List(d) {
			p := "/" + e.Path
			text, ok := g.Text(p)
			if ok && shebang.MatchString(text) && (g.Runs(path.Base(p)) || strings.Contains(g.pythonUse().text, `"`+path.Base(p)+`"`)) {
				sites = append(sites, Site{Path: p})
			}
		}
	}
	return sites
}

func editableSites(g *Ground) []Site {
	var sites []Site
	for _, dir := range g.usedSites() {
		for _, e := range g.List(dir) {
			p := "/" + e.Path
			n := path.Base(p)
			if strings.HasPrefix(n, "__editable__") || strings.HasPrefix(n, "_") && strings.HasSuffix(n, ".pth") ||
				strings.HasSuffix(n, ".egg-link") || n == "easy-install.pth" {
				if t, ok := g.Text(p); ok && strings.Contains(t, path.Clean(g.Env.Workdir)) {
					sites = append(sites, Site{Path: p})
				}
			}
		}
	}
	return sites
}
