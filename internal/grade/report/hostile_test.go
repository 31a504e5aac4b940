package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHostileReports: what is built to hurt the reader is refused, or read in
// bounds; nothing panics and nothing expands.
func TestHostileReports(t *testing.T) {
	x := func(inside string) string {
		return `<testsuites><testsuite tests="1" failures="0" errors="0" skipped="0">` + inside + `</testsuite></testsuites>`
	}
	head := `{"log":"assay-tests","v":1,"runner":"x"}` + "\n"
	long := strings.Repeat("x", MaxID+1)
	for _, c := range []struct {
		name   string
		format Format
		data   string
		want   string // in the error
	}{
		{"a document type", "pytest", `<!DOCTYPE a [<!ENTITY b "cccc">]>` + x(`<testcase classname="a" name="&b;"/>`), "document type"},
		{"an entity of its own", "pytest", x(`<testcase classname="a" name="&b;"/>`), "entity"},
		{"deep elements", "pytest", x(strings.Repeat("<properties>", 1000)), "deeper than"},
		{"many attributes", "pytest", x("<testcase " + strings.Repeat(`a="" `, 1000) + "/>"), "attributes"},
		{"many attributes behind a quote", "pytest", "<?x '?><!-- ' -->" + x("<![CDATA[ ' ]]><testcase "+strings.Repeat(`a="" `, 1000)+"/>"), "attributes"},
		{"another encoding", "pytest", `<?xml version="1.0" encoding="utf-7"?>` + x(""), "encoding"},
		{"another document", "pytest", `<html></html>`, "<html>"},
		{"no numbers", "pytest", `<testsuites><testsuite></testsuite></testsuites>`, "tests is"},
		{"negative numbers", "pytest", `<testsuites><testsuite tests="-1" failures="0" errors="0" skipped="0"/></testsuites>`, "tests is"},
		{"a long id", "pytest", x(`<testcase classname="a" name="` + long + `"/>`), "name of"},
		{"a long id", "pytest-log", head + `{"end":"` + long + `","status":"passed"}`, "name of"},
		{"a long line", "unittest", head + `{"end":"` + strings.Repeat("x", maxLogLine) + `"}` + "\n", "a line of"},
		{"another log", "unittest", `{"log":"assay-tests","v":2}` + "\n", "another version"},
		{"nothing", "unittest", "", "empty"},
		{"deep JSON", "jest", strings.Repeat(`{"testResults":[`, 20_000), ""},
		{"deep JSON in what is not read", "jest", `{"coverageMap":` + strings.Repeat(`[`, 20_000), "depth"},
		{"no report", "jest", `{"testResults":[]}`, "numTotalTests"},
		{"testResults twice", "jest", `{"testResults":[],"testResults":[]}`, "twice"},
		{"a number twice", "jest", `{"numTotalTests":1,"numTotalTests":2}`, "twice"},
		{"a list", "vitest", `[]`, "no JSON object"},
		{"no report", "mocha", `{"stats":{}}`, "no stats"},
		{"text", "mocha", `passed`, "invalid"},
		{"text", "tap", `passed`, "no line of TAP"},
	} {
		_, err := Read(c.format, []Source{{Name: "stdout", Data: []byte(c.data)}}, 1)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %q", c.format, c.name, err, c.want)
		}
	}
}

// TestLargeReports: reports of many megabytes, honest and not, are read in a
// time that grows with their size alone. The bound is against a hang.
func TestLargeReports(t *testing.T) {
	const n = 50_000
	many := func(each string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, each, i)
		}
		return b.String()
	}
	head := `{"log":"assay-tests","v":1,"runner":"x"}` + "\n"
	same := func(each string) string { return strings.Repeat(each, n) }
	mocha := func(lists string) string {
		return `{"stats":{"tests":1,"passes":1,"pending":0,"failures":1},` + lists + `}`
	}
	hook := `{"title":"\"after each\" hook for \"x\"","fullTitle":"\"after each\" hook for \"x\"","file":"f","err":{"message":"m"}},`
	for _, c := range []struct {
		name   string
		format Format
		data   string
	}{
		{"many tests", "pytest", `<testsuites><testsuite tests="1" failures="0" errors="0" skipped="0">` + many(`<testcase classname="a" name="%d"/>`)},
		{"many of one name", "pytest", `<testsuites><testsuite tests="1" failures="0" errors="0" skipped="0">` + same(`<testcase classname="a" name="b"/>`)},
		{"many starts", "unittest", head + many(`{"start":"%d"}`+"\n")},
		{"many results", "unittest", head + same(`{"result":"a","status":"failed"}`+"\n")},
		{"many lines that are none", "unittest", head + same("x\n")},
		{"many files", "jest", `{"testResults":[` + many(`{"name":"%d","status":"failed"},`)},
		{"many titles of two files", "jest", `{"testResults":[` + many(`{"name":"a","status":"passed","assertionResults":[{"title":"%d","status":"passed"}]},`)},
		{"many hooks around one name", "mocha", mocha(`"passes":[],"tests":[` + strings.TrimSuffix(same(`{"title":"x","fullTitle":"x","file":"f","err":{}},`), ",") + `],"failures":[` + strings.TrimSuffix(same(hook), ",") + `]`)},
		{"many points", "tap", many("ok - x\n# %d\n")},
		{"many wrong numbers", "tap", same("not ok 7 - x\n")},
		{"deeper and deeper", "tap", many("ok 1 - x\n") + strings.Repeat(strings.Repeat("    ", 31)+"ok 1 - x\n", 1000)},
		{"one long line", "tap", "1..1\nok 1 " + same("# ok - ")},
		{"a long diagnostic", "tap", "1..1\nnot ok 1\n  ---\n" + same("  a: b\n")},
	} {
		began := time.Now()
		r, err := Read(c.format, []Source{{Name: "stdout", Data: []byte(c.data)}}, 1)
		if err == nil {
			checkReport(t, r)
			if r.Void() == "" {
				t.Errorf("%s, %s: nothing speaks against it", c.format, c.name)
			}
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s, %s: took %v", c.format, c.name, took)
		}
	}
}

// TestTooManyTests: the number of tests is capped, and said.
func TestTooManyTests(t *testing.T) {
	var b strings.Builder
	for i := range MaxTests + 1 {
		fmt.Fprintf(&b, "ok %d - %d\n", i+1, i)
	}
	if _, err := Read("tap", []Source{{Name: "stdout", Data: []byte(b.String())}}, 0); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v", err)
	}
}

// TestSupport: every file that makes a runner write its report is there, says
// how it is used, and is for a format that there is.
func TestSupport(t *testing.T) {
	n := 0
	for _, r := range Readers() {
		name, data, ok := Support(r.Format)
		if !ok {
			continue
		}
		n++
		stem, _, _ := strings.Cut(name, ".")
		if len(data) < 1000 || !strings.Contains(string(data), stem) {
			t.Errorf("%s: %s has %d bytes and does not say how it is used", r.Format, name, len(data))
		}
		if !strings.Contains(r.Means, stem) {
			t.Errorf("%s: its line for people does not name %s: %s", r.Format, name, r.Means)
		}
	}
	if n < 5 {
		t.Errorf("%d formats have a file", n)
	}
}
