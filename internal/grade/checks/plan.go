// Package checks holds what a task's work is checked by, tests/checks.toml,
// and judges what a grader saw by it. Judging is pure: the same plan and the
// same observation give the same verdict, byte for byte. It never runs
// anything, never looks at who did the work, and never guesses: an expected id
// that is not in a report is missing, and missing is failed.
package checks

import (
	"time"

	"assay/internal/grade/report"
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
	Protected []string `toml:"protected"`
	// Forbidden paths (globs with **, relative to the working directory or
	// absolute) end the trial as forbidden_change if the end state changed one.
	Forbidden []string `toml:"forbidden"`
	// Place lays a directory below tests/ over a directory of the sandbox, just
	// before the commands run: "repo" = "." puts tests/repo over the workspace.
	// What is placed is protected.
	Place map[string]string `toml:"place"`

	Commands   []Command   `toml:"commands"`
	Cases      []Cases     `toml:"cases"`
	State      []State     `toml:"state"`
	Milestones []Milestone `toml:"milestones"`
	Spec       []Spec      `toml:"spec"`
	EdgeCases  []EdgeCase  `toml:"edge_cases"`
	Needs      Needs       `toml:"needs"`
}

// Command runs in the verifier's sandbox, one after the other in the plan's
// order, each until it ends; its status is kept outside.
type Command struct {
	Name       string            `toml:"name"`
	Run        string            `toml:"run"`  // by /bin/sh -c; this or Args
	Args       []string          `toml:"args"` // without a shell
	Dir        string            `toml:"dir"`  // empty: the working directory; relative to it, or absolute
	Env        map[string]string `toml:"env"`
	User       string            `toml:"user"` // empty: the verifier's
	TimeoutSec float64           `toml:"timeout_sec"`

	// Report is the format of what it leaves; empty: there is none, and the
	// command is one check of its own, with its name as id, passed by status 0.
	Report report.Format `toml:"report"`
	Files  []string      `toml:"files"` // where the report lies; patterns; absolute or relative to the working directory
	// Separate: the candidate's code runs in another process and as another
	// user than the assertions, by what the command itself does. The author's
	// claim; `assay task attack` tries it.
	Separate bool `toml:"separate"`

	FailToPass []string `toml:"fail_to_pass"`
	PassToPass []string `toml:"pass_to_pass"`
	// FailToPassFile and PassToPassFile hold further ids, one a line, below tests/.
	FailToPassFile string `toml:"fail_to_pass_file"`
	PassToPassFile string `toml:"pass_to_pass_file"`

	Canaries []Canary `toml:"canaries"`
}

// Canary is a change of one expectation of a real test, which makes that test
// wrong: in a run of its own, in which it must fail. A report in which it
// passes was not made by the test.
type Canary struct {
	File   string   `toml:"file"`   // below tests/
	Old    string   `toml:"old"`    // text that occurs there exactly once
	New    string   `toml:"new"`    // what stands there in the canary run
	Breaks []string `toml:"breaks"` // ids, at least one, that then fail
}

// Cases are checks of a plain program or function: the assertions are assay's
// own process, only input and output cross, and each case has a fresh state.
type Cases struct {
	Name string `toml:"name"`
	File string `toml:"file"` // below tests/: one JSON object a line, form in docs/check-plans.md
	// Run is the program; Call instead names a file and how its functions are
	// called: "python", "javascript", "go".
	Run      []string `toml:"run"`
	Call     string   `toml:"call"`
	Source   string   `toml:"source"` // with Call: the file that holds the functions
	Dir      string   `toml:"dir"`
	Compare  string   `toml:"compare"` // "exact", "text" (white space at line ends), "tokens", "numbers", "json", "sql"
	AbsTol   float64  `toml:"abs_tol"`
	RelTol   float64  `toml:"rel_tol"`
	TimeSec  float64  `toml:"timeout_sec"` // of one case
	MemoryMB int64    `toml:"memory_mb"`
	// PassToPass ids; all other cases are fail-to-pass.
	PassToPass []string `toml:"pass_to_pass"`
}

// State is an assertion on the end state after the commands: of a path, read
// without running anything, or of a command's output.
type State struct {
	Name string `toml:"name"`
	// Baseline: it held before the agent began, so it is pass-to-pass.
	Baseline bool `toml:"baseline"`

	Path     string  `toml:"path"` // absolute, or relative to the working directory
	Absent   bool    `toml:"absent"`
	Type     string  `toml:"type"` // "file", "dir", "link"
	Mode     string  `toml:"mode"` // octal: "0644"
	UID      *int    `toml:"uid"`
	GID      *int    `toml:"gid"`
	Target   string  `toml:"target"` // of a link
	SHA256   string  `toml:"sha256"`
	Equals   *string `toml:"equals"`
	Contains string  `toml:"contains"`
	Matches  string  `toml:"matches"` // RE2

	// NoProcess: no process whose name or command line matches this is alive
	// when the commands have ended (live verification only sees the agent's).
	NoProcess string `toml:"no_process"`

	Run        string  `toml:"run"` // by /bin/sh -c; Equals, Contains, Matches are about its output
	Exit       *int    `toml:"exit"`
	TimeoutSec float64 `toml:"timeout_sec"`
}

// Milestone is a group of checks; milestones are in order, and one is reached
// when all of its checks and all milestones before it are.
type Milestone struct {
	Name   string   `toml:"name"`
	Weight float64  `toml:"weight"` // zero: 1
	Checks []string `toml:"checks"`
}

// Spec is a sentence of the statement, and what checks it.
type Spec struct {
	ID     string   `toml:"id"`
	Text   string   `toml:"text"`
	Checks []string `toml:"checks"`
}

// EdgeCase is a named corner, and what checks it.
type EdgeCase struct {
	Name   string   `toml:"name"`
	Checks []string `toml:"checks"`
}

// Needs are what the gold solution's grading takes, measured by
// `assay task prove` or written by hand.
type Needs struct {
	MemoryMB int64   `toml:"memory_mb"`
	DiskMB   int64   `toml:"disk_mb"`
	CPUs     float64 `toml:"cpus"`
	TimeSec  float64 `toml:"time_sec"`
}

// Timeout of a command; zero means what the verifier has left.
func (c Command) Timeout() time.Duration { return time.Duration(c.TimeoutSec * float64(time.Second)) }
