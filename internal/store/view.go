package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"assay/trial"
)

// View is a job as it stands on disk, read without a lock. Nothing in it is
// parsed of what agents wrote but numbers and names: texts are hostile.
type View struct {
	Dir      string
	Name     string
	ID       string
	Foreign  bool // written by another harness: Events are derived
	State    JobState
	Started  time.Time
	Updated  time.Time
	Finished time.Time // zero while it is not
	Info     trial.JobInfo
	Config   json.RawMessage // config.json; nil when it cannot be read
	Trials   []*Trial        // as planned; those of a foreign job by their beginning
	Events   []trial.Event   // by Seq
	Findings []Finding       // of the job; each trial has its own

	Planned int // trials in all
	Ended   int // trials with a result
	Graded  int // trials that stand in the denominator of a rate
}

// TrialStatus says where a trial stands.
type TrialStatus string

const (
	TrialPlanned  TrialStatus = "planned" // not begun, or to be begun again
	TrialRunning  TrialStatus = "running"
	TrialCutOff   TrialStatus = "cut off" // begun, and nobody writes the job any more
	TrialFinished TrialStatus = "finished"
	// TrialUnreadable: it has ended, and what it came to cannot be read. It has
	// no outcome; a resume runs it again.
	TrialUnreadable TrialStatus = "unreadable"
)

// Trial is one trial of a View. Outcome, Fault, Cause, Evidence, Rewards and
// the times are set only when Status is finished.
type Trial struct {
	Name    string      `json:"name"`
	Dir     string      `json:"dir"` // host path
	Task    string      `json:"task"`
	Digest  string      `json:"task_digest,omitempty"`
	Agent   string      `json:"agent"`
	Model   string      `json:"model,omitempty"`
	Rep     int         `json:"rep"`
	Attempt int         `json:"attempt"`
	Status  TrialStatus `json:"status"`

	Outcome  trial.Outcome          `json:"outcome,omitempty"`
	Fault    trial.Fault            `json:"fault,omitempty"`
	Cause    trial.Cause            `json:"cause,omitempty"`
	Evidence trial.Evidence         `json:"evidence,omitempty"`
	Reward   *float64               `json:"reward"`
	Rewards  map[string]json.Number `json:"rewards,omitempty"`
	Started  time.Time              `json:"started,omitzero"`
	Finished time.Time              `json:"finished,omitzero"`
	Record   trial.Record           `json:"record"`
	Derived  bool                   `json:"derived,omitempty"` // Record was derived from another harness's result
	Usage    trial.Sum              `json:"usage"`

	Steps    []StepFiles `json:"steps,omitempty"` // one in a single-step trial, with an empty name
	Replaced []Replaced  `json:"replaced,omitempty"`
	Findings []Finding   `json:"findings,omitempty"`

	Result *trial.Result `json:"-"`

	resultDigest string // of result.json's bytes
}

// Millis is the trial's wall time; 0 is unknown.
func (t *Trial) Millis() float64 {
	if t.Started.IsZero() || t.Finished.IsZero() {
		return 0
	}
	return float64(t.Finished.Sub(t.Started).Microseconds()) / 1000
}

// StepFiles are the files of one step, as paths relative to the trial's
// directory; empty where there is none. They are regular files reached through
// no link at the time of reading.
type StepFiles struct {
	Step       string `json:"step,omitempty"`
	Trajectory string `json:"trajectory,omitempty"`
	Diff       string `json:"diff,omitempty"`
	TestOutput string `json:"test_output,omitempty"`
	Details    string `json:"reward_details,omitempty"`
	Manifest   string `json:"manifest,omitempty"`
}

// Finding is something that is not as it should be in a job directory.
type Finding struct {
	Path string `json:"path"` // relative to the job
	Text string `json:"text"`
}

func (f Finding) String() string {
	if f.Path == "" {
		return f.Text
	}
	return fmt.Sprintf("%s: %s", f.Path, f.Text)
}

func (v *View) finding(path, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{path, fmt.Sprintf(format, args...)})
}

func (t *Trial) finding(path, format string, args ...any) {
	t.Findings = append(t.Findings, Finding{path, fmt.Sprintf(format, args...)})
}

// lastPart is the part of a slash-separated name after the last slash.
func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
