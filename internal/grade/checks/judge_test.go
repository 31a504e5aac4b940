package checks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/internal/grade/report"
	"assay/trial"
)

// world is a plan with one command of each kind, and what a perfect run shows.
func world() (*Plan, Observation) {
	p := &Plan{
		Version:   1,
		Forbidden: []string{"vendor/**"},
		Commands: []Command{
			{Name: "unit", Run: "x", Report: "pytest", FailToPass: []string{"new", "newer"}, PassToPass: []string{"old"},
				Canaries: []Canary{{File: "t", Old: "a", New: "b", Breaks: []string{"new"}}, {File: "t", Old: "c", New: "d", Breaks: []string{"old"}}}},
			{Name: "smoke", Run: "y", Separate: true},
		},
		Cases: []Cases{{Name: "io", File: "c", Run: []string{"p"}, PassToPass: []string{"two"}, ids: []string{"one", "two"}}},
		State: []State{{Name: "file", Path: "x"}, {Name: "kept", Path: "y", Baseline: true}},
		Milestones: []Milestone{
			{Name: "m1", Checks: []string{"unit:new"}},
			{Name: "m2", Checks: []string{"unit:newer", "io:one"}, Weight: 3},
			{Name: "m3", Checks: []string{"state:file"}},
		},
		Spec:      []Spec{{ID: "S1", Checks: []string{"unit:old"}}},
		EdgeCases: []EdgeCase{{Name: "e", Checks: []string{"io:two"}}},
	}
	return p, Observation{
		Attempted: true, Workdir: "/app", Changed: []string{"/app/a.py"},
		Commands: []Ran{
			{Name: "unit", Report: &report.Report{Tests: tests("new", "newer", "old", "other")}},
			{Name: "smoke"},
		},
		Canary: []Ran{
			{Name: "unit", Exit: 1, Report: &report.Report{Tests: tests("new=failed", "newer", "old", "other")}},
			{Name: "smoke"},
		},
		Planted: map[string][]int{"unit": {0}},
		Cases:   []CasesRan{{Name: "io", Tests: tests("one", "two")}},
		State:   []StateSeen{{Name: "file", Held: true}, {Name: "kept", Held: true}},
	}
}

// tests makes results of "ID", "ID=STATUS" or "ID=STATUS/KIND".
func tests(words ...string) []report.Test {
	var all []report.Test
	for _, w := range words {
		id, status, _ := strings.Cut(w, "=")
		status, kind, _ := strings.Cut(status, "/")
		if status == "" {
			status = string(report.Passed)
		}
		all = append(all, report.Test{ID: id, Status: report.Status(status), Kind: report.Kind(kind)})
	}
	return all
}

// set changes the status of one test of a run's report; an empty one removes it.
func set(r *Ran, words ...string) {
	for _, t := range tests(words...) {
		i := slices.IndexFunc(r.Report.Tests, func(old report.Test) bool { return old.ID == t.ID })
		switch {
		case t.Status == "none":
			r.Report.Tests = slices.Delete(r.Report.Tests, i, i+1)
		case i < 0:
			r.Report.Tests = append(r.Report.Tests, t)
		default:
			r.Report.Tests[i] = t
		}
	}
}

func TestPerfect(t *testing.T) {
	p, o := world()
	slices.Reverse(p.Commands) // what is separate comes first
	v := Judge(p, o)
	if !v.Resolved || !v.Strict || v.Partial != 1 || v.Cause != trial.CauseSolved || v.Outcome != trial.Pass || v.Evidence != trial.Canaried || v.Void != "" {
		t.Errorf("%+v", v)
	}
	if got := strings.Join(v.FailToPass.Passed, " "); got != "io:one smoke:smoke state:file unit:new unit:newer" {
		t.Errorf("fail-to-pass: %s", got)
	}
	if got := strings.Join(v.PassToPass.Passed, " "); got != "io:two state:kept unit:old" {
		t.Errorf("pass-to-pass: %s", got)
	}
	if v.Tests != 7 || v.Commands[1].Planted != 1 || v.Commands[1].Tests != 4 || *v.Commands[0].Exit != 0 || v.Commands[1].Ended != "" {
		t.Errorf("%+v", v.Commands)
	}
	if len(v.Milestones) != 3 || !v.Milestones[2].Reached || v.Milestones[1].Weight != 3 || v.Milestones[0].Weight != 1 || !v.Spec[0].Reached || !v.EdgeCases[0].Reached {
		t.Errorf("%+v", v.Milestones)
	}
}

