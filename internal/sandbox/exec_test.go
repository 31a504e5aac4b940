package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

func box(t *testing.T) sandbox.Sandbox {
	t.Helper()
	st, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	b := fake.Open(st)
	t.Cleanup(func() { b.Close() })
	s, err := b.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shell(script string) sandbox.Command {
	return sandbox.Command{Args: []string{"sh", "-c", script}}
}

// One writer for both streams gets all of both, whole writes at a time; the
// race detector watches.
func TestExecMergesStreams(t *testing.T) {
	var both bytes.Buffer
	r, err := sandbox.Exec(t.Context(), box(t), shell("for i in 1 2 3 4 5 6 7 8; do echo out; echo err >&2; done"),
		sandbox.ExecOptions{Stdout: &both, Stderr: &both})
	if err != nil || len(r.Stdout) != 32 || len(r.Stderr) != 32 {
		t.Fatalf("%+v, %v", r, err)
	}
	if strings.Count(both.String(), "out\n") != 8 || strings.Count(both.String(), "err\n") != 8 {
		t.Errorf("%q", both.String())
	}
}

// A reader that never returns is left behind; nothing else is.
func TestExecLeavesOnlyASilentReader(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := box(t)
	in, w := io.Pipe()
	if _, err := sandbox.Exec(t.Context(), s, shell("exit 1"), sandbox.ExecOptions{Stdin: in}); err != nil {
		t.Fatal(err)
	}
	w.Close() // lets it go
	s.Close()
}

// lost is a process that the sandbox took along.
type lost struct {
	sandbox.Process
	closed atomic.Int32
	out    *io.PipeReader
}

func (p *lost) Start(context.Context, sandbox.Command) (sandbox.Process, error) { return p, nil }
func (p *lost) Stdout() io.Reader                                               { return p.out }
func (p *lost) Stderr() io.Reader                                               { return strings.NewReader("") }
func (p *lost) Wait(context.Context) (sandbox.Exit, error)                      { return sandbox.Exit{}, sandbox.ErrLost }
func (p *lost) Signal(context.Context, syscall.Signal) error                    { return sandbox.ErrLost }
func (p *lost) Close() error                                                    { p.closed.Add(1); return p.out.Close() }

func TestExecInALostSandbox(t *testing.T) {
	out, w := io.Pipe()
	p := &lost{out: out}
	go w.Write([]byte("before")) // ends when the reader closes
	begin := time.Now()
	_, err := sandbox.Exec(t.Context(), p, shell("true"), sandbox.ExecOptions{})
	if !errors.Is(err, sandbox.ErrLost) || p.closed.Load() == 0 || time.Since(begin) > 5*time.Second {
		t.Errorf("%v, closed %d times, after %v", err, p.closed.Load(), time.Since(begin))
	}
}

// A full disk under the caller's file does not stop the program.
func TestExecGoesOnWhenAWriterFails(t *testing.T) {
	r, err := sandbox.Exec(t.Context(), box(t), shell("echo one; echo two"), sandbox.ExecOptions{Stdout: failing{}})
	if err != nil || r.Exit.Code != 0 || string(r.Stdout) != "one\ntwo\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space") }
