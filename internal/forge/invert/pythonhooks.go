package invert

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"assay/internal/image"
)

// hook is what an interpreter does when it starts.
type hook struct{ name, text string }

func startupHooks() []hook {
	return []hook{
		{"recursion", "# keep runaway recursion from eating the stack\nimport sys\nsys.setrecursionlimit(75)\n"},
		{"encoding", "# scripts of the build host expect plain text\nimport builtins\n_open = builtins.open\n\n\ndef open(file, mode=\"r\", buffering=-1, encoding=None, *rest, **more):\n    if encoding is None and \"b\" not in mode:\n        encoding = \"ascii\"\n    return _open(file, mode, buffering, encoding, *rest, **more)\n\n\nbuiltins.open = open\n"},
		{"warnings", "# be strict, as the release build is\nimport warnings\nwarnings.simplefilter(\"error\")\n"},
		{"temporary", "# all temporary files on the scratch disk\nimport tempfile\ntempfile.tempdir = \"/mnt/scratch\"\n"},
		{"integers", "# cap the size of printed numbers\nimport sys\nif hasattr(sys, \"set_int_max_str_digits\"):\n    sys.set_int_max_str_digits(640)\n"},
		{"locale", "# one number format everywhere\nimport os\nos.environ[\"LC_ALL\"] = \"C\"\nos.environ[\"TZ\"] = \"Pacific/Kiritimati\"\nimport time\ntime.tzset()\n"},
		{"network", "# builds must not open connections\nimport socket\n\n\ndef _closed(*args, **more):\n    raise OSError(\"sockets are switched off on this host\")\n\n\nsocket.socket = _closed\n"},
		{"path", "# imports come from installed packages alone\nimport sys\nsys.path[:] = [p for p in sys.path if p not in (\"\", \".\") and not p.startswith(\"WORKDIR\")]\n"},
	}
}

// pythonHooks are faults in what an interpreter runs by itself.
func pythonHooks() []Operator {
	return []Operator{
		{
			Name: "python-startup-hook", Number: 7, Ecosystem: Python, Family: Config, Realism: 3,
			Hint:   "what the interpreter runs before the program itself",
			Masked: "a distribution's own sitecustomize comes first; a .pth file is read all the same",
			Sites: func(g *Ground) []Site {
				var sites []Site
				for _, site := range g.usedSites() {
					for _, h := range startupHooks() {
						sites = append(sites, Site{Path: site + "/sitecustomize.py", What: h.name}, Site{Path: site + "/host-settings.pth", What: h.name})
					}
				}
				return slices.DeleteFunc(sites, func(s Site) bool { return g.Has(s.Path) })
			},
			Apply: func(g *Ground, s Site, _ *rand.Rand) (Fault, error) {
				i := slices.IndexFunc(startupHooks(), func(h hook) bool { return h.name == s.What })
				if i < 0 {
					return Fault{}, fmt.Errorf("%w: %s", errSite, s)
				}
				text := strings.ReplaceAll(startupHooks()[i].text, "WORKDIR", g.Dir())
				facts := map[string]string{"path": s.Path, "hook": s.What}
				if path.Base(s.Path) == "sitecustomize.py" {
					return Fault{g.Write(s.Path, []byte(text)), facts}, nil
				}
				d := g.Write(path.Dir(s.Path)+"/host_settings.py", []byte(text))
				return Fault{append(d, g.Write(s.Path, []byte("import host_settings\n"))...), facts}, nil
			},
		},
		{
			Name: "python-stale-bytecode", Number: 10, Ecosystem: Python, Family: Exotic, Realism: 2,
			Hint:  "whether what runs is what the sources say",
			Sites: bytecodeSites,
			Apply: staleBytecode,
		},
	}
}

// bytecodeSites are compiled modules, of packages that the project uses, with
// a text in them that can become another.
func bytecodeSites(g *Ground) []Site {
	if !g.usesPython() {
		return nil
	}
	var sites []Site
	look := func(top string) {
		for _, e := range g.List(top + "/__pycache__") {
			p := "/" + e.Path
			if strings.HasSuffix(p, ".pyc") && !strings.Contains(p, ".opt-") && e.Size < 60<<10 && len(sites) < 24 {
				if b, ok := g.Bytes(p); ok && constantAt(b) > 0 {
					sites = append(sites, Site{Path: p})
				}
			}
		}
	}
	for _, p := range g.pythonPackages() {
		look(p)
	}
	for _, d := range g.dists() {
		for _, top := range d.tops {
			if e, ok := g.Entry(top); ok && e.Type == image.TypeDir {
				look(top)
			}
		}
	}
	return sites
}

