package grade

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/task"
	"assay/trial"
)

// suite is a test runner in three lines of shell: it compares a file of the
// work with what the test files expect, and reports as pytest does. The paths
// hold on every backend of the tests.
const suite = `T() { if [ "$(cat "$1" 2>/dev/null)" = "$(cat "$2")" ]; then p="$p<testcase classname=\"t\" name=\"$3\" time=\"0\"/>"; else f=$((f+1)); p="$p<testcase classname=\"t\" name=\"$3\" time=\"0\"><failure message=\"AssertionError: no\">no</failure></testcase>"; fi; n=$((n+1)); }
f=0 n=0 p=
T main.txt "$R/tests/want/main" main
T kept.txt "$R/tests/want/kept" kept
mkdir -p "$R/logs/verifier"
printf '<testsuites><testsuite name="pytest" errors="0" failures="%s" skipped="0" tests="%s" time="0.1">%s</testsuite></testsuites>' $f $n "$p" >"$R/logs/verifier/report.xml"
[ $f = 0 ]
`

const suitePlan = `version = 1
protected = ["conf"]
forbidden = ["*.lock", "/etc/**"]

[[commands]]
name = "unit"
run = '. "$R/tests/suite.sh"'
report = "pytest"
files = ["/logs/verifier/report.xml"]
fail_to_pass = ["t::main"]
pass_to_pass = ["t::kept"]

[[commands.canaries]]
file = "want/main"
old = "new"
new = "newer"
breaks = ["t::main"]

[[commands.canaries]]
file = "want/kept"
old = "kept"
new = "lost"
breaks = ["t::kept"]
`

// planned is a request that is graded by a plan.
func (w *world) planned(end EndState, plan string, more ...content) Request {
	w.t.Helper()
	r := w.request(end, "exit 9", append(more, file("checks.toml", plan), file("suite.sh", suite), file("want/main", "new\n"), file("want/kept", "kept\n"))...)
	r.Trial, r.Attempted = "trial-1", true
	return r
}

// /tests is closed to the work's user where the assertions' is root throughout.
func TestTestsAreClosed(t *testing.T) {
	root, other := checks.Command{Separate: true, User: "0:0"}, checks.Command{User: "app"}
	for _, c := range []struct {
		commands []checks.Command
		user     string
		want     int64
	}{
		{[]checks.Command{{}}, "", 0o755},
		{[]checks.Command{root}, "", 0o700},
		{[]checks.Command{root}, "app", 0o700},
		{[]checks.Command{{Separate: true}}, "app", 0o755},
		{[]checks.Command{root, other}, "", 0o755},
	} {
		r := Request{}
		r.Key.User = c.user
		if got := (&placer{r: r, plan: &checks.Plan{Commands: c.commands}}).mode(); got != c.want {
			t.Errorf("%+v as %q: %o, want %o", c.commands, c.user, got, c.want)
		}
	}
}

func (w *world) planImage() {
	w.img = w.image(file("etc/app.conf", "broken\n"), file("app/main.txt", "old\n"), file("app/kept.txt", "kept\n"), file("app/conf/a", "a\n"), file("app/x.lock", "1\n"))
}

// judged grades and checks the cause.
func (w *world) judged(r Request, cause trial.Cause, ev trial.Evidence) Verdict {
	w.t.Helper()
	v, err := Grade(w.t.Context(), r)
	if err != nil {
		w.t.Fatalf("grade: %v (so far %+v)", err, v)
	}
	if v.Cause != cause || v.Evidence != ev {
		w.t.Errorf("%s (%s), %s; want %s, %s; notes %q\n%s\n%s", v.Cause, v.Detail, v.Evidence, cause, ev, v.Notes, onHost(w.t, r, TestStdout), onHost(w.t, r, EvidenceFile))
	}
	want := "0"
	if cause == trial.CauseSolved {
		want = "1"
	}
	if v.Rewards["reward"].String() != want || len(v.Rewards) != 1 || v.Checks == nil {
		w.t.Fatalf("rewards %v, checks %+v", v.Rewards, v.Checks)
	}
	return v
}

