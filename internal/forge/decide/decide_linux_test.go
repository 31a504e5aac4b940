package decide

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/repo"
)

func pythonProject(t *testing.T) *world {
	c := suiteCommand("unit", "PYTHONPATH=. /usr/bin/python3 -m pytest -q -p no:cacheprovider -o junit_family=xunit1 --junitxml=/tmp/r.xml", "pytest", "/tmp/r.xml")
	c.Select = c.Run + " {tests}"
	return project(t, "testdata/python", "", c, "/usr/bin/python3", "/usr/lib/python3/dist-packages/pytest")
}

func pythonChanges(w *world) []Change {
	return []Change{
		w.swap("add", "calc.py", "return a + b", "return a - b"),
		w.swap("clamp", "calc.py", "if n > LIMIT", "if n >= LIMIT"),
		w.swap("hang", "calc.py", "n -= 1", "n -= 0"),
		w.swap("import", "calc.py", "LIMIT = 10", "LIMIT = ten"),
		w.swap("syntax", "calc.py", "total = 0", "total = = 0"),
		w.swap("crash", "calc.py", "return total", "import os; os.kill(os.getpid(), 11)"),
		w.swap("exit", "calc.py", "return total", "import os; os._exit(0)"),
		w.swap("unused", "calc.py", "n * 2", "n * 3"),
	}
}

const pythonClasses = `add killed
clamp survived
crash killed
exit killed
hang timeout
import unviable
syntax unviable
unused survived`

func TestPython(t *testing.T) {
	w := pythonProject(t)
	changes := pythonChanges(w)
	warm := w.decide(Config{Concurrent: 2, Floor: 3 * time.Second}, changes...)
	if got := classes(warm); got != strings.Replace(pythonClasses, "unused survived", "unused uncovered", 1) {
		t.Errorf("warm:\n%s", got)
	}
	if v := warm["add"]; len(v.Failed) != 1 || v.Output == "" || v.Ran == 0 {
		t.Errorf("the first failure: %+v", v)
	}
	all := w.decide(Config{Concurrent: 2, Policy: AllCovering}, changes[0], changes[1])
	if v := all["add"]; !v.Whole || len(v.Failed) != 3 || v.Failed["unit:tests/test_calc.py::test_add"] != "failed" ||
		v.Failed["unit:tests/test_order.py::test_second"] != "failed" {
		t.Errorf("all failures: %+v", v)
	}
}

// A test that needs those before it decides nothing by itself.
func TestOrderDecidesNothing(t *testing.T) {
	w := pythonProject(t)
	w.env.Suite.Files = []string{"calc.py", "other.py"}
	for i := range w.env.Suite.Tests {
		x := &w.env.Suite.Tests[i]
		if x.Covers = []int{1}; strings.HasSuffix(x.ID, "::test_second") {
			x.Covers = []int{0}
		}
	}
	got := w.decide(Config{Policy: AllCovering}, w.swap("add", "calc.py", "return a + b", "return a - b"), w.swap("clamp", "calc.py", "if n > LIMIT", "if n >= LIMIT"))
	if v := got["add"]; v.Class != Killed || v.Ran < 7 || v.Failed["unit:tests/test_calc.py::test_add"] == "" { // the whole suite decides
		t.Errorf("%+v", v)
	}
	if v := got["clamp"]; v.Class != Survived {
		t.Errorf("%+v", v)
	}
	for i := range w.env.Suite.Tests {
		w.env.Suite.Tests[i].Covers = []int{1}
	}
	if v := w.decide(Config{}, w.swap("add", "calc.py", "return a + b", "return a - b"))["add"]; v.Class != Uncovered {
		t.Errorf("%+v", v)
	}
}

// The suite's own command, started anew each time, says the same.
func TestPythonCold(t *testing.T) {
	w := pythonProject(t)
	changes := slices.DeleteFunc(pythonChanges(w), func(c Change) bool { return c.ID == "hang" }) // its limits are the warm test's
	got := classes(w.decide(Config{Concurrent: 2, Cold: true}, changes...))
	if got != strings.Replace(pythonClasses, "hang timeout\n", "", 1) {
		t.Errorf("cold:\n%s", got)
	}
}

