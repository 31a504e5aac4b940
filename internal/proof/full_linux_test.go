package proof

import (
	"os"
	"path/filepath"
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

// Images that tasks build on one that has a name are of one class; the same
// files on another base are not.
func TestProveByGround(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"base", "other"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM host\nRUN mkdir /app && echo "+name+" >/app/base\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		im, err := w.build(t.Context(), job.BuildRequest{Dir: dir, Resolve: w.resolve})
		if err != nil {
			t.Fatal(err)
		}
		im.Name = name
		if err := w.images.Put(im); err != nil {
			t.Fatal(err)
		}
	}
	on := func(name, base string) *task.Task {
		return w.task(name, files{"tests/checks.toml": statePlan, "task.toml": strings.Replace(planTOML, "docker_image = \"host\"\n", "", 1),
			"environment/Dockerfile": "FROM " + base + "\nRUN echo " + name + " >/app/own\n"})
	}
	w.level, w.gold = Full, 2
	w.battery = Battery{Arms: func(string, *task.Task) ([]job.Arm, error) {
		return []job.Arm{{Spec: "nothing", From: "command:true", Agent: command.New("true")}}, nil
	}}
	proofs, err := w.prove(t.Context(), "ground", on("a", "base"), on("b", "base"), on("c", "other"))
	if err != nil || len(proofs) != 3 {
		t.Fatalf("%d proofs, %v", len(proofs), err)
	}
	for i, p := range proofs {
		if p.Level != Full || p.Attacks == nil || len(p.Attacks.Sampled) != 1 || p.Image == proofs[(i+1)%3].Image {
			t.Errorf("%+v, %+v", p, p.Attacks)
		}
	}
	if a, b, c := proofs[0].Class, proofs[1].Class, proofs[2].Class; a != b || a == c {
		t.Errorf("classes %q, %q and %q", a, b, c)
	}
}
