package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Partial is a blob that is being fetched from a registry. What came so far
// stays in the store when the process ends, so that the next pull goes on
// where this one was cut off; nothing of it is trusted before Verify. It is
// for one goroutine, and one process at a time holds it.
type Partial struct {
	hex  string
	f    *os.File
	lock *fileLock
}

const (
	// partialWait is how often a pull looks whether another process, which
	// fetches the same blob, is done.
	partialWait = 200 * time.Millisecond
)

// Partial opens what the store has of a blob ("sha256:…"), which may be
// nothing. It waits while another process fetches the same one.
func (s *Store) Partial(ctx context.Context, digest string) (*Partial, error) {
	if !LayerID(digest).valid() {
		return nil, fmt.Errorf("fetch blob: %q is no SHA-256 digest", digest)
	}
	hex := LayerID(digest).hex()
	p := s.path(partialDir, hex)
	for {
		l, err := lockFile(p+lockSuffix, exclusiveNow)
		if errors.Is(err, errLocked) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(partialWait):
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("fetch blob %s: %w", digest, err)
		}
		if !l.current() {
			l.unlock()
			continue
		}
		f, err := os.OpenFile(p, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			l.unlock()
			return nil, fmt.Errorf("fetch blob %s: %w", digest, err)
		}
		return &Partial{hex: hex, f: f, lock: l}, nil
	}
}

// Size is how many bytes are here, in bytes.
func (p *Partial) Size() (int64, error) {
	fi, err := p.f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// Write appends.
func (p *Partial) Write(b []byte) (int, error) {
	if _, err := p.f.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	return p.f.Write(b)
}

// Reset forgets what came.
func (p *Partial) Reset() error { return p.f.Truncate(0) }

// Verify reads everything and reports whether it is the blob. If it is, other
// processes may have it too from now on, and it changes no more.
func (p *Partial) Verify(ctx context.Context) (bool, error) {
	size, err := p.Size()
	if err != nil {
		return false, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, &capReader{ctx: ctx, r: io.NewSectionReader(p.f, 0, size), left: size + 1}); err != nil {
		return false, err
	}
	if hex.EncodeToString(h.Sum(nil)) != p.hex {
		return false, nil
	}
	// Nobody may hold one blob while waiting for another: two pulls of images
	// that share layers would wait for each other.
	p.lock.unlock()
	p.lock = nil
	return true, nil
}

// Open reads a verified blob from its beginning, also when another process has
// used it up meanwhile.
func (p *Partial) Open() (io.ReadCloser, error) {
	size, err := p.Size()
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(p.f, 0, size)), nil
}

// Remove ends the fetch and forgets what came: the blob is used, or useless.
// One that another process holds is left to it.
func (p *Partial) Remove() error {
	defer p.f.Close()
	if p.lock == nil {
		l, err := lockFile(p.f.Name()+lockSuffix, exclusiveNow)
		if errors.Is(err, errLocked) {
			return nil
		}
		if err != nil {
			return err
		}
		if !l.current() {
			l.unlock()
			return nil
		}
		p.lock = l
	}
	defer p.lock.removeAndUnlock()
	if err := os.Remove(p.f.Name()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close ends the fetch and keeps what came.
func (p *Partial) Close() error {
	err := p.f.Close()
	if p.lock != nil {
		p.lock.unlock()
	}
	return err
}

// PartialSize is how much of a blob is here from a fetch that was cut off.
func (s *Store) PartialSize(digest string) int64 {
	if !LayerID(digest).valid() {
		return 0
	}
	fi, err := os.Lstat(s.path(partialDir, LayerID(digest).hex()))
	if err != nil {
		return 0
	}
	return fi.Size()
}

// sweepPartial removes fetches that nobody has gone on with for a while, and
// returns the bytes they held. Errors leave them to the next time.
func (s *Store) sweepPartial(age time.Duration) int64 {
	all, err := os.ReadDir(s.path(partialDir))
	if err != nil {
		return 0
	}
	var freed int64
	for _, d := range all {
		p := s.path(partialDir, d.Name())
		fi, err := d.Info()
		if err != nil || time.Since(fi.ModTime()) < age {
			continue
		}
		if blob, ok := strings.CutSuffix(p, lockSuffix); ok {
			if _, err := os.Lstat(blob); !errors.Is(err, fs.ErrNotExist) {
				continue // goes with its blob
			}
			p = blob
		}
		l, err := lockFile(p+lockSuffix, exclusiveNow)
		if err != nil {
			continue
		}
		if l.current() && os.Remove(p) == nil {
			freed += fi.Size()
		}
		l.removeAndUnlock()
	}
	return freed
}
