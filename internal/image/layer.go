package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// LayerWriter builds one layer under tmp/. It is for one goroutine. After Add
// has failed only Abort is left to call.
type LayerWriter struct {
	s     *Store
	below *View // what the layer will lie upon; nil if unknown
	tmp   string
	lock  *fileLock
	root  *os.Root // tmp/fs
	nodes map[string]*node
	bytes int64

	at     string   // the directory that dir is open on
	dir    *os.Root // kept from call to call: trees come directory by directory
	failed error
	done   bool
}

// node is a name in the making.
type node struct {
	Entry
	file     *file           // of anything that can have several names
	children map[string]bool // names in a directory
	xmarks   bool            // it holds whiteouts in the form of attributes
}

// file is what hard links share.
type file struct {
	size   int64
	digest string
	onDisk bool
}

// NewLayer begins a layer. Directories that nobody describes take their mode
// and owner from the stack below, which may be empty, and else are root's with
// mode 0755. The caller ends with Commit or Abort; calling Abort after Commit
// does nothing, so it can be deferred.
func (s *Store) NewLayer(ctx context.Context, below ...LayerID) (*LayerWriter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &LayerWriter{s: s, nodes: map[string]*node{}, tmp: s.path(tmpDir, random())}
	if len(below) > 0 {
		v, err := s.View(below)
		if err != nil {
			return nil, fmt.Errorf("new layer: %w", err)
		}
		w.below = v
	}
	err := w.begin()
	if err != nil {
		w.Abort()
		return nil, fmt.Errorf("new layer: %w", err)
	}
	return w, nil
}

func (w *LayerWriter) begin() (err error) {
	// The lock tells a collector in another process that somebody still builds.
	if w.lock, err = lockFile(w.tmp+lockSuffix, exclusive); err != nil {
		return err
	}
	if err = os.Mkdir(w.tmp, 0o700); err != nil {
		return err
	}
	if err = os.Mkdir(filepath.Join(w.tmp, "fs"), 0o700); err != nil {
		return err
	}
	if w.root, err = os.OpenRoot(filepath.Join(w.tmp, "fs")); err != nil {
		return err
	}
	w.nodes["."] = &node{Entry: w.implied(".")}
	return nil
}

// Add puts one entry into the layer. Content of a file is read from r to its
// end, other types take nil; Size and Digest are computed. Hardlink must name
// something already there. A name that is there already is replaced, a
// directory by a directory updated; a directory's children may come before it.
func (w *LayerWriter) Add(e Entry, r io.Reader) error {
	if w.failed == nil {
		w.failed = w.add(e, r)
	}
	if w.failed != nil {
		return fmt.Errorf("add to layer: %w", w.failed)
	}
	return nil
}

func (w *LayerWriter) add(e Entry, r io.Reader) error {
	if w.done {
		return errors.New("it is committed or aborted")
	}
	if err := e.check(w.s.opt.Caps); err != nil {
		return err
	}
	if old := w.nodes[e.Path]; old != nil && old.IsDir() && e.IsDir() {
		old.Entry = e
		return nil
	}
	dir := parent(e.Path)
	if err := w.ensureDir(dir); err != nil {
		return err
	}
	if len(w.nodes) >= w.s.opt.Caps.Entries {
		return fmt.Errorf("%d entries: %w", len(w.nodes), ErrCap)
	}
	n := &node{Entry: e}
	if e.Hardlink != "" {
		return w.addHardlink(n)
	}
	if err := w.remove(e.Path); err != nil {
		return err
	}
	at, err := w.open(dir)
	if err != nil {
		return err
	}
	if err := w.create(at, n, r); err != nil {
		return fmt.Errorf("%q: %w", e.Path, err)
	}
	w.put(n)
	return nil
}

func (w *LayerWriter) put(n *node) {
	w.nodes[n.Path] = n
	d := w.nodes[parent(n.Path)]
	if d.children == nil {
		d.children = map[string]bool{}
	}
	d.children[base(n.Path)] = true
}

// create makes the entry on disk, as far as a disk holds it. Directories get
// their final mode only in Commit, so that they can be filled until then.
func (w *LayerWriter) create(at *os.Root, n *node, r io.Reader) (err error) {
	b := base(n.Path)
	switch n.Type {
	case TypeDir:
		return at.Mkdir(b, 0o700)
	case TypeFile:
		return w.writeFile(at, n, r)
	case TypeSymlink:
		n.Mode = 0
		n.file = &file{onDisk: true}
		err = at.Symlink(n.Link, b)
	case TypeWhiteout:
		n.Entry = Entry{Path: n.Path, Type: TypeWhiteout}
		var asXattr bool
		asXattr, err = whiteout(at, b)
		w.nodes[parent(n.Path)].xmarks = w.nodes[parent(n.Path)].xmarks || asXattr
	case TypeFIFO:
		n.file = &file{onDisk: canFIFO}
		if !canFIFO {
			return nil
		}
		if err = mkfifo(at, b); err == nil {
			err = at.Chmod(b, diskMode(n.Entry))
		}
	default:
		n.file = &file{}
		return nil
	}
	if err == nil {
		err = w.chown(at, b)
	}
	return err
}

