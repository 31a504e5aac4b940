package ns

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// Sandbox implements sandbox.Sandbox and sandbox.Held.
type Sandbox struct {
	b        *Backend
	name     string
	spec     sandbox.Spec
	layers   []image.LayerID
	limits   sandbox.Limits
	disk     bool
	confined confined
	real     bool // owners are, and users

	relays sync.WaitGroup
	tree   sync.Mutex // held by what replaces the tree
	wired  bool       // it has an interface
	outlet outlet

	mu     sync.Mutex
	init   *initConn // replaced with the tree
	unheld []string
	conns  int
	closed bool
}

func newSandbox(b *Backend, name string, spec sandbox.Spec, layers []image.LayerID) *Sandbox {
	spec = withProxy(spec)
	s := &Sandbox{b: b, name: name, spec: spec, layers: layers}
	s.wired = s.hasInterface()
	s.limits, s.disk, s.unheld = b.settle(spec.Limits)
	return s
}

// settle puts defaults in and says what of the wishes nothing here holds.
func (b *Backend) settle(l sandbox.Limits) (_ sandbox.Limits, disk bool, unheld []string) {
	orDefault := func(v *int64, def, none int64) {
		if *v == 0 {
			*v = def
		} else if *v < 0 {
			*v = none
		}
	}
	noDisk := l.DiskBytes < 0
	orDefault(&l.DiskBytes, min(defaultDisk, b.conf.TmpfsMax), 1<<50)
	orDefault(&l.Inodes, defaultInodes, 1<<40)
	orDefault(&l.Pids, defaultPids, -1)
	orDefault(&l.OpenFiles, defaultFiles, -1)
	orDefault(&l.MemBytes, machineMemory()/4*3, -1)
	disk = b.conf.Disk || l.DiskBytes > b.conf.TmpfsMax
	if disk && !noDisk {
		unheld = append(unheld, "disk", "inodes")
	}
	return l, disk, unheld
}

// Held lists limits as their kind and what holds them, and those that nothing
// holds. A user that a command asked for and could not get is among the latter.
func (s *Sandbox) Held() (held, unheld []string) {
	if !s.disk {
		held = append(held, "disk:tmpfs", "inodes:tmpfs")
	}
	if s.limits.Pids > 0 {
		held = append(held, "pids:rlimit")
	}
	if s.limits.OpenFiles > 0 {
		held = append(held, "files:rlimit")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(held, s.confined.held...), slices.Concat(s.confined.lack, s.unheld)
}

// shmBytes is Docker's size of /dev/shm.
const shmBytes = 64 << 20

// enter is the message that makes a tree the sandbox's root. The keeper sends
// it on with the root, the binds, and so many lists of control groups.
func (s *Sandbox) enter(c *initConn, groups int) (pid1.Message, awaited) {
	shm := min(shmBytes, s.limits.DiskBytes)
	if s.b.conf.without(sandbox.DefDisk) {
		shm = 1 << 40
	}
	m := pid1.Message{Kind: pid1.Enter, Nums: []int64{shm, int64(len(s.spec.Image.Binds) + len(s.spec.Mounts)), int64(groups)}}
	for _, r := range s.spec.Relays {
		m.Nums = append(m.Nums, int64(r.Port))
	}
	host := s.spec.Hostname
	if host == "" {
		host = "assay"
	}
	m.Strs = append(m.Strs, host)
	for _, t := range s.spec.Image.Binds {
		m.Strs = append(m.Strs, inTree(t.Target))
	}
	for _, t := range s.spec.Mounts {
		m.Strs = append(m.Strs, inTree(t.Target))
	}
	if !s.b.conf.without(sandbox.DefReadOnly) {
		for _, p := range s.spec.ReadOnly {
			m.Strs = append(m.Strs, inTree(p))
		}
	}
	w := c.expect()
	m.ID = w.id
	return m, w
}

// maxConns bounds a program's connections to relays; each is a descriptor of
// this process.
const maxConns = 256

// connected starts the handler of a relayed connection.
func (s *Sandbox) connected(ctx context.Context, m pid1.Message, fds []int) {
	i := -1
	if len(m.Nums) == 1 && len(fds) == 1 {
		i = slices.IndexFunc(s.spec.Relays, func(r sandbox.Relay) bool { return int64(r.Port) == m.Nums[0] })
	}
	s.mu.Lock()
	ok := i >= 0 && (s.conns < maxConns || s.b.conf.without(sandbox.DefRelayCap)) && !s.closed
	if ok {
		s.conns++
	}
	s.mu.Unlock()
	if !ok {
		closeFDs(fds)
		return
	}
	f := os.NewFile(uintptr(fds[0]), "relay")
	c, err := net.FileConn(f)
	f.Close()
	s.relays.Go(func() {
		defer func() {
			s.mu.Lock()
			s.conns--
			s.mu.Unlock()
		}()
		if err != nil {
			return
		}
		stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) }) // the sandbox is gone: end reads and writes
		defer stop()
		s.spec.Relays[i].Handle(ctx, c)
	})
}

