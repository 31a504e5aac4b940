package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// nothing stands for a step that changed nothing.
const nothing = "nothing"

// Cached returns the layer that a build step with this key made before, the
// empty id if it changed nothing. The layer is young again, so that the
// collector leaves it to the caller.
func (s *Store) Cached(key string) (LayerID, bool) {
	b, err := os.ReadFile(s.cachePath(key))
	id := LayerID(strings.TrimSpace(string(b)))
	if id == nothing {
		return "", true
	}
	if err != nil || !id.valid() {
		return "", false
	}
	ok, err := s.adopt(id)
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
	return s.replace(s.cachePath(key), []byte(id+"\n"))
}

func (s *Store) cachePath(key string) string {
	sum := sha256.Sum256([]byte(key))
	return s.path(cacheDir, hex.EncodeToString(sum[:]))
}

// sweepCache forgets steps whose layer is gone. Errors leave them to the next
// time: Cached looks for the layer itself.
func (s *Store) sweepCache() {
	all, err := os.ReadDir(s.path(cacheDir))
	if err != nil {
		return
	}
	for _, f := range all {
		p := s.path(cacheDir, f.Name())
		b, err := os.ReadFile(p)
		id := LayerID(strings.TrimSpace(string(b)))
		if err == nil && id != nothing && !s.Has(id) {
			_ = os.Remove(p)
		}
	}
}
