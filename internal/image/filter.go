package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Filter makes a layer of what f keeps and changes of another one's entries.
// f may change everything but a file's content (Size and Digest are ignored);
// a directory that is left out goes with everything below it. Content is
// shared with the other layer by hard links where the file system allows.
func (s *Store) Filter(ctx context.Context, id LayerID, f func(Entry) (Entry, bool)) (LayerID, error) {
	w, err := s.NewLayer(ctx)
	if err != nil {
		return "", fmt.Errorf("filter: %w", err)
	}
	return w.filter(ctx, id, f)
}

// filter fills an empty layer and ends it.
func (w *LayerWriter) filter(ctx context.Context, id LayerID, f func(Entry) (Entry, bool)) (LayerID, error) {
	defer w.Abort()
	m, err := w.s.Manifest(id)
	if err != nil {
		return "", fmt.Errorf("filter: %w", err)
	}
	c := copier{w: w, done: map[origin]copied{}}
	gone := "" // the directory left out last
	for _, old := range m.Entries {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if gone != "" && under(old.Path, gone) {
			continue
		}
		e, keep := f(old)
		if !keep {
			if old.IsDir() {
				gone = old.Path
			}
			continue
		}
		if err := c.copy(e, old, id); err != nil {
			return "", fmt.Errorf("filter layer %s: %w", id.Short(), err)
		}
	}
	return w.Commit()
}

func under(p, dir string) bool {
	return dir == "." || p == dir || len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/'
}

// Flatten makes one layer of a stack, bottom first, which looks alike when it
// lies on nothing. Content is shared with the stack by hard links.
func (s *Store) Flatten(ctx context.Context, stack []LayerID) (LayerID, error) {
	v, err := s.View(stack)
	if err != nil {
		return "", fmt.Errorf("flatten: %w", err)
	}
	w, err := s.NewLayer(ctx)
	if err != nil {
		return "", fmt.Errorf("flatten: %w", err)
	}
	defer w.Abort()
	c := copier{w: w, done: map[origin]copied{}}
	err = v.Walk(".", func(e Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.copy(e, e, v.node(e.Path).layer)
	})
	if err != nil {
		return "", fmt.Errorf("flatten: %w", err)
	}
	return w.Commit()
}

// copier takes entries over from committed layers.
type copier struct {
	w    *LayerWriter
	done map[origin]copied
}

// origin names a file whatever its hard links.
type origin struct {
	layer LayerID
	path  string
}

type copied struct {
	path string
	e    Entry
}

// copy adds e, whose content is that of old in the given layer. Names that were
// one file stay one as long as nothing else tells them apart.
func (c *copier) copy(e, old Entry, id LayerID) error {
	e.Size, e.Digest, e.Hardlink = old.Size, old.Digest, ""
	if e.IsDir() || e.Type == TypeWhiteout {
		return c.w.Add(e, nil)
	}
	o := origin{id, old.Path}
	if old.Hardlink != "" {
		o.path = old.Hardlink
	}
	if prev, ok := c.done[o]; ok && sameNode(prev.e, e) {
		e.Hardlink = prev.path
		return c.w.Add(e, nil)
	}
	c.done[o] = copied{e.Path, e}
	if e.Type != TypeFile || old.Type != TypeFile {
		return c.w.Add(e, nil)
	}
	if sameOnDisk(e, old) {
		err := c.w.link(e, filepath.Join(string(c.w.s.Dir(id)), old.Path))
		if !errors.Is(err, errNoLink) {
			return err
		}
	}
	f, err := c.w.s.openFile(id, old.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil {
		e.ModTime = fi.ModTime()
	}
	return c.w.Add(e, f)
}

// sameNode reports whether two entries could be one inode.
func sameNode(a, b Entry) bool {
	return a.Type == b.Type && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Link == b.Link &&
		a.Major == b.Major && a.Minor == b.Minor && maps.Equal(a.Xattrs, b.Xattrs)
}

func sameOnDisk(a, b Entry) bool {
	return diskMode(a) == diskMode(b) && maps.Equal(a.Xattrs, b.Xattrs)
}

var errNoLink = errors.New("cannot be linked")

// link adds a file whose content lies in another layer already, without
// copying it.
func (w *LayerWriter) link(e Entry, source string) error {
	if err := e.check(w.s.opt.Caps); err != nil {
		return err
	}
	if err := w.ensureDir(parent(e.Path)); err != nil {
		return err
	}
	if err := w.remove(e.Path); err != nil {
		return err
	}
	err := os.Link(source, filepath.Join(w.tmp, "fs", e.Path))
	if slices.ContainsFunc([]error{unix.EMLINK, unix.EXDEV, unix.EPERM, unix.ENOTSUP}, func(k error) bool { return errors.Is(err, k) }) {
		return errNoLink
	}
	if err != nil {
		return &fs.PathError{Op: "link", Path: e.Path, Err: err}
	}
	w.put(&node{Entry: e, file: &file{size: e.Size, digest: e.Digest, onDisk: true}})
	return nil
}
