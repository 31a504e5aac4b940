package pid1

import (
	"syscall"
	"unsafe"
)

// enter makes the tree of fds[0] this process's root.
func (s *server) enter(m Message, fds []int) error {
	if !s.parked || len(m.Nums) < 2 || len(m.Strs) < 1 {
		return errMessage
	}
	shm, mounts := m.Nums[0], m.Nums[1]
	if mounts < 0 || int64(len(fds)) != mounts+1 || int64(len(m.Strs)) != mounts+1 {
		return errMessage
	}
	if s.unready != nil {
		return s.unready
	}
	if err := syscall.Sethostname([]byte(m.Strs[0])); err != nil && !s.lacks(WithoutUTS) {
		return failed("set host name", errno(err))
	}
	root := fds[0]
	if e := attach(root, s.spare); e != 0 {
		return failed("attach root", e)
	}
	if err := s.moveIn(root, shm); err != nil {
		return err
	}
	for i, fd := range fds[1:] {
		if err := s.mountIn(root, fd, m.Strs[i+1]); err != nil {
			return err
		}
	}
	if err := s.pivot(root); err != nil {
		return err
	}
	s.parked = false
	s.listenDNS()
	for _, p := range m.Nums[2:] {
		if err := s.listen(int(p)); err != nil {
			return err
		}
	}
	return nil
}

