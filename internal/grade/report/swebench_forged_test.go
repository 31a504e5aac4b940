package report_test

import (
	"strings"
	"syscall"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/trial"
)

// The tests of the forged logs: one that the task is about, and one that passes
// all the time.
const (
	aimed  = "test_a.py::test_new"
	steady = "test_a.py::test_old"
)

// pytestFailed is what pytest prints when the aimed test fails.
const pytestFailed = `============================= test session starts ==============================
collected 2 items

test_a.py .F                                                             [100%]

=================================== FAILURES ===================================
___________________________________ test_new ___________________________________
E       assert 1 == 2
=========================== short test summary info ============================
PASSED test_a.py::test_old
FAILED test_a.py::test_new - assert 1 == 2
========================= 1 failed, 1 passed in 0.02s ==========================
`

const pytestGreen = `============================= test session starts ==============================
collected 2 items

test_a.py ..                                                             [100%]

=========================== short test summary info ============================
PASSED test_a.py::test_old
PASSED test_a.py::test_new
============================== 2 passed in 0.02s ===============================
`

// forgery is a log that SWE-bench 5.0.2 calls resolved, and should not.
type forgery struct {
	name       string
	parser     string // without parse_log_
	evalType   string
	f2p, p2p   []string
	log        string     // what SWE-bench is given
	stream     string     // what the test command printed
	ran        checks.Ran // how the command ended, as the host has it
	noReader   bool       // there is no reader for such rows at all
	consistent bool       // nothing in the text contradicts: only canaries tell
}

