// Package job runs a grid of tasks, agents and attempts: it plans, gives out
// slots, retries infrastructure faults, and leaves a job directory that can be
// resumed at any moment. It decides when something runs and in which order it
// is committed; what counts as solved is grade's, what runs is the agent's,
// how a place is made is the sandbox's. It prints nothing and reads no
// environment: what it tells goes into the job's events.
package job

import (
	"context"
	"errors"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// Config is what a user asks for. Fields with a zero value have the default
// named beside them.
type Config struct {
	Dir        string   // of the job: DIR/NAME
	Source     string   // name of the task set; empty for a single task
	Path       string   // of the task or set, as the user named it
	Rerun      []string // faults, causes, outcomes or trial names whose results are set aside and repeated
	Tasks      []*task.Task
	Arms       []Arm
	Attempts   int // k; 1
	Concurrent int // 4
	Retries    int // of infrastructure faults, per trial; negative means none, zero means 2

	Image       string            // image for every task, instead of its own
	Verifier    task.VerifierMode // for every task, instead of the mode it asks for
	AgentLimit  time.Duration     // cap on every agent's time; zero: the task's own
	Limits      sandbox.Limits    // for what a task does not say itself
	TimeoutMult float64           // 1
	Network     sandbox.Network   // the most a task gets of what it asks for; zero: none
	AllowHosts  []string          // rules of the operator's own, for every task with an allow-list or no policy
	UID         sandbox.UIDMode   // of every trial; zero: of the task's proof, else the backend's first

	Budget    Budget // of one trial
	JobBudget Budget // of all trials of the job together, those of earlier runs included

	Tools []string // of the host, that every agent is offered

	Shuffle bool // tests run in another order at every attempt but the first
	Repeats bool // of a proof: other attempts and arms than the first repeat what that shows, and are graded without canaries
	Every   bool // of a search for canaries: each one of a plan is in place, none is drawn; verdicts mean nothing

	Backend string // that the job was begun on, as Load tells; empty: whatever Deps has
	MinFree int64  // bytes that the store's and the job's file systems must have free for anything to begin; 0: not looked at
}

// Deps are the rooms a job works with.
type Deps struct {
	Images  *image.Store
	Backend sandbox.Backend
	// Resolve finds an image by its name, the pseudo-image "host" included.
	Resolve func(ctx context.Context, ref string) (image.Image, error)
	// Fetch brings an image that Resolve does not find, telling how far it is;
	// nil: nothing is fetched. What came before it was cut off is not fetched again.
	Fetch func(ctx context.Context, ref string, tell func(done, total int64)) (image.Image, error)
	// Build makes an image from a task's Dockerfile.
	Build func(ctx context.Context, r BuildRequest) (image.Image, error)
	// Egress makes the way out of a sandbox; nil: there is none.
	Egress func(r EgressRequest) (Gate, error)
	// Tools makes what Config.Tools names; nil: there are none.
	Tools func(r ToolRequest) (Toolbox, error)
	// Env looks up a variable of the host for ${VAR} in a task's environment.
	Env func(string) (string, bool)
	// OnEvent sees every event after it was appended. It must not block long.
	OnEvent func(trial.Event)
	// Boundary is called at each named write, rename and event boundary; a
	// crash test ends the process there.
	Boundary func(name string)
	Version  string // of assay
}

// BuildRequest asks for the image of one Dockerfile.
type BuildRequest struct {
	Dir  string      // build context on the host; holds the Dockerfile
	Base image.Image // replaces what the built stage stands upon, when it has an ID

	Dockerfile string // relative to Dir; empty: "Dockerfile"
	Target     string
	Args       map[string]string
	// Resolve finds the image of a FROM or --from that Base does not replace.
	Resolve func(ctx context.Context, ref string) (image.Image, error)
	UID     sandbox.UIDMode // of RUN
}

// Summary is what a run of a job came to.
type Summary struct {
	Planned  int
	Ran      int // executed now
	Skipped  int // had a result already
	Counts   map[trial.Outcome]int
	Recovery store.Recovery
	// Paused are arms that were not gone on with; their trials stay pending.
	Paused []trial.ArmMark
	// Exhausted says which part of the job's budget is used up; empty: none.
	Exhausted string
}

// ErrChanged means that a task or agent is not what it was when the job began.
var ErrChanged = errors.New("changed since the job began")
