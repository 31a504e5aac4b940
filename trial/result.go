package trial

import (
	"encoding/json"
	"time"
)

// Result is Harbor 0.25's trial result.json. Field order, nulls and names are
// Harbor's; [Result.Assay] is what assay adds, kept in agent_result.metadata.
// Source: harbor/models/trial/result.py.
type Result struct {
	ID                      string          `json:"id"`
	TaskName                string          `json:"task_name"`
	TrialName               string          `json:"trial_name"`
	TrialURI                string          `json:"trial_uri"`
	TaskID                  json.RawMessage `json:"task_id"` // {"path":…} | {"git_url",…} | {"org",…}
	Source                  *string         `json:"source"`
	TaskChecksum            string          `json:"task_checksum"`
	Config                  json.RawMessage `json:"config"`
	AgentInfo               AgentInfo       `json:"agent_info"`
	AgentResult             *AgentResult    `json:"agent_result"`
	VerifierResult          *VerifierResult `json:"verifier_result"`
	VerifierEnvironmentMode *string         `json:"verifier_environment_mode"`
	Exception               *Exception      `json:"exception_info"`
	StartedAt               *time.Time      `json:"started_at"`
	FinishedAt              *time.Time      `json:"finished_at"`
	EnvironmentSetup        *Span           `json:"environment_setup"`
	AgentSetup              *Span           `json:"agent_setup"`
	AgentExecution          *Span           `json:"agent_execution"`
	Verifier                *Span           `json:"verifier"`
	StepResults             []StepResult    `json:"step_results"`

	// Extra keeps keys of a foreign file that this version does not know, so
	// that reading and writing loses nothing.
	Extra map[string]json.RawMessage `json:"-"`
}

// AgentInfo names agent and model.
type AgentInfo struct {
	Name    string     `json:"name"`
	Version string     `json:"version"`
	Model   *ModelInfo `json:"model_info"`
}

// ModelInfo names a model; Provider may be unknown.
type ModelInfo struct {
	Name     string  `json:"name"`
	Provider *string `json:"provider"`
}

// AgentResult is what the agent used and said. Unknown numbers are null.
type AgentResult struct {
	Usage
	ModelUsage     map[string]Usage           `json:"model_usage"`
	RolloutDetails json.RawMessage            `json:"rollout_details"`
	Metadata       map[string]json.RawMessage `json:"metadata"`
}

// VerifierResult holds the rewards by key; numbers keep their spelling.
type VerifierResult struct {
	Rewards map[string]json.Number `json:"rewards"`
}

// Exception is Harbor's exception_info.
type Exception struct {
	Type      string    `json:"exception_type"`
	Message   string    `json:"exception_message"`
	Traceback string    `json:"exception_traceback"`
	At        time.Time `json:"occurred_at"`
}

