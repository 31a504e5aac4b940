package web

import (
	"strings"
	"time"

	"assay/internal/stats"
	"assay/trial"
)

// State says where a job or a trial stands.
type State string

const (
	StatePlanned   State = "planned"
	StateRunning   State = "running"
	StateFinished  State = "finished"
	StateCancelled State = "cancelled"
	// StateStopped: nobody writes the job and it did not say that it ended.
	StateStopped State = "unfinished"
	// StateCutOff: the trial was begun and nobody writes its job any more.
	StateCutOff State = "cut off"
	// StateUnreadable: the trial has ended and its result cannot be read.
	StateUnreadable State = "unreadable"
)

// Job is one job as pages and tables show it.
type Job struct {
	Name       string
	Dir        string // host path
	State      State
	Started    time.Time
	Updated    time.Time // of the last event
	Finished   time.Time // zero while it is not
	Concurrent int
	Version    string // of assay
	Foreign    bool   // written by another harness; its events are derived
	Seq        uint64 // of the last event that this state stands on
	Planned    int
	Trials     []*Trial
	Replaced   []Replaced
	Notes      []Note
	Problems   []string // what could not be read, one line each
	Bare       bool     // made by [WithoutCode]: figures alone
}

// Took is how long the job took, for people.
func (j *Job) Took() string { return Millis(float64(j.Finished.Sub(j.Started)) / 1e6) }

// NoteGroup is one note and the trials that said it.
type NoteGroup struct {
	Text  string
	Trial string // the first one; empty: the job
	N     int
}

// NoteGroups joins notes of the same words, in the order in which they were
// said first.
func (j *Job) NoteGroups() []NoteGroup {
	at := map[string]int{}
	var groups []NoteGroup
	for _, n := range j.Notes {
		i, ok := at[n.Text]
		if !ok {
			i = len(groups)
			at[n.Text] = i
			groups = append(groups, NoteGroup{Text: n.Text, Trial: n.Trial})
		}
		groups[i].N++
	}
	return groups
}

// Replaced is an attempt that another one took the place of, or that left no
// result.
type Replaced struct {
	Trial   string
	Attempt int
	Kept    string // relative to the job; empty: it left nothing
	Cause   trial.Cause
	Why     string
}

// Note is something that was said aloud.
type Note struct {
	Trial string // empty: of the job
	Text  string
}

// Trial is one row of a job.
type Trial struct {
	Name    string
	Dir     string // host path of its directory
	Task    string
	Agent   string // name and, with a model, "name · model"
	Rep     int
	Attempt int
	State   State

	Outcome  trial.Outcome
	Fault    trial.Fault
	Cause    trial.Cause
	Detail   string
	Evidence trial.Evidence
	Modes    trial.Modes
	Image    trial.ImageUsed
	Reward   *float64
	Rewards  []Reward
	Usage    trial.Usage
	Calls    *int         // to a model; nil: it had none
	Times    *trial.Times // of an agent with a model
	Use      trial.Resources
	Started  time.Time
	Finished time.Time
	Wall     float64 // ms; 0 is unknown
	Overhead float64 // ms
	Timed    bool    // Phases and Overhead were measured by assay
	Phases   []trial.PhaseTime

	Checks    *trial.Checks // of a task with a check plan; nil: its reward file is all there is
	AgentExit *int
	TestExit  *int
	EndState  []trial.EndState
	Notes     []string
	Exception *trial.Exception
	Steps     []StepRow
	Parts     []string // names of the steps that left files; one empty name in a single-step trial
	Problems  []string // what could not be read, one line each

	Now       trial.Phase      // of a running trial, the phase it was last seen in
	LiveSteps []trial.StepMark // of the attempt that stands, as events told them
	Marks     []Mark           // events of interest, oldest first
}

// Reward is one key of a reward file, spelled as it was written.
type Reward struct{ Key, Value string }

// StepRow is one step of a multi-step task.
type StepRow struct {
	Name    string
	Rewards []Reward
	Error   string
}

// Mark is an event of a trial that its page names: a check, a milestone, a
// deadline, a locked file touched, a note.
type Mark struct {
	Seq  uint64
	Time time.Time
	Kind trial.Kind
	Text string
}

// Why is the cause, or the phase that a running trial is in.
func (t *Trial) Why() string {
	if t.State == StateRunning && t.Now != "" {
		return "in " + string(t.Now)
	}
	return string(t.Cause)
}

// Ended reports whether the trial has a verdict or a fault.
func (t *Trial) Ended() bool { return t.State == StateFinished }

// Word is the one word that a table shows for the trial's ending or state.
func (t *Trial) Word() string {
	if t.Ended() {
		return string(t.Outcome)
	}
	return string(t.State)
}

// EvidenceLabel says what the verdict rests on; "unknown", which is less than
// self-reported, where nobody said. A trial without a verdict has none.
func (t *Trial) EvidenceLabel() string {
	switch {
	case t.tally().Graded() == 0:
		return ""
	case t.Evidence == "":
		return "unknown"
	}
	return string(t.Evidence)
}

// CauseMeans is the register's line on the trial's cause.
func (t *Trial) CauseMeans() string {
	if e, err := t.Cause.Ending(); err == nil {
		return e.Means
	}
	return ""
}

// ModeWords are the conditions of the verdict on one line.
func (t *Trial) ModeWords() string {
	m := t.Modes
	var l []string
	for _, p := range []struct{ what, v string }{
		{"", m.Grade}, {"", m.Verifier}, {"network ", m.Network}, {"verifier network ", m.VerifierNetwork}, {"", m.Backend}, {"uid ", m.UID}, {"services ", m.Services},
	} {
		if p.v != "" {
			l = append(l, p.what+line(p.v, 40))
		}
	}
	if len(l) == 0 {
		return unknown
	}
	return strings.Join(l, ", ")
}

// Labels are the conditions that a reader of a verdict must know: anything
// but a sealed verifier without network and one user id says so.
func (t *Trial) Labels() []string {
	var l []string
	if t.Modes.Verifier != "" && t.Modes.Verifier != "sealed" {
		l = append(l, t.Modes.Verifier+" verifier")
	}
	if n := t.Modes.Network; n != "" && n != "none" {
		l = append(l, "network "+n)
	}
	if n := t.Modes.VerifierNetwork; n != "" && n != "none" {
		l = append(l, "verifier network "+n)
	}
	if s := t.Modes.Services; s != "" {
		l = append(l, "services "+line(s, 40))
	}
	if u := t.Modes.UID; u != "" && u != "single" {
		l = append(l, "uid "+u)
	}
	if t.Image.Fallback {
		l = append(l, "fallback image")
	}
	return l
}

// text is what the text filter searches.
func (t *Trial) text() string {
	return strings.ToLower(strings.Join([]string{t.Name, t.Task, t.Agent, t.Word(), string(t.Cause), string(t.Fault),
		t.EvidenceLabel(), t.Detail, strings.Join(t.Labels(), " ")}, "\n"))
}

// tally adds one trial to a tally.
func (t *Trial) tally() stats.Tally {
	c := stats.Tally{Planned: 1}
	if !t.Ended() {
		return c
	}
	switch {
	case t.Fault == trial.FaultCancelled:
		c.Cancelled = 1
	case t.Outcome == trial.Pass:
		c.Pass = 1
	case t.Outcome == trial.Fail:
		c.Fail = 1
	case t.Outcome == trial.Inconclusive:
		c.Inconclusive = 1
	case t.Outcome == trial.Invalid:
		c.Invalid = 1
	default:
		c.Infra = 1
	}
	return c
}
