package inside

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox/docker/wire"
)

// program is one that was started.
type program struct {
	streams []*wire.Stream
	files   []*os.File // our ends
	exited  func(ws syscall.WaitStatus, ru *syscall.Rusage)
}

// reaper waits for every child, adopted ones too. A program's number is its
// process id, which stays its own until it is reaped.
type reaper struct {
	mu    sync.Mutex // held from fork to registration, so that no exit is missed
	cond  sync.Cond
	live  map[int]*program
	ended map[int]*program // their streams may still be open
	none  bool             // no child at all
	birth chan struct{}
}

func (r *reaper) start() {
	r.live, r.ended, r.none = map[int]*program{}, map[int]*program{}, true
	r.birth = make(chan struct{}, 1)
	r.cond.L = &r.mu
	go r.loop()
}

func (r *reaper) loop() {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, 0, &ru)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			r.mu.Lock()
			if len(r.birth) == 0 {
				r.none = true
				r.cond.Broadcast()
			}
			r.mu.Unlock()
			<-r.birth
		default:
			r.mu.Lock()
			p := r.live[pid]
			delete(r.live, pid)
			if p != nil {
				r.ended[pid] = p
			}
			r.mu.Unlock()
			if p != nil {
				go p.exited(ws, &ru)
			}
		}
	}
}

// killAll ends every process but this one and returns when the last is reaped.
// fork fails in a process with a signal pending.
func (r *reaper) killAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.none {
		_ = syscall.Kill(-1, syscall.SIGKILL)                         // ESRCH: only zombies are left
		stop := time.AfterFunc(50*time.Millisecond, r.cond.Broadcast) // a fork that was under way
		r.cond.Wait()
		stop.Stop()
	}
}

// signal sends to every process of a program's session.
func (r *reaper) signal(pid int, sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock() // the leader is not reaped meanwhile, so its number stays its own
	if r.live[pid] == nil {
		return &fault{wire.FaultDone, "it has ended"}
	}
	seen := map[int]bool{}
	for range 100 {
		found := false
		for _, p := range session(pid) {
			if !seen[p] {
				seen[p], found = true, true
				_ = syscall.Kill(p, sig) // it may have ended
			}
		}
		if !found || sig != syscall.SIGKILL {
			break
		}
	}
	return nil
}

// close kills a program's session if it lives, and frees its streams.
func (r *reaper) close(pid int) {
	_ = r.signal(pid, syscall.SIGKILL)
	r.mu.Lock()
	p := r.live[pid]
	if p == nil {
		p = r.ended[pid]
		delete(r.ended, pid)
	} else {
		p = nil // exited comes; the host asks again or goes
	}
	r.mu.Unlock()
	if p == nil {
		return
	}
	for _, f := range p.files {
		f.Close()
	}
	for _, s := range p.streams {
		s.Reset()
	}
}

