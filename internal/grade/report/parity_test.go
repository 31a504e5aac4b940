package report

import (
	"strings"
	"testing"
)

// TestParityEnds: logs whose runner spells its last line otherwise, or in which
// a test prints one, are whole.
func TestParityEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		log    string
		exit   int
		void   FlagKind
		want   string
	}{
		{"pytest before 5.2", "swebench:pytest_v2", "PASSED a.py::b\n=== 1 passed, 2 warnings in 0.12 seconds ===\n", 0, "", "passed"},
		{"pytest for more than a minute", "swebench:pytest", "PASSED a.py::b\n======= 1 passed, 3 skipped in 75.20s (0:01:15) =======\n", 0, "", "passed"},
		{"pytest in colours", "swebench:pytest_v2", "\x1b[32mPASSED\x1b[0m a.py::\x1b[1mb\x1b[0m\n\x1b[32m===== \x1b[32m\x1b[1m1 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\x1b[32m =====\x1b[0m\n", 0, "", "passed"},
		{"a test of pytest prints a session that failed", "swebench:pytest", "=== 1 failed in 0.01s ===\nPASSED a.py::b\n=== 1 passed in 0.12s ===\n", 0, "", "passed"},
		{"two commands, of which the first failed", "swebench:cargo", "test b ... ok\ntest c ... FAILED\ntest result: FAILED. 1 passed; 1 failed;\ntest d ... ok\ntest result: ok. 1 passed; 0 failed;\n", 0, "", "passed"},
		{"pytest that ends early", "swebench:pytest", "PASSED a.py::b\n", 0, FlagCut, ""},
		{"one pass more than pytest counts", "swebench:pytest", "PASSED a.py::c\n=== 1 passed in 0.1s ===\nPASSED a.py::b\n", 0, FlagCounts, ""},
		{"a status that no failure explains", "swebench:pytest", "PASSED a.py::b\n=== 1 passed in 0.1s ===\n", 1, FlagExit, ""},
		{"an invented failure explains nothing", "swebench:pytest", "PASSED a.py::b\n=== 1 passed in 0.1s ===\nFAILED a.py::ghost\n", 1, FlagExit, ""},
		{"expected failures are none", "swebench:django", "b ... ok\nc ... expected failure\nRan 2 tests in 0.1s\n\nOK (skipped=1, expected failures=1)\n", 0, "", "passed"},
		{"go test that ends early", "swebench:gotest", "--- PASS: b (0.00s)\nPASS\n", 0, FlagCut, ""},
		{"a TAP test that is still to do", "swebench:tap", "ok 1 b\nnot ok 2 c # TODO later\n", 0, "", "passed"},
		{"a word that only begins like a status", "swebench:pytest", "PASSEDish a.py::b\n=== 1 passed in 0.1s ===\n", 0, "", "unknown"},
	} {
		r, err := Read(c.format, []Source{{Name: "stdout", Data: []byte(c.log)}}, c.exit)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if void := r.Void(); (void == "") != (c.void == "") || !strings.HasPrefix(void, string(c.void)) {
			t.Errorf("%s: void %q, not %q", c.name, void, c.void)
		}
		for _, test := range r.Tests {
			if c.want != "" && (test.ID == "b" || test.ID == "a.py::b") && test.Status != Status(c.want) {
				t.Errorf("%s: %s, not %s", c.name, test.Status, c.want)
			}
		}
	}
}

// TestJUnitDialects: what other runners write by their own schemas is whole,
// and what disagrees with its own sums is not.
func TestJUnitDialects(t *testing.T) {
	for _, c := range []struct{ name, xml, void, want string }{
		{"GoogleTest", `<testsuites tests="3" failures="1" disabled="1" errors="0" time="0" name="AllTests"><testsuite name="Shop" tests="3" failures="1" disabled="1" errors="0">
<testcase name="Adds" status="run" result="completed" time="0" classname="Shop"/><testcase name="Off" status="notrun" result="suppressed" time="0" classname="Shop"/>
<testcase name="Fails" status="run" result="completed" time="0" classname="Shop"><failure message="a" type=""><![CDATA[a]]></failure><failure message="b" type=""><![CDATA[b]]></failure></testcase></testsuite></testsuites>`,
			"", "passed Shop::Adds, failed Shop::Fails, skipped Shop::Off"},
		{"PHPUnit, whose suites count those in them", `<testsuites><testsuite name="all" tests="2" assertions="2" errors="0" failures="1" skipped="0" time="0.1"><testsuite name="ShopTest" file="/a/ShopTest.php" tests="2" errors="0" failures="1" skipped="0">
<testcase name="testAdds" class="ShopTest" classname="ShopTest" file="/a/ShopTest.php" line="9" assertions="1"/><testcase name="testB with data set &quot;x y&quot;" class="ShopTest" classname="ShopTest"><failure type="PHPUnit\Framework\ExpectationFailedException">x</failure></testcase></testsuite></testsuite></testsuites>`,
			"", `passed ShopTest::testAdds, failed ShopTest::testB with data set "x y"`},
		{"jest-junit", `<testsuites name="jest tests" tests="2" failures="0" errors="0" time="1"><testsuite name="shop" errors="0" failures="0" skipped="1" tests="2"><testcase classname="shop adds" name="shop adds" time="0.01"/><testcase classname="shop skips" name="shop skips"><skipped/></testcase></testsuite></testsuites>`,
			"", "passed shop adds, skipped shop skips"},
		{"no classes", `<testsuite name="bats" tests="1" failures="0"><testcase name="adds"/></testsuite>`, "", "passed bats::adds"},
		{"thousands with a comma", `<testsuite name="a" tests="1" failures="0" time="1,234.5"><testcase name="b" classname="a" time="1,234.5"/></testsuite>`, "", "passed a::b"},
		{"a suite that fails outside of its tests", `<testsuite name="a" tests="1" failures="0" errors="1"><error message="no set-up"/><testcase name="b" classname="a"/></testsuite>`, "", "error a, passed a::b"},
		{"a status alone", `<testsuite name="a" tests="2"><testcase name="b" classname="a" status="failed"/><testcase name="c" classname="a" status="passed"/></testsuite>`, "", "failed a::b, passed a::c"},
		{"fewer than it counts", `<testsuite name="a" tests="2" failures="0"><testcase name="b" classname="a"/></testsuite>`, "counts", ""},
		{"a failure that is not counted", `<testsuite name="a" tests="1" failures="0" errors="0"><testcase name="b" classname="a"><error/></testcase></testsuite>`, "counts", ""},
		{"a failure that is not there", `<testsuite name="a" tests="1" failures="1" errors="0"><testcase name="b" classname="a"/></testsuite>`, "counts", ""},
		{"a number that is none", `<testsuite name="a" tests="-1"><testcase name="b"/></testsuite>`, "error", ""},
		{"an element of another name", `<tests><testcase name="b"/></tests>`, "error", ""},
		{"nothing", ` `, "cut", ""},
	} {
		var got []string
		r, err := readJUnit(Junit, []Source{{Name: "a.xml", Data: []byte(c.xml)}}, junitDialect{id: junitID, status: junitStatus})
		void := "error"
		if err == nil {
			void, _, _ = strings.Cut(r.Void(), ":")
			for _, test := range r.Tests {
				got = append(got, string(test.Status)+" "+test.ID)
			}
		}
		if void != c.void || c.void == "" && strings.Join(got, ", ") != c.want {
			t.Errorf("%s: void %q (want %q), %s (want %s), %v", c.name, void, c.void, strings.Join(got, ", "), c.want, err)
		}
	}
}
