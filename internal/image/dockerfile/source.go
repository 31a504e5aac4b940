package dockerfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"assay/internal/image"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"golang.org/x/sys/unix"
)

// source is a build context: a directory of this machine, which may be hostile.
// Links in it are never followed by the kernel, and never lead out of it.
type source struct {
	root   *os.Root
	name   string
	ignore *patternmatcher.PatternMatcher // nil: nothing is ignored

	mu   sync.Mutex
	kept map[string]bool // ignored directories: whether something in them is taken back in
}

// newSource reads the context's .dockerignore, or the one that belongs to the
// Dockerfile, if there is one.
func newSource(root *os.Root, name string, own *os.Root, dockerfile string) (*source, error) {
	s := &source{root: root, name: name, kept: map[string]bool{}}
	for _, f := range []struct {
		in   *os.Root
		name string
	}{{own, dockerfile + ".dockerignore"}, {root, ".dockerignore"}} {
		if f.in == nil {
			continue
		}
		b, err := readSmall(f.in, f.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		patterns, err := ignorefile.ReadAll(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if s.ignore, err = patternmatcher.New(patterns); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		return s, nil
	}
	return s, nil
}

// readSmall reads a regular file of the context, not through a link.
func readSmall(root *os.Root, name string) ([]byte, error) {
	fi, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxDockerfile {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", name, maxDockerfile)
	}
	f, err := openRegular(root, name, fi)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxDockerfile+1))
}

func openRegular(root *os.Root, name string, seen fs.FileInfo) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, seen) {
		err = fmt.Errorf("%s changed while it was read", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (s *source) called() string { return s.name }

var errIgnored = fmt.Errorf("left out by .dockerignore: %w", fs.ErrNotExist)

// there reports whether .dockerignore leaves a name in. An ignored directory
// is there for what is taken back in.
func (s *source) there(p string, dir bool) bool {
	if s.ignore == nil || p == "." {
		return true
	}
	if m, err := s.ignore.MatchesOrParentMatches(p); err != nil || !m {
		return err == nil
	}
	if !dir || !s.ignore.Exclusions() {
		return false
	}
	s.mu.Lock()
	keep, known := s.kept[p]
	s.mu.Unlock()
	if !known {
		for _, n := range s.list(p) {
			if fi, err := s.root.Lstat(p + "/" + n); err == nil && s.there(p+"/"+n, fi.IsDir()) {
				keep = true
				break
			}
		}
		s.mu.Lock()
		s.kept[p] = keep
		s.mu.Unlock()
	}
	return keep
}

func (s *source) list(p string) []string {
	d, err := s.root.Open(p)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // an error comes again where the content is wanted
	return names
}

func (s *source) lstat(p string) (item, error) {
	fi, err := s.root.Lstat(p)
	if err != nil {
		var inner *fs.PathError
		if errors.As(err, &inner) {
			err = inner.Err // the caller names the path
		}
		return item{}, err
	}
	if !s.there(p, fi.IsDir()) {
		return item{}, errIgnored
	}
	it := item{entry: image.Entry{Mode: mode(fi.Mode()), ModTime: fi.ModTime()}}
	switch fi.Mode().Type() {
	case fs.ModeDir:
		it.entry.Type = image.TypeDir
	case fs.ModeSymlink:
		it.entry.Type, it.entry.Mode = image.TypeSymlink, 0
		it.entry.Link, err = s.root.Readlink(p)
		return it, err
	case 0:
		it.entry.Type, it.entry.Size = image.TypeFile, fi.Size()
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
			it.file = strconv.FormatUint(uint64(st.Dev), 10) + ":" + strconv.FormatUint(st.Ino, 10)
		}
	case fs.ModeSocket:
		it.entry.Type = image.TypeSocket
		return it, nil
	default:
		return it, fmt.Errorf("%s in %s is a %s, which cannot be copied", p, s.name, fi.Mode().Type())
	}
	it.entry.Xattrs, err = s.xattrs(p, fi)
	return it, err
}

// xattrs reads the attributes that an image may hold.
func (s *source) xattrs(p string, fi fs.FileInfo) (map[string]string, error) {
	if fi.Size() == 0 && !fi.IsDir() && fi.Mode().Perm()&0o400 == 0 {
		return nil, nil
	}
	f, err := openRegular(s.root, p, fi)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out map[string]string
	buf := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(f.Fd()), buf)
	if err != nil {
		return nil, nil // the file system has none
	}
	val := make([]byte, 64<<10)
	for k := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if k != "security.capability" && !strings.HasPrefix(k, "user.") || strings.HasPrefix(k, "user.overlay.") {
			continue
		}
		if m, err := unix.Fgetxattr(int(f.Fd()), k, val); err == nil {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = string(val[:m])
		}
	}
	return out, nil
}

func (s *source) names(p string) ([]string, error) {
	d, err := s.root.Open(p)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(all)
	if s.ignore == nil {
		return all, nil
	}
	return slices.DeleteFunc(all, func(n string) bool {
		q := n
		if p != "." {
			q = p + "/" + n
		}
		fi, err := s.root.Lstat(q)
		return err == nil && !s.there(q, fi.IsDir())
	}), nil
}

func (s *source) digest(ctx context.Context, it item) (string, error) {
	f, err := s.open(it.from)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, ctxReader{ctx, io.LimitReader(f, it.entry.Size+1)}); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func (s *source) open(name string) (io.ReadCloser, error) {
	fi, err := s.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s changed while it was read", name)
	}
	return openRegular(s.root, name, fi)
}

func mode(m fs.FileMode) uint32 {
	u := uint32(m.Perm())
	for bit, v := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			u |= v
		}
	}
	return u
}

type ctxReader struct {
	ctx context.Context // of the one call that made this reader
	r   io.Reader
}

func (c ctxReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
