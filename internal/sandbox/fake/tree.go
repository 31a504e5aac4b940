package fake

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/internal/image"
)

// node is a file of any kind; several names may lead to one.
type node struct {
	typ      image.Type
	mode     uint32
	data     []byte // never changed in place, so that copies may share it
	load     func() ([]byte, error)
	size     int64 // while it is not loaded
	link     string
	mtime    time.Time
	children map[string]*node
	entry    *image.Entry // what a layer said of it, while it is as that said
}

func newDir(mode uint32) *node {
	return &node{typ: image.TypeDir, mode: mode, children: map[string]*node{}, mtime: time.Now()}
}

// content reads a file.
func (n *node) content() ([]byte, error) {
	if n.load != nil {
		b, err := n.load()
		if err != nil {
			return nil, err
		}
		n.data, n.load = b, nil
	}
	return n.data, nil
}

// clone copies a tree; names of one file stay names of one file.
func (n *node) clone(seen map[*node]*node) *node {
	if c := seen[n]; c != nil {
		return c
	}
	c := *n
	seen[n] = &c
	if n.children != nil {
		c.children = make(map[string]*node, len(n.children))
		for name, child := range n.children {
			c.children[name] = child.clone(seen)
		}
	}
	return &c
}

func (n *node) names() []string {
	out := make([]string, 0, len(n.children))
	for name := range n.children {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// errLeaves: a path leads out of the directory it is to stay below.
var errLeaves = errors.New("it leaves the directory it is put into")

const maxLinks = 40

// walker resolves paths below a directory.
type walker struct {
	root    *node
	beneath bool // an absolute link or a ".." at the root is errLeaves, not the root
}

// walk returns the directory that holds the last component, its name, and what
// is there or nil. The last component is followed as a link only if asked.
func (w walker) walk(p string, follow bool) (dir *node, base string, n *node, err error) {
	at := []*node{w.root}
	rest := strings.Split(p, "/")
	for links := 0; len(rest) > 0; {
		s := rest[0]
		rest = rest[1:]
		last := len(strings.Trim(strings.Join(rest, ""), "/")) == 0
		cur := at[len(at)-1]
		switch s {
		case "", ".":
			continue
		case "..":
			if len(at) > 1 {
				at = at[:len(at)-1]
			} else if w.beneath {
				return nil, "", nil, errLeaves
			}
			continue
		}
		if cur.typ != image.TypeDir {
			return nil, "", nil, syscall.ENOTDIR
		}
		c := cur.children[s]
		switch {
		case c == nil && last:
			return cur, s, nil, nil
		case c == nil:
			return nil, "", nil, syscall.ENOENT
		case c.typ == image.TypeSymlink && (!last || follow):
			if links++; links > maxLinks {
				return nil, "", nil, syscall.ELOOP
			}
			if strings.HasPrefix(c.link, "/") {
				if w.beneath {
					return nil, "", nil, errLeaves
				}
				at = at[:1]
			}
			rest = append(strings.Split(c.link, "/"), rest...)
		case last:
			return cur, s, c, nil
		default:
			at = append(at, c)
		}
	}
	return nil, "", at[len(at)-1], nil
}

// find returns what is at a path.
func (w walker) find(p string, follow bool) (*node, error) {
	_, _, n, err := w.walk(p, follow)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return n, err
}

// mkdirs returns the directory at a path, made with its parents if missing.
func (w walker) mkdirs(p string, mode uint32) (*node, error) {
	dir, base, n, err := w.walk(p, true)
	if errors.Is(err, syscall.ENOENT) {
		if _, err = w.mkdirs(path.Dir(strings.TrimRight(p, "/")), mode); err != nil {
			return nil, err
		}
		dir, base, n, err = w.walk(p, true)
	}
	if err != nil {
		return nil, err
	}
	if n == nil {
		n = newDir(mode)
		dir.children[base] = n
	}
	if n.typ != image.TypeDir {
		return nil, syscall.ENOTDIR
	}
	return n, nil
}

// write makes or replaces the content of a file.
func (w walker) write(p string, data []byte, appending bool) error {
	dir, base, n, err := w.walk(p, true)
	if err != nil {
		return err
	}
	if n == nil {
		n = &node{typ: image.TypeFile, mode: 0o644}
		dir.children[base] = n
	}
	if n.typ == image.TypeDir {
		return syscall.EISDIR
	}
	if appending {
		old, err := n.content()
		if err != nil {
			return err
		}
		data = slices.Concat(old, data)
	}
	n.data, n.load, n.entry, n.mtime = slices.Clone(data), nil, nil, time.Now()
	return nil
}

// load makes a tree of a stack of layers.
func load(st *image.Store, layers []image.LayerID) (*node, error) {
	root := newDir(0o755)
	v, err := st.View(layers)
	if err != nil {
		return nil, err
	}
	w := walker{root: root}
	byPath := map[string]*node{}
	err = v.Walk(".", func(e image.Entry) error {
		n := &node{typ: e.Type, mode: e.Mode, link: e.Link, mtime: e.ModTime, size: e.Size, entry: &e}
		switch e.Type {
		case image.TypeDir:
			n.children = map[string]*node{}
		case image.TypeFile:
			n.load = func() ([]byte, error) { return v.ReadFile(e.Path, e.Size) }
		case image.TypeSymlink, image.TypeFIFO:
		default:
			return nil
		}
		if first := byPath[e.Hardlink]; e.Hardlink != "" && first != nil {
			n = first
		}
		byPath[e.Path] = n
		if e.Path == "." {
			root.mode, root.entry = e.Mode, &e
			return nil
		}
		dir, err := w.find(path.Dir(e.Path), false)
		if err != nil {
			return err
		}
		dir.children[path.Base(e.Path)] = n
		return nil
	})
	return root, err
}

// isNotExist reports errors of a missing path.
func isNotExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
