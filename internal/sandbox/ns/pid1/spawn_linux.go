package pid1

import (
	"syscall"
	"unsafe"
)

// start runs a program and answers with Started or Refused.
func (s *server) start(m Message, fds []int) error {
	p, err := parseProgram(m)
	if err == nil && (s.parked || (p.terminal && len(fds) != 0) || (!p.terminal && len(fds) != 2 && len(fds) != 3)) {
		err = errMessage
	}
	if err != nil {
		return s.refuse(m.ID, StageInit, err)
	}
	master := []int(nil)
	if p.terminal {
		mfd, slave, err := openTerminal(s.pts, p.rows, p.cols)
		if err != nil {
			return s.refuse(m.ID, StageSetup, err)
		}
		defer syscall.Close(mfd)
		defer syscall.Close(slave)
		if s.who != nil {
			_ = syscall.Fchown(slave, int(s.who.uid), -1) // as login does; without it, all but the name works
		}
		master, fds = []int{mfd}, []int{slave, slave, slave}
	}
	if len(fds) == 2 {
		null, e := openat2(s.dev, "null", syscall.O_RDONLY, 0)
		if e != 0 {
			return s.refuse(m.ID, StageSetup, failed("open null device", e))
		}
		defer syscall.Close(null)
		fds = append([]int{null}, fds...)
	}
	copy(p.fds[:], fds)
	p.without, p.filter, p.who = s.without, s.filter, s.who
	if p.filter == nil && !s.lacks(WithoutSeccomp) {
		return s.refuse(m.ID, StageInit, errMessage)
	}
	if s.lacks(WithoutDescriptors) {
		leak(s.spare)
	}
	s.reaper.mu.Lock()
	pid, stage, e := p.fork()
	if pid > 0 && e == 0 {
		s.reaper.born(pid, m.ID)
	}
	if pid > 0 && e != 0 {
		_, _ = syscall.Wait4(pid, nil, 0, nil) // the reaper may have been first
	}
	s.reaper.mu.Unlock()
	if e != 0 {
		return s.refuse(m.ID, stage, &failure{"start program", e})
	}
	return Send(s.sock, Message{Kind: Started, ID: m.ID, Nums: []int64{int64(pid)}}, master...)
}

// program holds everything the child needs, in the form the kernel takes it:
// between fork and exec nothing can be allocated.
type program struct {
	dir        *byte
	candidates []*byte
	argv, envv []*byte
	limits     []limit
	fds        [3]int
	terminal   bool
	rows, cols uint16
	without    uint64
	filter     *filter
	who        *identity // nil: root
}

type limit struct {
	resource uintptr
	value    [2]uint64 // soft, hard
}

func parseProgram(m Message) (*program, error) {
	if len(m.Nums) < 5 || len(m.Nums)%2 != 1 {
		return nil, errMessage
	}
	nc, na := m.Nums[3], m.Nums[4]
	if nc < 1 || na < 1 || nc+na+1 > int64(len(m.Strs)) {
		return nil, errMessage
	}
	for _, s := range m.Strs {
		for i := range len(s) {
			if s[i] == 0 {
				return nil, failed("argument with a zero byte", syscall.EINVAL)
			}
		}
	}
	p := &program{terminal: m.Nums[0] != 0, rows: uint16(m.Nums[1]), cols: uint16(m.Nums[2])}
	p.dir = cbytes(m.Strs[0])
	rest := m.Strs[1:]
	p.candidates = vector(rest[:nc])
	p.argv = vector(rest[nc : nc+na])
	p.envv = vector(rest[nc+na:])
	for l := m.Nums[5:]; len(l) > 1; l = l[2:] {
		p.limits = append(p.limits, limit{uintptr(l[0]), [2]uint64{uint64(l[1]), uint64(l[1])}})
	}
	return p, nil
}

// vector is a nil-terminated array of C strings.
func vector(ss []string) []*byte {
	v := make([]*byte, 0, len(ss)+1)
	for _, s := range ss {
		v = append(v, cbytes(s))
	}
	return append(v, nil)
}

