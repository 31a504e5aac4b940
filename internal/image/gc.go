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
	"time"
)

// lease is one line of a lease file: appended whole, so that a torn line can
// only be the last one of a process that was killed.
type lease struct {
	Job    string    `json:"job"`
	Layers []LayerID `json:"layers"`
}

// Lease keeps layers from the collector until Release is called for the job
// directory or the directory is gone; one that is moved on its file system
// keeps them. Leases of one directory add up. A layer
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
		if !s.installed(id) {
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
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if !s.tie(job) || s.opt.Volatile {
		return nil
	}
	return syncDir(s.path(leasesDir))
}

// tie gives a lease a second name inside its job directory. As long as the
// file has both, the job exists, wherever it was moved to on its file system.
// Where the store lies on another one there is no such name, and the job's
// path alone counts. It reports whether there may be a new lease.
func (s *Store) tie(job string) bool {
	lease, tie := s.leasePath(job), s.tiePath(job)
	err := os.Link(lease, tie)
	if !errors.Is(err, fs.ErrExist) {
		return true
	}
	a, errA := os.Lstat(lease)
	b, errB := os.Lstat(tie)
	if errA != nil || errB != nil || os.SameFile(a, b) {
		return false
	}
	// Of an earlier lease, which is gone.
	_ = os.Remove(tie)
	_ = os.Link(lease, tie)
	return true
}

func (s *Store) tiePath(job string) string {
	sum := sha256.Sum256([]byte(string(s.root) + "\x00" + job))
	return filepath.Join(job, ".lease-"+hex.EncodeToString(sum[:6]))
}

func linkedElsewhere(f *os.File) (bool, error) {
	fi, err := f.Stat()
	if err != nil {
		return false, err
	}
	return nodeOf(fi).nlink > 1, nil
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
	_ = os.Remove(s.tiePath(job)) // it ties nothing any more
	return nil
}

func (s *Store) leasePath(job string) string {
	sum := sha256.Sum256([]byte(job))
	return s.path(leasesDir, hex.EncodeToString(sum[:16])+".ndjson")
}

// GCOptions shape GC.
type GCOptions struct {
	// Young spares the layers of build steps, and the pulls that were cut off,
	// that were made or used within that time. Zero means 10 minutes, negative
	// spares none. What an image, a job or a live process needs stays anyway.
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

const youngStep = 10 * time.Minute

// GC removes layers that no image, no lease, no live process and no young build
// step reaches, leases of job directories that are gone, cached build steps
// whose layer is gone, pulls that were cut off and not gone on with, and what
// killed processes left behind. Other processes may go on using the store.
func (s *Store) GC(ctx context.Context, o GCOptions) (Collected, error) {
	if o.Young == 0 {
		o.Young = youngStep
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
	if err := s.emptyTrash(ctx); err != nil {
		return c, fmt.Errorf("collect layers: %w", err)
	}
	return c, nil
}

// sweep moves what is unreachable into the trash, all under one lock.
func (s *Store) sweep(o GCOptions) (Collected, error) {
	var c Collected
	l, err := s.storeLock(exclusive)
	if err != nil {
		return c, err
	}
	defer l.unlock()
	live, dead, err := s.reachable(o.Young)
	if err != nil {
		return c, err
	}
	c.Leases = len(dead)
	if !o.DryRun {
		s.sweepTorn()
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
		if live[id] {
			continue
		}
		c.Layers++
		c.Freed = append(c.Freed, id)
		if m, err := s.manifestIn(s.path(layersDir, d.Name()), id); err == nil {
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
// that are gone. The caller has the store's lock, exclusively.
func (s *Store) reachable(young time.Duration) (live map[LayerID]bool, dead []string, err error) {
	if live, err = s.heldLayers(); err != nil {
		return nil, nil, err
	}
	images, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	for _, im := range images {
		for _, id := range im.Layers {
			live[id] = true
		}
	}
	leases, err := s.leases()
	if err != nil {
		return nil, nil, err
	}
	for _, l := range leases {
		if l.gone {
			dead = append(dead, l.path)
			continue
		}
		for _, id := range l.layers {
			live[id] = true
		}
	}
	for _, c := range s.cachedSteps() {
		if time.Since(c.used) < young {
			live[c.layer] = true
		}
	}
	return live, dead, nil
}

// jobLease is what one job directory needs.
type jobLease struct {
	path   string // of its file
	job    string
	layers []LayerID
	gone   bool // with its job directory
}

func (s *Store) leases() ([]jobLease, error) {
	files, err := os.ReadDir(s.path(leasesDir))
	if err != nil {
		return nil, err
	}
	var all []jobLease
	for _, f := range files {
		l := jobLease{path: s.path(leasesDir, f.Name())}
		if l.job, l.layers, l.gone, err = readLease(l.path); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func readLease(p string) (job string, ids []LayerID, gone bool, err error) {
	f, err := os.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, false, nil // released just now
	}
	if err != nil {
		return "", nil, false, err
	}
	defer f.Close()
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
		return "", nil, false, fmt.Errorf("lease %s: %w", p, err)
	}
	if job == "" {
		return "", nil, true, nil
	}
	if _, err := os.Lstat(job); errors.Is(err, fs.ErrNotExist) {
		moved, err := linkedElsewhere(f)
		return job, ids, !moved, err
	}
	return job, ids, false, nil
}