// Kill ends every process.
func (s *Sandbox) Kill(ctx context.Context) error {
	if err := s.current().do(ctx, pid1.Message{Kind: pid1.Kill}); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	return nil
}

// Snapshot kills, freezes and goes on.
func (s *Sandbox) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	id := sandbox.Snapshot(rand.Text())
	if err := s.change(ctx, request{Op: opFreeze, Sandbox: s.name, Snapshot: id}); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	s.b.remember(id, s.layers, s.real)
	return id, nil
}

// Reset kills and goes back.
func (s *Sandbox) Reset(ctx context.Context, to sandbox.Snapshot) error {
	if to != "" {
		s.b.mu.Lock()
		base, ok := s.b.bases[to]
		s.b.mu.Unlock()
		if !ok || !slices.Equal(base, s.layers) || s.b.isReal(to) != s.real {
			return fmt.Errorf("reset: snapshot %s is not one of this backend and image", to)
		}
	}
	if err := s.change(ctx, request{Op: opRestack, Sandbox: s.name, Snapshot: to}); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}

// change replaces the tree, and the init with it: that of a new sandbox is
// quicker to have than an old one is to renew. Once it has begun it goes on to
// its end: a sandbox without a tree is of no use to anybody.
func (s *Sandbox) change(ctx context.Context, q request) error {
	s.tree.Lock()
	defer s.tree.Unlock()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	if !s.b.conf.without(sandbox.DefDeath) {
		// What the init itself still holds is nothing that anybody writes to: its own
		// end, which takes the kernel longer, is not waited for.
		if err := s.current().do(ctx, pid1.Message{Kind: pid1.Kill, Nums: []int64{1}}); err != nil {
			return err
		}
	}
	s.outlet.unwire(true)
	if err := s.replace(ctx, q, nil); err != nil {
		return err
	}
	return s.wire(ctx)
}

// replace asks the keeper for a new tree with a new init, and waits until that
// has entered it. fds are what the request mentions.
func (s *Sandbox) replace(ctx context.Context, q request, fds []int) error {
	c := newInitConn(s)
	doors, all, err := s.confined.group.Doors()
	defer func() { closeFDs(doors) }()
	if err != nil {
		s.unconfine(err)
		closeFDs(doors)
		doors, all = nil, true
	}
	m, entered := s.enter(c, len(doors))
	q.Enter, q.Groups = m.Encode(), len(doors)
	r, out, err := s.b.call(ctx, q, append(fds, doors...)...)
	if err != nil {
		closeFDs(out)
		return err
	}
	if err := s.succeed(c, r.Pid, out); err != nil {
		return err
	}
	if !all {
		err = s.confined.group.Add(r.Pid)
	}
	a, out, eerr := c.await(ctx, entered)
	closeFDs(out)
	if eerr != nil {
		return eerr
	}
	if err == nil && len(a.Nums) == 1 && a.Nums[0] != 0 {
		err = syscall.Errno(a.Nums[0])
	}
	if err != nil {
		s.unconfine(err)
	}
	return nil
}

// changeTime is how long processes may take to die: one that waits for a disk
// cannot be killed.
const changeTime = 2 * time.Minute

// Peek copies what is written while it is written.
func (s *Sandbox) Peek(ctx context.Context) (sandbox.Snapshot, error) {
	id := sandbox.Snapshot(rand.Text())
	q := request{Op: opPeek, Sandbox: s.name, Snapshot: id}
	_, fds, err := s.b.call(ctx, q)
	closeFDs(fds)
	if err != nil {
		if ctx.Err() != nil { // the keeper goes on with it: a drop that comes after it ends it
			s.b.after.Go(func() { s.b.dropLate(q) })
		}
		return "", fmt.Errorf("peek: %w", err)
	}
	s.b.remember(id, s.layers, s.real)
	return id, nil
}

