//go:build linux

package setup

import (
	"strings"
	"testing"
	"time"
)

func TestSatisfies(t *testing.T) {
	for _, c := range []struct {
		version, want string
		ok            bool
	}{
		{"3.13", ">=3.8", true}, {"3.13", ">=3.8,<3.12", false}, {"3.11", ">=3.8,<3.12", true}, {"3.13", "~=3.11", true}, {"3.13", "!=3.13", false},
		{"20", ">=18", true}, {"20", "^18", false}, {"20", "^18 || ^20", true}, {"20", ">=20.1.0", true}, {"20", "16.x", false}, {"20", ">= 0.10.0", true},
		{"21", "<20", false}, {"17", "<20", true}, {"1.85", ">=1.90", false}, {"3.13", "what?", true},
	} {
		if got := satisfies(c.version, c.want); got != c.ok {
			t.Errorf("%s and %q: %v", c.version, c.want, got)
		}
	}
}

func TestWhatIsRecognised(t *testing.T) {
	for name, c := range map[string]struct {
		files            map[string]string
		eco, system, has string
	}{
		"python": {map[string]string{"setup.cfg": "[metadata]\nname = x\n[options.extras_require]\ntests =\n  mock\n", "setup.py": "", "x.py": "x = 1\n"}, "python", "setuptools", "pip install -e .[tests] pytest"},
		"go":     {map[string]string{"go.mod": "module x\n", "x.go": "package x\n", "Makefile": "test:\n\tgo test\n"}, "go", "go", "go mod download"},
		"rust":   {map[string]string{"Cargo.toml": "[package]\n", "src/lib.rs": "fn x() {}\n"}, "rust", "cargo", "cargo test --no-run"},
		"npm":    {map[string]string{"package.json": `{"scripts": {"test": "mocha --bail -R spec 'test/*.js'"}, "devDependencies": {"mocha": "1"}}`, "x.js": "1\n", "package-lock.json": "{}"}, "javascript", "npm", "npm ci"},
		"maven":  {map[string]string{"pom.xml": "<project/>", "src/main/java/X.java": "class X {}\n"}, "java", "maven", "mvn -B -q test"},
		"cmake":  {map[string]string{"CMakeLists.txt": "option(X_BUILD_TESTS \"t\" OFF)\n", "x.cpp": "int x;\n"}, "c", "cmake", "-DX_BUILD_TESTS=ON"},
	} {
		tr, err := readTree(repository(t, c.files))
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := recognise(tr, "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.name = "x"
		r, err := p.recipe()
		if err != nil || r.Ecosystem != c.eco || r.System != c.system || !strings.Contains(strings.Join(r.Install, "\n"), c.has) || len(r.Tests) != 1 {
			t.Errorf("%s: %v %+v", name, err, r)
		}
		if name == "npm" && (strings.Contains(r.Tests[0].Run, "--bail") || !strings.Contains(r.Tests[0].Run, "'test/*.js'")) {
			t.Errorf("mocha: %s", r.Tests[0].Run)
		}
	}
}

// A recipe, from whomever, decodes to one whose Dockerfile has the instructions
// that we write and no other.
func FuzzRecipe(f *testing.F) {
	r := Recipe{Version: 1, Name: "x", Base: "debian:trixie", Install: []string{"make"}, Tests: []RecipeTest{{Name: "t", Run: "make check"}}}
	b, err := r.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("version = 1\nname = 'x'\nbase = 'a'\ninstall = ['a <<EOF']\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecipe("recipe.toml", b)
		if err != nil {
			return
		}
		if strings.Contains(r.dockerfileText("base", time.Time{}), "\nFROM evil") {
			t.Errorf("an instruction was smuggled in: %q", b)
		}
	})
}
