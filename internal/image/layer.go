package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/remove"
)

// LayerWriter builds one layer under tmp/. It is for one goroutine. After Add
// has failed only Abort is left to call.
type LayerWriter struct {
	s     *Store
	below *View // what the layer will lie upon; nil if unknown
	tmp   string
	lock  *fileLock
	temp  *Temporary // whose layer it will be; nil for the store's
	root  *os.Root   // tmp/fs
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
	names  int // besides the first
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
	if w.lock, err = lockNew(w.tmp + lockSuffix); err != nil {
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

// maxNames bounds the names of one file in a layer. File systems have a bound of
// their own, 65,000 on ext4, which the layers that share a file meet together.
const maxNames = 10_000

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
	if to.file.names++; to.file.names > maxNames {
		return fmt.Errorf("%q: more than %d names of one file: %w", n.Path, maxNames, ErrCap)
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
	if w.temp != nil && w.temp.own {
		sum = sha256.Sum256([]byte(random()))
		id = LayerID("sha256:" + hex.EncodeToString(sum[:]))
	} else {
		if ok, err := w.s.adopt(id); ok || err != nil {
			return id, err
		}
		if w.temp != nil && w.temp.take(id) {
			return id, nil
		}
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
	if w.temp != nil {
		if err := w.s.reach(w.tmp); err != nil {
			return "", err
		}
		w.s.cache.put(id, m)
		w.temp.keep(w, id)
		return id, nil
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
	w.release()
	// What cannot be removed now is left to the collector.
	_ = remove.Tree(w.tmp)
	if w.lock != nil {
		w.lock.removeAndUnlock()
	}
}

// release closes what is open, and leaves the tree and its lock alone.
func (w *LayerWriter) release() {
	w.done = true
	w.closeDir()
	if w.root != nil {
		w.root.Close()
	}
}
