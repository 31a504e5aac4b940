package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/remove"
)

// Private is a directory for one build step, which the sandboxes' root owns.
// It goes with Close; what a killed process leaves, on disk or in memory, goes
// with the next Open of a store by the same user.
type Private struct {
	s    *Store
	path string
	lock *fileLock // a file beside it on disk, the directory itself in memory
	own  bool      // lock is the directory
}

// Private makes a private directory on the store's disk.
func (s *Store) Private() (*Private, error) {
	t, err := s.scratch()
	if err != nil {
		return nil, err
	}
	p := &Private{s: s, path: t.path, lock: t.lock}
	if err := os.Mkdir(p.path, 0o700); err != nil {
		p.Close()
		return nil, err
	}
	return p, s.give(p.path)
}

// give hands a name to the sandboxes' root.
func (s *Store) give(p string) error {
	if s.opt.Owner == nil {
		return nil
	}
	return os.Lchown(p, s.opt.Owner.UID, s.opt.Owner.GID)
}

// Path is where the directory, or a name in it, lies.
func (p *Private) Path(name string) HostPath { return HostPath(filepath.Join(p.path, name)) }

// Give hands something that was made in the directory to the sandboxes' root.
func (p *Private) Give(name string) error { return p.s.give(filepath.Join(p.path, name)) }

// Write makes a file of the directory.
func (p *Private) Write(name string, mode fs.FileMode, b []byte) error {
	f := filepath.Join(p.path, name)
	if err := os.WriteFile(f, b, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(f, mode); err != nil {
		return err
	}
	return p.s.give(f)
}

// Fill copies what a layer holds on disk, to be changed.
func (p *Private) Fill(ctx context.Context, name string, id LayerID) error {
	src, err := os.OpenRoot(string(p.s.Dir(id)))
	if err != nil {
		return err
	}
	defer src.Close()
	if err := os.Mkdir(filepath.Join(p.path, name), 0o755); err != nil {
		return err
	}
	dst, err := os.OpenRoot(filepath.Join(p.path, name))
	if err != nil {
		return err
	}
	defer dst.Close()
	if err := p.Give(name); err != nil {
		return err
	}
	return fs.WalkDir(src.FS(), ".", func(q string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || q == "." {
			return err
		}
		if err := copyName(src, dst, q); err != nil {
			return fmt.Errorf("%q: %w", q, err)
		}
		return p.s.give(filepath.Join(p.path, name, q))
	})
}

func copyName(src, dst *os.Root, q string) error {
	fi, err := src.Lstat(q)
	if err != nil {
		return err
	}
	switch {
	case fi.IsDir():
		return dst.Mkdir(q, fi.Mode().Perm()|0o700)
	case fi.Mode()&fs.ModeSymlink != 0:
		to, err := src.Readlink(q)
		if err != nil {
			return err
		}
		return dst.Symlink(to, q)
	case !fi.Mode().IsRegular():
		return nil // a whiteout of the layer
	}
	in, err := src.Open(q)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := dst.OpenFile(q, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(fi.Mode().Perm()), out.Close())
}

// Close removes the directory. It may be repeated.
func (p *Private) Close() error {
	err := remove.Tree(p.path)
	switch {
	case p.lock == nil:
	case p.own:
		p.lock.unlock()
	default:
		p.lock.removeAndUnlock()
	}
	p.lock = nil
	return err
}

// Sharing says what a second user of a cache mount gets at the same time.
type Sharing string

const (
	SharingShared  Sharing = "shared"  // the same directory
	SharingPrivate Sharing = "private" // another one
	SharingLocked  Sharing = "locked"  // the same, when the first is done
)

const (
	mountsDir  = "mounts"
	maxPrivate = 64 // directories of one private cache mount
	staleMount = 7 * 24 * time.Hour
)

// CacheMount gives the directory of the store that belongs to an id, which the
// sandboxes' root owns, until release is called. One that nobody used for a
// week goes with GC.
func (s *Store) CacheMount(ctx context.Context, id string, how Sharing, mode fs.FileMode) (dir HostPath, release func(), err error) {
	top := s.path(mountsDir)
	if err := os.MkdirAll(top, 0o700); err != nil {
		return "", nil, err
	}
	if s.opt.Owner != nil {
		if err := openUp(top, 0o711); err != nil {
			return "", nil, err
		}
	}
	sum := sha256.Sum256([]byte(id))
	name := hex.EncodeToString(sum[:16])
	for n := 0; ; n++ {
		p := filepath.Join(top, name)
		want := exclusiveNow
		switch how {
		case SharingPrivate:
			p += fmt.Sprintf("-%d", n)
		case SharingShared:
			want = shared
		}
		l, err := lockFile(p+lockSuffix, want)
		if errors.Is(err, errLocked) && how == SharingPrivate && n < maxPrivate {
			continue
		}
		if errors.Is(err, errLocked) {
			select {
			case <-ctx.Done():
				return "", nil, context.Cause(ctx)
			case <-time.After(50 * time.Millisecond): // there is no waiting for a file lock that can be cancelled
			}
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if err := s.cacheDir(p, mode); err != nil {
			l.unlock()
			return "", nil, err
		}
		return HostPath(p), l.unlock, nil
	}
}

func (s *Store) cacheDir(p string, mode fs.FileMode) error {
	err := os.Mkdir(p, mode)
	if errors.Is(err, fs.ErrExist) {
		now := time.Now()
		return os.Chtimes(p, now, now)
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(p, mode); err != nil {
		return err
	}
	return s.give(p)
}

// sweepMounts removes cache mounts that nobody used for a while and nobody
// uses now. Errors leave them to the next time.
func (s *Store) sweepMounts() {
	all, err := os.ReadDir(s.path(mountsDir))
	if err != nil {
		return
	}
	for _, d := range all {
		fi, err := d.Info()
		if err != nil || !d.IsDir() || time.Since(fi.ModTime()) < staleMount || strings.HasSuffix(d.Name(), lockSuffix) {
			continue
		}
		p := s.path(mountsDir, d.Name())
		l, err := lockFile(p+lockSuffix, exclusiveNow)
		if err != nil {
			continue
		}
		_ = os.Rename(p, s.path(trashDir, random()))
		l.removeAndUnlock()
	}
}
