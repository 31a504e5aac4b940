package forge

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/task"
)

// hand is a generator of candidates that were written by hand.
type hand struct {
	name  string
	all   func(w *World) []Candidate
	asked int // candidates that were handed over
}

func (h *hand) Name() string { return h.name }

func (h *hand) Propose(ctx context.Context, w *World, yield func(Candidate) error) error {
	for _, c := range h.all(w) {
		h.asked++
		if err := yield(c); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// edit replaces a text of a file.
func edit(t *testing.T, w *World, p, old, new string) Delta {
	t.Helper()
	b, err := w.Tree.ReadFile(p, 1<<20)
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatal(p, old, err)
	}
	e, err := Rewrite(w.Tree, p, []byte(strings.Replace(string(b), old, new, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return Delta{e}
}

func bugs(t *testing.T) *hand {
	return &hand{name: "bugs", all: func(w *World) []Candidate {
		patch := func(name string, d Delta) Candidate {
			return Candidate{Name: name, Grade: GradePatch, Broken: d, Operators: []string{"by-hand"}, Seed: 3}
		}
		return []Candidate{
			patch("header", edit(t, w, "/app/calc.py", " if not row.get('header_of_the_table')", "")),
			patch("no-bite", edit(t, w, "/app/README", "Sums", "Totals")),
			patch("header-again", edit(t, w, "/app/calc.py", " if not row.get('header_of_the_table')", "")),
			patch("does-not-run", edit(t, w, "/app/calc.py", "import config", "import confug")),
			patch("in-the-tests", edit(t, w, "/app/tests/test_calc.py", "42", "43")),
			patch("outside", Delta{{Path: "/etc/x", Type: image.TypeFile}}),
			patch("hangs", edit(t, w, "/app/calc.py", "import config", "import time; time.sleep(10**6)")),
			patch("alias", edit(t, w, "/app/calc.py", "biggest = largest", "biggest = total")), // no change of a literal breaks its test
			patch("largest", edit(t, w, "/app/calc.py", "max(", "min(")),
		}
	}}
}

func faults(t *testing.T) *hand {
	return &hand{name: "faults", all: func(w *World) []Candidate {
		state := func(name string, d Delta) Candidate {
			return Candidate{Name: name, Grade: GradeState, Broken: d, Statement: Statement{Title: "It fails", Body: "It no longer works.", Hints: []string{"Look at the settings."}}}
		}
		config, err := w.Tree.ReadFile("/app/config.py", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		moved := append(edit(t, w, "/app/settings.ini", "factor", "fact0r"), Edit{Path: "/opt/settings.bak", Type: image.TypeFile, Mode: 0o640, From: "/app/settings.ini"})
		return []Candidate{
			state("settings-missing", Delta{{Path: "/app/settings.ini"}}),
			state("settings-renamed", moved),
			state("shadowed", Delta{{Path: "/app/pathlib.py", Type: image.TypeFile, Mode: 0o644, Data: []byte("raise ImportError('not this one')\n")}}),
			state("out-of-date", Delta{{Path: "/app/settings.made", Type: image.TypeFile, Mode: 0o644, Data: fmt.Appendf(nil, "%d\nfactor = 2\n", len(config))}}),
		}
	}}
}

// Candidates become proved tasks, or are turned away with a reason; what was
// done is not done again, and a task that somebody removed comes back.
func TestForge(t *testing.T) {
	w := newWorld(t)
	w.env.Suite.Commands[0].TimeoutSec = 5
	gens := []Generator{bugs(t), faults(t)}
	cfg := w.config(gens...)
	cfg.Canaries, cfg.TestBudget = 6, 2
	rep, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	b, f := rep.Generators["bugs"], rep.Generators["faults"]
	if b.Proposed != 8 || b.Proved != 2 || b.Standing != 2 || b.Repeated != 1 || b.Bitten != 3 || f.Proved != 3 || f.Proposed != 4 || rep.Lost != 0 {
		t.Errorf("bugs %+v\nfaults %+v\nlost %d", b, f, rep.Lost)
	}
	if want := map[string]int{whyMasked: 1, whyMute: 1, whyProtected: 1, whyMalformed: 1, whyHangs: 1, whyForgeable: 1}; !maps.Equal(b.Rejected, want) {
		t.Errorf("rejected %v, want %v", b.Rejected, want)
	}
	if want := map[string]int{whyLoose: 1}; !maps.Equal(f.Rejected, want) {
		t.Errorf("rejected %v, want %v", f.Rejected, want)
	}
	names := w.names()
	if want := []string{"tiny-header", "tiny-largest", "tiny-settings-missing", "tiny-settings-renamed", "tiny-shadowed"}; !slices.Equal(names, want) {
		t.Errorf("tasks %q, want %q", names, want)
	}
	for _, n := range names {
		w.sound(n)
	}
	if rep.MedianBytes == 0 || rep.MedianBytes > 50_000 {
		t.Errorf("median of %d bytes", rep.MedianBytes)
	}
	header := w.read("tiny-header")
	if got := header.Key(0); len(got.Tests) == 0 || header.Config.Metadata.Assay.Grade != "patch" {
		t.Errorf("%+v", header.Config)
	}
	if got, ok := header.Config.Metadata.Assay.Rest["labels"].(map[string]any); !ok || got["steps"] != int64(1) {
		t.Errorf("labels %v", header.Config.Metadata.Assay.Rest["labels"])
	}
	if plan := w.text("tiny-header/tests/checks.toml"); !strings.Contains(plan, "test_header") || !strings.Contains(plan, "protected = ['tests']") {
		t.Errorf("plan:\n%s", plan)
	}
	for _, rec := range rep.Tasks {
		plan := w.text(rec.Task + "/tests/checks.toml")
		if rec.Evidence != "canaried" || !strings.Contains(plan, "file = '/app/tests/test_calc.py'") {
			t.Errorf("%s: evidence %q, plan:\n%s", rec.Task, rec.Evidence, plan)
		}
		if _, err := os.Stat(filepath.Join(cfg.Dir, rec.Task, "tests/repo")); err == nil {
			t.Errorf("%s carries a copy of its tests", rec.Task)
		}
	}
	if words := w.text("tiny-header/instruction.md"); !strings.Contains(words, "10 != 3") || strings.Contains(words, "calc.py\n") {
		t.Errorf("instruction:\n%s", words)
	}

	// Again: nothing is left to do, but for what somebody took away.
	before := w.digests()
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "tiny-largest")); err != nil {
		t.Fatal(err)
	}
	var told []Record
	cfg.OnRecord = func(r Record) { told = append(told, r) }
	cfg.For = time.Nanosecond
	if rep, err = Run(t.Context(), cfg); err != nil || len(told) != 0 || len(rep.Tasks) != 4 {
		t.Errorf("without time: %v, %+v; %d tasks", err, told, len(rep.Tasks))
	}
	cfg.For = 0
	if rep, err = Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0].Name != "largest" || told[0].Stage != StageAdmitted || len(rep.Tasks) != 5 {
		t.Errorf("again: %+v; %d tasks", told, len(rep.Tasks))
	}
	if after := w.digests(); !maps.Equal(before, after) {
		t.Errorf("tasks changed: %v, then %v", before, after)
	}
}

func (w *world) names() []string {
	all, err := os.ReadDir(filepath.Join(w.dir, "set"))
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, d := range all {
		if d.Name() != Home {
			out = append(out, d.Name())
		}
	}
	return out
}

func (w *world) read(name string) *task.Task {
	x, err := task.Load(filepath.Join(w.dir, "set", name))
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

func (w *world) text(name string) string {
	b, err := os.ReadFile(filepath.Join(w.dir, "set", name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// sound says that a task has its proof, a clean lint and its record.
func (w *world) sound(name string) {
	w.t.Helper()
	x := w.read(name)
	var p struct{ Proved bool }
	if err := json.Unmarshal([]byte(w.text(name+"/proof.json")), &p); err != nil || !p.Proved {
		w.t.Errorf("%s: proof %v, %v", name, p.Proved, err)
	}
	facts, _ := x.Config.Metadata.Assay.Rest["forge"].(map[string]any)
	if facts["environment"] != "forge/tiny:test" || facts["licence"] != "MIT" || facts["key"] == "" {
		w.t.Errorf("%s: provenance %v", name, facts)
	}
	for _, f := range task.Lint(x.Dir) {
		if f.Severity == task.Note {
			continue // the image's name is its content's
		}
		w.t.Errorf("%s: lint: %v", name, f)
	}
}

func (w *world) digests() map[string]string {
	out := map[string]string{}
	for _, n := range w.names() {
		d, err := task.Digest(filepath.Join(w.dir, "set", n))
		if err != nil {
			w.t.Fatal(err)
		}
		out[n] = d
	}
	return out
}
