package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"assay/internal/image"
)

const (
	maxManifest = 16 << 20 // bytes; Docker's own registry refuses 4 MiB
	maxNesting  = 4        // indexes within indexes
	maxLayers   = 1000
)

// document is a manifest or an index as it came, its digest checked.
type document struct {
	raw    []byte
	digest v1.Hash
	media  types.MediaType
}

func accepted() string {
	return strings.Join([]string{string(types.OCIImageIndex), string(types.DockerManifestList), string(types.OCIManifestSchema1),
		string(types.DockerManifestSchema2), string(types.DockerManifestSchema1), string(types.DockerManifestSchema1Signed)}, ", ")
}

// document fetches what a tag or digest names. A digest is what the content is
// compared with; a tag is believed.
func (e *endpoint) document(ctx context.Context, ref string) (document, error) {
	resp, err := e.get(ctx, http.MethodGet, "manifests/"+ref, http.Header{"Accept": {accepted()}})
	if err != nil {
		return document{}, fmt.Errorf("manifest %s: %w", ref, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return document{}, refused("manifest "+ref, resp)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return document{}, fmt.Errorf("manifest %s: %w", ref, err)
	}
	if len(b) > maxManifest {
		return document{}, fmt.Errorf("manifest %s: %w (%d bytes)", ref, image.ErrCap, maxManifest)
	}
	return parseDocument(b, ref, types.MediaType(resp.Header.Get("Content-Type")))
}

// parseDocument checks a document against the digest it was asked by, if it
// was, and says what it is: by what it says itself, else by its header.
func parseDocument(b []byte, ref string, header types.MediaType) (document, error) {
	sum := sha256.Sum256(b)
	d := document{raw: b, digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}
	if isDigest(ref) && ref != d.digest.String() {
		return d, fmt.Errorf("manifest %s: the registry sent something else, of digest %s", ref, d.digest)
	}
	var head struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     types.MediaType `json:"mediaType"`
		Manifests     json.RawMessage `json:"manifests"`
		Layers        json.RawMessage `json:"layers"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return d, fmt.Errorf("manifest %s: %w", ref, err)
	}
	d.media = head.MediaType
	if d.media == "" {
		d.media = header
	}
	switch {
	case head.SchemaVersion == 1 || d.media == types.DockerManifestSchema1 || d.media == types.DockerManifestSchema1Signed:
		return d, errors.New("it is an image manifest of schema 1, which registries and Docker have given up; push the image again with a Docker of today")
	case head.Manifests != nil && head.Layers != nil:
		return d, fmt.Errorf("manifest %s: it is an index and an image at once", ref)
	case d.media.IsIndex() && head.Layers == nil, d.media.IsImage() && head.Manifests == nil:
	case head.Manifests != nil:
		d.media = types.OCIImageIndex
	case head.Layers != nil:
		d.media = types.OCIManifestSchema1
	default:
		return d, fmt.Errorf("manifest %s: %q is neither an image nor an index of images", ref, d.media)
	}
	return d, nil
}

// manifest decodes an image manifest and refuses what would not be read later.
func (d document) manifest(maxBlob int64) (*v1.Manifest, error) {
	m, err := v1.ParseManifest(bytes.NewReader(d.raw))
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", d.digest, err)
	}
	if len(m.Layers) > maxLayers {
		return nil, fmt.Errorf("manifest %s: %d layers: %w (%d)", d.digest, len(m.Layers), image.ErrCap, maxLayers)
	}
	if !m.Config.MediaType.IsConfig() {
		return nil, fmt.Errorf("manifest %s: it holds %q, not an image", d.digest, m.Config.MediaType)
	}
	if err := checkDescriptor(m.Config, maxManifest); err != nil {
		return nil, fmt.Errorf("image configuration: %w", err)
	}
	for i, l := range m.Layers {
		err := image.CheckLayerType(l.MediaType)
		if err == nil && len(l.URLs) > 0 {
			err = errors.New("it is a foreign layer, whose content is kept outside of the registry; such images are not read")
		}
		if err == nil {
			err = checkDescriptor(l, maxBlob)
		}
		if err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", i+1, len(m.Layers), err)
		}
	}
	return m, nil
}

func checkDescriptor(d v1.Descriptor, most int64) error {
	if d.Digest.Algorithm != "sha256" || len(d.Digest.Hex) != 64 {
		return fmt.Errorf("digest %q is no SHA-256", d.Digest)
	}
	if d.Size < 0 || d.Size > most {
		return fmt.Errorf("%d bytes: %w (%d)", d.Size, image.ErrCap, most)
	}
	return nil
}

// choose finds the image of a platform in an index.
func (d document) choose(want v1.Platform) (v1.Descriptor, error) {
	ix, err := v1.ParseIndexManifest(bytes.NewReader(d.raw))
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("index %s: %w", d.digest, err)
	}
	var has []string
	for _, m := range ix.Manifests {
		if !m.MediaType.IsImage() && !m.MediaType.IsIndex() {
			continue
		}
		if m.Platform == nil || m.Platform.OS == want.OS && m.Platform.Architecture == want.Architecture &&
			(want.Variant == "" || m.Platform.Variant == want.Variant) {
			return m, checkDescriptor(m, maxManifest)
		}
		if s := m.Platform.String(); m.Platform.OS != "unknown" && !slices.Contains(has, s) {
			has = append(has, s)
		}
	}
	return v1.Descriptor{}, fmt.Errorf("it has no image for %s; there are: %.500s", want.String(), strings.Join(has, ", "))
}

// platform reads "linux/arm64"; empty is this machine.
func platform(s string) (v1.Platform, error) {
	if s == "" {
		return v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, nil
	}
	p, err := v1.ParsePlatform(s)
	if err != nil {
		return v1.Platform{}, err
	}
	if p.OS != "linux" || p.Architecture == "" {
		return v1.Platform{}, fmt.Errorf("platform %q: want linux/ARCHITECTURE; only linux images run", s)
	}
	return *p, nil
}

// isDigest tells a digest from a tag.
func isDigest(ref string) bool { return strings.Contains(ref, ":") }
