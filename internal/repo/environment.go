// Package repo knows repositories: where they come from, what they are made
// of, and how they are made ready to run. What is read of one is hostile: git
// runs on it without its configuration and hooks, no link leads out of its
// tree, and none of its programs runs outside a sandbox.
package repo

import (
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
)

// Environment is a repository made ready: a healthy image in which its suite
// has passed, and what is known of the suite. On disk it is environment.json
// beside the recipe that made it; docs/repositories.md tells the form.
type Environment struct {
	Version int    `json:"v"` // 1
	Name    string `json:"name"`
	Source  Source `json:"source"`

	// Image is the healthy image's name in the store, "forge/NAME:TAG"; Tag
	// are the first 16 digits of its content. Layers are the last ones last.
	Image   string          `json:"image"`
	Tag     string          `json:"tag"`
	Layers  []image.LayerID `json:"layers"`
	Workdir string          `json:"workdir"`          // absolute, "/app"; the repository's root, with its .git
	Subdir  string          `json:"subdir,omitempty"` // of a monorepo: what is built and tested, relative to Workdir
	User    string          `json:"user"`
	UIDMode string          `json:"uid_mode"`

	Languages []string `json:"languages"` // by size, the main one first; names of syntax.Language where it has one
	System    string   `json:"system"`    // build system: "setuptools", "npm", "go", "cargo", "maven", "cmake", …
	Suite     Suite    `json:"suite"`

	Limits checks.Needs `json:"needs"` // the healthy suite's, measured
}

// Source is where a repository came from.
type Source struct {
	URL     string    `json:"url,omitempty"` // without credentials; empty: a directory of this machine
	Commit  string    `json:"commit,omitempty"`
	Date    time.Time `json:"date,omitzero"`     // of the commit
	Tree    string    `json:"tree"`              // digest of the tree that was built
	Licence string    `json:"licence,omitempty"` // SPDX, as far as recognised
}

// Suite is what a repository's tests are and how they are run. Every command
// begins with ". /etc/profile", so that files below /etc/profile.d, which the
// image has and an agent can edit, set its environment: an image's own ENV
// would be out of an agent's reach.
type Suite struct {
	Commands []Command `json:"commands"`
	Tests    []Test    `json:"tests"`
	// Files that tests cover, relative to Workdir; Test.Covers are indices.
	Files []string `json:"files"`
	// Static are the lines of each of Files that run, or count, whatever test is
	// run: at import, outside of functions, declarations. Ranges are "3-9,12",
	// from 1; "" is not known. Nil: no lines are known.
	Static []string `json:"static,omitempty"`
	// Ranges are the sets of lines that Test.Lines are indices of.
	Ranges []string `json:"ranges,omitempty"`
	Runs   int      `json:"runs"` // that stability rests on
	// Findings are what a person should know of the suite, worst first.
	Findings []Finding `json:"findings,omitempty"`
	// TestFiles are patterns, relative to Workdir, of files that belong to the
	// tests: test code, fixtures, the runner's configuration.
	TestFiles []string `json:"test_files"`
	Millis    float64  `json:"ms"` // median of a whole run, after the build
}

// Command runs tests. Run and Report go into a check plan as they are.
type Command struct {
	checks.Command
	// Build makes ready what Run needs after a source changed; empty: Run does.
	Build string `json:"build,omitempty"`
	// Select is Run for some tests: "{tests}" stands for their ids quoted for
	// the shell, "{pattern}" for one anchored regular expression of them;
	// "{files}" for their files. Empty: only the whole suite can be run.
	Select string `json:"select,omitempty"`
	// Driver names the warm way to run it: "pytest", "go", "node", …; empty: none.
	Driver string `json:"driver,omitempty"`
	// BaselineMillis is an uncached run with its build, the ground of time limits.
	BaselineMillis float64 `json:"baseline_ms"`
}

// Stability is what k runs of the healthy suite say of a test.
type Stability string

const (
	Stable  Stability = "stable"  // passed in every run
	Flaky   Stability = "flaky"   // in some
	Failing Stability = "failing" // in none
	Skipped Stability = "skipped"
)

// Test is one test of a suite.
type Test struct {
	ID        string    `json:"id"` // as the report spells it
	Command   string    `json:"command"`
	File      string    `json:"file,omitempty"` // relative to Workdir, where the report or the ecosystem tells
	Stability Stability `json:"stability"`
	Millis    float64   `json:"ms"`
	Covers    []int     `json:"covers,omitempty"` // nil: not known
	// Lines of each of Covers that the test runs, as indices of Suite.Ranges;
	// -1: some, which is not known. Nil: no lines are known.
	Lines []int `json:"lines,omitempty"`
}

// Finding is something about a suite: what is wrong, and what to do about it.
type Finding struct {
	Kind    FindingKind `json:"kind"`
	Command string      `json:"command,omitempty"`
	Tests   []string    `json:"tests,omitempty"` // ids, the first few
	Count   int         `json:"count,omitempty"` // of tests, where it is about some
	Detail  string      `json:"detail"`
	Remedy  string      `json:"remedy,omitempty"`
	// Env and User are what cured it when it was tried.
	Env  map[string]string `json:"env,omitempty"`
	User string            `json:"user,omitempty"`
}

// FindingKind is a registered word.
type FindingKind string

const (
	NoTests     FindingKind = "no-tests"     // the runner found none
	Collection  FindingKind = "collection"   // something did not load or build, so that tests are absent
	Crash       FindingKind = "crash"        // the runner failed by itself
	Hang        FindingKind = "hang"         // a run was ended at its limit
	NoReport    FindingKind = "no-report"    // the command left no report that can be read
	VoidReport  FindingKind = "void-report"  // the report contradicts itself, or the status
	FailingTest FindingKind = "failing"      // in every run
	FlakyTest   FindingKind = "flaky"        // in some runs
	UnstableIDs FindingKind = "unstable-ids" // ids that change from run to run
	NoneStable  FindingKind = "none-stable"  // no test passes in every run
	NeedNetwork FindingKind = "needs-network"
	NeedDisplay FindingKind = "needs-display"
	NeedRoot    FindingKind = "needs-root"
	NeedNotRoot FindingKind = "needs-not-root"
	NeedZone    FindingKind = "needs-time-zone"
	NeedLocale  FindingKind = "needs-locale"
	NeedHome    FindingKind = "needs-home"
	OutOfMemory FindingKind = "out-of-memory"
	Partial     FindingKind = "partial" // the budget ended before all was done
)
