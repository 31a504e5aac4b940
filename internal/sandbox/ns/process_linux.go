package ns

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

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// process implements sandbox.Process.
type process struct {
	c      *initConn
	id     uint32
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	tty    bool
	kills  int64         // for memory, before it started
	done   chan struct{} // closed after exit is set
	exit   sandbox.Exit
	close  sync.Once
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

func (s *Sandbox) start(ctx context.Context, cmd sandbox.Command) (*process, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return nil, fmt.Errorf("no program given: %w", sandbox.ErrNotStarted)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	c := s.current()
	p := &process{c: c, tty: cmd.TTY != nil, kills: s.memoryKills(), done: make(chan struct{})}
	m := s.message(cmd)
	var theirs []int
	defer func() { closeFDs(theirs) }()
	if !p.tty {
		var err error
		if theirs, err = p.pipes(cmd.Stdin); err != nil {
			p.free()
			return nil, err
		}
		s.b.giveAway(theirs)
	}
	if size := bytesOf(m.Strs); size > maxArguments && !s.b.conf.without(sandbox.DefArguments) { // a message that the init cannot take would end it
		p.free()
		return nil, fmt.Errorf("%d bytes of arguments and environment: %w: %w", size, syscall.E2BIG, sandbox.ErrNotStarted)
	}
	w := c.expect()
	p.id, m.ID = w.id, w.id
	c.mu.Lock()
	c.procs[p.id] = p
	c.mu.Unlock()
	// From here on it is started, whether somebody waits or not: the answer
	// comes as soon as the program runs.
	a, fds, err := c.send(context.WithoutCancel(ctx), m, w, theirs...)
	if err == nil && p.tty {
		err = p.terminal(fds)
	} else {
		closeFDs(fds)
	}
	if err != nil {
		c.mu.Lock()
		delete(c.procs, p.id)
		c.mu.Unlock()
		p.free()
		return nil, startError(a, cmd, err)
	}
	return p, nil
}

// message says how the init is to start a program.
func (s *Sandbox) message(cmd sandbox.Command) pid1.Message {
	conf := s.spec.Image.Config
	dir := string(cmd.Dir)
	if dir == "" {
		dir = string(conf.Workdir)
	}
	if dir == "" {
		dir = "/"
	}
	env := mergeEnv(conf.Env, s.networkEnv(), cmd.Env)
	user := cmd.User
	if user == "" {
		user = conf.User
	}
	kind := pid1.Start
	if s.real && !isRoot(user) {
		kind = pid1.StartAs
	} else {
		s.noteUser(user)
	}
	add := func(key, val string) {
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, key+"=") }) {
			env = append(env, key+"="+val)
		}
	}
	add("PATH", defaultPath)
	if kind == pid1.Start {
		add("HOME", "/root")
	}
	m := pid1.Message{Kind: kind, Nums: []int64{0, 0, 0}}
	if cmd.TTY != nil {
		add("TERM", "xterm")
		m.Nums = []int64{1, int64(cmd.TTY.Rows), int64(cmd.TTY.Cols)}
	}
	programs := candidates(cmd.Args[0], env)
	m.Nums = append(m.Nums, int64(len(programs)), int64(len(cmd.Args)))
	limit := func(resource int, v int64) {
		if v >= 0 {
			m.Nums = append(m.Nums, int64(resource), v)
		}
	}
	if !s.b.conf.without(sandbox.DefCore) {
		limit(unix.RLIMIT_CORE, 0)
	}
	if !s.b.conf.without(sandbox.DefPids) {
		limit(unix.RLIMIT_NPROC, s.limits.Pids)
	}
	if !s.b.conf.without(sandbox.DefFiles) {
		limit(unix.RLIMIT_NOFILE, min(s.limits.OpenFiles, hardFiles()))
	}
	if s.disk {
		limit(unix.RLIMIT_FSIZE, s.limits.DiskBytes)
	}
	m.Strs = slices.Concat([]string{dir}, programs, cmd.Args, env)
	if kind == pid1.StartAs {
		m.Strs = slices.Insert(m.Strs, 0, user)
	}
	return m
}

// maxArguments is more than Linux gives a program (6 MiB at most) and less
// than a message holds.
const maxArguments = 7 << 20

func bytesOf(strs []string) (n int) {
	for _, s := range strs {
		n += len(s) + 1
	}
	return n
}

// hardFiles is what this process may have open at most: a limit can only be
// lowered.
func hardFiles() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Max > 1<<30 {
		return 1 << 30
	}
	return int64(l.Max)
}

