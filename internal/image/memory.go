package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/remove"
)

// inMemory begins the names of directories in memory. Each is locked by its
// maker as long as it lives: what holds a secret is swept when nobody does.
const inMemory = "assay-"

// memoryDirs are where a file system in memory may be that this user can write.
func memoryDirs() []string {
	return []string{"/dev/shm", fmt.Sprintf("/run/user/%d", os.Getuid())}
}

// PrivateInMemory makes one that never lies on a disk, for secrets.
func (s *Store) PrivateInMemory() (*Private, error) {
	for _, d := range memoryDirs() {
		var st unix.Statfs_t
		if unix.Statfs(d, &st) != nil || int64(st.Type) != tmpfsMagic {
			continue
		}
		if p, err := s.privateIn(d); err == nil {
			return p, nil
		}
	}
	return nil, errors.New("a secret must not touch the disk, and neither /dev/shm nor /run/user is a file system in memory that can be written")
}

func (s *Store) privateIn(memory string) (*Private, error) {
	for {
		dir, err := os.MkdirTemp(memory, inMemory)
		if err != nil {
			return nil, err
		}
		l, err := lockDir(dir)
		if err == nil && l.current() {
			p := &Private{s: s, path: dir, lock: l, own: true}
			if err := s.give(dir); err != nil {
				p.Close()
				return nil, err
			}
			return p, nil
		}
		if l != nil {
			l.unlock() // a sweeper came in between
			continue
		}
		if !errors.Is(err, errLocked) && !errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(dir)
			return nil, err
		}
	}
}

// lockDir takes the lock of a directory itself.
func lockDir(dir string) (*fileLock, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return takeDead(f)
}

// sweepMemory removes directories in memory whose maker is gone. Everybody can
// write /dev/shm: only what belongs to this user, or to its sandboxes' root, is
// looked at. Errors leave them to the next time.
func (s *Store) sweepMemory() {
	for _, memory := range memoryDirs() {
		all, err := os.ReadDir(memory)
		if err != nil {
			continue
		}
		for _, d := range all {
			if d.IsDir() && strings.HasPrefix(d.Name(), inMemory) {
				s.sweepPrivate(filepath.Join(memory, d.Name()))
			}
		}
	}
}

func (s *Store) sweepPrivate(dir string) {
	l, err := lockDir(dir)
	if err != nil {
		return
	}
	defer l.unlock()
	fi, err := l.f.Stat()
	if err != nil || !l.current() {
		return
	}
	st := fi.Sys().(*syscall.Stat_t)
	mine := int(st.Uid) == os.Geteuid() || s.opt.Owner != nil && int(st.Uid) == s.opt.Owner.UID
	if mine {
		_ = remove.Tree(dir)
	}
}
