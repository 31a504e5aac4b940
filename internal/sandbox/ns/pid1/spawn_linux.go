package pid1

import (
	"syscall"
	"unsafe"
)

// start runs a program and answers with Started or Refused.
func (s *server) start(m *Message, fds []int) error {
	p := &s.prog
	if !s.entered || !p.parse(m) || (p.terminal && len(fds) != 0) || (!p.terminal && len(fds) != 2 && len(fds) != 3) {
		return s.refuse(m.ID, StageInit, errMessage)
	}
	for _, str := range m.Strs {
		for i := range len(str) {
			if str[i] == 0 {
				return s.refuse(m.ID, StageInit, failed("argument with a zero byte", syscall.EINVAL))
			}
		}
	}
	p.without, p.who = s.without, nil
	if s.who.known {
		p.who = &s.who
	}
	if p.terminal {
		master, slave, err := openTerminal(s.pts, p.rows, p.cols)
		if err != nil {
			return s.refuse(m.ID, StageSetup, err)
		}
		defer syscall.Close(master)
		defer syscall.Close(slave)
		if p.who != nil {
			_ = syscall.Fchown(slave, int(p.who.uid), -1) // as login does; without it, all but the name works
		}
		p.fds = [3]int{slave, slave, slave}
		return s.run(m.ID, master)
	}
	if len(fds) == 3 {
		p.fds = [3]int(fds)
		return s.run(m.ID)
	}
	null, e := openat2(s.dev, "null", syscall.O_RDONLY, 0)
	if e != 0 {
		return s.refuse(m.ID, StageSetup, failed("open null device", e))
	}
	defer syscall.Close(null)
	p.fds = [3]int{null, fds[0], fds[1]}
	return s.run(m.ID)
}

// run starts the program that has been made ready.
func (s *server) run(id uint32, master ...int) error {
	pid, stage, e := s.prog.fork()
	if e != 0 {
		if pid > 0 {
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
		return s.refuse(id, stage, &failure{"start program", e})
	}
	s.programs = append(s.programs, started{pid, id})
	return s.tell(Message{Kind: Started, ID: id, Nums: []int64{int64(pid)}}, master...)
}

// program holds everything the child needs, in the form the kernel takes it:
// between fork and exec nothing can be allocated. What it points to is the
// message's.
type program struct {
	dir        *byte
	candidates []*byte
	argv, envv []*byte
	limits     []limit
	fds        [3]int
	terminal   bool
	rows, cols uint16
	without    uint64
	who        *identity // nil: root
	said       [2]uint64 // by a child that could not: its stage and errno
}

type limit struct {
	resource uintptr
	value    [2]uint64 // soft, hard
}

// parse reads a start; false: it is none.
func (p *program) parse(m *Message) bool {
	if len(m.Nums) < 5 || len(m.Nums)%2 != 1 {
		return false
	}
	nc, na := m.Nums[3], m.Nums[4]
	if nc < 1 || na < 1 || nc > int64(len(m.Strs)) || na > int64(len(m.Strs)) || nc+na+1 > int64(len(m.Strs)) {
		return false
	}
	p.terminal, p.rows, p.cols = m.Nums[0] != 0, uint16(m.Nums[1]), uint16(m.Nums[2])
	p.dir = unsafe.StringData(m.Strs[0])
	rest := m.Strs[1:]
	p.candidates = vector(p.candidates, rest[:nc])
	p.argv = vector(p.argv, rest[nc:nc+na])
	p.envv = vector(p.envv, rest[nc+na:])
	p.limits = p.limits[:0]
	for l := m.Nums[5:]; len(l) > 1; l = l[2:] {
		p.limits = append(p.limits, limit{uintptr(l[0]), [2]uint64{uint64(l[1]), uint64(l[1])}})
	}
	return true
}

// vector is a nil-terminated array of C strings, which a message's are. It is
// built in v if there is room.
func vector(v []*byte, ss []string) []*byte {
	v = v[:0]
	for _, s := range ss {
		v = append(v, unsafe.StringData(s))
	}
	return append(v, nil)
}

// fork makes the child and waits until it runs its program or has failed. A
// child that shares this memory says what failed right there, another one
// through a pipe.
func (p *program) fork() (pid int, stage Stage, e syscall.Errno) {
	p.said = [2]uint64{}
	flags, report := uintptr(syscall.SIGCHLD)|syscall.CLONE_VFORK|shared, -1
	var pipe [2]int
	if p.who != nil { // whoever is that user already could reach into the memory
		flags &^= shared
	}
	if flags&syscall.CLONE_VM == 0 {
		if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
			return 0, StageInit, errno(err)
		}
		report = pipe[1]
	}
	n, eno := p.clone(flags, report)
	if report >= 0 {
		syscall.Close(pipe[1])
		if eno == 0 {
			_, _ = syscall.Read(pipe[0], unsafe.Slice((*byte)(unsafe.Pointer(&p.said)), unsafe.Sizeof(p.said))) // nothing, or all of it
		}
		syscall.Close(pipe[0])
	}
	if eno != 0 {
		return 0, StageInit, syscall.Errno(eno)
	}
	return int(n), Stage(p.said[0]), syscall.Errno(p.said[1])
}

// keptCaps is Docker's default bounding set: CHOWN, DAC_OVERRIDE, FOWNER,
// FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW,
// SYS_CHROOT, MKNOD, AUDIT_WRITE, SETFCAP. All of them reach no further than
// the sandbox's own user namespace.
const keptCaps = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<13 | 1<<18 | 1<<27 | 1<<29 | 1<<31

// lastCap is above every capability there is; dropping one beyond is EINVAL.
const lastCap = 63

// clone forks and, in the child, becomes the program. The child may share the
// parent's memory and stack: it stays in this frame and never returns, and the
// parent returns from it at once. An init has all signals blocked, and none
// that its program would be born ignoring.
//
//go:norace
//go:noinline
//go:nocheckptr
func (p *program) clone(flags uintptr, report int) (pid, errno uintptr) {
	limits, candidates, without := p.limits, p.candidates[:len(p.candidates)-1], p.without
	who := p.who
	argv, envv := unsafe.Pointer(&p.argv[0]), unsafe.Pointer(&p.envv[0])
	var (
		empty uint64
		e     syscall.Errno
		what  [2]uint64
		i     uintptr
		fd    uintptr
	)
	if pid, errno = vfork(flags, nil); errno != 0 || pid != 0 {
		return pid, errno
	}

	// In the child. Raw calls only: there is one thread and no runtime.
	what[0] = uint64(StageSetup)
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
	if report >= 0 {
		if _, _, e = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(report), fd, syscall.O_CLOEXEC); e != 0 {
			goto failed
		}
		report = int(fd)
		fd++
	}
	if without&WithoutDescriptors == 0 {
		if _, _, e = syscall.RawSyscall(sysCloseRange, fd, uintptr(^uint32(0)), 0); e != 0 {
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
	if report < 0 {
		p.said = what
	} else {
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(report), uintptr(unsafe.Pointer(&what)), 16)
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

const sigSetmask = 2
