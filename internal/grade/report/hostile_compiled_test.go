package report

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLargeCompiled: megabytes that are made to be slow to read are read in a
// time that grows with their size alone. The bound is against a hang.
func TestLargeCompiled(t *testing.T) {
	const n = 30_000
	many := func(each string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, each, i)
		}
		return b.String()
	}
	same := func(each string) string { return strings.Repeat(each, n) }
	event := func(action, test, more string) string {
		return `{"Action":"` + action + `","Package":"p","Test":"` + test + `"` + more + "}\n"
	}
	for _, c := range []struct {
		name   string
		format Format
		data   string
	}{
		{"many that never end", GoTest, many(event("run", "T%d", ""))},
		{"many ends", GoTest, `{"Action":"start","Package":"p"}` + "\n" + many(event("pass", "T%d", ""))},
		{"many packages", GoTest, many(`{"Action":"start","Package":"p%d"}` + "\n")},
		{"much output of many", GoTest, many(event("output", "T%d", `,"Output":"`+strings.Repeat("x", 100)+`"`))},
		{"one package over and over", GoTest, same(`{"Action":"start","Package":"p"}` + "\n" + event("run", "T", "") + `{"Action":"pass","Package":"p"}` + "\n")},
		{"many lines that are none", GoTest, same("x\n")},
		{"many programs", CargoTest, many("     Running unittests src/lib.rs (target/debug/deps/a%d-0123456789abcdef)\n\nrunning 1 test\n")},
		{"many results in one", CargoTest, "running 3 tests\n" + many("test t%d ... ok\n")},
		{"many halves", CargoTest, "running 3 tests\n" + many("test t%d ... x\n")},
		{"many texts of failures", CargoTest, "running 3 tests\ntest a ... FAILED\nfailures:\n" + many("---- t%d stdout ----\nx\n")},
		{"many dots", CargoTest, "running 3 tests\ntest " + same("a ... ") + "\n"},
		{"many suites", Junit, "<testsuites>" + many(`<testsuite name="s%d" tests="1">`+"</testsuite>")},
		{"many cases of one name", Junit, `<testsuite tests="1">` + same(`<testcase name="a"><failure/><error/></testcase>`)},
		{"deeper and deeper", Junit, "<testsuites>" + same("<testsuite>")},
		{"an element in an element", Junit, `<testsuite><testcase name="a"><system-out>` + same("<a>")},
		{"many references", Junit, `<testsuite tests="2"><testcase name="a"><failure>` + same("&#27;&#x1b;&#") + `</failure></testcase></testsuite>`},
		{"much text in pieces", Junit, `<testsuite tests="2"><testcase name="a"><system-out>` + same("<![CDATA[x]]>")},
		{"many attributes", Junit, `<testsuite ` + many(`a%d="" `) + "/>"},
		{"many announcements", "swebench:django", many("t%d ... Testing against Django installed in x\n")},
		{"many begun by one", "swebench:django", same("a ... Internal Server Error: /\n")},
		{"one long line", "swebench:googletest", same("[ OK ] a (")},
		{"many underscores", "swebench:sympy", same("____ ") + same("_ a.py:")},
		{"deeper and deeper", "swebench:karma", "Starting browser\n" + func() string {
			var b strings.Builder
			for i := range 3000 {
				b.WriteString(strings.Repeat(" ", i+1) + "x\n" + strings.Repeat(" ", i+1) + "✔ y\n")
			}
			return b.String()
		}()},
		{"many runs", "swebench:maven", many("-Dtest=%d\n") + same("BUILD FAILURE\n")},
		{"an element in an element", "swebench:doctest", "<doctest>" + same("<SubCase>") + "</doctest>"},
		{"many dots", "swebench:minitest", same("a. =.")},
	} {
		began := time.Now()
		r, err := Read(c.format, []Source{{Name: "stdout", Data: []byte(c.data)}}, 1)
		if err == nil {
			checkReport(t, r)
			if rd, _ := ReaderOf(c.format); r.Void() == "" && !rd.Parity {
				t.Errorf("%s, %s: nothing speaks against it", c.format, c.name)
			}
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s, %s: took %v", c.format, c.name, took)
		} else if testing.Verbose() {
			t.Logf("%-20s %-28s %8d kB %v", c.format, c.name, len(c.data)>>10, took.Round(time.Millisecond))
		}
	}
}

// TestCutCompiled: of a report that is cut anywhere nothing passes that did not
// pass in the whole, unless the rest is void.
func TestCutCompiled(t *testing.T) {
	for _, f := range []Format{GoTest, CargoTest, Nextest, Junit, CTest} {
		for _, run := range realRuns(t, f) {
			whole := map[string]Status{}
			unsure := map[string]bool{} // several results: the worse may be behind the cut
			r, err := Read(f, run.sources, run.exit)
			if err != nil {
				continue
			}
			for _, test := range r.Tests {
				whole[test.ID] = test.Status
			}
			for _, flag := range r.Flags {
				unsure[flag.ID] = flag.Kind == FlagDuplicate || flag.Kind == FlagPrinted
			}
			data := run.sources[0].Data
			for i := range 80 {
				at := len(data) * i / 80
				cut, err := Read(f, []Source{{Name: run.sources[0].Name, Data: data[:at]}}, run.exit)
				if err != nil || cut.Void() != "" {
					continue
				}
				for _, test := range cut.Tests {
					if test.Status == Passed && whole[test.ID] != Passed && !unsure[test.ID] {
						t.Errorf("%s/%s cut at %d: %s is %q in the whole", run.dir, run.name, at, test.ID, whole[test.ID])
					}
				}
				if f != GoTest && f != CargoTest && len(cut.Tests) > 0 {
					t.Errorf("%s/%s cut at %d of %d is not void", run.dir, run.name, at, len(data))
				}
			}
		}
	}
}
