package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// session is a started program with all that it started: goroutines that end
// together.
type session struct {
	id       int
	killed   chan struct{} // closed when the session is killed
	once     sync.Once     // closes it
	files    []io.Closer   // ours of the pipes; closing them unblocks
	children sync.WaitGroup
	gone     chan struct{} // every goroutine has ended

	mu      sync.Mutex
	ignored map[syscall.Signal]bool
	killer  syscall.Signal // what ended it; 0: nothing
	exit    sandbox.Exit
	ended   bool
	done    chan struct{} // the program itself has ended
}

// kill ends the session. It may be repeated.
func (s *session) kill() { s.end(syscall.SIGKILL) }

func (s *session) end(sig syscall.Signal) {
	s.mu.Lock()
	if s.killer == 0 {
		s.killer = sig
	}
	s.mu.Unlock()
	s.once.Do(func() { close(s.killed) })
	for _, f := range s.files {
		f.Close()
	}
}

func (s *session) dead() bool {
	select {
	case <-s.killed:
		return true
	default:
		return false
	}
}

// finish records the end of the program itself, once.
func (s *session) finish(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	s.exit.Code = code
	if s.killer != 0 && s.dead() {
		s.exit = sandbox.Exit{Code: 128 + int(s.killer), Signal: s.killer}
	}
	close(s.done)
}

func (s *session) ignore(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		if sig, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}[strings.TrimPrefix(n, "SIG")]; ok {
			s.ignored[sig] = true
		}
	}
}

// waitFor waits for background jobs or the end.
func (s *session) waitFor(wg *sync.WaitGroup) {
	idle := make(chan struct{})
	go func() { wg.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-s.killed:
	}
}

// process implements sandbox.Process.
type process struct {
	s                     *session
	stdin, stdout, stderr *os.File
}

// Start runs a program.
func (s *box) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	name := ""
	if len(cmd.Args) > 0 {
		name = cmd.Args[0]
	}
	p, err := s.start(ctx, name, cmd)
	if err != nil {
		return nil, fmt.Errorf("start %.200q: %w", name, err)
	}
	return p, nil
}

func (s *box) start(ctx context.Context, name string, cmd sandbox.Command) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cmd.TTY != nil {
		return nil, fmt.Errorf("a terminal: %w", sandbox.ErrUnsupported)
	}
	sh, err := s.newShell(cmd)
	if err != nil {
		return nil, err
	}
	if err := sh.runnable(name); err != nil {
		return nil, fmt.Errorf("%w: %w", err, sandbox.ErrNotStarted)
	}
	p := &process{s: sh.ses}
	ends, err := p.pipes(cmd.Stdin)
	if err != nil {
		return nil, err
	}
	sh.fds = [3]any{io.Reader(strings.NewReader("")), ends[1], ends[2]}
	if ends[0] != nil {
		sh.fds[0] = io.Reader(ends[0])
	}
	for _, f := range ends {
		if f != nil {
			sh.ses.files = append(sh.ses.files, f)
		}
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		sh.ses.kill()
		p.free()
		return nil, sandbox.ErrClosed
	}
	s.sessions[sh.ses] = true
	s.mu.Unlock()
	go s.live(sh, cmd.Args)
	return p, nil
}

