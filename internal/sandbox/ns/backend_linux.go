package ns

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/cgroup"
)

// Backend implements sandbox.Backend.
type Backend struct {
	conf   Config
	root   bool             // this process is root and sandboxes are not
	ids    ids              // the keeper's
	noIDs  error            // why it has but one; nil if it has more
	opens  bool             // it opens for the keeper what only root can
	notes  []doctor.Finding // what the machine lacks without being refused
	sock   packets
	cmd    *exec.Cmd
	noise  *tail // what the keeper and its inits complain about
	calls  calls
	done   chan struct{} // closed when the keeper's socket has ended
	after  sync.WaitGroup
	groups *cgroup.Tree // nil: none may be written
	dog    *watchdog

	tunOnce sync.Once
	tunErr  error // why no sandbox can have an interface

	mu     sync.Mutex
	boxes  map[string]*Sandbox
	bases  map[sandbox.Snapshot][]image.LayerID // what each snapshot lies upon
	apt    map[string]bool                      // by the layers of an image: it has apt
	opened map[image.HostPath]bool              // layers the keeper has already, if root
	owners map[image.LayerID]*owners            // layers whose companions were asked for
	covers uint64                               // how often one was
	real   map[sandbox.Snapshot]bool            // owners in it are real
	closed bool
}

// Open starts a keeper. What the machine refuses is a *doctor.Refusal.
func Open(ctx context.Context, c Config) (*Backend, error) {
	if c.Store == nil {
		return nil, errors.New("open sandbox backend: no layer store")
	}
	if os.Args[0] == keeperMarker { // a process without number would come of it
		return nil, errors.New("open sandbox backend: this process was started as another backend's keeper, and its program does not begin with a call of ns.Main")
	}
	c = c.orDefaults()
	b := &Backend{conf: c, root: realRoot(), noise: &tail{}, done: make(chan struct{}),
		boxes: map[string]*Sandbox{}, apt: map[string]bool{}, bases: map[sandbox.Snapshot][]image.LayerID{}, opened: map[image.HostPath]bool{}, dog: newWatchdog()}
	b.owners, b.real = map[image.LayerID]*owners{}, map[sandbox.Snapshot]bool{}
	b.opens = b.root && hasSysAdmin()
	b.calls.pending = map[uint32]chan answer{}
	if !c.NoCgroups {
		b.groups, _ = cgroup.Open(cgroup.Options{}) // without, the watchdog does what it can, and Held says so
	}
	if err := b.startKeeper(); err != nil {
		b.groups.Close()
		return nil, c.explain(err)
	}
	b.after.Go(b.read)
	if err := b.configure(ctx); err != nil {
		_ = b.Close() // it has said what is wrong
		return nil, c.explain(err)
	}
	return b, nil
}

// hasSysAdmin reports whether this process may copy mounts.
func hasSysAdmin() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	return unix.Capget(&h, &d[0]) == nil && d[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

func (c Config) orDefaults() Config {
	if len(c.Self) == 0 {
		c.Self = []string{"/proc/self/exe"}
	}
	if c.RootUID == 0 {
		c.RootUID = DefaultRootUID
	}
	if c.TmpfsMax == 0 {
		c.TmpfsMax = 4 << 30
		if m := machineMemory(); m > 0 {
			c.TmpfsMax = min(c.TmpfsMax, m/8)
		}
	}
	if c.Warm == 0 {
		c.Warm = 2
	}
	if c.covers == 0 {
		c.covers = maxCovers
	}
	return c
}

// startKeeper gives the keeper all ids that it can have, or else one.
func (b *Backend) startKeeper() error {
	if b.ids, b.noIDs = b.wantedIDs(); b.noIDs == nil {
		if b.noIDs = b.startKeeperWith(b.ids); b.noIDs == nil {
			return nil
		}
	}
	b.ids = oneID(b.ids.users[0].HostID, b.ids.groups[0].HostID)
	return b.startKeeperWith(b.ids)
}

// startKeeperWith re-executes this program in namespaces of its own.
func (b *Backend) startKeeperWith(i ids) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "keeper")
	defer theirs.Close()
	if b.sock, err = newPackets(pair[0]); err != nil {
		return err
	}
	exe, err := os.Open(b.conf.Self[0])
	if err != nil {
		b.sock.Close()
		return err
	}
	defer exe.Close()
	b.cmd = &exec.Cmd{
		Path: b.conf.Self[0], Args: append([]string{keeperMarker}, b.conf.Self[1:]...), Dir: "/",
		Env:        keeperEnv(),
		Stderr:     b.noise,
		ExtraFiles: []*os.File{theirs, exe},
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings:                i.users,
			GidMappings:                i.groups,
			GidMappingsEnableSetgroups: b.root,
		},
		// Inits that linger hold the pipe of errors open.
		WaitDelay: 5 * time.Second,
	}
	if b.root {
		b.cmd.SysProcAttr.Credential = &syscall.Credential{} // root of the namespace, no groups
	}
	start := b.cmd.Start
	if i.mode == sandbox.UIDSub {
		start = func() error { return startMapped(b.cmd, i) }
	}
	if err := start(); err != nil {
		b.sock.Close()
		return stepError(stepUserNS, err)
	}
	return nil
}