// dropLate frees the snapshot of a peek that nobody waits for any more.
func (b *Backend) dropLate(q request) {
	for range 100 {
		select {
		case <-b.done:
			return
		case <-time.After(time.Second):
		}
		_, fds, err := b.call(context.Background(), request{Op: opDrop, Snapshot: q.Snapshot})
		closeFDs(fds)
		if err == nil {
			return
		}
	}
}

func (b *Backend) remember(id sandbox.Snapshot, layers []image.LayerID, real bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bases[id], b.real[id] = layers, real
}

// isReal reports whether the owners in a snapshot are real.
func (b *Backend) isReal(s sandbox.Snapshot) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.real[s]
}

// Put unpacks a tar stream in the sandbox, and reads it to its end.
func (s *Sandbox) Put(ctx context.Context, dst image.Path, tar io.Reader) error {
	return s.stream(ctx, request{Op: opPut, Sandbox: s.name, Path: dst}, func(f *os.File) error {
		_, err := io.Copy(f, tar)
		if errors.Is(err, syscall.EPIPE) {
			err = nil // the keeper gave up and says why
		}
		return err
	}, true)
}

// Get writes a tar stream of a part of the tree.
func (s *Sandbox) Get(ctx context.Context, src image.Path, tar io.Writer, maxBytes int64) error {
	return s.stream(ctx, request{Op: opGet, Sandbox: s.name, Path: src, Max: maxBytes}, func(f *os.File) error {
		_, err := io.Copy(tar, f)
		return err
	}, false)
}

// stream asks the keeper for something that reads (up) or writes a pipe, and
// runs move on the other end meanwhile.
func (s *Sandbox) stream(ctx context.Context, q request, move func(*os.File) error, up bool) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return fmt.Errorf("%s: %w", q.Op, sandbox.ErrClosed)
	}
	return s.b.stream(ctx, q, move, up)
}

func (b *Backend) stream(ctx context.Context, q request, move func(*os.File) error, up bool) error {
	ours, theirs, err := pipe(!up)
	if err != nil {
		return fmt.Errorf("%s: %w", q.Op, err)
	}
	moved := make(chan error, 1)
	go func() {
		err := move(ours)
		ours.Close()
		moved <- err
	}()
	_, fds, err := b.callThenClose(ctx, q, theirs)
	closeFDs(fds)
	if ctx.Err() != nil {
		ours.Close()
		if !up {
			<-moved // what move writes to is the caller's again; closing ended its reading
		}
		// What move reads may never end: it is left to its end.
		return fmt.Errorf("%s: %w", q.Op, context.Cause(ctx))
	}
	if merr := <-moved; merr != nil {
		return fmt.Errorf("%s: %w", q.Op, merr) // the keeper's error only says that the stream broke
	}
	return err
}

// callThenClose sends fd away: the only other end is then the keeper's.
func (b *Backend) callThenClose(ctx context.Context, q request, fd int) (reply, []int, error) {
	sent := sync.OnceFunc(func() { unix.Close(fd) })
	defer sent()
	id, ch := b.calls.add()
	err := send(b.sock, kindRequest, id, q, fd)
	sent()
	if err != nil {
		b.calls.take(id)
		return reply{}, nil, fmt.Errorf("%s: %w", q.Op, b.lost())
	}
	return b.wait(ctx, q, id, ch)
}

// pipe makes one whose end here is for reading or writing with the runtime's
// poller, and the other one for another process.
func pipe(read bool) (ours *os.File, theirs int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	if !read {
		p[0], p[1] = p[1], p[0]
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		closeFDs(p[:])
		return nil, -1, err
	}
	return os.NewFile(uintptr(p[0]), "pipe"), p[1], nil
}

// Close ends the sandbox. It may be repeated.
func (s *Sandbox) Close() error {
	if !s.shut() {
		if c := s.current(); c != nil {
			c.reader.Wait()
		}
		return nil
	}
	err := s.b.destroy(s.name)
	s.ended()
	s.release()
	return err
}

// shut marks the sandbox closed; the second time is false.
func (s *Sandbox) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	return true
}

// ended frees what is on this side, once the init is dead.
func (s *Sandbox) ended() {
	s.current().end()
	s.relays.Wait()
	s.outlet.close()
}
