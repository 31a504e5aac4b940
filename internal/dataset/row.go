package dataset

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"assay/internal/store"
	"assay/trajectory"
	"assay/trial"
)

// Row is one conversation of one trial with what came of it.
type Row struct {
	ID           string         `json:"id"` // job/trial, then the step and the document where there are several
	Job          string         `json:"job"`
	Trial        string         `json:"trial"`
	Step         string         `json:"step,omitempty"`          // of a multi-step task
	Trajectory   string         `json:"trajectory_id,omitempty"` // of an embedded document
	Task         string         `json:"task"`
	TaskDigest   string         `json:"task_digest,omitempty"`
	Proof        string         `json:"proof"` // level of the task's proof, or "none"
	Agent        string         `json:"agent"`
	AgentVersion string         `json:"agent_version,omitempty"`
	Model        string         `json:"model,omitempty"`
	Rep          int            `json:"rep"`
	Attempt      int            `json:"attempt"`
	Reward       *float64       `json:"reward"`
	Outcome      trial.Outcome  `json:"outcome"`
	Cause        trial.Cause    `json:"cause"`
	Fault        trial.Fault    `json:"fault"`
	Evidence     trial.Evidence `json:"evidence,omitempty"`
	Termination  Termination    `json:"termination"`
	Trainable    bool           `json:"trainable"`
	Why          string         `json:"not_trainable,omitempty"`

	Turns            int      `json:"turns"`
	Messages         int      `json:"n_messages"`
	ToolCalls        int      `json:"tool_calls"`
	PromptTokens     *int64   `json:"prompt_tokens"`
	CompletionTokens *int64   `json:"completion_tokens"`
	CostUSD          *float64 `json:"cost_usd"`

	Doc *trajectory.Trajectory `json:"-"`
}

// Termination is how the agent's work ended, whatever it was worth.
type Termination string

const (
	Finished     Termination = "finished" // by itself
	NoSubmission Termination = "no_submission"
	Crashed      Termination = "crashed"
	TimedOut     Termination = "timeout"
	OutOfContext Termination = "context"
	OutOfBudget  Termination = "budget"
	OutOfRoom    Termination = "resources" // memory or disk
	Looped       Termination = "loop"
	Refused      Termination = "refused"
	Malformed    Termination = "malformed"
	Cancelled    Termination = "cancelled"
	NotRun       Termination = "infra" // infrastructure or the task itself failed
)

// terminationOf classes a cause.
func terminationOf(c trial.Cause) Termination {
	switch c {
	case trial.CauseAgentExit, trial.CauseAgentCrash:
		return Crashed
	case trial.CauseAgentTimeout:
		return TimedOut
	case trial.CauseNoSubmission:
		return NoSubmission
	case trial.CauseContextLimit:
		return OutOfContext
	case trial.CauseAgentRefused:
		return Refused
	case trial.CauseMalformedCall:
		return Malformed
	case trial.CauseBudget:
		return OutOfBudget
	case trial.CauseLoop:
		return Looped
	case trial.CauseDiskLimit, trial.CauseMemoryLimit:
		return OutOfRoom
	case trial.CauseCancelled:
		return Cancelled
	}
	if e, err := c.Ending(); err != nil || e.Outcome == trial.Invalid || e.Outcome == trial.Infra {
		return NotRun
	}
	return Finished
}

// maxLooping is the share of looping actions beyond which a run teaches
// nothing but its loop.
const maxLooping = 0.15

// untrainable says why a row is no lesson, empty for one that is. A failed run
// may be one: whoever filters by reward says so.
func untrainable(r *Row, b trajectory.Behaviour) string {
	switch {
	case r.Outcome != trial.Pass && r.Outcome != trial.Fail:
		return fmt.Sprintf("no verdict stands: %s", r.Outcome)
	case r.Termination != Finished:
		return fmt.Sprintf("the agent's work was cut off: %s", r.Termination)
	case r.Turns == 0:
		return "no turn of an agent"
	case !asked(r.Doc):
		return "no model was asked"
	}
	actions := 0
	for _, n := range b.Actions {
		actions += n
	}
	if float64(b.Looping) > maxLooping*float64(actions) {
		return fmt.Sprintf("loops: %d of %d actions", b.Looping, actions)
	}
	return ""
}