func (b *Backend) configure(ctx context.Context) error {
	q := request{Op: opConfigure, Root: b.opens, Warm: b.conf.Warm, IDs: b.ids.count(), Disk: b.conf.Disk, Without: b.conf.Without, OldMounts: b.conf.oldMounts}
	if b.ids.mode == sandbox.UIDSub {
		q.Trash = b.conf.Store.Trash()
	}
	var fds []int
	defer func() { closeFDs(fds) }()
	add := func(dir string) error {
		if !b.opens {
			return nil
		}
		m, err := hostTree(dir)
		if err == nil {
			fds = append(fds, m)
		}
		return err
	}
	like, remove, err := b.likeLayer()
	if err != nil {
		return stepError(stepStore, err)
	}
	defer remove()
	if err := add(like); err != nil {
		return stepError(stepStore, err)
	}
	q.Store = image.HostPath(like)
	if b.conf.Scratch != "" {
		dir, err := b.scratchDir()
		if err == nil {
			err = add(dir)
		}
		if err != nil {
			return stepError(stepScratch, err)
		}
		q.Scratch = image.HostPath(dir)
	}
	r, out, err := b.call(ctx, q, fds...)
	closeFDs(out)
	for _, n := range r.Notes {
		nerr := n.err()
		if n.Step == stepOverlay {
			b.conf.Disk = true
		}
		var ref *doctor.Refusal
		if errors.As(b.conf.explain(nerr), &ref) {
			b.notes = append(b.notes, ref.Finding)
		}
	}
	return err
}

// likeLayer makes a directory in the store that has what layers have.
func (b *Backend) likeLayer() (dir string, remove func(), err error) {
	p, err := b.conf.Store.Private()
	if err != nil {
		return "", nil, err
	}
	dir, remove = string(p.Path(".")), func() { _ = p.Close() } // what stays is swept by the next start
	in := dir + "/d"
	if err = os.Mkdir(in, 0o755); err == nil {
		err = unix.Setxattr(in, "user.overlay.opaque", []byte("y"), 0)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil && b.root {
		err = errors.Join(os.Chown(dir, b.conf.RootUID, b.conf.RootUID), os.Chown(in, b.conf.RootUID, b.conf.RootUID))
	}
	if err != nil {
		remove()
	}
	return dir, remove, err
}

// scratchDir makes the directory that the keeper's root owns.
func (b *Backend) scratchDir() (string, error) {
	dir := string(b.conf.Scratch)
	if err := os.MkdirAll(dir, 0o700); err != nil || !b.root {
		return dir, err
	}
	dir += "/uid" + strconv.Itoa(b.conf.RootUID) // of its own, so that the user's keeps its owner
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	return dir, os.Lchown(dir, b.conf.RootUID, b.conf.RootUID)
}

// hostTree is a detached copy of a part of the machine's tree, as root sees it.
func hostTree(p string) (int, error) {
	m, err := unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", p, err)
	}
	return m, nil
}

// Capabilities of this backend.
func (b *Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{
		Name: "ns", UIDModes: b.modes(),
		Snapshots: true, Peek: true, TTY: true, Relays: true, ReadOnly: true,
		Networks:  b.networks(),
		Limits:    b.holds(),
		Isolation: "shares the kernel with the host: stops accidents and ordinary hostile programs, not a kernel exploit",
	}
}

// Create makes a sandbox.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := b.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	return s, nil
}

func (b *Backend) create(ctx context.Context, spec sandbox.Spec) (*Sandbox, error) {
	s, q, err := b.plan(spec)
	if err != nil {
		return nil, err
	}
	if err := b.lend(q.Layers); err != nil {
		return nil, err
	}
	if q.Real && q.Snapshot == "" {
		covered, done, err := b.cover(ctx, s.layers)
		if err != nil {
			return nil, err
		}
		defer done()
		q.Covers = covered
		if n := len(q.Layers) + len(slices.DeleteFunc(slices.Clone(covered), func(c string) bool { return c == "" })); n > maxLayers {
			return nil, fmt.Errorf("%d layers, with those that hold owners, are more than the kernel takes in one tree (%d with what a sandbox adds): %w",
				n, maxLayers, sandbox.ErrUnsupported)
		}
	}
	fds, err := b.openAll(q)
	defer func() { closeFDs(fds) }()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s.confine()
	// It takes a moment, and half a sandbox could not be given back.
	if err := s.replace(context.WithoutCancel(ctx), q, fds); err != nil {
		return nil, errors.Join(b.conf.explain(err), s.Close())
	}
	s.settleLimits()
	if err := s.wireFirst(context.WithoutCancel(ctx)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.boxes[s.name] = s
	}
	b.mu.Unlock()
	if closed {
		return nil, errors.Join(sandbox.ErrClosed, s.Close())
	}
	return s, nil
}

