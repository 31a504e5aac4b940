package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"
)

// nothing stands for a step that changed nothing.
const nothing = "nothing"

// Cached returns the layer that a build step with this key made before, the
// empty id if it changed nothing. The layer is held, and the step young again.
func (s *Store) Cached(key string) (LayerID, bool) {
	p := s.cachePath(key)
	b, err := os.ReadFile(p)
	id := LayerID(strings.TrimSpace(string(b)))
	if id == nothing {
		return "", true
	}
	if err != nil || !id.valid() {
		return "", false
	}
	ok, err := s.adopt(id)
	if ok && err == nil {
		now := time.Now()
		_ = os.Chtimes(p, now, now) // an old step is forgotten earlier, no more
	}
	return id, ok && err == nil
}

// Cache remembers that a build step with this key makes that layer; the empty
// id says that it changes nothing. The entry goes when the collector takes the
// layer.
func (s *Store) Cache(key string, id LayerID) error {
	if id == "" {
		id = nothing
	}
	if id != nothing && !id.valid() {
		return fmt.Errorf("cache build step: %q is no layer id", id)
	}
	l, err := s.storeLock(shared) // sweepTorn must not meet a live writer
	if err != nil {
		return fmt.Errorf("cache build step: %w", err)
	}
	defer l.unlock()
	// Unsynced: a step that a power failure tore is done again.
	return s.replace(s.cachePath(key), []byte(id+"\n"), true)
}

func (s *Store) cachePath(key string) string {
	sum := sha256.Sum256([]byte(key))
	return s.path(cacheDir, hex.EncodeToString(sum[:]))
}

// cachedStep is a build step that is remembered.
type cachedStep struct {
	path  string
	layer LayerID // nothing, or damaged, included
	used  time.Time
}

// cachedSteps lists them; what cannot be read is left out.
func (s *Store) cachedSteps() []cachedStep {
	all, err := os.ReadDir(s.path(cacheDir))
	if err != nil {
		return nil
	}
	var steps []cachedStep
	for _, f := range all {
		if strings.HasPrefix(f.Name(), ".") {
			continue // being written
		}
		p := s.path(cacheDir, f.Name())
		fi, err := f.Info()
		if err != nil {
			continue
		}
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		steps = append(steps, cachedStep{p, LayerID(strings.TrimSpace(string(b))), fi.ModTime()})
	}
	return steps
}

// sweepCache forgets steps whose layer is gone. Errors leave them to the next
// time: Cached looks for the layer itself.
func (s *Store) sweepCache() {
	for _, c := range s.cachedSteps() {
		if c.layer != nothing && !s.installed(c.layer) {
			_ = os.Remove(c.path)
		}
	}
}
