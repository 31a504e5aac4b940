package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

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
