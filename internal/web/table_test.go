package web

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/internal/stats"
	"assay/trial"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	p := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(p)
	if err != nil {
		t.Fatalf("%v; run with -update to make it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s\nwant:\n%s", name, got, want)
	}
}

func table(t *testing.T, j *Job) string {
	t.Helper()
	var b bytes.Buffer
	if err := Table(&b, j); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTableGoldens(t *testing.T) {
	one := fixtureJob(t, "", 10, 1, false)
	golden(t, "table-10x1.txt", table(t, one))
	four := fixtureJob(t, "", 16, 4, false)
	golden(t, "table-16x4.txt", table(t, four))
	big := table(t, fixtureJob(t, "", 50, 1, false))
	golden(t, "table-50x1.txt", big)
	if strings.Contains(big, "csv-dedupe-stream") {
		t.Error("a table of 50 tasks has a line for each task")
	}
	early := fixtureJob(t, "", 4, 1, false)
	for i, tr := range early.Trials[2:] {
		tr.State = []State{StatePlanned, StateRunning}[i%2]
	}
	early.State, early.Notes, early.Replaced = StateRunning, nil, nil
	golden(t, "table-running.txt", table(t, early))
	golden(t, "table-nothing.txt", table(t, &Job{State: StateRunning}))

	var b bytes.Buffer
	if err := TimingTable(&b, TimingOf(one.Trials)); err != nil {
		t.Fatal(err)
	}
	golden(t, "timing.txt", b.String())
}

func TestTableOfHostileJob(t *testing.T) {
	out := table(t, evilJob(t, t.TempDir()))
	if !utf8.ValidString(out) || strings.ContainsAny(out, "\x1b\x00\u202e") {
		t.Errorf("terminal codes reach the terminal: %q", out)
	}
}

// Columns start at the same place in every line.
func TestGridAligns(t *testing.T) {
	lines := strings.Split(table(t, fixtureJob(t, "", 10, 1, false)), "\n")
	at := strings.Index(lines[0], "evidence")
	for _, l := range lines[1:4] {
		r, want := []rune(l), "self-reported"
		if at < 0 || string(r[at:at+len(want)]) != want {
			t.Errorf("evidence does not stand in column %d of %q", at, l)
		}
	}
}

func TestSummarize(t *testing.T) {
	j := fixtureJob(t, "", 16, 4, false)
	s := Summarize(j.Trials)
	if len(s.Agents) != 3 || s.Agents[0].Agent != "oracle" || len(s.Tasks) != 16 {
		t.Fatalf("%d agents, %d tasks", len(s.Agents), len(s.Tasks))
	}
	var sum stats.Tally
	for i, a := range s.Agents {
		sum = sum.Plus(a.Tally)
		var cells stats.Tally
		for _, r := range s.Tasks {
			cells = cells.Plus(r.Cells[i].Tally)
		}
		if cells != a.Tally || a.Rate.Planned != 64 || a.Rate.Graded != a.Tally.Graded() {
			t.Errorf("%s: cells %+v, row %+v", a.Agent, cells, a.Tally)
		}
	}
	if sum != s.Tally || s.Tally.Planned != len(j.Trials) {
		t.Errorf("agents add up to %+v, the job to %+v", sum, s.Tally)
	}
	n := 0
	for _, c := range s.Causes {
		n += c.N
		e, err := c.Cause.Ending()
		if err != nil || e.Counted != c.Counted {
			t.Errorf("%s counted: %v", c.Cause, c.Counted)
		}
	}
	if n != s.Tally.Ended() {
		t.Errorf("causes count %d of %d", n, s.Tally.Ended())
	}
	if got := s.Agents[2].Usage; !got.Cost.Partial || got.Input.Partial || got.Cost.CostUSD == nil || s.Agents[0].Usage.String() != unknown {
		t.Errorf("usage %+v and %q", got, s.Agents[0].Usage)
	}
	if len(s.Ks) != 2 || s.Ks[0] != 2 || s.Ks[1] != 4 || !s.Agents[0].AtK[1].Known || s.Agents[0].AtK[1].Mean.Value != 1 {
		t.Errorf("pass@%v: %+v", s.Ks, s.Agents[0].AtK)
	}
}

// Endings that say nothing of the agent move no rate, whatever their number.
func TestInfraMovesNoRate(t *testing.T) {
	j := fixtureJob(t, "", 10, 1, false)
	before := Summarize(j.Trials).Agents[0].Rate
	for _, c := range []trial.Cause{trial.CauseSandboxLost, trial.CauseTaskMalformed, trial.CauseCancelled} {
		e, err := c.Ending()
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			j.Trials = append(j.Trials, &Trial{Task: "extra", Agent: "oracle", State: StateFinished, Outcome: e.Outcome, Fault: e.Fault, Cause: c})
		}
	}
	after := Summarize(j.Trials)
	if r := after.Agents[0].Rate; r.Estimate != before.Estimate || r.Graded != before.Graded || r.Planned != before.Planned+15 {
		t.Errorf("before %+v, after %+v", before, r)
	}
	if a := after.Agents[0].Tally; a.Cancelled != 5 || a.Infra != 5 || a.Invalid != 5 {
		t.Errorf("%+v", a)
	}
}

func TestLabelsNameTheConditions(t *testing.T) {
	tr := &Trial{Modes: trial.Modes{Verifier: "live", Network: "full", VerifierNetwork: "allowlist"}, Image: trial.ImageUsed{Fallback: true}}
	want := "live verifier, network full, verifier network allowlist, fallback image"
	if got := strings.Join(tr.Labels(), ", "); got != want {
		t.Errorf("labels %q", got)
	}
	if l := (&Trial{Modes: trial.Modes{Verifier: "sealed", Network: "none", VerifierNetwork: "none"}}).Labels(); len(l) != 0 {
		t.Errorf("the default has labels %v", l)
	}
}

func TestTiming(t *testing.T) {
	phase := func(p trial.Phase, ms float64) trial.PhaseTime { return trial.PhaseTime{Phase: p, Millis: ms} }
	trials := []*Trial{
		{State: StateFinished, Timed: true, Wall: 110, Overhead: 10, Phases: []trial.PhaseTime{phase("tests", 40), phase("agent", 60), phase("setup", 10)}},
		{State: StateFinished, Timed: true, Wall: 230, Overhead: 30, Phases: []trial.PhaseTime{phase("agent", 80), phase("agent", 120), phase("setup", 30), phase("new", 1)}},
		{State: StateFinished},
		{State: StateRunning, Timed: true, Phases: []trial.PhaseTime{phase("agent", 1e9)}},
	}
	got := TimingOf(trials)
	var words []string
	for _, p := range got.Phases {
		words = append(words, string(p.Phase))
	}
	if strings.Join(words, " ") != "setup agent tests new" {
		t.Errorf("phases %v", words)
	}
	agent := got.Phases[1]
	if agent.Own || agent.Time.N != 2 || agent.Time.P50 != 130 || agent.Time.Sum != 260 {
		t.Errorf("agent %+v: steps of one trial are one number", agent)
	}
	if !got.Phases[0].Own || got.Overhead.P50 != 20 || got.Wall.Max != 230 || got.Untimed != 1 {
		t.Errorf("%+v", got)
	}
}
