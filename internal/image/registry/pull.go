package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"assay/internal/image"
)

// PullOptions shape a pull. The zero value takes this machine's platform.
type PullOptions struct {
	Platform string // "linux/arm64"
	Name     string // in the store; empty: as it was asked for
}

// Pulled says what a pull did.
type Pulled struct {
	Image    image.Image
	Digest   string // of the image's manifest
	Source   string // the registry or mirror that answered
	Bytes    int64  // of the layers, compressed
	Fetched  int64  // of them, that crossed the network now
	Resumed  int64  // of them, that an earlier pull had brought
	Layers   int
	Existing int // layers that were here
}

// remoteImage is a manifest and its configuration, layers not yet fetched.
type remoteImage struct {
	from   *endpoint
	first  document // what the reference named: an index, or the image itself
	doc    document // the image's manifest
	m      *v1.Manifest
	config []byte
	diffs  []string
}

// Pull fetches what is missing of an image and names it in the store. Mirrors
// are asked first; what fails there is asked of the registry itself.
func (c *Client) Pull(ctx context.Context, ref string, o PullOptions) (Pulled, error) {
	r, err := c.parse(ref)
	if err != nil {
		return Pulled{}, err
	}
	var out Pulled
	err = c.each(ctx, r, o, func(im *remoteImage) error {
		out, err = c.take(ctx, r, im, ref, o)
		return err
	})
	if err != nil {
		return Pulled{}, fmt.Errorf("pull %s: %w", ref, err)
	}
	return out, nil
}

// Missing says what a pull of ref would do.
type Missing struct {
	Digest string // of the image's manifest
	Bytes  int64  // to fetch
	Total  int64  // of all layers, compressed
	Layers int    // to fetch
}

// Missing asks the registry what a pull would fetch, without fetching layers.
func (c *Client) Missing(ctx context.Context, ref string, o PullOptions) (Missing, error) {
	r, err := c.parse(ref)
	if err != nil {
		return Missing{}, err
	}
	var out Missing
	err = c.each(ctx, r, o, func(im *remoteImage) error {
		out = Missing{Digest: im.doc.digest.String()}
		known := len(c.store.KnownLayers(im.diffs))
		for i, l := range im.m.Layers {
			out.Total += l.Size
			if i >= known {
				out.Layers++
				out.Bytes += max(0, l.Size-c.store.PartialSize(l.Digest.String()))
			}
		}
		return nil
	})
	if err != nil {
		return Missing{}, fmt.Errorf("look up %s: %w", ref, err)
	}
	return out, nil
}

