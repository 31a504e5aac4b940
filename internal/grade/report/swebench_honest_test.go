package report_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// honestLog is what a real runner printed, or a text as one prints it, of one
// state of the product.
type honestLog struct {
	family, option, state string
	parsers               []string
	log                   string
	exit                  int
}

// honestStates are how far the product of testdata/swebench is: SHOP_STATE.
var honestStates = []string{"gold", "base", "partial", "regress", "skip"}

// family is a small suite under a runner, with the ways in which it is run.
type family struct {
	name    string
	parsers []string
	needs   string // the program
	dir     string
	extra   []string // further states
	options [][]string
	command func(option []string) []string
}

func honestFamilies(python string) []family {
	words := func(lines ...string) (all [][]string) {
		for _, l := range lines {
			all = append(all, strings.Fields(l))
		}
		return all
	}
	return []family{
		{name: "pytest", parsers: []string{"pytest", "pytest_options", "pytest_v2", "matplotlib"}, needs: python, dir: "pytest", extra: []string{"broken", "teardown"},
			options: words("-rA", "-rA -v", "-rA -vv", "-rA -q", "-rA -s", "-rA --color=yes", "-rA --tb=no", "-rA --tb=short", "-rA --tb=line",
				"-rA --no-header", "-rA -x", "-rA --durations=2", "-rA -k new", "-rA -p no:logging", "-rA test_known.py"),
			command: func(o []string) []string {
				return append([]string{python, "-m", "pytest", "-p", "no:cacheprovider", "test_core.py"}, o...)
			}},
		{name: "unittest", parsers: []string{"django"}, needs: python, dir: "unittest", extra: []string{"broken"},
			options: words("-v", "-v -b", "-v --locals", "-v -f", "-v -k new"),
			command: func(o []string) []string { return append([]string{python, "-m", "unittest"}, o...) }},
		{name: "django", parsers: []string{"django"}, needs: python, dir: "django", extra: []string{"broken"},
			options: words("-v 2", "-v 2 --parallel 1 --debug-sql", "-v 3"),
			command: func(o []string) []string {
				return append([]string{python, "-m", "django", "test", "--settings=settings"}, o...)
			}},
		{name: "gotest", parsers: []string{"gotest"}, needs: "go", dir: "go", extra: []string{"crash", "skipold"},
			options: words("-v", "-v -short", "-v -shuffle=1", "-v -parallel=1", "-v -run=New", "-v -failfast"),
			command: func(o []string) []string {
				return append(append([]string{"go", "test", "-count=1"}, o...), "./...")
			}},
		{name: "cargo", parsers: []string{"cargo"}, needs: "cargo", dir: "cargo",
			options: words("--no-fail-fast", "--lib", "--tests --no-fail-fast", "--no-fail-fast -- --test-threads=1", "--lib -- --include-ignored"),
			command: func(o []string) []string { return append([]string{"cargo", "test", "--offline"}, o...) }},
		{name: "tap", parsers: []string{"tap"}, needs: "node", dir: "node",
			options: words("--test-reporter=tap", "--test-reporter=tap --test-name-pattern=new"),
			command: func(o []string) []string { return append(append([]string{"node", "--test"}, o...), ".") }},
	}
}

// runHonest runs a family in every state and way.
func runHonest(t *testing.T, f family) (logs []honestLog) {
	t.Helper()
	if _, err := exec.LookPath(f.needs); err != nil {
		t.Logf("no %s: its logs are left out", f.needs)
		return nil
	}
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "swebench", f.dir))); err != nil {
		t.Fatal(err)
	}
	for _, state := range append(slices.Clone(honestStates), f.extra...) {
		for _, o := range f.options {
			args := f.command(o)
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "SHOP_STATE="+state, "PYTHONDONTWRITEBYTECODE=1", "GOFLAGS=-buildvcs=false", "RUST_BACKTRACE=0", "CARGO_TERM_COLOR=never")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatalf("%s: %v", args, err)
			}
			logs = append(logs, honestLog{f.name, strings.Join(o, " "), state, f.parsers, string(out), cmd.ProcessState.ExitCode()})
		}
	}
	return logs
}

