package grade

import (
	"archive/tar"
	"context"
	"strings"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
)

// handful is a workspace of a few plain files. Put into a pristine sandbox they
// come to the same tree as a layer of them would, without a layer that lies on
// disk for one grading.
type handful struct {
	view    *image.View   // of the agent's layer
	entries []image.Entry // parents first
}

// What a handful is, at most. It counts against the verifier's disk.
const (
	handfulFiles = 256
	handfulBytes = 1 << 20
	handfulRoom  = 64 << 20 // limit of the disk, at least
)

// handful is what crosses if that is few files and directories and nothing
// that only a layer can say: no deletion, no emptied directory, no second name
// of a file. Else it is nil.
func (f *filter) handful(r Request, layer image.LayerID, workdir string) *handful {
	if r.placed != nil { // what is put would lie over what is placed
		return nil
	}
	if r.Key.Grade != task.GradePatch || len(f.drop) == 0 || len(f.out) > handfulFiles {
		return nil // without anything dropped the agent's own layer will do
	}
	if d := r.Limits.DiskBytes; d > 0 && d < handfulRoom {
		return nil
	}
	for _, ours := range []string{logsDir, testsDir} {
		if within(workdir, ours) || within(ours, workdir) {
			return nil
		}
	}
	base, err := f.baseView()
	if err != nil {
		return nil // commit meets it again and returns it
	}
	h := &handful{}
	if h.view, err = f.store.View([]image.LayerID{layer}); err != nil {
		return nil
	}
	bytes := int64(0)
	for _, p := range sortedPaths(f.out) {
		e := f.out[p]
		if !within(p, workdir) {
			continue // as the image has it
		}
		old, err := base.Lstat(p)
		isDir := err == nil && old.IsDir()
		switch {
		case e.Opaque || e.Hardlink != "":
			return nil
		case e.Type == image.TypeDir:
		case isDir, e.Type != image.TypeFile && e.Type != image.TypeSymlink:
			return nil
		}
		if bytes += e.Size; bytes > handfulBytes {
			return nil
		}
		h.entries = append(h.entries, e)
	}
	return h
}

// put unpacks the workspace. The nil handful is nothing.
func (h *handful) put(ctx context.Context, sb sandbox.Trees) error {
	if h == nil || len(h.entries) == 0 {
		return nil
	}
	return sandbox.PutAll(ctx, sb, "/", func(w *tar.Writer) error {
		for _, e := range h.entries {
			if err := h.add(w, e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *handful) add(w *tar.Writer, e image.Entry) error {
	head := &tar.Header{Name: e.Path, Mode: int64(e.Mode & 0o7777), Uid: e.UID, Gid: e.GID, Format: tar.FormatPAX}
	switch e.Type {
	case image.TypeDir:
		head.Typeflag, head.Name = tar.TypeDir, strings.TrimSuffix(e.Path, "/")+"/"
		return w.WriteHeader(head)
	case image.TypeSymlink:
		head.Typeflag, head.Linkname = tar.TypeSymlink, e.Link
		return w.WriteHeader(head)
	}
	return addFile(w, h.view, e, head)
}
