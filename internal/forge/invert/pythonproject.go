package invert

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"

	"assay/internal/image"
)

// pythonProject are faults in a project's own files.
func pythonProject() []Operator {
	return []Operator{
		{
			Name: "pip-dead-index", Number: 15, Ecosystem: Python, Family: Config, Realism: 4,
			Hint: "where packages are installed from", Masked: "only a suite that installs meets it",
			Sites: func(g *Ground) []Site {
				if !g.usesPython() || !strings.Contains(g.Commands(), "pip ") {
					return nil
				}
				var sites []Site
				for _, at := range []string{"/etc/pip.conf", g.Home() + "/.config/pip/pip.conf"} {
					if !g.Has(at) {
						sites = append(sites, Site{Path: at, What: "no-index"}, Site{Path: at, What: "require-venv"}, Site{Path: at, What: "no-deps"}, Site{Path: at, What: "target"})
					}
				}
				return sites
			},
			Apply: func(g *Ground, s Site, _ *rand.Rand) (Fault, error) {
				text := map[string]string{
					"no-index":     "[global]\nno-index = true\nfind-links = /srv/wheels\nno-cache-dir = true\n",
					"require-venv": "[global]\nrequire-virtualenv = true\n",
					"no-deps":      "[install]\nno-deps = true\n",
					"target":       "[install]\ntarget = /opt/python-packages\n",
				}[s.What]
				return Fault{g.Write(s.Path, []byte(text)), map[string]string{"path": s.Path, "what": s.What}}, nil
			},
		},
		{
			Name: "pytest-config", Number: 16, Ecosystem: Python, Family: Config, Realism: 4,
			Hint:  "where the test runner finds its configuration",
			Sites: pytestSites,
			Apply: func(g *Ground, s Site, _ *rand.Rand) (Fault, error) {
				text := map[string]string{
					"functions": "[pytest]\npython_functions = check_*\n",
					"files":     "[pytest]\npython_files = *_tests.py\n",
					"paths":     "[pytest]\ntestpaths = integration\nnorecursedirs = test tests\naddopts = --strict-config\n",
					"options":   "[pytest]\naddopts = -p pytest_parallel_runner\n",
					"warnings":  "[pytest]\nfilterwarnings = error\n",
					"version":   "[pytest]\nminversion = 99.0\n",
				}[s.What]
				return Fault{g.Write(s.Path, []byte(text)), map[string]string{"path": s.Path, "what": s.What}}, nil
			},
		},
		{
			Name: "python-package-init", Number: 17, Ecosystem: Python, Family: FileState, Realism: 4,
			Hint: "whether every package still is one", Masked: "a package without a first file is a namespace",
			Sites: func(g *Ground) []Site {
				if !g.usesPython() {
					return nil
				}
				var sites []Site
				for _, p := range g.Sources("/__init__.py") {
					if e, ok := g.Entry(p); ok && e.Type == image.TypeFile && e.Size > 0 {
						sites = append(sites, Site{Path: p, What: "__init___.py"}, Site{Path: p, What: "_init_.py"}, Site{Path: p, What: "__int__.py"})
					}
				}
				return sites
			},
			Apply: func(g *Ground, s Site, _ *rand.Rand) (Fault, error) {
				to := path.Join(path.Dir(s.Path), s.What)
				d, err := g.Move(s.Path, to)
				return Fault{d, map[string]string{"from": s.Path, "to": to}}, err
			},
		},
		{
			Name: "python-namespace-clash", Number: 17, Ecosystem: Python, Family: FileState, Realism: 3,
			Hint: "which file a module that is imported really comes from",
			Sites: func(g *Ground) []Site {
				if !g.usesPython() {
					return nil
				}
				var sites []Site
				// A package comes before a module of the same name.
				for _, p := range g.Sources(".py") {
					dir := strings.TrimSuffix(p, ".py")
					if n := path.Base(dir); !strings.HasPrefix(n, "_") && n != "setup" && !strings.HasPrefix(n, "test") && n != "conftest" && !g.Has(dir) && g.Has(path.Dir(p)+"/__init__.py") {
						sites = append(sites, Site{Path: dir + "/__init__.py"})
					}
				}
				return sites
			},
			Apply: func(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
				name := path.Base(path.Dir(s.Path))
				if g.Has(path.Dir(s.Path)) {
					return Fault{}, fmt.Errorf("%w: %s", errSite, s)
				}
				text := pick(rng, "", "\"\"\"The parts of "+name+".\"\"\"\n")
				return Fault{g.Write(s.Path, []byte(text)), map[string]string{"path": s.Path, "shadows": name}}, nil
			},
		},
	}
}

// pytestSites: a configuration that comes before the project's own. An ini
// file wins over pyproject.toml, setup.cfg and tox.ini, and one in a directory
// nearer to the tests over one further away.
func pytestSites(g *Ground) []Site {
	if !g.usesPython() || !strings.Contains(g.Commands(), "pytest") {
		return nil
	}
	var sites []Site
	for _, n := range []string{"pytest.ini", ".pytest.ini"} {
		at := g.Dir() + "/" + n
		if g.Has(g.Dir()+"/pytest.ini") || g.Has(at) || !g.Ours(at) {
			continue
		}
		for _, v := range []string{"functions", "files", "paths", "options", "warnings", "version"} {
			sites = append(sites, Site{Path: at, What: v})
		}
	}
	return sites
}
