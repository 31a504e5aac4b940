package pid1

import (
	"syscall"
	"unsafe"
)

// enter makes the tree of fds[0] this process's root, once. Strings after the
// host's name and the mounts' targets are paths that become read-only. The last
// descriptors are lists of control groups' tasks; joined says whether it could put itself on
// them.
func (s *server) enter(m *Message, fds []int) (joined syscall.Errno, err error) {
	if s.entered || len(m.Nums) < 3 || len(m.Strs) < 1 {
		return 0, errMessage
	}
	shm, mounts, groups := m.Nums[0], m.Nums[1], m.Nums[2]
	if mounts < 0 || groups < 0 || int64(len(fds)) != 1+mounts+groups || int64(len(m.Strs)) < mounts+1 {
		return 0, errMessage
	}
	for _, g := range fds[1+mounts:] {
		// This very thread, and so nobody else has to stand still for it.
		if _, err := syscall.Write(g, []byte("0")); err != nil {
			joined = errno(err)
		}
	}
	if err := syscall.Sethostname([]byte(m.Strs[0])); err != nil && !s.lacks(WithoutUTS) {
		return joined, failed("set host name", errno(err))
	}
	root := fds[0]
	if e := attach(root, s.at); e != 0 {
		return joined, failed("attach root", e)
	}
	if s.lacks(WithoutDescriptors) {
		leak(s.at)
	} else {
		syscall.Close(s.at)
	}
	if err := s.moveIn(root, shm); err != nil {
		return joined, err
	}
	for i, fd := range fds[1 : 1+mounts] {
		if err := s.mountIn(root, fd, m.Strs[i+1]); err != nil {
			return joined, err
		}
	}
	for _, p := range m.Strs[1+mounts:] {
		if err := freeze(root, p); err != nil {
			return joined, err
		}
	}
	if err := s.pivot(root); err != nil {
		return joined, err
	}
	s.entered = true
	for _, p := range m.Nums[3:] {
		if err := s.listen(int(p)); err != nil {
			return joined, err
		}
	}
	s.watch()
	return joined, nil
}

// mountOn attaches a mount at a path of the tree, which is made if missing.
func mountOn(root, mount int, target string) error {
	open := fileAt
	if isDir(mount) {
		open = dirAt
	}
	at, e := open(root, target)
	if e == 0 {
		e = attach(mount, at)
		syscall.Close(at)
	}
	return failed("mount "+target, e)
}

const (
	furnishedProc = "fproc" // directories of the first root
	furnishedDev  = "fdev"
	usualShm      = 64 << 20 // bytes of /dev/shm, Docker's default
)

// furnish mounts what every tree has, /proc, /dev, /dev/pts and /dev/shm, while no
// tree is there yet, so that a sandbox need not wait for some thirty mounts: they
// move into the tree in two steps.
func (s *server) furnish() error {
	dev, err := newMount("tmpfs", mountNoSuid|mountNoExec, "mode=755", "size=4m", "nr_inodes=4k")
	if err != nil {
		return err
	}
	defer syscall.Close(dev)
	if err := mountOn(atCWD, dev, furnishedDev); err != nil {
		return err
	}
	if err := devices(dev); err != nil {
		return err
	}
	pts, err := newMount("devpts", mountNoSuid|mountNoExec, "ptmxmode=0666", "mode=0620")
	if err != nil {
		return err
	}
	defer syscall.Close(pts)
	if err := mountOn(dev, pts, "pts"); err != nil {
		return err
	}
	if err := keep(&s.pts, pts, oPath|syscall.O_DIRECTORY); err != nil {
		return err
	}
	if err := mountShm(dev, usualShm); err != nil {
		return err
	}
	if err := keep(&s.dev, dev, oPath|syscall.O_DIRECTORY); err != nil {
		return err
	}
	return s.mountProc(dev)
}

func (s *server) mountProc(dev int) error {
	proc, err := newMount("proc", mountNoSuid|mountNoDev|mountNoExec)
	if err != nil {
		return err
	}
	defer syscall.Close(proc)
	if err := s.forbidNesting(proc); err != nil {
		return err
	}
	s.shareCounters(proc)
	if err := mountOn(atCWD, proc, furnishedProc); err != nil {
		return err
	}
	if err := keep(&s.proc, proc, syscall.O_RDONLY|syscall.O_DIRECTORY); err != nil {
		return err
	}
	if !s.lacks(WithoutMaskProc) {
		if err := mask(proc, dev); err != nil {
			return err
		}
	}
	if s.lacks(WithoutReadOnlyProc) {
		return nil
	}
	return readOnly(proc, "sys", "bus", "fs", "irq")
}

