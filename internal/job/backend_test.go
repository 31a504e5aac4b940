package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent/nop"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
	"assay/task"
)

// writeTask writes the task of this package's tests, with some files changed.
func writeTask(t *testing.T, dir string, changed map[string]string) {
	t.Helper()
	all := map[string]string{"instruction.md": "Write done.", "environment/.keep": "\n", "solution/solve.sh": "#!/bin/sh\ntrue\n"}
	for p, text := range changed {
		all[p] = text
	}
	for p, text := range all {
		p = filepath.Join(dir, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// renamed is a backend under another name.
type renamed struct{ sandbox.Backend }

func (r renamed) Capabilities() sandbox.Capabilities {
	c := r.Backend.Capabilities()
	c.Name = "other"
	return c
}

// A job goes on with the tasks it was begun with, by name, and on its backend.
func TestResumeIsTheSameJob(t *testing.T) {
	images, err := image.Open(image.HostPath(filepath.Join(t.TempDir(), "store")), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := images.Put(image.New("plain", nil, nil, image.Config{Workdir: "/app"})); err != nil {
		t.Fatal(err)
	}
	set := t.TempDir()
	add := func(name string) {
		t.Helper()
		writeTask(t, filepath.Join(set, name), map[string]string{"task.toml": "[environment]\ndocker_image = \"plain\"\nworkdir = \"/app\"\n",
			"tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n"})
	}
	add("m")
	add("z")
	tasks, _, err := task.LoadSet(set)
	if err != nil {
		t.Fatal(err)
	}
	backend := fake.Open(images)
	defer backend.Close()
	deps := Deps{Images: images, Backend: backend, Version: "test",
		Resolve: func(_ context.Context, ref string) (image.Image, error) { return images.Resolve(ref) },
		Env:     func(string) (string, bool) { return "", false }}
	arm := Arm{Spec: "nop", Agent: nop.New()}
	c := Config{Dir: filepath.Join(t.TempDir(), "j"), Source: "set", Path: set, Tasks: tasks[:1], Arms: []Arm{arm}, Concurrent: 1}
	if _, err := Run(t.Context(), c, deps); err != nil {
		t.Fatal(err)
	}
	add("a")
	load := func() (Config, error) { return Load(c.Dir, func(ArmConfig) (Arm, error) { return arm, nil }) }
	again, err := load()
	if err != nil || len(again.Tasks) != 1 || again.Tasks[0].Name != "m" || again.Backend != "fake" {
		t.Fatalf("%+v, %v", again, err)
	}
	again.Attempts = 2
	if sum, err := Run(t.Context(), again, deps); err != nil || sum.Ran != 1 || sum.Skipped != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	deps.Backend = renamed{backend}
	if _, err := Run(t.Context(), again, deps); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "it was fake and is other; go on with -e fake") {
		t.Errorf("on another backend: %v", err)
	}
	deps.Backend = backend
	if sum, err := Run(t.Context(), again, deps); err != nil || sum.Ran != 0 {
		t.Errorf("the refused run left something: %+v, %v", sum, err)
	}
	if err := os.RemoveAll(filepath.Join(set, "m")); err != nil {
		t.Fatal(err)
	}
	if _, err := load(); err == nil || !strings.Contains(err.Error(), `no task "m" any more`) {
		t.Errorf("without the task: %v", err)
	}
}
