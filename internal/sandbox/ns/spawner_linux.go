package ns

import (
	"debug/elf"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
	"assay/internal/sandbox/ns/seccomp"
)

// spawner has inits made. It keeps a zygote (package pid1) on a thread whose
// mount namespace holds nearly nothing: every init gets a copy of it.
type spawner struct {
	exe     int // this program
	stderr  int
	null    int  // the thread's
	dynamic bool // the program has an interpreter and libraries
	warm    chan *initProc
	mapped  chan *initProc // with ids; none is kept ready before the first is asked for
	mapping sync.Once      // fills mapped
	ids     int            // of those: how many
	stop    chan struct{}
	without sandbox.Defences
	filter  []byte // of every program
	wg      sync.WaitGroup
	reap    *reaper

	bearing sync.Mutex // held from the question to the zygote to its answer
	zygote  packets
	answers pid1.Receiver
	parent  *initProc // the zygote itself
}

// initProc is one init. The socket is its other end's.
type initProc struct {
	pid  int
	fd   int // pidfd; -1 once reaped
	mu   sync.Mutex
	sock int
	done chan struct{} // closed when it is reaped
}

// kill ends the init and with it all of its namespace. It may be repeated.
func (p *initProc) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd >= 0 {
		_ = unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0) // ESRCH: it just ended
	}
}

func (p *initProc) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Close(p.fd)
	p.fd = -1
	close(p.done)
}

// gone reports whether it is reaped.
func (p *initProc) gone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// discard ends the init and waits for it. It may be repeated.
func (p *initProc) discard() {
	p.kill()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sock >= 0 {
		unix.Close(p.sock)
	}
	p.sock = -1
}

func newSpawner(program, warm, ids int, without sandbox.Defences) (*spawner, error) {
	// Away from the numbers that an init is born with.
	exe, err := unix.FcntlInt(uintptr(program), unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return nil, err
	}
	stderr, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return nil, err
	}
	dynamic, err := needsInterpreter(exe)
	if err != nil {
		return nil, err
	}
	// There is one user id in a sandbox: what changes owners can only pretend.
	filter, err := seccomp.Compile(seccomp.Policy{Arch: runtime.GOARCH, FakeOwners: true})
	if err != nil {
		return nil, err
	}
	real, err := seccomp.Compile(seccomp.Policy{Arch: runtime.GOARCH, FakeDevices: true})
	if err != nil {
		return nil, err
	}
	s := &spawner{filter: filter, exe: exe, stderr: stderr, dynamic: dynamic, warm: make(chan *initProc, max(warm, 0)),
		mapped: make(chan *initProc, max(min(warm, 1), 0)), ids: ids, stop: make(chan struct{}), without: without, reap: newReaper()}
	ready := make(chan error)
	go s.run(ready) // its thread ends with the keeper: namespaces cannot be given back
	if err := <-ready; err != nil {
		return nil, err
	}
	if err := pid1.Send(s.zygote, pid1.Message{Kind: pid1.Filters, Strs: []string{string(filter), string(real)}}); err != nil {
		return nil, stepError(stepInit, err)
	}
	first, err := s.booted(0) // the others will fare like it
	if err != nil {
		return nil, err
	}
	if warm <= 0 {
		first.discard()
		return s, nil
	}
	s.warm <- first
	s.wg.Go(func() { s.fill(0, s.warm) })
	return s, nil
}

// run is the thread.
func (s *spawner) run(ready chan<- error) {
	runtime.LockOSThread()
	err := leanNamespace(s.dynamic)
	if err == nil {
		err = s.startZygote()
	}
	ready <- err
	<-s.stop // inits end with the thread, which is their parent
}

