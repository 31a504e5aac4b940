package ns

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// stack is a tree without the volume that is written: layers of the store and
// frozen volumes upon them, both bottom first. It never changes.
type stack struct {
	layers []string // with the companions of those that have one
	frozen []*volume
	covers []*volume // those companions
}

// holds are the volumes that a stack lives by.
func (s *stack) holds() []*volume {
	if len(s.covers) == 0 {
		return s.frozen
	}
	return slices.Concat(s.frozen, s.covers)
}

// lowers lists the directories as an overlay takes them, top first.
func (s *stack) lowers(skeleton string) []string {
	out := make([]string, 0, len(s.frozen)+len(s.layers)+1)
	for _, v := range slices.Backward(s.frozen) {
		out = append(out, v.upper())
	}
	for _, l := range slices.Backward(s.layers) {
		out = append(out, l)
	}
	return append(out, skeleton)
}

// box is the keeper's side of a sandbox.
type box struct {
	init     *initProc   // guarded by keeper.mu
	former   []*initProc // of the trees before, which may be ending
	binds    []int       // open paths that every new root gets mounts of
	readOnly []bool      // of binds
	adopted  []string    // where they are attached, if the backend opened them
	skel     string
	disk     bool
	real     bool // owners are

	streams  map[*os.File]bool // pipes of running puts and gets; guarded by keeper.mu
	changing int               // what replaces the tree and waits for them; guarded by keeper.mu

	flat       *flat // guarded by keeper.mu, as are the next two
	flattening bool
	over       bool

	mu   sync.RWMutex // written by what replaces the tree
	base *stack       // what Create stood upon; holds its volumes
	on   *stack       // what is below the volume now; holds its volumes
	vol  *volume
	root int              // the overlay
	own  map[*volume]bool // that it wrote and froze: they count against its limits
	size volumeSize
	gone bool
}

func (k *keeper) box(name string) (*box, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.boxes[name]
	if b == nil {
		return nil, fmt.Errorf("sandbox %s: %w", name, sandbox.ErrClosed)
	}
	return b, nil
}

// enter lets a put, get or peek work on the tree until leave.
func (k *keeper) enter(name string, pipe *os.File) (b *box, leave func(), err error) {
	k.mu.Lock()
	b = k.boxes[name]
	if b == nil || b.changing > 0 {
		k.mu.Unlock()
		return nil, nil, fmt.Errorf("sandbox %s: %w", name, sandbox.ErrClosed)
	}
	if pipe != nil {
		b.streams[pipe] = true
	}
	k.mu.Unlock()
	b.mu.RLock()
	leave = func() {
		b.mu.RUnlock()
		k.mu.Lock()
		delete(b.streams, pipe)
		k.mu.Unlock()
	}
	if b.gone || b.vol == nil {
		leave()
		return nil, nil, fmt.Errorf("sandbox %s: %w", name, sandbox.ErrClosed)
	}
	return b, leave, nil
}

// alone keeps everybody else off the tree until release. Streams do not keep
// it waiting: they break off.
func (k *keeper) alone(b *box) (release func()) {
	k.mu.Lock()
	b.changing++
	for pipe := range b.streams {
		_ = pipe.SetDeadline(time.Unix(1, 0)) // it may be closed already
	}
	k.mu.Unlock()
	b.mu.Lock()
	return func() {
		b.mu.Unlock()
		k.mu.Lock()
		b.changing--
		k.mu.Unlock()
	}
}

// snapshot returns a snapshot's stack, held.
func (k *keeper) snapshot(s sandbox.Snapshot) (*stack, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	st := k.snaps[s]
	if st == nil {
		return nil, fmt.Errorf("snapshot %s is not of this backend or was dropped", s)
	}
	for _, v := range st.holds() {
		v.refs++
	}
	return st, nil
}

// create makes volume, overlay and init, and lets the init enter. It answers
// with the init's socket.
func (k *keeper) create(q request, fds []int) (out []int, pid int, err error) {
	b := &box{streams: map[*os.File]bool{}, own: map[*volume]bool{}, size: volumeSize{q.Bytes, q.Inodes}, disk: q.Disk, real: q.Real, root: -1}
	defer func() {
		if err != nil {
			k.free(b)
		}
	}()
	if q.Snapshot != "" {
		b.base, err = k.snapshot(q.Snapshot)
	} else {
		b.base, err = k.openLayers(q)
	}
	if err != nil {
		return nil, 0, err
	}
	if b.base, err = k.shallow(b.base, 0); err != nil {
		return nil, 0, err
	}
	b.on = b.base
	k.hold(b.on.holds()...)
	if err = k.openBinds(b, q, fds); err != nil {
		return nil, 0, err
	}
	if b.skel, err = k.skeleton(b, q); err != nil {
		return nil, 0, err
	}
	p, err := k.spawner.take(b.real)
	if err != nil {
		return nil, 0, err
	}
	sock, err := k.freshRoot(b, p, q, fds)
	if err != nil {
		p.discard()
		return nil, 0, err
	}
	k.mu.Lock()
	b.init = p
	k.boxes[q.Sandbox] = b
	k.mu.Unlock()
	return []int{sock}, p.pid, nil
}

