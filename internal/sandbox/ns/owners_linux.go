package ns

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"assay/internal/image"
)

// Layers on disk belong to one user, whatever their manifests say: one form
// serves every uid mode and every user, and an ordinary user can remove it.
// Where owners are real, each layer that has some is covered by a companion: a
// directory of the keeper's that holds, and only holds, what the disk does not
// show right, with its directories. It lies directly upon its layer in every
// stack, is made once for each backend, and costs a copy of those files.

// hidden is one entry of a companion.
type hidden struct {
	Path     []byte // paths are any bytes
	Type     image.Type
	Mode     uint32
	UID, GID int
	Link     []byte `json:",omitempty"`
	Hardlink []byte `json:",omitempty"`
	Caps     []byte `json:",omitempty"`
}

// owners is what a backend knows of a layer's companion.
type owners struct {
	mu   sync.Mutex // held while it is being made or dropped
	made bool
	any  bool   // it has one
	pins int    // of those that need it to stay; guarded by Backend.mu, as is the next one
	used uint64 // when it was needed last, by Backend.covers
}

const (
	// inMemory is the most bytes that a companion takes of memory where there is
	// a disk for it.
	inMemory = 64 << 20
	// maxCovers is how many layers are remembered with their companions: those
	// made for one grading are never needed again.
	maxCovers = 512
)

// cover makes the companions of layers, each once, and lists the layers that
// have one. They stay until done.
func (b *Backend) cover(ctx context.Context, layers []image.LayerID) (covered []string, done func(), err error) {
	b.mu.Lock()
	all := make([]*owners, len(layers))
	b.covers++
	for i, l := range layers {
		o := b.owners[l]
		if o == nil {
			o = &owners{}
			b.owners[l] = o
		}
		o.pins++
		o.used, all[i] = b.covers, o
	}
	b.mu.Unlock()
	done = func() {
		b.mu.Lock()
		for _, o := range all {
			o.pins--
		}
		b.mu.Unlock()
		b.uncover()
	}
	for i, o := range all {
		o.mu.Lock()
		if !o.made {
			if o.any, err = b.coverOne(ctx, layers[i]); err == nil {
				o.made = true
			}
		}
		covered = append(covered, "")
		if o.any {
			covered[i] = string(layers[i])
		}
		o.mu.Unlock()
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("owners of layer %s: %w", layers[i].Short(), err)
		}
	}
	return covered, done, nil
}

