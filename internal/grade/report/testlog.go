package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxLogLine bounds a line of a test log; assay's own recorders keep a few
// thousand bytes of a failure and no more.
const maxLogLine = 1 << 20

// logLine is a line of a test log, the form in which assay's own recorders
// (support/) write: a head, then for each test a start and an end, results of
// what is no test (a collection, the set-up of a class), and a last line with
// the numbers. docs/test-reports.md has it for people.
type logLine struct {
	Log      string  `json:"log"`
	V        int     `json:"v"`
	Runner   string  `json:"runner"`
	Version  string  `json:"version"`
	Language string  `json:"language"`
	Plan     *int    `json:"plan"`
	Start    *string `json:"start"`
	End      *string `json:"end"`
	Result   *string `json:"result"`

	Status  Status  `json:"status"`
	Kind    Kind    `json:"kind"`
	Message string  `json:"message"`
	Took    float64 `json:"took"` // seconds

	Done    map[Status]int `json:"done"`
	Stopped string         `json:"stopped"`

	// Failures is what the runner itself counts as such, where that is not the
	// number of tests that failed (Mocha counts hooks).
	Failures *int `json:"failures"`
}

// testLog is a log of one process as far as it was read.
type testLog struct {
	p       *part
	source  string
	planned int  // of all its runs
	plans   bool // it tells how many tests there are to be
	started int
	head    bool
	done    bool
	stopped bool
	halted  bool           // something that is no test failed or was skipped, so that tests may be absent
	open    map[string]int // tests that have begun, by id
	ended   map[Status]int
}

// readTestLog reads a log of assay's own recorders.
func readTestLog(p *part, s Source) error {
	l := &testLog{p: p, source: s.Name, open: map[string]int{}, ended: map[Status]int{}}
	n := 0
	for rest := s.Data; len(rest) > 0; {
		n++
		text, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if !whole {
			p.flag(FlagCut, "", fmt.Sprintf("%s:%d: the line breaks off", s.Name, n))
		}
		if blank(text) {
			continue
		}
		if len(text) > maxLogLine {
			return &Error{Format: p.Format, Source: s.Name, Line: n, Detail: fmt.Sprintf("a line of more than %d bytes", maxLogLine)}
		}
		var ln logLine
		if err := strictJSON(text, &ln); err != nil {
			switch {
			case !l.head:
				return &Error{Format: p.Format, Source: s.Name, Line: n, Detail: "no log of assay's recorder: " + err.Error()}
			case whole:
				p.flag(FlagStray, "", fmt.Sprintf("%s:%d: no line of the recorder: %v", s.Name, n, err))
			}
			continue
		}
		if err := l.take(ln, n); err != nil {
			return &Error{Format: p.Format, Source: s.Name, Line: n, Detail: err.Error()}
		}
	}
	if !l.head {
		return &Error{Format: p.Format, Source: s.Name, Detail: "it is empty"}
	}
	return l.finish()
}

func strictJSON(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one value")
	}
	return nil
}

func (l *testLog) stray(n int, format string, args ...any) {
	l.p.flag(FlagStray, "", fmt.Sprintf("%s:%d: ", l.source, n)+fmt.Sprintf(format, args...))
}

func (l *testLog) take(ln logLine, n int) error {
	switch {
	case !l.head:
		if ln.Log != "assay-tests" || ln.V != 1 {
			return fmt.Errorf("no log of assay's recorder, or of another version than 1")
		}
		l.head = true
	case ln.Log != "":
		l.stray(n, "a second head")
	case l.done:
		l.stray(n, "something after the end")
		return l.late(ln)
	case ln.Plan != nil:
		l.planned, l.plans = l.planned+max(*ln.Plan, 0), true
	case ln.Start != nil:
		l.started++
		l.open[*ln.Start]++
		if len(l.open) > MaxTests {
			return fmt.Errorf("more than %d tests", MaxTests)
		}
	case ln.End != nil:
		if l.open[*ln.End] == 0 {
			l.stray(n, "%.200q ends and has not begun", *ln.End)
		} else if l.open[*ln.End]--; l.open[*ln.End] == 0 {
			delete(l.open, *ln.End)
		}
		return l.result(*ln.End, ln)
	case ln.Result != nil:
		l.halted = true
		if ln.Kind == KindBuild {
			l.p.flag(FlagBuild, *ln.Result, "it cannot be loaded")
		}
		return l.result(*ln.Result, ln)
	case ln.Done != nil:
		l.done, l.stopped = true, ln.Stopped != ""
		if l.stopped {
			l.p.broke = ln.Stopped
		}
		l.sums(ln.Done, ln.Failures)
	default:
		l.stray(n, "a line that says nothing")
	}
	return nil
}

// late takes a result that stands after the end: if it is the worse of two, it
// counts.
func (l *testLog) late(ln logLine) error {
	for _, id := range []*string{ln.End, ln.Result} {
		if id != nil {
			return l.result(*id, ln)
		}
	}
	return nil
}

func (l *testLog) result(id string, ln logLine) error {
	t := Test{ID: id, Status: ln.Status, Kind: ln.Kind, Message: ln.Message}
	if worse[t.Status] == 0 && t.Status != Passed {
		t.Status = Unknown
	}
	if ln.Took > 0 && ln.Took < 1e9 {
		t.Took = time.Duration(ln.Took * float64(time.Second))
	}
	if t.Kind == KindBuild && ln.End != nil {
		l.p.flag(FlagBuild, id, "it cannot be loaded")
	}
	if !l.done {
		l.ended[ln.Status]++
	}
	return l.p.add(t)
}

// sums holds the recorder's numbers against what it listed.
func (l *testLog) sums(told map[Status]int, failures *int) {
	c := &l.p.Counts
	total := 0
	for _, n := range told {
		total += n
	}
	sum(&c.Total, total)
	sum(&c.Passed, told[Passed])
	if failures == nil {
		failures = new(int)
		*failures = told[Failed]
	}
	sum(&c.Failed, *failures)
	sum(&c.Errors, told[Errored])
	sum(&c.Skipped, told[Skipped])
	for _, s := range []Status{Passed, XPassed, XFailed, Skipped, Failed, Errored} {
		if told[s] != l.ended[s] {
			l.p.flag(FlagCounts, "", fmt.Sprintf("%s: %d %s, and %d are listed", l.source, told[s], s, l.ended[s]))
		}
		delete(l.ended, s)
	}
	for s := range told {
		if _, ok := worse[s]; !ok {
			l.p.flag(FlagCounts, "", fmt.Sprintf("%s: a number of %.50q", l.source, s))
		}
	}
	for s, n := range l.ended {
		l.p.flag(FlagCounts, "", fmt.Sprintf("%s: %d with a status %.50q", l.source, n, s))
	}
}

// finish adds what began and never ended, as errors.
func (l *testLog) finish() error {
	if !l.done {
		l.p.flag(FlagCut, "", l.source+": the recorder did not come to its end")
	}
	if l.done && l.plans && !l.stopped && !l.halted && l.started != l.planned {
		l.p.flag(FlagCounts, "", fmt.Sprintf("%s: %d tests were planned and %d begun", l.source, l.planned, l.started))
	}
	if l.done && len(l.open) > 0 {
		l.p.flag(FlagCounts, "", fmt.Sprintf("%s: %d tests began and have no end", l.source, len(l.open)))
	}
	for _, id := range sorted(l.open) {
		if err := l.p.add(Test{ID: id, Status: Errored, Kind: KindException, Message: "it began and did not end"}); err != nil {
			return &Error{Format: l.p.Format, Source: l.source, Detail: err.Error()}
		}
	}
	return nil
}