func TestPlan(t *testing.T) {
	cases := []struct {
		name, work string
		kind       task.GradeKind
		cause      trial.Cause
		f2p, p2p   int
	}{
		{"solved", `echo new >main.txt`, task.GradePatch, trial.CauseSolved, 1, 1},
		{"solved, state", `echo new >main.txt`, task.GradeState, trial.CauseSolved, 1, 1},
		{"nothing", `:`, task.GradePatch, trial.CauseEmptyPatch, 0, 1},
		{"outside alone", `echo x >"$R/etc/other"`, task.GradePatch, trial.CauseForbiddenChange, 0, 1},
		{"wrong", `echo bad >main.txt`, task.GradePatch, trial.CauseTestMismatch, 0, 1},
		{"breaks another", `echo new >main.txt; rm kept.txt`, task.GradePatch, trial.CauseRegression, 1, 0},
		{"forbidden", `echo new >main.txt; echo 2 >x.lock`, task.GradeState, trial.CauseForbiddenChange, 1, 1},
		{"protected is put back", `echo new >main.txt; echo b >conf/a; echo c >conf/c`, task.GradeState, trial.CauseSolved, 1, 1},
		{"tests are the grader's", `mkdir -p "$R/tests/want"; echo old >"$R/tests/want/main"`, task.GradeState, trial.CauseEmptyPatch, 0, 1},
	}
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				w := w.of(t)
				r := w.planned(w.agent(c.work), suitePlan)
				r.Key.Grade = c.kind
				v := w.judged(r, c.cause, trial.Canaried)
				if v.Checks.FailToPass != (trial.Share{Passed: c.f2p, Total: 1}) || v.Checks.PassToPass != (trial.Share{Passed: c.p2p, Total: 1}) {
					t.Errorf("%+v", v.Checks)
				}
			})
		}
	})
}

// A second grading of the same work says the same, byte for byte.
func TestPlanAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		r := w.planned(w.agent(`echo new >main.txt`), suitePlan)
		w.judged(r, trial.CauseSolved, trial.Canaried)
		first := onHost(t, r, VerdictFile)
		r.Out = image.HostPath(filepath.Join(t.TempDir(), "verifier"))
		w.judged(r, trial.CauseSolved, trial.Canaried)
		if again := onHost(t, r, VerdictFile); again != first || first == "" {
			t.Errorf("%s\n%s", first, again)
		}
	})
}

// A report that lies there before its command runs counts for nothing, and
// neither does one behind a link.
func TestStaleReport(t *testing.T) {
	forged := `<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="0" tests="2" time="0.1"><testcase classname="t" name="main" time="0"/><testcase classname="t" name="kept" time="0"/></testsuite></testsuites>`
	for name, c := range map[string]struct{ files, work string }{
		"file":             {"out/report.xml", `mkdir out; printf '%s' "$F" >out/report.xml`},
		"pattern":          {"out/*/*.xml", `mkdir -p out/a; printf '%s' "$F" >out/a/b.xml`},
		"any depth":        {"**/report.xml", `mkdir -p a/b; printf '%s' "$F" >a/b/report.xml`},
		"link":             {"out/report.xml", `mkdir out; printf '%s' "$F" >f.xml; ln -s ../f.xml out/report.xml`},
		"linked directory": {"out/report.xml", `mkdir o; printf '%s' "$F" >o/report.xml; ln -s o out`},
		"linked pattern":   {"out/*.xml", `mkdir o; printf '%s' "$F" >o/report.xml; ln -s o out`},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				w.planImage()
				plan := strings.Replace(suitePlan, "/logs/verifier/report.xml", c.files, 1)
				plan = strings.Replace(plan, `run = '. "$R/tests/suite.sh"'`, `run = "exit 1"`, 1)
				r := w.planned(w.agent("F='"+forged+"'; "+c.work), plan)
				v := w.judged(r, trial.CauseMissingTest, trial.Canaried)
				if v.Checks.FailToPass.Passed != 0 {
					t.Errorf("%+v", v.Checks)
				}
			})
		})
	}
}

// What forges outcomes forges the canaries' too, and what changes the grader's
// files shows.
func TestForged(t *testing.T) {
	forger := `printf '<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="0" tests="2" time="0.1"><testcase classname="t" name="main" time="0"/><testcase classname="t" name="kept" time="0"/></testsuite></testsuites>' >"$R/logs/verifier/report.xml"; exit 0`
	for _, c := range []struct {
		name, work string
		held       bool // where the grader's files are read-only it does not come to that
	}{
		{"report", forger, false},
		{"test file", `echo old >"$R/tests/want/main"; . "$R/tests/suite.sh"`, true},
		{"test removed", `rm "$R/tests/want/main"; echo old >"$R/tests/want/main"; . "$R/tests/suite.sh"`, true},
		{"tests moved", `mv "$R/tests" "$R/gone" && cp -r "$R/gone" "$R/tests"; echo old >"$R/tests/want/main"; . "$R/tests/suite.sh"`, true},
		{"protected", `echo b >conf/a; . "$R/tests/suite.sh"`, true},
		{"protected removed", `rm -r conf; . "$R/tests/suite.sh"`, true},
		{"protected moved", `mv conf gone; mkdir conf; echo b >conf/a; . "$R/tests/suite.sh"`, true},
		{"cut", `printf '<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="0" tests="2" time="0.1"><testcase classname="t" name="main"' >"$R/logs/verifier/report.xml"; exit 0`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				w.planImage()
				plan := strings.Replace(suitePlan, `run = '. "$R/tests/suite.sh"'`, `run = ". ./run.sh"`, 1)
				r := w.planned(w.agent("cat >run.sh <<'END'\n"+c.work+"\nEND\n"), plan)
				if c.held && w.spy.Capabilities().ReadOnly {
					w.judged(r, trial.CauseTestMismatch, trial.Canaried)
					return
				}
				v := w.judged(r, trial.CauseVoid, trial.Canaried)
				if v.Checks.Void == "" || v.Checks.Resolved {
					t.Errorf("%+v", v.Checks)
				}
			})
		})
	}
}

