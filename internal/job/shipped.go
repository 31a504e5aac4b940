package job

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/image"
)

// ShippedDir is where a set of tasks keeps images that come with it, beside the
// tasks: one OCI layout in a directory for each.
const ShippedDir = ".forge/images"

// ShippedName is the directory below ShippedDir of an image.
func ShippedName(ref string) string { return url.PathEscape(ref) }

// shippedAt is the layout of an image beside the task of a build context; empty:
// there is none.
func shippedAt(context, ref string) string {
	if context == "" || ref == "" {
		return ""
	}
	dir := filepath.Join(filepath.Dir(filepath.Dir(context)), filepath.FromSlash(ShippedDir), ShippedName(ref))
	if fi, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	return dir
}

// shipped brings an image that came with the tasks into the store, once. Its
// content must be what its name says: a tag of 16 digits is the beginning of
// the image's id.
func (m *images) shipped(ctx context.Context, env environment, ref string) (image.Image, bool, error) {
	dir := shippedAt(env.dir, ref)
	if dir == "" || m.deps.Images == nil {
		return image.Image{}, false, nil
	}
	m.loading.Lock()
	defer m.loading.Unlock()
	_, err := m.deps.Resolve(ctx, ref)
	var missing *image.MissingError
	if !errors.As(err, &missing) {
		return image.Image{}, false, nil
	}
	im, err := m.deps.Images.Read(ctx, image.HostPath(dir), ref)
	if err != nil {
		return image.Image{}, false, fmt.Errorf("image %s that came with the tasks: %w", ref, err)
	}
	if err := asNamed(im, ref, dir); err != nil {
		return image.Image{}, false, fmt.Errorf("image %s that came with the tasks: %w", ref, err)
	}
	im.Name = ref
	if err := m.deps.Images.Put(im); err != nil {
		return image.Image{}, false, err
	}
	return im, true, nil
}

// Ship writes an image as it comes with tasks; dir appears when it is complete.
func Ship(ctx context.Context, s *image.Store, im image.Image, dir image.HostPath) error {
	if err := os.MkdirAll(filepath.Dir(string(dir)), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(string(dir)), ".ship-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	at := filepath.Join(tmp, "image")
	if err := s.ExportDir(ctx, im, image.HostPath(at)); err != nil {
		return err
	}
	var ids strings.Builder
	for _, l := range im.Layers {
		ids.WriteString(string(l) + "\n")
	}
	if err := os.WriteFile(filepath.Join(at, LayersFile), []byte(ids.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(at, string(dir))
}

// LayersFile is the list, in a shipped image's directory, of its layers' ids,
// one a line. They are digests of what the layers hold.
const LayersFile = "assay-layers"

// asNamed refuses an image that is not the one which its tasks were proved on.
func asNamed(im image.Image, ref, dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, LayersFile))
	if err != nil {
		return err
	}
	var want []image.LayerID
	for _, l := range strings.Fields(string(b)) {
		want = append(want, image.LayerID(l))
	}
	if !slices.Equal(want, im.Layers) {
		return errors.New("its layers are not those that it was written with")
	}
	return nil
}
