package pid1

import (
	"syscall"
	"unsafe"
)

// Birth says how an init is started. Everything of it is in the form the kernel
// takes: the child shares its parent's memory and allocates nothing.
type Birth struct {
	Path  string // of the program, in the parent's view
	Args  []string
	Env   []string
	Root  string // chroot before exec; empty: none
	Files [4]int // its descriptors 0 to 3, all of them above 3 here
	Flags uintptr
	IDs   int // how many of the parent's user and group ids are its own, as they are, two at least; 0: the parent's own alone, as 0
}

// Start clones with the namespaces of Flags, among them a user namespace in
// which the parent's own id is 0 and the only one, or one with IDs, and
// executes. The latter needs somebody else to write its maps: the child then
// runs in a copy of the parent's memory and waits for them. The calling
// thread's directory and mount namespace are what the child starts from; its
// /proc must show the child. The pidfd is close-on-exec.
func (b Birth) Start() (pid, pidfd int, err error) {
	var report [2]int
	if err := syscall.Pipe2(report[:], syscall.O_CLOEXEC); err != nil {
		return 0, -1, err
	}
	defer syscall.Close(report[0])
	ready := [2]int{-1, -1}
	if b.IDs > 0 {
		if err := syscall.Pipe2(ready[:], syscall.O_CLOEXEC); err != nil {
			syscall.Close(report[1])
			return 0, -1, err
		}
	}
	c := &labour{path: cbytes(b.Path), argv: vector(b.Args), envv: vector(b.Env), fds: b.Files, flags: b.Flags,
		maps: [3]mapping{
			{cbytes("/proc/self/setgroups"), []byte("deny")},
			{cbytes("/proc/self/uid_map"), []byte("0 0 1")},
			{cbytes("/proc/self/gid_map"), []byte("0 0 1")},
		}, report: report[1], ready: ready, pidfd: -1}
	if b.Root != "" {
		c.root = cbytes(b.Root)
	}
	n, eno := c.clone()
	runtimeAfterFork()
	syscall.Close(report[1])
	if b.IDs > 0 {
		syscall.Close(ready[0])
		if eno == 0 {
			err = writeMaps(int(n), b.IDs, ready[1])
		}
		syscall.Close(ready[1]) // a child that was told nothing ends
	}
	if eno != 0 {
		return 0, -1, syscall.Errno(eno)
	}
	var said [16]byte
	if m, _ := syscall.Read(report[0], said[:]); m == len(said) {
		_, _ = syscall.Wait4(int(n), nil, 0, nil) // unless somebody waits for all children
		syscall.Close(int(c.pidfd))
		if err != nil {
			return 0, -1, err
		}
		w := (*[2]uint64)(unsafe.Pointer(&said))
		return 0, -1, &failure{birthSteps()[w[0]%uint64(len(birthSteps()))], syscall.Errno(w[1])}
	}
	return int(n), int(c.pidfd), nil
}

// writeMaps gives a child that waits for it ids of this process's.
func writeMaps(pid, ids, ready int) error {
	// The parent's 0 is a range of its own: none of the child's may reach over two.
	text := []byte("0 0 1\n1 1 " + itoa(int64(ids)-1))
	for _, name := range [...]string{"gid_map", "uid_map"} {
		fd, err := syscall.Open("/proc/"+itoa(int64(pid))+"/"+name, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = syscall.Write(fd, text)
		syscall.Close(fd)
		if err != nil {
			return err
		}
	}
	_, err := syscall.Write(ready, text[:1])
	return err
}

// birthSteps are what a child that is not an init yet can fail at.
func birthSteps() []string {
	return []string{"take its ids", "take its descriptors", "deny setgroups", "map its user", "map its group", "change its root", "execute its program"}
}

type mapping struct {
	file *byte
	text []byte
}

type labour struct {
	path       *byte
	root       *byte
	argv, envv []*byte
	fds        [4]int
	flags      uintptr
	maps       [3]mapping
	report     int
	ready      [2]int // a pipe that says that somebody else has written the maps; -1: nobody does
	pidfd      int32
}

const clonePidfd = 0x1000

// clone is like program.clone: the child stays in this frame and never returns.
//
//go:norace
//go:noinline
//go:nocheckptr
func (c *labour) clone() (pid, errno uintptr) {
	argv, envv := unsafe.Pointer(&c.argv[0]), unsafe.Pointer(&c.envv[0])
	cwd := uintptr(0)
	cwd-- // AT_FDCWD is -100
	cwd -= 99
	var (
		empty, got uint64
		what       [2]uint64 // the step of birthSteps that failed, and its errno
		e          syscall.Errno
		fd         uintptr
		i          int
		flags      = uintptr(syscall.SIGCHLD) | syscall.CLONE_VFORK | shared | clonePidfd | c.flags
		maps       = c.maps[:]
	)
	if c.ready[0] >= 0 {
		flags &^= syscall.CLONE_VFORK | shared // the parent goes on, to write the maps
		maps = nil
	}
	runtimeBeforeFork()
	if pid, errno = vfork(flags, &c.pidfd); errno != 0 || pid != 0 {
		return pid, errno
	}

	runtimeAfterForkInChild()
	if c.ready[0] >= 0 { // before its number may be another file's
		syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(c.ready[1]), 0, 0)
		if fd, _, _ = syscall.RawSyscall(syscall.SYS_READ, uintptr(c.ready[0]), uintptr(unsafe.Pointer(&got)), 1); fd != 1 {
			e = syscall.EPIPE
			goto failed
		}
		if _, _, e = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); e != 0 {
			goto failed
		}
	}
	what[0] = 1
	for i = range c.fds {
		if _, _, e = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(c.fds[i]), uintptr(i), 0); e != 0 {
			goto failed
		}
	}
	for i = range maps {
		what[0] = 2 + uint64(i)
		m := &maps[i]
		fd, _, e = syscall.RawSyscall6(syscall.SYS_OPENAT, cwd, uintptr(unsafe.Pointer(m.file)), syscall.O_WRONLY|syscall.O_CLOEXEC, 0, 0, 0)
		if e != 0 {
			goto failed
		}
		if _, _, e = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&m.text[0])), uintptr(len(m.text))); e != 0 {
			goto failed
		}
		syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	}
	what[0] = 5
	if c.root != nil {
		if _, _, e = syscall.RawSyscall(syscall.SYS_CHROOT, uintptr(unsafe.Pointer(c.root)), 0, 0); e != 0 {
			goto failed
		}
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&empty)), 0, 8, 0, 0)
	what[0] = 6
	_, _, e = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)), uintptr(argv), uintptr(envv))

failed:
	what[1] = uint64(e)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.report), uintptr(unsafe.Pointer(&what)), 16)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
	}
}
