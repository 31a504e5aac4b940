package inside

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox/docker/wire"
)

const maxDepth = 256 // directories in a tree that is read

// get writes a part of the tree as a tar stream.
func get(src string, max int64, out io.Writer) error {
	dir, base := path.Dir(path.Clean("/"+src)), path.Base(path.Clean("/"+src))
	if base == "/" {
		base = "."
	}
	fd, err := openPlain(dir)
	var st unix.Stat_t
	if err == nil {
		defer unix.Close(fd)
		err = unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG: // links in a ring lead to nothing
		return &fault{wire.FaultNotExist, "no such file or directory"}
	}
	if err == nil && isKernelTree(fd) {
		return &fault{wire.FaultNotExist, "it leads into a file system of the kernel"}
	}
	if err != nil {
		return err
	}
	p := &packer{w: tar.NewWriter(out), max: max, head: max == wire.HeadOnly, links: map[[2]uint64]string{}}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && !p.head {
		err = p.dir(fd, base, "", 0)
	} else {
		err = p.entry(fd, base, base, 0)
	}
	if err != nil {
		return err
	}
	return p.w.Close()
}

// openPlain opens a directory by a way that no magic link of /proc is on: one
// to a root or a working directory leads to what no name leads to.
func openPlain(dir string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err == unix.ENOSYS || err == unix.EPERM { // an old kernel, or an engine that does not know the call
		return unix.Open(dir, flags, 0)
	}
	return fd, err
}

type packer struct {
	w     *tar.Writer
	max   int64 // 0: none
	head  bool  // an entry is written without what it holds
	bytes int64
	links map[[2]uint64]string // the first name of a file that has several
}

// dir writes a directory's content in the order of its names.
func (p *packer) dir(parent int, base, rel string, depth int) error {
	if depth > maxDepth {
		return &fault{wire.FaultTooLarge, fmt.Sprintf("%.200q: nested deeper than %d", rel, maxDepth)}
	}
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	if isKernelTree(fd) {
		return nil // no part of a tree
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := p.entry(fd, n, path.Join(rel, n), depth); err != nil && !errors.Is(err, unix.ENOENT) {
			return err // ENOENT: it went meanwhile
		}
	}
	return nil
}

func (p *packer) entry(dir int, base, rel string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	h := &tar.Header{Name: rel, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Sec, st.Mtim.Nsec), Format: tar.FormatPAX}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, rel+"/"
		if err := p.w.WriteHeader(h); err != nil || p.head {
			return err
		}
		return p.dir(dir, base, rel, depth+1)
	case unix.S_IFLNK:
		to, err := readlinkat(dir, base)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, to, 0o777
		return p.w.WriteHeader(h)
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
		return p.w.WriteHeader(h)
	case unix.S_IFREG:
		if !p.head {
			return p.file(dir, base, h)
		}
		h.Typeflag = tar.TypeReg
		return p.w.WriteHeader(h)
	}
	if !p.head {
		return nil // devices and sockets are no data
	}
	h.Typeflag = tar.TypeChar
	return p.w.WriteHeader(h)
}

func (p *packer) file(dir int, base string, h *tar.Header) error {
	f, st, err := openRegular(dir, base)
	if err != nil {
		return err
	}
	defer f.Close()
	if st.Nlink > 1 {
		key := [2]uint64{uint64(st.Dev), st.Ino}
		if first, ok := p.links[key]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return p.w.WriteHeader(h)
		}
		p.links[key] = h.Name
	}
	h.Typeflag, h.Size = tar.TypeReg, st.Size
	if p.max > 0 && p.bytes+h.Size > p.max {
		return &fault{wire.FaultTooLarge, fmt.Sprintf("%.200q: more than %d bytes", h.Name, p.max)}
	}
	p.bytes += h.Size
	if err := p.w.WriteHeader(h); err != nil {
		return err
	}
	// Exactly the announced size, however the file changes meanwhile.
	n, err := io.Copy(p.w, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size {
		_, err = io.CopyN(p.w, zeros{}, h.Size-n)
	}
	return err
}

// openRegular opens a file that is one now, whatever stood there before.
func openRegular(dir int, base string) (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.ENXIO {
		return nil, nil, unix.ENOENT
	}
	if err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.ENOENT
	}
	if err != nil {
		unix.Close(fd)
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), base), &st, nil
}

func readlinkat(dir int, base string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, base, buf)
	if err == unix.EINVAL {
		return "", unix.ENOENT // no link any more
	}
	return string(buf[:max(n, 0)]), err
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