// What was decided stays, also when the journal's last line is torn; other
// ground decides anew.
// A name that the runner does not know ends its run at once; the other tests of
// that selection decide all the same.
func TestUnknownNameIsToldApart(t *testing.T) {
	w := pythonProject(t)
	w.env.Suite.Tests = append(w.env.Suite.Tests, repo.Test{ID: "tests/test_gone.py::test_gone", Command: "unit", Stability: repo.Stable, Millis: 1})
	got := w.decide(Config{Policy: AllCovering, Cold: true}, w.swap("add", "calc.py", "return a + b", "return a - b"), w.swap("clamp", "calc.py", "if n > LIMIT", "if n >= LIMIT"))
	if v := got["add"]; v.Class != Killed || v.Failed["unit:tests/test_calc.py::test_add"] == "" || v.Failed["unit:tests/test_gone.py::test_gone"] != "" {
		t.Errorf("%+v", v)
	}
	if v := got["clamp"]; v.Class != Survived {
		t.Errorf("%+v", v)
	}
}

func TestJournal(t *testing.T) {
	w := pythonProject(t)
	journal := filepath.Join(t.TempDir(), "verdicts.ndjson")
	changes := pythonChanges(w)[:2]
	c := Config{Journal: journal}
	d, err := New(t.Context(), Config{Env: w.env, Images: shared.images, Backend: shared.backend, Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	if err := d.Decide(t.Context(), slices.Values(changes), func(Verdict) error { return stop }); err != stop {
		t.Fatalf("%v", err)
	}
	d.Close()
	f, err := os.OpenFile(journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"ground":"`)
	f.Close()
	first := w.decide(c, changes...)
	lines := func() int {
		b, err := os.ReadFile(journal)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
	if lines() != 2 {
		t.Errorf("%d lines", lines())
	}
	again := w.decide(c, changes...)
	if lines() != 2 || again["add"].Took != first["add"].Took || again["add"].Patch != first["add"].Patch {
		t.Errorf("decided twice: %+v", again["add"])
	}
	w.env.Suite.Tests = slices.DeleteFunc(w.env.Suite.Tests, func(x repo.Test) bool {
		return strings.HasSuffix(x.ID, "test_add") || strings.HasSuffix(x.ID, "test_first")
	})
	if got := classes(w.decide(c, changes...)); got != "add survived\nclamp survived" || lines() != 4 {
		t.Errorf("other ground: %s, %d lines", got, lines())
	}
}

func TestCancel(t *testing.T) {
	w := pythonProject(t)
	ctx, cancel := context.WithCancel(t.Context())
	d, err := New(ctx, Config{Env: w.env, Images: shared.images, Backend: shared.backend})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	hang := w.swap("hang", "calc.py", "n -= 1", "n -= 0")
	err = d.Decide(ctx, func(yield func(Change) bool) {
		go cancel()
		yield(hang)
	}, func(Verdict) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Every patch is one that git takes, whatever the file's bytes and name are.
func TestPatch(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	for name, c := range map[string]struct{ old, new string }{
		"plain":           {"a\nb\nc\n", "a\nB\nc\n"},
		"no end":          {"a\nb", "a\nc"},
		"gets an end":     {"a\nb", "a\nb\n"},
		"loses its end":   {"a\nb\n", "a\nb"},
		"carriage":        {"a\r\nb\r\n", "a\r\nc\r\n"},
		"emptied":         {"a\n", ""},
		"filled":          {"", "a\n"},
		"not utf-8":       {"a\xff\n", "b\xff\n"},
		"blank lines":     {"\n\n\na\n\n", "\n\n\nb\n\n"},
		"far apart":       {strings.Repeat("x\n", 50), "y\n" + strings.Repeat("x\n", 48) + "y\n"},
		"dir/with\ttab":   {"a\n", "b\n"},
		"dir/spa ce":      {"a\n", "b\n"},
		"dir/\"quote\\é":  {"a\n", "b\n"},
		"-- a/dash":       {"-- a\n", "-- b\n++ c\n"},
		"new\x00file.txt": {"", "new\n"},
	} {
		t.Run(strings.ReplaceAll(name, "\x00", " "), func(t *testing.T) {
			dir := t.TempDir()
			old, files := map[string][]byte{name: []byte(c.old)}, map[string][]byte{name: []byte(c.new)}
			if strings.Contains(name, "\x00") {
				name = strings.ReplaceAll(name, "\x00", "-")
				old, files = nil, map[string][]byte{name: []byte(c.new)}
			}
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if old != nil {
				if err := os.WriteFile(at, []byte(c.old), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			p, err := Patch(old, files)
			if err != nil {
				t.Fatal(err)
			}
			git := exec.Command("git", "apply", "-")
			git.Dir, git.Stdin = dir, strings.NewReader(p)
			git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1")
			if out, err := git.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, p)
			}
			if got, err := os.ReadFile(at); err != nil || string(got) != c.new {
				t.Errorf("%q, %v\n%s", got, err, p)
			}
		})
	}
}