// written are logs as the runners that are not here print them, by the sign of
// each status; SWE-bench's parsers read nothing else of them.
func written() (logs []honestLog) {
	names := []string{"adds", "is new", "is newer: ä, (x)", "of it", "skips"}
	for _, r := range []struct {
		parser           string
		before, after    string
		pass, fail, skip string
		red              string // last line where something failed
	}{
		{"jest", "PASS src/a.test.js\n  a group\n", "\nTests:       5 total\n", "    ✓ %s (2 ms)\n", "    ✕ %s (12 ms)\n", "    ○ %s\n", ""},
		{"jest_json", "", "", "[PASSED] %s\n", "[FAILED] %s\n", "[PENDING] %s\n", ""},
		{"vitest", " RUN  v1.6.0 /app\n", "", " ✓ src/a.test.ts > %s 2ms\n", " × src/a.test.ts > %s 3ms\n", " ↓ src/a.test.ts > %s [skipped]\n", ""},
		{"karma", "Starting browser Chrome\n\n  a group\n", "\nSUMMARY:\n✔ 4 tests completed\n", "    ✔ %s\n", "    ✖ %s\n", "    ℹ %s (skipped)\n", ""},
		{"carbon", "", "Tests: 5 total\n", "PASS %s (1.2 s)\n", "FAIL %s (5.012s)\n", "SKIP %s\n", ""},
		{"grommet", "", "Tests: 5 total\n", "PASS %s (1.2 s)\n", "FAIL %s\n", "SKIP %s\n", ""},
		{"ant", "", "", "    [junit] [PASS] %s\n", "    [junit] [FAIL] %s\n", "    [junit] [SKIP] %s\n", "BUILD FAILED\n"},
		{"gradle_custom", "> Task :test\n", "", "com.example.Test > %s PASSED\n", "com.example.Test > %s FAILED\n", "com.example.Test > %s SKIPPED\n", "BUILD FAILED in 3s\n"},
		{"phpunit", "Shop (Tests\\Shop)\n", "", " ✔ %s\n", " ✘ %s\n", " ↩ %s\n", "FAILURES!\n"},
		{"minitest", "", "", "TestShop#test_%s. = 0.01 s = .\n", "TestShop#test_%s. = 0.01 s = F\n", "TestShop#test_%s. = 0.01 s = S\n", ""},
		{"cucumber", "", "", "features/%s.feature ....\n", "features/%s.feature ..F\n", "features/%s.feature ---\n", ""},
		{"ruby_unit", "", "", "  test: %s:\t.: (0.001)\n", "  test: %s:\tF\n", "  test: %s:\tO\n", ""},
		{"rspec_transformed_json", "", "", "%s - passed\n", "%s - failed\n", "%s - pending\n", ""},
		{"redis", "Testing unit/shop\n", "", "[ok]: %s (12 ms)\n", "[err]: %s in tests/unit/shop.tcl\n", "[skip]: %s\n", ""},
		{"jq", "", "", "PASS: %s\n", "FAIL: %s\n", "SKIP: %s\n", ""},
		{"micropython_test", "", "", "pass  basics/%s.py\n", "FAIL  basics/%s.py\n", "skip  basics/%s.py\n", ""},
		{"googletest", "[==========] Running 5 tests\n", "", "[       OK ] Shop.%s (0 ms)\n", "[  FAILED  ] Shop.%s (1 ms)\n", "[  SKIPPED ] Shop.%s (0 ms)\n", ""},
		{"maven", "", "", "+ mvn test -Dtest=%s\n[INFO] BUILD SUCCESS\n", "+ mvn test -Dtest=%s\n[INFO] BUILD FAILURE\n", "", ""},
		{"doctest", "", "", "", "", "", ""},
	} {
		for _, state := range honestStates {
			logs = append(logs, honestLog{r.parser, "written", state, []string{r.parser}, "", 0})
			l := &logs[len(logs)-1]
			var b strings.Builder
			b.WriteString(r.before)
			for i, name := range names {
				word := [][5]string{{"pass", "pass", "pass", "pass", "skip"}, {"pass", "fail", "fail", "pass", "skip"}, {"pass", "fail", "pass", "pass", "skip"},
					{"fail", "pass", "pass", "pass", "skip"}, {"pass", "skip", "pass", "pass", "skip"}}[slices.Index(honestStates, state)][i]
				form := map[string]string{"pass": r.pass, "fail": r.fail, "skip": r.skip}[word]
				if r.parser == "maven" {
					name = strings.ReplaceAll(name, " ", "_")
				}
				if r.parser == "doctest" {
					form = fmt.Sprintf("  <TestCase name=\"shop\"><SubCase name=\"%%s\"><Expression success=\"%v\"/></SubCase></TestCase>\n", word == "pass")
				}
				if word == "fail" || r.parser == "doctest" && word == "skip" {
					l.exit = 1
				}
				if form != "" {
					fmt.Fprintf(&b, form, name)
				}
			}
			b.WriteString(r.after)
			if l.exit != 0 {
				b.WriteString(r.red)
			}
			if l.log = b.String(); r.parser == "doctest" {
				l.log = "[doctest] run\n<doctest binary=\"shop\">\n" + l.log + "</doctest>\n"
			}
		}
	}
	return logs
}

