package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"assay/internal/remove"
)

// Temporary makes layers for one use, such as one grading: only this process
// sees them, nothing can name or lease them, and they go with Close. They lie
// in tmp/ under their writers' locks, so that those of a killed process go with
// the next Open; no sync is spent on them. Its methods may be called
// concurrently.
type Temporary struct {
	s    *Store
	own  bool // see TemporaryOwn
	mu   sync.Mutex
	uses []LayerID
}

// Temporary begins a set of temporary layers.
func (s *Store) Temporary() *Temporary { return &Temporary{s: s} }

// TemporaryOwn begins a set whose layers are never shared with equal ones, in
// the store or of another set: each is made when it is asked for, so that its
// files' inodes and times tell nothing but that. Their ids are drawn, and name
// no content.
func (s *Store) TemporaryOwn() *Temporary { return &Temporary{s: s, own: true} }

// NewLayer is the store's, for a temporary layer.
func (t *Temporary) NewLayer(ctx context.Context, below ...LayerID) (*LayerWriter, error) {
	w, err := t.s.NewLayer(ctx, below...)
	if err != nil {
		return nil, err
	}
	w.temp = t
	return w, nil
}

// Filter is the store's, for a temporary layer.
func (t *Temporary) Filter(ctx context.Context, id LayerID, f func(Entry) (Entry, bool)) (LayerID, error) {
	w, err := t.NewLayer(ctx)
	if err != nil {
		return "", fmt.Errorf("filter: %w", err)
	}
	return w.filter(ctx, id, f)
}

// FromTar is the store's, for a temporary layer.
func (t *Temporary) FromTar(ctx context.Context, r io.Reader, o TarOptions) (LayerID, error) {
	w, err := t.NewLayer(ctx, o.Below...)
	if err != nil {
		return "", err
	}
	return w.fromTar(ctx, r, o)
}

// Close removes the layers that no other Temporary of the process uses. No
// sandbox may stand on them any more. It may be repeated.
func (t *Temporary) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, id := range t.uses {
		errs = append(errs, t.s.temps.drop(id))
	}
	t.uses = nil
	return errors.Join(errs...)
}

// take uses a layer that is there already.
func (t *Temporary) take(id LayerID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.uses, id) {
		return true
	}
	if !t.s.temps.take(id) {
		return false
	}
	t.uses = append(t.uses, id)
	return true
}

// keep takes the finished tree of a writer over, or an equal one that came
// first; then the writer's goes with its Abort.
func (t *Temporary) keep(w *LayerWriter, id LayerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.s.temps.put(id, w.tmp, w.lock) {
		w.release()
	}
	t.uses = append(t.uses, id)
}

// tempLayers are the temporary layers of a process, counted by their users.
type tempLayers struct {
	mu sync.Mutex
	m  map[LayerID]*tempLayer
}

type tempLayer struct {
	dir  string
	lock *fileLock
	uses int
}

// dir is where a temporary layer lies; empty if there is none.
func (c *tempLayers) dir(id LayerID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.m[id]; l != nil {
		return l.dir
	}
	return ""
}

func (c *tempLayers) take(id LayerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.m[id]
	if l != nil {
		l.uses++
	}
	return l != nil
}

// put reports whether the tree was taken; else an equal one is used.
func (c *tempLayers) put(id LayerID, dir string, lock *fileLock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.m[id]; l != nil {
		l.uses++
		return false
	}
	if c.m == nil {
		c.m = map[LayerID]*tempLayer{}
	}
	c.m[id] = &tempLayer{dir: dir, lock: lock, uses: 1}
	return true
}

func (c *tempLayers) drop(id LayerID) error {
	c.mu.Lock()
	l := c.m[id]
	last := false
	if l != nil {
		l.uses--
		if last = l.uses == 0; last {
			delete(c.m, id)
		}
	}
	c.mu.Unlock()
	if !last {
		return nil
	}
	defer l.lock.removeAndUnlock()
	return remove.Tree(l.dir)
}