// asked says whether some step may have asked a model.
func asked(t *trajectory.Trajectory) bool {
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Source == trajectory.Agents && (s.LLMCalls == nil || *s.LLMCalls > 0) {
			return true
		}
	}
	return false
}

// Options say what becomes rows.
type Options struct {
	Roots bool // embedded documents (sub-agents, continuations) are rows of their own
}

// Rows calls f for every conversation of every finished trial of a job, in the
// job's order; skipped says why a trial has none, and whether that is because
// something cannot be read. An error of f ends it.
func Rows(v *store.View, o Options, f func(*Row) error, skipped func(name, why string, broken bool)) error {
	for _, t := range v.Trials {
		if t.Status != store.TrialFinished {
			skipped(t.Name, "it has no result: "+string(t.Status), t.Status == store.TrialUnreadable)
			continue
		}
		for _, s := range t.Steps {
			doc, err := t.Trajectory(s.Step)
			if err != nil || doc == nil {
				why := "it has no trajectory"
				if err != nil {
					why = err.Error()
				}
				skipped(t.Name, why, err != nil)
				continue
			}
			for _, d := range documents(doc, o.Roots) {
				if err := f(newRow(v, t, s.Step, d, d != doc)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func documents(doc *trajectory.Trajectory, roots bool) []*trajectory.Trajectory {
	if roots {
		return doc.All()
	}
	return []*trajectory.Trajectory{doc}
}

func newRow(v *store.View, t *store.Trial, step string, doc *trajectory.Trajectory, embedded bool) *Row {
	b, m := doc.Behave(), doc.Measure()
	r := &Row{
		ID: v.Name + "/" + t.Name, Job: v.Name, Trial: t.Name, Step: step, Task: t.Task, TaskDigest: t.Digest, Proof: proofOf(t),
		Agent: t.Agent, Model: t.Model, Rep: t.Rep, Attempt: t.Attempt, Reward: t.Reward,
		Outcome: t.Outcome, Cause: t.Cause, Fault: t.Fault, Evidence: t.Evidence, Termination: terminationOf(t.Cause),
		Turns: b.Turns, Messages: b.Messages, ToolCalls: m.ToolCalls,
		PromptTokens: m.PromptTokens, CompletionTokens: m.CompletionTokens, CostUSD: m.CostUSD, Doc: doc,
	}
	if t.Result != nil {
		r.AgentVersion = t.Result.AgentInfo.Version
	}
	if step != "" {
		r.ID += "/" + step
	}
	if embedded {
		r.Trajectory = doc.TrajectoryID
		r.ID += "#" + doc.TrajectoryID
	}
	r.Why = untrainable(r, b)
	r.Trainable = r.Why == ""
	return r
}

// proofOf is the level of the proof that lies beside the task, if it is of the
// task as it was run.
func proofOf(t *store.Trial) string {
	var cfg struct{ Task struct{ Path string } }
	if t.Result == nil || json.Unmarshal(t.Result.Config, &cfg) != nil || cfg.Task.Path == "" {
		return "none"
	}
	var p struct {
		Level  string `json:"level"`
		Digest string `json:"task_digest"`
		Proved bool   `json:"proved"`
	}
	b, err := readSmall(filepath.Join(cfg.Task.Path, "proof.json"))
	if err != nil || json.Unmarshal(b, &p) != nil || !p.Proved || p.Level == "" || p.Digest != t.Digest {
		return "none"
	}
	return p.Level
}

// maxProof bounds what is read of a proof.
const maxProof = 1 << 20

func readSmall(name string) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxProof {
		return nil, fmt.Errorf("%s is no small file", name)
	}
	return os.ReadFile(name)
}
