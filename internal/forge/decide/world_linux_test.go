package decide

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/doctor"
	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/repo"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	code := m.Run()
	shared.close()
	os.Exit(code)
}

// shared is the store and the backend of all tests.
var shared place

type place struct {
	once    sync.Once
	dir     string
	images  *image.Store
	backend sandbox.Backend
	err     error
}

func (p *place) open() (err error) {
	if p.dir, err = os.MkdirTemp("", "assay-decide-"); err != nil {
		return err
	}
	if err := os.Chmod(p.dir, 0o755); err != nil {
		return err
	}
	p.images, err = image.Open(image.HostPath(filepath.Join(p.dir, "store")), image.Options{Volatile: true, Owner: ns.Owner()})
	if err != nil {
		return err
	}
	b, err := ns.Open(context.Background(), ns.Config{Store: p.images, Scratch: image.HostPath(filepath.Join(p.dir, "scratch"))})
	if err != nil {
		return err
	}
	p.backend = b
	_, err = p.images.Host(context.Background(), image.HostOptions{})
	return err
}

func (p *place) close() {
	if p.backend != nil {
		p.backend.Close()
	}
	if p.dir != "" {
		exec.Command("chmod", "-R", "u+w", p.dir).Run()
		os.RemoveAll(p.dir)
	}
}

// world is one project, made ready by hand upon this machine's own tools.
type world struct {
	t   *testing.T
	env *repo.Environment
}

// project makes an environment of files below /app and a command whose suite is
// measured by one run. install are lines of its Dockerfile; tool is what must
// be below /usr.
func project(t *testing.T, dir string, install string, cmd repo.Command, tools ...string) *world {
	t.Helper()
	for _, tool := range tools {
		if _, err := os.Stat(tool); err != nil {
			t.Skipf("no %s on this machine", tool)
		}
	}
	shared.once.Do(func() { shared.err = shared.open() })
	var refused *doctor.Refusal
	if errors.As(shared.err, &refused) {
		t.Skipf("no sandbox on this machine: %v", shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	name := strings.ToLower(strings.NewReplacer("/", "-", "#", "-").Replace(t.Name()))
	context := t.TempDir()
	if err := os.CopyFS(filepath.Join(context, "repo"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	text := "FROM host\nENV HOME=/root LC_ALL=C.UTF-8\nWORKDIR /app\nCOPY repo /app\n" + install + "\n"
	if err := os.WriteFile(filepath.Join(context, "Dockerfile"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	im, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: shared.images, Backend: shared.backend,
		Dir: image.HostPath(context), Name: "forge/" + name + ":1", Progress: &said})
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	w := &world{t: t, env: &repo.Environment{Version: 1, Name: name, Image: "forge/" + name + ":1", Tag: string(im.ID)[:16],
		Layers: im.Layers, Workdir: "/app", Suite: repo.Suite{Commands: []repo.Command{cmd}}}}
	w.measure()
	return w
}

// measure lists the suite's tests by one run of its own command.
func (w *world) measure() {
	w.t.Helper()
	d, err := New(w.t.Context(), Config{Env: w.env, Images: shared.images, Backend: shared.backend, Floor: 2 * time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	defer d.Close()
	for _, c := range d.suite.commands {
		k, err := newCold(w.t.Context(), d, c)
		if err != nil {
			w.t.Fatal(err)
		}
		o, err := k.(*cold).one(w.t.Context(), &request{})
		k.close()
		if err != nil || o.broken != "" || o.crashed != "" || o.timedOut {
			w.t.Fatalf("the healthy suite: %v %+v", err, o)
		}
		for i := range w.env.Suite.Commands {
			if x := &w.env.Suite.Commands[i]; x.Name == c.Name {
				x.BaselineMillis = float64(o.took.Milliseconds())
			}
		}
		for _, id := range slices.Sorted(maps.Keys(o.status)) {
			st := repo.Failing
			if o.status[id] == report.Passed {
				st = repo.Stable
			}
			file, _, _ := strings.Cut(id, "::")
			file, _, _ = strings.Cut(file, " > ") // of Jest and Vitest
			if !strings.Contains(file, ".") {
				file = ""
			}
			w.env.Suite.Tests = append(w.env.Suite.Tests, repo.Test{ID: id, Command: c.Name, File: file, Stability: st, Millis: 1})
		}
	}
	if len(w.env.Suite.Tests) == 0 {
		w.t.Fatal("the healthy suite has no tests")
	}
}

// decide decides changes and gives the verdicts by id.
func (w *world) decide(c Config, changes ...Change) map[string]Verdict {
	w.t.Helper()
	return w.decided(w.decider(c), changes)
}

// decider is closed when the test ends.
func (w *world) decider(c Config) *Decider {
	w.t.Helper()
	c.Env, c.Images, c.Backend, c.Say = w.env, shared.images, shared.backend, w.t.Logf
	d, err := New(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { d.Close() })
	return d
}

func (w *world) decided(d *Decider, changes []Change) map[string]Verdict {
	w.t.Helper()
	got := map[string]Verdict{}
	err := d.Decide(w.t.Context(), slices.Values(changes), func(v Verdict) error {
		got[v.ID] = v
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// swap is a change of one text into another in a file of the healthy tree.
func (w *world) swap(id, file, old, new string) Change {
	w.t.Helper()
	b := w.old(file)
	if strings.Count(string(b), old) != 1 {
		w.t.Fatalf("%s has %q %d times", file, old, strings.Count(string(b), old))
	}
	return Change{ID: id, Files: map[string][]byte{file: []byte(strings.Replace(string(b), old, new, 1))}}
}

// classes is what became of each, in a form that a test can compare.
func classes(got map[string]Verdict) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(got)) {
		out = append(out, fmt.Sprintf("%s %s", id, got[id].Class))
	}
	return strings.Join(out, "\n")
}

// old is a file of the healthy tree.
func (w *world) old(file string) []byte {
	w.t.Helper()
	im, err := shared.images.Resolve(w.env.Image)
	if err != nil {
		w.t.Fatal(err)
	}
	v, err := shared.images.View(im.Layers)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := v.ReadFile("/app/"+file, maxFile)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// suiteCommand is a test's, with its report.
func suiteCommand(name, run string, format report.Format, files ...string) repo.Command {
	return repo.Command{Command: checks.Command{Name: name, Run: run, Report: format, Files: files}}
}