// renew leaves behind what a tree's programs could have left in the
// namespaces: System V IPC, message queues, sockets that wait.
func (s *server) renew() error {
	if err := syscall.Unshare(s.renewed()); err != nil {
		return failed("renew namespaces", errno(err))
	}
	s.linked = false
	return failed("bring loopback up", s.loopbackUp())
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

// furniture is what every tree has. It is made while no tree is there yet, so
// that a sandbox need not wait for some thirty mounts, and moves into the tree
// in two steps.
type furniture struct{ proc, dev, pts int } // roots of the mounts; -1: none

const (
	parkedProc = "fproc" // directories of the parking root
	parkedDev  = "fdev"
	usualShm   = 64 << 20 // bytes of /dev/shm, Docker's default
)

// furnish mounts /dev, /dev/pts and /dev/shm in the parking root, and /proc for
// this process's first tree: later ones get the same, as nothing of it is a
// program's to change.
func (s *server) furnish() error {
	dev, err := newMount("tmpfs", mountNoSuid|mountNoExec, "mode=755", "size=4m", "nr_inodes=4k")
	if err != nil {
		return err
	}
	defer syscall.Close(dev)
	if err := mountOn(atCWD, dev, parkedDev); err != nil {
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
	if err := s.keep(&s.next.pts, pts, oPath|syscall.O_DIRECTORY); err != nil {
		return err
	}
	if err := mountShm(dev, usualShm); err != nil {
		return err
	}
	if err := s.keep(&s.next.dev, dev, oPath|syscall.O_DIRECTORY); err != nil {
		return err
	}
	if s.next.proc >= 0 {
		return nil
	}
	return s.firstProc(dev)
}

func (s *server) firstProc(dev int) error {
	proc, err := newMount("proc", mountNoSuid|mountNoDev|mountNoExec)
	if err != nil {
		return err
	}
	defer syscall.Close(proc)
	if err := s.forbidNesting(proc); err != nil {
		return err
	}
	s.shareCounters(proc)
	if err := mountOn(atCWD, proc, parkedProc); err != nil {
		return err
	}
	if err := s.keep(&s.next.proc, proc, syscall.O_RDONLY|syscall.O_DIRECTORY); err != nil {
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

// moveIn moves the furniture into a tree.
func (s *server) moveIn(root int, shm int64) error {
	if shm != usualShm { // upon the usual one, which nobody sees any more
		if err := mountShm(s.next.dev, shm); err != nil {
			return err
		}
	}
	if err := s.mountIn(root, s.next.proc, "proc"); err != nil {
		return err
	}
	if err := s.mountIn(root, s.next.dev, "dev"); err != nil {
		return err
	}
	for _, f := range [...][2]*int{{&s.proc, &s.next.proc}, {&s.dev, &s.next.dev}, {&s.pts, &s.next.pts}} {
		if *f[0] >= 0 {
			syscall.Close(*f[0])
		}
		*f[0], *f[1] = *f[1], -1
	}
	return nil
}

// keep replaces a descriptor that outlives the request.
func (s *server) keep(to *int, mount int, flags uint64) error {
	fd, e := openat2(mount, ".", flags, 0)
	if e != 0 {
		return failed("reopen mount", e)
	}
	if *to >= 0 {
		syscall.Close(*to)
	}
	*to = fd
	return nil
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
	if err := syscall.PivotRoot(".", "."); err != nil {
		return failed("pivot root", errno(err))
	}
	s.behind = true
	return nil
}

// leave lets go of the old root, which lies upon the new one since pivot. The
// kernel takes longer for it than for all the rest.
func (s *server) leave() error {
	if !s.behind {
		return nil
	}
	s.behind = false
	if s.lacks(WithoutOldRoot) {
		return nil
	}
	if err := syscall.Unmount(".", mntDetach); err != nil {
		return failed("leave old root", errno(err))
	}
	return failed("enter root", errno(syscall.Chdir("/")))
}

// park leaves the tree for an empty one, so that nothing here refers to it any
// more when the answer is sent. No process but this one is left.
func (s *server) park() error {
	if s.parked {
		return nil
	}
	s.closeRelays()
	s.closeDNS()
	root, err := newMount("tmpfs", mountNoSuid|mountNoDev|mountNoExec, "mode=700", "size=64k", "nr_inodes=16")
	if err != nil {
		return err
	}
	defer syscall.Close(root)
	for _, d := range [...]string{"new", "hostdev", parkedProc, parkedDev} {
		if err := syscall.Mkdirat(root, d, 0o700); err != nil {
			return failed("make "+d, errno(err))
		}
	}
	old, e := openat2(atCWD, ".", oPath|syscall.O_DIRECTORY, 0)
	if e == 0 {
		e = attach(root, old)
		syscall.Close(old)
	}
	if e != 0 {
		return failed("attach empty root", e)
	}
	if err := mountOn(root, s.proc, parkedProc); err != nil {
		return err
	}
	s.next.proc, s.proc = s.proc, -1
	if err := mountOn(root, s.dev, "hostdev"); err != nil {
		return err
	}
	for _, fd := range [...]*int{&s.pts, &s.dev} {
		syscall.Close(*fd)
		*fd = -1
	}
	if err := s.pivot(root); err != nil {
		return err
	}
	if err := s.leave(); err != nil {
		return err
	}
	at, e := openat2(root, "new", oPath|syscall.O_DIRECTORY, 0)
	if e != 0 {
		return failed("find the attachment point", e)
	}
	if s.spare >= 0 {
		syscall.Close(s.spare)
	}
	s.spare, s.parked = at, true
	return nil
}

// listen opens a relayed port on the sandbox's loopback. Whoever connects is
// handed to the host as an open socket.
func (s *server) listen(port int) error {
	for _, family := range [...]int{syscall.AF_INET, syscall.AF_INET6} {
		fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			if family == syscall.AF_INET6 {
				continue // a kernel without IPv6
			}
			return failed("open relay", errno(err))
		}
		// Connections of before a snapshot may linger.
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
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
		s.relays = append(s.relays, fd)
		s.accepting.Add(1)
		go s.accept(fd, port)
	}
	return nil
}

func (s *server) accept(fd, port int) {
	defer s.accepting.Done()
	for {
		c, _, err := syscall.Accept4(fd, syscall.SOCK_CLOEXEC)
		switch err {
		case nil:
			_ = Send(s.sock, Message{Kind: Conn, Nums: []int64{int64(port)}}, c) // the reader's end closes it otherwise
			syscall.Close(c)
		case syscall.EINTR, syscall.ECONNABORTED:
		default:
			return // closeRelays shut it down
		}
	}
}

func (s *server) closeRelays() {
	for _, fd := range s.relays {
		_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
	}
	s.accepting.Wait()
	CloseAll(s.relays)
	s.relays = nil
}