// live is the program's goroutine.
func (s *box) live(sh *shell, args []string) {
	ses := sh.ses
	code := sh.program(args[0], args[1:])
	ses.finish(code)
	ses.children.Wait()
	for _, f := range ses.files {
		f.Close()
	}
	s.mu.Lock()
	delete(s.sessions, ses)
	s.mu.Unlock()
	close(ses.gone)
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (s *box) newShell(cmd sandbox.Command) (*shell, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, sandbox.ErrClosed
	}
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return nil, fmt.Errorf("no program given: %w", sandbox.ErrNotStarted)
	}
	dir := string(cmd.Dir)
	if dir == "" {
		dir = string(s.spec.Image.Config.Workdir)
	}
	if dir == "" {
		dir = "/"
	}
	n, err := walker{root: s.root}.find(dir, true)
	if err == nil && n.typ != image.TypeDir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w: %w", dir, err, sandbox.ErrNotStarted)
	}
	user := cmd.User
	if user == "" {
		user = s.spec.Image.Config.User
	}
	if !slices.Contains([]string{"", "0", "root", "0:0", "root:root"}, user) {
		if note := fmt.Sprintf("user %q: everything runs as the sandbox's root", user); !slices.Contains(s.unheld, note) {
			s.unheld = append(s.unheld, note)
		}
	}
	sh := &shell{box: s, dir: clean(dir), args: []string{"sh"}, jobs: &sync.WaitGroup{},
		vars: map[string]string{"PATH": defaultPath, "HOME": "/root"}}
	for _, e := range slices.Concat(s.spec.Image.Config.Env, cmd.Env) {
		if k, v, ok := strings.Cut(e, "="); ok && k != "" {
			sh.vars[k] = v
		}
	}
	sh.ses = &session{id: 2 + len(s.sessions), killed: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}), ignored: map[syscall.Signal]bool{}}
	return sh, nil
}

func clean(p string) string { return path.Clean("/" + p) }

// pipes makes the streams and returns the program's ends.
func (p *process) pipes(stdin bool) (ends [3]*os.File, err error) {
	pair := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	if stdin {
		ends[0], p.stdin = pair()
	}
	p.stdout, ends[1] = pair()
	p.stderr, ends[2] = pair()
	if err != nil {
		p.free()
		for _, f := range ends {
			if f != nil {
				f.Close()
			}
		}
	}
	return ends, err
}

func (p *process) Stdin() io.WriteCloser {
	if p.stdin == nil {
		return nil
	}
	return p.stdin
}

func (p *process) Stdout() io.Reader { return p.stdout }
func (p *process) Stderr() io.Reader { return p.stderr }

// Signal ends the session unless it ignores the signal or the signal is one
// that ends nothing.
func (p *process) Signal(_ context.Context, sig syscall.Signal) error {
	p.s.mu.Lock()
	ended, ignored := p.s.ended, p.s.ignored[sig] && sig != syscall.SIGKILL
	p.s.mu.Unlock()
	if ended {
		return os.ErrProcessDone
	}
	if !ignored && sig != 0 && sig != syscall.SIGCHLD && sig != syscall.SIGWINCH && sig != syscall.SIGURG && sig != syscall.SIGCONT {
		p.s.end(sig)
	}
	return nil
}

// Wait waits for the program itself.
func (p *process) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-p.s.done:
		return p.s.exit, nil
	default:
	}
	select {
	case <-p.s.done:
		return p.s.exit, nil
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
}

// Close kills what lives and frees the streams.
func (p *process) Close() error {
	select {
	case <-p.s.done:
	default:
		p.s.kill()
	}
	p.free()
	return nil
}

func (p *process) free() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// runnable says why a program cannot be started; nil if it can.
func (sh *shell) runnable(name string) error {
	if _, ok := tools()[path.Base(name)]; ok && (!strings.Contains(name, "/") || strings.Contains(name, "bin/")) {
		return nil
	}
	if !strings.Contains(name, "/") {
		return syscall.ENOENT
	}
	return sh.tree(func(w walker) error {
		n, err := w.find(sh.abs(name), true)
		switch {
		case err != nil:
			return err
		case n.typ != image.TypeFile || n.mode&0o111 == 0:
			return syscall.EACCES
		}
		return nil
	})
}

// program runs a tool or a script and returns its status.
func (sh *shell) program(name string, args []string) int {
	if err := sh.runnable(name); err != nil {
		fmt.Fprintf(sh.err(), "sh: %s: %v\n", name, err)
		if errors.Is(err, syscall.EACCES) {
			return 126
		}
		return 127
	}
	if tool, ok := tools()[path.Base(name)]; ok {
		return tool(sh, args)
	}
	src, err := sh.read(name)
	if err != nil {
		return 126
	}
	c := sh.fork()
	c.args = append([]string{name}, args...)
	return c.script(string(src))
}

// pause sleeps or is killed.
func (s *session) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.killed:
		return false
	}
}
