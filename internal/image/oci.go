package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// maxLayers is the most layers an image may have. Docker stops at 127.
const maxLayers = 1000

// opener opens a layer's tar stream.
type opener func(v1.Layer) (io.ReadCloser, error)

// unpacked lets the library unpack: some archives hold bare tars.
func unpacked(l v1.Layer) (io.ReadCloser, error) { return l.Uncompressed() }

// packed reads a blob as it was stored, and unpacks it here, where a zstd
// frame cannot ask for as much memory as it likes.
func packed(l v1.Layer) (io.ReadCloser, error) {
	c, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	r, err := inflate(c)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &closers{r, c}, nil
}

// closers closes a stream and what it reads from.
type closers struct {
	io.ReadCloser
	below io.Closer
}

func (c *closers) Close() error { return errors.Join(c.ReadCloser.Close(), c.below.Close()) }

// inflate unpacks gzip and zstd, told apart by their first bytes, whatever the
// media type says: registries hold plenty of mislabelled layers.
func inflate(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	magic, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(b), nil
}

// ImportOCI imports an image that somebody else reads, a registry's say, and
// names it. Each layer must unpack to the digest that the configuration names;
// layers that are here already are not opened. digests say by which
// "repository@sha256:…" the image is known too.
func (s *Store) ImportOCI(ctx context.Context, im v1.Image, name string, digests []string) (Image, error) {
	out, err := s.fromOCI(ctx, im, name, packed)
	if err != nil {
		return Image{}, err
	}
	out.Digests = digests
	return out, s.Put(out)
}

// fromOCI imports the layers. What is checked is that each layer unpacks to
// the digest that the configuration names.
func (s *Store) fromOCI(ctx context.Context, im v1.Image, called string, open opener) (Image, error) {
	c, err := im.ConfigFile()
	if err != nil {
		return Image{}, fmt.Errorf("image configuration: %w", err)
	}
	if c.OS != "" && c.OS != "linux" {
		return Image{}, fmt.Errorf("the image is for %s; only linux images run", c.OS)
	}
	layers, err := im.Layers()
	if err != nil {
		return Image{}, err
	}
	if len(layers) != len(c.RootFS.DiffIDs) {
		return Image{}, fmt.Errorf("%d layers, but the configuration names %d", len(layers), len(c.RootFS.DiffIDs))
	}
	if len(layers) > maxLayers {
		return Image{}, fmt.Errorf("%d layers: %w (%d)", len(layers), ErrCap, maxLayers)
	}
	var stack []LayerID
	for i, l := range layers {
		id, err := s.fromOCILayer(ctx, l, c.RootFS.DiffIDs[i], stack, open)
		if err != nil {
			return Image{}, fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
		stack = append(stack, id)
	}
	out := New(called, stack, nil, configOf(c))
	if c.Architecture != "" && c.Architecture != runtime.GOARCH {
		out.Platform = "linux/" + c.Architecture
		if c.Variant != "" {
			out.Platform += "/" + c.Variant
		}
	}
	return out, nil
}

// KnownLayers returns the layers that the first of these unpacked digests
// ("sha256:…", bottom first) were imported as. Those need not be fetched again.
func (s *Store) KnownLayers(diffIDs []string) []LayerID {
	var stack []LayerID
	for _, d := range diffIDs {
		id, ok := s.Cached(layerKey(d, stack))
		if !ok || id == "" {
			break
		}
		stack = append(stack, id)
	}
	return stack
}

// layerKey: the same blob on the same stack gives the same layer.
func layerKey(diffID string, below []LayerID) string {
	key := "oci-layer 1 " + diffID
	for _, b := range below {
		key += " " + string(b)
	}
	return key
}

// CheckLayerType refuses what is no layer of files, by name.
func CheckLayerType(mt types.MediaType) error {
	switch {
	case slices.Contains([]types.MediaType{types.DockerLayer, types.DockerUncompressedLayer, types.OCILayer,
		types.OCIUncompressedLayer, types.OCILayerZStd, "application/vnd.docker.image.rootfs.diff.tar.zstd"}, mt):
		return nil
	case !mt.IsDistributable(), strings.Contains(string(mt), "foreign"):
		return fmt.Errorf("media type %q is a foreign layer, whose content is kept outside of the registry; such images are not read", mt)
	}
	return fmt.Errorf("media type %q is not a layer of files", mt)
}

func (s *Store) fromOCILayer(ctx context.Context, l v1.Layer, want v1.Hash, below []LayerID, open opener) (LayerID, error) {
	mt, err := l.MediaType()
	if err != nil {
		return "", err
	}
	if err := CheckLayerType(mt); err != nil {
		return "", err
	}
	key := layerKey(want.String(), below)
	if id, ok := s.Cached(key); ok && id != "" {
		return id, nil
	}
	r, err := open(l)
	if err != nil {
		return "", err
	}
	defer r.Close()
	h := sha256.New()
	id, err := s.FromTar(ctx, io.TeeReader(r, h), TarOptions{Below: below})
	if err != nil {
		return "", err
	}
	if got := hex.EncodeToString(h.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return "", fmt.Errorf("content has digest sha256:%s, the configuration says %s", got, want)
	}
	return id, s.Cache(key, id)
}
