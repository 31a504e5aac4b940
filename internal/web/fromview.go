package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/internal/store"
	"assay/trial"
)

const (
	maxMarks     = 200 // events named on a trial's page, the newest
	maxLiveSteps = 200 // steps shown of a trial that has no trajectory yet
	maxProblems  = 50  // named on a job's page
)

// FromView makes the page model of a job.
func FromView(v *store.View) *Job {
	j := &Job{
		Name: v.Name, Dir: v.Dir, State: State(v.State), Started: v.Started, Updated: v.Updated, Finished: v.Finished,
		Concurrent: v.Info.Concurrent, Version: v.Info.Version, Foreign: v.Foreign, Planned: v.Planned,
	}
	if n := len(v.Events); n > 0 {
		j.Seq = v.Events[n-1].Seq
	}
	at := map[string]*Trial{}
	begun := map[string]time.Time{}
	reps := map[[2]string]int{}
	for _, st := range v.Trials {
		t := fromTrial(st)
		if t.Rep == 0 { // another harness does not count them
			key := [2]string{t.Task, t.Agent}
			reps[key]++
			t.Rep = reps[key]
		}
		at[t.Name] = t
		j.Trials = append(j.Trials, t)
		for _, r := range st.Replaced {
			j.Replaced = append(j.Replaced, Replaced{Trial: st.Name, Attempt: r.Attempt, Kept: r.Kept, Cause: r.Cause, Why: r.Why})
		}
	}
	for _, e := range v.Events {
		if t := at[e.Trial]; t != nil {
			t.event(e)
			switch e.Kind {
			case trial.TrialStarted:
				begun[t.Name] = e.Time
			case trial.TrialFinished:
				t.committed(e.Time.Sub(begun[t.Name]))
			}
		} else if e.Kind == trial.Noted {
			j.Notes = append(j.Notes, Note{Text: noteText(e)})
		}
	}
	for _, t := range j.Trials {
		for _, n := range t.Notes {
			j.Notes = append(j.Notes, Note{Trial: t.Name, Text: n})
		}
		for _, m := range t.Marks {
			if m.Kind == trial.Noted && !t.Ended() { // its result will say it, but there is none yet
				j.Notes = append(j.Notes, Note{Trial: t.Name, Text: m.Text})
			}
		}
	}
	j.problems(v)
	return j
}

func (j *Job) problems(v *store.View) {
	all := slices.Clone(v.Findings)
	for _, t := range v.Trials {
		all = append(all, t.Findings...)
	}
	for i, f := range all {
		if i == maxProblems {
			j.Problems = append(j.Problems, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		j.Problems = append(j.Problems, f.String())
	}
}

func fromTrial(st *store.Trial) *Trial {
	rec := st.Record
	t := &Trial{
		Name: st.Name, Dir: st.Dir, Task: st.Task, Agent: st.Agent, Rep: st.Rep, Attempt: st.Attempt, State: State(st.Status),
		Outcome: st.Outcome, Fault: st.Fault, Cause: st.Cause, Detail: rec.Detail, Evidence: st.Evidence, Modes: rec.Modes,
		Image: rec.Image, Reward: st.Reward, Rewards: rewards(st.Rewards), Usage: st.Usage.Usage, Use: rec.Use,
		Started: st.Started, Finished: st.Finished, Wall: st.Millis(), Overhead: rec.Overhead, Timed: len(rec.Phases) > 0,
		Phases: rec.Phases, Calls: rec.Calls, Times: rec.Times, AgentExit: rec.AgentExit, TestExit: rec.TestExit, EndState: rec.EndState, Notes: rec.Notes, Checks: rec.Checks,
	}
	if st.Model != "" {
		t.Agent += " · " + st.Model
	}
	for _, f := range st.Steps {
		t.Parts = append(t.Parts, f.Step)
	}
	for _, f := range st.Findings {
		t.Problems = append(t.Problems, f.String())
	}
	if st.Result == nil {
		return t
	}
	t.Exception = st.Result.Exception
	for _, s := range st.Result.StepResults {
		row := StepRow{Name: s.StepName}
		if s.VerifierResult != nil {
			row.Rewards = rewards(s.VerifierResult.Rewards)
		}
		if s.Exception != nil {
			row.Error = s.Exception.Type
		}
		t.Steps = append(t.Steps, row)
	}
	return t
}

// committed counts what came after the result's own account: writing it. The
// events stand before and after that, so the longer account is the whole one.
func (t *Trial) committed(span time.Duration) {
	if !t.Timed {
		return
	}
	ms := float64(span.Microseconds()) / 1000
	if own := ms - t.theirs(); own > t.Overhead && own < t.Overhead+float64(time.Minute.Milliseconds()) {
		t.Phases = append(slices.Clone(t.Phases), trial.PhaseTime{Phase: trial.PhaseRecord, Millis: own - t.Overhead})
		t.Overhead = own
	}
}

// theirs is the time of the agent and the tests, in ms.
func (t *Trial) theirs() (ms float64) {
	for _, p := range t.Phases {
		if !own(p.Phase) {
			ms += p.Millis
		}
	}
	return ms
}

func rewards(m map[string]json.Number) []Reward {
	var all []Reward
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, Reward{Key: k, Value: m[k].String()})
	}
	return all
}

// event takes one event of the trial. A new attempt starts with nothing said.
func (t *Trial) event(e trial.Event) {
	switch e.Kind {
	case trial.TrialStarted:
		t.LiveSteps, t.Marks, t.Now = nil, nil, ""
		if t.Started.IsZero() && !t.Ended() {
			t.Started = e.Time
		}
	case trial.StepMade:
		var s trial.StepMark
		if json.Unmarshal(e.Data, &s) == nil {
			t.LiveSteps = keepLast(t.LiveSteps, s, maxLiveSteps)
		}
	case trial.PhaseStarted:
		var p trial.PhaseMark
		if json.Unmarshal(e.Data, &p) == nil {
			t.Now = p.Phase
		}
	case trial.PhaseFinished, trial.TrialPlanned, trial.TrialFinished:
	default:
		t.Marks = keepLast(t.Marks, Mark{Seq: e.Seq, Time: e.Time, Kind: e.Kind, Text: noteText(e)}, maxMarks)
	}
}

func keepLast[T any](all []T, v T, most int) []T {
	if len(all) == most {
		copy(all, all[1:])
		all = all[:most-1]
	}
	return append(all, v)
}

// noteText says an event's data in words: its text, else "key value" pairs.
func noteText(e trial.Event) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(e.Data, &m) != nil {
		return string(e.Data)
	}
	plain := func(raw json.RawMessage) string {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
		return string(raw)
	}
	if text, ok := m["text"]; ok {
		return plain(text)
	}
	var l []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		l = append(l, k+" "+plain(m[k]))
	}
	return strings.Join(l, ", ")
}

// liveSteps shows what the events tell of a trajectory that is not written yet.
func liveSteps(marks []trial.StepMark) Steps {
	var s Steps
	for _, m := range marks {
		st := Step{ID: m.StepID, Source: line(m.Source, 20), Message: Clip(m.Text, 2000)}
		if m.Tool != "" {
			st.Calls = []Call{{Name: line(m.Tool, 80)}}
		}
		s.Shown = append(s.Shown, st)
		s.Total = max(s.Total, cmp.Or(m.StepID, len(s.Shown)))
	}
	return s
}