// each tries the sources of a reference, until one gives the image and f takes
// it. The registry's own error counts most.
func (c *Client) each(ctx context.Context, r name.Reference, o PullOptions, f func(*remoteImage) error) error {
	all, err := c.sources(r.Context())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range all {
		im, err := c.look(ctx, e, r, o)
		if err == nil {
			err = f(im)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.mirror {
			err = fmt.Errorf("mirror %s: %w", e.repo.RegistryStr(), err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// look reads manifest and configuration from one source.
func (c *Client) look(ctx context.Context, from endpoint, r name.Reference, o PullOptions) (*remoteImage, error) {
	want, err := platform(o.Platform)
	if err != nil {
		return nil, err
	}
	e, err := c.connect(ctx, from, "pull")
	if err != nil {
		return nil, err
	}
	im := &remoteImage{from: e}
	if im.first, err = e.document(ctx, r.Identifier()); err != nil {
		return nil, err
	}
	im.doc = im.first
	for depth := 0; im.doc.media.IsIndex(); depth++ {
		if depth == maxNesting {
			return nil, fmt.Errorf("indexes nested more than %d deep", maxNesting)
		}
		d, err := im.doc.choose(want)
		if err != nil {
			return nil, err
		}
		if im.doc, err = e.document(ctx, d.Digest.String()); err != nil {
			return nil, err
		}
	}
	if im.m, err = im.doc.manifest(c.c.MaxBlob); err != nil {
		return nil, err
	}
	return im, im.readConfig(ctx, o.Platform, want)
}

func (im *remoteImage) readConfig(ctx context.Context, asked string, want v1.Platform) error {
	d := im.m.Config
	resp, err := im.from.get(ctx, http.MethodGet, "blobs/"+d.Digest.String(), http.Header{"Accept-Encoding": {"identity"}})
	if err != nil {
		return fmt.Errorf("image configuration: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refused("image configuration", resp)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, d.Size+1))
	if err != nil {
		return fmt.Errorf("image configuration: %w", err)
	}
	if h, _, err := v1.SHA256(bytes.NewReader(b)); err != nil || int64(len(b)) != d.Size || h != d.Digest {
		return fmt.Errorf("image configuration: %w: it is not %s of %d bytes", ErrCorrupt, d.Digest, d.Size)
	}
	var c v1.ConfigFile
	if err := json.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("image configuration: %w", err)
	}
	if len(c.RootFS.DiffIDs) != len(im.m.Layers) {
		return fmt.Errorf("the manifest has %d layers, the configuration %d", len(im.m.Layers), len(c.RootFS.DiffIDs))
	}
	if c.Architecture != "" && c.Architecture != want.Architecture {
		more := ""
		if asked == "" {
			more = fmt.Sprintf("; this machine is linux/%s, say --platform linux/%s to have it anyway", runtime.GOARCH, c.Architecture)
		}
		return fmt.Errorf("the image is for %s/%s%s", c.OS, c.Architecture, more)
	}
	im.config = b
	for _, h := range c.RootFS.DiffIDs {
		im.diffs = append(im.diffs, h.String())
	}
	return nil
}

// take fetches and imports the layers.
func (c *Client) take(ctx context.Context, r name.Reference, im *remoteImage, ref string, o PullOptions) (Pulled, error) {
	known := len(c.store.KnownLayers(im.diffs))
	out := Pulled{Digest: im.doc.digest.String(), Source: im.from.repo.RegistryStr(), Layers: len(im.m.Layers), Existing: known}
	m := &meter{tell: c.c.Progress}
	m.p.Ref = ref
	seen := map[v1.Hash]bool{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	img := &lazyImage{remoteImage: im}
	byBlob := map[v1.Hash]*lazyLayer{}
	for i, d := range im.m.Layers {
		out.Bytes += d.Size
		if i >= known && !seen[d.Digest] {
			seen[d.Digest] = true
			m.p.Total += d.Size
		}
		l := byBlob[d.Digest]
		if l == nil { // one blob may be several layers
			l = &lazyLayer{ctx: ctx, c: c, from: im.from, d: d, m: m, ready: make(chan struct{})}
			byBlob[d.Digest] = l
		}
		img.layers = append(img.layers, l)
	}
	var wg sync.WaitGroup
	ahead := make(chan *lazyLayer)
	for range c.c.Jobs {
		wg.Go(func() {
			for l := range ahead {
				l.fetch()
			}
		})
	}
	wg.Go(func() {
		defer close(ahead)
		for _, l := range img.layers[known:] {
			select {
			case ahead <- l:
			case <-ctx.Done():
				return
			}
		}
	})
	defer func() {
		cancel()
		wg.Wait()
		img.close(out.Image.ID != "")
	}()
	called := o.Name
	if called == "" {
		called = ref
	}
	oci, err := partial.CompressedToImage(img)
	if err != nil {
		return out, err
	}
	out.Image, err = c.store.ImportOCI(ctx, oci, called, digests(r, im.first.digest, im.doc.digest))
	p := m.now()
	out.Fetched, out.Resumed = p.Moved, p.Resumed
	return out, err
}

// digests are the names by content under which the store will know an image.
func digests(r name.Reference, hs ...v1.Hash) []string {
	repo := strings.TrimPrefix(r.Context().Name(), name.DefaultRegistry+"/")
	repo = strings.TrimPrefix(repo, "library/")
	var all []string
	for i, h := range hs {
		if i == 0 || h != hs[0] {
			all = append(all, repo+"@"+h.String())
		}
	}
	return all
}

// lazyLayer is a layer whose blob is fetched once, by whoever asks first.
type lazyLayer struct {
	ctx  context.Context // of the one pull that made this layer
	c    *Client
	from *endpoint
	d    v1.Descriptor
	m    *meter

	once  sync.Once
	ready chan struct{} // closed when part and err are set
	part  *image.Partial
	err   error
}

func (l *lazyLayer) fetch() {
	l.once.Do(func() {
		defer close(l.ready)
		if l.part, l.err = l.c.store.Partial(l.ctx, l.d.Digest.String()); l.err != nil {
			return
		}
		l.err = l.from.fetch(l.ctx, l.c, l.part, l.d, l.m)
	})
	<-l.ready
}

// Digest implements partial.CompressedLayer, as do the next three.
func (l *lazyLayer) Digest() (v1.Hash, error) { return l.d.Digest, nil }

func (l *lazyLayer) Size() (int64, error)                { return l.d.Size, nil }
func (l *lazyLayer) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }

func (l *lazyLayer) Compressed() (io.ReadCloser, error) {
	if l.fetch(); l.err != nil {
		return nil, l.err
	}
	return l.part.Open()
}

// lazyImage is what ImportOCI reads.
type lazyImage struct {
	*remoteImage
	layers []*lazyLayer
}

// close keeps what came if the import failed, for the next pull.
func (i *lazyImage) close(done bool) {
	for _, l := range i.layers {
		if l.part == nil {
			continue
		}
		if done {
			_ = l.part.Remove() // a blob left behind is swept by the collector
		} else {
			_ = l.part.Close()
		}
		l.part = nil
	}
}

// RawManifest implements partial.CompressedImageCore, as do the next three.
func (i *lazyImage) RawManifest() ([]byte, error) { return i.doc.raw, nil }

func (i *lazyImage) MediaType() (types.MediaType, error) { return i.doc.media, nil }
func (i *lazyImage) RawConfigFile() ([]byte, error)      { return i.config, nil }

func (i *lazyImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, l := range i.layers {
		if l.d.Digest == h {
			return l, nil
		}
	}
	return nil, fmt.Errorf("layer %s is not in the manifest", h)
}