// forbidNesting keeps programs from making further user namespaces.
func (s *server) forbidNesting(proc int) error {
	if s.lacks(WithoutNestedNS) {
		return nil
	}
	fd, e := openat2(proc, "sys/user/max_user_namespaces", syscall.O_WRONLY, 0)
	if e == syscall.ENOENT {
		return nil // a kernel that has no user namespaces to forbid
	}
	if e != 0 {
		return failed("forbid further user namespaces", e)
	}
	defer syscall.Close(fd)
	_, err := syscall.Write(fd, []byte("0"))
	return failed("forbid further user namespaces", errno(err))
}

func mountShm(dev int, size int64) error {
	mem, err := newMount("tmpfs", mountNoSuid|mountNoDev, "mode=1777", "size="+itoa(size), "nr_inodes=64k")
	if err != nil {
		return err
	}
	defer syscall.Close(mem)
	return mountOn(dev, mem, "shm")
}

// moveIn moves it into a tree.
func (s *server) moveIn(root int, shm int64) error {
	if shm != usualShm { // upon the usual one, which nobody sees any more
		if err := mountShm(s.dev, shm); err != nil {
			return err
		}
	}
	if err := s.mountIn(root, s.proc, "proc"); err != nil {
		return err
	}
	return s.mountIn(root, s.dev, "dev")
}

// keep opens a mount's root for as long as the init lives.
func keep(to *int, mount int, flags uint64) error {
	fd, e := openat2(mount, ".", flags, 0)
	*to = fd
	return failed("reopen mount", e)
}

