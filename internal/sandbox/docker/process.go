package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"assay/internal/sandbox"
	"assay/internal/sandbox/docker/wire"
)

// process implements sandbox.Process.
type process struct {
	s       *Sandbox
	l       *link
	control *wire.Stream
	number  int
	stdin   *wire.Stream
	stdout  *wire.Stream
	stderr  *wire.Stream
	killed  atomic.Bool // by a reset or close of the sandbox
	done    chan struct{}
	exit    sandbox.Exit
	err     error
	close   sync.Once
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Start runs a program.
func (s *Sandbox) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	p, err := s.start(ctx, cmd)
	if err != nil {
		name := ""
		if len(cmd.Args) > 0 {
			name = cmd.Args[0]
		}
		return nil, fmt.Errorf("start %.200q: %w", name, err)
	}
	return p, nil
}

func (s *Sandbox) start(ctx context.Context, cmd sandbox.Command) (_ *process, err error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s.change.RLock() // released once the program runs
	defer s.change.RUnlock()
	l, err := s.link()
	if err != nil {
		return nil, err
	}
	p := &process{s: s, l: l, done: make(chan struct{})}
	defer func() {
		if err != nil {
			p.free()
		}
	}()
	q := s.request(cmd)
	pipe := func(to **wire.Stream, i int) {
		if err == nil {
			*to, err = l.open(wire.Request{Op: wire.OpPipe})
		}
		if err == nil {
			q.Pipes[i] = (*to).ID()
		}
	}
	if cmd.Stdin || cmd.TTY != nil {
		pipe(&p.stdin, 0)
	}
	pipe(&p.stdout, 1)
	if cmd.TTY == nil {
		pipe(&p.stderr, 2)
	}
	if err == nil {
		p.control, err = l.open(q)
	}
	if err != nil {
		return nil, s.broken(l, err)
	}
	answers := json.NewDecoder(io.LimitReader(p.control, maxReply))
	r, err := answer(context.WithoutCancel(ctx), answers)
	if err != nil {
		return nil, s.broken(l, err)
	}
	p.number = r.Program
	s.mu.Lock()
	s.procs[p] = true
	s.mu.Unlock()
	go p.await(answers)
	return p, nil
}

// request says how a program is to start.
func (s *Sandbox) request(cmd sandbox.Command) wire.Request {
	conf := s.spec.Image.Config
	q := wire.Request{Op: wire.OpStart, Args: cmd.Args, Dir: string(cmd.Dir), User: cmd.User, Pipes: make([]uint32, 3)}
	if q.Dir == "" {
		q.Dir = string(conf.Workdir)
	}
	if q.Dir == "" {
		q.Dir = "/"
	}
	if q.User == "" {
		q.User = conf.User
	}
	q.Env = mergeEnv([]string{"PATH=" + defaultPath}, conf.Env, s.gateEnv(), cmd.Env)
	if cmd.TTY != nil {
		q.TTY, q.Rows, q.Cols = true, cmd.TTY.Rows, cmd.TTY.Cols
		q.Env = mergeEnv([]string{"TERM=xterm"}, q.Env)
	}
	return q
}

// mergeEnv lets later values win and keeps the order of first mention.
func mergeEnv(lists ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, l := range lists {
		for _, e := range l {
			k, _, ok := strings.Cut(e, "=")
			if !ok || k == "" {
				continue
			}
			if i, seen := at[k]; seen {
				out[i] = e
				continue
			}
			at[k] = len(out)
			out = append(out, e)
		}
	}
	return out
}

// await takes the news of the program's end.
func (p *process) await(answers *json.Decoder) {
	r, err := answer(context.Background(), answers)
	switch {
	case err == nil && r.Exited != nil:
		ws := syscall.WaitStatus(r.Exited.Status)
		p.exit = sandbox.Exit{Code: ws.ExitStatus(), CPU: time.Duration(r.Exited.CPU), MaxRSS: r.Exited.MaxRSS, OutOfMemory: r.Exited.Memory}
		if ws.Signaled() {
			p.exit.Signal, p.exit.Code = ws.Signal(), 128+int(ws.Signal())
		}
	case p.killed.Load(): // its container went, and it with it
		p.exit = sandbox.Exit{Signal: syscall.SIGKILL, Code: 128 + int(syscall.SIGKILL)}
	default:
		p.err = p.s.broken(p.l, wire.ErrClosed)
	}
	p.s.mu.Lock()
	delete(p.s.procs, p)
	p.s.mu.Unlock()
	p.control.Reset()
	close(p.done)
}

func (p *process) Stdin() io.WriteCloser {
	if p.stdin == nil {
		return nil
	}
	return writer{p.stdin}
}

type writer struct{ s *wire.Stream }

func (w writer) Write(b []byte) (int, error) { return w.s.Write(b) }
func (w writer) Close() error                { return w.s.CloseWrite() }

func (p *process) Stdout() io.Reader { return reader{p.stdout} }

func (p *process) Stderr() io.Reader {
	if p.stderr == nil {
		return strings.NewReader("")
	}
	return reader{p.stderr}
}

// reader ends when the program's container does.
type reader struct{ s *wire.Stream }

func (r reader) Read(b []byte) (int, error) {
	n, err := r.s.Read(b)
	if errors.Is(err, wire.ErrClosed) || errors.Is(err, wire.ErrReset) {
		err = io.EOF
	}
	return n, err
}

// Signal sends to the program's session. One that has ended is os.ErrProcessDone.
func (p *process) Signal(ctx context.Context, sig syscall.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
	}
	r, err := p.l.ask(ctx, wire.Request{Op: wire.OpSignal, Program: p.number, Signal: sig})
	if r.Fault == wire.FaultDone {
		return os.ErrProcessDone
	}
	if err != nil {
		return p.s.broken(p.l, err)
	}
	return nil
}

// Wait waits for the program itself.
func (p *process) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-p.done:
		return p.exit, p.err
	default:
	}
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
}

// Close kills the session of a program that lives, and ends the streams.
func (p *process) Close() error {
	p.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.Signal(ctx, syscall.SIGKILL) // it may be gone already
		select {
		case <-p.done:
		case <-ctx.Done():
		}
		_, _ = p.l.ask(ctx, wire.Request{Op: wire.OpClose, Program: p.number})
		p.free()
	})
	return nil
}

func (p *process) free() {
	for _, s := range []*wire.Stream{p.stdin, p.stdout, p.stderr} {
		if s != nil {
			s.Reset()
		}
	}
	select {
	case <-p.done:
	default:
		if p.control != nil && p.number == 0 {
			p.control.Reset()
		}
	}
}
