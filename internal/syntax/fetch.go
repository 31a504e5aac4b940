package syntax

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

const (
	maxArchive = 32 << 20 // bytes of a package; the largest pinned one has 3.2 MB
	maxFile    = 16 << 20 // bytes of a grammar; the largest has 3.4 MB
)

// ErrNoGrammar is the cause where a grammar is not in the cache and cannot be
// fetched.
var ErrNoGrammar = errors.New("the grammar is not on this machine")

// load is the artefact's content out of the cache, or fetched into it. What is
// in the cache is checked as what comes from a registry is: whoever can write
// there can at worst have it fetched again.
func (c Config) load(ctx context.Context, a artefact) ([]byte, error) {
	kept := filepath.Join(c.Cache, a.key())
	if b, err := os.ReadFile(kept); err == nil && sum(b) == a.sum {
		return b, nil
	}
	if c.Client == nil {
		return nil, fmt.Errorf("%s %s is not in %s: %w; `assay repo grammars --fetch` gets it from an npm registry", a.name, a.version, c.Cache, ErrNoGrammar)
	}
	b, err := c.fetch(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("fetch %s %s: %w", a.name, a.version, err)
	}
	if err := keep(kept, b); err != nil {
		return nil, fmt.Errorf("keep %s: %w", a.key(), err)
	}
	return b, nil
}

// fetch gets the package's archive, checks its integrity before anything reads
// it, and takes the one file out.
func (c Config) fetch(ctx context.Context, a artefact) ([]byte, error) {
	registry := strings.TrimSuffix(c.Registry, "/")
	if registry == "" {
		registry = "https://registry.npmjs.org"
	}
	url := fmt.Sprintf("%s/%s/-/%s-%s.tgz", registry, a.name, a.name, a.version)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoGrammar, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answers %s", ErrNoGrammar, req.URL.Redacted(), resp.Status)
	}
	archive, err := io.ReadAll(io.LimitReader(resp.Body, maxArchive+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoGrammar, err)
	}
	if len(archive) > maxArchive {
		return nil, fmt.Errorf("the archive has more than %d bytes", maxArchive)
	}
	digest := sha512.Sum512(archive)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(digest[:]); got != a.integrity {
		return nil, fmt.Errorf("%s is not the package that was pinned: its integrity is %s, not %s", req.URL.Redacted(), got, a.integrity)
	}
	b, err := take(archive, a.file)
	if err != nil {
		return nil, err
	}
	if got := sum(b); got != a.sum {
		return nil, fmt.Errorf("%s has the SHA-256 %s, not %s", a.file, got, a.sum)
	}
	return b, nil
}

// take is one file of a package's archive.
func take(archive []byte, name string) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil, fmt.Errorf("the archive has no %s", name)
		}
		if err != nil {
			return nil, err
		}
		if h.Name != name {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(t, maxFile+1))
		if err == nil && len(b) > maxFile {
			err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
		}
		return b, err
	}
}

// keep puts a file into the cache whole or not at all.
func keep(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, b, 0o644)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