// Span is one of Harbor's timing pairs.
type Span struct {
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

// StepResult is one step of a multi-step trial.
type StepResult struct {
	StepName       string          `json:"step_name"`
	AgentResult    *AgentResult    `json:"agent_result"`
	VerifierResult *VerifierResult `json:"verifier_result"`
	Exception      *Exception      `json:"exception_info"`
	AgentExecution *Span           `json:"agent_execution"`
	Verifier       *Span           `json:"verifier"`
}

// Evidence says what a verdict rests on.
type Evidence string

const (
	// SelfReported: a reward file that code beside the candidate wrote.
	SelfReported Evidence = "self-reported"
	// Canaried: a test report cross-checked with secret canaries.
	Canaried Evidence = "canaried"
	// Separate: assertions ran in another process than the candidate.
	Separate Evidence = "separate"
)

// RecordVersion is the value of [Record.V] that this package writes.
const RecordVersion = 1

// Record is what assay knows of a trial beyond Harbor's fields, stored as
// agent_result.metadata.assay.
type Record struct {
	V        int       `json:"v"`
	Outcome  Outcome   `json:"outcome"`
	Fault    Fault     `json:"fault"`
	Cause    Cause     `json:"cause"`
	Detail   string    `json:"detail,omitempty"` // one line for people
	Attempt  int       `json:"attempt"`
	Rep      int       `json:"rep"` // 1..k
	Evidence Evidence  `json:"evidence,omitempty"`
	Modes    Modes     `json:"modes"`
	Image    ImageUsed `json:"image"`
	Task     string    `json:"task_digest"` // Harbor's content digest of the task directory

	AgentExit *int `json:"agent_exit"` // exit status of the agent's program; null where it has none
	TestExit  *int `json:"test_exit"`  // exit status of the verifier's script; null when it did not end by itself

	EndState []EndState        `json:"end_state,omitempty"` // one a step; what the agent left behind
	Phases   []PhaseTime       `json:"phases"`
	Overhead float64           `json:"overhead_ms"` // wall time minus agent and tests
	Use      Resources         `json:"resources"`
	Calls    *int              `json:"model_calls,omitempty"` // null: it had no model
	Times    *Times            `json:"times,omitempty"`       // of an agent with a model
	Notes    []string          `json:"notes,omitempty"`       // said aloud, e.g. a fallback image
	Rewards  map[string]string `json:"rewards_raw,omitempty"`

	Checks *Checks `json:"checks,omitempty"` // of a task with a check plan; null where there is none
}

// Checks sum up the verdict of a check plan, which stands whole in
// verifier/verdict.json. Of several steps they are the sums, and Resolved and
// Strict hold for all.
type Checks struct {
	FailToPass Share       `json:"fail_to_pass"`
	PassToPass Share       `json:"pass_to_pass"`
	Resolved   bool        `json:"resolved"` // every expected check passed
	Strict     bool        `json:"strict"`   // also nothing else failed, and every exit status agrees
	Void       string      `json:"void,omitempty"`
	Milestones []Milestone `json:"milestones,omitempty"`
	// WorkDigest is the sha256 of the work that was graded, so that the same
	// patch is recognised; empty where it is not known.
	WorkDigest string `json:"work_digest,omitempty"`
}

// Share counts checks of a closed list.
type Share struct {
	Passed int `json:"passed"`
	Total  int `json:"total"`
}

// Milestone is how far one group of checks came.
type Milestone struct {
	Name    string  `json:"name"`
	Passed  int     `json:"passed"`
	Total   int     `json:"total"`
	Reached bool    `json:"reached"`
	Weight  float64 `json:"weight"`
}

// Modes are the conditions a verdict holds under; tables label results whose
// modes differ.
type Modes struct {
	Backend         string `json:"backend"`            // "ns", "docker", "fake"
	UID             string `json:"uid"`                // "single", "subid", "root"
	Grade           string `json:"grade"`              // "patch" or "state"
	Verifier        string `json:"verifier"`           // "sealed", "separate" or "live"
	Network         string `json:"network"`            // the agent's: "none", "allowlist", "full"
	VerifierNetwork string `json:"verifier_network"`   // the verifier's
	Services        string `json:"services,omitempty"` // ServicesKept, or empty: there were none
	Seal            string `json:"seal,omitempty"`     // the image that holds what the verifier installed before; empty: nothing is sealed
	Outlet          string `json:"outlet,omitempty"`   // what led the agent's network out: "proxy", "interface", both with "+"
}

// ServicesKept: services beside the agent's sandbox lived on, with all that it
// did to them, while its work was graded.
const ServicesKept = "kept"

// ImageUsed names the image a trial ran on.
type ImageUsed struct {
	ID       string `json:"id"`                 // content id
	Source   string `json:"source"`             // as the task or flag named it
	Digest   string `json:"digest,omitempty"`   // sha256:… of the manifest by which a registry knows it; of a build: none
	Fallback bool   `json:"fallback,omitempty"` // the task's own image was missing and its fallback_image used
}

// EndState is the frozen work of an agent, kept in the layer store.
type EndState struct {
	Step  string `json:"step,omitempty"`
	Layer string `json:"layer"` // layer id; empty when the agent changed nothing
	Bytes int64  `json:"bytes"`
	Files int    `json:"files"`
}

// PhaseTime is the time one phase took.
type PhaseTime struct {
	Phase  Phase   `json:"phase"`
	Step   string  `json:"step,omitempty"`
	Millis float64 `json:"ms"`
}

// Times part the agent's time: wall = working + waiting, and the model's is
// within working.
type Times struct {
	Wall    float64 `json:"wall_ms"`
	Working float64 `json:"working_ms"` // what its limit counts
	Waiting float64 `json:"waiting_ms"` // for a provider that was short of room
	Model   float64 `json:"model_ms"`   // until the model's answers were complete; of calls side by side, each
}

// Resources are measured use; null is unknown.
type Resources struct {
	CPUMillis    *float64 `json:"cpu_ms"`
	MaxRSSBytes  *int64   `json:"max_rss_bytes"`
	OutputBytes  *int64   `json:"output_bytes"`
	DirtyBytes   *int64   `json:"dirty_bytes"`
	LimitsHeld   []string `json:"limits_held,omitempty"` // which limits were enforced, and by what: "disk:tmpfs", "pids:rlimit"
	LimitsUnheld []string `json:"limits_unheld,omitempty"`
}
