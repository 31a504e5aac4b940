package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/sandbox"
)

func (h harness) exec(t *testing.T) {
	s := h.create(t, func(sp *sandbox.Spec) {
		sp.Image.Config.Env = []string{"FROM_IMAGE=image", "BOTH=image"}
		sp.Image.Config.Workdir = "/desk"
	})
	t.Run("streams and status", func(t *testing.T) {
		r := sh(t, s, "echo out; echo err >&2; exit 7")
		equal(t, "stdout", string(r.Stdout), "out\n")
		equal(t, "stderr", string(r.Stderr), "err\n")
		if r.Exit.Code != 7 || r.Exit.Signal != 0 || r.TimedOut || r.Cancelled || r.Wall <= 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("stdin", func(t *testing.T) {
		in := strings.Repeat("0123456789", 50_000)
		r := run(t, s, sandbox.Command{Args: []string{"cat"}}, sandbox.ExecOptions{Stdin: strings.NewReader(in)})
		if string(r.Stdout) != in {
			t.Errorf("%d of %d bytes came through", len(r.Stdout), len(in))
		}
		r = run(t, s, sandbox.Command{Args: []string{"cat"}}, sandbox.ExecOptions{})
		equal(t, "without stdin", string(r.Stdout), "")
	})
	t.Run("stdin that never ends", func(t *testing.T) {
		never, w := io.Pipe()
		defer w.Close()
		begin := time.Now()
		r := run(t, s, sandbox.Command{Args: []string{"sh", "-c", "exit 3"}}, sandbox.ExecOptions{Stdin: never})
		if r.Exit.Code != 3 || time.Since(begin) > 10*time.Second {
			t.Errorf("%+v after %v", r.Exit, time.Since(begin))
		}
	})
	t.Run("environment", func(t *testing.T) {
		r := run(t, s, sandbox.Command{Args: []string{"sh", "-c", "echo $FROM_IMAGE $BOTH $OWN $HOME"},
			Env: []string{"BOTH=command", "OWN=1", "OWN=2"}}, sandbox.ExecOptions{})
		equal(t, "variables", string(r.Stdout), "image command 2 /root\n")
	})
	t.Run("directory", func(t *testing.T) {
		equal(t, "the image's", ok(t, s, "pwd"), "/desk")
		r := run(t, s, sandbox.Command{Args: []string{"pwd"}, Dir: "/tmp"}, sandbox.ExecOptions{})
		equal(t, "the command's", string(r.Stdout), "/tmp\n")
	})
	t.Run("not started", func(t *testing.T) {
		ok(t, s, "echo hello > /desk/plain; chmod 644 /desk/plain; mkdir -p /desk/dir")
		for _, c := range []sandbox.Command{
			{Args: []string{"no-such-program"}}, {Args: []string{"/no/such/program"}}, {Args: []string{"/desk/plain"}},
			{Args: []string{"/desk/dir"}}, {Args: []string{"sh"}, Dir: "/no/such/directory"}, {}, {Args: []string{""}},
		} {
			if _, err := sandbox.Exec(ctx(t), s, c, sandbox.ExecOptions{}); !errors.Is(err, sandbox.ErrNotStarted) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
	t.Run("caps", func(t *testing.T) {
		var seen bytes.Buffer
		r := run(t, s, sandbox.Command{Args: []string{"sh", "-c", "cat; echo e >&2"}},
			sandbox.ExecOptions{Stdin: bytes.NewReader(make([]byte, 300_000)), Cap: 1000, Stdout: &seen})
		if len(r.Stdout) != 1000 || r.Dropped != 299_000 || seen.Len() != 1000 || string(r.Stderr) != "e\n" {
			t.Errorf("kept %d, dropped %d, passed on %d, stderr %q", len(r.Stdout), r.Dropped, seen.Len(), r.Stderr)
		}
	})
	t.Run("long arguments", func(t *testing.T) {
		long := strings.Repeat("x", 100_000)
		r := run(t, s, sandbox.Command{Args: []string{"sh", "-c", "printf '%s' \"$1\"", "sh", long}, Env: []string{"A=" + long}}, sandbox.ExecOptions{})
		if string(r.Stdout) != long {
			t.Errorf("%d of %d bytes came through", len(r.Stdout), len(long))
		}
	})
	t.Run("many at once", func(t *testing.T) {
		done := make(chan error, 16)
		for range cap(done) {
			go func() {
				r, err := sandbox.Exec(ctx(t), s, sandbox.Command{Args: []string{"sh", "-c", "cat"}}, sandbox.ExecOptions{Stdin: strings.NewReader("hi")})
				if err == nil && string(r.Stdout) != "hi" {
					err = errors.New("got " + string(r.Stdout))
				}
				done <- err
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	h.deadlines(t, s)
}

func (h harness) deadlines(t *testing.T, s sandbox.Sandbox) {
	sleep := sandbox.Command{Args: []string{"sleep", "600"}}
	t.Run("timeout", func(t *testing.T) {
		r := run(t, s, sleep, sandbox.ExecOptions{Timeout: 50 * time.Millisecond})
		if !r.TimedOut || r.Cancelled || r.Exit.Signal != syscall.SIGKILL || r.Exit.Code != 137 || r.Wall > 20*time.Second {
			t.Errorf("%+v", r)
		}
	})
	t.Run("timeout with grace", func(t *testing.T) {
		r := run(t, s, sleep, sandbox.ExecOptions{Timeout: 50 * time.Millisecond, Grace: 20 * time.Second})
		if !r.TimedOut || r.Exit.Signal != syscall.SIGTERM || r.Exit.Code != 143 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("deaf program", func(t *testing.T) {
		r := run(t, s, sandbox.Command{Args: []string{"sh", "-c", "trap '' TERM; while true; do sleep 1; done"}},
			sandbox.ExecOptions{Timeout: 100 * time.Millisecond, Grace: 200 * time.Millisecond})
		if !r.TimedOut || r.Exit.Signal != syscall.SIGKILL {
			t.Errorf("%+v", r)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		c, cancel := context.WithCancel(ctx(t))
		time.AfterFunc(50*time.Millisecond, cancel)
		r, err := sandbox.Exec(c, s, sleep, sandbox.ExecOptions{Timeout: time.Hour})
		if err != nil || !r.Cancelled || r.TimedOut {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("child that holds the output", func(t *testing.T) {
		begin := time.Now()
		r := run(t, s, sandbox.Command{Args: []string{"sh", "-c", "sleep 600 & echo done"}}, sandbox.ExecOptions{})
		if string(r.Stdout) != "done\n" || r.Exit.Code != 0 || time.Since(begin) > 10*time.Second {
			t.Errorf("%+v after %v", r, time.Since(begin))
		}
		if err := s.Kill(ctx(t)); err != nil {
			t.Error(err)
		}
	})
}

func (h harness) process(t *testing.T) {
	s := h.create(t)
	start := func(t *testing.T, c sandbox.Command) sandbox.Process {
		t.Helper()
		p, err := s.Start(ctx(t), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	t.Run("dialogue", func(t *testing.T) {
		p := start(t, sandbox.Command{Args: []string{"cat"}, Stdin: true})
		buf := make([]byte, 4)
		for _, word := range []string{"ping", "pong"} {
			if _, err := io.WriteString(p.Stdin(), word); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(p.Stdout(), buf); err != nil {
				t.Fatal(err)
			}
			equal(t, "answer", string(buf), word)
		}
		if err := p.Stdin().Close(); err != nil {
			t.Error(err)
		}
		for range 2 { // waiting again gives the same
			if e, err := p.Wait(ctx(t)); err != nil || e.Code != 0 {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
	t.Run("wait gives up, the program does not", func(t *testing.T) {
		p := start(t, sandbox.Command{Args: []string{"sleep", "600"}})
		c, cancel := context.WithTimeout(ctx(t), 20*time.Millisecond)
		defer cancel()
		if _, err := p.Wait(c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if err := p.Signal(ctx(t), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if e, err := p.Wait(ctx(t)); err != nil || e.Signal != syscall.SIGTERM {
			t.Errorf("%+v, %v", e, err)
		}
		if err := p.Signal(ctx(t), syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal after the end: %v", err)
		}
	})
	t.Run("signals reach the session", func(t *testing.T) {
		p := start(t, sandbox.Command{Args: []string{"sh", "-c", "sleep 600 & sleep 600 & echo up; wait"}})
		if _, err := io.ReadFull(p.Stdout(), make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(ctx(t), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// The children hold the pipe: its end means that they are gone, too.
		rest := make(chan error, 1)
		go func() { _, err := io.ReadAll(p.Stdout()); rest <- err }()
		select {
		case err := <-rest:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the session's children live on")
		}
	})
	t.Run("close ends program and readers", func(t *testing.T) {
		p := start(t, sandbox.Command{Args: []string{"sh", "-c", "echo up; sleep 600"}})
		if _, err := io.ReadFull(p.Stdout(), make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		rest := make(chan struct{})
		go func() { io.ReadAll(p.Stdout()); close(rest) }()
		for range 2 {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		select {
		case <-rest:
		case <-time.After(10 * time.Second):
			t.Error("a reader hangs")
		}
		if e, err := p.Wait(ctx(t)); err != nil || e.Signal != syscall.SIGKILL {
			t.Errorf("%+v, %v", e, err)
		}
	})
	t.Run("resources", func(t *testing.T) {
		r := sh(t, s, "i=0; while test $i -lt 2000; do i=$((i+1)); done")
		if h.Walls && (r.Exit.CPU <= 0 || r.Exit.MaxRSS < 100<<10) {
			t.Errorf("%+v", r.Exit)
		}
	})
}
