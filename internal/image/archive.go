package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// refName is where OCI layouts keep an image's name.
const refName = "org.opencontainers.image.ref.name"

// containerdName is where Docker and containerd keep it, since theirs are
// longer than a tag.
const containerdName = "io.containerd.image.name"

// maxDocument is the largest manifest, index or configuration, in bytes: these
// are read into memory.
const maxDocument = 16 << 20

func checkDocument(name string, size int64) error {
	if size > maxDocument {
		return fmt.Errorf("%s of %d bytes: %w (%d)", name, size, ErrCap, maxDocument)
	}
	return nil
}

func (s *Store) fromDockerSave(ctx context.Context, path, want string) (Image, error) {
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	sizes, err := sizesIn(path)
	if err != nil {
		return Image{}, err
	}
	if err := checkDocument("manifest.json", sizes["manifest.json"]); err != nil {
		return Image{}, err
	}
	m, err := tarball.LoadManifest(open)
	if err != nil {
		return Image{}, fmt.Errorf("manifest.json: %w", err)
	}
	for _, d := range m {
		if err := checkDocument(d.Config, sizes[d.Config]); err != nil {
			return Image{}, err
		}
	}
	var tags []string
	for _, d := range m {
		tags = append(tags, d.RepoTags...)
	}
	pick, called, err := choose(tags, len(m), want)
	if err != nil {
		return Image{}, err
	}
	var tag *name.Tag
	if pick != "" {
		t, err := name.NewTag(pick)
		if err != nil {
			return Image{}, err
		}
		tag = &t
	}
	im, err := tarball.Image(open, tag)
	if err != nil {
		return Image{}, err
	}
	return s.fromOCI(ctx, im, called, unpacked)
}

// sizesIn lists an archive's files; of two with one name the larger counts.
func sizesIn(path string) (map[string]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sizes := map[string]int64{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return sizes, nil
		}
		if err != nil {
			return nil, err
		}
		sizes[h.Name] = max(sizes[h.Name], h.Size)
	}
}

// choose says which of an archive's names to read ("" if there is only one
// image and it has none) and what the image is called here.
func choose(names []string, images int, want string) (pick, called string, err error) {
	if images == 0 {
		return "", "", errors.New("it holds no image")
	}
	for _, n := range names {
		if want != "" && familiar(n) == familiar(want) {
			return n, want, nil
		}
	}
	if images > 1 {
		return "", "", fmt.Errorf("it holds %d images; name one of them: %s", images, strings.Join(names, ", "))
	}
	if len(names) > 0 {
		pick = names[0]
	}
	if want == "" {
		want = pick
	}
	return pick, want, nil
}

func (s *Store) fromLayout(ctx context.Context, dir, want string) (Image, error) {
	if err := checkBlob(dir, "index.json"); err != nil {
		return Image{}, err
	}
	p, err := layout.FromPath(dir)
	if err != nil {
		return Image{}, err
	}
	index, err := p.ImageIndex()
	if err != nil {
		return Image{}, err
	}
	m, err := index.IndexManifest()
	if err != nil {
		return Image{}, fmt.Errorf("index.json: %w", err)
	}
	var names []string
	byName := map[string]v1.Descriptor{}
	var all []v1.Descriptor
	for _, d := range m.Manifests {
		if !d.MediaType.IsImage() && !d.MediaType.IsIndex() || !runsHere(d.Platform) {
			continue
		}
		all = append(all, d)
		n := d.Annotations[containerdName]
		if n == "" {
			n = d.Annotations[refName]
		}
		if n != "" {
			names = append(names, n)
			byName[n] = d
		}
	}
	pick, called, err := choose(names, len(all), want)
	if err != nil {
		return Image{}, err
	}
	d := all[0]
	if pick != "" {
		d = byName[pick]
	}
	im, err := imageOf(dir, index, d, 0)
	if err != nil {
		return Image{}, err
	}
	out, err := s.fromOCI(ctx, im, called, packed)
	if err == nil {
		out.Digests = digests(called, d.Digest, im)
	}
	return out, err
}

// digests names what was read by content: the image itself and, where it stood
// in one, the index that the name led to.
func digests(called string, named v1.Hash, im v1.Image) []string {
	repo := repository(called)
	if repo == "" {
		return nil
	}
	all := []string{repo + "@" + named.String()}
	if h, err := im.Digest(); err == nil && h != named {
		all = append(all, repo+"@"+h.String())
	}
	return all
}

const maxNesting = 4 // indexes within indexes

// imageOf goes down from an index to the one image for this machine.
func imageOf(dir string, index v1.ImageIndex, d v1.Descriptor, depth int) (v1.Image, error) {
	if err := checkBlob(dir, blobPath(d.Digest)); err != nil {
		return nil, err
	}
	if d.MediaType.IsImage() {
		im, err := index.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		m, err := im.Manifest()
		if err != nil {
			return nil, err
		}
		return im, checkBlob(dir, blobPath(m.Config.Digest))
	}
	if depth == maxNesting {
		return nil, fmt.Errorf("indexes nested more than %d deep", maxNesting)
	}
	inner, err := index.ImageIndex(d.Digest)
	if err != nil {
		return nil, err
	}
	m, err := inner.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, c := range m.Manifests {
		if (c.MediaType.IsImage() || c.MediaType.IsIndex()) && runsHere(c.Platform) {
			return imageOf(dir, inner, c, depth+1)
		}
	}
	return nil, fmt.Errorf("no image for linux/%s", runtime.GOARCH)
}

func blobPath(h v1.Hash) string { return filepath.Join("blobs", h.Algorithm, h.Hex) }

func checkBlob(dir, name string) error {
	fi, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return checkDocument(name, fi.Size())
}

func runsHere(p *v1.Platform) bool {
	return p == nil || p.OS == "" && p.Architecture == "" || p.OS == "linux" && p.Architecture == runtime.GOARCH
}
