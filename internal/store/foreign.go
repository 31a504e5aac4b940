package store

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"assay/trial"
)

// foreign completes the view of a job that Harbor wrote: numbers from its
// result.json, repetitions by order, and events derived from the results.
func (r *reader) foreign() {
	v := r.view
	n, err := readJobResult(v.Dir)
	if err != nil {
		v.finding(ResultFile, "%v", err)
	}
	v.ID, v.State = n.ID, n.state()
	v.Started, v.Updated, v.Finished = n.StartedAt.Time, n.UpdatedAt.Time, n.FinishedAt.Time
	v.Planned = n.total()
	slices.SortStableFunc(v.Trials, func(a, b *Trial) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.Name, b.Name))
	})
	reps := map[[3]string]int{}
	for _, t := range v.Trials {
		k := [3]string{t.Task, t.Agent, t.Model}
		reps[k]++
		t.Rep = reps[k]
		t.Record.Rep, t.Record.Task = t.Rep, t.Digest
		t.Attempt = max(t.Attempt, 1)
	}
	var cfg struct {
		Concurrent int `json:"n_concurrent_trials"`
	}
	json.Unmarshal(v.Config, &cfg) // what it does not say stays 0
	v.Info = trial.JobInfo{ID: v.ID, Name: v.Name, Trials: max(v.Planned, len(v.Trials)), Concurrent: or(cfg.Concurrent, 4)}
	v.Events = r.derive()
}

// derive makes the events that assay would have written, in the order of their
// times.
func (r *reader) derive() []trial.Event {
	v := r.view
	var all []trial.Event
	add := func(at time.Time, kind trial.Kind, t *Trial, data any) {
		e := trial.Event{V: trial.EventVersion, Time: at.UTC(), Kind: kind}
		if t != nil {
			e.Trial, e.Attempt = t.Name, t.Attempt
		}
		if b, err := encode(data); err == nil {
			e.Data = b
		}
		all = append(all, e)
	}
	begun := v.Started
	for _, t := range v.Trials {
		if !t.Started.IsZero() && (begun.IsZero() || t.Started.Before(begun)) {
			begun = t.Started
		}
	}
	add(begun, trial.JobStarted, nil, v.Info)
	for _, t := range v.Trials {
		add(begun, trial.TrialPlanned, t, t.planned())
	}
	for _, t := range v.Trials {
		if t.Status == TrialFinished {
			deriveTrial(t, func(at time.Time, kind trial.Kind, data any) { add(at, kind, t, data) })
		}
	}
	if !v.Finished.IsZero() {
		last := v.Finished
		for _, e := range all {
			if e.Time.After(last) {
				last = e.Time
			}
		}
		add(last, trial.JobFinished, nil, struct{}{})
	}
	slices.SortStableFunc(all, func(a, b trial.Event) int { return a.Time.Compare(b.Time) })
	for i := range all {
		all[i].Seq = uint64(i + 1)
	}
	return all
}

func (t *Trial) planned() trial.Planned {
	return trial.Planned{Task: t.Task, Digest: t.Digest, Agent: t.Agent, Model: t.Model, Rep: t.Rep}
}

// deriveTrial tells one finished trial: its beginning, the phases that Harbor
// timed, its end.
func deriveTrial(t *Trial, add func(time.Time, trial.Kind, any)) {
	add(t.Started, trial.TrialStarted, t.planned())
	span := func(p trial.Phase, step string, s *trial.Span) {
		if s == nil || s.StartedAt == nil || s.FinishedAt == nil {
			return
		}
		add(*s.StartedAt, trial.PhaseStarted, trial.PhaseMark{Phase: p, Step: step})
		ms := float64(s.FinishedAt.Sub(*s.StartedAt).Microseconds()) / 1000
		add(*s.FinishedAt, trial.PhaseFinished, trial.PhaseMark{Phase: p, Step: step, Millis: ms})
	}
	span(trial.PhaseSetup, "", t.Result.EnvironmentSetup)
	span(trial.PhaseSetup, "", t.Result.AgentSetup)
	span(trial.PhaseAgent, "", t.Result.AgentExecution)
	span(trial.PhaseTests, "", t.Result.Verifier)
	for _, s := range t.Result.StepResults {
		span(trial.PhaseAgent, s.StepName, s.AgentExecution)
		span(trial.PhaseTests, s.StepName, s.Verifier)
	}
	end := t.Finished
	if end.IsZero() {
		end = t.Started
	}
	add(end, trial.TrialFinished, finished(t.Result, t.Record, t.resultDigest))
}