// startZygote starts it from here: from this thread's namespace and root.
func (s *spawner) startZygote() error {
	null, err := unix.Open("/hostdev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.null = null
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[1])
	if s.zygote, err = newPackets(pair[0]); err != nil {
		return err
	}
	s.answers.P = s.zygote
	attr := &syscall.ProcAttr{ // in this thread's directory: it is the way back to its root
		// One processor: it waits nearly always, and need not look for the limits of a
		// container to know. No collection: an init could not (package pid1).
		Env: []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"},
		// Its errors go where the keeper's go.
		Files: []uintptr{uintptr(s.null), uintptr(s.null), uintptr(s.stderr), uintptr(pair[1])},
		Sys:   &syscall.SysProcAttr{},
	}
	args := []string{pid1.Marker}
	if s.dynamic {
		attr.Sys.Chroot = "/host"
		args = append(args, pid1.BackToRoot)
	}
	if s.without != 0 {
		args = append(args, pid1.WithoutArg+strconv.FormatUint(uint64(s.without), 10))
	}
	s.parent = &initProc{sock: -1, done: make(chan struct{})}
	attr.Sys.PidFD = &s.parent.fd
	s.reap.expect(s.parent, func() (int, error) {
		s.parent.pid, err = syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", s.exe), args, attr)
		return s.parent.pid, err
	})
	return stepError(stepInit, err)
}

// leanNamespace leaves this thread with a root of an empty tmpfs, the
// machine's /proc (the kernel grants a fresh one only to who sees a full one)
// and six devices. A dynamically linked program also needs the machine's
// libraries for its first steps, and finds all of the machine below /host.
func leanNamespace(dynamic bool) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return stepError(stepMount, err)
	}
	proc, err := treeOf("/host/proc")
	if err != nil {
		return stepError(stepProc, err)
	}
	defer unix.Close(proc)
	root, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, mountOption{"mode", "755"}, mountOption{"size", "64k"})
	if err != nil {
		return stepError(stepMount, err)
	}
	defer unix.Close(root)
	for _, d := range []string{"proc", "new", "hostdev", "host", "fproc", "fdev"} {
		if err := unix.Mkdirat(root, d, 0o755); err != nil {
			return err
		}
	}
	if err := attach(root, "/o"); err != nil {
		return err
	}
	if dynamic {
		host, err := treeOf("/host")
		if err == nil {
			err = attach(host, "/o/host")
			unix.Close(host)
		}
		if err != nil {
			return stepError(stepMount, err)
		}
	}
	if err := attach(proc, "/o/proc"); err != nil {
		return stepError(stepProc, err)
	}
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bindDevice(d); err != nil {
			return stepError(stepMount, err)
		}
	}
	if err := unix.Chdir("/o"); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

func treeOf(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return cloneTree(fd)
}

func bindDevice(name string) error {
	m, err := treeOf("/host/dev/" + name)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	p := "/o/hostdev/" + name
	f, err := os.Create(p)
	if err != nil {
		return err
	}
	f.Close()
	return attach(m, p)
}

// needsInterpreter reports whether this program is dynamically linked.
func needsInterpreter(exe int) (bool, error) {
	f, err := elf.Open(fdPath(exe))
	if err != nil {
		return false, err
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), nil
}

// initFlags are the namespaces of a sandbox.
const initFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// bootTime is how long an init may take on a busy machine.
const bootTime = 30 * time.Second

// fresh has an init born, with ids of the keeper's or its own alone (0). It goes
// on to boot, and says on its socket what came of it.
func (s *spawner) fresh(ids int) (*initProc, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pair[1])
	p := &initProc{sock: pair[0], done: make(chan struct{})}
	s.bearing.Lock()
	defer s.bearing.Unlock()
	s.reap.expect(p, func() (int, error) {
		err = s.bear(p, ids, pair[1])
		return p.pid, err
	})
	if err != nil {
		unix.Close(pair[0])
		return nil, stepError(stepInit, err)
	}
	return p, nil
}

// bear asks the zygote.
func (s *spawner) bear(p *initProc, ids, sock int) error {
	if err := s.zygote.SetReadDeadline(time.Now().Add(bootTime)); err != nil {
		return err
	}
	err := pid1.Send(s.zygote, pid1.Message{Kind: pid1.Bear, Nums: []int64{int64(namespacesOf(s.without)), int64(ids)}}, sock)
	if err != nil {
		return err
	}
	m, fds, err := s.answers.Recv()
	switch {
	case err != nil:
		return err
	case m.Kind == pid1.Refused && len(m.Nums) == 1:
		err = syscall.Errno(m.Nums[0])
	case m.Kind != pid1.Born || len(m.Nums) != 1 || len(fds) != 1:
		err = fmt.Errorf("unexpected message %d", m.Kind)
	default:
		p.pid, p.fd = int(m.Nums[0]), fds[0]
		return nil
	}
	pid1.CloseAll(fds)
	return err
}

