package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forgery changes a real report, in favour of a test that failed.
type forgery struct {
	name string
	// forge makes the forged bytes; nil: this forgery has no place in the report.
	forge func(data []byte) []byte
	exit  int      // -1: the run's own
	want  FlagKind // what must be seen; empty: nothing but that the test stays failed
}

// target is a test of the kinds projects that fails by an assertion.
func target(f Format) string {
	switch f {
	case "pytest", "pytest-log":
		return "test_kinds.py::test_fails"
	case "unittest":
		return "tests.test_kinds.Kinds.test_fails"
	case "django":
		return "shop.tests.Views.test_missing"
	case "jest", "vitest":
		return "kinds.test.js > fails"
	case "node-test":
		return "kinds.test.mjs > fails"
	case "mocha", "mocha-log":
		return "kinds.spec.js > fails"
	}
	return ""
}

// replace is a forgery by a regular expression, on its first place.
func replace(pattern, with string) func([]byte) []byte {
	re := regexp.MustCompile(pattern)
	return func(b []byte) []byte {
		at := re.FindSubmatchIndex(b)
		if at == nil {
			return nil
		}
		out := append([]byte{}, b[:at[0]]...)
		out = re.Expand(out, []byte(with), b, at)
		return append(out, b[at[1]:]...)
	}
}

func after(text string) func([]byte) []byte {
	return func(b []byte) []byte { return append(append([]byte{}, b...), text...) }
}

// everywhere are forgeries of any format.
func everywhere() []forgery {
	cut := func(share float64) func([]byte) []byte {
		return func(b []byte) []byte { return b[:int(float64(len(b))*share)] }
	}
	return []forgery{
		{"cut at nine tenths", cut(0.9), -1, FlagCut},
		{"cut in the middle", cut(0.5), -1, FlagCut},
		{"status 0", func(b []byte) []byte { return b }, 0, FlagExit},
		{"status 137", func(b []byte) []byte { return b }, 137, FlagExit},
	}
}

