package report

import (
	"cmp"
	"fmt"
	"strings"
)

// Formats of JUnit's XML. There is no standard; each runner's own is read by
// its own rules, and Junit is what Maven, Gradle and most others write.
const (
	Junit   Format = "junit"
	Nextest Format = "nextest"
	CTest   Format = "ctest"
)

func junit() Reader {
	return Reader{
		Format: Junit,
		Read: func(sources []Source) (*Report, error) {
			return readJUnit(Junit, sources, junitDialect{id: junitID, status: junitStatus})
		},
		Agrees: func(r *Report, exit int) (string, bool) { return agrees(r, exit, nil) },
		Means: "Maven Surefire and Failsafe 2.22.2 and 3.2.5 with JUnit 4 and 5: `mvn -B test`, files target/surefire-reports/TEST-*.xml; " +
			"Gradle 8: build/test-results/test/TEST-*.xml; any other runner's JUnit XML",
	}
}

func nextest() Reader {
	return Reader{
		Format: Nextest,
		Read: func(sources []Source) (*Report, error) {
			return readJUnit(Nextest, sources, junitDialect{id: nextestID, status: nextestStatus})
		},
		Agrees: func(r *Report, exit int) (string, bool) {
			if exit == 4 && len(r.Tests) == 0 {
				return "", true // no tests to run
			}
			return agrees(r, exit, map[int]bool{100: true})
		},
		Means: "cargo-nextest 0.9.148: `cargo nextest run --no-fail-fast`, file target/nextest/default/junit.xml; " +
			"in .config/nextest.toml [profile.default.junit] path = \"junit.xml\", store-success-output = true",
	}
}

func ctest() Reader {
	return Reader{
		Format: CTest,
		Read: func(sources []Source) (*Report, error) {
			return readJUnit(CTest, sources, junitDialect{id: ctestID, status: ctestStatus})
		},
		Agrees: func(r *Report, exit int) (string, bool) { return agrees(r, exit, map[int]bool{8: true}) },
		Means:  "CTest 3.25: `ctest --test-dir build --output-junit report.xml` (3.21 and later have it)",
	}
}

// junitDialect is what differs between runners.
type junitDialect struct {
	id     func(s *junitSuite, c *junitCase) string
	status func(r *Report, c *junitCase) (Status, Kind)
}

// readJUnit reads every file; each must be a whole document whose suites count
// what they list.
func readJUnit(f Format, sources []Source, d junitDialect) (*Report, error) {
	r := &Report{}
	index := map[string]int{}
	if len(sources) == 0 {
		return nil, &Error{Format: f, Source: "(none)", Detail: "there is no file"}
	}
	suites := 0
	for _, s := range sources {
		roots, err := parseJUnit(s, r)
		if err != nil {
			err.Format = f
			return nil, err
		}
		for _, root := range roots {
			if err := addSuite(r, index, d, root); err != nil {
				return nil, &Error{Format: f, Source: s.Name, Detail: err.Error()}
			}
			suites++
		}
	}
	if suites == 0 && r.Void() == "" {
		return nil, &Error{Format: f, Source: sourceNames(sources), Detail: "no testsuite in it"}
	}
	r.settle()
	return r, nil
}

func addSuite(r *Report, index map[string]int, d junitDialect, s *junitSuite) error {
	for i := range s.cases {
		c := &s.cases[i]
		status, kind := d.status(r, c)
		t := Test{ID: d.id(s, c), Status: status, Kind: kind, Took: c.took}
		if status != Passed {
			t.Message = c.message
		}
		if t.ID == "" {
			return fmt.Errorf("line %d: a testcase without a name", c.line)
		}
		if err := r.Add(index, t); err != nil {
			return fmt.Errorf("line %d: %w", c.line, err)
		}
	}
	if s.broke != nil {
		t := Test{ID: cmp.Or(s.name, "(a suite without a name)"), Status: Errored, Kind: junitKind(s.broke), Message: s.broke.message}
		if err := r.Add(index, t); err != nil {
			return err
		}
	}
	for _, child := range s.suites {
		if err := addSuite(r, index, d, child); err != nil {
			return err
		}
	}
	s.check(r)
	return nil
}

// tally is what a suite lists, by the words that suites count.
type tally struct{ tests, bad, errors, failures, skipped, disabled, reruns int }

func (t *tally) add(o tally) {
	t.tests += o.tests
	t.bad += o.bad
	t.errors += o.errors
	t.failures += o.failures
	t.skipped += o.skipped
	t.disabled += o.disabled
	t.reruns += o.reruns
}