// Caches beside the tests are no tampering, statuses are kept outside, and
// every command has a log.
func TestPlanCommands(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		r := w.planned(w.agent(`echo new >main.txt`), `version = 1
[place]
repo = "."
[[commands]]
name = "first"
run = 'mkdir -p sub/__pycache__; echo x >sub/__pycache__/y; cat sub/placed; echo loud >&2'
[[commands]]
name = "second"
run = "exit 3"
pass_to_pass = ["second"]
[[commands]]
name = "third"
args = ["/no/such/program"]
[[commands]]
name = "slow"
run = "sleep 1000"
timeout_sec = 0.2
[[state]]
name = "placed"
path = "sub/placed"
type = "file"
equals = "p\n"
[[state]]
name = "says"
run = "cat main.txt"
equals = "new"
[[state]]
name = "gone"
path = "nothing"
absent = true
[[state]]
name = "wrong"
path = "main.txt"
mode = "0600"
`, file("repo/sub/placed", "p\n"))
		v := w.judged(r, trial.CauseCheckTimeout, trial.SelfReported)
		if v.Checks.FailToPass != (trial.Share{Passed: 4, Total: 7}) || v.Checks.PassToPass != (trial.Share{Total: 1}) {
			t.Errorf("%+v\n%s", v.Checks, onHost(t, r, VerdictFile))
		}
		if got := onHost(t, r, "first.log"); len(got) != 7 || !strings.Contains(got, "p\n") || !strings.Contains(got, "loud\n") {
			t.Errorf("first.log: %q", got)
		}
		if got := onHost(t, r, TestStdout); !strings.Contains(got, "loud\n") || !strings.Contains(got, "[second]\n") {
			t.Errorf("%q", got)
		}
		if _, err := os.Stat(filepath.Join(string(r.Out), "slow.log")); err != nil {
			t.Error(err)
		}
	})
}

func TestPlanFaults(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		for name, c := range map[string][2]string{
			"unknown key":      {"version = 1\nnope = 2\n", "checks.toml:2"},
			"canary's text":    {strings.Replace(suitePlan, `old = "new"`, `old = "absent"`, 1), "absent"},
			"place of nothing": {suitePlan + "[place]\nnone = \".\"\n", "none"},
			"everything":       {strings.Replace(suitePlan, `["conf"]`, `["/"]`, 1), "/"},
			"no such list":     {strings.Replace(suitePlan, `name = "unit"`, "name = \"unit\"\nfail_to_pass_file = \"no.txt\"", 1), "no.txt"},
		} {
			t.Run(name, func(t *testing.T) {
				r := w.planned(EndState{}, c[0])
				v, err := Grade(t.Context(), r)
				if err != nil || v.Cause != trial.CauseTaskMalformed || !strings.Contains(v.Detail, c[1]) || v.Rewards != nil {
					t.Errorf("%v, %+v", err, v)
				}
			})
		}
	})
}

// What only the grader needs never comes into a sandbox.
func TestPlanStaysHome(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		plan := strings.Replace(suitePlan, `run = '. "$R/tests/suite.sh"'`, "run = '''[ \"$(ls -A \"$R/tests\" | tr '\\n' ' ')\" = 'suite.sh want ' ] && . \"$R/tests/suite.sh\"'''\npass_to_pass_file = \"ids.txt\"", 1)
		plan = strings.Replace(plan, `pass_to_pass = ["t::kept"]`, "", 1)
		r := w.planned(w.agent(`echo new >main.txt`), plan, file("ids.txt", "t::kept\n"))
		w.judged(r, trial.CauseSolved, trial.Canaried)
	})
}

