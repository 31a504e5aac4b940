package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// jestJSON reads what jest --json --outputFile writes.
func jestJSON() Reader {
	return Reader{
		Format: "jest",
		Read:   byTitles(readEach("jest", readJest)),
		Agrees: agreesZeroOne("Jest"),
		Means:  "Jest 29, 30: jest --ci --json --outputFile=FILE",
	}
}

// vitestJSON reads the json reporter of Vitest, whose form is Jest's.
func vitestJSON() Reader {
	return Reader{
		Format: "vitest",
		Read:   byTitles(readEach("vitest", readJest)),
		Agrees: agreesZeroOne("Vitest"),
		Means:  "Vitest 3, 4: vitest run --reporter=json --outputFile=FILE",
	}
}

// agreesZeroOne is for runners that end with 0 if nothing failed and 1 if
// something did, be it no test.
func agreesZeroOne(runner string) func(*Report, int) (string, bool) {
	return func(r *Report, exit int) (string, bool) {
		bad := r.count(Failed, Errored, XPassed, Unknown)
		if exit == 0 && bad == 0 && r.broke == "" || exit == 1 && (bad > 0 || r.broke != "" || len(r.Tests) == 0) {
			return "", true
		}
		return fmt.Sprintf("%s ended with status %d, and %d of %d tests failed", runner, exit, bad, len(r.Tests)), false
	}
}

// jestSuite is one test file's results.
type jestSuite struct {
	Name       string     `json:"name"`
	Status     string     `json:"status"`
	Message    string     `json:"message"`
	Assertions []jestTest `json:"assertionResults"`
}

type jestTest struct {
	Ancestors []string `json:"ancestorTitles"`
	Title     string   `json:"title"`
	Status    string   `json:"status"`
	Failing   bool     `json:"failing"` // written so that it has to fail; Jest 30 and later say so
	Duration  *float64 `json:"duration"`
	Messages  []string `json:"failureMessages"`
	Details   []struct {
		Matcher json.RawMessage `json:"matcherResult"`
	} `json:"failureDetails"`
}

// jestSums are the report's own numbers.
type jestSums struct {
	FailedSuites, FailedTests, PassedTests, PendingTests, RuntimeErrors, TodoTests, TotalTests *int
	Success, Interrupted                                                                       *bool
	seen                                                                                       bool // there are test results
}

// jestListed is what the list amounts to.
type jestListed struct {
	words           map[string]int
	failedSuites    int
	brokenSuites    int
	suites, results int
}

func readJest(p *part, s Source) error {
	d := json.NewDecoder(bytes.NewReader(s.Data))
	bad := func(err error) error {
		at := 1 + bytes.Count(s.Data[:min(int(d.InputOffset()), len(s.Data))], []byte("\n"))
		return &Error{Format: p.Format, Source: s.Name, Line: at, Detail: err.Error()}
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return bad(errors.New("no JSON object"))
	}
	var sums jestSums
	listed := jestListed{words: map[string]int{}}
	err := sums.read(d, func(suite *jestSuite) error { return listed.take(p, s.Root, suite) })
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		p.flag(FlagCut, "", s.Name+" breaks off")
		return nil
	}
	if err != nil {
		return bad(err)
	}
	if !sums.seen || sums.TotalTests == nil || sums.Success == nil {
		return bad(errors.New("no testResults, numTotalTests or success in it"))
	}
	if _, err := d.Token(); err != io.EOF {
		p.flag(FlagStray, "", s.Name+": something after the report's end")
	}
	sums.check(p, s.Name, &listed)
	return nil
}

