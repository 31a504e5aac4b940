// Package report reads what test runners say of themselves: pytest, go test,
// Jest, cargo, Maven and others, in the structured form each of them has, and
// as text only where logs of other people are to be understood.
//
// A report is a claim by a process that ran the candidate's code: this package
// says what is claimed, whether the claim is whole, and where it contradicts
// itself; it never says that a claim is true, never runs anything, and reads
// nothing but the bytes it is given. All of them are hostile: sizes, depths,
// counts and lengths of names are capped, and every reader has a fuzz target.
package report

import (
	"fmt"
	"strings"
	"time"
)

// Format names a runner's report.
type Format string

// Reader understands one format.
type Reader struct {
	Format Format
	// Stream: the report is what the command prints on its standard output, so
	// that it needs no files; otherwise it is the files that the plan names.
	Stream bool
	// Read makes a report of its sources, in the order of their names. An error
	// is an [Error]: nothing can be said of any test.
	Read func(sources []Source) (*Report, error)
	// Agrees says whether the command's exit status is one that its runner gives
	// for such a report; why not, in one line for people.
	Agrees func(r *Report, exit int) (why string, ok bool)
	// Parity: it reads text as SWE-bench's own parser of that name does, for the
	// sake of logs that were made for it. Anything that prints can forge it:
	// what rests on such a report is self-reported, canaries or not.
	Parity bool
	// Means is a line for people: the runner's versions that it was held
	// against, and the command that makes it write this report.
	Means string
}

// Source is one file or stream of a run.
type Source struct {
	Name string // relative to the sandbox's root; "stdout" for a stream
	Data []byte
	Cut  bool // the source was larger than what was kept of it
	// Root is the absolute directory, in the sandbox, in which the command ran:
	// a runner that writes absolute paths (Jest, Vitest, Mocha) has ids relative
	// to it. Empty: they stay absolute.
	Root string
}

// Caps of every reader.
const (
	MaxBytes   = 64 << 20 // of all sources together
	MaxSources = 10_000
	MaxTests   = 200_000
	MaxID      = 4 << 10 // bytes; longer ids are malformed
	MaxMessage = 4 << 10 // bytes kept of a failure's text
	MaxFlags   = 1_000   // that do not void; of those that do, the first of each kind always stays
)

// Status is what became of one test.
type Status string

const (
	Passed  Status = "passed"
	Failed  Status = "failed"  // an assertion did not hold
	Errored Status = "error"   // it could not be run to its end: set-up, tear-down, collection, crash
	Skipped Status = "skipped" // with or without a reason
	XFailed Status = "xfailed" // an expected failure: no pass
	XPassed Status = "xpassed" // an unexpected success: no pass
	Missing Status = "missing" // never in a report: what a closed list says of an id that is not there
	Unknown Status = "unknown" // a word that its runner does not have
)

// worse orders statuses: of two results for one id the later one here stays.
var worse = map[Status]int{Passed: 0, XPassed: 1, XFailed: 2, Skipped: 3, Failed: 4, Errored: 5, Unknown: 6}

// Kind says why a test did not pass, as far as its runner tells.
type Kind string

const (
	KindNone      Kind = ""
	KindAssertion Kind = "assertion" // an expectation was not met
	KindException Kind = "exception" // the code raised something, or crashed
	KindBuild     Kind = "build"     // syntax, import, compiler or linker error: nothing ran
	KindTimeout   Kind = "timeout"   // the runner's own limit of a test
)

// Test is one test's result.
type Test struct {
	// ID is unique in its report and the same in every run: it holds the file,
	// package or class as its runner spells it and no duration, address or
	// temporary path. docs/test-reports.md has each format's form.
	ID      string
	Status  Status
	Kind    Kind          // of what failed
	Message string        // first lines of the failure, at most MaxMessage bytes
	Took    time.Duration // 0: not told
}

// Counts is what a runner itself sums up; nil pointers are unknown.
type Counts struct {
	Total, Passed, Failed, Errors, Skipped *int
}

// Flag is something about a report that a reader of its tests must know.
type Flag struct {
	Kind   FlagKind `json:"kind"`
	ID     string   `json:"id,omitempty"` // of the test, if it is about one
	Detail string   `json:"detail"`
}

