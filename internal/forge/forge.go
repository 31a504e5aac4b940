// Package forge makes proved tasks of repositories. Generators, its children,
// propose; only Admit lets a task in, by the proof that every task needs and by
// what its generator asks beyond it. Nothing here asks a model.
//
// All that a candidate says is data, so that whatever proposes, a procedure or
// a model, comes through the same door. Equal seeds propose equal candidates,
// and what was proved is never proved again: results are kept by content.
package forge

import (
	"context"

	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// Edit is one path of a tree as it becomes. The zero Content of a file is an
// empty file.
type Edit struct {
	Path string     `json:"path"` // absolute in the image
	Type image.Type `json:"type"` // "" removes the path and what is below it
	Mode uint32     `json:"mode,omitempty"`
	UID  int        `json:"uid,omitempty"`
	GID  int        `json:"gid,omitempty"`
	Link string     `json:"link,omitempty"`
	Data []byte     `json:"data,omitempty"` // of a file
	From string     `json:"from,omitempty"` // instead of Data: the same bytes as this path of the healthy image has
	// Xattrs are extended attributes; values are bytes.
	Xattrs map[string][]byte `json:"xattrs,omitempty"`
	// Time is when it was changed, in seconds, with Nanos. Zero of a new path:
	// as the directory it is in. Zero of a changed one: a second before the old
	// time, so that byte code made of the old content is not taken for current
	// and the time does not show the place; where build tools compare times
	// (see Times), later than the whole image instead.
	Time  int64 `json:"mtime,omitempty"`
	Nanos int32 `json:"mtime_ns,omitempty"`
}

// Delta is a set of edits: no path twice, none below one that is removed or
// becomes anything but a directory. A directory keeps what it holds. Its
// inverse over a known tree is exact: what stood at each path before.
type Delta []Edit

// Grade says what crosses to the grader, as task.GradeKind does.
type Grade string

const (
	GradePatch Grade = "patch" // the working directory's changes
	GradeState Grade = "state" // the whole tree, protected paths restored
)

// Candidate is a proposed task.
type Candidate struct {
	Generator string `json:"generator"`
	Name      string `json:"name"` // a slug, unique among those of a repository: "mutate-invert-if-3f2a"
	Grade     Grade  `json:"grade"`

	// Broken leads from the healthy image to what the agent begins with; Gold
	// from there to solved. Of faults in an environment Gold is empty: it is
	// the inverse of Broken, derived.
	Broken Delta `json:"broken"`
	Gold   Delta `json:"gold,omitempty"`
	// Tests replace or add test files, below the working directory, at grading:
	// those of a mined commit. Without any, the healthy image's are used.
	Tests Delta `json:"tests,omitempty"`
	// Hidden are paths, below the working directory, of test files that the
	// agent does not see.
	Hidden []string `json:"hidden,omitempty"`

	Statement Statement         `json:"statement"`
	Expect    []string          `json:"expect,omitempty"`    // tests, "COMMAND:ID", that should fail before gold; nil: not known
	Covering  []string          `json:"covering,omitempty"`  // tests worth running beside these
	Operators []string          `json:"operators,omitempty"` // names, in the order in which they were applied
	Seed      uint64            `json:"seed"`
	Origin    Origin            `json:"origin"`
	Notes     map[string]string `json:"notes,omitempty"` // of the generator, kept in the task's provenance
}

// Statement is what the agent reads. An empty one is written from the failures
// that the admission observes.
type Statement struct {
	Title string   `json:"title,omitempty"`
	Body  string   `json:"body,omitempty"`
	Hints []string `json:"hints,omitempty"` // from vague to plain; a task takes as many as its hint level says
}

// Origin is where a candidate comes from, beyond its repository.
type Origin struct {
	Commit string `json:"commit,omitempty"`
	Issue  string `json:"issue,omitempty"`
	Date   string `json:"date,omitempty"`
}

// World is what a generator works with.
type World struct {
	Env     *repo.Environment
	Tree    *image.View // the healthy image
	Images  *image.Store
	Backend sandbox.Backend
	Git     string // path of a local clone with history; empty: there is none
	// Cache is a directory of the generator's own, kept from run to run; empty:
	// there is none.
	Cache string
	Seed  uint64
	Say   func(format string, args ...any) // never nil
}

// Generator proposes candidates.
type Generator interface {
	Name() string
	// Propose calls yield for one candidate after the other, best first, until
	// there are none or yield returns an error, which it returns. Equal worlds
	// give equal candidates.
	Propose(ctx context.Context, w *World, yield func(Candidate) error) error
}

// Seen is what the bite run showed of a candidate: stable tests that no longer
// pass, in the order of the suite.
type Seen struct {
	Failed []Failure
	Passed int    // stable tests that still pass
	Mute   bool   // no command left a report: nothing could be built, started or collected
	Output string // the last lines that the first failing command printed; its own words, cut
}

// Failure is a stable test that does not pass in the broken state.
type Failure struct {
	ID      string // "COMMAND:ID"
	File    string // relative to the working directory, where known
	Status  string // "failed", "error", "missing", …
	Message string // the report's, cut
}

// Describer is a Generator that words its statements by what users would see.
// It is asked where a candidate has none; without it the forge writes one.
type Describer interface {
	Describe(w *World, c Candidate, seen Seen) Statement
}

// Sifter is a Generator that looks through far more than it proposes. It is
// asked after Propose has returned.
type Sifter interface {
	Sifted() Sifting
}

// Sifting is what of its material a generator did not propose, and why.
type Sifting struct {
	Of       string         `json:"of"`    // what it looks through: "commits"
	Total    int            `json:"total"` // of them
	Scan     float64        `json:"scan_s"`
	Read     int            `json:"read"` // looked into before enough was admitted
	Proposed int            `json:"proposed"`
	Dropped  map[string]int `json:"dropped"` // by reason
}
