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

// spawner starts inits. It does so from a thread whose mount namespace holds
// nearly nothing: every init gets a copy of it.
type spawner struct {
	exe     int // this program
	stderr  int
	null    int  // the thread's
	dynamic bool // the program has an interpreter and libraries
	asks    chan ask
	warm    chan *initProc
	mapped  chan *initProc // with ids; none is kept ready before the first is asked for
	mapping sync.Once      // fills mapped
	ids     int            // of those: how many
	stop    chan struct{}
	without sandbox.Defences
	filter  []byte // of every program
	real    []byte // of every program where owners are real
	wg      sync.WaitGroup
	reap    *reaper

	// births is held while an init is being forked and read-held while a file
	// is written that may be run at once: a child has a copy of each descriptor
	// of the keeper's, and what somebody has open for writing cannot be
	// executed (ETXTBSY).
	births sync.RWMutex
}

type ask struct {
	ids int
	to  chan<- spawned
}

type spawned struct {
	p   *initProc
	err error
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
	s := &spawner{filter: filter, real: real, exe: exe, stderr: stderr, dynamic: dynamic, asks: make(chan ask), warm: make(chan *initProc, max(warm, 0)),
		mapped: make(chan *initProc, max(min(warm, 1), 0)), ids: ids, stop: make(chan struct{}), without: without, reap: newReaper()}
	ready := make(chan error)
	go s.run(ready) // its thread ends with the keeper: namespaces cannot be given back
	if err := <-ready; err != nil {
		return nil, err
	}
	first, err := s.fresh(0)
	if err != nil {
		return nil, err
	}
	if warm <= 0 {
		s.discard(first)
		return s, nil
	}
	s.warm <- first
	s.wg.Go(func() { s.fill(0, s.warm) })
	return s, nil
}

// run is the thread.
func (s *spawner) run(ready chan<- error) {
	runtime.LockOSThread()
	if err := leanNamespace(s.dynamic); err != nil {
		ready <- err
		return
	}
	null, err := unix.Open("/hostdev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		s.null, err = unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 64)
		unix.Close(null)
	}
	ready <- err
	if err != nil {
		return
	}
	for {
		select {
		case <-s.stop:
			return
		case ask := <-s.asks:
			p, err := s.spawn(ask.ids)
			ask.to <- spawned{p, err}
		}
	}
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

// spawn starts one init, on the spawner's thread.
func (s *spawner) spawn(ids int) (*initProc, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for i, fd := range pair { // above the numbers that an init is born with
		if pair[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 8); err == nil {
			unix.Close(fd)
		} else {
			pair[i] = fd
		}
	}
	defer unix.Close(pair[1])
	birth := pid1.Birth{
		Path: fmt.Sprintf("/proc/self/fd/%d", s.exe), Args: []string{pid1.Marker}, Flags: namespacesOf(s.without),
		// One processor: init waits nearly always. It need not look for the limits of a container to know.
		Env: []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"},
		// Its errors go where the keeper's go.
		Files: [4]int{s.null, s.null, s.stderr, pair[1]},
		IDs:   ids,
	}
	if s.dynamic {
		birth.Root = "/host"
		birth.Args = append(birth.Args, pid1.BackToRoot)
	}
	if s.without != 0 {
		birth.Args = append(birth.Args, pid1.WithoutArg+strconv.FormatUint(uint64(s.without), 10))
	}
	p := &initProc{sock: pair[0], done: make(chan struct{})}
	s.reap.mu.Lock()
	defer s.reap.mu.Unlock()
	s.births.Lock()
	p.pid, p.fd, err = birth.Start()
	s.births.Unlock()
	if err != nil {
		unix.Close(pair[0])
		return nil, stepError(stepInit, err)
	}
	s.reap.born(p)
	return p, nil
}

// settle waits until every init that is being started runs its program, for
// copies of trees, which are too large to hold up births. The last descriptors
// close a moment later: what is put into a tree, and run at once, needs births.
func (s *spawner) settle() {
	s.reap.mu.Lock()
	defer s.reap.mu.Unlock()
}

// bootTime is how long an init may take on a busy machine.
const bootTime = 30 * time.Second

// fresh starts an init, with ids of the keeper's or its own alone (0), and
// waits until it has booted.
func (s *spawner) fresh(ids int) (*initProc, error) {
	to := make(chan spawned, 1)
	select {
	case s.asks <- ask{ids, to}:
	case <-s.stop:
		return nil, fmt.Errorf("keeper is closing")
	}
	got := <-to
	if got.err != nil {
		return nil, got.err
	}
	p, filter := got.p, s.filter
	if ids > 0 {
		filter = s.real
	}
	if err := p.awaitReady(filter); err != nil {
		s.discard(p)
		return nil, err
	}
	return p, nil
}

// awaitReady also tells it what programs are refused.
func (p *initProc) awaitReady(filter []byte) error {
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
	case m.Kind == pid1.Failed && len(m.Strs) == 1 && len(m.Nums) == 1:
		return initError(m.Strs[0], syscall.Errno(m.Nums[0]))
	case m.Kind != pid1.Ready:
		return fmt.Errorf("start init: unexpected message %d", m.Kind)
	}
	return pid1.Send(c, pid1.Message{Kind: pid1.Filter, Strs: []string{string(filter)}})
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
			s.discard(p)
			return
		}
	}
}

// discard ends an init and waits for it.
func (s *spawner) discard(p *initProc) {
	p.kill()
	<-p.done
	unix.Close(p.sock)
}

// close ends the inits that wait.
func (s *spawner) close() {
	close(s.stop)
	s.wg.Wait()
	for {
		select {
		case p := <-s.warm:
			s.discard(p)
		case p := <-s.mapped:
			s.discard(p)
		default:
			return
		}
	}
}

// reaper waits for inits, all of them on one thread.
type reaper struct {
	mu    sync.Mutex // held from fork to registration
	procs map[int]*initProc
	birth chan struct{}
}

func newReaper() *reaper {
	r := &reaper{procs: map[int]*initProc{}, birth: make(chan struct{}, 1)}
	go r.loop() // ends with the keeper: there is always one more to come
	return r
}

func (r *reaper) born(p *initProc) {
	r.procs[p.pid] = p
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
			}
			r.mu.Unlock()
		}
	}
}
