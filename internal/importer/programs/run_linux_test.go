package programs

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/program"
	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/importer"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
	"assay/internal/sandbox/ns/nstest"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// with makes sandboxes of this machine's tools that hold solution.py.
func with(t *testing.T) func(source []byte) func(context.Context) (sandbox.Sandbox, error) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip(err)
	}
	dir := nstest.Dir(t)
	store, b := nstest.Open(t, dir, filepath.Join(dir, "store"))
	img, err := store.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) func(context.Context) (sandbox.Sandbox, error) {
		return func(ctx context.Context) (sandbox.Sandbox, error) {
			sb, err := b.Create(ctx, sandbox.Spec{Image: img})
			if err != nil {
				return nil, err
			}
			var buf bytes.Buffer
			w := tar.NewWriter(&buf)
			err = w.WriteHeader(&tar.Header{Name: source, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg})
			if err == nil {
				_, err = w.Write(text)
			}
			if err = errors.Join(err, w.Close()); err == nil {
				err = sb.Put(ctx, "/app", &buf)
			}
			return sb, err
		}
	}
}

// Gold solves what is imported, the stub and a few cheats nothing.
func TestGoldAndNothing(t *testing.T) {
	box := with(t)
	cache := image.HostPath(t.TempDir())
	for _, tt := range []struct {
		im  importer.Importer
		src string
	}{{MBPP{}, "testdata/mbpp.jsonl"}, {MBPP{}, "testdata/sanitized.json"}, {EvalPlus{}, "testdata/humanevalplus.jsonl"}, {EvalPlus{}, "testdata/mbppplus.jsonl"}} {
		out := imported(t, tt.im, tt.src)
		tasks, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tasks {
			dir := filepath.Join(out, d.Name())
			p, err := checks.Load(filepath.Join(dir, "tests"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"solution/solution.py", "environment/solution.py", "solution/solution.py"} {
				text, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range p.Cases {
					suite, err := program.Load(os.DirFS(filepath.Join(dir, "tests")), g)
					if err != nil {
						t.Fatal(err)
					}
					ran, err := program.Run(t.Context(), program.Request{Suite: suite, Fresh: box(text), Pristine: box(nil), Workdir: "/app", Cache: cache})
					if err != nil || ran.Err != "" || len(ran.Tests) != len(suite.Cases) {
						t.Fatalf("%s: %v %s", d.Name(), err, ran.Err)
					}
					for _, r := range ran.Tests {
						if gold := file == "solution/solution.py"; (r.Status == report.Passed) != gold {
							t.Errorf("%s: %s of %s: %s %s", d.Name(), r.ID, file, r.Status, r.Message)
						}
					}
				}
			}
		}
	}
	if kept, err := os.ReadDir(string(cache)); err != nil || len(kept) != 3 {
		t.Errorf("%d answers of references are kept (%v), want one for each of three tasks", len(kept), err)
	}
}