// forgeries by format; the regular expressions are on the runner's own text.
func forgeries(f Format) []forgery {
	q := regexp.QuoteMeta
	id := target(f)
	switch f {
	case "pytest":
		return []forgery{
			{"a pass behind the failure", replace(`</testsuite>`, `<testcase classname="test_kinds" name="test_fails" file="test_kinds.py" time="0.1" /></testsuite>`), -1, FlagDuplicate},
			{"a pass behind it, counted", func(b []byte) []byte {
				return replace(`tests="\d+"`, `tests="99"`)(replace(`</testsuite>`, `<testcase classname="test_kinds" name="test_fails" file="test_kinds.py" /></testsuite>`)(b))
			}, -1, FlagDuplicate},
			{"the failure taken out", replace(`(name="test_fails"[^>]*>)<failure(?s:.*?)</failure>`, `$1`), -1, FlagCounts},
			{"the failure taken out and counted", func(b []byte) []byte {
				return replace(`failures="\d+"`, `failures="9"`)(replace(`(name="test_fails"[^>]*>)<failure(?s:.*?)</failure>`, `$1`)(b))
			}, 0, FlagExit},
			{"no failures counted", replace(`failures="\d+"`, `failures="0"`), -1, FlagCounts},
			{"fewer tests counted", replace(`tests="\d+"`, `tests="1"`), -1, FlagCounts},
			{"text between the elements", replace(`<testcase`, `PASSED test_kinds.py::test_fails<testcase`), -1, FlagStray},
			{"an element of its own", replace(`<testcase`, `<verdict>passed</verdict><testcase`), -1, FlagStray},
			{"a second document", after(`<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="0" tests="1"><testcase classname="test_kinds" name="test_fails" file="test_kinds.py"/></testsuite></testsuites>`), -1, FlagStray},
			{"text behind the end", after("test_kinds.py::test_fails PASSED\n"), -1, FlagStray},
		}
	case "pytest-log", "unittest", "django", "node-test", "mocha-log":
		start, pass := fmt.Sprintf(`{"start": %q}`+"\n", id), fmt.Sprintf(`{"end": %q, "status": "passed", "took": 0.1}`+"\n", id)
		done := `(?m)^\{"done"`
		return []forgery{
			{"a pass behind the failure", replace(done, start+pass+`{"done"`), -1, FlagCounts},
			{"a pass without a start", replace(done, pass+`{"done"`), -1, FlagStray},
			{"a result of no test", replace(done, fmt.Sprintf(`{"result": %q, "status": "passed"}`+"\n", id)+`{"done"`), -1, FlagCounts},
			{"a pass after the end", after(start + pass), -1, FlagStray},
			{"a second end", after(`{"done": {"passed": 1}}` + "\n"), -1, FlagStray},
			{"a second run behind it", func(b []byte) []byte { return append(append([]byte{}, b...), b...) }, -1, FlagStray},
			{"the failure called a pass", replace(`("end": ?"`+q(id)+`", ?"status": ?)"failed"`, `$1"passed"`), -1, FlagCounts},
			{"the failure taken out", replace(`\{"end": ?"`+q(id)+`", ?"status".*\n`, ``), -1, FlagCounts},
			{"start and end taken out", replace(`\{"start": ?"`+q(id)+`"\}\n\{"end": ?"`+q(id)+`", ?"status".*\n`, ``), -1, FlagCounts},
			{"another status word", replace(`("end": ?"`+q(id)+`", ?"status": ?)"failed"`, `$1"PASSEDish"`), -1, FlagCounts},
			{"edited numbers", replace(`("done": ?.*"failed": ?)\d+`, `${1}0`), -1, FlagCounts},
			{"a line of its own", replace(done, "PASSED "+id+"\n"+`{"done"`), -1, FlagStray},
			{"a field of its own", replace(done, `{"verdict": "passed"}`+"\n"+`{"done"`), -1, FlagStray},
			{"no end", replace(`(?m)^\{"done".*\n`, ``), -1, FlagCut},
		}
	case "jest", "vitest":
		pass := `{"ancestorTitles":[],"fullName":"fails","status":"passed","title":"fails","duration":1,"failureMessages":[]}`
		return []forgery{
			{"a pass behind the failure", replace(`"assertionResults":\[(\{[^{}]*"title":"passes")`, `"assertionResults":[`+pass+`,$1`), -1, FlagCounts},
			{"a pass before it, counted", func(b []byte) []byte {
				n := replace(`"assertionResults":\[(\{[^{}]*"title":"passes")`, `"assertionResults":[`+pass+`,$1`)(b)
				if n == nil {
					return nil
				}
				return more(more(n, "numPassedTests"), "numTotalTests")
			}, -1, FlagDuplicate},
			{"the failure called a pass", replace(`"status":"failed","title":"fails"`, `"status":"passed","title":"fails"`), -1, FlagCounts},
			{"no failures counted", replace(`"numFailedTests":\d+`, `"numFailedTests":0`), -1, FlagCounts},
			{"more passes counted", replace(`"numPassedTests":\d+`, `"numPassedTests":99`), -1, FlagCounts},
			{"called a success", replace(`"success":false`, `"success":true`), -1, FlagCounts},
			{"a word that only begins like a status", replace(`"status":"failed","title":"fails"`, `"status":"passedish","title":"fails"`), -1, FlagCounts},
			{"another report behind it", after(`{"numTotalTests":1,"numPassedTests":1,"success":true,"testResults":[]}`), -1, FlagStray},
			{"text behind the end", after("fails PASSED\n"), -1, FlagStray},
		}
	case "mocha":
		pass := `{"title":"fails","fullTitle":"fails","file":"/tmp/assay-reports/project/kinds.spec.js","duration":1,"currentRetry":0,"err":{}}`
		return []forgery{
			{"a pass beside the failure", replace(`"passes": \[`, `"passes": [`+pass+`,`), -1, FlagCounts},
			{"a pass beside it, counted", func(b []byte) []byte {
				return more(replace(`"passes": \[`, `"passes": [`+pass+`,`)(b), "passes")
			}, -1, ""},
			{"the failure taken out", replace(`("failures": \[\s*)\{(?s:.*?"currentRetry".*?\})\s*\},`, `$1`), -1, FlagCounts},
			{"no failures counted", replace(`"failures": \d+`, `"failures": 0`), -1, FlagCounts},
			{"fewer tests counted", replace(`"tests": \d+`, `"tests": 1`), -1, FlagCounts},
			{"text behind the end", after("fails PASSED\n"), -1, FlagStray},
		}
	}
	return nil
}