// fork makes the child and waits until it runs its program or has failed. The
// reaper's lock is held.
func (p *program) fork() (pid int, stage Stage, e syscall.Errno) {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return 0, StageInit, errno(err)
	}
	n, eno := p.clone(pipe[1])
	runtimeAfterFork()
	pid, e = int(n), syscall.Errno(eno)
	syscall.Close(pipe[1])
	defer syscall.Close(pipe[0])
	if e != 0 {
		return 0, StageInit, e
	}
	var said [16]byte
	for {
		n, err := syscall.Read(pipe[0], said[:])
		if err == syscall.EINTR {
			continue
		}
		if n < 16 {
			return pid, 0, 0
		}
		w := (*[2]uint64)(unsafe.Pointer(&said))
		return pid, Stage(w[0]), syscall.Errno(w[1])
	}
}

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// keptCaps is Docker's default bounding set: CHOWN, DAC_OVERRIDE, FOWNER,
// FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW,
// SYS_CHROOT, MKNOD, AUDIT_WRITE, SETFCAP. All of them reach no further than
// the sandbox's own user namespace.
const keptCaps = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<13 | 1<<18 | 1<<27 | 1<<29 | 1<<31

// lastCap is above every capability there is; dropping one beyond is EINVAL.
const lastCap = 63

// clone forks and, in the child, becomes the program. The child may share the
// parent's memory and stack: it stays in this frame and never returns, and the
// parent returns from it at once.
//
//go:norace
//go:noinline
//go:nocheckptr
func (p *program) clone(report int) (pid, errno uintptr) {
	limits, candidates, without, filter := p.limits, p.candidates[:len(p.candidates)-1], p.without, p.filter
	who := p.who
	argv, envv := unsafe.Pointer(&p.argv[0]), unsafe.Pointer(&p.envv[0])
	var (
		act   [4]uint64 // SIG_DFL for every signal
		empty uint64
		e     syscall.Errno
		what  [2]uint64
		i     uintptr
		fd    uintptr
		flags = uintptr(syscall.SIGCHLD) | syscall.CLONE_VFORK | shared
	)
	if who != nil {
		flags &^= shared // whoever is that user already could reach into the memory
	}
	runtimeBeforeFork() // the stack cannot grow until runtimeAfterFork
	if pid, errno = vfork(flags, nil); errno != 0 || pid != 0 {
		return pid, errno
	}

	// In the child. Raw calls only: there is one thread and no runtime.
	runtimeAfterForkInChild()
	what[0] = uint64(StageSetup)
	for i = 1; i <= 64; i++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, i, uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&empty)), 0, 8, 0, 0)
	if _, _, e = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); e != 0 {
		goto failed
	}
	for i = 0; i < 3; i++ { // sent descriptors are above the report pipe's and 3
		if _, _, e = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(p.fds[i]), i, 0); e != 0 {
			goto failed
		}
	}
	if p.terminal {
		if _, _, e = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSCTTY, 0); e != 0 {
			goto failed
		}
	}
	fd = 3
	if uintptr(report) != fd {
		if _, _, e = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(report), fd, syscall.O_CLOEXEC); e != 0 {
			goto failed
		}
	}
	report = int(fd)
	if without&WithoutDescriptors == 0 {
		if _, _, e = syscall.RawSyscall(sysCloseRange, fd+1, uintptr(^uint32(0)), 0); e != 0 {
			goto failed
		}
	}
	for j := range limits { // only ever lowered; what cannot be set stays as strict as it is
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, limits[j].resource, uintptr(unsafe.Pointer(&limits[j].value)), 0, 0, 0)
	}
	syscall.RawSyscall(syscall.SYS_UMASK, 0o022, 0, 0)
	what[0] = uint64(StageDir)
	if _, _, e = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(p.dir)), 0, 0); e != 0 {
		goto failed
	}
	if who != nil { // its rights go with the first id that is not root's
		what[0] = uint64(StageUser)
		if _, _, e = syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(who.groups)-1), uintptr(unsafe.Pointer(&who.groups[0])), 0); e != 0 {
			goto failed
		}
		if _, _, e = syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(who.gid), uintptr(who.gid), uintptr(who.gid)); e != 0 {
			goto failed
		}
		if _, _, e = syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(who.uid), uintptr(who.uid), uintptr(who.uid)); e != 0 {
			goto failed
		}
	}
	if without&WithoutSeccomp == 0 { // last: nothing below is refused
		what[0] = uint64(StageSetup)
		if _, _, e = syscall.RawSyscall(sysSeccomp, seccompModeFilter, seccompSpecAllow, uintptr(unsafe.Pointer(filter))); e != 0 {
			goto failed
		}
	}
	what[0] = uint64(StageExec)
	what[1] = uint64(syscall.ENOENT)
	for j := range candidates {
		_, _, e = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(candidates[j])), uintptr(argv), uintptr(envv))
		if e != syscall.ENOENT && e != syscall.ENOTDIR {
			what[1] = uint64(e) // as execvp: another error than "not there" is the one to tell
		}
	}
	e = syscall.Errno(what[1])

failed:
	what[1] = uint64(e)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(report), uintptr(unsafe.Pointer(&what)), 16)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

const sigSetmask = 2
