package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Subject is a backend to be tested.
type Subject struct {
	// New opens a backend that ends with the test.
	New func(testing.TB) sandbox.Backend
	// Image holds at least sh, cat, mkdir, rm, mv, ln, chmod, sleep, test, printf.
	Image image.Image
	// Walls says that the backend isolates: own processes, network and limits.
	Walls bool
	// UID is the mode of every sandbox; empty is the backend's first.
	UID sandbox.UIDMode
	// Slow shortens what is only repetition, for a backend that needs a good
	// part of a second for every sandbox.
	Slow bool
}

// Run runs the whole suite.
func Run(t *testing.T, s Subject) {
	h := harness{Subject: s, b: s.New(t)}
	t.Run("capabilities", h.capabilities)
	t.Run("exec", h.exec)
	t.Run("process", h.process)
	t.Run("trees", h.trees)
	t.Run("hostile tars", h.hostileTars)
	t.Run("branches", h.branches)
	t.Run("kill and close", h.endings)
	t.Run("end", h.ends)
	t.Run("random operations", h.random)
	t.Run("terminal", h.terminal)
	t.Run("relays", h.relays)
	t.Run("networks", h.networks)
	t.Run("interfaces", h.interfaces)
	t.Run("read-only paths", h.readOnly)
	t.Run("walls", h.walls)
	t.Run("limits", h.limits)
}

// Limits runs the part of the suite that is about limits.
func Limits(t *testing.T, s Subject) {
	h := harness{Subject: s, b: s.New(t)}
	t.Run("limits", h.limits)
}

type harness struct {
	Subject
	b sandbox.Backend
}

// patience bounds every operation of the suite: a hang is a failure with a
// place, not a test that never ends.
const patience = 60 * time.Second

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return c
}

func (h harness) create(t testing.TB, change ...func(*sandbox.Spec)) sandbox.Sandbox {
	t.Helper()
	spec := sandbox.Spec{Image: h.Image, UID: h.UID}
	for _, f := range change {
		f(&spec)
	}
	s, err := h.b.Create(ctx(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sh runs a script and returns its result.
func sh(t testing.TB, s sandbox.Starter, script string) sandbox.ExecResult {
	t.Helper()
	return run(t, s, sandbox.Command{Args: []string{"sh", "-c", script}}, sandbox.ExecOptions{})
}

func run(t testing.TB, s sandbox.Starter, c sandbox.Command, o sandbox.ExecOptions) sandbox.ExecResult {
	t.Helper()
	r, err := sandbox.Exec(ctx(t), s, c, o)
	if err != nil {
		t.Fatalf("exec %q: %v", c.Args, err)
	}
	return r
}

// ok runs a script that must succeed and returns what it printed, trimmed.
func ok(t testing.TB, s sandbox.Starter, script string) string {
	t.Helper()
	r := sh(t, s, script)
	if r.Exit.Code != 0 || r.TimedOut {
		t.Fatalf("%s\nended with %+v\n%s%s", script, r.Exit, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(string(r.Stdout))
}

func equal(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// entry is one of a tar stream.
type entry struct {
	name string
	typ  byte
	mode int64
	body string
	link string
}

// pack makes a tar stream.
func pack(t testing.TB, entries ...entry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.typ == 0 {
			e.typ = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Typeflag: e.typ, Mode: e.mode, Size: int64(len(e.body)), Linkname: e.link,
			ModTime: time.Unix(1_600_000_000, 0)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// unpack reads a tar stream.
func unpack(t testing.TB, r io.Reader) []entry {
	t.Helper()
	var out []entry
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, entry{h.Name, h.Typeflag, h.Mode, string(b), h.Linkname})
	}
}

func put(t testing.TB, s sandbox.Trees, dst image.Path, entries ...entry) {
	t.Helper()
	if err := s.Put(ctx(t), dst, pack(t, entries...)); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, s sandbox.Trees, src image.Path) []entry {
	t.Helper()
	var b bytes.Buffer
	if err := s.Get(ctx(t), src, &b, 0); err != nil {
		t.Fatal(err)
	}
	return unpack(t, &b)
}
