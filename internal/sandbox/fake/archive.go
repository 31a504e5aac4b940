package fake

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Put unpacks a tar stream.
func (s *box) Put(ctx context.Context, dst image.Path, r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("put into %s: %w", dst, err)
		}
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(tr)
		}
		if err == nil {
			err = s.putEntry(dst, h, data)
		}
		if err != nil {
			return fmt.Errorf("put into %s: %w", dst, err)
		}
	}
	if err := s.putEntry(dst, nil, nil); err != nil { // an empty archive still makes dst
		return fmt.Errorf("put into %s: %w", dst, err)
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

func cleanName(name string) (string, error) {
	if strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) {
		return "", errLeaves
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errLeaves
		}
	}
	return path.Clean(name), nil
}

func (s *box) putEntry(dst image.Path, h *tar.Header, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sandbox.ErrClosed
	}
	root, err := walker{root: s.root}.mkdirs(string(dst), 0o755)
	if err != nil || h == nil {
		return err
	}
	rel, err := cleanName(h.Name)
	if err != nil {
		return fmt.Errorf("%.200q: %w", h.Name, err)
	}
	if err := unpackEntry(walker{root: root, beneath: root != s.root}, rel, h, data); err != nil {
		return fmt.Errorf("%.200q: %w", h.Name, err)
	}
	return nil
}

func unpackEntry(w walker, rel string, h *tar.Header, data []byte) error {
	if rel == "." {
		return nil
	}
	if _, err := w.mkdirs(path.Dir(rel), 0o755); err != nil {
		return err
	}
	dir, base, old, err := w.walk(rel, false)
	if err != nil {
		return err
	}
	mode := uint32(h.Mode & 0o7777)
	n := &node{mode: mode, mtime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeDir:
		if old != nil && old.typ == image.TypeDir {
			old.mode, old.entry = mode, nil
			return nil
		}
		n = newDir(mode)
	case tar.TypeReg, tar.TypeGNUSparse:
		n.typ, n.data = image.TypeFile, data
	case tar.TypeSymlink:
		n.typ, n.link = image.TypeSymlink, h.Linkname
	case tar.TypeFifo:
		n.typ = image.TypeFIFO
	case tar.TypeLink:
		to, err := cleanName(h.Linkname)
		if err != nil {
			return err
		}
		if n, err = w.find(to, false); err != nil {
			return fmt.Errorf("hard link to %.200q: %w", h.Linkname, err)
		}
	default:
		return fmt.Errorf("entries of type %q are not put into a sandbox", h.Typeflag)
	}
	if old != nil && old.typ == image.TypeDir {
		return errors.New("it would replace a directory")
	}
	dir.children[base] = n
	return nil
}

// Get writes a tar stream.
func (s *box) Get(ctx context.Context, src image.Path, out io.Writer, maxBytes int64) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("get %s: %w", src, sandbox.ErrClosed)
	}
	n, err := walker{root: s.root}.find(string(src), false)
	if err == nil {
		n = n.clone(map[*node]*node{}) // what follows takes its time
	}
	s.mu.Unlock()
	if isNotExist(err) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", src, err)
	}
	p := &packer{w: tar.NewWriter(out), max: maxBytes, head: maxBytes == sandbox.HeadOnly, seen: map[*node]string{}}
	if n.typ == image.TypeDir && !p.head {
		err = p.children(ctx, n, "")
	} else {
		err = p.entry(ctx, n, path.Base(string(src)))
	}
	if err == nil {
		err = p.w.Close()
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", src, err)
	}
	return nil
}

type packer struct {
	w          *tar.Writer
	max, bytes int64
	head       bool // an entry is written without what it holds
	seen       map[*node]string
}