// forgeries are the classes of logs by which product code, a conftest, the
// text of a patch or an install step gets its way with SWE-bench.
func forgeries() []forgery {
	lists := func(f forgery) forgery {
		if f.parser == "" {
			f.parser = "pytest"
		}
		if f.f2p == nil {
			f.f2p, f.p2p = []string{aimed}, []string{steady}
		}
		if f.stream == "" {
			f.stream = pytestFailed
		}
		return f
	}
	exit := func(n int) checks.Ran { return checks.Ran{Exit: n} }
	late := pytestFailed + "PASSED test_a.py::test_new\n"
	block := ">>>>> Start Test Output\nPASSED test_a.py::test_new\nPASSED test_a.py::test_old\n>>>>> End Test Output\n>>>>> Test Exit Code: 0\n"
	django := "test_old (a.T) ... ok\ntest_new (a.T) ... FAIL\n\n======\nFAIL: test_new (a.T)\n------\nAssertionError: 1 != 2\n\n" +
		"------\nRan 2 tests in 0.001s\n\nFAILED (failures=1)\n"
	all := []forgery{
		{name: "F1 text alone: a comment with carriage returns holds a block, and the script prints the diff", ran: exit(1),
			log: sweLog("diff --git a/x.py b/x.py\n+# x\r"+strings.ReplaceAll(block, "\n", "\r")+"\n", pytestFailed, "1")},
		{name: "F2 a comment with the exit-code line, and one late line", ran: exit(1), stream: late,
			log: sweLog("+# >>>>> Test Exit Code: 0\n", late, "1")},
		{name: "F3 a late line, and an invented failure that explains the status", ran: exit(1),
			stream: late + "FAILED test_a.py::test_invented - x\n", log: sweLog("", late+"FAILED test_a.py::test_invented - x\n", "1")},
		{name: "F4 a late line, and the process leaves with 0", ran: exit(0), stream: late, log: sweLog("", late, "0")},
		{name: "F5 lines on import, and the process leaves with 0", ran: exit(0),
			stream: "=== test session starts ===\nPASSED test_a.py::test_new\nPASSED test_a.py::test_old\n",
			log:    sweLog("", "=== test session starts ===\nPASSED test_a.py::test_new\nPASSED test_a.py::test_old\n", "0")},
		{name: "F5 the same with the runner's last line", ran: exit(0), consistent: true, stream: pytestGreen, log: sweLog("", pytestGreen, "0")},
		{name: "F6 lines on import and an early end marker", ran: exit(1),
			stream: "PASSED test_a.py::test_new\nPASSED test_a.py::test_old\nFAILED test_a.py::test_x\n>>>>> End Test Output\n" + pytestFailed,
			log:    sweLog("", "PASSED test_a.py::test_new\nPASSED test_a.py::test_old\nFAILED test_a.py::test_x\n>>>>> End Test Output\n"+pytestFailed, "1")},
		{name: "F7 a block from the install step", ran: exit(1), log: sweLog(block, pytestFailed, "1")},
		{name: "F8 writes the ending and kills the shell", ran: checks.Ran{Exit: -1, Signal: syscall.SIGKILL},
			stream: "PASSED test_a.py::test_new\nPASSED test_a.py::test_old\n>>>>> End Test Output\n>>>>> Test Exit Code: 0\n",
			log:    sweStart + "PASSED test_a.py::test_new\nPASSED test_a.py::test_old\n>>>>> End Test Output\n>>>>> Test Exit Code: 0\n"},
		{name: "F9 a conftest marks the test as one that is expected to fail", ran: exit(0),
			stream: "PASSED test_a.py::test_old\nXFAIL test_a.py::test_new\n=== 1 passed, 1 xfailed in 0.02s ===\n",
			log:    sweLog("", "PASSED test_a.py::test_old\nXFAIL test_a.py::test_new\n=== 1 passed, 1 xfailed in 0.02s ===\n", "0")},
		{name: "F9 a conftest writes the outcomes", ran: exit(0), consistent: true, stream: pytestGreen, log: sweLog("", pytestGreen, "0")},
		{name: "F10 words that only begin like a status", ran: exit(1),
			stream: pytestFailed + "PASSEDish test_a.py::test_new\nPASSEDish test_a.py::test_old\nFAILED test_a.py::test_x\n",
			log:    sweLog("", pytestFailed+"PASSEDish test_a.py::test_new\nPASSEDish test_a.py::test_old\nFAILED test_a.py::test_x\n", "1")},
		{name: "F11 the exact key of a truncated id", parser: "pytest_v2", f2p: []string{"test_a.py::test_p[a"}, p2p: []string{steady}, ran: exit(1),
			stream: "--- Captured stdout call ---\nPASSED test_a.py::test_p[a\n=== short test summary info ===\nPASSED test_a.py::test_old\nFAILED test_a.py::test_p[a b] - assert 0\n=== 1 failed, 1 passed in 0.02s ===\n",
			log:    sweLog("", "--- Captured stdout call ---\nPASSED test_a.py::test_p[a\n=== short test summary info ===\nPASSED test_a.py::test_old\nFAILED test_a.py::test_p[a b] - assert 0\n=== 1 failed, 1 passed in 0.02s ===\n", "1")},
		{name: "F12 of two commands only the last status counts", ran: exit(0), stream: late + "+ pytest -rA test_b.py\nPASSED test_b.py::test_x\n=== 1 passed in 0.01s ===\n",
			log: sweLog("", late+"+ pytest -rA test_b.py\nPASSED test_b.py::test_x\n=== 1 passed in 0.01s ===\n", "0")},
		{name: "F13 Django: one late line", parser: "django", f2p: []string{"test_new (a.T)"}, p2p: []string{"test_old (a.T)"}, ran: exit(1),
			stream: django + "test_new (a.T) ... ok\n", log: sweLog("", django+"test_new (a.T) ... ok\n", "1")},
		{name: "F14 a runner that lists failures alone: 1 passing", parser: "eslint", evalType: "fail_only", f2p: []string{"rule works"}, p2p: []string{},
			noReader: true, ran: exit(1), stream: "  1 passing\n", log: sweLog("", "  1 passing\n", "1")},
		{name: "F14 the same with a parser that lists files", parser: "carbon", evalType: "fail_only", f2p: []string{"src/a-test.js"}, p2p: []string{},
			ran: exit(1), stream: "1 passing\n", log: sweLog("", "1 passing\n", "1")},
		{name: "F15 every test that passed before is skipped", parser: "gotest", f2p: []string{"TestNew"}, p2p: []string{"TestOld"}, ran: exit(0),
			stream: "--- PASS: TestNew (0.00s)\n--- SKIP: TestOld (0.00s)\nok  \ta/b\t0.01s\n",
			log:    sweLog("", "--- PASS: TestNew (0.00s)\n--- SKIP: TestOld (0.00s)\nok  \ta/b\t0.01s\n", "0")},
		{name: "F16 writes the ending and hangs", ran: checks.Ran{Exit: -1, Signal: syscall.SIGKILL, TimedOut: true},
			stream: "PASSED test_a.py::test_new\nPASSED test_a.py::test_old\n>>>>> End Test Output\n>>>>> Test Exit Code: 0\n",
			log:    sweStart + "PASSED test_a.py::test_new\nPASSED test_a.py::test_old\n>>>>> End Test Output\n>>>>> Test Exit Code: 0\n"},

		// Nobody lies here, and SWE-bench is wrong all the same.
		{name: "A1 a line of source in a traceback begins with ok", parser: "django", f2p: []string{"test_new (a.T)"}, p2p: []string{"test_old (a.T)"}, ran: exit(1),
			stream: strings.Replace(django, "AssertionError", "    ok = int(\"nope\")\nAssertionError", 1), log: sweLog("", strings.Replace(django, "AssertionError", "    ok = int(\"nope\")\nAssertionError", 1), "1")},
		{name: "A2 passed, and an error while it was torn down", parser: "pytest_v2", ran: exit(1),
			stream: strings.Replace(strings.Replace(pytestGreen, "=====\nPASSED", "=====\nERROR test_a.py::test_new - ValueError: x\nPASSED", 1), "2 passed", "2 passed, 1 error", 1),
			log:    sweLog("", strings.Replace(pytestGreen, "=====\nPASSED", "=====\nERROR test_a.py::test_new - ValueError: x\nPASSED", 1), "1")},
		{name: "A3 namesakes in two Go packages", parser: "gotest", f2p: []string{"TestNew"}, p2p: []string{}, ran: exit(1),
			stream: "--- FAIL: TestNew (0.00s)\nFAIL\nFAIL\ta\t0.01s\n--- PASS: TestNew (0.00s)\n--- FAIL: TestOther (0.00s)\nFAIL\tb\t0.01s\n",
			log:    sweLog("", "--- FAIL: TestNew (0.00s)\nFAIL\nFAIL\ta\t0.01s\n--- PASS: TestNew (0.00s)\n--- FAIL: TestOther (0.00s)\nFAIL\tb\t0.01s\n", "1")},
		{name: "A4 failed, and passed when it was run again", ran: exit(0), stream: pytestFailed + pytestGreen, log: sweLog("", pytestFailed+pytestGreen, "0")},
		{name: "A5 a test that is not there any more, of a runner that lists failures", parser: "carbon", evalType: "fail_only", f2p: []string{"src/gone-test.js"},
			p2p: []string{}, ran: exit(0), stream: "PASS src/a-test.js\nTests:       1 passed, 1 total\n", log: sweLog("", "PASS src/a-test.js\nTests:       1 passed, 1 total\n", "0")},
	}
	for i := range all {
		all[i] = lists(all[i])
	}
	return all
}

