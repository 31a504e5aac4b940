// Package checks holds what a task's work is checked by, tests/checks.toml,
// and judges what a grader saw by it. Judging is pure: the same plan and the
// same observation give the same verdict, byte for byte. It never runs
// anything, never looks at who did the work, and never guesses: an expected id
// that is not in a report is missing, and missing is failed.
package checks

import (
	"time"

	"assay/internal/grade/report"
	"assay/internal/strict"
)

// File is the plan's name below a task's tests/.
const File = "checks.toml"

// Plan is a checks.toml. A check's global id is "COMMAND:ID", "CASES:ID" or
// "state:NAME"; milestones, spec items and edge cases refer to these.
type Plan struct {
	Version int `toml:"version"` // 1

	// Protected paths are put back from the task before grading and shown
	// read-only to the agent: relative to the working directory, or absolute; a
	// directory stands for all below it.
	Protected []string `toml:"protected,omitempty"`
	// Forbidden paths (globs with **, relative to the working directory or
	// absolute) end the trial as forbidden_change if the end state changed one.
	Forbidden []string `toml:"forbidden,omitempty"`
	// Place lays a directory below tests/ over a directory of the sandbox, just
	// before the commands run: "repo" = "." puts tests/repo over the workspace.
	// What is placed is protected.
	Place map[string]string `toml:"place,omitempty"`

	Commands   []Command   `toml:"commands,omitempty"`
	Cases      []Cases     `toml:"cases,omitempty"`
	State      []State     `toml:"state,omitempty"`
	Milestones []Milestone `toml:"milestones,omitempty"`
	Spec       []Spec      `toml:"spec,omitempty"`
	EdgeCases  []EdgeCase  `toml:"edge_cases,omitempty"`
	Needs      Needs       `toml:"needs,omitempty"`

	out    map[string]bool // global ids that tests/quarantine.txt takes out of the lists
	digest string          // of the file that was read and the lists it names
	places strict.Places   // of the file's keys
}

// Command runs in the verifier's sandbox, one after the other in the plan's
// order, each until it ends; its status is kept outside.
type Command struct {
	Name       string            `toml:"name,omitempty" json:"name,omitempty"`
	Run        string            `toml:"run,omitempty" json:"run,omitempty"`   // by /bin/sh -c; this or Args
	Args       []string          `toml:"args,omitempty" json:"args,omitempty"` // without a shell
	Dir        string            `toml:"dir,omitempty" json:"dir,omitempty"`   // empty: the working directory; relative to it, or absolute
	Env        map[string]string `toml:"env,omitempty" json:"env,omitempty"`
	User       string            `toml:"user,omitempty" json:"user,omitempty"` // empty: the verifier's
	TimeoutSec float64           `toml:"timeout_sec,omitempty" json:"timeout_sec,omitempty"`

	// Report is the format of what it leaves; empty: there is none, and the
	// command is one check of its own, with its name as id ("smoke:smoke"),
	// passed by status 0: fail-to-pass unless pass_to_pass names it.
	Report report.Format `toml:"report,omitempty" json:"report,omitempty"`
	Files  []string      `toml:"files,omitempty" json:"files,omitempty"` // where the report lies; patterns; absolute or relative to the working directory
	// Separate: the candidate's code runs in another process and as another
	// user than the assertions, by what the command itself does. The author's
	// claim; `assay task attack` tries it.
	Separate bool `toml:"separate,omitempty" json:"separate,omitempty"`

	FailToPass []string `toml:"fail_to_pass,omitempty,multiline" json:"fail_to_pass,omitempty"`
	PassToPass []string `toml:"pass_to_pass,omitempty,multiline" json:"pass_to_pass,omitempty"`
	// FailToPassFile and PassToPassFile hold further ids, one a line, below tests/.
	FailToPassFile string `toml:"fail_to_pass_file,omitempty" json:"fail_to_pass_file,omitempty"`
	PassToPassFile string `toml:"pass_to_pass_file,omitempty" json:"pass_to_pass_file,omitempty"`

	Canaries []Canary `toml:"canaries,omitempty" json:"canaries,omitempty"`

	more struct{ failToPass, passToPass []string } // of the files
}

// Canary is a change of one expectation of a real test, which makes that test
// wrong: in a run of its own, in which it must fail. A report in which it
// passes was not made by the test.
type Canary struct {
	// File is below tests/, or, with a leading slash, a file of the image: the
	// grader lays it over the work as the image has it, so that a task needs no
	// copy of it.
	File   string   `toml:"file,omitempty" json:"file,omitempty"`
	Old    string   `toml:"old,omitempty" json:"old,omitempty"`       // text that occurs there exactly once
	New    string   `toml:"new,omitempty" json:"new,omitempty"`       // what stands there in the canary run
	Breaks []string `toml:"breaks,omitempty" json:"breaks,omitempty"` // ids, at least one, that then fail
}

