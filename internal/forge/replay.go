package forge

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Place is what Replay needs of a sandbox.
type Place interface {
	sandbox.Starter
	sandbox.Trees
}

// Replay makes a delta's edits in a living sandbox, by its own shell and rm.
// healthy is the tree that contents are taken from; nil if the delta holds them
// all. Directories above the edits get new times, as by anybody's work.
func Replay(ctx context.Context, box Place, d Delta, healthy *image.View) error {
	if err := d.Check(); err != nil {
		return err
	}
	if healthy != nil { // changed files get the times that a layer would give them
		var err error
		if d, err = d.stamp(healthy, time.Time{}); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
	}
	d = slices.SortedFunc(slices.Values(d), byPath)
	var b bytes.Buffer
	if err := d.writeTar(&b, healthy); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	for part := range slices.Chunk(d, 500) {
		args := []string{"/bin/sh", "-c", `for p; do case $p in d/*) [ -d "${p#d}" ] && [ ! -L "${p#d}" ] && continue;; esac; /bin/rm -rf -- "${p#?}" || exit; done`, "sh"}
		for _, e := range part {
			kind := "f"
			if e.Type == image.TypeDir {
				kind = "d"
			}
			args = append(args, kind+e.Path)
		}
		r, err := sandbox.Exec(ctx, box, sandbox.Command{Args: args, User: "0", Dir: "/"}, sandbox.ExecOptions{Timeout: time.Minute})
		if err == nil && r.Exit.Code != 0 {
			err = fmt.Errorf("status %d: %s", r.Exit.Code, bytes.TrimSpace(r.Stderr))
		}
		if err != nil {
			return fmt.Errorf("replay: remove what stands there: %w", err)
		}
	}
	if err := box.Put(ctx, "/", &b); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

// writeTar writes what a delta brings; removals are no entries of a tar.
func (d Delta) writeTar(out io.Writer, healthy *image.View) error {
	w := tar.NewWriter(out)
	for _, e := range d {
		if e.Type == "" {
			continue
		}
		h := &tar.Header{Name: strings.TrimPrefix(e.Path, "/"), Mode: int64(e.Mode), Uid: e.UID, Gid: e.GID, Linkname: e.Link,
			ModTime: time.Unix(e.Time, int64(e.Nanos)), Format: tar.FormatPAX}
		var data []byte
		switch e.Type {
		case image.TypeFile:
			var err error
			if data, err = e.Content(healthy); err != nil {
				return err
			}
			h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		case image.TypeDir:
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		case image.TypeSymlink:
			h.Typeflag = tar.TypeSymlink
		case image.TypeFIFO:
			h.Typeflag = tar.TypeFifo
		}
		for k, x := range e.Xattrs {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords["SCHILY.xattr."+k] = string(x)
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
		if _, err := w.Write(data); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
	}
	return w.Close()
}

// Under makes a delta's edits in a directory of this machine that is taken for
// the root of a tree. No link leads out of it. Owners are kept where the
// process may give them.
func (d Delta) Under(dir string, healthy *image.View) error {
	if err := d.Check(); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	d = slices.SortedFunc(slices.Values(d), byPath)
	for _, e := range d {
		if err := e.under(root, healthy); err != nil {
			return fmt.Errorf("%s below %s: %w", e.Path, dir, err)
		}
	}
	// Last, since what comes into a directory changes its time.
	for _, e := range slices.Backward(d) {
		if e.Time == 0 || e.Type != image.TypeDir && e.Type != image.TypeFile {
			continue
		}
		t := time.Unix(e.Time, int64(e.Nanos))
		if err := root.Chtimes(strings.TrimPrefix(e.Path, "/"), t, t); err != nil {
			return err
		}
	}
	return nil
}

func (e Edit) under(root *os.Root, healthy *image.View) error {
	p := strings.TrimPrefix(e.Path, "/")
	fi, err := root.Lstat(p)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if there && (e.Type != image.TypeDir || !fi.IsDir()) {
		if err := root.RemoveAll(p); err != nil {
			return err
		}
		there = false
	}
	switch e.Type {
	case "":
		return nil
	case image.TypeSymlink:
		if err := root.Symlink(e.Link, p); err != nil {
			return err
		}
		return own(root.Lchown(p, e.UID, e.GID))
	case image.TypeDir:
		if !there {
			if err := root.Mkdir(p, 0o700); err != nil {
				return err
			}
		}
	case image.TypeFile:
		data, err := e.Content(healthy)
		if err != nil {
			return err
		}
		if err := root.WriteFile(p, data, 0o600); err != nil {
			return err
		}
	default:
		return fmt.Errorf("a %s cannot be made here", e.Type)
	}
	if err := own(root.Chown(p, e.UID, e.GID)); err != nil {
		return err
	}
	return root.Chmod(p, fs.FileMode(e.Mode&0o777)|special(e.Mode))
}

// special are the bits above permissions, as Go spells them.
func special(mode uint32) (m fs.FileMode) {
	for bit, as := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= as
		}
	}
	return m
}

// own forgives an ordinary user that owners cannot be given.
func own(err error) error {
	if os.Geteuid() != 0 && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
