package pid1

import "syscall"

// Walls that an init is told to leave out, for the hostile self-test; they are
// the bits of sandbox.Defences, which package ns checks at compile time.
const (
	WithoutDeafness uint64 = 1 << iota
	WithoutDumpable
	WithoutKeyring
	WithoutNestedNS
	WithoutMaskProc
	WithoutReadOnlyProc
	WithoutOldRoot
	WithoutCaps
	WithoutNoNewPrivs
	WithoutDescriptors
	WithoutSeccomp
	WithoutDeath
	WithoutNet
	WithoutIPC
	WithoutUTS

	WithoutTreePaths uint64 = 1 << 23
	WithoutShare     uint64 = 1 << 29
)

// WithoutArg begins the argument that tells an init; a decimal number follows.
const WithoutArg = "without="

// withoutOf finds what is to be left out among an init's arguments.
func withoutOf(args []string) uint64 {
	for _, a := range args {
		if len(a) > len(WithoutArg) && a[:len(WithoutArg)] == WithoutArg {
			var n uint64
			for _, c := range []byte(a[len(WithoutArg):]) {
				n = n*10 + uint64(c-'0')
			}
			return n
		}
	}
	return 0
}

// lacks reports whether a wall is left out.
func (s *server) lacks(wall uint64) bool { return s.without&wall != 0 }

// leak lets programs inherit a descriptor of before the tree.
func leak(fd int) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, 0)
}

// mountIn attaches a mount at a path of a tree, whose links lead nowhere else
// (CVE-2021-30465); without that wall, to wherever they point.
func (s *server) mountIn(root, mount int, target string) error {
	if !s.lacks(WithoutTreePaths) {
		return mountOn(root, mount, target)
	}
	_ = syscall.Mkdirat(root, target, 0o755) // it may be there
	at, err := syscall.Openat(root, target, oPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return failed("mount "+target, errno(err))
	}
	defer syscall.Close(at)
	return failed("mount "+target, attach(mount, at))
}

// watchers is how many inotify instances a sandbox may have: half of what
// kernels grant a user, which all sandboxes and the rest of the machine share.
const watchers = "64"

func (s *server) shareCounters(proc int) {
	if s.lacks(WithoutShare) {
		return
	}
	fd, e := openat2(proc, "sys/user/max_inotify_instances", syscall.O_WRONLY, 0)
	if e != 0 {
		return // a kernel that does not count them by namespace
	}
	_, _ = syscall.Write(fd, []byte(watchers)) // what is refused leaves it to the user's limit
	syscall.Close(fd)
}
