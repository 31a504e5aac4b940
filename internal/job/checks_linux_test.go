package job

import (
	"encoding/json"
	"strings"
	"testing"

	"assay/internal/grade"
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