// plan checks a spec and says what the keeper is to make of it.
func (b *Backend) plan(spec sandbox.Spec) (*Sandbox, request, error) {
	q := request{Op: opCreate, Sandbox: rand.Text(), Snapshot: spec.From}
	if err := supported(spec); err != nil {
		return nil, q, err
	}
	if err := b.reaches(spec); err != nil {
		return nil, q, err
	}
	var err error
	if q.Real, err = b.realOwners(spec.UID); err != nil {
		return nil, q, err
	}
	layers := topmost(slices.Concat(spec.Image.Layers, spec.Extra))
	if len(layers) > maxLayers {
		return nil, q, fmt.Errorf("%d layers are more than the kernel takes in one tree (%d with what a sandbox adds): %w",
			len(layers), maxLayers, sandbox.ErrUnsupported)
	}
	for _, l := range layers {
		if !b.conf.Store.Has(l) {
			return nil, q, fmt.Errorf("layer %s of image %s is not in the store", l.Short(), spec.Image.Name)
		}
		if err := b.conf.Store.Hold(l); err != nil { // what is mounted must not be collected
			return nil, q, err
		}
		q.Layers = append(q.Layers, b.conf.Store.Dir(l))
	}
	if spec.From != "" {
		b.mu.Lock()
		base, ok := b.bases[spec.From]
		b.mu.Unlock()
		if !ok {
			return nil, q, fmt.Errorf("snapshot %s is not of this backend or was dropped", spec.From)
		}
		if !slices.Equal(base, layers) {
			return nil, q, fmt.Errorf("snapshot %s stands on other layers than the spec's image", spec.From)
		}
		if b.isReal(spec.From) != q.Real {
			return nil, q, fmt.Errorf("snapshot %s was made in another uid mode", spec.From)
		}
		q.Layers = nil
	}
	for _, m := range spec.Image.Binds {
		q.Binds = append(q.Binds, bind{Source: m.Source, Target: m.Target, ReadOnly: !b.conf.without(sandbox.DefReadOnly)})
	}
	for _, m := range spec.Mounts {
		src := m.Host
		if m.Layer != "" {
			src = b.conf.Store.Dir(m.Layer)
		}
		q.Binds = append(q.Binds, bind{Source: src, Target: m.Target, Memory: b.memory(m),
			ReadOnly: (m.ReadOnly || m.Layer != "") && !b.conf.without(sandbox.DefReadOnly)})
	}
	if spec.Image.Config.Workdir != "" {
		q.Dirs = append(q.Dirs, spec.Image.Config.Workdir)
	}
	if !q.Real {
		if q.Apt, err = b.hasApt(spec.Image.Layers); err != nil {
			return nil, q, err
		}
	}
	s := newSandbox(b, q.Sandbox, spec, layers)
	s.real = q.Real
	q.Bytes, q.Inodes, q.Disk = s.limits.DiskBytes, s.limits.Inodes, s.disk
	if q.Disk {
		for _, n := range b.notes {
			if n.Name == string(stepScratch) {
				return nil, q, &doctor.Refusal{Finding: n}
			}
		}
	}
	if q.Disk && b.conf.Scratch == "" {
		return nil, q, fmt.Errorf("a disk limit of %d bytes is too much for memory and there is no scratch directory: %w", q.Bytes, sandbox.ErrUnsupported)
	}
	return s, q, nil
}

