package image

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// hold is a process's claim on layers that nothing in the store may name yet:
// a file of holds/ with one id a line, locked as long as the process lives. A
// line is there before its layer is, so that the collector never sees the one
// without the other. No sync: after a power failure nobody lives to hold.
type hold struct {
	mu   sync.Mutex
	lock *fileLock // nil before the first layer
	ids  map[LayerID]bool
}

// Hold keeps layers from the collector until Close or the end of the process,
// however it ends. What the store's own methods make or find (by name, in the
// cache) is held already. One that the store does not hold is ErrNoLayer.
func (s *Store) Hold(ids ...LayerID) error {
	for _, id := range ids {
		if err := s.holdInstalled(id); err != nil && (!errors.Is(err, ErrNoLayer) || s.temps.dir(id) == "") {
			return err
		}
	}
	return nil
}

func (s *Store) holdInstalled(id LayerID) error {
	if s.held.has(id) {
		return nil
	}
	ok, err := s.adopt(id)
	if err == nil && !ok {
		err = ErrNoLayer
	}
	if err != nil {
		return fmt.Errorf("hold layer %s: %w", id.Short(), err)
	}
	return nil
}

// Close lets go of every layer that is held. The store can be used on: the
// next layer begins a new hold.
func (s *Store) Close() error {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	if s.held.lock != nil {
		s.held.lock.removeAndUnlock()
	}
	s.held.lock, s.held.ids = nil, nil
	return nil
}

func (h *hold) has(id LayerID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ids[id]
}

// hold adds ids to the process's hold. The caller has the store's lock, shared,
// until the layers are there.
func (s *Store) hold(ids ...LayerID) error {
	h := &s.held
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []byte
	for _, id := range ids {
		if !h.ids[id] {
			lines = append(append(lines, id...), '\n')
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if h.lock == nil {
		l, err := lockNew(s.path(holdsDir, random()))
		if err != nil {
			return err
		}
		h.lock, h.ids = l, map[LayerID]bool{}
	}
	// The newline in front ends what a full disk may have torn.
	if _, err := h.lock.f.Write(append([]byte("\n"), lines...)); err != nil {
		return err
	}
	for _, id := range ids {
		h.ids[id] = true
	}
	return nil
}

// heldLayers are those that live processes hold. The caller has the store's
// lock, exclusively, so that no process is about to begin a line.
func (s *Store) heldLayers() (map[LayerID]bool, error) {
	files, err := os.ReadDir(s.path(holdsDir))
	if err != nil {
		return nil, err
	}
	held := map[LayerID]bool{}
	for _, f := range files {
		p := s.path(holdsDir, f.Name())
		l, err := lockDead(p)
		if err == nil {
			l.removeAndUnlock()
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue // its process is gone
		}
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("hold %s: %w", p, err)
		}
		if err := readHold(p, held); err != nil {
			return nil, fmt.Errorf("hold %s: %w", p, err)
		}
	}
	return held, nil
}

func readHold(p string, into map[LayerID]bool) error {
	f, err := os.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // closed just now
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if id := LayerID(strings.TrimSpace(lines.Text())); id.valid() {
			into[id] = true
		}
	}
	return lines.Err()
}