// uncover forgets the layer that was needed longest ago, if they are too many.
// Trees that stand on its companion keep it.
func (b *Backend) uncover() {
	b.mu.Lock()
	var oldest image.LayerID
	var victim *owners
	if len(b.owners) > b.conf.covers {
		for l, o := range b.owners {
			if o.pins == 0 && (victim == nil || o.used < victim.used) {
				oldest, victim = l, o
			}
		}
	}
	if victim == nil {
		b.mu.Unlock()
		return
	}
	victim.pins++
	b.mu.Unlock()
	victim.mu.Lock()
	defer victim.mu.Unlock()
	b.mu.Lock()
	again := victim.pins > 1 // somebody has come meanwhile; whoever comes from here on waits, and makes it anew
	b.mu.Unlock()
	if !again && victim.any {
		_, fds, _ := b.call(context.Background(), request{Op: opUncover, Covers: []string{string(oldest)}}) // a keeper that is gone took it along
		closeFDs(fds)
		victim.any = false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	victim.made = again && victim.made
	if victim.pins--; victim.pins == 0 && !victim.made {
		delete(b.owners, oldest)
	}
}

func (b *Backend) coverOne(ctx context.Context, l image.LayerID) (bool, error) {
	m, err := b.conf.Store.Manifest(l)
	if err != nil {
		return false, err
	}
	list, bytes := hiddenOf(m)
	if len(list) == 0 {
		return false, nil
	}
	q := request{Op: opOwners, Layers: []image.HostPath{b.conf.Store.Dir(l)}, Covers: []string{string(l)}, Bytes: bytes, Inodes: int64(len(list))}
	q.Disk = b.conf.Disk || bytes > inMemory && b.hasScratch()
	return true, b.stream(ctx, q, func(f *os.File) error {
		w := bufio.NewWriter(f)
		enc := json.NewEncoder(w)
		for _, h := range list {
			if err := enc.Encode(h); err != nil {
				return nil // the keeper gave up and says why
			}
		}
		_ = w.Flush() // likewise
		return nil
	}, true)
}

// hasScratch reports whether trees can be held on disk.
func (b *Backend) hasScratch() bool {
	for _, n := range b.notes {
		if n.Name == string(stepScratch) {
			return false
		}
	}
	return b.conf.Scratch != ""
}

// hiddenOf lists what a manifest's companion holds, in its order, and the bytes
// that its files take.
func hiddenOf(m image.Manifest) (list []hidden, bytes int64) {
	dirs := map[string]image.Entry{}
	sent := map[string]bool{}
	add := func(e image.Entry) {
		sent[e.Path] = true
		list = append(list, hidden{Path: []byte(e.Path), Type: e.Type, Mode: e.Mode, UID: e.UID, GID: e.GID,
			Link: []byte(e.Link), Hardlink: []byte(e.Hardlink), Caps: []byte(e.Xattrs[image.Capability])})
	}
	var parents func(p string)
	parents = func(p string) {
		if p != "." {
			parents(path.Dir(p))
		}
		if e, ok := dirs[p]; ok && !sent[p] {
			add(e)
		}
	}
	for _, e := range m.Entries {
		if e.IsDir() {
			dirs[e.Path] = e
		}
		if !e.Hidden() {
			continue
		}
		if e.Path != "." {
			parents(path.Dir(e.Path))
		}
		if !sent[e.Path] {
			add(e)
		}
		if e.Type == image.TypeFile && e.Hardlink == "" {
			bytes += e.Size
		}
	}
	return list, bytes
}

// cover makes a layer's companion of what the backend sends.
func (k *keeper) cover(q request, pipe io.Reader) error {
	if len(q.Layers) != 1 || len(q.Covers) != 1 || k.conf.IDs < 2 {
		return fmt.Errorf("%s of %d layers with %d ids", q.Op, len(q.Layers), k.conf.IDs)
	}
	layer, err := k.openLayer(q.Layers[0], -1)
	if err != nil {
		return err
	}
	v, err := k.newVolume(q.Bytes+q.Inodes*8<<10+1<<20, q.Inodes+16, q.Disk)
	if err != nil {
		return err
	}
	c := &coverer{count: k.conf.IDs}
	defer c.close()
	if err = c.open(layer, v.upper()); err == nil {
		err = c.all(pipe)
	}
	if err != nil {
		k.release(v)
		return err
	}
	k.mu.Lock()
	old := k.covers[q.Covers[0]]
	k.covers[q.Covers[0]] = v
	k.mu.Unlock()
	if old != nil {
		k.release(old)
	}
	return nil
}

// uncover lets companions go that no tree stands on.
func (k *keeper) uncover(q request) error {
	for _, l := range q.Covers {
		k.mu.Lock()
		v := k.covers[l]
		delete(k.covers, l)
		k.mu.Unlock()
		if v != nil {
			k.release(v)
		}
	}
	return nil
}

// covering returns a layer's companion, held.
func (k *keeper) covering(layer string) (*volume, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := k.covers[layer]
	if v == nil {
		return nil, fmt.Errorf("the owners of layer %s were never sent", layer)
	}
	v.refs++
	return v, nil
}

// coverer copies entries of a layer with their owners.
type coverer struct {
	from, to int
	count    int // of ids
	dirs     []hidden
}

func (c *coverer) open(layer, dst string) (err error) {
	c.from, c.to = -1, -1
	if c.from, err = unix.Open(layer, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	c.to, err = unix.Open(dst, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

func (c *coverer) close() {
	for _, fd := range []int{c.from, c.to} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (c *coverer) all(pipe io.Reader) error {
	dec := json.NewDecoder(bufio.NewReader(pipe))
	for {
		var h hidden
		err := dec.Decode(&h)
		if err == io.EOF {
			break
		}
		if err == nil {
			h.UID, h.GID = inside(h.UID, c.count), inside(h.GID, c.count)
			err = c.one(h)
		}
		if err != nil {
			return fmt.Errorf("%.200q: %w", h.Path, err)
		}
	}
	// A directory's time and mode come when nothing is written into it any more.
	for i := len(c.dirs) - 1; i >= 0; i-- {
		if err := c.finishDir(c.dirs[i]); err != nil {
			return fmt.Errorf("%.200q: %w", c.dirs[i].Path, err)
		}
	}
	return nil
}

// open2 opens below one of the two trees. Nobody else writes there; no link is
// followed all the same.
func open2(dir int, p []byte, flags uint64) (int, error) {
	return openat2(dir, string(p), flags, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}

func (c *coverer) one(h hidden) error {
	if h.Type == image.TypeDir {
		c.dirs = append(c.dirs, h)
		if string(h.Path) == "." {
			return nil
		}
	}
	dir, err := open2(c.to, []byte(path.Dir(string(h.Path))), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	base := path.Base(string(h.Path))
	switch h.Type {
	case image.TypeDir:
		return unix.Mkdirat(dir, base, 0o700)
	case image.TypeSymlink:
		if err := unix.Symlinkat(string(h.Link), dir, base); err != nil {
			return err
		}
		return chown(dir, base, uint32(h.UID), uint32(h.GID))
	}
	if len(h.Hardlink) > 0 {
		from, err := open2(c.to, []byte(path.Dir(string(h.Hardlink))), unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer unix.Close(from)
		return unix.Linkat(from, path.Base(string(h.Hardlink)), dir, base, 0)
	}
	if h.Type == image.TypeFIFO {
		if err := unix.Mknodat(dir, base, unix.S_IFIFO|h.Mode&0o777, 0); err != nil {
			return err
		}
		return chown(dir, base, uint32(h.UID), uint32(h.GID))
	}
	return c.file(h, dir, base)
}

func (c *coverer) file(h hidden, dir int, base string) error {
	src, err := open2(c.from, h.Path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("the layer's tree does not agree with its manifest: mode %o", st.Mode)
	}
	dst, err := unix.Openat(dir, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	if err := copySparse(src, dst, st.Size); err != nil {
		return err
	}
	return c.finish(h, src, dst, &st)
}

// finish gives a copy what the manifest says, in an order that loses nothing:
// a change of owner takes setid bits and capabilities away.
func (c *coverer) finish(h hidden, src, dst int, st *unix.Stat_t) error {
	copyXattrs(src, dst)
	if err := unix.Fchown(dst, h.UID, h.GID); err != nil {
		return err
	}
	if err := unix.Fchmod(dst, h.Mode&0o7777); err != nil {
		return err
	}
	if len(h.Caps) > 0 {
		_ = unix.Fsetxattr(dst, image.Capability, h.Caps, 0) // no program gains rights by them in a sandbox
	}
	return copyTimes(dst, st)
}

func (c *coverer) finishDir(h hidden) error {
	src, err := open2(c.from, h.Path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	dst, err := open2(c.to, h.Path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return err
	}
	return c.finish(h, src, dst, &st)
}

// copySparse copies data and leaves holes as they are: /var/log/lastlog may be
// many gigabytes of nothing.
func copySparse(src, dst int, size int64) error {
	for at := int64(0); at < size; {
		from, err := unix.Seek(src, at, unix.SEEK_DATA)
		if err == unix.ENXIO { // no more data
			break
		}
		end := size
		if err == nil {
			if end, err = unix.Seek(src, from, unix.SEEK_HOLE); err != nil {
				return err
			}
		} else {
			from = at // a file system that knows of no holes
		}
		if _, err := unix.Seek(dst, from, io.SeekStart); err != nil {
			return err
		}
		for off := from; off < end; {
			n, err := unix.Sendfile(dst, src, &off, int(min(end-off, 1<<30)))
			if err == unix.EINTR || err == unix.EAGAIN {
				continue
			}
			if err != nil {
				return err
			}
			if n == 0 {
				return io.ErrUnexpectedEOF
			}
		}
		at = end
	}
	return unix.Ftruncate(dst, size)
}
