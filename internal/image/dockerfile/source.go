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
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/internal/image"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// source is the build context. Links in it are followed only where COPY names
// one, and never out of it.
type source struct {
	root   *os.Root
	ignore *patternmatcher.PatternMatcher // nil: nothing is ignored
}

// item is one name of the context that a COPY takes.
type item struct {
	from, to string // in the context; below the destination, "" for itself
	entry    image.Entry
}

// maxItems is how many names one COPY may take.
const maxItems = 1_000_000

func newSource(root *os.Root, dockerfile string) (*source, error) {
	s := &source{root: root}
	for _, name := range []string{dockerfile + ".dockerignore", ".dockerignore"} {
		b, err := readSmall(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		patterns, err := ignorefile.ReadAll(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if s.ignore, err = patternmatcher.New(patterns); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
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

// find gives the names that a source of COPY stands for: itself, or what its
// wildcards match.
func (s *source) find(pattern string) ([]string, error) {
	p := strings.TrimPrefix(path.Clean("/"+pattern), "/")
	if p == "" {
		return []string{"."}, nil
	}
	if !strings.ContainsAny(p, `*?[\`) {
		if s.ignored(p) {
			return nil, fmt.Errorf("%q is left out of the build context by .dockerignore", pattern)
		}
		return []string{p}, nil
	}
	if _, err := path.Match(p, ""); err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	found, err := fs.Glob(s.root.FS(), p)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	// Wildcards that match nothing are no error to BuildKit either.
	return slices.DeleteFunc(found, s.ignored), nil
}

func (s *source) ignored(p string) bool {
	if s.ignore == nil {
		return false
	}
	m, err := s.ignore.MatchesOrParentMatches(p)
	return err == nil && m
}

const maxLinks = 40

// resolve follows links of the context as if its root were "/".
func (s *source) resolve(p string) (string, error) {
	rest := strings.Split(p, "/")
	at := "."
	for links := 0; len(rest) > 0; {
		n := rest[0]
		rest = rest[1:]
		if n == "" || n == "." {
			continue
		}
		if n == ".." {
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, n)
		fi, err := s.root.Lstat(next)
		if err != nil {
			return "", fmt.Errorf("%q is not in the build context: %w", p, errors.Unwrap(err))
		}
		if fi.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%q: too many levels of symbolic links", p)
		}
		to, err := s.root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(to) {
			at = "."
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, nil
}

// collect lists what lies at a name of the context, contents of files digested.
func (s *source) collect(ctx context.Context, name string) ([]item, error) {
	at, err := s.resolve(name)
	if err != nil {
		return nil, err
	}
	if at != "." && s.ignored(at) {
		return nil, fmt.Errorf("%q is left out of the build context by .dockerignore", at)
	}
	var items []item
	err = s.walk(ctx, at, "", &items)
	return items, err
}

func (s *source) walk(ctx context.Context, from, to string, items *[]item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(*items) >= maxItems {
		return fmt.Errorf("more than %d files: %w", maxItems, image.ErrCap)
	}
	fi, err := s.root.Lstat(from)
	if err != nil {
		return err
	}
	ignored := from != "." && s.ignored(from)
	if ignored && !(fi.IsDir() && s.ignore.Exclusions()) {
		return nil
	}
	it := item{from: from, to: to, entry: image.Entry{Mode: mode(fi.Mode()), ModTime: fi.ModTime()}}
	switch fi.Mode().Type() {
	case fs.ModeDir:
		it.entry.Type = image.TypeDir
		return s.directory(ctx, it, ignored, items)
	case fs.ModeSymlink:
		it.entry.Type, it.entry.Mode = image.TypeSymlink, 0
		if it.entry.Link, err = s.root.Readlink(from); err != nil {
			return err
		}
	case 0:
		it.entry.Type, it.entry.Size = image.TypeFile, fi.Size()
		if it.entry.Digest, err = s.digest(ctx, from, fi); err != nil {
			return err
		}
	case fs.ModeSocket:
		return nil // as Docker does
	default:
		return fmt.Errorf("%s in the build context is a %s, which cannot be copied", from, fi.Mode().Type())
	}
	*items = append(*items, it)
	return nil
}

// directory lists a directory. One that is ignored is there only for what
// .dockerignore takes back in.
func (s *source) directory(ctx context.Context, it item, ignored bool, items *[]item) error {
	d, err := s.root.Open(it.from)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	slices.Sort(names)
	at := len(*items)
	if !ignored {
		*items = append(*items, it)
	}
	for _, n := range names {
		if err := s.walk(ctx, path.Join(it.from, n), path.Join(it.to, n), items); err != nil {
			return err
		}
	}
	if ignored && len(*items) > at {
		*items = slices.Insert(*items, at, it)
	}
	return nil
}

func (s *source) digest(ctx context.Context, name string, fi fs.FileInfo) (string, error) {
	f, err := openRegular(s.root, name, fi)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, ctxReader{ctx, io.LimitReader(f, fi.Size()+1)}); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// open opens a file that collect has seen.
func (s *source) open(name string) (io.ReadCloser, error) {
	fi, err := s.root.Lstat(name)
	if err != nil {
		return nil, err
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

// inline makes an item of a here-document.
func inline(name string) item {
	return item{entry: image.Entry{Path: name, Type: image.TypeFile, Mode: 0o644, ModTime: time.Time{}}}
}
