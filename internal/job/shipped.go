package job

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// shipped brings an image that came with the tasks, as a layout or as a digest
// that a registry has, into the store, once. Its layers, which are digests of
// what they hold, must be those that it was written with.
func (m *images) shipped(ctx context.Context, env environment, ref string) (image.Image, bool, error) {
	dir := shippedAt(env.dir, ref)
	by, layers := pushedAs(env.dir, ref)
	if dir == "" && (by == "" || m.deps.Fetch == nil) || m.deps.Images == nil {
		return image.Image{}, false, nil
	}
	m.loading.Lock()
	defer m.loading.Unlock()
	_, err := m.deps.Resolve(ctx, ref)
	var missing *image.MissingError
	if !errors.As(err, &missing) {
		return image.Image{}, false, nil
	}
	var im image.Image
	if dir != "" {
		im, err = m.deps.Images.Read(ctx, image.HostPath(dir), ref)
		if err == nil {
			layers, err = layersOf(dir)
		}
	} else {
		im, err = m.have(ctx, by)
	}
	if err == nil && !slices.Equal(layers, im.Layers) {
		err = errors.New("its layers are not those that it was written with")
	}
	if err != nil {
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
	if err := os.WriteFile(filepath.Join(at, LayersFile), layerLines(im), 0o644); err != nil {
		return err
	}
	return os.Rename(at, string(dir))
}

// LayersFile is the list, in a shipped image's directory, of its layers' ids,
// one a line. They are digests of what the layers hold.
const LayersFile = "assay-layers"

// pushedSuffix ends the name of the record, beside the directories of shipped
// images, of one that a registry has: its reference by digest, then its layers'
// ids, one a line.
const pushedSuffix = ".pushed"

// RecordPushed notes below a set of tasks by which digest a registry has an
// image, so that another machine gets it from there.
func RecordPushed(set string, im image.Image, byDigest string) error {
	dir := filepath.Join(set, filepath.FromSlash(ShippedDir))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ShippedName(im.Name)+pushedSuffix), append([]byte(byDigest+"\n"), layerLines(im)...), 0o644)
}

// pushedAs is the digest by which a registry has an image of the tasks, and the
// layers that it must have; empty: there is no such record.
func pushedAs(context, ref string) (byDigest string, layers []image.LayerID) {
	if context == "" || ref == "" {
		return "", nil
	}
	lines, err := readLines(filepath.Join(filepath.Dir(filepath.Dir(context)), filepath.FromSlash(ShippedDir), ShippedName(ref)+pushedSuffix))
	if err != nil || len(lines) < 2 || !strings.Contains(lines[0], "@sha256:") {
		return "", nil
	}
	return lines[0], ids(lines[1:])
}

func layersOf(dir string) ([]image.LayerID, error) {
	lines, err := readLines(filepath.Join(dir, LayersFile))
	return ids(lines), err
}

func layerLines(im image.Image) []byte {
	var b strings.Builder
	for _, l := range im.Layers {
		b.WriteString(string(l) + "\n")
	}
	return []byte(b.String())
}

func ids(lines []string) []image.LayerID {
	out := make([]image.LayerID, len(lines))
	for i, l := range lines {
		out[i] = image.LayerID(l)
	}
	return out
}

// readLines reads a short list; sets come from other people.
func readLines(name string) ([]string, error) {
	if fi, err := os.Lstat(name); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", name))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return strings.Fields(string(b)), err
}
