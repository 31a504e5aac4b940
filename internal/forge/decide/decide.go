// Package decide runs the suite of a healthy environment on changed sources,
// many times a minute: it is the inner loop of what breaks code on purpose. It
// starts from warm forks of the healthy state, runs the tests that cover a
// change before others, and never touches the user's tree or the environment's
// packages. What it decides is a proposal: only a proof admits a task.
package decide

import "time"

// Change is what makes a mutant of a healthy tree.
type Change struct {
	ID    string
	Files map[string][]byte // new content, by path relative to the working directory
	Lines map[string][]int  // changed lines of the old files, from 1, where known
}

// Class is what became of a change.
type Class string

const (
	Killed    Class = "killed"
	Survived  Class = "survived"
	Timeout   Class = "timeout"   // twice, the second time alone, if not [Config].Once
	Unviable  Class = "unviable"  // does not build, or no test can be collected
	Uncovered Class = "uncovered" // no stable test reaches it
	Lost      Class = "lost"      // no verdict, the machine failed
)

// Verdict is what is known of one change.
type Verdict struct {
	ID     string            `json:"id"`
	Class  Class             `json:"class"`
	Failed map[string]string `json:"failed,omitempty"` // stable tests that did not pass: global id to status
	Ran    int               `json:"ran"`              // tests
	Whole  bool              `json:"whole"`            // all covering tests ran to their end: Failed is complete for these
	Output string            `json:"output,omitempty"` // of the first failure, capped
	Took   time.Duration     `json:"took_ns"`
	Patch  string            `json:"patch"` // unified diff that git apply takes
}
