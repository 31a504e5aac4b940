package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// pytestJUnit reads what pytest's --junitxml writes, of either family.
func pytestJUnit() Reader {
	return Reader{
		Format: "pytest",
		Read:   readEach("pytest", readPytest),
		Agrees: agreesPytest,
		Means:  "pytest 7, 8, 9: pytest -o junit_family=xunit1 --junitxml=FILE",
	}
}

// readEach reads the sources one after the other into one report.
func readEach(f Format, one func(p *part, s Source) error) func([]Source) (*Report, error) {
	return func(sources []Source) (*Report, error) {
		if len(sources) == 0 {
			return nil, &Error{Format: f, Source: "(none)", Detail: "there is no report"}
		}
		p := &part{Report: &Report{Format: f}, index: map[string]int{}, many: len(sources) > 1}
		for _, s := range sources {
			if err := one(p, s); err != nil {
				var e *Error
				if !errors.As(err, &e) {
					e = &Error{Format: f, Source: s.Name, Detail: err.Error()}
				}
				return nil, e
			}
		}
		return p.Report, nil
	}
}

// part is a report in the making.
type part struct {
	*Report
	index map[string]int
	many  bool // there are several sources
}

func (p *part) add(t Test) error { return p.Add(p.index, t) }

// sum adds a runner's own number to a count.
func sum(to **int, n int) {
	if *to == nil {
		*to = new(int)
	}
	**to += n
}

// pytestCase is one testcase element as far as it was read.
type pytestCase struct {
	test     Test
	results  int  // result elements in it
	failed   bool // it holds a failure
	teardown bool // it holds an error of the tear-down
}

// pytestSuite holds what a testsuite sums up against what it lists.
type pytestSuite struct {
	tests, failures, errors, skipped int // listed elements
	told                             [4]int
	failed                           map[string]bool // ids of the cases that hold a failure
}

func readPytest(p *part, s Source) error {
	x, err := newXML(p.Format, s)
	if err != nil {
		return err
	}
	var suite *pytestSuite
	var c *pytestCase
	seen, inside := false, ""
	for {
		tok, err := x.next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, errCut) {
			p.flag(FlagCut, "", s.Name+" breaks off")
			break
		}
		if err != nil {
			return err
		}
		switch e := tok.(type) {
		case xml.StartElement:
			name, a := e.Name.Local, attrs(e)
			switch {
			case name == "testsuites" && x.depth == 1 && !seen:
				seen = true
			case name == "testsuite" && suite == nil && (x.depth == 2 || !seen):
				seen = true
				if suite, err = newPytestSuite(a); err != nil {
					return x.bad("%v", err)
				}
			case name == "testcase" && suite != nil && c == nil:
				c = &pytestCase{test: Test{ID: pytestID(a), Status: Passed, Took: seconds(a["time"])}}
			case c != nil && inside == "" && strings.Contains(" failure error skipped ", " "+name+" "):
				c.result(suite, name, a)
				inside = name
			case strings.Contains(" properties property system-out system-err ", " "+name+" ") && suite != nil:
				if inside == "" {
					inside = name
				}
			default:
				if x.depth == 1 {
					return x.bad("an element <%s> where pytest has <testsuites>", name)
				}
				p.flag(FlagStray, "", fmt.Sprintf("%s:%d: an element <%s>", s.Name, x.line(), name))
			}
		case xml.EndElement:
			switch name := e.Name.Local; {
			case name == inside:
				inside = ""
			case name == "testcase" && c != nil:
				if err := suite.end(p, c); err != nil {
					return x.bad("%v", err)
				}
				c = nil
			case name == "testsuite" && suite != nil:
				suite.check(p, s.Name)
				suite = nil
			}
		case xml.CharData:
			if inside == "" && !blank(e) {
				p.flag(FlagStray, "", fmt.Sprintf("%s:%d: text between the elements", s.Name, x.line()))
			}
		}
	}
	if !seen {
		return &Error{Format: p.Format, Source: s.Name, Detail: "no <testsuites> in it"}
	}
	return nil
}

func newPytestSuite(a map[string]string) (*pytestSuite, error) {
	s := &pytestSuite{failed: map[string]bool{}}
	for i, k := range []string{"tests", "failures", "errors", "skipped"} {
		n, err := strconv.Atoi(a[k])
		if err != nil || n < 0 {
			return nil, fmt.Errorf("a testsuite whose %s is %q", k, a[k])
		}
		s.told[i] = n
	}
	return s, nil
}