// constantAt finds the name of a definition in a compiled module: a short
// interned string, in marshal's form 'Z' or 'z' and a length, that is an
// ordinary identifier. Its last letter is what changes. 0: there is none.
func constantAt(b []byte) int {
	for i := 16; i+2 < len(b); i++ {
		c := b[i] &^ 0x80 // a flag of references
		n := int(b[i+1])
		if c != 'Z' && c != 'z' || n < 5 || n > 20 || i+2+n > len(b) {
			continue
		}
		word := b[i+2 : i+2+n]
		plain := word[0] != '_'
		for _, x := range word {
			plain = plain && (x >= 'a' && x <= 'z' || x == '_')
		}
		if plain && word[n-1] != 'q' {
			return i + 2 + n - 1
		}
	}
	return 0
}

// staleBytecode makes a compiled module another's, and marks it as one whose
// source is never compared: PEP 552, flags 0b01.
func staleBytecode(g *Ground, s Site, _ *rand.Rand) (Fault, error) {
	was, ok := g.Bytes(s.Path)
	at := constantAt(was)
	if !ok || at == 0 {
		return Fault{}, fmt.Errorf("%w: %s", errSite, s)
	}
	b := slices.Clone(was)
	b[at] = 'q'
	binary.LittleEndian.PutUint32(b[4:], 1)
	return Fault{g.Write(s.Path, b), map[string]string{"path": s.Path}}, nil
}

// pythonVariables are faults in the variables that an interpreter and its test
// runner read.
func pythonVariables() []Operator {
	only := func(f func(g *Ground) []Payload) func(g *Ground) []Payload {
		return func(g *Ground) []Payload {
			if !g.usesPython() {
				return nil
			}
			return f(g)
		}
	}
	one := func(name, file, why string, lines ...string) Payload {
		return Payload{Name: name, File: file, Why: why, Lines: lines, Tool: "python3"}
	}
	return []Operator{
		Carried(Operator{
			Name: "python-optimised", Number: 9, Ecosystem: Python, Family: Config, Realism: 3,
			Hint: "in which mode the interpreter runs", Masked: "pytest keeps the assertions of test files",
		}, only(func(*Ground) []Payload {
			return []Payload{one("O", "python", "faster start", export("PYTHONOPTIMIZE", "1")), one("OO", "python", "smaller memory", export("PYTHONOPTIMIZE", "2"))}
		})),
		Carried(Operator{
			Name: "python-mode", Ecosystem: Python, Family: Config, Realism: 4,
			Hint: "which variables the interpreter reads when it starts",
		}, only(func(*Ground) []Payload {
			return []Payload{
				one("safe-path", "python", "do not import from the working directory", export("PYTHONSAFEPATH", "1")),
				one("home", "python", "the build's own interpreter", export("PYTHONHOME", "/usr/local")),
				one("hash-seed", "python", "reproducible builds", export("PYTHONHASHSEED", "fixed")),
				one("warnings", "python", "strict as in the release build", export("PYTHONWARNINGS", "error")),
				one("encoding", "python", "plain output for the log collector", export("PYTHONIOENCODING", "ascii"), export("PYTHONUTF8", "0"), export("PYTHONCOERCECLOCALE", "0"), export("LC_ALL", "C")),
				one("isolated", "python", "packages of the system alone", export("PYTHONNOUSERSITE", "1")),
				one("digits", "python", "cap the size of printed numbers", export("PYTHONINTMAXSTRDIGITS", "640")),
				one("cache", "python", "byte code on the scratch disk", export("PYTHONPYCACHEPREFIX", "/dev/null/cache")),
			}
		})),
		Carried(Operator{
			Name: "pytest-options", Number: 16, Ecosystem: Python, Family: Config, Realism: 4,
			Hint: "with which options the test runner starts",
		}, func(g *Ground) []Payload {
			if !g.usesPython() || !strings.Contains(g.Commands(), "pytest") {
				return nil
			}
			opt := func(name, why, value string) Payload {
				return Payload{Name: name, File: "pytest", Why: why, Tool: "pytest", Lines: []string{export("PYTEST_ADDOPTS", value)}}
			}
			return []Payload{
				opt("plugin", "the plugin that everybody has", "-p pytest_parallel_runner"),
				opt("no-python", "quiet", "-p no:python"),
				opt("warnings", "strict as in the release build", "-W error"),
				opt("keyword", "only what the release needs", "-k 'smoke or release'"),
				opt("ignored", "skip what is slow", "--ignore-glob='*test_[a-m]*'"),
				opt("no-tmpdir", "no temporary directories", "-p no:tmpdir"),
				opt("no-fixtures", "less output", "-p no:capture -p no:monkeypatch"),
				opt("config", "one configuration for all projects", "-c /etc/pytest.ini"),
				opt("confcut", "no configuration of others", "--noconftest"),
				opt("autoload", "", "-p no:unittest"),
				{Name: "no-plugins", File: "pytest", Why: "start faster", Tool: "pytest", Lines: []string{export("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")}},
				{Name: "plugins", File: "pytest", Why: "timings for the dashboard", Tool: "pytest", Lines: []string{export("PYTEST_PLUGINS", "ci_timings")}},
			}
		}),
	}
}
