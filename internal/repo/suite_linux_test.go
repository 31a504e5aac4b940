package repo

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/remove"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

// TestMain lets the test binary be the sandboxes' keeper and init.
func TestMain(m *testing.M) {
	if code, handled := ns.Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// world is a place for suites upon this machine's own tools.
type world struct {
	backend sandbox.Backend
	store   *image.Store
	host    image.Image
}

// newWorld skips t where there are no sandboxes or one of the tools is missing.
func newWorld(t *testing.T, tools ...string) *world {
	t.Helper()
	for _, tool := range tools {
		if _, err := os.Stat(tool); err != nil {
			t.Skip("this machine has no " + tool)
		}
	}
	dir, err := os.MkdirTemp("", "assay-test-")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	t.Cleanup(func() {
		if err := remove.Tree(dir); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	for _, f := range ns.Probe(t.Context(), ns.Config{Scratch: image.HostPath(dir)}) {
		if !f.OK {
			t.Skip("no sandbox here: " + f.Name + ": " + f.Detail)
		}
	}
	st, err := image.Open(image.HostPath(filepath.Join(dir, "store")), image.Options{Owner: ns.Owner(), Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(context.Background(), ns.Config{Store: st, Scratch: image.HostPath(dir)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	host, err := st.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{b, st, host}
}

// image is the host's tools with a repository in /app.
func (w *world) image(t *testing.T, files map[string]string) image.Image {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "etc/profile", "export PATH=/usr/local/go/bin:/usr/bin:/bin HOME=/root GOCACHE=/tmp/gocache GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local CARGO_NET_OFFLINE=true CARGO_HOME=/tmp/cargo\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		put(t, dir, "app/"+name, files[name])
	}
	id, err := w.store.FromDir(t.Context(), image.HostPath(dir), image.DirOptions{Squash: true})
	if err != nil {
		t.Fatal(err)
	}
	im := w.host
	im.Name, im.Layers = "test", append(slices.Clone(im.Layers), id)
	im.Config.Workdir = "/app"
	return im
}

// warmed is an image in which a line has run, so that caches hold what compilers
// made of their own libraries.
func (w *world) warmed(t *testing.T, im image.Image, line string) image.Image {
	t.Helper()
	sb, err := w.backend.Create(t.Context(), sandbox.Spec{Image: im})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	res, err := sandbox.Exec(t.Context(), sb, sandbox.Command{Args: []string{"/bin/sh", "-c", ". /etc/profile; " + line}}, sandbox.ExecOptions{Timeout: 8 * time.Minute})
	if err != nil || res.Exit.Code != 0 {
		t.Fatalf("%s: %+v %s, %v", line, res.Exit, tailOf(res), err)
	}
	snap, err := sb.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.backend.Commit(t.Context(), snap)
	if err != nil {
		t.Fatal(err)
	}
	im.Layers = append(slices.Clone(im.Layers), id)
	return im
}

// run runs a suite by one runner.
func (w *world) run(t *testing.T, runner string, o RunnerOptions, files map[string]string, change func(*SuiteConfig)) (Suite, error) {
	t.Helper()
	r, err := RunnerNamed(runner)
	if err != nil {
		t.Fatal(err)
	}
	c := SuiteConfig{Backend: w.backend, Image: w.image(t, files), Commands: []Command{r.Command(o)}, Limit: 2 * time.Minute, Seed: 1, Say: t.Logf}
	if change != nil {
		change(&c)
	}
	return RunSuite(t.Context(), c)
}

func (s *Suite) byStability(of Stability) []string {
	var out []string
	for _, t := range s.Tests {
		if t.Stability == of {
			out = append(out, t.ID)
		}
	}
	slices.Sort(out)
	return out
}

func (s *Suite) finding(kind FindingKind) *Finding {
	for i := range s.Findings {
		if s.Findings[i].Kind == kind {
			return &s.Findings[i]
		}
	}
	return nil
}

// systemPython has pytest beside it.
func systemPython(t *testing.T) string {
	t.Helper()
	if err := exec.Command("/usr/bin/python3", "-c", "import pytest").Run(); err != nil {
		t.Skip("/usr/bin/python3 has no pytest (apt-get install python3-pytest)")
	}
	return "/usr/bin/python3"
}

const pythonShop = `
RATE = 2

def price(n):
    if n < 0:
        raise ValueError(n)
    return n * RATE

def unused():
    return 1
`

func TestSuiteOfPython(t *testing.T) {
	w := newWorld(t)
	s, err := w.run(t, "pytest", RunnerOptions{Name: "unit", Program: systemPython(t)}, map[string]string{
		"shop/__init__.py": "", "shop/price.py": pythonShop, "shop/other.py": "def twice(x):\n    return [x, x]\n", "conftest.py": "",
		"tests/test_price.py": `
import os, sys, time, subprocess
import pytest
from shop import price, other

@pytest.fixture(scope="module")
def shared():
    return other.twice(3)

@pytest.mark.parametrize("n", [1, 2])
def test_price(n):
    assert price.price(n) == 2 * n

def test_shared(shared):
    assert shared == [3, 3]

def test_shared_again(shared):
    assert len(shared) == 2

def test_child():
    subprocess.run(["/bin/true"], check=True)

@pytest.mark.skip
def test_skipped():
    pass

def test_failing():
    assert price.price(1) == 3

def test_flaky():
    assert os.environ["PYTHONHASHSEED"] != "3"  # the third run's

def test_zone():
    assert time.timezone == 5 * 3600

@pytest.mark.parametrize("now", [str(time.time())])
def test_moving(now):
    pass
`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stable := []string{"tests/test_price.py::test_child", "tests/test_price.py::test_price[1]", "tests/test_price.py::test_price[2]", "tests/test_price.py::test_shared", "tests/test_price.py::test_shared_again"}
	if got := s.byStability(Stable); !slices.Equal(got, stable) {
		t.Errorf("stable: %q", got)
	}
	if got := s.byStability(Failing); !slices.Equal(got, []string{"tests/test_price.py::test_failing", "tests/test_price.py::test_zone"}) {
		t.Errorf("failing: %q", got)
	}
	if got := s.byStability(Flaky); !slices.Equal(got, []string{"tests/test_price.py::test_flaky"}) {
		t.Errorf("flaky: %q", got)
	}
	if f := s.finding(NeedZone); f == nil || f.Env["TZ"] != "America/New_York" || !slices.Equal(f.Tests, []string{"tests/test_price.py::test_zone"}) {
		t.Errorf("the time zone: %+v", f)
	}
	if f := s.finding(UnstableIDs); f == nil || f.Count < 2 {
		t.Errorf("ids that move: %+v", f)
	}
	c := s.Coverage()
	reach := func(file string, line int) map[string]Reach {
		out := map[string]Reach{}
		for i, how := range c.Covering(map[string][]int{file: {line}}) {
			_, name, _ := strings.Cut(s.Tests[i].ID, "::")
			out[name] = how
		}
		return out
	}
	if got := reach("shop/price.py", 7); got["test_price[1]"] != Runs || got["test_shared"] != Apart || got["test_child"] != Perhaps {
		t.Errorf("who runs price(): %v", got)
	}
	if got := reach("shop/price.py", 2); got["test_price[1]"] != Runs || got["test_shared"] != Perhaps {
		t.Errorf("whom the rate concerns: %v", got)
	}
	if got := reach("shop/price.py", 10); got["test_price[1]"] != Beside || got["test_shared"] != Apart {
		t.Errorf("who runs what nobody runs: %v", got)
	}
	if got := reach("shop/other.py", 2); got["test_shared"] != Runs || got["test_shared_again"] != Runs || got["test_price[1]"] != Apart {
		t.Errorf("who runs what a shared fixture runs: %v", got)
	}
	dir := t.TempDir()
	if err := WriteEnvironment(dir, &Environment{Name: "shop", Workdir: "/app", Suite: s}); err != nil {
		t.Error(err)
	} else if _, err := ReadEnvironment(dir); err != nil {
		t.Error(err)
	}
	if s.Runs != 3 || s.Millis <= 0 || s.Commands[0].BaselineMillis <= 0 || s.Tests[0].File != "tests/test_price.py" || !slices.Contains(s.TestFiles, "tests/**") {
		t.Errorf("suite: %+v", s)
	}
}

func TestSuitesThatCannotDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	python := systemPython(t)
	for name, c := range map[string]struct {
		runner string
		files  map[string]string
		want   FindingKind
		says   string
		change func(*SuiteConfig)
	}{
		"none":       {"pytest", map[string]string{"a.py": ""}, NoTests, "found no test (exit status 5)", nil},
		"collection": {"pytest", map[string]string{"test_a.py": "import no_such_thing\ndef test_a(): pass\n"}, Collection, "No module named 'no_such_thing'", nil},
		"internal":   {"pytest", map[string]string{"conftest.py": "def pytest_collection_modifyitems(): raise ValueError('odd')\n", "test_a.py": "def test_a(): pass\n"}, Crash, "internal error", nil},
		"hang":       {"pytest", map[string]string{"test_a.py": "import time\ndef test_a(): pass\ndef test_b(): time.sleep(600)\n"}, Hang, "in the midst of test_a.py::test_b", func(c *SuiteConfig) { c.Limit = 12 * time.Second }},
		"network":    {"pytest", map[string]string{"test_a.py": "import socket\ndef test_a(): socket.create_connection(('example.org', 80))\n"}, NeedNetwork, "network", nil},
		"flaky":      {"pytest", map[string]string{"test_a.py": "import os\ndef test_a(): assert os.environ['PYTHONHASHSEED'] == '2'\n"}, NoneStable, "no test passes in every run", nil},
		"no program": {"make", map[string]string{"a": ""}, FailingTest, "fail in every run", func(c *SuiteConfig) { c.Commands[0].Run = "no-such-program" }},
		"no report":  {"pytest", map[string]string{"a": ""}, NoReport, "no-such-program", func(c *SuiteConfig) { c.Commands[0].Run = "no-such-program" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := RunnerOptions{}
			if c.runner == "pytest" {
				o.Program = python
			}
			s, err := w.run(t, c.runner, o, c.files, c.change)
			var none *SuiteError
			if !errors.As(err, &none) {
				t.Fatalf("error: %v", err)
			}
			if f := s.finding(c.want); f == nil || !strings.Contains(f.String(), c.says) {
				t.Errorf("%s: %+v\n%v", c.want, f, err)
			}
		})
	}
}

// A suite that is too long is cut to its first files. The times leave a busy
// machine some seconds before the first test.
func TestLongSuite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := w.run(t, "pytest", RunnerOptions{Program: systemPython(t)}, map[string]string{
		"test_a.py": "import time\ndef test_a(): time.sleep(3)\n", "test_b.py": "import time\ndef test_b(): time.sleep(5.5)\n", "test_c.py": "import time\ndef test_c(): time.sleep(60)\n",
	}, func(c *SuiteConfig) { c.Limit, c.Runs, c.NoCoverage, c.NoVariants = 15*time.Second, 1, true, true })
	if err != nil {
		t.Fatal(err)
	}
	if got := s.byStability(Stable); !slices.Equal(got, []string{"test_a.py::test_a"}) || s.finding(Partial) == nil || !strings.HasSuffix(s.Commands[0].Run, " test_a.py") {
		t.Errorf("%q, %+v", got, s)
	}
}

func TestSuiteOfGo(t *testing.T) {
	w := newWorld(t, "/usr/local/go/bin/go")
	s, err := w.run(t, "go", RunnerOptions{}, map[string]string{
		"go.mod":          "module example.org/shop\n\ngo 1.21\n",
		"price/price.go":  "package price\n\nvar Rate = 2\n\nfunc Price(n int) int {\n\tif n < 0 {\n\t\treturn 0\n\t}\n\treturn n * Rate\n}\n",
		"sum/sum.go":      "package sum\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n",
		"sum/sum_test.go": "package sum\n\nimport (\n\t\"testing\"\n\n\t\"example.org/shop/price\"\n)\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n\nfunc TestPrice(t *testing.T) {\n\tt.Run(\"one\", func(t *testing.T) {\n\t\tif price.Price(1) != 2 {\n\t\t\tt.Fatal()\n\t\t}\n\t})\n}\n\nfunc TestBad(t *testing.T) { t.Fatal() }\n",
	}, func(c *SuiteConfig) {
		c.Runs, c.NoVariants = 2, true
		c.Image = w.warmed(t, c.Image, "go test ./... >/dev/null; true")
	})
	if err != nil {
		t.Fatal(err)
	}
	const pkg = "example.org/shop/sum::"
	if got := s.byStability(Stable); !slices.Equal(got, []string{pkg + "TestPrice", pkg + "TestPrice/one", pkg + "TestSum"}) {
		t.Errorf("stable: %q", got)
	}
	c := s.Coverage()
	want := func(file string, line int, test string, how Reach) {
		t.Helper()
		for i, got := range c.Covering(map[string][]int{file: {line}}) {
			if s.Tests[i].ID == pkg+test && got != how {
				t.Errorf("%s:%d is to %s %v, want %v", file, line, test, got, how)
			}
		}
	}
	want("price/price.go", 9, "TestPrice/one", Runs)
	want("price/price.go", 7, "TestPrice/one", Beside)
	want("price/price.go", 9, "TestSum", Apart)
	want("price/price.go", 3, "TestSum", Perhaps)
	want("sum/sum.go", 4, "TestSum", Runs)
	want("sum/sum.go", 4, "TestPrice", Apart)
	if s.Tests[0].File != "sum/sum_test.go" {
		t.Errorf("files of tests: %+v", s.Tests)
	}
	some := []Test{}
	for _, x := range s.Tests {
		if x.ID == pkg+"TestSum" {
			some = append(some, x)
		}
	}
	if line, ok := Select(s.Commands[0], some); !ok || !strings.HasSuffix(line, "-run '^(TestSum)$' example.org/shop/sum") {
		t.Errorf("a selection: %q", line)
	}
}

func TestSuitesOfNode(t *testing.T) {
	w := newWorld(t, "/usr/bin/node")
	files := map[string]string{
		"lib/price.js":       "'use strict'\nconst RATE = 2\nfunction price (n) {\n  if (n < 0) throw new Error('n')\n  return n * RATE\n}\nfunction unused () {\n  return 1\n}\nmodule.exports = { price, unused }\n",
		"lib/sum.js":         "exports.sum = function (a, b) {\n  return a + b\n}\n",
		"test/price.test.js": "const { test } = require('node:test')\nconst assert = require('assert')\ntest('price', () => { assert.equal(require('../lib/price').price(1), 2) })\n",
		"test/sum.test.js":   "const { test } = require('node:test')\nconst assert = require('assert')\ntest('sum', () => { assert.equal(require('../lib/sum').sum(1, 2), 3) })\ntest('bad', () => { assert.equal(1, 2) })\n",
		"test/tap.js":        "const { price } = require('../lib/price')\nconsole.log('TAP version 13\\n1..1\\n' + (price(2) === 4 ? 'ok' : 'not ok') + ' 1 - doubles')\n",
	}
	for runner, c := range map[string]struct {
		o              RunnerOptions
		stable, priced string
	}{
		"node-test": {RunnerOptions{Args: "test/price.test.js test/sum.test.js"}, "test/price.test.js > price|test/sum.test.js > sum", "test/price.test.js > price"},
		"tape":      {RunnerOptions{Program: "node", Args: "test/tap.js"}, "doubles", "doubles"},
	} {
		s, err := w.run(t, runner, c.o, files, func(c *SuiteConfig) { c.Runs, c.NoVariants = 2, true })
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.byStability(Stable), "|"); got != c.stable {
			t.Errorf("%s: stable: %q", runner, got)
		}
		cover := s.Coverage()
		for line, want := range map[int]Reach{5: Runs, 8: Beside, 2: Runs} {
			for i, how := range cover.Covering(map[string][]int{"lib/price.js": {line}}) {
				if s.Tests[i].ID == c.priced && how != want {
					t.Errorf("%s: line %d is to %s %v, want %v\n%+v", runner, line, c.priced, how, want, s)
				}
				if s.Tests[i].ID == "test/sum.test.js > sum" && line == 5 && how != Apart {
					t.Errorf("line %d is to the other file %v", line, how)
				}
			}
		}
	}
}
