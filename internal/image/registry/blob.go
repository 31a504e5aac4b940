package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"assay/internal/image"
)

// ErrCorrupt: a registry sent bytes that are not what their digest names.
var ErrCorrupt = errors.New("content is damaged")

// fetch completes a partial blob, from wherever it stands, and verifies it.
// What does not verify is thrown away: once to try from the start if an
// earlier attempt's bytes may be to blame, then for good.
func (e *endpoint) fetch(ctx context.Context, c *Client, p *image.Partial, d v1.Descriptor, m *meter) error {
	for fresh := false; ; fresh = true {
		resumed, err := e.transfer(ctx, c, p, d, m)
		if err != nil {
			return fmt.Errorf("blob %s: %w", d.Digest, err)
		}
		ok, err := p.Verify(ctx)
		if err != nil {
			return fmt.Errorf("blob %s: %w", d.Digest, err)
		}
		if ok {
			return nil
		}
		if err := p.Reset(); err != nil {
			return err
		}
		m.forget(d.Size)
		if fresh || !resumed {
			return fmt.Errorf("blob %s: %w: what the registry sent has another digest", d.Digest, ErrCorrupt)
		}
	}
}

// transfer appends until the blob has its size, however often it is cut off,
// as long as each attempt brings something. resumed reports whether the
// beginning was there before.
func (e *endpoint) transfer(ctx context.Context, c *Client, p *image.Partial, d v1.Descriptor, m *meter) (resumed bool, err error) {
	have, err := p.Size()
	if err != nil {
		return false, err
	}
	if have > d.Size {
		if have, err = 0, p.Reset(); err != nil {
			return false, err
		}
	}
	resumed = have > 0
	m.found(have)
	// Only what was never here before counts as getting on: a registry that
	// lets the beginning come again and again would keep us for ever.
	best, pause := have, firstPause
	for try := 0; have < d.Size; {
		_, err := e.append(ctx, c, p, d, have, m)
		if ctx.Err() != nil {
			return resumed, context.Cause(ctx)
		}
		now, serr := p.Size()
		if serr != nil {
			return resumed, serr
		}
		if now > best {
			best, try, pause = now, 0, firstPause
		}
		have = now
		if err == nil {
			continue
		}
		var final *finalError
		if try++; errors.As(err, &final) || try == attempts {
			return resumed, err
		}
		if err := c.c.Sleep(ctx, pause); err != nil {
			return resumed, err
		}
		pause *= 2
	}
	return resumed, nil
}

// finalError will not be better the next time.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// append asks for what is missing and writes it. A registry that knows no
// ranges sends everything, and what was here is dropped.
func (e *endpoint) append(ctx context.Context, c *Client, p *image.Partial, d v1.Descriptor, have int64, m *meter) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := http.Header{"Accept-Encoding": {"identity"}}
	if have > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", have, d.Size-1)) // some know no open end
	}
	resp, err := e.get(ctx, http.MethodGet, "blobs/"+d.Digest.String(), h)
	if err != nil {
		if errors.Is(err, ErrPlainHTTP) {
			err = &finalError{err}
		}
		return 0, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		if have > 0 {
			m.forget(have)
			if err := p.Reset(); err != nil {
				return 0, err
			}
			have = 0
		}
	case http.StatusPartialContent:
		var from int64
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &from); err != nil || from != have {
			return 0, fmt.Errorf("asked for bytes from %d, got %q", have, resp.Header.Get("Content-Range"))
		}
	case http.StatusRequestedRangeNotSatisfiable:
		m.forget(have)
		return 0, errors.Join(p.Reset(), refused("blob", resp))
	case http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden:
		return 0, &finalError{refused("blob", resp)}
	default:
		return 0, refused("blob", resp)
	}
	idle := time.AfterFunc(c.c.Stall, func() { cancel(fmt.Errorf("nothing came for %s", c.c.Stall)) })
	defer idle.Stop()
	body := &watched{r: resp.Body, each: func(n int) { idle.Reset(c.c.Stall); m.moved(int64(n)) }}
	n, err := io.Copy(p, io.LimitReader(body, d.Size-have))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return n, err
	}
	if have+n < d.Size {
		return n, fmt.Errorf("%d of %d bytes: %w", have+n, d.Size, io.ErrUnexpectedEOF)
	}
	var one [1]byte
	if k, _ := io.ReadFull(resp.Body, one[:]); k > 0 {
		return n, &finalError{errors.Join(p.Reset(), fmt.Errorf("%w: more than the %d bytes that the manifest says", ErrCorrupt, d.Size))}
	}
	return n, nil
}

type watched struct {
	r    io.Reader
	each func(int)
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	w.each(n)
	return n, err
}

// meter counts a whole pull or push and tells about it, not too often.
type meter struct {
	tell func(Progress)
	mu   sync.Mutex
	p    Progress
	last time.Time
}

const tellEvery = 200 * time.Millisecond

func (m *meter) change(f func(p *Progress)) {
	m.mu.Lock()
	f(&m.p)
	now := time.Now()
	tell := m.tell != nil && (now.Sub(m.last) >= tellEvery || m.p.Done >= m.p.Total)
	if tell {
		m.last = now
	}
	p := m.p
	m.mu.Unlock()
	if tell {
		m.tell(p)
	}
}

func (m *meter) found(n int64) { m.change(func(p *Progress) { p.Done += n; p.Resumed += n }) }
func (m *meter) moved(n int64) { m.change(func(p *Progress) { p.Done += n; p.Moved += n }) }
func (m *meter) forget(n int64) {
	m.change(func(p *Progress) { p.Done -= n; p.Resumed = min(p.Resumed, p.Done) })
}

func (m *meter) now() Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.p
}