func (w *LayerWriter) chown(at *os.Root, name string) error {
	if w.s.opt.Owner == nil {
		return nil
	}
	return at.Lchown(name, w.s.opt.Owner.UID, w.s.opt.Owner.GID)
}

func (w *LayerWriter) writeFile(at *os.Root, n *node, r io.Reader) error {
	f, err := at.OpenFile(base(n.Path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if r != nil {
		left := w.s.opt.Caps.Bytes - w.bytes
		n.Size, err = io.Copy(io.MultiWriter(h, &holeWriter{f: f}), io.LimitReader(r, left+1))
		if err != nil {
			return err
		}
		if n.Size > left {
			return fmt.Errorf("content: %w (%d bytes in the layer)", ErrCap, w.s.opt.Caps.Bytes)
		}
		w.bytes += n.Size
		if err := f.Truncate(n.Size); err != nil { // a hole at the end
			return err
		}
	} else {
		n.Size = 0
	}
	n.Digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	n.file = &file{size: n.Size, digest: n.Digest, onDisk: true}
	if err := w.finishFile(f, n.Entry); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if n.ModTime.IsZero() {
		return nil
	}
	return at.Chtimes(base(n.Path), n.ModTime, n.ModTime)
}

// finishFile gives an open file or directory what else its entry says.
func (w *LayerWriter) finishFile(f *os.File, e Entry) error {
	for k, v := range e.Xattrs {
		if strings.HasPrefix(k, "user.") {
			if err := setXattr(f, k, v); err != nil {
				return fmt.Errorf("attribute %q: %w", k, err)
			}
		}
	}
	if err := f.Chmod(diskMode(e)); err != nil {
		return err
	}
	if o := w.s.opt.Owner; o != nil {
		if err := f.Chown(o.UID, o.GID); err != nil {
			return err
		}
	}
	return nil
}

// diskMode is what stands on disk for an entry's mode: without setid bits, and
// readable for the owner.
func diskMode(e Entry) fs.FileMode {
	m := fs.FileMode(e.Mode&0o777) | 0o400
	if e.IsDir() {
		m |= 0o500
	}
	if e.Mode&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// addHardlink gives another name to what Hardlink names.
func (w *LayerWriter) addHardlink(n *node) error {
	to := w.nodes[n.Hardlink]
	if to == nil || to.file == nil {
		return fmt.Errorf("%q: hard link to %q, which is not a file of this layer", n.Path, n.Hardlink)
	}
	if n.Hardlink == n.Path {
		return fmt.Errorf("%q: hard link to itself", n.Path)
	}
	if err := w.remove(n.Path); err != nil {
		return err
	}
	if w.nodes[to.Path] != to {
		return fmt.Errorf("%q: hard link to %q, which it would replace", n.Path, to.Path)
	}
	if to.file.onDisk {
		if err := w.root.Link(to.Path, n.Path); err != nil {
			return fmt.Errorf("%q: %w", n.Path, err)
		}
	}
	p, link := n.Path, n.Hardlink
	n.Entry, n.file = to.Entry, to.file
	n.Path, n.Hardlink = p, link
	w.put(n)
	return nil
}

// ensureDir makes missing parents.
func (w *LayerWriter) ensureDir(dir string) error {
	if n := w.nodes[dir]; n != nil {
		if !n.IsDir() {
			return fmt.Errorf("%q is a %s of this layer, not a directory", dir, n.Type)
		}
		return nil
	}
	if err := w.ensureDir(parent(dir)); err != nil {
		return err
	}
	at, err := w.open(parent(dir))
	if err != nil {
		return err
	}
	if err := at.Mkdir(base(dir), 0o700); err != nil {
		return err
	}
	w.put(&node{Entry: w.implied(dir)})
	return nil
}

// implied is what a directory is that nobody described.
func (w *LayerWriter) implied(dir string) Entry {
	if w.below != nil {
		if e, err := w.below.Lstat(dir); err == nil && e.IsDir() {
			e.Opaque = false
			return e
		}
	}
	return Entry{Path: dir, Type: TypeDir, Mode: 0o755}
}

// remove takes a name and everything below it out of the layer again.
func (w *LayerWriter) remove(p string) error {
	n := w.nodes[p]
	if n == nil {
		return nil
	}
	if n.IsDir() {
		w.closeDir()
	}
	w.forget(n)
	delete(w.nodes[parent(p)].children, base(p))
	return w.root.RemoveAll(p)
}

func (w *LayerWriter) forget(n *node) {
	for c := range n.children {
		w.forget(w.nodes[n.Path+"/"+c])
	}
	delete(w.nodes, n.Path)
}

// open returns the directory of that path, which must exist. Every part of the
// path is a directory that this writer made, so no link is ever followed.
func (w *LayerWriter) open(dir string) (*os.Root, error) {
	if w.dir != nil && w.at == dir {
		return w.dir, nil
	}
	w.closeDir()
	d, err := w.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	w.at, w.dir = dir, d
	return d, nil
}

func (w *LayerWriter) closeDir() {
	if w.dir != nil {
		w.dir.Close()
		w.dir = nil
	}
}

// Commit completes the layer and returns its id. Committing a layer that the
// store already holds is cheap in space and gives the same id.
func (w *LayerWriter) Commit() (LayerID, error) {
	defer w.Abort()
	if w.failed != nil {
		return "", fmt.Errorf("commit layer: %w", w.failed)
	}
	if w.done {
		return "", errors.New("commit layer: it is committed or aborted")
	}
	id, err := w.commit()
	if err != nil {
		return "", fmt.Errorf("commit layer: %w", err)
	}
	return id, nil
}

func (w *LayerWriter) commit() (LayerID, error) {
	m := w.manifest()
	b := m.Encode()
	sum := sha256.Sum256(b)
	id := LayerID("sha256:" + hex.EncodeToString(sum[:]))
	if ok, err := w.s.adopt(id); ok || err != nil {
		return id, err
	}
	w.closeDir()
	for _, e := range slices.Backward(m.Entries) {
		if e.IsDir() {
			if err := w.finishDir(w.nodes[e.Path]); err != nil {
				return "", fmt.Errorf("%q: %w", e.Path, err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(w.tmp, "manifest.json"), b, 0o644); err != nil {
		return "", err
	}
	if err := w.sync(); err != nil {
		return "", err
	}
	if err := w.s.install(w.tmp, id); err != nil {
		return "", err
	}
	w.s.cache.put(id, m)
	return id, nil
}

// manifest puts the names into order and lets the first name of every group of
// hard links stand for the group.
func (w *LayerWriter) manifest() Manifest {
	m := Manifest{Entries: make([]Entry, 0, len(w.nodes))}
	for _, n := range w.nodes {
		m.Entries = append(m.Entries, n.Entry)
	}
	sortEntries(m.Entries)
	first := map[*file]string{}
	for i := range m.Entries {
		e := &m.Entries[i]
		f := w.nodes[e.Path].file
		e.ModTime, e.Hardlink = time.Time{}, ""
		if f == nil {
			continue
		}
		if p, ok := first[f]; ok {
			e.Hardlink = p
		} else {
			first[f] = e.Path
		}
	}
	return m
}

func (w *LayerWriter) finishDir(n *node) error {
	f, err := w.root.Open(n.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	switch {
	case n.Opaque:
		err = setOverlay(f, "opaque", "y")
	case n.xmarks:
		err = setOverlay(f, "opaque", "x")
	}
	if err == nil {
		err = w.finishFile(f, n.Entry)
	}
	if err == nil && !n.ModTime.IsZero() {
		err = w.root.Chtimes(n.Path, n.ModTime, n.ModTime)
	}
	return err
}

func (w *LayerWriter) sync() error {
	if w.s.opt.Volatile {
		return nil
	}
	f, err := os.Open(w.tmp)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncTree(f)
}

// Abort throws an uncommitted layer away. Repeating it, or calling it after
// Commit, does nothing.
func (w *LayerWriter) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.closeDir()
	if w.root != nil {
		w.root.Close()
	}
	// What cannot be removed now is left to the collector.
	_ = removeTree(w.tmp)
	if w.lock != nil {
		w.lock.removeAndUnlock()
	}
}

// holeWriter leaves holes for blocks of zeros, so that a sparse file out of an
// archive does not fill the disk.
type holeWriter struct {
	f   *os.File
	off int64
}

func (h *holeWriter) Write(b []byte) (int, error) {
	if len(b) >= 4096 && allZero(b) {
		h.off += int64(len(b))
		return len(b), nil
	}
	n, err := h.f.WriteAt(b, h.off)
	h.off += int64(n)
	return n, err
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
