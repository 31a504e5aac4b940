package ns

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
)

// maxDepth is of directories in a tree that is read; a program can nest
// deeper than any path is long.
const maxDepth = 256

// get writes a part of the tree as a tar stream.
func (k *keeper) get(q request, pipe *os.File) error {
	b, leave, err := k.enter(q.Sandbox, pipe)
	if err != nil {
		return err
	}
	defer leave()
	q.Real = b.real
	err = k.getFrom(b.root, q, pipe)
	if leadsNowhere(err) {
		err = os.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", q.Path, err)
	}
	return nil
}

// leadsNowhere reports whether there is nothing at a path: links on its way
// that go in circles, to names that no file can have, or into the kernel are
// the tree's, and no fault of whoever asks.
func leadsNowhere(err error) bool {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return true
	}
	return errors.Is(err, errKernelTree)
}

func (k *keeper) getFrom(root int, q request, pipe io.Writer) error {
	rel := inTree(q.Path)
	if rel == "" {
		rel = "."
	}
	parent, err := k.openTreeDir(root, path.Dir(rel))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	head := q.Max == sandbox.HeadOnly
	if k.without(sandbox.DefCopyCaps) {
		q.Max = 0
	}
	out := bufio.NewWriterSize(pipe, streamBuffer)
	p := &packer{w: tar.NewWriter(out), max: q.Max, head: head, real: q.Real, k: k, links: map[inode]string{}, buf: make([]byte, 128<<10)}
	base := path.Base(rel)
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && !p.head {
		err = p.dir(parent, base, "", 0)
	} else {
		err = p.entry(parent, base, base, 0)
	}
	if err == nil {
		err = p.w.Close()
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// headBytes is about what one entry's headers take; headsFree of them come
// beside the bytes that a caller allows for content.
const (
	headBytes = 1 << 10
	headsFree = 1 << 20
)

type inode struct{ dev, ino uint64 }

type packer struct {
	k     *keeper
	w     *tar.Writer
	max   int64 // 0: none
	head  bool  // an entry is written without what it holds
	bytes int64
	real  bool             // owners are told
	heads int64            // what the names come to
	links map[inode]string // the first name of a file that has several
	buf   []byte
}

// dir writes the content of a directory in the order of its names.
func (p *packer) dir(parent int, base, rel string, depth int) error {
	if depth > maxDepth && !p.k.without(sandbox.DefCopyCaps) {
		return fmt.Errorf("%.200q: nested deeper than %d: %w", rel, maxDepth, sandbox.ErrTooLarge)
	}
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|p.k.noFollow()|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	if err := p.k.refuseKernelTrees(fd); err != nil {
		if rel == "" {
			return err
		}
		return nil // /proc and its like are no part of a tree
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		err := p.entry(fd, n, path.Join(rel, n), depth)
		// It went meanwhile, or belongs to a user of the host: the sandbox's own root owns all the rest.
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) {
			return err
		}
	}
	return nil
}

func (p *packer) entry(dir int, base, rel string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	// Names cost, too: what has no content must not flood who asked for little.
	if p.heads += headBytes; p.max > 0 && p.heads > p.max+headsFree {
		return fmt.Errorf("%.200q: too many names for a cap of %d bytes: %w", rel, p.max, sandbox.ErrTooLarge)
	}
	h := &tar.Header{Name: rel, Mode: int64(st.Mode & 0o7777), ModTime: time.Unix(st.Mtim.Sec, st.Mtim.Nsec), Format: tar.FormatPAX}
	if p.real {
		h.Uid, h.Gid = int(st.Uid), int(st.Gid)
	}
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
		h.Typeflag, h.Linkname = tar.TypeSymlink, to
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
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|p.k.noFollow()|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.ENXIO {
		return unix.ENOENT // something else stands there since
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.ENOENT
	}
	if st.Nlink > 1 {
		key := inode{uint64(st.Dev), st.Ino}
		if first, ok := p.links[key]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return p.w.WriteHeader(h)
		}
		p.links[key] = h.Name
	}
	h.Typeflag, h.Size = tar.TypeReg, st.Size
	if p.max > 0 && p.bytes+h.Size > p.max {
		return fmt.Errorf("%.200q: more than %d bytes: %w", h.Name, p.max, sandbox.ErrTooLarge)
	}
	p.bytes += h.Size
	if err := p.w.WriteHeader(h); err != nil {
		return err
	}
	// Exactly the announced size, however the file changes meanwhile.
	var content io.Reader = io.LimitReader(fdReader(fd), h.Size)
	if p.k.without(sandbox.DefCopyCaps) {
		content = fdReader(fd)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{p.w}, content, p.buf)
	if err == nil && n < h.Size {
		_, err = io.CopyN(p.w, zeros{}, h.Size-n)
	}
	return err
}

func readlinkat(dir int, base string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, base, buf)
	if err == unix.EINVAL {
		return "", unix.ENOENT // no link any more
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// fdReader reads a descriptor without owning it.
type fdReader int

func (f fdReader) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(f), b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
