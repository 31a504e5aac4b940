package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"assay/internal/remove"
)

// stalePartial is how long a pull that was cut off waits for the next one.
const stalePartial = 7 * 24 * time.Hour

// tidy removes what processes that were killed left behind, and never what a
// live one is making. It lists a few short directories, so that opening a store
// costs nothing where nothing is left. Errors leave things to the next time.
func (s *Store) tidy() {
	s.sweepTmp()
	s.sweepHolds()
	s.sweepPartial(stalePartial)
	s.sweepMemory()
	if left, err := os.ReadDir(s.path(trashDir)); err != nil || len(left) == 0 {
		return
	}
	l, err := lockFile(s.path("trash"+lockSuffix), exclusiveNow)
	if err != nil {
		return // a live process is at it
	}
	defer l.unlock()
	_ = s.clearTrash(context.Background())
}

// emptyTrash removes what is under destruction, beside others that do.
func (s *Store) emptyTrash(ctx context.Context) error {
	if l, err := lockFile(s.path("trash"+lockSuffix), exclusiveNow); err == nil {
		defer l.unlock()
	}
	return s.clearTrash(ctx)
}

func (s *Store) clearTrash(ctx context.Context) error {
	trash, err := os.ReadDir(s.path(trashDir))
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range trash {
		if err := ctx.Err(); err != nil {
			return err
		}
		errs = append(errs, remove.Tree(s.path(trashDir, d.Name())))
	}
	return errors.Join(errs...)
}

// sweepTmp removes unfinished layers and scratch files whose maker is gone.
func (s *Store) sweepTmp() {
	all, err := os.ReadDir(s.path(tmpDir))
	if err != nil {
		return
	}
	for _, d := range all {
		p := s.path(tmpDir, strings.TrimSuffix(d.Name(), lockSuffix))
		l, err := lockDead(p + lockSuffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		_ = os.Rename(p, s.path(trashDir, random()))
		if l != nil {
			l.removeAndUnlock()
		}
	}
}

// sweepHolds removes the holds of processes that are gone.
func (s *Store) sweepHolds() {
	all, err := os.ReadDir(s.path(holdsDir))
	if err != nil {
		return
	}
	for _, d := range all {
		if l, err := lockDead(s.path(holdsDir, d.Name())); err == nil {
			l.removeAndUnlock()
		}
	}
}

// sweepTorn removes what killed processes left of images and build steps that
// they wrote. The caller has the store's lock, exclusively.
func (s *Store) sweepTorn() {
	for _, dir := range []string{imagesDir, cacheDir} {
		all, err := os.ReadDir(s.path(dir))
		if err != nil {
			continue
		}
		for _, d := range all {
			if strings.HasPrefix(d.Name(), ".") {
				_ = os.Remove(s.path(dir, d.Name()))
			}
		}
	}
}
