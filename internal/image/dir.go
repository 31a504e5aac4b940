package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// DirOptions shape FromDir.
type DirOptions struct {
	// Squash makes everything root's. Without it, what belongs to the ordinary
	// user who imports becomes root's and other owners stay: a tree that was
	// unpacked without privileges has lost its owners anyway.
	Squash bool
}

// FromDir makes a layer of a directory's content. Links are content. What lies
// on another file system (a mounted /proc, say) is an empty directory.
func (s *Store) FromDir(ctx context.Context, dir HostPath, o DirOptions) (LayerID, error) {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return "", fmt.Errorf("read tree: %w", err)
	}
	defer root.Close()
	w, err := s.NewLayer(ctx)
	if err != nil {
		return "", fmt.Errorf("read tree: %w", err)
	}
	defer w.Abort()
	d := dirReader{ctx: ctx, w: w, o: o, links: map[inode]string{}}
	fi, err := root.Lstat(".")
	if err == nil {
		d.dev = nodeOf(fi).dev
		err = d.directory(root, ".", fi)
	}
	if err != nil {
		return "", fmt.Errorf("read tree %s: %w", dir, err)
	}
	return w.Commit()
}

type dirReader struct {
	ctx   context.Context // of the one FromDir that made this
	w     *LayerWriter
	o     DirOptions
	dev   uint64
	links map[inode]string // first name of a file with several
}

type inode struct{ dev, ino uint64 }

func (d *dirReader) directory(at *os.Root, p string, fi fs.FileInfo) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	e, err := d.entry(p, fi)
	if err != nil {
		return err
	}
	f, err := at.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if e.Xattrs, err = xattrs(f); err != nil {
		return err
	}
	if err := d.w.Add(e, nil); err != nil {
		return err
	}
	if nodeOf(fi).dev != d.dev {
		return nil
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := d.name(at, n, join(p, n)); err != nil {
			return err
		}
	}
	return nil
}

func (d *dirReader) name(at *os.Root, n, p string) error {
	fi, err := at.Lstat(n)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		sub, err := at.OpenRoot(n)
		if err != nil {
			return err
		}
		defer sub.Close()
		return d.directory(sub, p, fi)
	}
	e, err := d.entry(p, fi)
	if err != nil {
		return err
	}
	if id := nodeOf(fi); id.nlink > 1 {
		if first, ok := d.links[id.inode]; ok {
			e.Hardlink = first
			return d.w.Add(e, nil)
		}
		d.links[id.inode] = p
	}
	if e.Type == TypeSymlink {
		if e.Link, err = at.Readlink(n); err != nil {
			return err
		}
	}
	if e.Type != TypeFile {
		return d.w.Add(e, nil)
	}
	f, err := openRegular(at, n, fi)
	if err != nil {
		return err
	}
	defer f.Close()
	if e.Xattrs, err = xattrs(f); err != nil {
		return err
	}
	return d.w.Add(e, f)
}

// openRegular opens what was seen as a regular file, without waiting on a pipe
// that took its place.
func openRegular(at *os.Root, n string, seen fs.FileInfo) (*os.File, error) {
	f, err := at.OpenFile(n, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, seen) {
		err = fmt.Errorf("%s changed while it was read", f.Name())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d *dirReader) entry(p string, fi fs.FileInfo) (Entry, error) {
	m := fi.Mode()
	n := nodeOf(fi)
	e := Entry{Path: p, Mode: modeOf(m), UID: n.uid, GID: n.gid, ModTime: fi.ModTime()}
	if d.o.Squash {
		e.UID, e.GID = 0, 0
	}
	if me := os.Geteuid(); me != 0 && e.UID == me {
		e.UID = 0
	}
	if me := os.Getegid(); me != 0 && e.GID == me {
		e.GID = 0
	}
	switch m.Type() {
	case 0:
		e.Type = TypeFile
	case fs.ModeDir:
		e.Type = TypeDir
	case fs.ModeSymlink:
		e.Type, e.Mode = TypeSymlink, 0
	case fs.ModeNamedPipe:
		e.Type = TypeFIFO
	case fs.ModeSocket:
		e.Type = TypeSocket
	case fs.ModeDevice | fs.ModeCharDevice:
		e.Type = TypeChar
	case fs.ModeDevice:
		e.Type = TypeBlock
	default:
		return e, errors.New(p + ": neither file, directory, link nor device")
	}
	if e.Type == TypeChar || e.Type == TypeBlock {
		e.Major, e.Minor = n.major, n.minor
	}
	return e, nil
}

// modeOf gives the twelve bits of a mode as Unix counts them.
func modeOf(m fs.FileMode) uint32 {
	u := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		u |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		u |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		u |= 0o1000
	}
	return u
}

type statNode struct {
	inode
	nlink        uint64
	uid, gid     int
	major, minor uint32
}
