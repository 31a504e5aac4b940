package task

import "time"

// Task is one task directory, read.
type Task struct {
	Dir    string // host path of the directory, absolute
	Name   string // [task].name, else the directory's name
	Config Config // task.toml as read; see config.go
	Steps  []Step // at least one; a single-step task has one with an empty Name
	Format Format // of the directory that was read; empty means FormatHarbor

	layout []stepLayout // what Load found on disk, one for each of Steps
}

// Format is the kind of a task directory.
type Format string

const (
	FormatHarbor Format = "harbor"
	// FormatTerminalBench1: a directory with task.yaml, mapped while reading.
	FormatTerminalBench1 Format = "terminal-bench-1"
)

// Step is one step of a task.
type Step struct {
	Name        string // directory below steps/; empty in a single-step task
	Instruction string // what the agent reads; a leading canary comment is cut
}

// MultiStep reports whether the task has named steps.
func (t *Task) MultiStep() bool { return len(t.Steps) > 0 && t.Steps[0].Name != "" }

// Brief is all that an agent may know of a step. It holds nothing of the key,
// not even a path to it.
type Brief struct {
	Task        string
	Step        string // empty in a single-step task
	Index       int    // 0-based step
	Instruction string
	Workdir     string            // [environment].workdir; empty means the image's
	Env         map[string]string // [environment].env, with ${VAR} not yet resolved
	User        string            // [agent].user; empty means the image's
	Timeout     time.Duration     // 0 means no limit
	Network     Network           // what the agent's phase asks for
	SkillsDir   string
	MCPServers  []MCPServer
	Answer      []string // absolute paths of the files that answer it; nil: not said
}

// Key is what only the grader may hold: gold solution, hidden tests, and how
// they are run. Paths are host paths inside the task directory.
type Key struct {
	Step     string
	Tests    []string // directories copied to /tests, later ones on top: tests/, then steps/<name>/tests/
	Script   string   // "test.sh", relative to /tests
	Solution string   // directory of the gold solution, which holds solve.sh; empty when there is none

	// TestFiles and SolutionFiles are written into /tests and /solution after
	// the directories were copied: relative path to content, all executable.
	// Only formats whose scripts stand elsewhere have them.
	TestFiles     map[string][]byte
	SolutionFiles map[string][]byte

	SolutionEnv map[string]string // [solution].env, unresolved
	VerifierEnv map[string]string // [verifier].env, task then step, unresolved

	User        string        // [verifier].user
	Timeout     time.Duration // the verifier's; Harbor's default is 600 s; never 0, a hundred years when infinite
	Network     Network
	Mode        VerifierMode  // what the task asks for; VerifierUnset when it says nothing
	Environment *Environment  // the separate verifier's own environment, when it has one
	Image       string        // docker_image of the separate verifier; wins over ImageDir
	ImageDir    string        // directory with the separate verifier's Dockerfile; empty when there is none
	Bundled     bool          // the separate verifier's image holds /tests itself; nothing is copied there
	Collect     []CollectHook // run in the agent's sandbox after the agent
	Artifacts   []Artifact
	MinReward   map[string]float64 // a step below this ends the run; key "reward" for a plain number
	Grade       GradeKind
	Protected   []string // paths restored before grading: the grader's own, and [metadata.assay] protected
}

// GradeKind says what of the agent's work crosses to the grader.
type GradeKind string

const (
	// GradePatch: the diff of the workspace, onto a pristine copy.
	GradePatch GradeKind = "patch"
	// GradeState: the whole frozen tree. Foreign tasks are of this kind.
	GradeState GradeKind = "state"
)

// VerifierMode says where the verifier runs.
type VerifierMode string

const (
	VerifierUnset VerifierMode = ""
	// VerifierSealed: a fresh copy, no process of the agent alive, no network.
	VerifierSealed VerifierMode = "sealed"
	// VerifierSeparate: an environment of the verifier's own; only artifacts cross.
	VerifierSeparate VerifierMode = "separate"
	// VerifierLive: Harbor's shared mode; the agent's processes survive.
	VerifierLive VerifierMode = "live"
)

// NetworkMode is Harbor's network policy.
type NetworkMode string

const (
	NetworkUnset     NetworkMode = ""
	NetworkPublic    NetworkMode = "public"
	NetworkNone      NetworkMode = "no-network"
	NetworkAllowlist NetworkMode = "allowlist"
)

// Network is a policy and, for an allow-list, its normalised entries.
type Network struct {
	Mode  NetworkMode
	Allow []string
}
