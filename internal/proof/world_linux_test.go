package proof

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent/command"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
	"assay/internal/sandbox/ns/nstest"
	"assay/task"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// world is a store, the image "host" and the real sandbox.
type world struct {
	t       *testing.T
	images  *image.Store
	lossy   *lossy
	host    image.Image
	dir     string
	gold    int // runs; 0: the usual ones
	level   Level
	battery Battery
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := nstest.Dir(t)
	st, b := nstest.Open(t, dir, filepath.Join(dir, "store"))
	host, err := st.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, images: st, lossy: &lossy{Backend: b}, host: host, dir: dir}
}

func (w *world) resolve(_ context.Context, ref string) (image.Image, error) {
	if ref == image.HostName {
		return w.host, nil
	}
	return w.images.Resolve(ref)
}

func (w *world) build(ctx context.Context, b job.BuildRequest) (image.Image, error) {
	return dockerfile.Build(ctx, dockerfile.Options{Store: w.images, Backend: w.lossy.Backend, Dir: image.HostPath(b.Dir), Resolve: b.Resolve, Base: b.Base})
}

func (w *world) prove(ctx context.Context, name string, tasks ...*task.Task) ([]Proof, error) {
	return Prove(ctx, Config{
		Dir: filepath.Join(w.dir, name), Tasks: tasks, Concurrent: 2, Gold: w.gold, Level: w.level, Battery: w.battery, Leaks: true, Cache: image.HostPath(filepath.Join(w.dir, "lines")),
		Arms: Arms{
			Gold: job.Arm{Spec: "oracle", Agent: oracle.New()}, Idle: job.Arm{Spec: "nop", Agent: nop.New()},
			Empty:    job.Arm{Spec: "empty-diff", From: "command:true", Agent: command.New("touch x && rm x")},
			Harmless: job.Arm{Spec: "harmless-edit", From: "command:echo", Agent: command.New("[ ! -e main.c ] || echo >>main.c")},
		},
	}, job.Deps{Images: w.images, Backend: w.lossy, Resolve: w.resolve, Version: "test", Build: w.build, Env: func(string) (string, bool) { return "", false }})
}

// lossy is a backend whose sandboxes fail when tests are put into them.
type lossy struct {
	sandbox.Backend
	fail func() error // nil: nothing fails
}

func (l *lossy) Create(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := l.Backend.Create(ctx, s)
	if err != nil {
		return nil, err
	}
	return &lossySandbox{sb, l}, nil
}

type lossySandbox struct {
	sandbox.Sandbox
	of *lossy
}

func (s *lossySandbox) Put(ctx context.Context, dst image.Path, tar io.Reader) error {
	if s.of.fail != nil && dst == "/tests" {
		return s.of.fail()
	}
	return s.Sandbox.Put(ctx, dst, tar)
}

// files of a task, by path.
type files map[string]string

const (
	taskTOML = "[environment]\ndocker_image = \"host\"\nworkdir = \"/app\"\n[metadata.assay]\ngrade = \"patch\"\n"
	testSh   = "#!/bin/sh\nif [ \"$(cat /app/answer 2>/dev/null)\" = done ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
	solveSh  = "#!/bin/sh\necho done >/app/answer\n"
)

// task writes a task that is solved by the word "done" in /app/answer, with
// some files changed; an empty text leaves a file out.
func (w *world) task(name string, changed files) *task.Task {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), name)
	all := files{"task.toml": taskTOML, "instruction.md": "Write done.", "environment/.keep": "\n", "tests/test.sh": testSh, "solution/solve.sh": solveSh}
	for p, text := range changed {
		all[p] = text
	}
	for p, text := range all {
		if text == "" {
			continue
		}
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	t, err := task.Load(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

func (p Proof) said() string { return strings.Join(append(p.Reasons, p.Notes...), "\n") }
