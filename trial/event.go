package trial

import (
	"encoding/json"
	"time"
)

// EventVersion is the value of [Event.V] that this package writes.
const EventVersion = 1

// Event is one line of a job's events.ndjson: append-only, and the only input
// of terminal, report and live page.
type Event struct {
	V       int             `json:"v"`
	Seq     uint64          `json:"seq"`               // 1, 2, 3, … without gaps within a job
	Time    time.Time       `json:"time"`              // UTC
	Trial   string          `json:"trial,omitempty"`   // trial name; empty for the job's own events
	Attempt int             `json:"attempt,omitempty"` // 1 for the first run of a trial, +1 for each retry or rerun
	Kind    Kind            `json:"kind"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Kind names what an event tells. Readers keep kinds they do not know.
type Kind string

const (
	JobStarted    Kind = "job.started"         // data: JobInfo
	JobResumed    Kind = "job.resumed"         // data: JobInfo
	JobFinished   Kind = "job.finished"        // data: {} ; absent when the job was cut off
	JobCancelled  Kind = "job.cancelled"       // data: {}
	JobPaused     Kind = "job.paused"          // data: Pause; nothing is begun until there is room
	JobContinued  Kind = "job.continued"       // data: Pause
	ImageStarted  Kind = "image.started"       // data: ImageMark; before any trial
	ImageMoved    Kind = "image.moved"         // data: ImageMark; how far a fetch is, at most once a second
	ImageReady    Kind = "image.ready"         // data: ImageMark; with Error: it cannot be had
	TrialPlanned  Kind = "trial.planned"       // data: Planned
	TrialStarted  Kind = "trial.started"       // data: Planned
	TrialRetried  Kind = "trial.retried"       // data: Replaced; the attempt's directory is kept
	TrialFinished Kind = "trial.finished"      // data: Finished; holds the digest of result.json
	TrialDropped  Kind = "trial.dropped"       // data: Dropped; a started attempt that left no result
	PhaseStarted  Kind = "phase.started"       // data: PhaseMark
	PhaseFinished Kind = "phase.finished"      // data: PhaseMark
	StepMade      Kind = "step"                // data: StepMark
	CheckMade     Kind = "check"               // data: {"id":…,"status":…}
	MilestoneMet  Kind = "milestone"           // data: {"id":…}
	LockedTouched Kind = "locked-file-touched" // data: TouchMark; protected paths that the agent changed
	DeadlineMet   Kind = "deadline"            // data: {"phase":…,"limit_sec":…}
	LimitMet      Kind = "limit"               // data: LimitMark; tokens, money or patience of the agent are used up
	ArmPaused     Kind = "arm.paused"          // data: ArmMark; its trials stay pending
	BudgetMet     Kind = "budget"              // data: {"detail":…}; the job's own: nothing more is begun
	Peeked        Kind = "peek"
	Noted         Kind = "note" // data: {"text":…}; said aloud, e.g. a fallback image
)

// JobInfo is the data of JobStarted and JobResumed.
type JobInfo struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Trials     int    `json:"trials"` // planned in all
	Concurrent int    `json:"concurrent"`
	Version    string `json:"version"` // of assay
}

// Pause is the data of JobPaused and JobContinued.
type Pause struct {
	Path string `json:"path"`       // on the file system with the least room
	Free int64  `json:"free_bytes"` // there
	Min  int64  `json:"min_bytes"`  // what must be free for the job to go on
}

// ImageMark is the data of the image events.
type ImageMark struct {
	Name   string    `json:"name"`            // as the task names it; of a build, its Dockerfile's directory
	Of     int       `json:"of,omitempty"`    // images of the job in all; started only
	Tasks  int       `json:"tasks,omitempty"` // that need it; started only
	Done   int64     `json:"done,omitempty"`  // bytes here; moved only
	Total  int64     `json:"total,omitempty"` // bytes to fetch; moved, and ready after a fetch
	Used   ImageUsed `json:"used,omitzero"`   // ready only
	Note   string    `json:"note,omitempty"`  // ready: why this image and not the task's own
	Millis float64   `json:"ms,omitempty"`    // ready only
	Error  string    `json:"error,omitempty"` // ready: why it cannot be had
	Cause  Cause     `json:"cause,omitempty"` // of the trials that end for it
}

// Planned is the data of TrialPlanned and TrialStarted.
type Planned struct {
	Task   string `json:"task"`
	Digest string `json:"digest,omitempty"`
	Agent  string `json:"agent"`
	Model  string `json:"model,omitempty"`
	Rep    int    `json:"rep"`             // 1..k: which of the k attempts of this task and agent
	Given  string `json:"given,omitempty"` // digest of the prediction that it is about; empty: an agent works
}

// Replaced is the data of TrialRetried.
type Replaced struct {
	Kept  string `json:"kept"` // the kept attempt's directory, relative to the job
	Cause Cause  `json:"cause"`
	Why   string `json:"why"` // "retry", "rerun" or "regrade"
}

// Dropped is the data of TrialDropped.
type Dropped struct {
	Why  string `json:"why"`            // one line for people
	Kept string `json:"kept,omitempty"` // what the attempt left, relative to the job
}

// Finished is the data of TrialFinished.
type Finished struct {
	Digest  string   `json:"digest"` // sha256:… of result.json's bytes
	Outcome Outcome  `json:"outcome"`
	Fault   Fault    `json:"fault"`
	Cause   Cause    `json:"cause"`
	Reward  *float64 `json:"reward"` // null when there is none, or none named "reward" among several
	Millis  float64  `json:"ms"`
}

// PhaseMark is the data of PhaseStarted and PhaseFinished.
type PhaseMark struct {
	Phase  Phase   `json:"phase"`
	Step   string  `json:"step,omitempty"` // of a multi-step task
	Millis float64 `json:"ms,omitempty"`   // finished only
	Error  string  `json:"error,omitempty"`
}

// StepMark is the data of StepMade: one step of the trajectory, in short.
type StepMark struct {
	StepID int    `json:"step_id"`
	Source string `json:"source"`
	Text   string `json:"text,omitempty"` // cut to 2,000 bytes
	Tool   string `json:"tool,omitempty"`
}

// TouchMark is the data of LockedTouched.
type TouchMark struct {
	Step  string   `json:"step,omitempty"` // of a multi-step task
	Paths []string `json:"paths"`          // absolute; at most 100
	Count int      `json:"count"`          // in all
}

// LimitMark is the data of LimitMet.
type LimitMark struct {
	Cause  Cause  `json:"cause"`
	Detail string `json:"detail"`
}

// ArmMark is the data of ArmPaused.
type ArmMark struct {
	Agent   string `json:"agent"`
	Model   string `json:"model,omitempty"`
	Cause   Cause  `json:"cause"`
	Detail  string `json:"detail"`
	Pending int    `json:"pending"` // trials of it that were not begun
}

// Phase is one stretch of a trial's time. The harness's own overhead is the
// trial's wall time minus PhaseAgent and PhaseTests.
type Phase string

const (
	PhaseImage   Phase = "image"   // resolving or building the image
	PhaseSetup   Phase = "setup"   // creating the agent's sandbox, putting files in
	PhaseAgent   Phase = "agent"   // the agent's own time
	PhaseFreeze  Phase = "freeze"  // killing everything, freezing the end state
	PhaseCollect Phase = "collect" // logs, artifacts, diff
	PhaseGrade   Phase = "grade"   // making the fresh copy, putting the key in, reading rewards
	PhaseTests   Phase = "tests"   // the verifier's own time
	PhaseRecord  Phase = "record"  // writing trajectory and result
)

// Phases lists the phases in the order in which a trial passes them.
func Phases() []Phase {
	return []Phase{PhaseImage, PhaseSetup, PhaseAgent, PhaseFreeze, PhaseCollect, PhaseGrade, PhaseTests, PhaseRecord}
}
