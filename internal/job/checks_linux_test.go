package job

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/grade"
	"assay/internal/image"
	"assay/internal/store"
	"assay/trial"
)

// unitPlan is a check plan whose runner is a line of shell; it reports as
// pytest does.
const unitPlan = `version = 1
forbidden = ["*.lock"]
[[commands]]
name = "unit"
run = "sh /tests/suite.sh"
report = "pytest"
files = ["report.xml"]
fail_to_pass = ["t::answer"]
[[commands.canaries]]
file = "want"
old = "done"
new = "undone"
breaks = ["t::answer"]
[[milestones]]
name = "first"
checks = ["unit:t::answer"]
`

const unitSuite = `if [ "$(cat answer)" = "$(cat /tests/want)" ]; then f=0; else f=1 x='<failure message="AssertionError: no">no</failure>'; fi
printf '<testsuites><testsuite name="pytest" errors="0" failures="%s" skipped="0" tests="1" time="0.1"><testcase classname="t" name="answer" time="0">%s</testcase></testsuite></testsuites>' $f "$x" >report.xml
exit $f
`

// withPlan is the task above, graded by a plan.
func withPlan(changed files) files {
	all := files{"tests/checks.toml": unitPlan, "tests/suite.sh": unitSuite, "tests/want": "done\n"}
	for p, text := range changed {
		all[p] = text
	}
	return all
}

func TestPlannedTrials(t *testing.T) {
	w := newWorld(t)
	tk := w.task("planned", withPlan(nil))
	for _, c := range []struct {
		arm    Arm
		cause  trial.Cause
		passed int
	}{
		{gold(), trial.CauseSolved, 1},
		{idle(), trial.CauseNoAttempt, 0},
		{shell("none", "true"), trial.CauseEmptyPatch, 0},
		{shell("wrong", "echo other >answer"), trial.CauseTestMismatch, 0},
		{shell("fails", "echo other >answer; exit 3"), trial.CauseAgentExit, 0},
		{shell("forbidden", "echo done >answer; touch x.lock; exit 3"), trial.CauseForbiddenChange, 1},
		{shell("forges", `echo done >answer; echo 'echo forged' >/app/x`), trial.CauseSolved, 1},
	} {
		tr := w.one(c.arm, tk)
		w.want(tr, c.cause, "")
		r := tr.Record
		if r.Evidence != trial.Canaried || r.Checks == nil || r.Checks.FailToPass != (trial.Share{Passed: c.passed, Total: 1}) || len(r.Checks.Milestones) != 1 {
			t.Errorf("%s: %s, %+v", c.arm.Spec, r.Evidence, r.Checks)
			continue
		}
		if r.Checks.Resolved != (c.cause == trial.CauseSolved) || (r.Checks.WorkDigest == "") {
			t.Errorf("%s: %+v", c.arm.Spec, r.Checks)
		}
		want := json.Number("0")
		if r.Checks.Resolved {
			want = "1"
		}
		if tr.Rewards["reward"] != want {
			t.Errorf("%s: rewards %v", c.arm.Spec, tr.Rewards)
		}
		if !strings.Contains(w.text(tr, "verifier/"+grade.VerdictFile), `"cause"`) || !strings.Contains(w.text(tr, "verifier/"+grade.EvidenceFile), `"planted"`) {
			t.Errorf("%s: the verdict is not kept", c.arm.Spec)
		}
	}
}

// The agent sees protected paths read-only; what it changes all the same is an
// event, and is put back.
func TestProtectedPaths(t *testing.T) {
	w := newWorld(t)
	w.host.Layers = slices.Concat(w.host.Layers, []image.LayerID{w.layer(map[string]string{"srv/conf/a": "a\n", "srv/main": "old\n"})})
	tk := w.task("protected", withPlan(files{
		"task.toml":         "[environment]\ndocker_image = \"host\"\nworkdir = \"/srv\"\n[metadata.assay]\nprotected = [\"/srv/conf/a\"]\n",
		"tests/checks.toml": "protected = [\"locked\"]\n" + unitPlan,
		"tests/suite.sh":    "[ \"$(cat conf/a)\" = a ] || echo changed >answer\n" + unitSuite,
	}))
	tr := w.one(shell("touches", `echo b >conf/a && exit 9; rm -f conf/a && exit 9
mv conf away 2>/dev/null; mkdir -p locked; echo c >locked/new; echo done >answer`), tk)
	w.want(tr, trial.CauseSolved, "")
	if !slices.ContainsFunc(tr.Record.Notes, func(n string) bool {
		return strings.Contains(n, "protected paths") && strings.Contains(n, "/srv/locked/new")
	}) {
		t.Errorf("notes %q", tr.Record.Notes)
	}
	told := 0
	for _, e := range w.view(Config{Dir: filepath.Dir(tr.Dir)}).Events {
		var m trial.TouchMark
		if e.Kind == trial.LockedTouched {
			told++
			if err := json.Unmarshal(e.Data, &m); err != nil || m.Count < 1 || !slices.Contains(m.Paths, "/srv/locked/new") {
				t.Errorf("%s: %v", e.Data, err)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d events", told)
	}
}

// Steps with plans add up; the trial's cause is that of the step that failed.
func TestPlannedSteps(t *testing.T) {
	w := newWorld(t)
	step := func(want string) files {
		return files{"tests/checks.toml": strings.NewReplacer(`old = "done"`, `old = "`+want+`"`).Replace(unitPlan), "tests/suite.sh": unitSuite, "tests/want": want + "\n",
			"solution/solve.sh": "#!/bin/sh\necho " + want + " >answer\n", "tests/test.sh": testSh, "instruction.md": "go"}
	}
	all := files{"task.toml": taskTOML + "[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n", "tests/test.sh": "", "solution/solve.sh": "", "instruction.md": ""}
	for name, want := range map[string]string{"one": "first", "two": "second"} {
		for p, text := range step(want) {
			all["steps/"+name+"/"+p] = text
		}
	}
	tk := w.task("steps", all)
	good := w.one(gold(), tk)
	w.want(good, trial.CauseSolved, "")
	bad := w.one(shell("half", "echo first >answer"), tk)
	w.want(bad, trial.CauseTestMismatch, "two")
	for tr, passed := range map[*store.Trial]int{good: 2, bad: 1} {
		c := tr.Record.Checks
		if c == nil || c.FailToPass != (trial.Share{Passed: passed, Total: 2}) || c.Resolved != (passed == 2) || len(c.Milestones) != 2 || c.Milestones[1].Name != "two: first" {
			t.Errorf("%s: %+v", tr.Name, c)
		}
		if w.text(tr, "steps/two/verifier/verdict.json") == "" {
			t.Errorf("%s: no verdict of the second step", tr.Name)
		}
	}
}

// layer makes one of some files.
func (w *world) layer(all map[string]string) image.LayerID {
	w.t.Helper()
	l, err := w.images.NewLayer(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer l.Abort()
	for p, text := range all {
		if err := l.Add(image.Entry{Path: p, Type: image.TypeFile, Mode: 0o644}, strings.NewReader(text)); err != nil {
			w.t.Fatal(err)
		}
	}
	id, err := l.Commit()
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}
