package pid1

import (
	"runtime"
	"syscall"
	"unsafe"
)

// control is the descriptor of the socket that a zygote is born with, and an
// init.
const control = 3

// booted runs before the packages that depend on more than this one; see the
// package comment.
var _ = boot()

func boot() bool {
	// Package os would cost as much as all that is done here.
	args := commandLine()
	if len(args) == 0 || args[0] != Marker {
		return false
	}
	runtime.LockOSThread() // namespaces and rights are a thread's, and children inherit this one's
	z := &zygote{without: withoutOf(args[1:]), child: newServer()}
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetPdeathsig, uintptr(syscall.SIGKILL), 0)
	if z.without&WithoutDeafness == 0 {
		hearNothing()
	}
	syscall.Umask(0)
	if len(args) > 1 && args[1] == BackToRoot {
		// It was there for the program's interpreter and libraries only.
		if err := syscall.Chroot("."); err != nil {
			syscall.Exit(1)
		}
	}
	z.serve()
	syscall.Exit(0)
	return true
}

const (
	prSetPdeathsig  = 1
	prSetDumpable   = 4
	prCapbsetDrop   = 24
	prSetNoNewPrivs = 38

	keyctlJoinSession = 1
)

// prepare does what needs to know nothing of the sandbox to come.
func (s *server) prepare() error {
	prctl := func(op, arg uintptr) syscall.Errno {
		_, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, op, arg, 0, 0, 0, 0)
		return e
	}
	prctl(prSetPdeathsig, uintptr(syscall.SIGKILL))
	goFirst() // while this process may still be looked into, by itself too
	if !s.lacks(WithoutDumpable) {
		prctl(prSetDumpable, 0) // keeps ptrace and /proc/1/{exe,fd,root,mem} from programs inside
	}
	// Away from the keys of whoever started assay. A kernel without keys has none to hide.
	if !s.lacks(WithoutKeyring) {
		syscall.RawSyscall(syscall.SYS_KEYCTL, keyctlJoinSession, 0, 0)
	}
	if err := s.boundPrograms(prctl); err != nil {
		return err
	}
	if e := s.hearChildren(); e != 0 {
		return failed("hear of children", e)
	}
	if e := s.loopbackUp(); e != 0 {
		return failed("bring loopback up", e)
	}
	if err := syscall.Chdir("/"); err != nil {
		return failed("enter root", errno(err))
	}
	at, e := openat2(atCWD, "new", oPath|syscall.O_DIRECTORY, 0)
	if e != 0 {
		return failed("find the attachment point", e)
	}
	s.at = at
	s.listenDNS()
	if err := s.furnish(); err != nil {
		return err
	}
	return failed("report", errno(s.tell(Message{Kind: Ready})))
}

// boundPrograms takes from this thread what programs must not get: they inherit
// it, and it means nothing to a process that never executes another program.
func (s *server) boundPrograms(prctl func(op, arg uintptr) syscall.Errno) error {
	for c := uintptr(0); c <= lastCap && !s.lacks(WithoutCaps); c++ {
		if keptCaps&(uint64(1)<<c) != 0 {
			continue
		}
		if e := prctl(prCapbsetDrop, c); e == syscall.EINVAL {
			break // the kernel knows no more
		} else if e != 0 {
			return failed("drop capability "+itoa(int64(c)), e)
		}
	}
	if s.lacks(WithoutNoNewPrivs) {
		return nil
	}
	return failed("forbid new privileges", prctl(prSetNoNewPrivs, 1))
}

// hearChildren opens the descriptor that says when a child has ended. All
// signals are blocked, and one that is blocked is kept even if nobody handles
// it.
func (s *server) hearChildren() syscall.Errno {
	mask := uint64(1) << (uint(syscall.SIGCHLD) - 1)
	fd, _, e := syscall.RawSyscall6(syscall.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&mask)), 8,
		syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0, 0)
	s.ends = int(fd)
	if e == 0 && s.lacks(WithoutDeafness) { // the runtime's handlers are there to die of
		_, _, e = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
	}
	return e
}

const atCWD = -100

// oomScore is half of the machine's memory, in thousandths.
const oomScore = 500

// goFirst makes this process and all its programs the ones that the kernel
// ends when the machine's memory is full, before whoever holds them. Among
// them the largest goes first, which an init never is.
func goFirst() {
	fd, err := syscall.Open("/proc/self/oom_score_adj", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return // a /proc that hides it
	}
	defer syscall.Close(fd)
	var buf [16]byte
	n, err := syscall.Read(fd, buf[:])
	if err != nil || n < 2 || buf[0] == '-' {
		n, buf[0] = 2, '0' // protected like whoever started it, which programs must not be
	}
	_, _ = syscall.Write(fd, []byte(itoa(int64(min(number(buf[:n-1])+oomScore, 1000)))))
}

func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.EIO
}

func (s *server) loopbackUp() syscall.Errno {
	if s.lacks(WithoutNet) {
		return 0 // it is not ours
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return errno(err)
	}
	defer syscall.Close(fd)
	var req struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req)))
	return e
}

// commandLine reads the arguments of this process. /proc is the machine's at
// this time, or that of whatever runs as a container's first process.
func commandLine() []string {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	var buf [256]byte // a longer line is none of ours
	n, err := syscall.Read(fd, buf[:])
	if err != nil {
		return nil
	}
	var args []string
	for rest := buf[:max(n, 0)]; ; {
		i := 0
		for i < len(rest) && rest[i] != 0 {
			i++
		}
		if i == len(rest) {
			return args
		}
		args = append(args, string(rest[:i]))
		rest = rest[i+1:]
	}
}

func itoa(n int64) string {
	var b [20]byte
	i := len(b)
	for n >= 10 {
		i--
		b[i] = byte('0' + n%10)
		n /= 10
	}
	i--
	b[i] = byte('0' + n)
	return string(b[i:])
}
