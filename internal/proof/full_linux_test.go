package proof

import (
	"slices"
	"strings"
	"testing"

	"assay/internal/agent/command"
	"assay/internal/image"
	"assay/internal/job"
	"assay/task"
)

const (
	statePlan = "version = 1\n[[state]]\nname = \"answer\"\npath = \"answer\"\nequals = \"done\\n\"\n"
	planTOML  = "[environment]\ndocker_image = \"host\"\nworkdir = \"/app\"\n[metadata.assay]\ngrade = \"patch\"\n"
)

// A task's own layers make no class of their own; other ground does.
func TestGround(t *testing.T) {
	shared := map[image.LayerID]bool{"sha256:base": true, "sha256:more": true}
	im := func(id image.ID, layers ...image.LayerID) string {
		return ground(image.Image{ID: id, Layers: layers}, shared)
	}
	one := im("sha256:1", "sha256:base", "sha256:more", "sha256:own1")
	if two := im("sha256:2", "sha256:base", "sha256:more", "sha256:own2", "sha256:own3"); two != one || len(one) != 64 {
		t.Errorf("%s and %s", one, two)
	}
	for _, other := range []string{im("sha256:3", "sha256:base", "sha256:own1"), im("sha256:4", "sha256:more", "sha256:base"), im("sha256:5", "sha256:own1")} {
		if other == one {
			t.Errorf("%s for different grounds", other)
		}
	}
	if got := im("sha256:6", "sha256:own1"); got != "sha256:6" {
		t.Errorf("what shares nothing: %s", got)
	}
}

// The full level tries cheats on a sample of each class; one that passes takes
// the proof of all its class, one that is known to pass is listed, and a task
// without a plan stays at the quick level.
func TestProveFull(t *testing.T) {
	w := newWorld(t)
	plan := func(name string) *task.Task {
		return w.task(name, files{"task.toml": planTOML, "tests/checks.toml": statePlan})
	}
	tasks := []*task.Task{plan("a"), plan("b"), w.task("own-reward", nil)}
	cheats := map[string]string{"nothing": "true", "forge": "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt", "known": "echo done >answer"}
	battery := Battery{
		Seed: 1,
		Arms: func(_ string, _ *task.Task) (arms []job.Arm, err error) {
			for id, line := range cheats {
				arms = append(arms, job.Arm{Spec: id, From: "command:" + line, Agent: command.New(line)})
			}
			return arms, nil
		},
		Residual: func(id string, _ *task.Task) string { return map[string]string{"known": "it solves the task"}[id] },
	}
	w.level, w.battery, w.gold = Full, battery, 2
	proofs, err := w.prove(t.Context(), "full", tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range proofs[:2] {
		if !p.Proved || p.Level != Full || p.Class == "" || p.Class != proofs[0].Class || p.Attacks == nil || p.Attacks.Tried != 3 || len(p.Attacks.Passed) > 0 ||
			!slices.Equal(p.Attacks.Residual, []string{"known"}) || len(p.Attacks.Sampled) != 1 || p.Words() != "proved (full, local)" {
			t.Errorf("%d: %+v, %+v", i, p, p.Attacks)
		}
	}
	if p := proofs[2]; !p.Proved || p.Level != Quick || !strings.Contains(p.said(), "own reward file alone") {
		t.Errorf("%+v", p)
	}

	w.battery.Residual = func(string, *task.Task) string { return "" }
	proofs, err = w.prove(t.Context(), "hole", tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range proofs[:2] {
		if p.Proved || !strings.Contains(p.said(), `1 cheats pass on`) || proofFile(t, tasks[i]) != nil {
			t.Errorf("%d: %+v", i, p)
		}
	}
}
