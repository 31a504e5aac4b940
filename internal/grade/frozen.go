package grade

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// frozenTree is what an agent left, as a place to collect from.
type frozenTree struct {
	store *image.Store
	layer image.LayerID
}

// Frozen is what one layer holds, without what it lies upon. Nothing starts in
// it and nothing can be put there.
func Frozen(store *image.Store, layer image.LayerID) Place { return frozenTree{store, layer} }

var errFrozen = errors.New("the tree is frozen")

// Start implements Place.
func (frozenTree) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, errFrozen
}

// Put implements Place.
func (frozenTree) Put(context.Context, image.Path, io.Reader) error { return errFrozen }

func (f frozenTree) view() (*image.View, error) {
	if f.layer == "" {
		return f.store.View(nil)
	}
	return f.store.View([]image.LayerID{f.layer})
}

func (f frozenTree) isDir(src image.Path) (bool, error) {
	v, err := f.view()
	if err != nil {
		return false, err
	}
	e, err := v.Lstat(string(src))
	if err == nil && !e.IsDir() && e.Type != image.TypeFile {
		err = errors.New("it is neither a file nor a directory")
	}
	return err == nil && e.IsDir(), err
}

// Get writes a part of the tree as a sandbox does. Links on the way are not
// followed: what lies behind one is missing.
func (f frozenTree) Get(ctx context.Context, src image.Path, w io.Writer, maxBytes int64) error {
	if maxBytes == sandbox.HeadOnly {
		return fmt.Errorf("get %s: a head alone: %w", src, sandbox.ErrUnsupported)
	}
	v, err := f.view()
	if err != nil {
		return err
	}
	top, err := v.Lstat(string(src))
	if err != nil {
		return fmt.Errorf("get %s: %w", src, err)
	}
	at := path.Dir(top.Path)
	if top.IsDir() {
		at = top.Path
	}
	tw := tar.NewWriter(w)
	left := maxBytes
	err = v.Walk(top.Path, func(e image.Entry) error {
		if e.Path == top.Path && top.IsDir() {
			return ctx.Err()
		}
		if left -= e.Size; maxBytes > 0 && left < 0 {
			return fmt.Errorf("get %s: %w", src, sandbox.ErrTooLarge)
		}
		if err := addEntry(tw, v, e, below(e.Path, at), at); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

// below is p relative to a directory that holds it.
func below(p, dir string) string {
	if dir == "." {
		return p
	}
	return strings.TrimPrefix(p, dir+"/")
}

// addEntry writes one entry; devices and sockets are left out.
func addEntry(w *tar.Writer, v *image.View, e image.Entry, name, at string) error {
	h := &tar.Header{Name: name, Mode: int64(e.Mode & 0o7777), Format: tar.FormatPAX}
	switch {
	case e.Hardlink != "" && within(e.Hardlink, at):
		h.Typeflag, h.Linkname = tar.TypeLink, below(e.Hardlink, at)
		return w.WriteHeader(h)
	case e.Type == image.TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return w.WriteHeader(h)
	case e.Type == image.TypeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
		return w.WriteHeader(h)
	case e.Type == image.TypeFIFO:
		h.Typeflag = tar.TypeFifo
		return w.WriteHeader(h)
	case e.Type != image.TypeFile:
		return nil
	}
	return addFile(w, v, e, h)
}

// addFile writes a file of a view with its content and its time, since make and
// caches of byte code go by times.
func addFile(w *tar.Writer, v *image.View, e image.Entry, h *tar.Header) error {
	r, err := v.Open(e.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	if f, ok := r.(fs.File); ok {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		h.ModTime = info.ModTime()
	}
	h.Typeflag, h.Size = tar.TypeReg, e.Size
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(w, r, e.Size)
	return err
}
