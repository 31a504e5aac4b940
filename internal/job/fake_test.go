package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// shaky is a backend whose first sandbox cannot be had.
type shaky struct {
	sandbox.Backend
	created atomic.Int32
}

func (s *shaky) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if s.created.Add(1) == 1 {
		return nil, errors.New("no room for a sandbox just now")
	}
	return s.Backend.Create(ctx, spec)
}

// The way of a job where there are no walls to be had: from the grid through a
// retry to results, and on.
func TestJobWithoutWalls(t *testing.T) {
	images, err := image.Open(image.HostPath(filepath.Join(t.TempDir(), "store")), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := images.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(image.Entry{Path: "app", Type: image.TypeDir, Mode: 0o755}, nil); err != nil {
		t.Fatal(err)
	}
	layer, err := l.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if err := images.Put(image.New("plain", []image.LayerID{layer}, nil, image.Config{Workdir: "/app"})); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "x")
	for name, text := range map[string]string{
		"task.toml":         "[environment]\ndocker_image = \"plain\"\n",
		"instruction.md":    "Write done.",
		"environment/.keep": "",
		"tests/test.sh":     "#!/bin/sh\nif [ -e /app/answer ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi\n",
		"solution/solve.sh": "#!/bin/sh\necho done >/app/answer\n",
	} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	x, err := task.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	backend := &shaky{Backend: fake.Open(images)}
	defer backend.Close()
	deps := Deps{Images: images, Backend: backend, Version: "test",
		Resolve: func(_ context.Context, ref string) (image.Image, error) { return images.Resolve(ref) },
		Env:     func(string) (string, bool) { return "", false }}
	c := Config{Dir: filepath.Join(t.TempDir(), "jobs", "j"), Tasks: []*task.Task{x}, Concurrent: 1,
		Arms: []Arm{{Spec: "oracle", Agent: oracle.New()}, {Spec: "nop", Agent: nop.New()}}}
	for k, ran := range []int{2, 0, 2} {
		c.Attempts = max(1, k)
		sum, err := Run(t.Context(), c, deps)
		if err != nil || sum.Ran != ran {
			t.Fatalf("k = %d: %+v, %v", c.Attempts, sum, err)
		}
	}
	v, err := store.Read(c.Dir)
	if err != nil || len(v.Trials) != 4 || v.Graded != 4 {
		t.Fatalf("%+v, %v", v, err)
	}
	lost := 0
	for _, tr := range v.Trials {
		want := map[string]trial.Cause{"oracle": trial.CauseSolved, "nop": trial.CauseUnsolved}[tr.Agent]
		if tr.Record.Cause != want || tr.Record.Modes.Backend != "fake" {
			t.Errorf("%s ended %s (%s) on %s, want %s", tr.Agent, tr.Record.Cause, tr.Record.Detail, tr.Record.Modes.Backend, want)
		}
		for _, r := range tr.Replaced {
			lost++
			if r.Cause != trial.CauseSandboxStart {
				t.Errorf("lost to %s", r.Cause)
			}
		}
	}
	if lost != 1 {
		t.Errorf("%d attempts were lost and kept, want 1", lost)
	}
}