// Every rule of judging, one change of the perfect run each.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Plan, *Observation)
		cause  trial.Cause
		more   func(Verdict) string // what else is wrong with the verdict
	}{
		{"failed", func(_ *Plan, o *Observation) {
			set(&o.Commands[0], "new=failed/assertion")
			o.Commands[0].Exit = 1
		}, trial.CauseTestMismatch, func(v Verdict) string {
			if v.FailToPass.Failed["unit:new"] != "failed" || v.Partial != 0.8 {
				return "list or rate"
			}
			return ""
		}},
		{"missing", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=none") }, trial.CauseMissingTest, func(v Verdict) string {
			return want(v.FailToPass.Failed["unit:newer"], "missing")
		}},
		{"old one missing", func(_ *Plan, o *Observation) { set(&o.Commands[0], "old=none") }, trial.CauseMissingTest, nil},
		{"skipped", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=skipped") }, trial.CauseMissingTest, nil},
		{"expected failure", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=xfailed") }, trial.CauseTestMismatch, nil},
		{"unexpected success", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=xpassed") }, trial.CauseTestMismatch, nil},
		{"unknown word", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=unknown") }, trial.CauseRuntimeError, nil},
		{"exception", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=failed/exception") }, trial.CauseRuntimeError, nil},
		{"error", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=error") }, trial.CauseRuntimeError, nil},
		{"test's own limit", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=failed/timeout") }, trial.CauseCheckTimeout, nil},
		{"import error", func(_ *Plan, o *Observation) { set(&o.Commands[0], "newer=error/build") }, trial.CauseBuildError, nil},
		{"build flag and missing", func(_ *Plan, o *Observation) {
			set(&o.Commands[0], "newer=none")
			o.Commands[0].Report.Flags = []report.Flag{{Kind: report.FlagBuild}}
		}, trial.CauseBuildError, nil},
		{"build flag of others", func(_ *Plan, o *Observation) {
			set(&o.Commands[0], "newer=failed/assertion")
			o.Commands[0].Report.Flags = []report.Flag{{Kind: report.FlagBuild}}
		}, trial.CauseTestMismatch, nil},
		{"two results for one id", func(_ *Plan, o *Observation) {
			o.Commands[0].Report.Tests = append(o.Commands[0].Report.Tests, tests("new=failed")...)
		}, trial.CauseTestMismatch, nil},
		{"two results, the pass last", func(_ *Plan, o *Observation) {
			o.Commands[0].Report.Tests = append(tests("new=failed"), o.Commands[0].Report.Tests...)
		}, trial.CauseTestMismatch, nil},
		{"regression", func(_ *Plan, o *Observation) { set(&o.Commands[0], "old=failed/assertion"); o.Commands[0].Exit = 1 }, trial.CauseRegression, func(v Verdict) string {
			if v.Spec[0].Reached || v.FailToPass.Rate() != 1 || v.PassToPass.Rate() > 0.7 {
				return "rates"
			}
			return ""
		}},
		{"regression by crash", func(_ *Plan, o *Observation) { set(&o.Commands[0], "old=error/exception") }, trial.CauseRegression, nil},
		{"own and old fail", func(_ *Plan, o *Observation) { set(&o.Commands[0], "old=failed", "new=failed") }, trial.CauseTestMismatch, nil},
		{"wrong answer", func(_ *Plan, o *Observation) { o.Cases[0].Tests = tests("one=failed/assertion", "two") }, trial.CauseWrongAnswer, nil},
		{"case crashes", func(_ *Plan, o *Observation) { o.Cases[0].Tests = tests("one=failed/exception", "two") }, trial.CauseRuntimeError, nil},
		{"case's limit", func(_ *Plan, o *Observation) { o.Cases[0].Tests = tests("one=failed/timeout", "two") }, trial.CauseCheckTimeout, nil},
		{"cases not tried", func(_ *Plan, o *Observation) { o.Cases[0].Err = "no python" }, trial.CauseMissingTest, nil},
		{"state", func(_ *Plan, o *Observation) { o.State[0].Held = false }, trial.CauseTestMismatch, func(v Verdict) string {
			if v.Milestones[2].Reached || !v.Milestones[1].Reached {
				return "milestones"
			}
			return want(v.FailToPass.Failed["state:file"], "failed")
		}},
		{"baseline state", func(_ *Plan, o *Observation) { o.State[1].Held = false }, trial.CauseRegression, nil},
		{"state not seen", func(_ *Plan, o *Observation) { o.State = o.State[1:] }, trial.CauseMissingTest, nil},
		{"status of a command without report", func(_ *Plan, o *Observation) { o.Commands[1].Exit = 3 }, trial.CauseTestMismatch, func(v Verdict) string {
			return want(v.FailToPass.Failed["smoke:smoke"], "failed")
		}},
		{"its crash", func(_ *Plan, o *Observation) { o.Commands[1].Signal, o.Commands[1].Exit = syscall.SIGSEGV, 139 }, trial.CauseRuntimeError, func(v Verdict) string {
			return want(v.Commands[1].Ended, "signal 11")
		}},
		{"its limit", func(_ *Plan, o *Observation) { o.Commands[1].TimedOut = true }, trial.CauseCheckTimeout, nil},
		{"not started", func(_ *Plan, o *Observation) {
			o.Commands[0] = Ran{Name: "unit", NotStarted: "no such file"}
		}, trial.CauseMissingTest, func(v Verdict) string {
			if v.Commands[0].Exit != nil || v.Commands[0].Ended != "not started" || v.Void != "" {
				return "not told"
			}
			return ""
		}},
		{"left out", func(_ *Plan, o *Observation) { o.Commands = o.Commands[:1] }, trial.CauseMissingTest, nil},
		{"twice", func(_ *Plan, o *Observation) { o.Commands = append(o.Commands, o.Commands[0]) }, trial.CauseMissingTest, nil},
		{"no report and a status", func(_ *Plan, o *Observation) { o.Commands[0].Report, o.Commands[0].Exit = nil, 2 }, trial.CauseMissingTest, nil},
		{"no report and a crash", func(_ *Plan, o *Observation) {
			o.Commands[0].Report, o.Commands[0].Signal = nil, syscall.SIGSEGV
		}, trial.CauseRuntimeError, nil},
		{"no report and status 0", func(_ *Plan, o *Observation) { o.Commands[0].Report = nil }, trial.CauseVoid, func(v Verdict) string {
			return want(v.Void, "the report of unit is not there, although the command ended with status 0")
		}},
		{"unreadable", func(_ *Plan, o *Observation) { o.Commands[0].Report, o.Commands[0].ReportErr = nil, "line 3: x" }, trial.CauseVoid, func(v Verdict) string {
			return want(v.Void, "the report of unit cannot be read")
		}},
		{"counts", flagged(report.FlagCounts), trial.CauseVoid, nil},
		{"exit", flagged(report.FlagExit), trial.CauseVoid, nil},
		{"exit, and nothing passes", func(_ *Plan, o *Observation) {
			o.Canary, o.Planted = nil, nil
			o.Commands[0].Exit, o.Commands[0].Report = 4, &report.Report{Tests: tests("conftest=error/build"), Flags: []report.Flag{{Kind: report.FlagExit}, {Kind: report.FlagCut}}}
		}, trial.CauseMissingTest, func(v Verdict) string { return want(v.Void, "") }},
		{"exit, and something passes", func(_ *Plan, o *Observation) {
			o.Commands[0].Exit, o.Commands[0].Report = 4, &report.Report{Tests: tests("conftest=error/build", "other"), Flags: []report.Flag{{Kind: report.FlagExit}}}
		}, trial.CauseVoid, nil},
		{"cut", flagged(report.FlagCut), trial.CauseVoid, func(v Verdict) string {
			if v.Partial != 0 || v.Milestones[0].Reached || v.Outcome != trial.Inconclusive || v.Flags[0] != (Flag{Command: "unit", Kind: report.FlagCut}) {
				return "a void verdict counts"
			}
			return ""
		}},
		{"stray", flagged(report.FlagStray), trial.CauseVoid, nil},
		{"duplicate", flagged(report.FlagDuplicate), trial.CauseSolved, nil},
		{"namesake", flagged(report.FlagNamesake), trial.CauseSolved, nil},
		{"cut by the limit", func(p *Plan, o *Observation) {
			flagged(report.FlagCut)(p, o)
			o.Commands[0].TimedOut = true
		}, trial.CauseCheckTimeout, nil},
		{"whole and over the limit", func(_ *Plan, o *Observation) { o.Commands[0].TimedOut = true }, trial.CauseCheckTimeout, nil},
		{"unreadable, of memory", func(_ *Plan, o *Observation) {
			o.Commands[0] = Ran{Name: "unit", Signal: syscall.SIGKILL, OutOfMemory: true, ReportErr: "x"}
		}, trial.CauseMemoryLimit, nil},
		{"a child without memory, all passed", func(_ *Plan, o *Observation) { o.Commands[0].OutOfMemory = true }, trial.CauseSolved, nil},
		{"memory before missing", func(_ *Plan, o *Observation) {
			o.Commands[0] = Ran{Name: "unit", Exit: 137, OutOfMemory: true}
		}, trial.CauseMemoryLimit, nil},
		{"others fail", func(_ *Plan, o *Observation) {
			set(&o.Commands[0], "other=failed")
			o.Commands[0].Exit = 1
		}, trial.CauseSolved, func(v Verdict) string {
			if v.Strict || strings.Join(v.OthersFailed, "") != "unit:other" {
				return "strict"
			}
			return ""
		}},
		{"others skipped", func(_ *Plan, o *Observation) { set(&o.Commands[0], "other=skipped") }, trial.CauseSolved, func(v Verdict) string {
			if !v.Strict {
				return "not strict"
			}
			return ""
		}},
		{"status alone", func(_ *Plan, o *Observation) { o.Commands[0].Exit = 1 }, trial.CauseSolved, func(v Verdict) string {
			if v.Strict {
				return "strict"
			}
			return ""
		}},
		{"no attempt", func(_ *Plan, o *Observation) { fail(o); o.Attempted = false }, trial.CauseNoAttempt, nil},
		{"no attempt and solved", func(_ *Plan, o *Observation) { o.Attempted, o.Untouched = false, true }, trial.CauseSolved, nil},
		{"no attempt and something passed", func(_ *Plan, o *Observation) {
			set(&o.Commands[0], "new=failed")
			o.Attempted = false
		}, trial.CauseTestMismatch, nil},
		{"empty patch", func(_ *Plan, o *Observation) { fail(o); o.Untouched = true }, trial.CauseEmptyPatch, nil},
		{"forbidden", func(_ *Plan, o *Observation) { o.Changed = append(o.Changed, "/app/vendor/x/y", "/app/vendored") }, trial.CauseForbiddenChange, func(v Verdict) string {
			if v.Resolved || v.Strict || v.Outcome != trial.Fail || v.Milestones[0].Reached {
				return "counts"
			}
			return want(strings.Join(v.Forbidden, " "), "/app/vendor/x/y")
		}},
		{"forbidden before void", func(p *Plan, o *Observation) {
			flagged(report.FlagCut)(p, o)
			o.Changed = []string{"/app/vendor"}
		}, trial.CauseForbiddenChange, nil},
		{"tampered", func(_ *Plan, o *Observation) { o.Tampered = []string{"/app/tests/b", "/app/tests/a"} }, trial.CauseVoid, func(v Verdict) string {
			return want(v.Void, "2 files of the tests were changed while they ran, /app/tests/a first")
		}},

		{"canary passed", func(_ *Plan, o *Observation) { set(&o.Canary[0], "new") }, trial.CauseVoid, func(v Verdict) string {
			return want(strings.Join(v.Commands[0].Broken, " "), "new")
		}},
		{"canary vanished", func(_ *Plan, o *Observation) { set(&o.Canary[0], "new=none") }, trial.CauseVoid, func(v Verdict) string {
			return want(v.Void, `1 tests of unit did not run when their expectations were changed, "new" first: does the runner stop at the first failure?`)
		}},
		{"canary skipped", func(_ *Plan, o *Observation) { set(&o.Canary[0], "new=skipped") }, trial.CauseVoid, nil},
		{"canary by error", func(_ *Plan, o *Observation) { set(&o.Canary[0], "new=error") }, trial.CauseSolved, nil},
		{"canary's status 0", func(_ *Plan, o *Observation) { o.Canary[0].Exit = 0 }, trial.CauseVoid, func(v Verdict) string {
			return want(v.Void, "unit ended with status 0 although expectations of its tests were changed")
		}},
		{"canary run without report", func(_ *Plan, o *Observation) { o.Canary[0].Report = nil }, trial.CauseVoid, nil},
		{"canary run not tried", func(_ *Plan, o *Observation) { o.Canary = []Ran{} }, trial.CauseSolved, func(v Verdict) string {
			return want(string(v.Evidence), "self-reported")
		}},
		{"canary run's report cut", func(_ *Plan, o *Observation) { o.Canary[0].Report.Flags = []report.Flag{{Kind: report.FlagCut}} }, trial.CauseVoid, nil},
		{"canary's other test flips", func(_ *Plan, o *Observation) { set(&o.Canary[0], "newer=failed") }, trial.CauseVoid, func(v Verdict) string {
			if len(v.Flags) != 1 || v.Flags[0] != (Flag{Command: "unit", Run: "canary", Kind: FlagCanary, ID: "newer"}) {
				return fmt.Sprint(v.Flags)
			}
			return want(v.Void, `1 tests of unit passed, and failed when only other tests were changed, "newer" first`)
		}},
		{"canary run stops at its first failure", func(_ *Plan, o *Observation) { set(&o.Canary[0], "newer=none") }, trial.CauseVoid, func(v Verdict) string {
			return want(v.Void, `1 tests of unit passed, and did not run when only other tests were changed, "newer" first: does the runner stop at the first failure?`)
		}},
		{"spared", func(_ *Plan, o *Observation) {
			o.Planted, o.Spared = nil, map[string]bool{"unit": true}
			o.Canary[0] = Ran{Name: "unit", Report: &report.Report{Tests: tests("new", "newer", "old", "other")}}
		}, trial.CauseSolved, func(v Verdict) string { return want(v.Void, "") }},
		{"spared, and not the same", func(_ *Plan, o *Observation) {
			o.Planted, o.Spared = nil, map[string]bool{"unit": true}
		}, trial.CauseVoid, func(v Verdict) string {
			return want(v.Void, `1 tests of unit passed, and failed when only other tests were changed, "new" first`)
		}},
		{"spared, and over its time", func(_ *Plan, o *Observation) {
			o.Planted, o.Spared = nil, map[string]bool{"unit": true}
			o.Canary[0] = Ran{Name: "unit", TimedOut: true, Signal: syscall.SIGKILL}
		}, trial.CauseVoid, nil},
		{"spared, alone", func(p *Plan, o *Observation) {
			p.Commands, p.Milestones, o.Planted, o.Spared = p.Commands[:1], nil, nil, map[string]bool{"unit": true}
			set(&o.Canary[0], "new")
		}, trial.CauseSolved, func(v Verdict) string { return want(string(v.Evidence), "canaried") }},
		{"canary run over its time", func(_ *Plan, o *Observation) {
			o.Canary[0] = Ran{Name: "unit", TimedOut: true, Signal: syscall.SIGKILL}
		}, trial.CauseVoid, func(v Verdict) string {
			return want(v.Void, "the canary run of unit was stopped for its time or its memory: what its tests would have said is not known")
		}},
		{"canary flips an unexpected test", func(_ *Plan, o *Observation) { set(&o.Canary[0], "other=failed") }, trial.CauseSolved, func(v Verdict) string {
			if len(v.Flags) != 1 || v.Flags[0].ID != "other" {
				return fmt.Sprint(v.Flags)
			}
			return ""
		}},
		{"other canary planted", func(_ *Plan, o *Observation) { o.Planted["unit"] = []int{1} }, trial.CauseVoid, func(v Verdict) string {
			return want(strings.Join(v.Commands[0].Broken, " "), "old")
		}},
		{"both planted", func(_ *Plan, o *Observation) {
			o.Planted["unit"] = []int{1, 0, 1}
			set(&o.Canary[0], "old=failed")
		}, trial.CauseSolved, func(v Verdict) string {
			if v.Commands[0].Planted != 2 {
				return "planted"
			}
			return ""
		}},
		{"indices of nothing", func(_ *Plan, o *Observation) { o.Planted["unit"] = []int{-1, 7} }, trial.CauseSolved, func(v Verdict) string {
			return want(string(v.Evidence), "self-reported")
		}},
		{"crash in both runs", func(_ *Plan, o *Observation) {
			o.Commands[0] = Ran{Name: "unit", Exit: 2}
			o.Canary[0] = Ran{Name: "unit", Exit: 2}
		}, trial.CauseMissingTest, nil},
		{"honest failure that the canary mends", func(_ *Plan, o *Observation) {
			set(&o.Commands[0], "new=failed")
			o.Commands[0].Exit = 1
			set(&o.Canary[0], "new")
			o.Canary[0].Exit = 0
		}, trial.CauseTestMismatch, nil},
		{"canary of a command without report", func(p *Plan, o *Observation) {
			p.Commands[1].Canaries = []Canary{{File: "t", Old: "x", New: "y", Breaks: []string{"smoke"}}}
			o.Planted["smoke"] = []int{0}
		}, trial.CauseVoid, nil},

		{"separate alone", func(p *Plan, o *Observation) {
			p.Commands, p.Milestones, p.Spec = p.Commands[1:], nil, nil
		}, trial.CauseSolved, func(v Verdict) string { return want(string(v.Evidence), "separate") }},
		{"separate, of one user", func(p *Plan, o *Observation) {
			p.Commands, p.Milestones, p.Spec, o.OneUser = p.Commands[1:], nil, nil, true
		}, trial.CauseSolved, func(v Verdict) string { return want(string(v.Evidence), "self-reported") }},
		{"runs that can talk", func(p *Plan, o *Observation) {
			p.Commands, p.Milestones, o.Linked = p.Commands[:1], nil, true
		}, trial.CauseSolved, func(v Verdict) string { return want(string(v.Evidence), "self-reported") }},
		{"separate, after what is not", func(*Plan, *Observation) {}, trial.CauseSolved, func(v Verdict) string {
			return want(string(v.Evidence), "self-reported")
		}},
		{"a command's output", func(p *Plan, o *Observation) {
			p.State = append(p.State, State{Name: "out", Run: "x"})
			o.State = append(o.State, StateSeen{Name: "out", Held: true})
		}, trial.CauseSolved, func(v Verdict) string { return want(string(v.Evidence), "self-reported") }},
		{"no canary of what was to be made pass", func(p *Plan, o *Observation) {
			p.Commands[0].Canaries[0].Breaks = []string{"old"}
			set(&o.Canary[0], "new", "old=failed")
		}, trial.CauseSolved, func(v Verdict) string { return want(string(v.Evidence), "self-reported") }},
		{"self-reported", func(p *Plan, o *Observation) { p.Commands[0].Canaries = nil }, trial.CauseSolved, func(v Verdict) string { return want(string(v.Evidence), "self-reported") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, o := world()
			c.change(p, &o)
			v := Judge(p, o)
			if v.Cause != c.cause {
				t.Errorf("cause %s, want %s: %+v", v.Cause, c.cause, v)
			}
			if (v.Cause == trial.CauseSolved) != v.Resolved || (v.Outcome == trial.Pass) != v.Resolved {
				t.Errorf("cause %s, outcome %s, resolved %t", v.Cause, v.Outcome, v.Resolved)
			}
			if (v.Void != "") && v.Cause != trial.CauseVoid && v.Cause != trial.CauseForbiddenChange {
				t.Errorf("void (%s) and %s", v.Void, v.Cause)
			}
			if c.more != nil {
				if why := c.more(v); why != "" {
					t.Errorf("%s: %+v", why, v)
				}
			}
		})
	}
}

func want(got, want string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("got %q, want %q", got, want)
}

func flagged(k report.FlagKind) func(*Plan, *Observation) {
	return func(_ *Plan, o *Observation) {
		o.Commands[0].Report.Flags = []report.Flag{{Kind: k, Detail: "at 0x1234"}}
	}
}

// fail makes every fail-to-pass check fail.
func fail(o *Observation) {
	set(&o.Commands[0], "new=failed", "newer=failed")
	o.Commands[0].Exit, o.Commands[1].Exit = 1, 1
	o.Cases[0].Tests = tests("one=failed", "two")
	o.State[0].Held = false
}

// A verdict holds lists where it has none, never null, and no words of a report.
func TestVerdictJSON(t *testing.T) {
	p, o := world()
	o.Commands[0].Report.Tests[0].Message = "secret words"
	flagged(report.FlagDuplicate)(p, &o)
	b, err := json.Marshal(Judge(p, o))
	if err != nil {
		t.Fatal(err)
	}
	for _, not := range []string{"null", "secret words", "0x1234"} {
		if strings.Contains(string(b), not) {
			t.Errorf("%s in %s", not, b)
		}
	}
	for _, have := range []string{`"v":1`, `"failed":{}`, `"others_failed":[]`, `"partial":1`, `"canaries":1`} {
		if !strings.Contains(string(b), have) {
			t.Errorf("no %s in %s", have, b)
		}
	}
}
