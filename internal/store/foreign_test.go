package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/trial"
)

// A job that Harbor 0.25 wrote, of which four trials are missing.
func TestReadHarborsJob(t *testing.T) {
	v, err := Read("testdata/harbor/demo")
	if err != nil {
		t.Fatal(err)
	}
	if !v.Foreign || v.State != Done || v.Name != "demo" || v.Planned != 10 || v.Ended != 6 || v.Graded != 6 || len(v.Findings) > 0 {
		t.Errorf("foreign %v, state %s, planned %d, ended %d, graded %d, findings %v", v.Foreign, v.State, v.Planned, v.Ended, v.Graded, v.Findings)
	}
	if v.Info.Concurrent != 2 || v.ID == "" || v.Finished.IsZero() {
		t.Errorf("%+v", v.Info)
	}
	type row struct {
		Name, Task string
		Rep        int
		Outcome    trial.Outcome
		Cause      trial.Cause
		Steps      int
		Reward     float64
	}
	var got []row
	for _, tr := range v.Trials {
		r := row{tr.Name, tr.Task, tr.Rep, tr.Outcome, tr.Cause, len(tr.Steps), -1}
		if tr.Reward != nil {
			r.Reward = *tr.Reward
		}
		got = append(got, r)
		if !tr.Derived || tr.Agent != "oracle" || tr.Status != TrialFinished || tr.Digest == "" || tr.Record.Task != tr.Digest || tr.Millis() <= 0 || len(tr.Findings) > 0 {
			t.Errorf("%+v", tr)
		}
	}
	want := []row{
		{"norew__9FZuCLX", "demo/norew", 1, trial.Inconclusive, trial.CauseRewardMissing, 1, -1},
		{"right__5ajGNzU", "demo/right", 1, trial.Pass, trial.CauseSolved, 1, 1},
		{"slow__Mgo3PW3", "demo/slow", 1, trial.Fail, trial.CauseAgentTimeout, 1, 0},
		{"two__8unnKYo", "demo/two", 1, trial.Pass, trial.CauseSolved, 2, 1},
		{"wrong__VZgH63d", "demo/wrong", 1, trial.Fail, trial.CauseUnsolved, 1, 0},
		{"right__KZHtFLN", "demo/right", 2, trial.Pass, trial.CauseSolved, 1, 1},
	}
	slices.SortFunc(got, func(a, b row) int {
		return slices.IndexFunc(want, func(w row) bool { return w.Name == a.Name }) - slices.IndexFunc(want, func(w row) bool { return w.Name == b.Name })
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDerivedEvents(t *testing.T) {
	v, err := Read("testdata/harbor/demo")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[trial.Kind]int{}
	var last time.Time
	l := newLedger()
	for i, e := range v.Events {
		if e.Seq != uint64(i+1) || e.Time.Before(last) {
			t.Errorf("event %d: seq %d at %s after %s", i, e.Seq, e.Time, last)
		}
		last = e.Time
		kinds[e.Kind]++
		l.fold(e)
	}
	want := map[trial.Kind]int{trial.JobStarted: 1, trial.TrialPlanned: 6, trial.TrialStarted: 6, trial.TrialFinished: 6, trial.JobFinished: 1, trial.PhaseStarted: 26, trial.PhaseFinished: 26}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Error(d)
	}
	if v.Events[0].Kind != trial.JobStarted || v.Events[len(v.Events)-1].Kind != trial.JobFinished {
		t.Errorf("begins with %s, ends with %s", v.Events[0].Kind, v.Events[len(v.Events)-1].Kind)
	}
	// Live, replay and post-mortem cannot disagree: the events fold to what
	// the view says.
	for _, tr := range v.Trials {
		s := l.trials[tr.Name]
		if s == nil || s.Finished == nil || s.Finished.Outcome != tr.Outcome || s.Planned != tr.planned() || s.Finished.Digest != tr.resultDigest {
			t.Errorf("%s: %+v", tr.Name, s)
		}
	}
}

func TestForeignJobsAreNotWritten(t *testing.T) {
	if _, _, err := Open("testdata/harbor/demo", Options{}); err == nil {
		t.Error("a job of another harness was opened for writing")
	}
	if tr, err := ReadTrial("testdata/harbor/demo/two__8unnKYo"); err != nil || len(tr.Steps) != 2 || tr.Steps[0].Step != "one" || tr.Steps[1].TestOutput == "" {
		t.Errorf("%v", err)
	}
	if _, err := ReadTrial("testdata/harbor/demo"); err == nil {
		t.Error("a job was read as a trial")
	}
	jobs, err := List("testdata")
	if err != nil || len(jobs) != 1 || !jobs[0].Foreign || jobs[0].Planned != 10 || jobs[0].Finished != 10 || jobs[0].State != Done {
		t.Errorf("%v %+v", err, jobs)
	}
}
