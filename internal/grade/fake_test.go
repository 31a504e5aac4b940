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