// doors are the descriptors of a request that lead its new init into control
// groups: the last.
func doors(q request, fds []int) []int {
	return fds[max(len(fds)-max(q.Groups, 0), 0):]
}

// freshRoot gives the box a new volume upon its stack and hands the overlay and
// copies of the binds to an init. The box keeps a descriptor of its own. It
// returns another one of the init's socket.
func (k *keeper) freshRoot(b *box, p *initProc, q request, fds []int) (sock int, err error) {
	m, err := pid1.Decode(q.Enter)
	if err != nil {
		return -1, err
	}
	g := groundOf(b)
	out, again, err := k.newRoot(b, g)
	defer pid1.CloseAll(out)
	if err != nil {
		return -1, err
	}
	if err := pid1.Send(rawSocket(p.sock), m, slices.Concat(out, doors(q, fds))...); err != nil {
		return -1, err
	}
	switch {
	case q.Op == opFreeze: // to be forked, or to be gone back to
		k.prepareTree(g, b.size, 0)
	case again:
		k.prepareTree(g, b.size, refillPause)
	}
	return unix.FcntlInt(uintptr(p.sock), unix.F_DUPFD_CLOEXEC, 3)
}

// newRoot takes a tree and says whether one upon this ground was taken before.
func (k *keeper) newRoot(b *box, g *ground) (out []int, again bool, err error) {
	size := b.size
	for _, v := range b.on.frozen {
		if b.own[v] {
			ub, ui := v.used()
			size = volumeSize{max(size.bytes-ub, 1<<16), max(size.inodes-ui, 16)}
		}
	}
	v, root, again, err := k.takeTree(g, size)
	if err != nil {
		return nil, again, err
	}
	b.vol, b.root = v, root
	own, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, again, err
	}
	out = []int{own}
	for i, src := range b.binds {
		m, err := cloneTree(src)
		if err == nil {
			out = append(out, m)
			err = restrict(m, k.treeAttrs(), b.readOnly[i])
		}
		if err != nil {
			return out, again, fmt.Errorf("mount: %w", err)
		}
	}
	return out, again, nil
}

// free gives everything of a box back. No process of it is left.
func (k *keeper) free(b *box) {
	k.dropFlat(b)
	if b.root >= 0 {
		unix.Close(b.root)
		b.root = -1
	}
	for _, fd := range b.binds {
		unix.Close(fd)
	}
	for _, p := range b.adopted {
		_ = unix.Unmount(p, unix.MNT_DETACH)
		_ = os.Remove(p)
	}
	b.binds, b.adopted = nil, nil
	if b.vol != nil {
		k.release(b.vol)
	}
	if b.on != nil {
		k.release(b.on.holds()...)
	}
	if b.base != nil {
		k.release(b.base.holds()...)
	}
	b.vol, b.on, b.base = nil, nil, nil
}

// dropPause keeps the end of an old tree and its init, each a millisecond of a
// processor, out of the way of what is done with the new one at once.
const dropPause = 5 * time.Millisecond

// replace drops the box's tree, which no process sees any more, and, if nobody
// need wait for that, lets it end in the background.
func (k *keeper) replace(b *box, later bool) {
	root, vol := b.root, b.vol
	b.root, b.vol = -1, nil
	drop := func() {
		unix.Close(root)
		k.release(vol)
	}
	if !later {
		drop()
		return
	}
	k.trash.Go(func() {
		time.Sleep(dropPause)
		drop()
	})
}

