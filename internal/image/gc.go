package image

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lease is one line of a lease file: appended whole, so that a torn line can
// only be the last one of a process that was killed.
type lease struct {
	Job    string    `json:"job"`
	Layers []LayerID `json:"layers"`
}

// Lease keeps layers from the collector until Release is called for the job
// directory or the directory is gone. Leases of one directory add up. A layer
// that the store does not hold is ErrNoLayer.
func (s *Store) Lease(jobDir HostPath, ids ...LayerID) error {
	if len(ids) == 0 {
		return nil
	}
	job, err := filepath.Abs(string(jobDir))
	if err != nil {
		return fmt.Errorf("lease layers: %w", err)
	}
	l, err := s.storeLock(shared)
	if err != nil {
		return fmt.Errorf("lease layers for %s: %w", job, err)
	}
	defer l.unlock()
	for _, id := range ids {
		if !s.Has(id) {
			return fmt.Errorf("lease layer %s for %s: %w", id.Short(), job, ErrNoLayer)
		}
	}
	b, err := json.Marshal(lease{job, ids})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.leasePath(job), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("lease layers for %s: %w", job, err)
	}
	// The newline in front ends what a killed process may have torn.
	_, err = f.Write(append([]byte("\n"), append(b, '\n')...))
	if err == nil && !s.opt.Volatile {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Release ends every lease of a job directory. One that has none is fine.
func (s *Store) Release(jobDir HostPath) error {
	job, err := filepath.Abs(string(jobDir))
	if err != nil {
		return fmt.Errorf("release layers: %w", err)
	}
	if err := os.Remove(s.leasePath(job)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release layers of %s: %w", job, err)
	}
	return nil
}

func (s *Store) leasePath(job string) string {
	sum := sha256.Sum256([]byte(job))
	return s.path(leasesDir, hex.EncodeToString(sum[:16])+".ndjson")
}

// GCOptions shape GC.
type GCOptions struct {
	// Young spares layers made or used within that time, which nobody may have
	// named yet. Zero means 10 minutes, negative none.
	Young time.Duration
	// DryRun only counts.
	DryRun bool
}

// Collected says what GC took away.
type Collected struct {
	Layers, Leases int
	Bytes          int64 // of the layers' files; shared content counts each time
	Freed          []LayerID
}

const (
	youngLayer = 10 * time.Minute
	staleTmp   = time.Hour // of a lock file without a directory
)

// GC removes layers that no image and no lease reaches, leases of job
// directories that are gone, cached build steps whose layer is gone, pulls that
// were cut off and not gone on with, and what killed processes left behind. Other processes may go on using the store.
func (s *Store) GC(ctx context.Context, o GCOptions) (Collected, error) {
	if o.Young == 0 {
		o.Young = youngLayer
	}
	c, err := s.sweep(o)
	if err != nil {
		return c, fmt.Errorf("collect layers: %w", err)
	}
	if o.DryRun {
		return c, nil
	}
	s.sweepTmp()
	s.sweepCache()
	c.Bytes += s.sweepPartial(max(0, o.Young))
	s.sweepMounts()
	trash, err := os.ReadDir(s.path(trashDir))
	if err != nil {
		return c, fmt.Errorf("collect layers: %w", err)
	}
	var errs []error
	for _, d := range trash {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		errs = append(errs, removeTree(s.path(trashDir, d.Name())))
	}
	return c, errors.Join(errs...)
}

// sweep moves what is unreachable into the trash, all under one lock.
func (s *Store) sweep(o GCOptions) (Collected, error) {
	var c Collected
	l, err := s.storeLock(exclusive)
	if err != nil {
		return c, err
	}
	defer l.unlock()
	live, dead, err := s.reachable()
	if err != nil {
		return c, err
	}
	c.Leases = len(dead)
	if !o.DryRun {
		for _, p := range dead {
			if err := os.Remove(p); err != nil {
				return c, err
			}
		}
	}
	dirs, err := os.ReadDir(s.path(layersDir))
	if err != nil {
		return c, err
	}
	for _, d := range dirs {
		id := LayerID("sha256:" + d.Name())
		fi, err := d.Info()
		if err != nil {
			return c, err
		}
		if live[id] || time.Since(fi.ModTime()) < o.Young {
			continue
		}
		c.Layers++
		c.Freed = append(c.Freed, id)
		if m, err := s.Manifest(id); err == nil {
			for _, e := range m.Entries {
				c.Bytes += e.Size
			}
		}
		if o.DryRun {
			continue
		}
		if err := os.Rename(s.path(layersDir, d.Name()), s.path(trashDir, random())); err != nil {
			return c, err
		}
	}
	return c, nil
}

// reachable returns the layers in use, and the lease files of job directories
// that are gone.
func (s *Store) reachable() (live map[LayerID]bool, dead []string, err error) {
	live = map[LayerID]bool{}
	images, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	for _, im := range images {
		for _, id := range im.Layers {
			live[id] = true
		}
	}
	files, err := os.ReadDir(s.path(leasesDir))
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		p := s.path(leasesDir, f.Name())
		ids, gone, err := readLease(p)
		if err != nil {
			return nil, nil, err
		}
		if gone {
			dead = append(dead, p)
		}
		for _, id := range ids {
			live[id] = true
		}
	}
	return live, dead, nil
}

func readLease(p string) (ids []LayerID, gone bool, err error) {
	f, err := os.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil // released just now
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	job := ""
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l lease
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue // empty, or torn by a process that was killed before Lease returned
		}
		job = l.Job
		ids = append(ids, l.Layers...)
	}
	if err := lines.Err(); err != nil {
		return nil, false, fmt.Errorf("lease %s: %w", p, err)
	}
	if job == "" {
		return nil, true, nil
	}
	if _, err := os.Lstat(job); errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	return ids, false, nil
}

// sweepTmp removes unfinished layers whose writer is gone. Errors leave them
// to the next time.
func (s *Store) sweepTmp() {
	all, err := os.ReadDir(s.path(tmpDir))
	if err != nil {
		return
	}
	for _, d := range all {
		p := s.path(tmpDir, d.Name())
		if lock, ok := strings.CutSuffix(p, lockSuffix); ok {
			fi, err := d.Info()
			_, gone := os.Lstat(lock)
			if err == nil && errors.Is(gone, fs.ErrNotExist) && time.Since(fi.ModTime()) > staleTmp {
				_ = os.Remove(p)
			}
			continue
		}
		l, err := lockFile(p+lockSuffix, exclusiveNow)
		if err != nil {
			continue
		}
		_ = os.Rename(p, s.path(trashDir, random()))
		l.removeAndUnlock()
	}
}
