package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// storeLock is held shared while a layer is installed or leased and exclusively
// while the collector takes layers away, so that neither sees half of the
// other. It is never held for long.
func (s *Store) storeLock(mode lockMode) (*fileLock, error) {
	return lockFile(s.path("store"+lockSuffix), mode)
}

// adopt reports whether the layer exists, and makes it young again if so: the
// collector spares young layers, since nobody may have leased them yet.
func (s *Store) adopt(id LayerID) (bool, error) {
	l, err := s.storeLock(shared)
	if err != nil {
		return false, err
	}
	defer l.unlock()
	return s.touch(id)
}

func (s *Store) touch(id LayerID) (bool, error) {
	if !s.Has(id) {
		return false, nil
	}
	now := time.Now()
	return true, os.Chtimes(s.path(layersDir, id.hex()), now, now)
}

// install moves a finished layer to its place. Where an equal one stands
// already, that one stays and the caller's remains in tmp.
func (s *Store) install(tmp string, id LayerID) error {
	mode := fs.FileMode(0o700)
	if s.opt.Owner != nil {
		mode = 0o711
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return err
	}
	l, err := s.storeLock(shared)
	if err != nil {
		return err
	}
	defer l.unlock()
	err = os.Rename(tmp, s.path(layersDir, id.hex()))
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		_, err = s.touch(id)
		return err
	}
	if err != nil || s.opt.Volatile {
		return err
	}
	return syncDir(s.path(layersDir))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// removeTree removes a tree that may hold directories without write
// permission. It follows no links.
func removeTree(p string) error {
	err := os.RemoveAll(p)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// Errors of the walk come again as errors of the removal.
	_ = filepath.WalkDir(p, func(q string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(q, 0o700)
		}
		return nil
	})
	return os.RemoveAll(p)
}
