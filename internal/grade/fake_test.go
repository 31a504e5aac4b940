package grade

import (
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/sandbox/fake"
	"assay/task"
	"assay/trial"
)

// Grading stands on the contract alone: it works where no program of the
// machine can be run.
func TestOnFake(t *testing.T) {
	s := newStore(t)
	w := &world{t: t, spy: &spy{Backend: fake.Open(s)}, store: s, walls: true}
	t.Cleanup(func() { w.spy.Close() })
	w.img = image.Image{Config: image.Config{Workdir: "/app"}, Layers: []image.LayerID{layer(t, s, nil,
		file("etc/app.conf", "broken\n"), file("app/main.txt", "old\n"), file("app/tests/unit", "image's\n"))}}
	end := w.agent(`echo fixed >/etc/app.conf; echo new >main.txt; echo mine >tests/unit; mkdir -p /tests /logs/verifier
echo 1 >/logs/verifier/reward.txt; touch /tests/conftest.py`)
	for _, c := range []struct {
		name, script string
		kind         task.GradeKind
		protected    []string
		cause        trial.Cause
	}{
		{"state", `grep -q fixed /etc/app.conf && grep -q new main.txt && grep -q mine tests/unit && echo 1 >/logs/verifier/reward.txt`, task.GradeState, nil, trial.CauseSolved},
		{"state, protected", `grep -q broken /etc/app.conf && grep -q new main.txt && echo 1 >/logs/verifier/reward.txt`, task.GradeState, []string{"/etc/app.conf"}, trial.CauseSolved},
		{"patch", `grep -q broken /etc/app.conf && grep -q new main.txt && grep -q mine tests/unit && echo 1 >/logs/verifier/reward.txt`, task.GradePatch, nil, trial.CauseSolved},
		{"patch, protected", `grep -q image tests/unit && echo 1 >/logs/verifier/reward.txt`, task.GradePatch, []string{"tests"}, trial.CauseSolved},
		{"planted reward", `true`, task.GradeState, nil, trial.CauseRewardMissing},
		{"planted tests", `[ -e /tests/conftest.py ] || echo 1 >/logs/verifier/reward.txt`, task.GradeState, nil, trial.CauseSolved},
		{"unsolved", `echo 0 >/logs/verifier/reward.txt; exit 1`, task.GradePatch, nil, trial.CauseUnsolved},
		{"malformed", `echo nan >/logs/verifier/reward.txt`, task.GradePatch, nil, trial.CauseRewardMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.of(t)
			w.spy.forget()
			r := w.request(end, c.script)
			r.Key.Grade, r.Key.Protected = c.kind, c.protected
			w.want(w.grade(r), c.cause, "")
			kill, read := w.spy.index("kill", 0), w.spy.index("get /logs/verifier", 0)
			if kill < 0 || read < kill {
				t.Errorf("rewards are read before everything is dead:\n%s", strings.Join(w.spy.lines(), "\n"))
			}
		})
	}
}

// Grading by a plan does, too.
func TestPlanOnFake(t *testing.T) {
	s := newStore(t)
	w := &world{t: t, spy: &spy{Backend: fake.Open(s)}, store: s, walls: true}
	t.Cleanup(func() { w.spy.Close() })
	w.img = image.Image{Config: image.Config{Workdir: "/app"}, Layers: []image.LayerID{layer(t, s, nil,
		file("app/main.txt", "old\n"), file("app/conf", "c\n"))}}
	end := w.agent(`echo new >main.txt; echo d >conf; mkdir -p /tests; echo old >/tests/want`)
	plan := `version = 1
protected = ["conf"]
[[commands]]
name = "main"
run = 'RUN'
[[state]]
name = "conf"
baseline = true
path = "conf"
type = "file"
equals = "c\n"
`
	for _, c := range []struct {
		name, run string
		cause     trial.Cause
	}{
		{"solved", `grep -q new main.txt && grep -q new /tests/want && mkdir -p /tests/__pycache__`, trial.CauseSolved},
		{"fails", `grep -q other main.txt`, trial.CauseTestMismatch},
		{"tampers with a test", `echo x >/tests/want`, trial.CauseVoid},
		{"tampers with what is protected", `echo x >conf`, trial.CauseVoid},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, kind := range []task.GradeKind{task.GradePatch, task.GradeState} {
				r := w.of(t).request(end, "exit 9", file("checks.toml", strings.Replace(plan, "RUN", c.run, 1)), file("want", "new\n"))
				r.Key.Grade, r.Trial, r.Attempted = kind, "trial-1", true
				v := w.of(t).judged(r, c.cause, trial.SelfReported)
				if v.Checks.WorkDigest == "" {
					t.Error("the work has no digest")
				}
			}
		})
	}
}