// session lists the processes of a session.
func session(sid int) []int {
	var pids []int
	dir, err := os.Open("/proc")
	if err != nil {
		return []int{sid}
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, n := range names {
		pid := 0
		for _, c := range []byte(n) {
			if c < '0' || c > '9' || pid > 1<<30 {
				pid = -1
				break
			}
			pid = pid*10 + int(c-'0')
		}
		if pid <= 1 {
			continue
		}
		if s, err := unix.Getsid(pid); err == nil && s == sid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// start runs a program and tells of its end on the same stream.
func (s *server) start(st *wire.Stream, q wire.Request) {
	p := &program{}
	stdin, stdout, stderr := s.pipe(q.Pipes, 0), s.pipe(q.Pipes, 1), s.pipe(q.Pipes, 2)
	for _, w := range []*wire.Stream{stdin, stdout, stderr} {
		if w != nil {
			p.streams = append(p.streams, w)
		}
	}
	s.slots.enter()
	pid, run, err := s.launch(st, q, p, stdin, stdout, stderr)
	s.slots.leave()
	if err != nil {
		for _, w := range p.streams {
			w.Reset()
		}
		answer(st, err)
		_ = st.CloseWrite()
		return
	}
	_ = tell(st, wire.Reply{Program: pid})
	run()
}

// launch makes the streams and forks. run copies, once the host knows.
func (s *server) launch(st *wire.Stream, q wire.Request, p *program, stdin, stdout, stderr *wire.Stream) (pid int, run func(), err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			for _, f := range p.files {
				f.Close()
			}
		}
	}()
	if stdout == nil {
		return 0, nil, errors.New("the request names no stream")
	}
	attr := &syscall.ProcAttr{Dir: q.Dir, Env: q.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	file, err := resolveProgram(q)
	if err != nil {
		return 0, nil, err
	}
	if attr.Sys.Credential, err = credential(q.User, attr); err != nil {
		return 0, nil, err
	}
	copies := []func(){}
	if q.TTY {
		master, slave, err := terminal(q.Rows, q.Cols)
		if err != nil {
			return 0, nil, err
		}
		p.files, theirs = append(p.files, master), append(theirs, slave)
		attr.Sys.Setctty = true
		attr.Files = []uintptr{slave.Fd(), slave.Fd(), slave.Fd()}
		copies = append(copies, func() { pump(stdout, master); _ = stdout.CloseWrite() })
		if stdin != nil {
			copies = append(copies, func() {
				pump(master, stdin)
				_, _ = master.Write([]byte{4}) // end of file, typed
			})
		}
	} else {
		add := func(read bool, w *wire.Stream) (*os.File, error) {
			r, wr, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			mine, its := wr, r
			if !read {
				mine, its = r, wr
			}
			p.files, theirs = append(p.files, mine), append(theirs, its)
			attr.Files = append(attr.Files, its.Fd())
			return mine, nil
		}
		if stdin != nil {
			in, err := add(true, stdin)
			if err != nil {
				return 0, nil, err
			}
			copies = append(copies, func() { pump(in, stdin); in.Close(); stdin.Reset() })
		} else {
			null, err := os.Open("/dev/null")
			if err != nil {
				return 0, nil, err
			}
			theirs = append(theirs, null)
			attr.Files = append(attr.Files, null.Fd())
		}
		for _, w := range []*wire.Stream{stdout, stderr} {
			if w == nil {
				return 0, nil, errors.New("the request names no stream")
			}
			out, err := add(false, w)
			if err != nil {
				return 0, nil, err
			}
			copies = append(copies, func() { pump(w, out); out.Close(); _ = w.CloseWrite() })
		}
	}
	kills := memoryKills()
	p.exited = func(ws syscall.WaitStatus, ru *syscall.Rusage) {
		s.slots.enter()
		killed := memoryKills() > kills
		s.slots.leave()
		_ = tell(st, wire.Reply{Exited: &wire.Exit{Status: uint32(ws), CPU: ru.Utime.Nano() + ru.Stime.Nano(), MaxRSS: ru.Maxrss * 1024, Memory: killed}})
		_ = st.CloseWrite()
	}
	told := make(chan struct{})
	exited := p.exited
	p.exited = func(ws syscall.WaitStatus, ru *syscall.Rusage) { <-told; exited(ws, ru) }
	s.procs.mu.Lock()
	pid, err = syscall.ForkExec(file, q.Args, attr)
	if err == nil {
		s.procs.live[pid] = p
	}
	// A child that failed to run its program is a child, too.
	s.procs.none = false
	select {
	case s.procs.birth <- struct{}{}:
	default:
	}
	s.procs.mu.Unlock()
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) {
		return 0, nil, err
	}
	if err != nil {
		return 0, nil, notStarted("%v", err)
	}
	return pid, func() {
		close(told)
		for _, f := range copies {
			go f()
		}
	}, nil
}

// resolveProgram finds the program as execvp does and looks at the directory.
func resolveProgram(q wire.Request) (string, error) {
	if len(q.Args) == 0 || q.Args[0] == "" {
		return "", notStarted("no program given")
	}
	if fi, err := os.Stat(q.Dir); err != nil {
		return "", notStarted("directory %s: %v", q.Dir, errors.Unwrap(err))
	} else if !fi.IsDir() {
		return "", notStarted("directory %s: it is none", q.Dir)
	}
	name := q.Args[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	why := error(fs.ErrNotExist)
	for d := range strings.SplitSeq(pathOf(q.Env), ":") {
		p := path.Join(d, name)
		if d == "" || !path.IsAbs(d) {
			p = path.Join(q.Dir, d, name)
		}
		fi, err := os.Stat(p)
		switch {
		case err != nil:
		case fi.IsDir() || fi.Mode()&0o111 == 0:
			why = fs.ErrPermission
		default:
			return p, nil
		}
	}
	return "", notStarted("%v", why)
}

// memoryKills counts the processes that the kernel ended for the container's
// memory limit, as far as the engine lets a container see it.
func memoryKills() (n int) {
	for _, file := range [...]string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ = strconv.Atoi(strings.TrimSpace(v))
				return n
			}
		}
	}
	return 0
}

// terminal makes a pair of the container's own devpts.
func terminal(rows, cols uint16) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	if err = unix.SetNonblock(fd, true); err == nil { // Fd made it block
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}
	var n uint32
	if err == nil {
		n, err = unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}
