package pid1

import (
	"syscall"
	"unsafe"
)

// zygote is the process that every init is a copy of: what this program needs
// to start, a millisecond and most of a megabyte, is spent once, and shared by
// all of them until they write to it. It holds nothing of any sandbox.
//
// Go's runtime does not expect to be copied: of its threads only the one that
// asks is in the copy. So an init never needs another one. It takes signals
// from a descriptor, never switches goroutines, and holds its thread by a lock
// of the runtime's (see fork), under which nothing is preempted and no garbage
// is collected. What it does again and again therefore makes no garbage, as
// TestMakesNothing and the soak tests of package ns hold it to.
type zygote struct {
	in      inbox
	out     []byte
	without uint64
	single  *filter // of programs in a sandbox of one id
	real    *filter // and of many
	child   *server // of the init to come
}

// serve bears inits until the other side is gone.
func (z *zygote) serve() {
	for {
		m, fds, err := z.in.recv(control)
		if err != nil {
			return
		}
		switch {
		case m.Kind == Filters && len(m.Strs) == 2:
			z.single, z.real = newFilter(m.Strs[0]), newFilter(m.Strs[1])
		case m.Kind == Bear && len(m.Nums) == 2 && len(fds) == 1 && z.real != nil:
			err = z.bear(m.ID, uintptr(m.Nums[0]), int(m.Nums[1]), fds[0])
		default:
			err = errMessage
		}
		CloseAll(fds)
		z.in.free()
		if err != nil {
			return
		}
	}
}

// bear makes an init of these namespaces, among them a user namespace in which
// this process's own id is 0 and the only one, or one with so many of its ids,
// as they are. It answers with the init's number and a descriptor of it; what
// fails from then on, the init itself tells. In the init it does not return.
func (z *zygote) bear(id uint32, flags uintptr, ids, sock int) error {
	ready := [2]int{-1, -1} // a pipe that says that the maps of many ids are written
	if ids > 0 {
		if err := syscall.Pipe2(ready[:], syscall.O_CLOEXEC); err != nil {
			return z.tell(Message{Kind: Refused, ID: id, Nums: []int64{int64(errno(err))}})
		}
	}
	pid, pidfd, e := fork(flags)
	if pid == 0 && e == 0 {
		z.child.begin(z, sock, ids, ready)
	}
	if ids > 0 {
		syscall.Close(ready[0])
		if e == 0 {
			// The kernel ends an init that was told nothing with its pipe.
			_ = writeMaps(pid, ids, ready[1])
		}
		syscall.Close(ready[1])
	}
	if e != 0 {
		return z.tell(Message{Kind: Refused, ID: id, Nums: []int64{int64(e)}})
	}
	err := z.tell(Message{Kind: Born, ID: id, Nums: []int64{int64(pid)}}, pidfd)
	syscall.Close(pidfd)
	return err
}

func (z *zygote) tell(m Message, fds ...int) (err error) {
	z.out, err = tell(control, z.out, m, fds...)
	return err
}

const clonePidfd = 0x1000

// fork copies this process, as a child of its own parent. The copy has all
// signals blocked and a lock of the runtime's that it never gives back: asking
// twice to be left alone for a fork, and being let go once, leaves both.
//
//go:noinline
func fork(flags uintptr) (pid, pidfd int, e syscall.Errno) {
	var fd int32
	runtimeBeforeFork()
	n, eno := vfork(flags|clonePidfd|syscall.CLONE_PARENT|uintptr(syscall.SIGCHLD), &fd)
	if n == 0 && eno == 0 {
		runtimeBeforeFork()
	}
	runtimeAfterFork()
	return int(n), int(fd), syscall.Errno(eno)
}

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

// writeMaps gives a child that waits for it ids of this process's.
func writeMaps(pid, ids, ready int) error {
	// The parent's 0 is a range of its own: none of the child's may reach over two.
	text := []byte("0 0 1\n1 1 " + itoa(int64(ids)-1))
	for _, name := range [...]string{"gid_map", "uid_map"} {
		if err := writeFile("/proc/"+itoa(int64(pid))+"/"+name, text); err != nil {
			return err
		}
	}
	_, err := syscall.Write(ready, text[:1])
	return err
}

// begin makes an init of the copy, on a socket of its own.
func (s *server) begin(z *zygote, sock, ids int, ready [2]int) {
	s.without, s.filter = z.without, z.single
	if ids > 0 {
		s.filter = z.real
	}
	err := s.takeIDs(ids, ready)
	if e := dup(sock, control); e != 0 {
		syscall.Exit(1) // nobody to tell
	}
	closeFrom(control + 1)
	if err == nil {
		err = s.prepare()
	}
	if err != nil {
		m := Message{Kind: Failed, Strs: []string{err.Error()}, Nums: []int64{0}}
		if f, ok := err.(*failure); ok {
			m = Message{Kind: Failed, Strs: []string{f.step}, Nums: []int64{int64(f.err)}}
		}
		_ = s.tell(m) // nobody else to tell
		syscall.Exit(1)
	}
	s.serve()
	syscall.Exit(0)
}

// takeIDs maps one id, or waits until more are mapped.
func (s *server) takeIDs(ids int, ready [2]int) error {
	if ids > 0 {
		syscall.Close(ready[1])
		var b [1]byte
		if n, _ := syscall.Read(ready[0], b[:]); n != 1 {
			return failed("take its ids", syscall.EPERM)
		}
		_, _, e := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		return failed("drop its groups", e)
	}
	for _, f := range [...][3]string{
		{"/proc/self/setgroups", "deny", "deny setgroups"},
		{"/proc/self/uid_map", "0 0 1", "map its user"},
		{"/proc/self/gid_map", "0 0 1", "map its group"},
	} {
		if err := writeFile(f[0], []byte(f[1])); err != nil {
			return failed(f[2], errno(err))
		}
	}
	return nil
}

func writeFile(name string, text []byte) error {
	fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, text)
	return err
}

func dup(from, to int) syscall.Errno {
	_, _, e := syscall.RawSyscall(syscall.SYS_DUP3, uintptr(from), uintptr(to), syscall.O_CLOEXEC)
	return e
}

func closeFrom(fd int) {
	syscall.RawSyscall(sysCloseRange, uintptr(fd), uintptr(^uint32(0)), 0)
}

// hearNothing gives every signal the kernel's own action, which a namespace's
// first process is spared: Go's runtime has handlers for all, and dies of most.
// A real fault still kills.
func hearNothing() {
	var act [4]uint64 // struct sigaction of the kernel: handler, flags, restorer, mask
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
	}
}
