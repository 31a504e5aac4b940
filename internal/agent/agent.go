// Package agent is the contract between assay and whatever works on a task.
//
// An agent is asked for its [Needs] before any sandbox exists and then runs
// with a [Session]: brief, sandbox, model endpoint, recorder, deadline and
// limits. It never holds a task.Key and this package never imports grade; for
// the oracle it is the job that puts the gold solution into the sandbox.
// Children oracle, nop, script and command implement it; agenttest is the
// conformance suite that all of them run.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"syscall"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// Agent works on one step of one task at a time. An Agent is used by many
// trials concurrently and holds no state of any of them.
type Agent interface {
	Info() trial.AgentInfo
	// Needs says what must be in place before the sandbox exists. An error
	// means that this agent cannot work on this brief; no trial is started.
	Needs(b task.Brief) (Needs, error)
	// Run works until it is done or ctx ends (its cause is ErrDeadline at the
	// deadline). A program's non-zero exit is a report, not an error; an error
	// is a fault of the harness. Run leaves its steps in s.Recorder as it goes,
	// so that an agent cut off at the deadline still leaves a trajectory.
	Run(ctx context.Context, s Session) (Report, error)
}

// ErrDeadline is the cause of a context that ended at an agent's deadline.
var ErrDeadline = errors.New("the agent's time is up")

// ErrStopped is the cause of a context that another limit ended: the agent's
// tokens, its money, or what it has left to try.
var ErrStopped = errors.New("a limit stopped the agent")

// Needs is what an agent must find in its sandbox.
type Needs struct {
	Mounts  []sandbox.Mount
	Env     map[string]string
	Network sandbox.Network // zero: whatever the brief says
	Dialect string          // model APIs it speaks, the one it prefers first, with commas between; empty: needs no model
	// Optional: without a model it works all the same.
	Optional bool
	Solution bool // the job puts the task's solution at /solution (oracle only)
	Files    []File
	Memory   int64 // bytes that it uses itself, on top of what a task may
}

// File is a small file that the job puts into the sandbox before the agent.
type File struct {
	Path image.Path
	Mode uint32 // permission bits
	Data []byte
}

// Place is the part of a sandbox that an agent may use: it runs programs and
// moves trees, and can neither freeze, reset nor close it.
type Place interface {
	sandbox.Starter
	sandbox.Trees
}

// Session is one run.
type Session struct {
	Brief    task.Brief
	Sandbox  Place
	Env      []string   // resolved [environment].env, the agent's own on top
	Workdir  image.Path // where the work is
	User     string
	Model    *Endpoint // nil: no model was asked for
	Recorder *Recorder
	Deadline time.Time      // zero: none; ctx ends at it
	Output   int64          // bytes of one command's output that are kept; 0: 1 MiB
	Logs     image.HostPath // directory for the agent's own logs (agent/ of the trial)
	Tools    []Tool         // of the host, besides the agent's own
	MCP      string         // URL inside the sandbox where an MCP server offers Tools; empty: none
}

// Tool is something that the host does for an agent. A host-side agent calls
// it directly, one in the sandbox by MCP; both ways lead to the same Call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object
	// Call may be used by many goroutines at once. arguments are the agent's
	// and may be anything; an error is told to the agent as the tool's answer.
	Call func(ctx context.Context, arguments json.RawMessage) (string, error)
}

// Endpoint is where the agent's model answers.
type Endpoint struct {
	URL     string // without a version and without a slash at its end
	Dialect string // of those that the agent speaks, the one to use
	Model   string
	Key     string // a capability of this trial alone, never the user's key

	// Transport reaches URL for an agent on the host, without a network; nil:
	// URL is reached like any other.
	Transport http.RoundTripper
	NoTools   bool  // the model cannot call tools: they are to be asked for in plain text
	Window    int64 // tokens of prompt and answer that the model can hold; 0: unknown
	MaxOutput int64 // tokens that it gives at most; 0: unknown
}

// Report is what a run came to.
type Report struct {
	Exit     *int // exit status of the agent's program; null when it has none
	Usage    trial.Usage
	Signal   syscall.Signal // that ended the program; 0: none
	TimedOut bool
	// Cause is why the agent says that it stopped; empty: it was done, or does
	// not say. It tells more of an unsolved task, and never changes a verdict.
	Cause   trial.Cause
	Detail  string // of Cause
	Stopped bool   // by a limit that is not the deadline
	// OutOfMemory: some of its processes were ended for the memory limit.
	OutOfMemory bool
	CPU         *time.Duration
	MaxRSS      *int64 // bytes
	Metadata    map[string]any
}
