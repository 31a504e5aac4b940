package forge

import (
	"bytes"
	"compress/zlib"
	"io"
	"maps"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/job"
)

// The tests of a bug are nowhere in what the agent gets, not in git either, and
// judge all the same, canaries among them. What cannot be hidden is turned away.
func TestHideTests(t *testing.T) {
	w := newWorld(t)
	for i := range w.env.Suite.Tests {
		if tt := &w.env.Suite.Tests[i]; strings.HasSuffix(tt.ID, "test_largest") {
			tt.File = "" // a runner that does not say
		}
	}
	some := bugs(t)
	all := some.all
	some.all = func(w *World) []Candidate {
		var out []Candidate
		for _, c := range all(w) {
			if c.Name == "header" || c.Name == "largest" {
				out = append(out, c)
			}
		}
		return out
	}
	cfg := w.config(some)
	cfg.Canaries, cfg.HideTests = 6, true
	rep, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if b := rep.Generators["bugs"]; b.Proved != 1 || b.Bitten != 2 || !maps.Equal(b.Rejected, map[string]int{whyVisible: 1}) || len(rep.Tasks) != 1 || rep.Tasks[0].Evidence != "canaried" {
		t.Fatalf("%+v, %+v", b, rep.Tasks)
	}
	w.sound("tiny-header")
	if got, was := w.text("tiny-header/tests/repo/tests/test_calc.py"), tiny()["tests/test_calc.py"]; got != was {
		t.Errorf("the tests that come at grading:\n%s", got)
	}
	plan := w.text("tiny-header/tests/checks.toml")
	if !strings.Contains(plan, "file = 'repo/tests/test_calc.py'") || strings.Contains(plan, "/app/tests/test_calc.py") {
		t.Errorf("plan:\n%s", plan)
	}
	if words := w.text("tiny-header/instruction.md"); !strings.Contains(words, "Tests that are not in it judge") {
		t.Errorf("instruction:\n%s", words)
	}

	im, err := w.deps.Build(t.Context(), job.BuildRequest{Dir: w.read("tiny-header").ImageDir(), Resolve: w.deps.Resolve})
	if err != nil {
		t.Fatal(err)
	}
	v, err := w.images.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	healthy, err := w.images.View(w.env.Layers)
	if err != nil {
		t.Fatal(err)
	}
	// The healthy suite's canaries are for what gold makes healthy again, whole.
	same, err := Was(healthy, "/app/calc.py")
	if err != nil {
		t.Fatal(err)
	}
	other, err := Rewrite(healthy, "/app/calc.py", []byte("total = None\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cand Candidate
		want bool
	}{
		{Candidate{Broken: Delta{other}}, true},
		{Candidate{Broken: Delta{other}, Gold: Delta{same}}, true},
		{Candidate{Broken: Delta{other}, Gold: Delta{other}}, false},
		{Candidate{Broken: Delta{other, {Path: "/app/README"}}, Gold: Delta{same}}, false},
		{Candidate{Broken: Delta{other}, Tests: Delta{other}}, false},
	} {
		if a := (&attempt{made: made{cand: c.cand, env: w.env, healthy: healthy}}); a.mayHaveCanaries() != c.want {
			t.Errorf("%+v may have canaries: %t", c.cand, !c.want)
		}
	}
	objects := 0
	if err := v.Walk("/app", func(e image.Entry) error {
		if e.Type != image.TypeFile {
			return nil
		}
		b, err := v.ReadFile(e.Path, 1<<20)
		if bytes.Contains(unpacked(b), []byte("test_header")) {
			t.Errorf("/%s holds a test", e.Path)
		}
		objects += strings.Count(e.Path, ".git/objects/")
		return err
	}); err != nil || objects == 0 {
		t.Errorf("%d objects, %v", objects, err)
	}
	seen := false // by the same eyes where they are
	if err := healthy.Walk("/app/.git", func(e image.Entry) error {
		if e.Type != image.TypeFile {
			return nil
		}
		b, err := healthy.ReadFile(e.Path, 1<<20)
		seen = seen || bytes.Contains(unpacked(b), []byte("def test_header"))
		return err
	}); err != nil || !seen {
		t.Errorf("the healthy repository's tests were not seen: %v", err)
	}
}

// unpacked is what a loose object of git holds; any other file is as it is.
func unpacked(b []byte) []byte {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return b
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err == nil {
		return text
	}
	return b
}