// read walks through the report's object; suites are handed on one by one.
func (j *jestSums) read(d *json.Decoder, each func(*jestSuite) error) error {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "testResults":
			if j.seen {
				return errors.New("testResults twice")
			}
			j.seen = true
			if t, err := d.Token(); err != nil {
				return err
			} else if t != json.Delim('[') {
				return errors.New("testResults is no list")
			}
			for d.More() {
				var s jestSuite
				if err := d.Decode(&s); err != nil {
					return err
				}
				if err := each(&s); err != nil {
					return err
				}
			}
			_, err = d.Token()
		default:
			err = j.field(d, key)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func (j *jestSums) field(d *json.Decoder, key json.Token) error {
	numbers := map[json.Token]**int{
		"numFailedTestSuites": &j.FailedSuites, "numFailedTests": &j.FailedTests, "numPassedTests": &j.PassedTests,
		"numPendingTests": &j.PendingTests, "numRuntimeErrorTestSuites": &j.RuntimeErrors, "numTodoTests": &j.TodoTests,
		"numTotalTests": &j.TotalTests,
	}
	flags := map[json.Token]**bool{"success": &j.Success, "wasInterrupted": &j.Interrupted}
	if to, ok := numbers[key]; ok {
		if *to != nil {
			return fmt.Errorf("%v twice", key)
		}
		return d.Decode(to)
	}
	if to, ok := flags[key]; ok {
		if *to != nil {
			return fmt.Errorf("%v twice", key)
		}
		return d.Decode(to)
	}
	var skip json.RawMessage
	return d.Decode(&skip)
}

// take puts a test file's results into the report.
func (l *jestListed) take(p *part, root string, s *jestSuite) error {
	l.suites++
	file := below(root, s.Name)
	failed := 0
	for _, a := range s.Assertions {
		l.words[a.Status]++
		t := a.test()
		t.ID = join(file, append(a.Ancestors, titled(a.Title))...)
		if worse[t.Status] >= worse[Failed] || t.Status == XPassed {
			failed++
		}
		if err := p.add(t); err != nil {
			return err
		}
	}
	if s.Status != "failed" {
		return nil
	}
	l.failedSuites++
	broken := strings.Contains(s.Message, "● Test suite failed to run")
	if failed > 0 && !broken {
		return nil
	}
	// The file itself failed: it cannot be loaded, or something that is no test
	// failed in it.
	l.brokenSuites++
	kind := KindException
	if len(s.Assertions) == 0 {
		kind = KindBuild
		p.flag(FlagBuild, file, "it cannot be loaded")
	}
	return p.add(Test{ID: file, Status: Errored, Kind: kind, Message: s.Message})
}

// titled gives a test without a title one.
func titled(s string) string {
	if s == "" {
		return "(no title)"
	}
	return s
}

func (a jestTest) test() Test {
	t := Test{Message: strings.Join(a.Messages, "\n")}
	if a.Duration != nil && *a.Duration > 0 && *a.Duration < 1e9 {
		t.Took = time.Duration(*a.Duration * float64(time.Millisecond))
	}
	switch a.Status {
	case "passed":
		if t.Status = Passed; a.Failing {
			t.Status = XFailed
		}
	case "failed":
		t.Status, t.Kind = Failed, a.kind(t.Message)
		if a.Failing {
			t.Status = XPassed
		}
	case "pending", "skipped", "todo", "disabled":
		t.Status = Skipped
	default:
		t.Status = Unknown
	}
	return t
}

// kind tells an expectation that was not met from code that threw.
func (a jestTest) kind(message string) Kind {
	for _, d := range a.Details {
		if len(d.Matcher) > 0 {
			return KindAssertion
		}
	}
	first, _, _ := strings.Cut(message, "\n")
	switch {
	case strings.Contains(first, "Exceeded timeout of "), strings.Contains(first, "Test timed out in "):
		return KindTimeout
	case strings.HasPrefix(first, "AssertionError"), strings.HasPrefix(first, "Error: expect("), strings.HasPrefix(first, "Error: Failing test passed"), strings.HasPrefix(first, "Error: Snapshot "), strings.HasPrefix(first, "Error: Expect test to fail"):
		return KindAssertion
	}
	return KindException
}

// check holds the report's own numbers against its list.
func (j *jestSums) check(p *part, source string, l *jestListed) {
	skipped := l.words["pending"] + l.words["skipped"] + l.words["disabled"]
	todo := l.words["todo"]
	total := 0
	for _, n := range l.words {
		total += n
	}
	for _, c := range []struct {
		what   string
		told   *int
		listed int
	}{
		{"numTotalTests", j.TotalTests, total},
		{"numPassedTests", j.PassedTests, l.words["passed"]},
		{"numFailedTests", j.FailedTests, l.words["failed"]},
		{"numPendingTests and numTodoTests", both(j.PendingTests, j.TodoTests), skipped + todo},
	} {
		if c.told == nil {
			p.flag(FlagCounts, "", fmt.Sprintf("%s: no %s", source, c.what))
		} else if *c.told != c.listed {
			p.flag(FlagCounts, "", fmt.Sprintf("%s: %s %d, and %d are listed", source, c.what, *c.told, c.listed))
		}
	}
	for to, n := range map[**int]*int{&p.Counts.Total: j.TotalTests, &p.Counts.Passed: j.PassedTests, &p.Counts.Failed: j.FailedTests,
		&p.Counts.Errors: j.RuntimeErrors, &p.Counts.Skipped: both(j.PendingTests, j.TodoTests)} {
		if n != nil {
			sum(to, *n)
		}
	}
	if j.RuntimeErrors != nil && *j.RuntimeErrors > l.brokenSuites {
		p.flag(FlagCounts, "", fmt.Sprintf("%s: numRuntimeErrorTestSuites %d, and %d are listed", source, *j.RuntimeErrors, l.brokenSuites))
	}
	bad := l.words["failed"] > 0 || l.failedSuites > 0
	if *j.Success && bad {
		p.flag(FlagCounts, "", source+": success, and not everything passed")
	}
	if !*j.Success && !bad {
		p.broke = "it says that the run was no success"
	}
	if j.Interrupted != nil && *j.Interrupted {
		p.flag(FlagCut, "", source+": the run was interrupted")
	}
}

func both(a, b *int) *int {
	if a == nil {
		return nil
	}
	n := *a
	if b != nil {
		n += *b
	}
	return &n
}