// supported refuses what this backend does not do.
func supported(spec sandbox.Spec) error {
	no := func(what string) error { return fmt.Errorf("%s: %w", what, sandbox.ErrUnsupported) }
	switch {
	case spec.Set != nil || spec.Beside != nil:
		return no("services beside the sandbox")
	case spec.Service != "" && spec.Service != "main":
		return no("service " + strconv.Quote(spec.Service))
	case len(spec.Hostname) > 64:
		return no("a host name of more than 64 bytes")
	}
	for _, m := range spec.Mounts {
		if !oneSource(m) {
			return fmt.Errorf("mount at %s: exactly one source is needed", m.Target)
		}
		if !strings.HasPrefix(string(m.Target), "/") || inTree(m.Target) == "" {
			return fmt.Errorf("mount at %q: the target is not a path below /", m.Target)
		}
		if m.Layer != "" && !m.ReadOnly {
			return no("a layer that is mounted for writing")
		}
	}
	for _, p := range spec.ReadOnly {
		if !strings.HasPrefix(string(p), "/") || inTree(p) == "" {
			return fmt.Errorf("read-only path %q: it is not a path below /", p)
		}
	}
	for _, r := range spec.Relays {
		if r.Port < 1 || r.Port > 65535 || r.Handle == nil {
			return fmt.Errorf("relay of port %d: no such port or no handler", r.Port)
		}
		if r.Port == sandbox.ProxyPort && spec.Network == sandbox.NetAllowlist {
			return fmt.Errorf("relay of port %d: that is the proxy's of network allowlist", r.Port)
		}
	}
	return nil
}

// lent is how many layers go to the keeper at once: a message holds 253
// descriptors at most.
const lent = 200

// topmost leaves of layers with the same content the uppermost alone: an
// overlay takes no directory twice, and what lies on top hides the other whole.
func topmost(layers []image.LayerID) []image.LayerID {
	var all []image.LayerID
	for i, l := range layers {
		if !slices.Contains(layers[i+1:], l) {
			all = append(all, l)
		}
	}
	return all
}

// lend opens for the keeper, once each, the layers that only root can.
func (b *Backend) lend(layers []image.HostPath) error {
	if !b.opens {
		return nil
	}
	b.mu.Lock()
	fresh := slices.DeleteFunc(slices.Clone(layers), func(l image.HostPath) bool { return b.opened[l] })
	b.mu.Unlock()
	for batch := range slices.Chunk(fresh, lent) {
		if err := b.lendSome(batch); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) lendSome(layers []image.HostPath) error {
	var fds []int
	defer func() { closeFDs(fds) }()
	for _, l := range layers {
		m, err := hostTree(string(l))
		if err != nil {
			return err
		}
		fds = append(fds, m)
	}
	_, out, err := b.call(context.Background(), request{Op: opLayers, Layers: layers}, fds...)
	closeFDs(out)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range layers {
		b.opened[l] = true
	}
	return nil
}

// openAll opens for the keeper what only root can, in the order of the
// request. Descriptors are the caller's even with an error.
func (b *Backend) openAll(q request) (fds []int, err error) {
	if !b.opens {
		return nil, nil
	}
	for _, m := range q.Binds {
		if m.Memory > 0 {
			continue
		}
		fd, err := hostTree(string(m.Source))
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// destroy ends what the keeper has of a sandbox. Its error is that processes
// live on, which a disk or a network file system does not let go.
func (b *Backend) destroy(name string) error {
	b.mu.Lock()
	delete(b.boxes, name)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	_, fds, _ := b.call(ctx, request{Op: opDestroy, Sandbox: name}) // a keeper that is gone took it along
	closeFDs(fds)
	if ctx.Err() != nil {
		return fmt.Errorf("close sandbox: its processes have not ended %v after they were killed: they wait for a disk or a file system that does not answer", changeTime)
	}
	return nil
}

// Drop frees a snapshot. Sandboxes made from it live on.
func (b *Backend) Drop(s sandbox.Snapshot) error {
	b.mu.Lock()
	_, ok := b.bases[s]
	delete(b.bases, s)
	delete(b.real, s)
	b.mu.Unlock()
	if !ok {
		return nil
	}
	_, fds, err := b.call(context.Background(), request{Op: opDrop, Snapshot: s})
	closeFDs(fds)
	return err
}

// Close ends everything. It may be repeated.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		b.after.Wait()
		return nil
	}
	b.closed = true
	boxes := b.boxes
	b.boxes = map[string]*Sandbox{}
	b.mu.Unlock()
	for _, s := range boxes {
		s.shut()
	}
	b.dog.close()
	b.sock.CloseWrite() // the keeper reads the end, ends its inits and cleans up
	killer := time.AfterFunc(closeTime, func() { _ = b.cmd.Process.Kill() })
	err := b.cmd.Wait()
	killer.Stop()
	b.sock.Close()
	b.after.Wait()
	for _, s := range boxes {
		s.ended()
		s.release()
	}
	b.after.Wait() // what the last of them left
	b.groups.Close()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil // it failed to start, or was killed; whoever used it heard of it
	}
	return err
}

// maxLayers leaves room in the kernel's 500 for a sandbox's own snapshots, those
// it was made from, and what it is mounted on.
const maxLayers = 500 - 2*(maxFrozen+1) - 2

// closeTime is how long a keeper may take to remove disk volumes.
const closeTime = time.Minute