// devices fills /dev. The nodes are the host's, bound one by one: a user
// namespace may not make any but 0:0, which stands below each, so that a
// directory says "device" to who looks there alone, as find -type f does.
func devices(dev int) error {
	for _, name := range [...]string{"null", "zero", "full", "random", "urandom", "tty"} {
		src, e := openat2(atCWD, "hostdev/"+name, oPath, 0)
		if e != 0 {
			return failed("open device "+name, e)
		}
		_ = syscall.Mknodat(dev, name, syscall.S_IFCHR|0o666, 0) // before Linux 5.8 a file has to do
		at, e := fileAt(dev, name)
		if e == 0 {
			e = bindAt(src, at)
			syscall.Close(at)
		}
		syscall.Close(src)
		if e != 0 {
			return failed("bind device "+name, e)
		}
	}
	for _, l := range [...][2]string{
		{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"},
	} {
		if e := symlinkat(l[0], dev, l[1]); e != 0 {
			return failed("link /dev/"+l[1], e)
		}
	}
	return nil
}

func symlinkat(target string, dir int, name string) syscall.Errno {
	_, _, e := syscall.Syscall(syscall.SYS_SYMLINKAT, cstr(target), uintptr(dir), cstr(name))
	return e
}

// mask hides what of /proc says or does something about the whole machine. The
// user inside has no rights there anyway; files that are readable to all are
// the reason.
func mask(proc, dev int) error {
	null, e := openat2(dev, "null", oPath, 0)
	if e != 0 {
		return failed("open null device", e)
	}
	defer syscall.Close(null)
	for _, name := range [...]string{"kcore", "keys", "latency_stats", "sched_debug", "timer_list", "timer_stats", "sysrq-trigger"} {
		at, e := openat2(proc, name, oPath, 0)
		if e == syscall.ENOENT {
			continue
		}
		if e == 0 {
			e = bindAt(null, at)
			syscall.Close(at)
		}
		if e != 0 {
			return failed("mask /proc/"+name, e)
		}
	}
	for _, name := range [...]string{"acpi", "scsi", "asound"} {
		at, e := openat2(proc, name, oPath|syscall.O_DIRECTORY, 0)
		if e == syscall.ENOENT {
			continue
		}
		if e != 0 {
			return failed("mask /proc/"+name, e)
		}
		empty, err := newMount("tmpfs", mountReadOnly|mountNoSuid|mountNoDev|mountNoExec, "size=4k", "nr_inodes=2")
		if err != nil {
			syscall.Close(at)
			return err
		}
		e = attach(empty, at)
		syscall.Close(empty)
		syscall.Close(at)
		if e != 0 {
			return failed("mask /proc/"+name, e)
		}
	}
	return nil
}

// readOnly makes directories of a mount read-only, for good.
func readOnly(proc int, names ...string) error {
	for _, name := range names {
		at, e := openat2(proc, name, oPath|syscall.O_DIRECTORY, 0)
		if e == syscall.ENOENT {
			continue
		}
		if e == 0 {
			e = bindReadOnly(at)
			syscall.Close(at)
		}
		if e != 0 {
			return failed("make /proc/"+name+" read-only", e)
		}
	}
	return nil
}

// freeze makes a file or directory of the tree read-only, if it is there.
func freeze(root int, path string) error {
	at, e := openat2(root, path, oPath|syscall.O_NOFOLLOW, 0)
	switch e {
	case 0:
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP:
		return nil
	default:
		return failed("open /"+path, e)
	}
	defer syscall.Close(at)
	var st syscall.Stat_t
	if err := syscall.Fstat(at, &st); err != nil {
		return failed("look at /"+path, errno(err))
	}
	if k := st.Mode & syscall.S_IFMT; k != syscall.S_IFDIR && k != syscall.S_IFREG {
		return nil
	}
	return failed("make /"+path+" read-only", bindReadOnly(at))
}

func bindReadOnly(at int) syscall.Errno {
	empty := uintptr(unsafe.Pointer(cbytes("")))
	m, _, e := syscall.Syscall(sysOpenTree, uintptr(at), empty, openTreeClone|atEmptyPath|syscall.O_CLOEXEC)
	if e != 0 {
		return e
	}
	defer syscall.Close(int(m))
	attr := struct{ set, clr, propagation, userns uint64 }{set: mountReadOnly}
	_, _, e = syscall.Syscall6(sysMountSetattr, m, empty, atEmptyPath, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return e
	}
	return attach(int(m), at)
}

// pivot makes root, attached somewhere, the root of this namespace. Until leave
// the old one is still there.
func (s *server) pivot(root int) error {
	if err := syscall.Fchdir(root); err != nil {
		return failed("enter root", errno(err))
	}
	return failed("pivot root", errno(syscall.PivotRoot(".", ".")))
}

// leave lets go of the old root, which lies upon the new one since pivot. The
// kernel takes longer for it than for all the rest.
func (s *server) leave() error {
	if s.lacks(WithoutOldRoot) {
		return nil
	}
	if err := syscall.Unmount(".", mntDetach); err != nil {
		return failed("leave old root", errno(err))
	}
	return failed("enter root", errno(syscall.Chdir("/")))
}

// listen opens a relayed port on the sandbox's loopback. Whoever connects is
// handed to the host as an open socket.
func (s *server) listen(port int) error {
	for _, family := range [...]int{syscall.AF_INET, syscall.AF_INET6} {
		fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			if family == syscall.AF_INET6 {
				continue // a kernel without IPv6
			}
			return failed("open relay", errno(err))
		}
		var addr syscall.Sockaddr = &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
		if family == syscall.AF_INET6 {
			_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 1)
			addr = &syscall.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}
		}
		if err = syscall.Bind(fd, addr); err == nil {
			err = syscall.Listen(fd, 128)
		}
		if err != nil {
			syscall.Close(fd)
			if family == syscall.AF_INET6 {
				continue
			}
			return failed("relay port "+itoa(int64(port)), errno(err))
		}
		s.relays = append(s.relays, relay{fd, port})
	}
	return nil
}

// accept hands out one connection.
func (s *server) accept(i int) {
	c, _, e := syscall.Syscall6(syscall.SYS_ACCEPT4, uintptr(s.relays[i].fd), 0, 0, syscall.SOCK_CLOEXEC, 0, 0)
	switch e {
	case 0:
		_ = s.tell(Message{Kind: Conn, Nums: []int64{int64(s.relays[i].port)}}, int(c)) // the reader's end closes it otherwise
		syscall.Close(int(c))
	case syscall.EAGAIN, syscall.EINTR, syscall.ECONNABORTED: // whoever it was has gone
	default:
		syscall.Close(s.relays[i].fd)
		s.relays = append(s.relays[:i], s.relays[i+1:]...)
		s.watch()
	}
}