// What is planted: canaries of fail-to-pass tests alone where there are any, never
// of all of them where there are several, and in a second round the others; those
// of other tests stand in a run of their own. A second grading draws the same.
func TestDraw(t *testing.T) {
	three := checks.Command{Name: "three", Report: "pytest", FailToPass: []string{"a", "b", "c"}, PassToPass: []string{"d"},
		Canaries: []checks.Canary{{Breaks: []string{"a"}}, {Breaks: []string{"b", "c"}}, {Breaks: []string{"d"}}, {Breaks: []string{"c", "d"}}}}
	one := checks.Command{Name: "one", Report: "pytest", FailToPass: []string{"a"}, PassToPass: []string{"d"}, Canaries: []checks.Canary{{Breaks: []string{"d"}}, {Breaks: []string{"a"}}}}
	two := checks.Command{Name: "two", Report: "pytest", FailToPass: []string{"a"}, Canaries: []checks.Canary{{Breaks: []string{"a"}}}}
	kept := checks.Command{Name: "kept", Report: "pytest", PassToPass: []string{"a", "d"}, Canaries: []checks.Canary{{Breaks: []string{"d"}}, {Breaks: []string{"a"}}}}
	none := checks.Command{Name: "none", Report: "pytest", PassToPass: []string{"a"}}
	for _, c := range []struct {
		name          string
		commands      []checks.Command
		first, second []string // what may be planted
		guards        []string // any of these, each sometimes
	}{
		{"several", []checks.Command{three, none}, []string{"[[0] []]", "[[1] []]", "[[3] []]", "[[0 3] []]", "[[1 3] []]"}, []string{"[[0] []]", "[[1 3] []]", "[[0 3] []]", "[[0 1] []]", "[[1] []]"}, []string{"[[2] []]"}},
		{"one alone", []checks.Command{one}, []string{"[[1]]"}, []string{"[[1]]"}, []string{"[[0]]"}},
		{"one of each command", []checks.Command{one, two}, []string{"[[1] []]", "[[] [0]]"}, []string{"[[1] []]", "[[] [0]]"}, []string{"[[0] []]"}},
		{"beside what passed before", []checks.Command{two, kept}, []string{"[[0] []]"}, []string{"[[0] []]"}, []string{"[[] [0]]", "[[] [1]]", "[[] [0 1]]"}},
		{"none that failed before", []checks.Command{kept}, []string{"[[0]]", "[[1]]", "[[0 1]]"}, []string{"[[0]]", "[[1]]", "[[0 1]]"}, nil},
	} {
		p := &checks.Plan{Commands: c.commands}
		canaryFirst := 0
		seen := map[string]int{}
		spell := func(of [][]int) string {
			for i := range of {
				slices.Sort(of[i])
			}
			return fmt.Sprint(of)
		}
		for i := range 200 {
			r := Request{Trial: string(rune('a' + i))}
			d := r.draws(p)
			if d.canaryFirst() {
				canaryFirst++
			}
			got := spell(d.planted(p))
			if again := spell(r.draws(p).planted(p)); got != again || d.guards(p) != nil {
				t.Errorf("%s: %s, then %s", c.name, got, again)
			}
			d.round = 1
			second := spell(d.planted(p))
			if !slices.Contains(c.first, got) || !slices.Contains(c.second, second) {
				t.Errorf("%s: %s, then %s", c.name, got, second)
			}
			if c.name == "one of each command" && got == second {
				t.Errorf("%s: %s twice", c.name, got)
			}
			guards := "none"
			if g := d.guards(p); g != nil {
				guards = spell(g)
			}
			if len(c.guards) > 0 != slices.Contains(c.guards, guards) {
				t.Errorf("%s: guards %s", c.name, guards)
			}
			seen["first "+got]++
			seen["guards "+guards]++
		}
		for _, f := range c.first {
			if seen["first "+f] < 10 {
				t.Errorf("%s: %s in %d of 200", c.name, f, seen["first "+f])
			}
		}
		for _, g := range c.guards {
			if seen["guards "+g] < 10 {
				t.Errorf("%s: guards %s in %d of 200", c.name, g, seen["guards "+g])
			}
		}
		if canaryFirst < 60 || canaryFirst > 140 {
			t.Errorf("%s: canaries first in %d of 200", c.name, canaryFirst)
		}
	}
}