// FlagKind is a registered word.
type FlagKind string

const (
	// FlagDuplicate: several results for one id; the worst stays.
	FlagDuplicate FlagKind = "duplicate"
	// FlagCounts: what the runner sums up is not what it lists.
	FlagCounts FlagKind = "counts"
	// FlagExit: the exit status is not one for such a report.
	FlagExit FlagKind = "exit"
	// FlagCut: the report ends before its runner's end mark, or was larger than kept.
	FlagCut FlagKind = "cut"
	// FlagStray: text inside of a structured report that its runner does not write.
	FlagStray FlagKind = "stray"
	// FlagBuild: something did not compile or import, so that tests are absent.
	FlagBuild FlagKind = "build"
	// FlagNamesake: two ids differ only in a way that other tools do not see (namesakes).
	FlagNamesake FlagKind = "namesake"
	// FlagCached: a result of an earlier run, which may have been anybody's.
	FlagCached FlagKind = "cached"
	// FlagPrinted: a test printed what its runner, an old one, takes for a result.
	FlagPrinted FlagKind = "printed"
)

// Voids reports whether a report with this flag cannot be trusted.
func (k FlagKind) Voids() bool {
	return k == FlagCounts || k == FlagExit || k == FlagCut || k == FlagStray || k == FlagCached
}

// Report is what a run of a runner claims.
type Report struct {
	Format Format
	Tests  []Test // ids are unique; in the order of the sources, or sorted where runners have none
	Counts Counts
	Flags  []Flag

	// broke is why the runner says that its run failed although no test of it
	// did, in its own words; readers keep it for Agrees.
	broke string
	// forgiven is how many of the tests that failed here their runner lets pass,
	// since they passed when it ran them again; for Agrees.
	forgiven int
}

// Error says why there is no report at all.
type Error struct {
	Format Format
	Source string
	Line   int // from 1; 0: of no one line
	Detail string
	// None: nothing of the form stands there. An output that is the report may
	// be that of a runner which did not come so far.
	None bool
}

func (e *Error) Error() string {
	at := e.Source
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, e.Line)
	}
	return fmt.Sprintf("%s report %s: %s", e.Format, at, e.Detail)
}

// Void says why a report cannot be trusted, in one line; empty: nothing speaks
// against it.
func (r *Report) Void() string {
	for _, f := range r.Flags {
		if f.Kind.Voids() {
			return string(f.Kind) + ": " + f.Detail
		}
	}
	return ""
}

// flag notes something about the report. Their number is capped, since a
// report can be all duplicates.
func (r *Report) flag(kind FlagKind, id, detail string) {
	if len(r.Flags) < MaxFlags || kind.Voids() && !r.flagged(kind) {
		r.Flags = append(r.Flags, Flag{kind, id, detail})
	}
}

func (r *Report) flagged(kind FlagKind) bool {
	for _, f := range r.Flags {
		if f.Kind == kind {
			return true
		}
	}
	return false
}

// Add puts a result into the report, its id on one line (see [line]). Of two
// for one id the worse stays, and the report is flagged; index is the caller's,
// by id.
func (r *Report) Add(index map[string]int, t Test) error {
	if t.ID = line(t.ID); t.ID == "" {
		t.ID = "(no name)"
	}
	if len(t.ID) > MaxID {
		return fmt.Errorf("a test's name of %d bytes (at most %d)", len(t.ID), MaxID)
	}
	if len(t.Message) > MaxMessage {
		t.Message = t.Message[:MaxMessage]
	}
	t.Message = strings.ToValidUTF8(t.Message, "")
	i, again := index[t.ID]
	if !again {
		if len(r.Tests) == MaxTests {
			return fmt.Errorf("more than %d tests", MaxTests)
		}
		index[t.ID] = len(r.Tests)
		r.Tests = append(r.Tests, t)
		return nil
	}
	r.flag(FlagDuplicate, t.ID, fmt.Sprintf("%s and %s", r.Tests[i].Status, t.Status))
	if worse[t.Status] > worse[r.Tests[i].Status] {
		r.Tests[i] = t
	}
	return nil
}
