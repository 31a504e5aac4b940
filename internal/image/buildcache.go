package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strings"
)

// Cached returns the layer that a build step with this key made before. The
// layer is young again, so that the collector leaves it to the caller.
func (s *Store) Cached(key string) (LayerID, bool) {
	b, err := os.ReadFile(s.cachePath(key))
	id := LayerID(strings.TrimSpace(string(b)))
	if err != nil || !id.valid() {
		return "", false
	}
	ok, err := s.adopt(id)
	return id, ok && err == nil
}

// Cache remembers that a build step with this key makes that layer. The entry
// goes when the collector takes the layer.
func (s *Store) Cache(key string, id LayerID) error {
	if !id.valid() {
		return errors.New("cache build step: no layer id")
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
		if err == nil && !s.Has(LayerID(strings.TrimSpace(string(b)))) {
			_ = os.Remove(p)
		}
	}
}
