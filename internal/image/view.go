package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// View is what a stack of layers looks like when they lie upon each other,
// read-only and without a mount. It is made from manifests alone, so devices
// and owners are there too. It never follows a link unless asked to Resolve
// one, and then never out of the view's root.
//
// A view never changes, so that many goroutines may share one, and views of
// taller stacks are made upon it: they share what their layers leave alone.
type View struct {
	s     *Store
	root  *vnode
	nodes int // that were laid, for the cache
	self  *maker
}

// maker stands for a view in its nodes: a pointer to the view itself would keep
// whole trees that only lower views have.
type maker struct{ _ byte }

type vnode struct {
	Entry
	by       *maker  // who alone may change it, until the view is done
	layer    LayerID // that holds the entry
	children map[string]*vnode
}

// View merges layers, bottom first. The empty stack is an empty directory.
func (s *Store) View(stack []LayerID) (*View, error) {
	if v := s.views.get(stack); v != nil {
		return v, nil
	}
	v := &View{s: s, self: &maker{}}
	low, n := s.views.below(stack)
	if low != nil {
		v.root, v.nodes = low.root, low.nodes
	} else {
		v.root = &vnode{Entry: Entry{Path: ".", Type: TypeDir, Mode: 0o755}, by: v.self}
	}
	for _, id := range stack[n:] {
		m, err := s.Manifest(id)
		if err != nil {
			return nil, fmt.Errorf("view: %w", err)
		}
		v.hide(m)
		for _, e := range m.Entries {
			v.lay(e, id)
		}
		v.nodes += len(m.Entries)
	}
	s.views.put(stack, v)
	return v, nil
}

// viewCache keeps the last views: every layer that is committed asks for the
// one of its stack.
type viewCache struct {
	mu   sync.Mutex
	last []cachedView // oldest first
}

type cachedView struct {
	stack []LayerID
	v     *View
}

const cachedNodes = 200_000 // of all cached views; about 60 MB

func (c *viewCache) get(stack []LayerID) *View {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.last {
		if slices.Equal(e.stack, stack) {
			c.last = append(slices.Delete(c.last, i, i+1), e)
			return e.v
		}
	}
	return nil
}

// below returns the view of the most layers that the stack begins with, and how
// many they are.
func (c *viewCache) below(stack []LayerID) (low *View, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.last {
		if m := len(e.stack); m > n && m < len(stack) && slices.Equal(e.stack, stack[:m]) {
			low, n = e.v, m
		}
	}
	return low, n
}

func (c *viewCache) put(stack []LayerID, v *View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = append(c.last, cachedView{slices.Clone(stack), v})
	n := 0
	for _, e := range c.last {
		n += e.v.nodes
	}
	for len(c.last) > 1 && n > cachedNodes || len(c.last) > 64 {
		n -= c.last[0].v.nodes
		c.last = slices.Delete(c.last, 0, 1)
	}
}

// hide takes away what a layer's whiteouts and opaque directories cover.
func (v *View) hide(m Manifest) {
	for _, e := range m.Entries {
		switch {
		case e.Type == TypeWhiteout:
			if v.node(e.Path) != nil {
				delete(v.mine(parent(e.Path)).children, base(e.Path))
			}
		case e.Opaque:
			if d := v.node(e.Path); d != nil && len(d.children) > 0 {
				v.mine(e.Path).children = nil
			}
		}
	}
}

// lay puts one entry of a layer over what is there. Parents are there: they
// come first in every manifest.
func (v *View) lay(e Entry, id LayerID) {
	if e.Type == TypeWhiteout {
		return
	}
	e.Opaque = false // it has done its work
	if e.Path == "." {
		n := v.mine(".")
		n.Entry, n.layer = e, id
		return
	}
	d := v.mine(parent(e.Path))
	b := base(e.Path)
	if old := d.children[b]; old != nil && old.IsDir() && e.IsDir() {
		old = v.own(old)
		old.Entry, old.layer, d.children[b] = e, id, old
		return
	}
	if d.children == nil {
		d.children = map[string]*vnode{}
	}
	d.children[b] = &vnode{Entry: e, by: v.self, layer: id}
}

// mine finds a name that is there, to be changed: it and every directory above
// it become this view's own.
func (v *View) mine(p string) *vnode {
	v.root = v.own(v.root)
	n := v.root
	if p == "." {
		return n
	}
	for s := range strings.SplitSeq(p, "/") {
		c := v.own(n.children[s])
		n.children[s] = c
		n = c
	}
	return n
}

// own copies a node of another view.
func (v *View) own(n *vnode) *vnode {
	if n.by == v.self {
		return n
	}
	c := *n
	c.by, c.children = v.self, maps.Clone(n.children)
	return &c
}

// node finds a name; nil if it is not there or lies below something that is
// not a directory.
func (v *View) node(p string) *vnode {
	n := v.root
	if p == "." {
		return n
	}
	for s := range strings.SplitSeq(p, "/") {
		if n = n.children[s]; n == nil {
			return nil
		}
	}
	return n
}

// clean makes any spelling of a path relative to the root; ".." stops there.
func clean(p string) string {
	return strings.TrimPrefix(path.Clean("/"+p), "/")
}

func (v *View) find(op, p string) (*vnode, error) {
	c := clean(p)
	if c == "" {
		c = "."
	}
	if n := v.node(c); n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: p, Err: fs.ErrNotExist}
}

