package ns

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"strings"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Commit turns what a snapshot holds beyond its layers into a layer. What is
// written but not different stays out, so that equal work has an equal id.
func (b *Backend) Commit(ctx context.Context, s sandbox.Snapshot) (image.LayerID, error) {
	id, err := b.commit(ctx, s)
	if err != nil {
		return "", fmt.Errorf("commit snapshot: %w", err)
	}
	return id, nil
}

func (b *Backend) commit(ctx context.Context, s sandbox.Snapshot) (image.LayerID, error) {
	b.mu.Lock()
	below, ok := b.bases[s]
	b.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("%s is not of this backend or was dropped", s)
	}
	base, err := b.conf.Store.View(below)
	if err != nil {
		return "", err
	}
	w, err := b.conf.Store.NewLayer(ctx, below...)
	if err != nil {
		return "", err
	}
	defer w.Abort()
	c := &committer{base: base, w: w}
	if b.isReal(s) {
		c.ids = b.ids.count()
	}
	err = b.stream(ctx, request{Op: opDiff, Snapshot: s}, func(f *os.File) error {
		in := bufio.NewReaderSize(f, streamBuffer)
		err := c.read(tar.NewReader(in))
		if err == nil {
			_, err = io.Copy(io.Discard, in)
		}
		return err
	}, false)
	if err != nil {
		return "", err
	}
	if c.added == 0 {
		return "", nil
	}
	return w.Commit()
}

// committer adds what differs from base.
type committer struct {
	base   *image.View
	w      *image.LayerWriter
	added  int
	ids    int    // 0: owners are not real, and stay as they are below
	opaque string // the outermost directory we are in that hides the base; "" for none
}

func (c *committer) read(tr *tar.Reader) error {
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = c.entry(h, tr)
		}
		if err != nil {
			return err
		}
	}
}

// below returns what the base has at a path that nothing opaque hides.
func (c *committer) below(p string) (image.Entry, bool) {
	if c.opaque != "" && strings.HasPrefix(p, c.opaque+"/") {
		return image.Entry{}, false
	}
	e, err := c.base.Lstat(p)
	return e, err == nil
}

func (c *committer) add(e image.Entry, r io.Reader) error {
	c.added++
	return c.w.Add(e, r)
}

func (c *committer) entry(h *tar.Header, content io.Reader) error {
	p := path.Clean(h.Name)
	if c.opaque != "" && p != c.opaque && !strings.HasPrefix(p, c.opaque+"/") {
		c.opaque = ""
	}
	old, exists := c.below(p)
	if h.PAXRecords[paxKind] == kindWhiteout {
		if !exists {
			return nil // it hid something of a volume that is merged into this one
		}
		return c.add(image.Entry{Path: p, Type: image.TypeWhiteout}, nil)
	}
	e := image.Entry{Path: p, Mode: uint32(h.Mode & 0o7777), ModTime: h.ModTime, Xattrs: xattrs(h)}
	if c.ids > 0 {
		e.UID, e.GID = h.Uid, h.Gid
	} else {
		delete(e.Xattrs, image.Capability)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return c.dir(e, h, old, exists)
	case tar.TypeSymlink:
		e.Type, e.Link, e.Mode, e.Xattrs = image.TypeSymlink, h.Linkname, 0, nil
		if exists && old.Type == e.Type && old.Link == e.Link && c.sameOwner(&e, old) && h.PAXRecords[paxLinked] == "" {
			return nil
		}
		return c.add(e, nil)
	case tar.TypeFifo:
		e.Type = image.TypeFIFO
		return c.add(e, nil)
	case tar.TypeLink:
		e.Type, e.Hardlink = image.TypeFile, path.Clean(h.Linkname)
		return c.add(e, nil)
	case tar.TypeReg:
		e.Type = image.TypeFile
		if exists && old.Type == e.Type {
			same := c.inherit(&e, old) && old.Size == h.Size && old.Digest == h.PAXRecords[paxDigest]
			if same && h.PAXRecords[paxLinked] == "" && old.Hardlink == "" {
				return nil
			}
		}
		return c.add(e, content)
	}
	return errors.New("the keeper sent an entry of an unknown type")
}

func (c *committer) dir(e image.Entry, h *tar.Header, old image.Entry, exists bool) error {
	e.Type = image.TypeDir
	isDir := exists && old.Type == image.TypeDir
	if h.PAXRecords[paxKind] == kindOpaque && isDir {
		e.Opaque = true
	}
	same := isDir && c.inherit(&e, old) && !e.Opaque
	if c.opaque == "" && (e.Opaque || (exists && !isDir)) {
		c.opaque = e.Path
	}
	if same || (e.Path == "." && !exists) {
		return nil
	}
	return c.add(e, nil)
}

// inherit gives an entry what the disk could not hold of the one it replaces:
// owner, setid bits, attributes of the system. It reports whether mode and
// attributes are unchanged.
func (c *committer) inherit(e *image.Entry, old image.Entry) bool {
	if c.ids > 0 {
		return c.inheritReal(e, old)
	}
	e.UID, e.GID = old.UID, old.GID
	disk := old.Mode&0o777 | 0o400
	if old.IsDir() {
		disk = old.Mode&0o777 | 0o500
	}
	disk |= old.Mode & 0o1000
	same := e.Mode == disk || e.Mode == old.Mode
	if same {
		e.Mode = old.Mode
	}
	userOld := map[string]string{}
	for k, v := range old.Xattrs {
		if visibleXattr(k) {
			userOld[k] = v
		} else if same {
			if e.Xattrs == nil {
				e.Xattrs = map[string]string{}
			}
			e.Xattrs[k] = v
		}
	}
	mine := map[string]string{}
	for k, v := range e.Xattrs {
		if visibleXattr(k) {
			mine[k] = v
		}
	}
	return same && maps.Equal(userOld, mine)
}

// sameOwner reports whether an entry's owner is that of the one it replaces,
// and keeps one that no id stands for.
func (c *committer) sameOwner(e *image.Entry, old image.Entry) bool {
	if c.ids == 0 {
		return true
	}
	same := e.UID == inside(old.UID, c.ids) && e.GID == inside(old.GID, c.ids)
	if same {
		e.UID, e.GID = old.UID, old.GID
	}
	return same
}

// inheritReal is for trees that show owners, modes and capabilities as they
// are; only attributes of the system are not there.
func (c *committer) inheritReal(e *image.Entry, old image.Entry) bool {
	same := c.sameOwner(e, old) && e.Mode == old.Mode
	shown := map[string]string{}
	for k, v := range old.Xattrs {
		if visibleXattr(k) || k == image.Capability {
			shown[k] = v
		}
	}
	if same = same && maps.Equal(shown, e.Xattrs); same {
		e.Xattrs = old.Xattrs
	}
	return same
}

func xattrs(h *tar.Header) map[string]string {
	var out map[string]string
	for k, v := range h.PAXRecords {
		if name, ok := strings.CutPrefix(k, paxXattr); ok {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = v
		}
	}
	return out
}
