package store

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"assay/trial"
)

// TrialState is what the events say of one trial.
type TrialState struct {
	Name     string
	Planned  trial.Planned
	Attempt  int             // highest one begun; 0 before the first
	Running  bool            // begun and neither finished, dropped nor replaced
	Finished *trial.Finished // of the attempt that stands
	Replaced []Replaced      // earlier attempts, in their order
}

// Replaced is an attempt that another took the place of, or that left no
// result.
type Replaced struct {
	Attempt int         `json:"attempt"`
	Kept    string      `json:"kept,omitempty"` // relative to the job; empty: it left nothing
	Cause   trial.Cause `json:"cause,omitempty"`
	Why     string      `json:"why"` // "retry", "rerun", or why it was dropped
}

// WhyRegrade is why a result was set aside whose end state is graded again.
const WhyRegrade = "regrade"

// regraded is the attempt that was set aside for a new verdict and has none
// yet; false: there is none, or something was run since.
func (t TrialState) regraded() (Replaced, bool) {
	for _, r := range slices.Backward(t.Replaced) {
		if r.Why == WhyRegrade {
			return r, filepath.IsLocal(r.Kept)
		}
		if r.Cause != "" {
			break // an attempt that ended; one that was dropped has no cause
		}
	}
	return Replaced{}, false
}

// ledger folds events into the state of each trial. Writers, readers and pages
// all fold alike.
type ledger struct {
	trials map[string]*TrialState
	order  []string // as first named
	info   trial.JobInfo
	begun  bool // a job.started was seen
	kind   trial.Kind
}

func newLedger() *ledger { return &ledger{trials: map[string]*TrialState{}} }

func (l *ledger) trial(name string) *TrialState {
	t, ok := l.trials[name]
	if !ok {
		t = &TrialState{Name: name}
		l.trials[name] = t
		l.order = append(l.order, name)
	}
	return t
}

// fold takes one event. Data that does not decode leaves zero values: the
// event itself still counts.
func (l *ledger) fold(e trial.Event) {
	switch e.Kind {
	case trial.JobStarted, trial.JobResumed:
		id := l.info.ID
		l.info = data[trial.JobInfo](e)
		if id != "" {
			l.info.ID = id
		}
		l.begun, l.kind = true, e.Kind
	case trial.JobFinished, trial.JobCancelled:
		l.kind = e.Kind
	}
	if e.Trial == "" {
		return
	}
	switch t := l.trial(e.Trial); e.Kind {
	case trial.TrialPlanned:
		t.Planned = data[trial.Planned](e)
	case trial.TrialStarted:
		if p := data[trial.Planned](e); p.Task != "" {
			t.Planned = p
		}
		t.Attempt, t.Running, t.Finished = max(e.Attempt, t.Attempt), true, nil
	case trial.TrialFinished:
		f := data[trial.Finished](e)
		t.Attempt, t.Running, t.Finished = max(e.Attempt, t.Attempt), false, &f
	case trial.TrialRetried:
		r := data[trial.Replaced](e)
		t.end(Replaced{e.Attempt, r.Kept, r.Cause, r.Why})
	case trial.TrialDropped:
		d := data[trial.Dropped](e)
		t.end(Replaced{Attempt: e.Attempt, Kept: d.Kept, Why: d.Why})
	}
}

func (t *TrialState) end(r Replaced) {
	t.Attempt = max(r.Attempt, t.Attempt)
	t.Running, t.Finished = false, nil
	t.Replaced = append(t.Replaced, r)
}

func data[T any](e trial.Event) T {
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		var zero T
		return zero
	}
	return v
}
