package mutate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/forge"
	"assay/internal/forge/decide"
	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/syntax"
)

const signer = `import re


class Signer:
    """Signs texts."""

    sep = "."

    def __init__(self, key, sep=None):
        if sep is None:
            sep = self.sep
        self.key = key
        self.sep = sep

    def sign(self, text):
        if not text:
            raise ValueError("nothing to sign")
        return text + self.sep + self.key

    def unsign(self, signed):
        if self.sep not in signed:
            raise ValueError("no separator")
        text, key = signed.rsplit(self.sep, 1)
        if key != self.key:
            raise ValueError("bad key")
        return text
`

const tools = `def clean(name, strict=False):
    name = name.strip()
    if strict and not name:
        raise ValueError("empty")
    return name.lower()


def pairs(text):
    out = {}
    for part in text.split(","):
        key, value = part.split("=", 1)
        out[clean(key)] = value
    return out
`

const tests = `from app.signer import Signer


def test_unsign_finds_the_text():
    s = Signer("k")
    assert s.unsign(s.sign("a.b")) == "a.b"


def test_pairs():
    assert pairs("a=1") == {"a": "1"}
`

// world is a healthy tree of a small project.
func world(t *testing.T) *forge.World {
	t.Helper()
	s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, dir := range []string{"app", "app/src", "app/tests", "app/vendor"} {
		if err := w.Add(image.Entry{Path: dir, Type: image.TypeDir, Mode: 0o755, ModTime: time.Unix(1e9, 0)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"src/signer.py": signer, "src/tools.py": tools, "tests/test_signer.py": tests, "vendor/six.py": tools, "src/data_pb2.py": tools} {
		e := image.Entry{Path: "app/" + name, Type: image.TypeFile, Mode: 0o640, UID: 7, GID: 8, ModTime: time.Unix(1e9, 0)}
		if err := w.Add(e, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	view, err := s.View([]image.LayerID{id})
	if err != nil {
		t.Fatal(err)
	}
	env := &repo.Environment{Name: "small", Workdir: "/app", Suite: repo.Suite{TestFiles: []string{"tests"}}}
	for i := range 20 {
		env.Suite.Tests = append(env.Suite.Tests, repo.Test{ID: fmt.Sprintf("tests/test_signer.py::test_%d", i), Command: "pytest", Stability: repo.Stable})
	}
	return &forge.World{Env: env, Tree: view, Images: s, Seed: 3, Say: t.Logf}
}

// judge decides by what a change is, and tells it in an order of its own:
// backwards, a batch at a time.
func judge(batch int) Decide {
	return func(_ context.Context, _ *forge.World, changes iter.Seq[decide.Change], yield func(decide.Verdict) error) error {
		var held []decide.Verdict
		flush := func() error {
			slices.Reverse(held)
			for _, v := range held {
				if err := yield(v); err != nil {
					return err
				}
			}
			held = nil
			return nil
		}
		for c := range changes {
			v := decide.Verdict{ID: c.ID, Class: decide.Survived, Ran: 20, Whole: true}
			switch c.ID[0] % 5 {
			case 0, 1:
				v.Class, v.Failed = decide.Killed, map[string]string{"pytest:tests/test_signer.py::test_" + c.ID[1:2]: "failed"}
			case 2:
				v.Class, v.Failed = decide.Killed, map[string]string{}
				for i := range 15 {
					v.Failed[fmt.Sprintf("pytest:tests/test_signer.py::test_%d", i)] = "failed"
				}
			case 3:
				v.Class = decide.Unviable
			}
			if held = append(held, v); len(held) == batch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	}
}

func TestPropose(t *testing.T) {
	p := grammarsOf(t, syntax.Python)
	w := world(t)
	collect := func(batch int) []forge.Candidate {
		var out []forge.Candidate
		if err := New(Config{Parser: p, Decide: judge(batch)}).Propose(t.Context(), w, func(c forge.Candidate) error {
			out = append(out, c)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := collect(1)
	if again := collect(17); fmt.Sprint(names(all)) != fmt.Sprint(names(again)) {
		t.Errorf("the order of the verdicts changes the candidates:\n%v\n%v", names(all), names(again))
	}
	if len(all) < 20 || len(slices.Compact(slices.Sorted(slices.Values(names(all))))) != len(all) {
		t.Errorf("%d candidates: %v", len(all), names(all))
	}
	far, broad := 0, false
	for _, c := range all {
		if len(c.Broken) > 1 {
			far++
		}
		if len(c.Expect) > 8 {
			broad = true
		} else if broad {
			t.Errorf("%s comes after those that many tests see", c.Name)
		}
		for _, e := range c.Broken {
			if e.Path != "/app/src/signer.py" && e.Path != "/app/src/tools.py" || e.Mode != 0o640 || e.UID != 7 || e.GID != 8 || e.Type != image.TypeFile {
				t.Errorf("%s: edit of %s: %+v", c.Name, e.Path, e)
			}
			tree, err := p.Parse(t.Context(), syntax.Python, e.Data)
			if err != nil || tree.Root.Error {
				t.Errorf("%s does not parse: %v", c.Name, err)
			}
		}
		if _, err := forge.Invert(c.Broken, w.Tree); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if len(c.Expect)+len(c.Covering) == 0 || len(c.Operators) == 0 || c.Notes["functions"] == "" && len(c.Operators) > 1 {
			t.Errorf("%s says too little: %+v", c.Name, c)
		}
	}
	if far == 0 {
		t.Error("no bug of two files")
	}
	enough := errors.New("enough")
	n := 0
	err := New(Config{Parser: p, Decide: judge(3)}).Propose(t.Context(), w, func(forge.Candidate) error {
		if n++; n == 4 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 4 {
		t.Errorf("%v after %d candidates", err, n)
	}
}

func names(all []forge.Candidate) []string {
	var out []string
	for _, c := range all {
		out = append(out, c.Name)
	}
	return out
}

// A statement tells the symptom and keeps the place to itself; its hints go
// from vague to plain.
func TestDescribe(t *testing.T) {
	w := world(t)
	g := New(Config{Parser: grammarsOf(t, syntax.Python)})
	c := forge.Candidate{Name: "mutate-x", Broken: forge.Delta{{Path: "/app/src/signer.py", Type: image.TypeFile}}, Notes: map[string]string{"functions": "Signer._derive"}}
	id := "pytest:tests/test_signer.py::test_unsign_finds_the_text"
	for _, f := range []struct{ message, want string }{
		{"AssertionError: assert 'a' == 'a.b'\n  - a.b\n  + a", "'a.b'"},
		{"ValueError: no separator\nsrc/signer.py:22: in _derive\n    raise ValueError", "ValueError"},
		{"Failed: DID NOT RAISE <class 'ValueError'>", "ValueError"},
		{"signer_test.go:12: expected 3 but got 4", "`3`"},
		{"expect(received).toBe(expected)\n\nExpected: 1\nReceived: 2", "`2`"},
		{"assertion `left == right` failed\n  left: 1\n right: 2", "`1`"},
		{"org.junit.ComparisonFailure: expected:<[a]> but was:<[b]>", "[b]"},
		{"nothing that is known in src/signer.py", ""},
		{"", ""},
	} {
		seen := forge.Seen{Failed: []forge.Failure{{ID: id, File: "tests/test_signer.py", Status: "failed", Message: f.message}}, Passed: 9}
		s := g.Describe(w, c, seen)
		for _, secret := range []string{"signer.py", "_derive", "src/"} {
			if strings.Contains(s.Title+s.Body, secret) {
				t.Errorf("%q gives %s away:\n%s", f.message, secret, s.Body)
			}
		}
		if !strings.Contains(s.Body, f.want) || !strings.Contains(strings.ToLower(s.Title), "unsign finds the text") {
			t.Errorf("%q:\n%s\n%s", f.message, s.Title, s.Body)
		}
		if len(s.Hints) != 4 || !strings.Contains(s.Hints[0], "1 of the 10") || !strings.Contains(s.Hints[2], "src/signer.py") || !strings.Contains(s.Hints[3], "Signer._derive") {
			t.Errorf("hints %q", s.Hints)
		}
	}
	bodies := map[string]bool{}
	for i := range 12 {
		c.Name = fmt.Sprint("mutate-", i)
		s := g.Describe(w, c, forge.Seen{Failed: []forge.Failure{{ID: id, File: "tests/test_signer.py", Message: "ValueError: x"}}})
		bodies[s.Title+s.Body] = true
	}
	if len(bodies) < 8 {
		t.Errorf("%d statements of 12", len(bodies))
	}
	example := false
	for b := range bodies {
		example = example || strings.Contains(b, `assert s.unsign(s.sign("a.b")) == "a.b"`)
	}
	if !example {
		t.Error("no statement has an example")
	}
}

func TestTopics(t *testing.T) {
	for id, want := range map[string]string{
		"pytest:tests/test_signer.py::TestSigner::test_bad_sep[a-b]": "bad sep (signer)",
		"go:example.org/mux::TestRouteMatchers/host_ok":              "host ok (route matchers)",
		"jest:lib/a.test.js > router > should match params":          "match params (router)",
		"mvn:org.x.CSVParserTest#testGetLine()":                      "get line (csv parser)",
		"go:example.org/uuid::TestNewMD5":                            "new md5 (uuid)",
		"cargo:parse::tests::test_units":                             "units",
	} {
		if got := topic(id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add("pytest:a::b", "AssertionError: assert 1 == 2")
	f.Add("x", "expected: <\x1b[31m")
	f.Fuzz(func(t *testing.T, id, message string) {
		w := &forge.World{Env: &repo.Environment{Name: "n", Workdir: "/app"}}
		c := forge.Candidate{Name: "x", Notes: map[string]string{}}
		s := New(Config{}).Describe(w, c, forge.Seen{Failed: []forge.Failure{{ID: id, Message: message}}})
		if s.Title == "" || s.Body == "" {
			t.Fatal("no statement")
		}
	})
}