// Cases are tried where nothing of the grader's is, each in a fresh state.
func TestPlanCases(t *testing.T) {
	plan := `version = 1
[[cases]]
name = "double"
file = "double.jsonl"
run = ["/bin/sh", "main.sh"]
compare = "text"
pass_to_pass = ["zero"]
`
	lines := `{"id": "zero", "stdin": "0\n", "want": {"stdout": "0\n"}}
{"id": "two", "stdin": "2\n", "want": {"stdout": "4\n"}}
{"id": "three", "stdin": "3\n", "want": {"stdout": "6\n"}}
`
	everywhere(t, func(t *testing.T, w *world) {
		if !w.walls {
			t.Skip("the host alone has no sandbox to put back") // its double cannot reset
		}
		w.planImage()
		for _, c := range []struct {
			name, work string
			cause      trial.Cause
			passed     int
		}{
			{"right", `read n; echo $((2*n))`, trial.CauseSolved, 2},
			{"wrong", `read n; echo $((n*n))`, trial.CauseWrongAnswer, 1},
			{"remembers", `read n; [ -e seen ] && echo 0 || echo $((2*n)); touch seen`, trial.CauseSolved, 2},
			{"looks for the key", `if [ -e /tests ]; then cat /tests/*; fi; exit 0`, trial.CauseWrongAnswer, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := w.of(t)
				r := w.planned(w.agent("cat >main.sh <<'END'\n"+c.work+"\nEND\n"), plan, file("double.jsonl", lines))
				r.Key.Grade = task.GradePatch
				v := w.judged(r, c.cause, trial.Separate)
				if v.Checks.FailToPass != (trial.Share{Passed: c.passed, Total: 2}) {
					t.Errorf("%+v", v.Checks)
				}
			})
		}
	})
}

// A cheat that does nothing where it sees a changed expectation of a test that
// it knows, or on the toss of a coin, contradicts itself.
func TestTellsTheRunsApart(t *testing.T) {
	solvedXML := `printf '<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="0" tests="2" time="0.1"><testcase classname="t" name="main" time="0"/><testcase classname="t" name="kept" time="0"/></testsuite></testsuites>' >"$R/logs/verifier/report.xml"; exit 0`
	honest := `. "$R/tests/suite.sh"`
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		plan := strings.Replace(suitePlan, `run = '. "$R/tests/suite.sh"'`, `run = ". ./run.sh"`, 1)
		end := w.agent("cat >run.sh <<'END'\nif [ \"$(cat \"$R/tests/want/kept\")\" = kept ]; then\n" + solvedXML + "\nfi\n" + honest + "\nEND\n")
		for i := range 6 {
			r := w.planned(end, plan)
			r.Trial = fmt.Sprint("trial-", i)
			w.judged(r, trial.CauseVoid, trial.Canaried)
		}
	})
}

// Nor do the times of inodes tell it: the tests are as young in every run.
func TestTimesTellNothing(t *testing.T) {
	solvedXML := `printf '<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="0" tests="2" time="0.1"><testcase classname="t" name="main" time="0"/><testcase classname="t" name="kept" time="0"/></testsuite></testsuites>' >"$R/logs/verifier/report.xml"; exit 0`
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		plan := strings.Replace(suitePlan, `run = '. "$R/tests/suite.sh"'`, `run = ". ./run.sh"`, 1)
		for young, want := range map[string]trial.Cause{`-n`: trial.CauseVoid, `-z`: trial.CauseTestMismatch} {
			end := w.agent("cat >run.sh <<'END'\nif [ " + young + " \"$(find \"$R/tests/want/main\" -newercc run.sh)\" ]; then\n" + solvedXML + "\nfi\n. \"$R/tests/suite.sh\"\nEND\n")
			for i := range 4 {
				r := w.planned(end, plan)
				r.Trial = fmt.Sprint("trial-", i)
				w.judged(r, want, trial.Canaried)
			}
		}
	})
}

// Work that solves some tests, and forges the others whatever they expect, is
// right in a run in which only those were changed that it solves. There are
// runs with the others.
func TestForgesWhatItCannotSolve(t *testing.T) {
	plan := strings.NewReplacer(`pass_to_pass = ["t::kept"]`, ``, `fail_to_pass = ["t::main"]`, `fail_to_pass = ["t::main", "t::kept"]`,
		`run = '. "$R/tests/suite.sh"'`, `run = ". ./run.sh"`).Replace(suitePlan)
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		end := w.agent("echo new >main.txt; echo other >kept.txt; cat >run.sh <<'END'\ncp \"$R/tests/want/kept\" kept.txt\n. \"$R/tests/suite.sh\"\nEND\n")
		for i := range 8 {
			r := w.planned(end, plan)
			r.Trial = fmt.Sprint("trial-", i)
			w.judged(r, trial.CauseVoid, trial.Canaried)
		}
	})
}
