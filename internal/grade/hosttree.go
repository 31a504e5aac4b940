package grade

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// keep says how a tree out of a sandbox is kept on the host. Everything in it
// is hostile: it is written below one opened directory, devices and pipes are
// left out, and no link leads out of the tree.
type keep struct {
	bytes int64 // at most; a larger tree is sandbox.ErrTooLarge
	files int   // at most; the rest is left out and counted
	links bool  // keep links that stay in the tree; else leave all out
	fresh bool  // leave alone what is there already
	skip  func(rel string) bool
	own   []string // names at the top that are the host's, whether they are there yet or not
}

// maxKeptName is of a path below the directory where a tree is kept, in bytes: a
// program can nest names until no path leads to them, and whoever walks over
// what was kept, to make it durable or to show it, has paths alone.
const maxKeptName = 1000

// kept counts what happened.
type kept struct {
	files int
	left  int    // entries that were left out for what they are
	over  int    // entries beyond the cap
	name  string // of the first that was left out
}

// tree copies src out of a sandbox to the host directory dir, which is made if
// missing; a file lands in it under its base name. A missing src is
// fs.ErrNotExist and makes nothing.
func (k keep) tree(ctx context.Context, sb sandbox.Trees, src image.Path, dir string) (kept, error) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := sb.Get(ctx, src, w, k.bytes)
		w.CloseWithError(err)
		done <- err
	}()
	got, err := k.unpack(tar.NewReader(r), dir)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // what follows the end mark
	}
	r.CloseWithError(errSeen) // before waiting for Get, which may wait for the reader
	if getErr := <-done; getErr != nil && (err == nil || errors.Is(err, getErr)) {
		return got, getErr
	}
	return got, err
}

func (k keep) unpack(tr *tar.Reader, dir string) (got kept, err error) {
	var root *os.Root
	defer func() {
		if root != nil {
			root.Close()
		}
	}()
	wrote := map[string]bool{} // what a second name may be given to: never what the host has there
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			if root == nil { // an empty directory
				err = os.MkdirAll(dir, 0o755)
				return got, err
			}
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if root == nil {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return got, err
			}
			if root, err = os.OpenRoot(dir); err != nil {
				return got, err
			}
		}
		name := path.Clean(h.Name)
		if name == "." {
			continue
		}
		if k.skip != nil && k.skip(name) {
			continue
		}
		if got.files >= k.files {
			got.over++
			continue
		}
		top, _, _ := strings.Cut(name, "/")
		ok := filepath.IsLocal(name) && len(name) <= maxKeptName && !slices.Contains(k.own, top)
		if ok && h.Typeflag == tar.TypeLink {
			ok = wrote[path.Clean(h.Linkname)]
		}
		if ok {
			ok, err = k.entry(root, tr, h, name)
		}
		if err != nil {
			return got, fmt.Errorf("keep %q: %w", name, err)
		}
		if ok {
			got.files++
			wrote[name] = wrote[name] || h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeLink
			continue
		}
		if got.left++; got.name == "" {
			got.name = name
		}
	}
}

// entry writes one entry; false means that it is of a kind that is left out.
func (k keep) entry(root *os.Root, tr *tar.Reader, h *tar.Header, name string) (bool, error) {
	old, err := root.Lstat(name)
	exists := err == nil
	if h.Typeflag == tar.TypeDir {
		if exists && old.IsDir() {
			return true, nil
		}
		if exists {
			return false, nil
		}
		return true, root.MkdirAll(name, 0o755)
	}
	if exists && (k.fresh || old.IsDir()) {
		return false, nil
	}
	if exists {
		if err := root.Remove(name); err != nil {
			return false, err
		}
	} else if strings.Contains(name, "/") {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return false, err
		}
	}
	switch h.Typeflag {
	case tar.TypeReg:
		mode := fs.FileMode(0o644)
		if h.Mode&0o111 != 0 {
			mode = 0o755
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return false, err
		}
		_, err = io.Copy(f, tr)
		return true, errors.Join(err, f.Close())
	case tar.TypeSymlink:
		if k.links && staysInside(name, h.Linkname) {
			return true, root.Symlink(h.Linkname, name)
		}
	case tar.TypeLink:
		if err := root.Link(path.Clean(h.Linkname), name); err == nil {
			return true, nil
		}
	}
	return false, nil
}

// staysInside reports whether a link at name leads below the tree's root
// whatever other links of that kind lie on its way: it is relative, climbs only
// at its beginning, and no higher than the root.
func staysInside(name, target string) bool {
	if target == "" || strings.HasPrefix(target, "/") {
		return false
	}
	depth := strings.Count(name, "/")
	climbing := true
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "..":
			if depth--; !climbing || depth < 0 {
				return false
			}
		case part != "" && part != ".":
			climbing = false
		}
	}
	return true
}

// note says what a copy left out; empty if nothing.
func (g kept) note(what string) string {
	switch {
	case g.over > 0:
		return fmt.Sprintf("%s: %d entries beyond the first %d were not kept", what, g.over, g.files)
	case g.left > 0:
		return fmt.Sprintf("%s: %d entries were not kept (links, pipes, names that are too long or taken), e.g. %q", what, g.left, clip(g.name))
	}
	return ""
}

var errSeen = errors.New("the host has seen enough")

// getFile reads one small regular file out of a sandbox. Anything else of that
// name, a link above all, is fs.ErrNotExist; a larger one is ErrTooLarge.
func getFile(ctx context.Context, sb sandbox.Trees, src image.Path, limit int64) ([]byte, error) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := sb.Get(ctx, src, w, limit)
		w.CloseWithError(err)
		done <- err
	}()
	b, err := firstFile(tar.NewReader(r), path.Base(string(src)), limit)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	r.CloseWithError(errSeen)
	if getErr := <-done; getErr != nil && (err == nil || errors.Is(err, getErr)) {
		return nil, getErr
	}
	return b, err
}

func firstFile(tr *tar.Reader, name string, limit int64) ([]byte, error) {
	h, err := tr.Next()
	if errors.Is(err, io.EOF) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	if h.Typeflag != tar.TypeReg || path.Clean(h.Name) != name {
		return nil, fs.ErrNotExist
	}
	b, ok, err := readCapped(tr, limit)
	if err == nil && !ok {
		err = sandbox.ErrTooLarge
	}
	return b, err
}
