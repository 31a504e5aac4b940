package grade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// backendMaker is one row of the table of backends that every test of grading
// runs on.
type backendMaker struct {
	name string
	make func(t testing.TB, s *image.Store) sandbox.Backend
	// walls says that the sandbox has a root of its own, so that absolute
	// links and limits mean something.
	walls bool
}

// world is an image, a backend, and an agent's work upon them.
type world struct {
	t     testing.TB
	spy   *spy
	store *image.Store
	img   image.Image
	walls bool
}

// everywhere runs a test on each backend, with a fresh world.
func everywhere(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	for _, b := range realBackends(t) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			sp := &spy{Backend: b.make(t, s)}
			t.Cleanup(func() { sp.Close() })
			w := &world{t: t, spy: sp, store: s, walls: b.walls}
			w.img = w.image(file("etc/app.conf", "broken\n"), file("app/main.txt", "old\n"), file("app/tests/unit", "image's\n"))
			f(t, w)
		})
	}
}

// of is the same world for a part of a test.
func (w *world) of(t testing.TB) *world {
	part := *w
	part.t = t
	return &part
}

// image is the tools of this machine, read-only, and some entries upon them.
func (w *world) image(all ...content) image.Image {
	w.t.Helper()
	img := image.Image{Name: "test", Config: image.Config{Workdir: "/app"}}
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		info, err := os.Lstat(p)
		if err != nil {
			continue
		}
		if info.IsDir() {
			img.Binds = append(img.Binds, image.Bind{Source: image.HostPath(p), Target: image.Path(p)})
			continue
		}
		to, err := os.Readlink(p)
		if err != nil {
			w.t.Fatal(err)
		}
		if w.walls {
			all = append(all, link(strings.TrimPrefix(p, "/"), to))
		}
	}
	if w.walls {
		all = append(all, dir("tmp"), file("etc/passwd", "root:x:0:0::/:/bin/sh\n"))
	}
	img.Layers = []image.LayerID{layer(w.t, w.store, nil, all...)}
	return img
}

// agent lets a shell script work in /app, kills everything and freezes.
func (w *world) agent(script string) EndState {
	w.t.Helper()
	sb := w.live(script)
	snap, err := sb.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	id, err := w.spy.Commit(w.t.Context(), snap)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := sb.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.spy.forget()
	return EndState{Snapshot: snap, Layer: id}
}

// live lets a shell script work in /app and leaves the sandbox running.
func (w *world) live(script string) sandbox.Sandbox {
	w.t.Helper()
	sb, err := w.spy.Create(w.t.Context(), sandbox.Spec{Image: w.img})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { sb.Close() })
	w.run(sb, script)
	return sb
}

func (w *world) run(sb sandbox.Sandbox, script string) string {
	w.t.Helper()
	res, err := sandbox.Exec(w.t.Context(), sb, sandbox.Command{Args: []string{"/bin/sh", "-c", script}, Dir: "/app"}, sandbox.ExecOptions{Timeout: 20 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	if res.Exit.Code != 0 || res.TimedOut {
		w.t.Fatalf("%q ended with %d: %s%s", script, res.Exit.Code, res.Stdout, res.Stderr)
	}
	return string(res.Stdout)
}

// tests makes a host directory with a test script and other files.
func tests(t testing.TB, script string, more ...content) []string {
	t.Helper()
	d := t.TempDir()
	for _, c := range append(more, exe("test.sh", "#!/bin/sh\n"+script+"\n")) {
		p := filepath.Join(d, c.Path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if c.Type == image.TypeSymlink {
			err = os.Symlink(c.Link, p)
		} else {
			err = os.WriteFile(p, []byte(c.text), 0o644) // the script is made executable in the sandbox
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{d}
}

// request is a state-graded step with a test script.
func (w *world) request(end EndState, script string, more ...content) Request {
	w.t.Helper()
	return Request{
		Key:     task.Key{Tests: tests(w.t, script, more...), Script: "test.sh", Grade: task.GradeState, Timeout: 20 * time.Second},
		Backend: w.spy, Store: w.store, Image: w.img, End: end, Workdir: "/app",
		Out: image.HostPath(filepath.Join(w.t.TempDir(), "verifier")),
	}
}

func (w *world) grade(r Request) Verdict {
	w.t.Helper()
	v, err := Grade(w.t.Context(), r)
	if err != nil {
		w.t.Fatalf("grade: %v (so far %+v)", err, v)
	}
	if v.Evidence != trial.SelfReported || v.Mode == "" || v.GradeTime <= 0 || v.TestsTime > v.GradeTime {
		w.t.Errorf("verdict is incomplete: %+v", v)
	}
	if _, err := v.Cause.Ending(); err != nil {
		w.t.Error(err)
	}
	return v
}

// want checks a verdict's cause, and for one without rewards that it says why.
func (w *world) want(v Verdict, cause trial.Cause, detail string) {
	w.t.Helper()
	if v.Cause != cause || !strings.Contains(v.Detail, detail) {
		w.t.Errorf("cause %s (%s), want %s (%s); notes %q", v.Cause, v.Detail, cause, detail, v.Notes)
	}
	graded := cause == trial.CauseSolved || cause == trial.CauseUnsolved
	if graded != (v.Rewards != nil) || !graded && v.Detail == "" {
		w.t.Errorf("cause %s with rewards %v and detail %q", v.Cause, v.Rewards, v.Detail)
	}
}

// onHost reads a file of the trial's verifier directory; "" if there is none.
func onHost(t testing.TB, r Request, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(string(r.Out), name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}
