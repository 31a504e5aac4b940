package foreign

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/egress"
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
	backend sandbox.Backend
	host    image.Image
	dir     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := nstest.Dir(t)
	st, b := nstest.Open(t, dir, filepath.Join(dir, "store"))
	host, err := st.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, images: st, backend: b, host: host, dir: dir}
}

// gate writes its ledger into a file, as the command line's does.
type gate struct {
	*egress.Gate
	file *os.File
}

func (g gate) Allow(phase string, byTask, byOperator []string) error {
	rules, err := egress.ParseRules(byOperator, true)
	if err != nil {
		return err
	}
	more, err := egress.ParseRules(byTask, false)
	g.Gate.Allow(phase, append(rules, more...), false)
	return err
}

func (g gate) Close() error { return errors.Join(g.Gate.Close(), g.file.Close()) }

func (w *world) resolve(_ context.Context, ref string) (image.Image, error) {
	if ref == image.HostName {
		return w.host, nil
	}
	return w.images.Resolve(ref)
}

// build makes images offline, or with the way to some hosts.
func (w *world) build(allow ...string) func(ctx context.Context, b job.BuildRequest) (image.Image, error) {
	return func(ctx context.Context, b job.BuildRequest) (image.Image, error) {
		o := dockerfile.Options{Store: w.images, Backend: w.backend, Dir: image.HostPath(b.Dir), Resolve: b.Resolve, Base: b.Base}
		if len(allow) > 0 {
			rules, err := egress.ParseRules(allow, true)
			if err != nil {
				return image.Image{}, err
			}
			g := egress.New(egress.Config{Rules: rules, Ledger: &egress.Ledger{}})
			defer g.Close()
			o.Network, o.Egress = sandbox.NetAllowlist, g
		}
		return dockerfile.Build(ctx, o)
	}
}

func (w *world) deps() job.Deps {
	return job.Deps{
		Images: w.images, Backend: w.backend, Resolve: w.resolve, Version: "test", Build: w.build(), Env: func(string) (string, bool) { return "", false },
		Egress: func(r job.EgressRequest) (job.Gate, error) {
			f, err := os.Create(r.Ledger)
			return gate{egress.New(egress.Config{Ledger: egress.NewLedger(f, 0)}), f}, err
		},
	}
}

// tree is the files of a task, by path.
type tree map[string]string

// task writes and loads a task.
func (w *world) task(name string, all tree) *task.Task {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), name)
	for p, text := range all {
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

// on is the same world for a subtest.
func (w *world) on(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}