// pytestID is the node id where the file is told and is the class's module,
// else pytest's class name and name.
func pytestID(a map[string]string) string {
	class, name, file := a["classname"], a["name"], a["file"]
	if class == "" { // a collector: its file
		if file != "" {
			return file
		}
		return name
	}
	if stem, ok := strings.CutSuffix(file, ".py"); ok {
		module := strings.ReplaceAll(stem, "/", ".")
		if class == module {
			return file + "::" + name
		}
		if rest, ok := strings.CutPrefix(class, module+"."); ok {
			return file + "::" + strings.ReplaceAll(rest, ".", "::") + "::" + name
		}
	}
	return class + "::" + name
}

// result takes one result element of the case.
func (c *pytestCase) result(suite *pytestSuite, name string, a map[string]string) {
	message := a["message"]
	status, kind := Failed, KindException
	switch name {
	case "failure":
		suite.failures++
		c.failed = true
		kind = pytestKind(message)
	case "error":
		suite.errors++
		status = Errored
		c.teardown = strings.HasPrefix(message, "failed on teardown")
		if message == "collection failure" {
			kind = KindBuild
		}
	case "skipped":
		suite.skipped++
		status, kind = Skipped, KindNone
		if a["type"] == "pytest.xfail" {
			status = XFailed
		}
	}
	c.results++
	if worse[status] > worse[c.test.Status] {
		c.test.Status, c.test.Kind, c.test.Message = status, kind, message
	}
}

// pytestKind tells an expectation that was not met from code that raised, by
// the exception's name, with which pytest's message begins.
func pytestKind(message string) Kind {
	switch name, _, _ := strings.Cut(message, ":"); {
	case strings.HasPrefix(message, "Failed: Timeout"):
		return KindTimeout
	case strings.HasPrefix(message, "assert "), name == "Failed", strings.HasSuffix(name, "AssertionError"), strings.HasPrefix(message, "[XPASS(strict)]"):
		return KindAssertion
	}
	return KindException
}

// end puts a case into the report. A test that fails and whose tear-down fails
// too has two elements, which are one result. (With pytest-xdist others may
// stand between them.)
func (s *pytestSuite) end(p *part, c *pytestCase) error {
	if s.failed[c.test.ID] && c.teardown && c.results == 1 {
		i := p.index[line(c.test.ID)]
		p.Tests[i].Status, p.Tests[i].Kind, p.Tests[i].Message = Errored, KindException, c.test.Message
		delete(s.failed, c.test.ID)
		return nil
	}
	s.tests += max(c.results, 1)
	if c.teardown && c.results == 1 {
		s.tests++ // pytest counts its pass and its error
	}
	if c.failed {
		s.failed[c.test.ID] = true
	}
	if c.test.Kind == KindBuild {
		p.flag(FlagBuild, c.test.ID, "it cannot be collected")
	}
	return p.add(c.test)
}

// check holds the suite's sums against its list. pytest counts subtests that it
// does not list, so its number of tests may be larger, never smaller.
func (s *pytestSuite) check(p *part, source string) {
	sum(&p.Counts.Total, s.told[0])
	sum(&p.Counts.Failed, s.told[1])
	sum(&p.Counts.Errors, s.told[2])
	sum(&p.Counts.Skipped, s.told[3])
	for i, listed := range []int{s.tests, s.failures, s.errors, s.skipped} {
		if told := s.told[i]; told != listed && (i > 0 || told < listed) {
			what := []string{"tests", "failures", "errors", "skipped"}[i]
			p.flag(FlagCounts, "", fmt.Sprintf("%s: %s=%d, and %d are listed", source, what, told, listed))
		}
	}
}

// agreesPytest knows pytest's exit statuses: 0 all passed, 1 some failed, 2
// interrupted (also by what cannot be collected), 3 internal error, 4 wrong
// usage, 5 nothing collected.
func agreesPytest(r *Report, exit int) (string, bool) {
	bad := r.count(Failed, Errored, Unknown)
	build := 0
	for _, t := range r.Tests {
		if t.Kind == KindBuild {
			build++
		}
	}
	switch {
	case exit == 0 && bad == 0 && len(r.Tests) > 0:
		return "", true
	case exit == 1 && bad > 0:
		return "", true
	case exit == 2 && (build > 0 || r.broke != ""):
		return "", true
	case exit == 4 && build > 0 && bad == build && r.count(Passed, XPassed, XFailed) == 0:
		return "", true // a test was named whose file cannot be collected
	case (exit == 4 || exit == 5) && bad == 0 && r.count(Passed, XPassed, XFailed) == 0:
		return "", true
	}
	return fmt.Sprintf("pytest ended with status %d, and %d of %d tests failed", exit, bad, len(r.Tests)), false
}

// seconds reads a duration; what is none is not told.
func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) || f > 1e9 {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}
