package history

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"assay/internal/forge"
	"assay/internal/forge/decide"
	"assay/internal/image"
	"assay/internal/repo"
)

// made is the repository of known answers, made once for all tests.
var made = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "assay-synthetic-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("sh", "testdata/synthetic.sh", filepath.Join(dir, "repo")).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("synthetic.sh: %w: %s", err, out)
	}
	return dir, err
})

// run runs the tests and removes what they made together.
func run(m *testing.M) int {
	code := m.Run()
	if dir, err := made(); err == nil {
		os.RemoveAll(dir)
	}
	return code
}

// synthetic is a copy of it.
func synthetic(t testing.TB) string {
	t.Helper()
	dir, err := made()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "repo")
	if out, err := exec.Command("cp", "-a", filepath.Join(dir, "repo"), to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

func gitOut(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// world is a clone and the tree of its HEAD as a healthy image at /app.
func world(t testing.TB, clone string) *forge.World {
	t.Helper()
	s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	add := func(e image.Entry, b []byte) {
		if err := w.Add(e, bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add(image.Entry{Path: "app", Type: image.TypeDir, Mode: 0o755}, nil); err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(clone), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == ".git":
			return fs.SkipDir
		case p == ".":
		case d.IsDir():
			return w.Add(image.Entry{Path: "app/" + p, Type: image.TypeDir, Mode: 0o755}, nil)
		case d.Type().IsRegular():
			b, err := os.ReadFile(filepath.Join(clone, p))
			if err != nil {
				return err
			}
			add(image.Entry{Path: "app/" + p, Type: image.TypeFile, Mode: 0o644}, b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.View([]image.LayerID{id})
	if err != nil {
		t.Fatal(err)
	}
	env := &repo.Environment{Name: "synthetic", Workdir: "/app", Layers: []image.LayerID{id}}
	return &forge.World{Env: env, Tree: v, Images: s, Git: clone, Say: t.Logf}
}

// layOut writes a healthy tree with deltas to a directory.
func layOut(t testing.TB, w *forge.World, deltas ...forge.Delta) string {
	t.Helper()
	dir := t.TempDir()
	err := w.Tree.Walk("app", func(e image.Entry) error {
		to := filepath.Join(dir, e.Path)
		if e.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := w.Tree.ReadFile(e.Path, 1<<20)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deltas {
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
		for _, e := range d {
			to := filepath.Join(dir, e.Path)
			switch e.Type {
			case "":
				err = os.Remove(to)
			case image.TypeDir:
				err = os.MkdirAll(to, 0o755)
			default:
				var b []byte
				if b, err = e.Content(w.Tree); err == nil {
					err = os.WriteFile(to, b, 0o644)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return filepath.Join(dir, "app")
}

var failLine = regexp.MustCompile(`(?m)^(?:FAIL|ERROR): (\S+) `)

// unittest runs the project's own suite and names what did not pass.
func unittest(t testing.TB, dir string) map[string]string {
	t.Helper()
	python := "/usr/bin/python3" // not a shim in front of it, which takes longer than the tests
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	cmd := exec.Command(python, "-B", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	failed := map[string]string{}
	for _, m := range failLine.FindAllStringSubmatch(string(out), -1) {
		failed[m[1]] = "failed"
	}
	if (err != nil) != (len(failed) > 0) {
		t.Fatalf("the suite cannot be read: %v\n%s", err, out)
	}
	return failed
}

// runner decides by running the suite on a copy: what the real one does in
// sandboxes, for a suite of standard library only.
type runner struct {
	t testing.TB
	w *forge.World
}

func (r runner) Decide(ctx context.Context, changes iter.Seq[decide.Change], yield func(decide.Verdict) error) error {
	for c := range changes {
		dir := layOut(r.t, r.w)
		for name, b := range c.Files {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				return err
			}
		}
		v := decide.Verdict{ID: c.ID, Class: decide.Survived, Failed: unittest(r.t, dir), Whole: true}
		if len(v.Failed) > 0 {
			v.Class = decide.Killed
		}
		if err := yield(v); err != nil {
			return err
		}
	}
	return nil
}

func propose(t testing.TB, g *Generator, w *forge.World) []forge.Candidate {
	t.Helper()
	var all []forge.Candidate
	if err := g.Propose(t.Context(), w, func(c forge.Candidate) error { all = append(all, c); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func subjectOf(t testing.TB, w *forge.World, c forge.Candidate) string {
	return strings.TrimSpace(gitOut(t, w.Git, "log", "-1", "--format=%B", c.Origin.Commit))
}

func needs(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s on this machine", path.Base(p))
		}
	}
}