// booted is fresh that waits until the init is ready.
func (s *spawner) booted(ids int) (*initProc, error) {
	p, err := s.fresh(ids)
	if err != nil {
		return nil, err
	}
	if err := p.awaitReady(); err != nil {
		p.discard()
		return nil, err
	}
	return p, nil
}

func (p *initProc) awaitReady() error {
	dup, err := unix.FcntlInt(uintptr(p.sock), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	c, err := newPackets(dup)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(bootTime)); err != nil {
		return err
	}
	r := pid1.Receiver{P: c}
	m, fds, err := r.Recv()
	pid1.CloseAll(fds)
	switch {
	case err != nil:
		return fmt.Errorf("start init: %w", err)
	case m.Kind == pid1.Failed:
		return initFailed(m)
	case m.Kind != pid1.Ready:
		return fmt.Errorf("start init: unexpected message %d", m.Kind)
	}
	return nil
}

// initFailed is what an init says that could not boot.
func initFailed(m pid1.Message) error {
	if len(m.Strs) != 1 || len(m.Nums) != 1 {
		return fmt.Errorf("start init: it failed")
	}
	return initError(m.Strs[0], syscall.Errno(m.Nums[0]))
}

// take returns an init that no sandbox has used.
func (s *spawner) take(mapped bool) (*initProc, error) {
	warm, ids := s.warm, 0
	if mapped {
		warm, ids = s.mapped, s.ids
		if cap(warm) > 0 {
			s.mapping.Do(func() { s.wg.Go(func() { s.fill(ids, warm) }) })
		}
	}
	select {
	case p := <-warm:
		return p, nil
	default:
		return s.fresh(ids)
	}
}

// refillPause is how long the sandbox that has just taken a spare part is left
// to enter its tree: making the next one takes a processor for longer, and the
// kernel's lock of all mounts.
const refillPause = 2 * time.Millisecond

// fill keeps some inits waiting.
func (s *spawner) fill(ids int, warm chan *initProc) {
	for {
		if len(warm) > 0 { // nobody waits
			time.Sleep(refillPause)
		}
		p, err := s.fresh(ids)
		if err != nil {
			// take will meet the same error and tell somebody.
			select {
			case <-s.stop:
				return
			case <-time.After(100 * time.Millisecond):
				continue
			}
		}
		select {
		case warm <- p:
		case <-s.stop:
			p.discard()
			return
		}
	}
}

// close ends the inits that wait, and the zygote.
func (s *spawner) close() {
	close(s.stop)
	s.wg.Wait()
	defer s.parent.discard()
	defer s.zygote.Close()
	for {
		select {
		case p := <-s.warm:
			p.discard()
		case p := <-s.mapped:
			p.discard()
		default:
			return
		}
	}
}

// reaper waits for inits, all of them on one thread.
type reaper struct {
	mu    sync.Mutex
	procs map[int]*initProc
	few   int          // how many are being born
	early map[int]bool // who ended meanwhile
	birth chan struct{}
}

func newReaper() *reaper {
	r := &reaper{procs: map[int]*initProc{}, early: map[int]bool{}, birth: make(chan struct{}, 1)}
	go r.loop() // ends with the keeper: there is always one more to come
	return r
}

// expect registers a child that born makes; it may end before born returns.
func (r *reaper) expect(p *initProc, born func() (pid int, err error)) {
	r.mu.Lock()
	r.few++
	r.mu.Unlock()
	pid, err := born()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		if r.early[pid] {
			p.ended()
		} else {
			r.procs[pid] = p
		}
	}
	if r.few--; r.few == 0 {
		clear(r.early)
	}
	select {
	case r.birth <- struct{}{}:
	default:
	}
}

func (r *reaper) loop() {
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			<-r.birth
		default:
			r.mu.Lock()
			if p := r.procs[pid]; p != nil {
				delete(r.procs, pid)
				p.ended()
			} else if r.few > 0 {
				r.early[pid] = true
			}
			r.mu.Unlock()
		}
	}
}