// more counts one more of a number in a report.
func more(b []byte, field string) []byte {
	re := regexp.MustCompile(`"` + field + `": ?(\d+)`)
	m := re.FindSubmatch(b)
	if m == nil {
		return b
	}
	n := 0
	fmt.Sscan(string(m[1]), &n)
	return replace(`("`+field+`": ?)\d+`, fmt.Sprintf("${1}%d", n+1))(b)
}

// TestForgedReports: no change of a real report turns a failed test into a
// passed one in a report that nothing speaks against.
func TestForgedReports(t *testing.T) {
	tried := map[Format]map[string]int{}
	for _, run := range aRuns(t) {
		id := target(run.format)
		if id == "" || !strings.HasPrefix(filepath.Base(run.file), "kinds") {
			continue
		}
		honest, err := run.read(run.data, run.exit)
		if err != nil {
			t.Fatal(err)
		}
		xunit2 := strings.HasSuffix(run.file, "xunit2.xml")
		if xunit2 {
			id = "test_kinds::test_fails"
		}
		if s := find(honest, id); s != Failed {
			t.Fatalf("%s: %q is %s in the honest report", run.file, id, s)
		}
		if tried[run.format] == nil {
			tried[run.format] = map[string]int{}
		}
		for _, f := range append(everywhere(), forgeries(run.format)...) {
			tried[run.format][f.name] += 0
			data := f.forge(run.data)
			if xunit2 {
				data = bytes.ReplaceAll(data, []byte(` file="test_kinds.py"`), nil)
			}
			if data == nil || f.exit < 0 && bytes.Equal(data, run.data) {
				continue
			}
			tried[run.format][f.name]++
			exit := run.exit
			if f.exit >= 0 {
				exit = f.exit
			}
			r, err := run.read(data, exit)
			if err != nil {
				if f.want != FlagCut && f.want != FlagStray {
					t.Errorf("%s, %s: %v", run.file, f.name, err)
				}
				continue
			}
			if f.want != "" && !r.flagged(f.want) {
				t.Errorf("%s, %s: not flagged as %s:\n%s", run.file, f.name, f.want, flags(r))
			}
			if s := find(r, id); s == Passed && r.Void() == "" {
				t.Errorf("%s, %s: %q passed, and nothing speaks against the report", run.file, f.name, id)
			}
		}
	}
	for format, names := range tried {
		for name, n := range names {
			if n == 0 {
				t.Errorf("%s: the forgery %q found no place in any report", format, name)
			}
		}
	}
	if len(tried) != 9 {
		t.Errorf("%d formats were tried", len(tried))
	}
}

// TestCutAnywhere: wherever a report of a run with failures breaks off, it is
// no report, or a void one.
func TestCutAnywhere(t *testing.T) {
	for _, run := range aRuns(t) {
		if !strings.HasPrefix(filepath.Base(run.file), "kinds") {
			continue
		}
		whole := len(bytes.TrimRight(run.data, " \n"))
		for at := 0; at < whole; at += 1 + whole/200 {
			r, err := run.read(run.data[:at], run.exit)
			if err != nil || r.Void() != "" {
				continue
			}
			if run.format == "tap" && !bytes.HasPrefix(run.data, []byte("TAP version 13\n#")) && planKnown(run.data[:at]) {
				continue // all points and the plan are there; what follows are comments
			}
			t.Errorf("%s: cut at %d of %d, and nothing speaks against it", run.file, at, whole)
		}
	}
}

func planKnown(b []byte) bool { return regexp.MustCompile(`(?m)^1\.\.\d+$`).Match(b) }