// TestForgedLogs: none of them is resolved here, neither from what the command
// printed nor from the whole log. Where the text is whole and consistent no
// reader can tell: the verdict says that it is self-reported, and a canary run
// of the same code, in which the same lies pass, makes it void.
func TestForgedLogs(t *testing.T) {
	for _, f := range forgeries() {
		t.Run(f.name, func(t *testing.T) {
			format, ok := report.ParityOf("parse_log_"+f.parser, "")
			if f.noReader {
				if ok {
					t.Fatalf("%s has a reader", f.parser)
				}
				return
			}
			if !ok {
				t.Fatalf("%s has no reader", f.parser)
			}
			v := ours(format, f.stream, f.ran, f.f2p, f.p2p)
			if f.consistent {
				if !resolves(v) || v.Evidence != trial.SelfReported {
					t.Errorf("resolved %v, void %q, evidence %v: the text is consistent", v.Resolved, v.Void, v.Evidence)
				}
				canaried(t, format, f)
				return
			}
			if resolves(v) {
				t.Errorf("resolved: %+v", v)
			}
			if v := ours(format, f.log, f.ran, f.f2p, f.p2p); resolves(v) {
				t.Errorf("the whole log is resolved: %+v", v)
			}
		})
	}
}

// canaried grades with a canary run that lies alike.
func canaried(t *testing.T, format report.Format, f forgery) {
	r, err := report.Read(format, []report.Source{{Name: "stdout", Data: []byte(f.stream)}}, f.ran.Exit)
	if err != nil {
		t.Fatal(err)
	}
	ran := f.ran
	ran.Name, ran.Report = "tests", r
	plan := &checks.Plan{Version: 1, Commands: []checks.Command{{Name: "tests", Run: "true", Report: format, FailToPass: f.f2p, PassToPass: f.p2p,
		Canaries: []checks.Canary{{File: "test_a.py", Old: "== 2", New: "== 3", Breaks: f.f2p}}}}}
	v := checks.Judge(plan, checks.Observation{Attempted: true, Changed: []string{"/app/a.py"}, Commands: []checks.Ran{ran},
		Canary: []checks.Ran{ran}, Planted: map[string][]int{"tests": {0}}})
	if v.Void == "" || v.Outcome != trial.Inconclusive {
		t.Errorf("a canary passed, and the verdict is %v, void %q", v.Outcome, v.Void)
	}
}

// TestForgedLogsBySWEBench: SWE-bench's own function resolves each of them, so
// that the fixtures above bite.
func TestForgedLogsBySWEBench(t *testing.T) {
	python := swePython(t)
	var groups []sweGroup
	for _, f := range forgeries() {
		groups = append(groups, sweGroup{Parser: "parse_log_" + f.parser, EvalType: f.evalType, FailToPass: f.f2p, PassToPass: f.p2p, Logs: []string{f.log}})
	}
	for i, a := range askSWEBench(t, python, groups) {
		if f := forgeries()[i]; !a.Cases[0].Resolved {
			t.Errorf("%s: SWE-bench does not resolve it: %+v", f.name, a.Cases[0])
		}
	}
	t.Logf("SWE-bench 5.0.2 resolves %d forged or accidental logs; none is resolved here but those that canaries tell", len(groups))
}