// check holds a suite's own sums against what it lists, alone or with the
// suites in it: runners differ in that, and none lists less than it counts. One
// that runs failed tests again may count the last round alone.
func (s *junitSuite) check(r *Report) {
	var own tally
	for i := range s.cases {
		own.count(&s.cases[i])
	}
	if s.broke != nil {
		own.errors += s.broke.errors
		own.failures += s.broke.failures
	}
	s.all = own
	for _, child := range s.suites {
		s.all.add(child.all)
	}
	for _, c := range []struct {
		what      string
		said      int
		own, all  int
		orAtLeast int // what else may be said
	}{
		{"tests", s.tests, own.tests, s.all.tests, own.tests - own.skipped - own.disabled},
		{"failures and errors", s.bad(), own.bad, s.all.bad, own.errors + own.failures},
		{"skipped", s.skipped, own.skipped, s.all.skipped, own.skipped + own.disabled},
	} {
		if c.said < 0 || c.said == c.own || c.said == c.all || c.said == c.orAtLeast || s.all.reruns > 0 && c.said <= c.all {
			continue
		}
		r.flag(FlagCounts, clip(s.name, MaxID), fmt.Sprintf("suite %q says %d %s and lists %d", clip(s.name, 80), c.said, c.what, c.all))
	}
}

// bad is how many tests a suite says have failed; -1: it does not say.
func (s *junitSuite) bad() int {
	if s.failures < 0 && s.errors < 0 {
		return -1
	}
	return max(s.failures, 0) + max(s.errors, 0)
}

func (t *tally) count(c *junitCase) {
	t.tests++
	if c.failures > 0 || c.errors > 0 {
		t.bad++
	}
	t.failures += c.failures
	t.errors += c.errors
	t.reruns += c.reruns
	switch {
	case c.status == "disabled":
		t.disabled++
	case c.skipped > 0:
		t.skipped++
	}
}

// junitID is CLASS::NAME, the class alone where set-up of a whole class failed,
// and the suite's name where there is no class.
func junitID(s *junitSuite, c *junitCase) string {
	class := c.class
	if class == "" {
		class = s.name
	}
	switch {
	case c.name == "" || c.name == class:
		return class
	case class == "":
		return c.name
	}
	return class + "::" + c.name
}

func junitStatus(r *Report, c *junitCase) (Status, Kind) {
	switch {
	case c.errors > 0:
		return Errored, junitKind(c)
	case c.failures > 0:
		return Failed, junitKind(c)
	case c.flaky > 0: // it failed, and passed when it was run again
		r.flag(FlagDuplicate, clip(c.name, MaxID), "failed and, run again, passed")
		r.forgiven++
		return Failed, junitKind(c)
	case strings.HasPrefix(strings.ToLower(c.status), "fail") || strings.EqualFold(c.status, "error"):
		return Failed, KindAssertion
	case c.skipped > 0 || c.status == "notrun" || c.status == "disabled" || c.status == "skipped":
		return Skipped, KindNone
	}
	return Passed, KindNone
}

// junitKind goes by the exception's class, in which Java says what it was.
func junitKind(c *junitCase) Kind {
	switch t := strings.ToLower(c.badType); {
	case strings.Contains(t, "timeout") || strings.Contains(t, "timedout"):
		return KindTimeout
	case strings.Contains(t, "assert") || strings.Contains(t, "comparisonfailure"):
		return KindAssertion
	case c.errors > 0 || strings.Contains(t, "exception"):
		return KindException
	}
	return KindAssertion
}

// nextestID is as nextest prints a test: its binary and its name.
func nextestID(s *junitSuite, c *junitCase) string {
	if c.class == "" || c.name == "" {
		return ""
	}
	return c.class + " " + c.name
}

// nextestStatus also reads what a test that passed printed, where the report
// has it: nextest goes by the status of the test's process, which any code in
// it can end with 0; the test harness's last line is not printed then.
func nextestStatus(r *Report, c *junitCase) (Status, Kind) {
	status, kind := junitStatus(r, c)
	if status == Passed && c.out != "" && !strings.Contains(c.out, "\ntest result: ok. 1 passed; 0 failed;") {
		r.flag(FlagStray, clip(nextestID(nil, c), MaxID), "its process ended with 0 and without the test harness's last line")
		return Errored, KindException
	}
	if status == Failed && strings.Contains(c.badType, "timeout") {
		kind = KindTimeout
	}
	if status == Failed && strings.Contains(c.badType, "abort") {
		kind = KindException
	}
	return status, kind
}

func ctestID(s *junitSuite, c *junitCase) string { return c.name }

// ctestStatus: what CTest files under "skipped" is a skip only by the test's
// own word; else it could not be run, which CTest counts as failed.
func ctestStatus(r *Report, c *junitCase) (Status, Kind) {
	switch c.status {
	case "run":
		if c.failures+c.errors+c.skipped == 0 {
			return Passed, KindNone
		}
	case "fail":
		switch {
		case strings.Contains(c.badMessage, "Timeout"):
			return Failed, KindTimeout
		case strings.Contains(c.badMessage, "SEGFAULT") || strings.Contains(c.badMessage, "Exception") || strings.Contains(c.badMessage, "aborted"):
			return Errored, KindException
		}
		return Failed, KindAssertion
	case "disabled":
		return Skipped, KindNone
	case "notrun":
		if m := c.badMessage; strings.HasPrefix(m, "SKIP_RETURN_CODE=") || m == "SKIP_REGULAR_EXPRESSION_MATCHED" || m == "Disabled" {
			return Skipped, KindNone
		}
		return Errored, KindException
	}
	return Unknown, KindNone
}