// difference names why an honest log is judged otherwise here, or an id's
// status is another; empty: nothing explains it.
type difference string

const (
	sameJudgement  difference = "same"
	worseWins      difference = "two results for one id: SWE-bench takes the last, we the worse"
	expectedSkip   difference = "a pass-to-pass test that is skipped is fine for SWE-bench"
	expectedXFail  difference = "an expected failure is a pass for SWE-bench"
	notReported    difference = "an id that only the reader here files (pytest_v2: an error at tear-down)"
	swebenchRaises difference = "SWE-bench's parser raises"
)

var honestDifferences = []difference{sameJudgement, worseWins, expectedSkip, expectedXFail, notReported, swebenchRaises}

// explainResolved says why the verdicts differ.
func explainResolved(v checks.Verdict, r *report.Report, swe map[string]string, p2p []string) difference {
	if v.Void != "" {
		return "" // an honest log is never void
	}
	dup := map[string]bool{}
	for _, f := range r.Flags {
		if f.Kind == report.FlagDuplicate {
			dup[f.ID] = true
		}
	}
	for _, failed := range []map[string]string{v.FailToPass.Failed, v.PassToPass.Failed} {
		for global, status := range failed {
			id := strings.TrimPrefix(global, "tests:")
			switch {
			case status == "xfailed":
				return expectedXFail
			case status == "skipped" && slices.Contains(p2p, id):
				return expectedSkip
			case dup[id]:
				return worseWins
			}
		}
	}
	return ""
}

// explainStatus says why an id has another status here.
func explainStatus(id, swe string, r *report.Report, parser string) difference {
	for _, t := range r.Tests {
		if t.ID != id {
			continue
		}
		for _, f := range r.Flags {
			if f.Kind == report.FlagDuplicate && f.ID == id {
				return worseWins
			}
		}
		if swe == "" && parser == "pytest_v2" && t.Status == report.Errored {
			return notReported
		}
	}
	return ""
}

var sweWords = map[string]report.Status{"PASSED": report.Passed, "FAILED": report.Failed, "ERROR": report.Errored, "SKIPPED": report.Skipped, "XFAIL": report.XFailed}

