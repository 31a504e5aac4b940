package image

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// storeLock is held shared while a layer is installed or leased and exclusively
// while the collector takes layers away, so that neither sees half of the
// other. It is never held for long.
func (s *Store) storeLock(mode lockMode) (*fileLock, error) {
	return lockFile(s.path("store"+lockSuffix), mode)
}

// adopt reports whether the layer is installed, and holds it if so.
func (s *Store) adopt(id LayerID) (bool, error) {
	l, err := s.storeLock(shared)
	if err != nil {
		return false, err
	}
	defer l.unlock()
	if !s.installed(id) {
		return false, nil
	}
	return true, s.hold(id)
}

// install moves a finished layer to its place and holds it. Where an equal one
// stands already, that one stays and the caller's remains in tmp.
func (s *Store) install(tmp string, id LayerID) error {
	if err := s.reach(tmp); err != nil {
		return err
	}
	l, err := s.storeLock(shared)
	if err != nil {
		return err
	}
	defer l.unlock()
	if err := s.hold(id); err != nil {
		return err
	}
	err = os.Rename(tmp, s.path(layersDir, id.hex()))
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	if err != nil || s.opt.Volatile {
		return err
	}
	return syncDir(s.path(layersDir))
}

// reach lets the owner of the layers reach one.
func (s *Store) reach(dir string) error {
	mode := fs.FileMode(0o700)
	if s.opt.Owner != nil {
		mode = 0o711
	}
	return os.Chmod(dir, mode)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
