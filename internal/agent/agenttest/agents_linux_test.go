package agenttest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent"
	"assay/internal/agent/command"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/agent/script"
	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// opener returns what makes sandboxes of this machine's tools and an empty
// /work, or skips where there can be none.
func opener(t *testing.T) func(testing.TB) sandbox.Sandbox {
	t.Helper()
	o := image.Options{Volatile: true}
	if os.Geteuid() == 0 {
		o.Owner = &image.Owner{UID: ns.DefaultRootUID, GID: ns.DefaultRootUID}
	}
	store, err := image.Open(image.HostPath(t.TempDir()), o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: store, Scratch: image.HostPath(t.TempDir())})
	var refused *doctor.Refusal
	if errors.As(err, &refused) {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	img := tools(t, store)
	return func(t testing.TB) sandbox.Sandbox {
		sb, err := b.Create(t.Context(), sandbox.Spec{Image: img})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sb.Close() })
		return sb
	}
}

func tools(t testing.TB, store *image.Store) image.Image {
	t.Helper()
	w, err := store.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	img := image.Image{Name: "tools", Config: image.Config{Env: []string{"PATH=/usr/bin:/bin"}}}
	add := func(e image.Entry) {
		if err := w.Add(e, nil); err != nil {
			t.Fatal(err)
		}
	}
	add(image.Entry{Path: "work", Type: image.TypeDir, Mode: 0o755})
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		info, err := os.Lstat(p)
		switch {
		case err != nil:
		case info.IsDir():
			img.Binds = append(img.Binds, image.Bind{Source: image.HostPath(p), Target: image.Path(p)})
		default:
			to, err := os.Readlink(p)
			if err != nil {
				t.Fatal(err)
			}
			add(image.Entry{Path: p[1:], Type: image.TypeSymlink, Link: to})
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	img.Layers = []image.LayerID{id}
	return img
}

const (
	works = `[ "$FROM_SESSION" = yes ] && echo worked >>/work/out`
	fails = `echo failing; exit 3`
	hangs = `trap '' TERM; while :; do echo beat >>/work/beat; sleep 0.02; done`
)

func TestNop(t *testing.T) {
	Run(t, Suite{Open: opener(t), Works: Case{Agent: nop.New()}, NoProgram: true})
}

func TestOracle(t *testing.T) {
	sh := func(s string) *Case { return &Case{Agent: oracle.New(), Solution: "#!/bin/sh\n" + s + "\n"} }
	Run(t, Suite{Open: opener(t), Works: *sh(works), Fails: sh(fails), Hangs: sh(hangs)})
}

func TestCommand(t *testing.T) {
	sh := func(s string) *Case { return &Case{Agent: command.New(s)} }
	Run(t, Suite{Open: opener(t), Works: *sh(works), Fails: sh(fails), Hangs: sh(hangs)})
}

func TestScript(t *testing.T) {
	sh := func(s string) *Case {
		a, err := script.New("test", []byte("#!/bin/sh\n# step: look\ntrue\n# step: work\n"+s+"\n# step: never\n# task: other/*\nexit 9\n"))
		if err != nil {
			t.Fatal(err)
		}
		return &Case{Agent: a}
	}
	Run(t, Suite{Open: opener(t), Works: *sh(works), Fails: sh(fails), Hangs: sh(hangs)})
}

// Programs find the brief as a file and as a variable, whole in the one and
// without zero bytes in the other.
func TestBrief(t *testing.T) {
	c := Case{Agent: command.New(`printf '%s|%s|%s|' "$ASSAY_TASK" "$ASSAY_STEP" "$ASSAY_BRIEF_FILE"; printf %s "$ASSAY_BRIEF" >/tmp/a; tr -d '\000' <"$ASSAY_BRIEF_FILE" | cmp - /tmp/a && echo same`)}
	s := Suite{Open: opener(t), Works: c}
	ses, _ := s.session(t, c)
	if _, err := c.Agent.Run(t.Context(), ses); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(string(ses.Logs), "command.txt"))
	if err != nil || string(b) != "org/name|first|/tmp/assay/brief.md|same\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// A brief longer than any variable may be still reaches the program.
func TestHugeBrief(t *testing.T) {
	open := opener(t)
	a := command.New(`wc -c <"$ASSAY_BRIEF_FILE"; printf %s "$ASSAY_BRIEF" | wc -c`)
	b := brief()
	b.Instruction = strings.Repeat("ä", 1<<20)
	needs, err := a.Needs(b)
	if err != nil {
		t.Fatal(err)
	}
	sb := open(t)
	if err := putFile(t.Context(), sb, needs.Files[0]); err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	ses := agent.Session{Brief: b, Sandbox: sb, Workdir: "/work", Recorder: agent.NewRecorder(a.Info(), b, nil), Logs: image.HostPath(logs)}
	if r, err := a.Run(t.Context(), ses); err != nil || *r.Exit != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if out, err := os.ReadFile(filepath.Join(logs, "command.txt")); err != nil || string(out) != "2097152\n102400\n" {
		t.Errorf("%q, %v", out, err)
	}
	valid(t, ses.Recorder)
}

// An oracle without a solution, and a shell that is not there, are reports.
func TestNothingToRun(t *testing.T) {
	s := Suite{Open: opener(t)}
	c := Case{Agent: oracle.New(), Solution: "#!/nonexistent/interpreter\n"}
	ses, _ := s.session(t, c)
	r, err := c.Agent.Run(t.Context(), ses)
	if err != nil || r.Exit == nil || *r.Exit == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	ses.Workdir = "/nonexistent"
	r, err = c.Agent.Run(t.Context(), ses)
	if err != nil || r.Exit == nil || *r.Exit != 127 {
		t.Errorf("without a workdir: %+v, %v", r, err)
	}
	valid(t, ses.Recorder)
}

// Output beyond the cap is dropped, said so, and in order.
func TestOutputCap(t *testing.T) {
	s := Suite{Open: opener(t)}
	c := Case{Agent: command.New(`echo first; echo second >&2; head -c 3000000 /dev/zero | tr '\000' x`)}
	ses, _ := s.session(t, c)
	ses.Output = 100_000
	if _, err := c.Agent.Run(t.Context(), ses); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(string(ses.Logs), "command.txt"))
	if err != nil || !strings.HasPrefix(string(out), "first\nsecond\nxxx") || len(out) > 101_000 || !strings.Contains(string(out), "dropped") {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if text := observations(valid(t, ses.Recorder)); len(text) > 101_000 || !strings.Contains(text, "dropped") {
		t.Errorf("%d bytes in the trajectory", len(text))
	}
}
