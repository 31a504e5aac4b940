package inside

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox/docker/wire"
)

const overlayMagic = 0x794c7630

// scan tells of every name whose inode changed since a time. Only the kernel
// sets that time, and a program inside cannot set the clock. On an overlay a
// directory with an older time holds nothing that changed, since a change
// brings all directories above it into the upper layer; elsewhere all are read.
func scan(q wire.Request, tell func(wire.Entry) error) error {
	var fs unix.Statfs_t
	var root unix.Stat_t
	if err := errors.Join(unix.Statfs("/", &fs), unix.Lstat("/", &root)); err != nil {
		return err
	}
	s := &scanner{since: q.Since, overlay: fs.Type == overlayMagic, dev: uint64(root.Dev), tell: tell, skip: map[string]bool{}}
	for _, p := range q.Skip {
		s.skip[string(p)] = true
	}
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return s.dir(fd, ".", ".", &root, 0)
}

type scanner struct {
	since   int64
	overlay bool
	dev     uint64
	skip    map[string]bool
	tell    func(wire.Entry) error
}

func (s *scanner) changed(st *unix.Stat_t) bool { return unix.TimespecToNsec(st.Ctim) >= s.since }

func (s *scanner) dir(parent int, base, rel string, st *unix.Stat_t, depth int) error {
	if depth > maxDepth {
		return &fault{wire.FaultTooLarge, fmt.Sprintf("%.200q: nested deeper than %d", rel, maxDepth)}
	}
	changed := s.changed(st)
	if s.overlay && !changed {
		return nil
	}
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	if changed {
		e := entryOf(rel, "dir", st)
		// An overlay gives a merged directory one link: one with more was made
		// anew, and hides what the image has there.
		e.New = s.overlay && st.Nlink > 1
		e.Xattrs = userXattrs(fd)
		e.Names = make([][]byte, 0, len(names))
		for _, n := range names {
			e.Names = append(e.Names, []byte(n))
		}
		if err := s.tell(e); err != nil {
			return err
		}
	}
	for _, n := range names {
		p := path.Join(rel, n)
		if s.skip[p] {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		switch {
		case isDir && uint64(st.Dev) != s.dev: // something is mounted there
		case isDir:
			err = s.dir(fd, n, p, &st, depth+1)
		case s.changed(&st):
			err = s.leaf(fd, n, p, &st)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func entryOf(rel, kind string, st *unix.Stat_t) wire.Entry {
	return wire.Entry{Path: []byte(rel), Kind: kind, Mode: st.Mode & 0o7777, UID: int(st.Uid), GID: int(st.Gid), Time: unix.TimespecToNsec(st.Mtim)}
}

func (s *scanner) leaf(dir int, base, rel string, st *unix.Stat_t) error {
	e := entryOf(rel, "", st)
	if st.Nlink > 1 {
		e.Inode = [2]uint64{uint64(st.Dev), st.Ino}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to, err := readlinkat(dir, base)
		if err != nil {
			return err
		}
		e.Kind, e.Link = "symlink", []byte(to)
	case unix.S_IFIFO:
		e.Kind = "fifo"
	case unix.S_IFREG:
		f, _, err := openRegular(dir, base)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		if e.Size, err = io.Copy(sum, f); err != nil {
			return err
		}
		e.Kind, e.Digest, e.Xattrs = "file", "sha256:"+hex.EncodeToString(sum.Sum(nil)), userXattrs(int(f.Fd()))
	default:
		return nil // a socket of a dead process is nothing, a device no data
	}
	return s.tell(e)
}

const maxXattrs = 64 << 10

// userXattrs are what a program can set and a layer can hold.
func userXattrs(fd int) map[string][]byte {
	buf := make([]byte, maxXattrs)
	n, err := unix.Flistxattr(fd, buf)
	if err != nil {
		return nil
	}
	var out map[string][]byte
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		v := make([]byte, maxXattrs)
		if n, err := unix.Fgetxattr(fd, name, v); err == nil {
			if out == nil {
				out = map[string][]byte{}
			}
			out[name] = v[:n]
		}
	}
	return out
}

// fetch writes the content of files, named on in and each ended by a zero
// byte, in that order.
func fetch(in io.Reader, out io.Writer) error {
	paths := bufio.NewReaderSize(in, 8<<10)
	w := tar.NewWriter(out)
	root, err := os.OpenRoot("/")
	if err != nil {
		return err
	}
	defer root.Close()
	for {
		p, err := paths.ReadString(0)
		if err == io.EOF && p == "" {
			return w.Close()
		}
		if err != nil {
			return err
		}
		p = strings.TrimSuffix(p, "\x00")
		f, err := root.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		fi, err := f.Stat()
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: p, Typeflag: tar.TypeReg, Size: fi.Size(), Mode: 0o600, Format: tar.FormatPAX})
		}
		if err == nil {
			_, err = io.CopyN(w, f, fi.Size())
		}
		f.Close()
		if err != nil {
			return err
		}
	}
}