// isRoot reports whether a command's user is who runs without asking for one.
func isRoot(user string) bool {
	switch user {
	case "", "0", "root", "0:0", "root:root":
		return true
	}
	return false
}

// noteUser records a user that is not to be had.
func (s *Sandbox) noteUser(user string) {
	if isRoot(user) {
		return
	}
	note := fmt.Sprintf("user %q: everything runs as the sandbox's root", user)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.unheld, note) {
		s.unheld = append(s.unheld, note)
	}
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

// candidates are the paths at which a program may be.
func candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var out []string
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for d := range strings.SplitSeq(list, ":") {
				if d == "" {
					d = "."
				}
				out = append(out, path.Join(d, name))
			}
		}
	}
	if len(out) > 200 {
		out = out[:200]
	}
	return out
}

// startError turns a refusal of the program itself into ErrNotStarted.
func startError(m pid1.Message, cmd sandbox.Command, err error) error {
	if m.Kind != pid1.Refused || len(m.Nums) != 2 {
		return err
	}
	e := syscall.Errno(m.Nums[0])
	switch pid1.Stage(m.Nums[1]) {
	case pid1.StageDir:
		return fmt.Errorf("directory %s: %w: %w", cmd.Dir, e, sandbox.ErrNotStarted)
	case pid1.StageUser:
		return fmt.Errorf("%w: %w", err, sandbox.ErrNotStarted)
	case pid1.StageExec:
		return fmt.Errorf("%w: %w", e, sandbox.ErrNotStarted)
	}
	return err
}

// pipes makes the streams and returns the program's ends: stdin if there is
// one, stdout, stderr.
func (p *process) pipes(stdin bool) (theirs []int, err error) {
	add := func(to **os.File, read bool) {
		if err != nil {
			return
		}
		var fd int
		if *to, fd, err = pipe(read); err == nil {
			theirs = append(theirs, fd)
		}
	}
	if stdin {
		add(&p.stdin, false)
	}
	add(&p.stdout, true)
	add(&p.stderr, true)
	return theirs, err
}

// giveAway lets programs open their streams by name, as /dev/stdout: a pipe
// belongs to whoever made it, and root of the machine is nobody inside.
func (b *Backend) giveAway(fds []int) {
	if !b.root {
		return
	}
	for _, fd := range fds {
		_ = unix.Fchown(fd, b.conf.RootUID, b.conf.RootUID) // without the right to, all but the names works
	}
}

// terminal takes the master of a pair.
func (p *process) terminal(fds []int) error {
	if len(fds) != 1 {
		closeFDs(fds)
		return errors.New("init sent no terminal")
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		closeFDs(fds)
		return err
	}
	p.stdout = os.NewFile(uintptr(fds[0]), "terminal")
	p.stdin = p.stdout
	return nil
}

func (p *process) Stdin() io.WriteCloser {
	switch {
	case p.stdin == nil:
		return nil
	case p.tty:
		return typist{p.stdin}
	}
	return p.stdin
}

// typist writes to a terminal; closing is typing end-of-file.
type typist struct{ f *os.File }

func (t typist) Write(b []byte) (int, error) { return t.f.Write(b) }
func (t typist) Close() error {
	_, err := t.f.Write([]byte{4})
	if errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return err
}

func (p *process) Stdout() io.Reader {
	if p.tty {
		return screen{p.stdout}
	}
	return p.stdout
}

// screen reads a terminal; its end is EIO, when the last program let it go.
type screen struct{ f *os.File }

func (s screen) Read(b []byte) (int, error) {
	n, err := s.f.Read(b)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

func (p *process) Stderr() io.Reader {
	if p.stderr == nil {
		return strings.NewReader("")
	}
	return p.stderr
}

// Signal sends to the program's session. One that has ended is os.ErrProcessDone.
func (p *process) Signal(ctx context.Context, sig syscall.Signal) error {
	err := p.c.do(ctx, pid1.Message{Kind: pid1.Signal, Nums: []int64{int64(p.id), int64(sig)}})
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// Wait waits for the program itself.
func (p *process) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-p.done:
		return p.exit, nil
	default:
	}
	select {
	case <-p.done:
		return p.exit, nil
	case <-p.c.done:
		select {
		case <-p.done:
			return p.exit, nil
		default:
			return sandbox.Exit{}, p.c.lost()
		}
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
}

// Close kills the session of a program that lives, and ends the streams.
// What a program that has ended left behind lives on until Kill.
func (p *process) Close() error {
	p.close.Do(func() {
		select {
		case <-p.done:
		case <-p.c.done:
		default:
			_ = p.Signal(context.Background(), syscall.SIGKILL)
		}
		p.free()
	})
	return nil
}

func (p *process) free() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}