func (p *packer) children(ctx context.Context, n *node, rel string) error {
	for _, name := range n.names() {
		if err := p.entry(ctx, n.children[name], path.Join(rel, name)); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(ctx context.Context, n *node, rel string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h := &tar.Header{Name: rel, Mode: int64(n.mode), ModTime: n.mtime, Format: tar.FormatPAX}
	if first, again := p.seen[n]; again {
		h.Typeflag, h.Linkname = tar.TypeLink, first
		return p.w.WriteHeader(h)
	}
	switch n.typ {
	case image.TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, rel+"/"
		if err := p.w.WriteHeader(h); err != nil || p.head {
			return err
		}
		return p.children(ctx, n, rel)
	case image.TypeSymlink:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, n.link, 0o777
	case image.TypeFIFO:
		h.Typeflag = tar.TypeFifo
	case image.TypeFile:
		if h.Typeflag = tar.TypeReg; p.head {
			break
		}
		data, err := n.content()
		if err != nil {
			return err
		}
		if p.bytes += int64(len(data)); p.max > 0 && p.bytes > p.max {
			return fmt.Errorf("%q: more than %d bytes: %w", rel, p.max, sandbox.ErrTooLarge)
		}
		p.seen[n] = rel
		h.Size = int64(len(data))
		if err := p.w.WriteHeader(h); err != nil {
			return err
		}
		_, err = p.w.Write(data)
		return err
	}
	return p.w.WriteHeader(h)
}

// Commit adds what differs from the layers to the store.
func (b *Backend) Commit(ctx context.Context, s sandbox.Snapshot) (image.LayerID, error) {
	b.mu.Lock()
	f, ok := b.snaps[s]
	b.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("commit: snapshot %s is not of this backend or was dropped", s)
	}
	w, err := b.store.NewLayer(ctx, f.layers...)
	if err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	defer w.Abort()
	d := &differ{w: w, names: map[*node]string{}}
	if err := d.dir(f.root.clone(map[*node]*node{}), f.origin, "."); err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	if d.added == 0 {
		return "", nil
	}
	return w.Commit()
}

type differ struct {
	w     *image.LayerWriter
	added int
	names map[*node]string // files that the layer has
}

func (d *differ) add(e image.Entry, data []byte) error {
	d.added++
	if e.Type != image.TypeFile || e.Hardlink != "" {
		return d.w.Add(e, nil)
	}
	return d.w.Add(e, strings.NewReader(string(data)))
}

// dir compares two directories; old may be nil.
func (d *differ) dir(n, old *node, rel string) error {
	if old != nil {
		for _, name := range old.names() {
			if n.children[name] == nil {
				if err := d.add(image.Entry{Path: path.Join(rel, name), Type: image.TypeWhiteout}, nil); err != nil {
					return err
				}
			}
		}
	}
	for _, name := range n.names() {
		c, p := n.children[name], path.Join(rel, name)
		var was *node
		if old != nil {
			was = old.children[name]
		}
		if err := d.node(c, was, p); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) node(c, was *node, p string) error {
	if was != nil && was.typ != c.typ {
		was = nil
	}
	e := image.Entry{Path: p, Type: c.typ, Mode: c.mode, Link: c.link, ModTime: c.mtime}
	if was != nil && was.entry != nil {
		e.UID, e.GID, e.Xattrs = was.entry.UID, was.entry.GID, was.entry.Xattrs
	}
	switch c.typ {
	case image.TypeDir:
		if was == nil || was.mode != c.mode {
			if err := d.add(e, nil); err != nil {
				return err
			}
		}
		return d.dir(c, was, p)
	case image.TypeSymlink:
		if e.Mode = 0; was != nil && was.link == c.link {
			return nil
		}
		return d.add(e, nil)
	case image.TypeFile:
		return d.file(c, was, e)
	}
	if was != nil && was.mode == c.mode {
		return nil
	}
	return d.add(e, nil)
}

func (d *differ) file(c, was *node, e image.Entry) error {
	if first, ok := d.names[c]; ok {
		e.Hardlink = first
		return d.add(e, nil)
	}
	data, err := c.content()
	if err != nil {
		return err
	}
	if was != nil && was.mode == c.mode && was.entry != nil && was.entry.Hardlink == "" {
		sum := sha256.Sum256(data)
		if was.entry.Digest == "sha256:"+hex.EncodeToString(sum[:]) {
			return nil
		}
	}
	d.names[c] = e.Path
	return d.add(e, data)
}
