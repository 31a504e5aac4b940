package checks

import (
	"slices"
	"syscall"

	"assay/internal/grade/report"
	"assay/trial"
)

// Names below a step's verifier/ and a task's tests/.
const (
	VerdictFile = "verdict.json"
	// QuarantineFile names checks, one global id a line, that are left out of
	// the closed lists because gold does not always pass them.
	QuarantineFile = "quarantine.txt"
)

// Observation is what a grader saw of one step's work. Everything a verdict
// rests on is in it.
type Observation struct {
	Attempted bool // the agent did anything at all, as far as its recorder knows
	Untouched bool // the end state is known to be what the agent began with
	// Changed are the absolute paths that the end state changed, of a removed
	// directory also those below it; of a patch, the crossing ones and those
	// left behind.
	Changed  []string
	Workdir  string // what the plan's relative paths are below
	OneUser  bool   // there was one user id: no command ran the work as another
	Linked   bool   // the runs could leave word for each other, in services or by a network
	Commands []Ran  // of the plan; one that could not be tried may be left out. The order does not matter
	Canary   []Ran  // the same commands with the canaries in place; nil: there was no such run
	// Planted says which canaries of a command were in place in the canary run:
	// indices into [Command].Canaries, by the command's name.
	Planted map[string][]int
	// Spared are commands whose canaries stand in other runs of the same grading.
	Spared map[string]bool
	Cases  []CasesRan
	State  []StateSeen
	// Tampered lists protected or placed paths whose content was not the
	// grader's any more when the commands had ended.
	Tampered []string
}

// Ran is what became of one command.
type Ran struct {
	Name        string
	NotStarted  string // why it could not be started; empty: it ran
	Exit        int
	Signal      syscall.Signal
	TimedOut    bool           // the grader ended it
	OutOfMemory bool           // it, or a process below it, was killed for its memory
	Report      *report.Report // nil: none, or one that cannot be read
	ReportErr   string         // why it cannot be read; empty: it left none
}

// CasesRan are the results of one group of cases.
type CasesRan struct {
	Name  string
	Tests []report.Test
	Err   string // they could not be tried at all
}

// StateSeen is one assertion's result.
type StateSeen struct {
	Name string
	Held bool
	Why  string // in one line: what was found instead
}

// Verdict is verifier/verdict.json. Grading the same end state again gives the
// same bytes, so it holds no time, no address and no text of a failure: those
// are in verifier/evidence.json.
type Verdict struct {
	V        int            `json:"v"`    // 1
	Plan     string         `json:"plan"` // sha256 of checks.toml and the lists it names
	Evidence trial.Evidence `json:"evidence"`
	Outcome  trial.Outcome  `json:"outcome"`
	Cause    trial.Cause    `json:"cause"`
	Void     string         `json:"void,omitempty"` // why nothing here can be trusted

	// Resolved: every expected check passed, as SWE-bench counts it, and
	// nothing voids or forbids it. Strict: also nothing else that was reported
	// failed, and every exit status is 0.
	Resolved bool `json:"resolved"`
	Strict   bool `json:"strict"`
	// Partial is the share of fail-to-pass that passed, times that of
	// pass-to-pass; 0 if void or forbidden. It stands beside the verdict.
	Partial float64 `json:"partial"`

	FailToPass List `json:"fail_to_pass"`
	PassToPass List `json:"pass_to_pass"`
	// Others that failed without being expected by the plan; at most 1,000.
	OthersFailed []string `json:"others_failed"`
	Tests        int      `json:"tests"` // reported in all

	Commands   []CommandVerdict `json:"commands"`
	Milestones []Group          `json:"milestones,omitempty"`
	Spec       []Group          `json:"spec,omitempty"`
	EdgeCases  []Group          `json:"edge_cases,omitempty"`
	Forbidden  []string         `json:"forbidden,omitempty"` // changed paths that the plan forbids
	Tampered   []string         `json:"tampered,omitempty"`
	Flags      []Flag           `json:"flags,omitempty"`
}

// List is one closed list and what became of its checks.
type List struct {
	Passed []string          `json:"passed"` // global ids, sorted
	Failed map[string]string `json:"failed"` // id to status; "missing" where no report has it
}

// Missing is the status of a check that no report has.
const Missing = string(report.Missing)

// Rate is the share that passed; 1 for an empty list.
func (l List) Rate() float64 {
	n := len(l.Passed) + len(l.Failed)
	if n == 0 {
		return 1
	}
	return float64(len(l.Passed)) / float64(n)
}

// CommandVerdict is what a command's run says, and what its canary run did.
type CommandVerdict struct {
	Name    string        `json:"name"`
	Exit    *int          `json:"exit"` // null: not started, or ended from outside
	Ended   string        `json:"ended,omitempty"`
	Report  report.Format `json:"report,omitempty"`
	Tests   int           `json:"tests"`
	Planted int           `json:"canaries"`                  // in place in the canary run
	Broken  []string      `json:"canaries_passed,omitempty"` // ids that had to fail there and did not
}

// Group is how far a milestone, a spec item or an edge case came.
type Group struct {
	Name    string  `json:"name"`
	Passed  int     `json:"passed"`
	Total   int     `json:"total"`
	Reached bool    `json:"reached"`
	Weight  float64 `json:"weight,omitempty"`
}

// Flag is something to know about a command's report. Its words are in
// verifier/evidence.json, as they may hold what differs from run to run.
type Flag struct {
	Command string          `json:"command"`
	Run     string          `json:"run,omitempty"` // "canary": of the canary run
	Kind    report.FlagKind `json:"kind"`
	ID      string          `json:"id,omitempty"` // of the test, as the report spells it
}

// FlagCanary says that an id which no canary breaks is not in the canary run
// what it is in the other: it is unstable, or somebody knew which run it was.
const FlagCanary report.FlagKind = "canary"

// Doubted is the verdict on the same work when something else speaks against
// it: void, with the reason.
func (v Verdict) Doubted(why string) Verdict {
	v.Void, v.Cause, v.Outcome = why, trial.CauseVoid, outcome(trial.CauseVoid)
	v.Resolved, v.Strict = false, false
	v.Milestones, v.Spec, v.EdgeCases = unreached(v.Milestones), unreached(v.Spec), unreached(v.EdgeCases)
	return v
}

func unreached(groups []Group) []Group {
	out := slices.Clone(groups)
	for i := range out {
		out[i].Reached = false
	}
	return out
}