// TestHonestLogsLikeSWEBench: over at least 200 logs of runs in which nobody
// lies, each id's status and each verdict are SWE-bench's, or differ for a
// reason of the table above.
func TestHonestLogsLikeSWEBench(t *testing.T) {
	python := swePython(t)
	logs := written()
	for _, f := range honestFamilies(python) {
		logs = append(logs, runHonest(t, f)...)
	}
	if len(logs) < 200 {
		t.Errorf("%d logs; the runners of this machine must make 200", len(logs))
	}
	type key struct{ family, option, parser string }
	byKey := map[key][]honestLog{}
	var order []key
	for _, l := range logs {
		for _, p := range l.parsers {
			k := key{l.family, l.option, p}
			if byKey[k] == nil {
				order = append(order, k)
			}
			byKey[k] = append(byKey[k], l)
		}
	}
	var groups []sweGroup
	for _, k := range order {
		g := sweGroup{Parser: "parse_log_" + k.parser}
		for _, l := range byKey[k] {
			g.Logs = append(g.Logs, sweLog("", l.log, fmt.Sprint(l.exit)))
		}
		g.Gold, g.Base = g.Logs[0], g.Logs[1]
		groups = append(groups, g)
	}
	statuses, verdicts := map[difference]int{}, map[difference]int{}
	for i, a := range askSWEBench(t, python, groups) {
		k := order[i]
		for j, l := range byKey[k] {
			name := fmt.Sprintf("%s %q %s as %s", l.family, l.option, l.state, k.parser)
			compareHonest(t, name, k.parser, l, a, j, statuses, verdicts)
		}
	}
	t.Logf("%d logs, %d gradings", len(logs), verdicts[sameJudgement]+total(verdicts))
	for _, d := range honestDifferences {
		t.Logf("%6d statuses, %4d verdicts: %s", statuses[d], verdicts[d], d)
	}
	for d := range statuses {
		if !slices.Contains(honestDifferences, d) {
			t.Errorf("%d statuses: %q", statuses[d], d)
		}
	}
}

func total(m map[difference]int) (n int) {
	for d, c := range m {
		if d != sameJudgement {
			n += c
		}
	}
	return n
}

func compareHonest(t *testing.T, name, parser string, l honestLog, a sweAnswer, j int, statuses, verdicts map[difference]int) {
	t.Helper()
	format, ok := report.ParityOf("parse_log_"+parser, "")
	if !ok {
		t.Fatalf("no reader for %s", parser)
	}
	swe := a.Cases[j]
	r, err := report.Read(format, []report.Source{{Name: "stdout", Data: []byte(l.log)}}, l.exit)
	if err != nil {
		if swe.Error != "" {
			verdicts[swebenchRaises]++
			return
		}
		t.Errorf("%s: %v", name, err)
		return
	}
	mine := map[string]report.Status{}
	for _, test := range r.Tests {
		mine[test.ID] = test.Status
	}
	if swe.Graded {
		for _, id := range slices.Sorted(maps.Keys(union(mine, swe.Status))) {
			want, known := sweWords[swe.Status[id]]
			if swe.Status[id] != "" && !known {
				want = report.Unknown
			}
			if mine[id] == want {
				statuses[sameJudgement]++
				continue
			}
			why := explainStatus(id, swe.Status[id], r, parser)
			if statuses[why]++; why == "" {
				t.Errorf("%s: %q is %q here and %q there", name, id, mine[id], swe.Status[id])
			}
		}
	}
	v := ours(format, l.log, checks.Ran{Exit: l.exit}, a.FailToPass, a.PassToPass)
	if len(a.FailToPass)+len(a.PassToPass) == 0 || resolves(v) == swe.Resolved {
		verdicts[sameJudgement]++
		return
	}
	why := explainResolved(v, r, swe.Status, a.PassToPass)
	if verdicts[why]++; why == "" || resolves(v) {
		t.Errorf("%s: resolved %v here (void %q, f2p %v, p2p %v), %v there", name, v.Resolved, v.Void, v.FailToPass.Failed, v.PassToPass.Failed, swe.Resolved)
	} else {
		t.Logf("%s: %s %s", name, why, v.Void)
	}
}

func union(a map[string]report.Status, b map[string]string) map[string]bool {
	m := map[string]bool{}
	for k := range a {
		m[k] = true
	}
	for k := range b {
		m[k] = true
	}
	return m
}
