package ns

import (
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
)

// A tree is an empty volume and an overlay of it upon lower directories. What
// will be asked for is made before: a volume of each kind, which serves every
// tree, and whole trees upon the grounds that trees are taken of again and
// again, or will be.

// ground is what trees were made upon. Equal lower directories mean the same
// ground: the keeper gives no path twice.
type ground struct {
	lowers []string // top first
	stands []*volume
	disk   bool
	spare  *spareTree // nil: none
}

// spareTree is a tree that no sandbox has.
type spareTree struct {
	made chan struct{} // closed when all the rest is there
	vol  *volume
	size volumeSize
	root int
	err  error
}

// maxGrounds bounds the grounds that are remembered, the latest ones. A spare
// tree takes some ten kilobytes of the kernel's memory, or five directories.
const maxGrounds = 8

// groundOf is what a box's next tree will lie upon.
func groundOf(b *box) *ground {
	return &ground{lowers: b.on.lowers(b.skel), stands: b.on.holds(), disk: b.disk}
}

func (g *ground) same(h *ground) bool {
	return g.disk == h.disk && slices.Equal(g.lowers, h.lowers)
}

// takeTree returns an empty volume of a size, held once, with an overlay of it
// upon a ground whose volumes the caller holds. Known says whether a tree upon
// it was taken before.
func (k *keeper) takeTree(g *ground, size volumeSize) (v *volume, root int, known bool, err error) {
	s, known := k.spareUpon(g)
	if s != nil {
		<-s.made
		if s.err == nil {
			if k.resize(s.vol, s.size, size) == nil {
				return s.vol, s.root, known, nil
			}
			k.discardTree(s)
		}
	}
	v, root, err = k.newTree(g, size)
	return v, root, known, err
}

func (k *keeper) newTree(g *ground, size volumeSize) (*volume, int, error) {
	v, err := k.takeVolume(size, g.disk)
	if err != nil {
		return nil, -1, err
	}
	root, err := k.overlay(g.lowers, v.upper(), v.work())
	if err != nil {
		k.release(v)
		return nil, -1, stepError(stepOverlay, err)
	}
	return v, root, nil
}

// spareUpon takes the spare tree of a ground, which may still be being made,
// and remembers the ground as the latest.
func (k *keeper) spareUpon(g *ground) (s *spareTree, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.grounds, g.same)
	if i >= 0 {
		s, known = k.grounds[i].spare, true
		k.grounds = slices.Delete(k.grounds, i, i+1)
	} else if len(k.grounds) == maxGrounds {
		k.discardTree(k.grounds[0].spare)
		k.grounds = slices.Delete(k.grounds, 0, 1)
	}
	k.grounds = append(k.grounds, g)
	g.spare = nil
	return s, known
}

// prepareTree makes the next tree upon a ground in the background, unless it
// has one, is forgotten, or stands on what is gone.
func (k *keeper) prepareTree(g *ground, size volumeSize, pause time.Duration) {
	k.trash.Go(func() {
		time.Sleep(pause)
		s := &spareTree{made: make(chan struct{}), size: size, root: -1}
		k.mu.Lock()
		i := slices.IndexFunc(k.grounds, g.same)
		if i < 0 || k.grounds[i].spare != nil {
			k.mu.Unlock()
			return
		}
		k.grounds[i].spare = s
		for _, v := range g.stands { // a ground is forgotten with the first volume that goes: these live
			v.refs++
		}
		k.mu.Unlock()
		s.vol, s.root, s.err = k.newTree(g, size) // whoever asks next will meet an error again and tell somebody
		close(s.made)
		k.release(g.stands...)
	})
}

// discardTree frees a spare tree in the background.
func (k *keeper) discardTree(s *spareTree) {
	if s == nil {
		return
	}
	k.trash.Go(func() {
		<-s.made
		if s.err == nil {
			unix.Close(s.root)
			k.release(s.vol)
		}
	})
}

// forgetGrounds drops the grounds that stand on volumes that nobody else uses;
// keeper.mu is held.
func (k *keeper) forgetGrounds(gone []*volume) {
	k.grounds = slices.DeleteFunc(k.grounds, func(g *ground) bool {
		dead := slices.ContainsFunc(g.stands, func(v *volume) bool { return slices.Contains(gone, v) })
		if dead {
			k.discardTree(g.spare)
		}
		return dead
	})
}

// spareVolume is a volume that no tree has, and the kind of its next one.
type spareVolume struct {
	v      *volume
	size   volumeSize
	making bool
}

// takeVolume returns an empty volume of a size, held once, and has the next one
// of its kind made in the background.
func (k *keeper) takeVolume(size volumeSize, disk bool) (*volume, error) {
	k.mu.Lock()
	at := k.spareVolume(disk)
	v, was, making := at.v, at.size, at.making
	at.v, at.making = nil, true
	k.mu.Unlock()
	if !making {
		k.trash.Go(func() {
			time.Sleep(refillPause)
			k.putBy(size, disk)
		})
	}
	if v != nil {
		if k.resize(v, was, size) == nil {
			return v, nil
		}
		k.trash.Go(func() { k.release(v) })
	}
	return k.newVolume(size.bytes, size.inodes, disk)
}

// spareVolume is where the spare volume of a kind is; keeper.mu is held.
func (k *keeper) spareVolume(disk bool) *spareVolume {
	if disk {
		return &k.spareOnDisk
	}
	return &k.spareInMemory
}

// putBy makes a spare volume.
func (k *keeper) putBy(size volumeSize, disk bool) {
	v, err := k.newVolume(size.bytes, size.inodes, disk)
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.spareVolume(disk)
	at.making = false
	if err == nil { // else whoever asks next will meet the same error and tell somebody
		at.v, at.size = v, size
	}
}

// volumeSize is what a volume holds at most.
type volumeSize struct{ bytes, inodes int64 }

// resize gives an empty volume another size. One on disk has none.
func (k *keeper) resize(v *volume, from, to volumeSize) error {
	if v.disk || from == to || k.without(sandbox.DefDisk) {
		return nil
	}
	fs, err := unix.Fspick(unix.AT_FDCWD, v.path, unix.FSPICK_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	for _, o := range to.options() {
		if err := unix.FsconfigSetString(fs, o.key, o.value); err != nil {
			return err
		}
	}
	return unix.FsconfigReconfigure(fs)
}

// options are those of a tmpfs. Two directories and the root are ours.
func (s volumeSize) options() []mountOption {
	return []mountOption{{"size", strconv.FormatInt(max(s.bytes, 4096), 10)}, {"nr_inodes", strconv.FormatInt(s.inodes+8, 10)}}
}
