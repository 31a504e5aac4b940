package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// tree reads below one directory without ever leaving it: os.Root keeps paths
// inside, and every part of a path is looked at first, so that a link is
// refused even where it stays inside.
type tree struct{ root *os.Root }

var errLink = errors.New("it is a link, which is not followed")

func openTree(dir string) (tree, error) {
	root, err := os.OpenRoot(dir)
	return tree{root}, err
}

func (t tree) close() error { return t.root.Close() }

// stat looks at a slash-separated path, part by part.
func (t tree) stat(name string) (fs.FileInfo, error) {
	if name == "" {
		return nil, fs.ErrNotExist // no file is called that
	}
	var info fs.FileInfo
	for end := 0; end < len(name); {
		if i := strings.IndexByte(name[end+1:], '/'); i >= 0 {
			end += 1 + i
		} else {
			end = len(name)
		}
		var err error
		if info, err = t.root.Lstat(name[:end]); err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s: %w", name[:end], errLink)
		}
	}
	return info, nil
}

// read reads a regular file of at most max bytes.
func (t tree) read(name string, max int64) ([]byte, error) {
	if _, err := t.stat(name); err != nil {
		return nil, err
	}
	f, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f, max)
}

// file is name when it is a regular file, else empty; why tells what else it
// is, empty for one that is not there.
func (t tree) file(name string) (found, why string) {
	info, err := t.stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return "", ""
	case err != nil:
		return "", err.Error()
	case !info.Mode().IsRegular():
		return "", fmt.Sprintf("%s is not a regular file", path.Base(name))
	}
	return name, ""
}

// list names the entries of a directory.
func (t tree) list(name string) ([]fs.DirEntry, error) {
	if name != "." {
		if _, err := t.stat(name); err != nil {
			return nil, err
		}
	}
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.ReadDir(maxEntries + 1)
	if len(all) > maxEntries {
		return all[:maxEntries], fmt.Errorf("more than %d entries", maxEntries)
	}
	if err != nil && len(all) == 0 && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return all, nil
}

// maxEntries bounds what is read of one directory.
const maxEntries = 200_000
