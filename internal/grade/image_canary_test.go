package grade

import (
	"strings"
	"testing"

	"assay/task"
	"assay/trial"
)

// Canaries may change files of the image, of which the task then holds no copy:
// the image's file lies over the work in every run, as it is or with a canary.
func TestCanariesOfTheImage(t *testing.T) {
	// The runner is the image's own, so that work can bring another one.
	plan := strings.NewReplacer(`"want/`, `"/app/want/`, "$R/tests/suite.sh", "$R/app/suite.sh").Replace(suitePlan)
	for _, c := range []struct {
		name, work string
		kind       task.GradeKind
		cause      trial.Cause
	}{
		{"solved", `echo new >main.txt`, task.GradePatch, trial.CauseSolved},
		{"solved, state", `echo new >main.txt`, task.GradeState, trial.CauseSolved},
		{"wrong", `echo bad >main.txt`, task.GradePatch, trial.CauseTestMismatch},
		{"its own expectations", `echo bad >main.txt; echo bad >want/main`, task.GradeState, trial.CauseTestMismatch},
		{"no expectations", `echo bad >main.txt; rm -r want`, task.GradeState, trial.CauseTestMismatch},
		{"forged", `echo bad >main.txt; printf '%s\n' 'mkdir -p "$R/logs/verifier"; echo "<testsuites><testsuite name=\"pytest\" errors=\"0\" failures=\"0\" skipped=\"0\" tests=\"2\" time=\"0.1\"><testcase classname=\"t\" name=\"main\" time=\"0\"/><testcase classname=\"t\" name=\"kept\" time=\"0\"/></testsuite></testsuites>" >"$R/logs/verifier/report.xml"' >suite.sh`,
			task.GradePatch, trial.CauseVoid},
	} {
		t.Run(c.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				w.img = w.image(file("etc/app.conf", "broken\n"), file("app/main.txt", "old\n"), file("app/kept.txt", "kept\n"), file("app/conf/a", "a\n"),
					file("app/suite.sh", strings.ReplaceAll(suite, "$R/tests/want", "$R/app/want")), file("app/want/main", "new\n"), file("app/want/kept", "kept\n"))
				r := w.request(w.agent(c.work), "exit 9", file("checks.toml", plan))
				r.Trial, r.Attempted, r.Key.Grade = "trial-1", true, c.kind
				w.judged(r, c.cause, trial.Canaried)
			})
		})
	}
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		r := w.planned(w.agent(`echo new >main.txt`), strings.Replace(plan, "/app/want/main", "/app/nowhere", 1))
		if v, err := Grade(t.Context(), r); err == nil && v.Cause == trial.CauseSolved {
			t.Errorf("a canary of a file that the image lacks: %+v", v)
		} else if !strings.Contains(v.Detail+errText(err), "nowhere") {
			t.Errorf("%+v %v", v, err)
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
