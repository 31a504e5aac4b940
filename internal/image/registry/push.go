package registry

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"assay/internal/image"
)

// Pushed says what a push did.
type Pushed struct {
	Digest string // of the manifest
	Ref    string // by content: "registry/repository@sha256:…"
	Bytes  int64  // of the layers, compressed
	Layers int
}

// Push writes an image of the store to a registry, never to a mirror. Layers
// that the registry has are not sent again. The store knows the image by its
// new digest afterwards.
func (c *Client) Push(ctx context.Context, im image.Image, ref string) (Pushed, error) {
	r, err := c.parse(ref)
	if err != nil {
		return Pushed{}, err
	}
	if isDigest(r.Identifier()) {
		return Pushed{}, fmt.Errorf("push to %s: want a tag; the digest is what comes out", ref)
	}
	out, err := c.push(ctx, im, ref)
	if err != nil {
		return Pushed{}, fmt.Errorf("push to %s: %w", ref, explain(err))
	}
	return out, nil
}

func (c *Client) push(ctx context.Context, im image.Image, ref string) (Pushed, error) {
	r, err := c.parse(ref)
	if err != nil {
		return Pushed{}, err
	}
	auth, err := c.c.Auth.authenticator(ctx, r.Context().RegistryStr())
	if err != nil {
		return Pushed{}, err
	}
	oci, err := c.store.OCI(ctx, im)
	if err != nil {
		return Pushed{}, err
	}
	defer oci.Close()
	out, err := measure(oci)
	if err != nil {
		return Pushed{}, err
	}
	updates := make(chan v1.Update, 16)
	told := make(chan struct{})
	go func() {
		defer close(told)
		for u := range updates { // closed by remote.Write
			if c.c.Progress != nil && u.Error == nil {
				c.c.Progress(Progress{Ref: ref, Done: u.Complete, Total: u.Total, Moved: u.Complete})
			}
		}
	}()
	err = remote.Write(r, oci, remote.WithContext(ctx), remote.WithAuth(auth), remote.WithJobs(c.c.Jobs),
		remote.WithTransport(c.polite(endpoint{repo: r.Context()})), remote.WithProgress(updates))
	<-told
	if err != nil {
		return Pushed{}, err
	}
	h, err := oci.Digest()
	if err != nil {
		return Pushed{}, err
	}
	out.Digest = h.String()
	out.Ref = digests(r, h)[0]
	return out, c.store.Known(im.Name, out.Ref)
}

func measure(im v1.Image) (Pushed, error) {
	m, err := im.Manifest()
	if err != nil {
		return Pushed{}, err
	}
	p := Pushed{Layers: len(m.Layers)}
	for _, l := range m.Layers {
		p.Bytes += l.Size
	}
	return p, nil
}