// Lstat returns the entry of a path, absolute or relative to the root. No part
// of the path is followed as a link.
func (v *View) Lstat(p string) (Entry, error) {
	n, err := v.find("lstat", p)
	if err != nil {
		return Entry{}, err
	}
	return n.Entry, nil
}

// Source is the layer that a name is seen from; empty for a root that no layer
// describes.
func (v *View) Source(p string) (LayerID, error) {
	n, err := v.find("source", p)
	if err != nil {
		return "", err
	}
	return n.layer, nil
}

// ModTime is when a name was changed, as its layer has it on disk; zero for
// what lies on no disk: devices, and a root that no layer describes.
func (v *View) ModTime(p string) (time.Time, error) {
	n, err := v.find("modtime", p)
	if err != nil {
		return time.Time{}, err
	}
	switch {
	case n.layer == "", n.Type == TypeChar, n.Type == TypeBlock, n.Type == TypeSocket:
		return time.Time{}, nil
	}
	r, err := os.OpenRoot(string(v.s.Dir(n.layer)))
	if err != nil {
		return time.Time{}, fmt.Errorf("layer %s: %w", n.layer.Short(), err)
	}
	defer r.Close()
	fi, err := r.Lstat(n.Path)
	if err != nil {
		return time.Time{}, fmt.Errorf("layer %s: %w", n.layer.Short(), err)
	}
	return fi.ModTime(), nil
}

const maxLinks = 40 // as Linux

var errLoop = errors.New("too many levels of symbolic links")

// Resolve follows every link in p inside the root and returns the path,
// relative to the root, of what it leads to. A part that is missing is
// fs.ErrNotExist.
func (v *View) Resolve(p string) (string, error) {
	rest := strings.Split(clean(p), "/")
	var at []*vnode // below the root
	for links := 0; len(rest) > 0; {
		s := rest[0]
		rest = rest[1:]
		switch s {
		case "", ".":
			continue
		case "..":
			at = at[:max(0, len(at)-1)]
			continue
		}
		n := v.root
		if len(at) > 0 {
			n = at[len(at)-1]
		}
		if !n.IsDir() {
			return "", &fs.PathError{Op: "resolve", Path: p, Err: fs.ErrNotExist}
		}
		c := n.children[s]
		if c == nil {
			return "", &fs.PathError{Op: "resolve", Path: p, Err: fs.ErrNotExist}
		}
		if c.Type != TypeSymlink {
			at = append(at, c)
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "resolve", Path: p, Err: errLoop}
		}
		if strings.HasPrefix(c.Link, "/") {
			at = nil
		}
		rest = append(strings.Split(c.Link, "/"), rest...)
	}
	if len(at) == 0 {
		return ".", nil
	}
	return at[len(at)-1].Path, nil
}

// ReadFile returns the content of a regular file. One of more than max bytes
// is ErrCap.
func (v *View) ReadFile(p string, max int64) ([]byte, error) {
	n, err := v.find("read", p)
	if err != nil {
		return nil, err
	}
	if n.Type != TypeFile {
		return nil, fmt.Errorf("read %q: it is a %s, not a file", p, n.Type)
	}
	if n.Size > max {
		return nil, fmt.Errorf("read %q of %d bytes: %w (%d)", p, n.Size, ErrCap, max)
	}
	f, err := v.s.openFile(n.layer, n.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, n.Size))
	if err == nil && int64(len(b)) != n.Size {
		err = fmt.Errorf("read %q: %d of %d bytes: %w", p, len(b), n.Size, io.ErrUnexpectedEOF)
	}
	return b, err
}

// Open opens the content of a regular file.
func (v *View) Open(p string) (io.ReadCloser, error) {
	n, err := v.find("open", p)
	if err != nil {
		return nil, err
	}
	if n.Type != TypeFile {
		return nil, fmt.Errorf("open %q: it is a %s, not a file", p, n.Type)
	}
	return v.s.openFile(n.layer, n.Path)
}

// openFile opens a regular file of a layer.
func (s *Store) openFile(id LayerID, p string) (*os.File, error) {
	r, err := os.OpenRoot(string(s.Dir(id)))
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", id.Short(), err)
	}
	defer r.Close()
	f, err := r.Open(p)
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", id.Short(), err)
	}
	return f, nil
}

// ReadDir returns a directory's entries in order of their names.
func (v *View) ReadDir(p string) ([]Entry, error) {
	n, err := v.find("readdir", p)
	if err != nil {
		return nil, err
	}
	if !n.IsDir() {
		return nil, fmt.Errorf("readdir %q: it is a %s", p, n.Type)
	}
	es := make([]Entry, 0, len(n.children))
	for _, b := range slices.Sorted(maps.Keys(n.children)) {
		es = append(es, n.children[b].Entry)
	}
	return es, nil
}

// Walk calls f for p and everything below it, parents first, names in order.
// fs.SkipDir leaves a directory out, fs.SkipAll ends the walk.
func (v *View) Walk(p string, f func(Entry) error) error {
	n, err := v.find("walk", p)
	if err != nil {
		return err
	}
	if err := n.walk(f); err != nil && err != fs.SkipAll && err != fs.SkipDir {
		return err
	}
	return nil
}

func (n *vnode) walk(f func(Entry) error) error {
	if err := f(n.Entry); err != nil {
		return err
	}
	for _, b := range slices.Sorted(maps.Keys(n.children)) {
		if err := n.children[b].walk(f); err != nil && (err != fs.SkipDir || !n.children[b].IsDir()) {
			return err
		}
	}
	return nil
}
