package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// disk does the writes whose order is a promise. Its hooks are for tests.
type disk struct {
	boundary func(name string)
	fsync    func(*os.File) error
}

func (d disk) at(name string) {
	if d.boundary != nil {
		d.boundary(name)
	}
}

// replaceFile writes name durably: a temporary file beside it, fsync, rename,
// fsync of the directory. The boundaries are named after what.
func (d disk) replaceFile(name, what string, data []byte) error {
	dir, base := filepath.Split(name)
	temp := filepath.Join(dir, tempPrefix+base)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(d.fill(f, what, data), f.Close()); err != nil {
		os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, name); err != nil {
		os.Remove(temp)
		return err
	}
	d.at(what + ".renamed")
	if err := d.syncDir(dir); err != nil {
		return err
	}
	d.at(what + ".dir.synced")
	return nil
}

// tempPrefix begins the names of files that were not yet renamed; Open removes
// those that a crash left.
const tempPrefix = ".new-"

func (d disk) fill(f *os.File, what string, data []byte) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	d.at(what + ".temp.written")
	if err := d.fsync(f); err != nil {
		return err
	}
	d.at(what + ".temp.synced")
	return nil
}

func (d disk) syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return d.fsync(f)
}

// syncTree makes everything below dir durable. Four files at a time: the file
// system joins their commits. Links and special files are not data; files that
// this user may not read are left to the kernel.
func (d disk) syncTree(dir string) error {
	var g errgroup.Group
	g.SetLimit(4)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				return fs.SkipDir
			}
			return err
		}
		if e.IsDir() || e.Type().IsRegular() {
			g.Go(func() error { return d.syncOne(path) })
		}
		return nil
	})
	if err := errors.Join(err, g.Wait()); err != nil {
		return fmt.Errorf("sync %q: %w", dir, err)
	}
	return nil
}

func (d disk) syncOne(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return d.fsync(f)
}
