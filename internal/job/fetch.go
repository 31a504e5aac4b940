package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/image"
	"assay/trial"
)

// fetch is one image on its way: whoever needs it waits for the first who did.
type fetch struct {
	once sync.Once
	img  image.Image
	err  error
}

// key is equal for environments that come to the same image.
func (m *images) key(env environment) string {
	switch base := m.base(env); {
	case base != "" && (env.name != "" || !env.builds()):
		return "\x00" + base
	case base == "" && env.name != "":
		return "\x00" + env.name + "\x00" + env.fallback
	}
	return env.dir + "\x00" + env.fallback + env.how() + "\x00" + string(env.uid)
}

// name is what people know an environment's image by.
func (m *images) name(env environment) string {
	switch base := m.base(env); {
	case base != "" && (env.name != "" || !env.builds()):
		return base
	case base == "" && env.name != "":
		return env.name
	}
	return env.dir
}

// finder finds images for an environment. One that names a fallback takes that
// when its own is not here and fetches nothing: which of the two a trial ran on
// must not hang on the network's mood.
func (m *images) finder(env environment) func(context.Context, string) (image.Image, error) {
	find := m.have
	if env.fallback != "" && m.base(env) == "" {
		find = m.deps.Resolve
	}
	return func(ctx context.Context, ref string) (image.Image, error) {
		if im, ok, err := m.shipped(ctx, env, ref); ok || err != nil {
			return im, err
		}
		return find(ctx, ref)
	}
}

// have finds an image here, or fetches it.
func (m *images) have(ctx context.Context, ref string) (image.Image, error) {
	img, err := m.deps.Resolve(ctx, ref)
	var missing *image.MissingError
	if m.deps.Fetch == nil || !errors.As(err, &missing) {
		return img, err
	}
	m.mu.Lock()
	f := m.fetches[ref]
	if f == nil {
		f = &fetch{}
		if m.fetches == nil {
			m.fetches = map[string]*fetch{}
		}
		m.fetches[ref] = f
	}
	m.mu.Unlock()
	f.once.Do(func() { f.img, f.err = m.deps.Fetch(ctx, ref, m.teller(ref)) })
	if f.err == nil {
		return f.img, nil
	}
	m.mu.Lock()
	if m.fetches[ref] == f {
		delete(m.fetches, ref) // whoever asks next tries again
	}
	m.mu.Unlock()
	if ctx.Err() != nil {
		return image.Image{}, f.err
	}
	if full(f.err) {
		return image.Image{}, &noRoomError{fmt.Errorf("fetch image %s: %w", ref, f.err)}
	}
	return image.Image{}, &endError{trial.CauseImageMissing, fmt.Errorf("image %s is not on this machine and could not be fetched: %w", ref, f.err)}
}

// noRoomError is a fetch that the disk was too full for.
type noRoomError struct{ err error }

func (e *noRoomError) Error() string { return e.err.Error() }
func (e *noRoomError) Unwrap() error { return e.err }

// teller says how far a fetch is, at most once a second.
func (m *images) teller(ref string) func(done, total int64) {
	var mu sync.Mutex
	last := time.Now()
	return func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if m.moved == nil || time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		m.moved(trial.ImageMark{Name: ref, Done: done, Total: total})
	}
}

// registryDigest is the manifest's digest by which a registry knows an image:
// the one that was asked for, else that of the image itself and not of the
// index it was chosen from, which comes before it.
func registryDigest(img image.Image, ref string) string {
	if _, digest, ok := strings.Cut(ref, "@"); ok {
		return digest
	}
	for _, d := range slices.Backward(img.Digests) {
		if _, digest, ok := strings.Cut(d, "@"); ok {
			return digest
		}
	}
	return ""
}