// Cases are checks of a plain program or function: the assertions are assay's
// own process, only input and output cross, and each case has a fresh state.
type Cases struct {
	Name string `toml:"name,omitempty"`
	File string `toml:"file,omitempty"` // below tests/: one JSON object a line, form in docs/check-plans.md
	// Run is the program; Call instead names a file and how its functions are
	// called: "python", "javascript", "go"; "sql" are queries on SQLite.
	Run    []string `toml:"run,omitempty"`
	Call   string   `toml:"call,omitempty"`
	Source string   `toml:"source,omitempty"` // with Call: the file that holds the functions
	// Reference, below tests/, is a solution that gives what a case does not say;
	// it runs in a sandbox without the candidate.
	Reference string  `toml:"reference,omitempty"`
	Dir       string  `toml:"dir,omitempty"`
	Compare   string  `toml:"compare,omitempty"` // see docs/check-plans.md; empty: "text" of a program, "exact" of a function, "sql" of a query
	AbsTol    float64 `toml:"abs_tol,omitempty"`
	RelTol    float64 `toml:"rel_tol,omitempty"`
	TimeSec   float64 `toml:"timeout_sec,omitempty"` // of one case
	MemoryMB  int64   `toml:"memory_mb,omitempty"`
	// PassToPass ids; all other cases are fail-to-pass.
	PassToPass []string `toml:"pass_to_pass,omitempty,multiline"`

	ids  []string // of all cases, in the file's order
	data []byte   // the file
}

// State is an assertion on the end state after the commands: of a path, read
// without running anything, or of a command's output.
type State struct {
	Name string `toml:"name,omitempty"`
	// Baseline: it held before the agent began, so it is pass-to-pass.
	Baseline bool `toml:"baseline,omitempty"`

	Path     string  `toml:"path,omitempty"` // absolute, or relative to the working directory
	Absent   bool    `toml:"absent,omitempty"`
	Type     string  `toml:"type,omitempty"` // "file", "dir", "link"
	Mode     string  `toml:"mode,omitempty"` // octal: "0644"
	UID      *int    `toml:"uid,omitempty"`
	GID      *int    `toml:"gid,omitempty"`
	Target   string  `toml:"target,omitempty"` // of a link
	SHA256   string  `toml:"sha256,omitempty"`
	Equals   *string `toml:"equals,omitempty"`
	Contains string  `toml:"contains,omitempty"`
	Matches  string  `toml:"matches,omitempty"` // RE2

	// NoProcess: no process whose name or command line matches this is alive
	// when the commands have ended (live verification only sees the agent's).
	NoProcess string `toml:"no_process,omitempty"`

	Run        string  `toml:"run,omitempty"` // by /bin/sh -c; Equals, Contains, Matches are about its output
	Exit       *int    `toml:"exit,omitempty"`
	TimeoutSec float64 `toml:"timeout_sec,omitempty"`
}

// Milestone is a group of checks; milestones are in order, and one is reached
// when all of its checks and all milestones before it are.
type Milestone struct {
	Name   string   `toml:"name,omitempty"`
	Weight float64  `toml:"weight,omitempty"` // zero: 1
	Checks []string `toml:"checks,omitempty"`
}

// Spec is a sentence of the statement, and what checks it.
type Spec struct {
	ID     string   `toml:"id,omitempty"`
	Text   string   `toml:"text,omitempty"`
	Checks []string `toml:"checks,omitempty"`
}

// EdgeCase is a named corner, and what checks it.
type EdgeCase struct {
	Name   string   `toml:"name,omitempty"`
	Checks []string `toml:"checks,omitempty"`
}

// Needs are what the gold solution's grading takes, measured by
// `assay task prove` or written by hand.
type Needs struct {
	MemoryMB int64   `toml:"memory_mb,omitempty" json:"memory_mb,omitempty"`
	DiskMB   int64   `toml:"disk_mb,omitempty" json:"disk_mb,omitempty"`
	CPUs     float64 `toml:"cpus,omitempty" json:"cpus,omitempty"`
	TimeSec  float64 `toml:"time_sec,omitempty" json:"time_sec,omitempty"`
}

// Timeout of a command; zero means what the verifier has left.
func (c Command) Timeout() time.Duration { return time.Duration(c.TimeoutSec * float64(time.Second)) }