// change gives a box a new stack and hands a tree upon it to a new init, with
// whose socket it answers. The old one has ended everything else.
func (k *keeper) change(q request, fds []int, restack func(b *box, q request) error) (out []int, pid int, err error) {
	b, err := k.box(q.Sandbox)
	if err != nil {
		return nil, 0, err
	}
	defer k.alone(b)()
	if b.gone || b.vol == nil {
		return nil, 0, sandbox.ErrClosed
	}
	p, err := k.spawner.take(b.real)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	if err = restack(b, q); err != nil {
		return nil, 0, err
	}
	sock, err := k.freshRoot(b, p, q, fds)
	if err != nil {
		return nil, 0, err
	}
	k.mu.Lock()
	old := b.init
	b.init = p
	b.former = append(slices.DeleteFunc(b.former, (*initProc).gone), old)
	k.mu.Unlock()
	if !k.without(sandbox.DefDeath) {
		k.trash.Go(func() {
			time.Sleep(dropPause) // all that it started is dead
			old.discard()
		})
	}
	return []int{sock}, p.pid, nil
}

func (k *keeper) initOf(b *box) *initProc {
	k.mu.Lock()
	defer k.mu.Unlock()
	return b.init
}

// endInit ends what runs in a box, also if its tree is just being replaced, and
// keeps everybody off it until release.
func (k *keeper) endInit(b *box) (release func()) {
	k.initOf(b).discard()
	release = k.alone(b)
	k.initOf(b).discard()
	for _, p := range b.former {
		p.discard()
	}
	return release
}

// freeze makes the written volume part of a new stack, which is the snapshot.
func (k *keeper) freeze(b *box, q request) error {
	st := &stack{layers: b.on.layers, frozen: append(slices.Clone(b.on.frozen), b.vol), covers: b.on.covers}
	k.hold(b.vol)
	b.own[b.vol] = true
	aside, err := b.vol.putAside()
	if err != nil {
		k.release(b.vol)
		return err
	}
	st = k.settleFlat(b, st)
	if st, err = k.shallow(st, len(b.base.frozen)); err != nil {
		b.on = &stack{layers: st.layers, frozen: st.frozen[:len(st.frozen)-1], covers: st.covers}
		k.release(b.vol)
		return err
	}
	if last := st.frozen[len(st.frozen)-1]; last != b.vol {
		b.own = map[*volume]bool{last: true} // all of them merged
	}
	if !aside { // its end is waited for, and it stands on the old tree
		k.initOf(b).discard()
	}
	k.hold(st.holds()...) // once by the box, as its old stack was, and once by the snapshot
	b.on = st
	k.replace(b, aside)
	k.mu.Lock()
	k.snaps[q.Snapshot] = st
	k.mu.Unlock()
	k.flatten(b, len(b.base.frozen))
	return nil
}

// maxFrozen is how many frozen volumes a stack may have from one place on:
// looking up a name that is missing costs about a microsecond for each, and the
// kernel takes 500.
const maxFrozen = 48

// shallow merges the volumes from one place on if they have become many. It
// takes the holds of the given stack over into the one it returns; if it
// fails, they stay.
func (k *keeper) shallow(st *stack, from int) (*stack, error) {
	from = min(from, len(st.frozen))
	old := st.frozen[from:]
	if len(old) <= maxFrozen {
		return st, nil
	}
	v, err := k.merged(old)
	if err != nil {
		return st, fmt.Errorf("merge %d snapshots: %w", len(old), err)
	}
	out := &stack{layers: st.layers, frozen: append(slices.Clone(st.frozen[:from]), v), covers: st.covers}
	k.release(old...)
	return out, nil
}

// restack throws the written volume away and stands on a snapshot, or upon what
// Create stood on.
func (k *keeper) restack(b *box, q request) error {
	st := b.base
	if q.Snapshot != "" {
		var err error
		if st, err = k.snapshot(q.Snapshot); err != nil {
			return err
		}
		if !slices.Equal(st.layers, b.base.layers) {
			k.release(st.holds()...)
			return fmt.Errorf("snapshot %s is of another image: %w", q.Snapshot, sandbox.ErrUnsupported)
		}
	} else {
		k.hold(st.holds()...)
	}
	k.release(b.on.holds()...)
	b.on = st
	k.replace(b, true)
	return nil
}

// drop forgets a snapshot. Sandboxes upon it live on.
func (k *keeper) drop(s sandbox.Snapshot) error {
	k.mu.Lock()
	st := k.snaps[s]
	delete(k.snaps, s)
	k.mu.Unlock()
	if st == nil {
		return fmt.Errorf("there is no snapshot %s", s)
	}
	k.release(st.holds()...)
	return nil
}

// destroy ends a sandbox. When it returns, every process of it is gone.
func (k *keeper) destroy(name string) error {
	k.mu.Lock()
	b := k.boxes[name]
	delete(k.boxes, name)
	k.mu.Unlock()
	if b == nil {
		return nil
	}
	defer k.endInit(b)()
	b.gone = true
	k.free(b)
	return nil
}
