package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"
)

// OCIImage is an image of the store in the form of the ecosystem: manifest,
// configuration, and layers as gzipped tars, which lie in a scratch directory
// until Close.
type OCIImage struct {
	v1.Image
	dir scratch
}

// Close removes the blobs.
func (o *OCIImage) Close() { o.dir.remove() }

// OCI packs an image. Layers are written anew, the same way each time, so that
// the digests of one store's image do not change from push to push; they are
// not those that a registry had. The pseudo-image "host" cannot leave its
// machine and is refused.
func (s *Store) OCI(ctx context.Context, im Image) (*OCIImage, error) {
	return s.pack(ctx, im, true)
}

// pack writes the layers as blobs, compressed or bare.
func (s *Store) pack(ctx context.Context, im Image, compress bool) (_ *OCIImage, err error) {
	if len(im.Binds) > 0 {
		return nil, fmt.Errorf("image %q is made of this machine's own directories and cannot leave it", im.Name)
	}
	dir, err := s.scratch()
	if err != nil {
		return nil, err
	}
	out := &OCIImage{dir: dir}
	defer func() {
		if err != nil {
			out.Close()
		}
	}()
	if err := os.Mkdir(dir.path, 0o700); err != nil {
		return nil, err
	}
	core := &packedImage{manifest: v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}}
	c := v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, Author: im.Config.Author,
		RootFS: v1.RootFS{Type: "layers"}, Config: im.Config.OCI()}
	if p, err := v1.ParsePlatform(im.Platform); im.Platform != "" && err == nil {
		c.Architecture, c.Variant = p.Architecture, p.Variant
	}
	for i, id := range im.Layers {
		l, err := s.packLayer(ctx, id, dir.path, compress)
		if err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", i+1, len(im.Layers), err)
		}
		core.layers = append(core.layers, l)
		core.manifest.Layers = append(core.manifest.Layers, l.d)
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, l.diff)
		c.History = append(c.History, v1.History{CreatedBy: "assay layer " + id.Short()})
	}
	if core.config, err = json.Marshal(c); err != nil {
		return nil, err
	}
	h, n, err := v1.SHA256(bytes.NewReader(core.config))
	if err != nil {
		return nil, err
	}
	core.manifest.Config = v1.Descriptor{MediaType: types.OCIConfigJSON, Digest: h, Size: n}
	out.Image, err = partial.CompressedToImage(core)
	return out, err
}

// packedLayer is a blob in the scratch directory.
type packedLayer struct {
	d    v1.Descriptor
	diff v1.Hash
	path string
}

// Digest implements partial.CompressedLayer, as do the next three; DiffID
// spares unpacking the blob again.
func (l *packedLayer) Digest() (v1.Hash, error) { return l.d.Digest, nil }

func (l *packedLayer) DiffID() (v1.Hash, error)            { return l.diff, nil }
func (l *packedLayer) Size() (int64, error)                { return l.d.Size, nil }
func (l *packedLayer) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }
func (l *packedLayer) Compressed() (io.ReadCloser, error)  { return os.Open(l.path) }

func (s *Store) packLayer(ctx context.Context, id LayerID, dir string, compress bool) (*packedLayer, error) {
	f, err := os.OpenFile(filepath.Join(dir, random()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	blob, bare := newDigester(f), newDigester(io.Discard)
	l := &packedLayer{path: f.Name()}
	var to io.WriteCloser = nopCloser{blob}
	l.d.MediaType = types.OCIUncompressedLayer
	if compress {
		to, l.d.MediaType = gzip.NewWriter(blob), types.OCILayer
	}
	bare.w = to
	if err := errors.Join(s.ToTar(ctx, id, bare), to.Close(), f.Close()); err != nil {
		return nil, err
	}
	l.d.Digest, l.d.Size, l.diff = blob.hash(), blob.n, bare.hash()
	return l, nil
}

// packedImage implements partial.CompressedImageCore.
type packedImage struct {
	manifest v1.Manifest
	config   []byte
	layers   []*packedLayer
}

func (p *packedImage) RawManifest() ([]byte, error)        { return json.Marshal(p.manifest) }
func (p *packedImage) MediaType() (types.MediaType, error) { return p.manifest.MediaType, nil }
func (p *packedImage) RawConfigFile() ([]byte, error)      { return p.config, nil }

func (p *packedImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, l := range p.layers {
		if l.d.Digest == h {
			return l, nil
		}
	}
	return nil, fmt.Errorf("layer %s is not in the image", h)
}

// Known adds a digest ("repository@sha256:…") to those by which a named image
// is known.
func (s *Store) Known(name, digest string) error {
	im, err := s.find(name)
	if err != nil {
		return err
	}
	if slices.Contains(im.Digests, digest) {
		return nil
	}
	im.Digests = append(slices.Clone(im.Digests), digest)
	return s.Put(im)
}

// Format is a form in which images leave the store.
type Format string

const (
	FormatDocker Format = "docker" // an archive for "docker load", which holds an OCI layout too
	FormatOCI    Format = "oci"    // an OCI layout
	FormatRootfs Format = "rootfs" // one tree, without configuration
)

// Export writes an image as a tar stream.
func (s *Store) Export(ctx context.Context, im Image, f Format, w io.Writer) error {
	if err := s.export(ctx, im, f, w); err != nil {
		return fmt.Errorf("export %s: %w", im.Name, err)
	}
	return nil
}

func (s *Store) export(ctx context.Context, im Image, f Format, w io.Writer) error {
	switch f {
	case FormatRootfs:
		if len(im.Binds) > 0 {
			return errors.New("it is made of this machine's own directories and cannot leave it")
		}
		return s.rootfsTar(ctx, im.Layers, w)
	case FormatDocker, FormatOCI:
	default:
		return fmt.Errorf("format %q: want docker, oci or rootfs", f)
	}
	o, err := s.pack(ctx, im, f == FormatOCI)
	if err != nil {
		return err
	}
	defer o.Close()
	all, err := o.parts(im.Name, f)
	if err != nil {
		return err
	}
	return writeTar(ctx, all, w)
}

// part is a file of an archive or layout.
type part struct {
	name string
	size int64
	open func() (io.ReadCloser, error)
}

func inMem(name string, b []byte) part {
	return part{name, int64(len(b)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// parts are the files of an OCI layout and, for Docker, the manifest.json of
// its own archives beside it, as Docker 25 and later have it. Each comes once.
func (o *OCIImage) parts(name string, f Format) ([]part, error) {
	m, err := o.Manifest()
	if err != nil {
		return nil, err
	}
	raw, err := o.RawManifest()
	if err != nil {
		return nil, err
	}
	config, err := o.RawConfigFile()
	if err != nil {
		return nil, err
	}
	h, err := o.Digest()
	if err != nil {
		return nil, err
	}
	tagged := familiar(name)
	if strings.Contains(tagged, "@") {
		tagged = repository(name) + ":latest"
	}
	d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: h, Size: int64(len(raw)),
		Annotations: map[string]string{containerdName: tagged, refName: tagged[strings.LastIndexByte(tagged, ':')+1:]}}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	if err != nil {
		return nil, err
	}
	all := []part{inMem("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)), inMem("index.json", index),
		inMem(blobName(h), raw), inMem(blobName(m.Config.Digest), config)}
	layers, err := o.Layers()
	if err != nil {
		return nil, err
	}
	names := []string{}
	for i, l := range layers {
		n := blobName(m.Layers[i].Digest)
		if !slices.Contains(names, n) {
			all = append(all, part{n, m.Layers[i].Size, l.Compressed})
		}
		names = append(names, n)
	}
	if f == FormatDocker {
		b, err := json.Marshal([]any{map[string]any{"Config": blobName(m.Config.Digest), "RepoTags": []string{tagged}, "Layers": names}})
		if err != nil {
			return nil, err
		}
		all = append(all, inMem("manifest.json", b))
	}
	return all, nil
}

func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// copyPart copies exactly what the part says it is.
func copyPart(ctx context.Context, p part, to io.Writer) error {
	r, err := p.open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(to, &capReader{ctx: ctx, r: r, left: p.size + 1})
	return err
}

// writeTar writes files with nothing but names and content.
func writeTar(ctx context.Context, all []part, w io.Writer) error {
	t := tar.NewWriter(w)
	for _, p := range all {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: p.name, Size: p.size, Mode: 0o644, ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		if err := copyPart(ctx, p, t); err != nil {
			return err
		}
	}
	return t.Close()
}

// ExportDir writes an image as an OCI layout that is a directory, which must
// not be there or be empty. It appears when it is complete. Docker's own
// manifest.json is in it, so that `tar -C DIR -c . | docker load` works without
// assay, and with engines that know no layouts.
func (s *Store) ExportDir(ctx context.Context, im Image, dir HostPath) error {
	if err := s.exportDir(ctx, im, string(dir)); err != nil {
		return fmt.Errorf("export %s: %w", im.Name, err)
	}
	return nil
}

func (s *Store) exportDir(ctx context.Context, im Image, dir string) error {
	o, err := s.pack(ctx, im, true)
	if err != nil {
		return err
	}
	defer o.Close()
	all, err := o.parts(im.Name, FormatDocker)
	if err != nil {
		return err
	}
	dir = filepath.Clean(dir)
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, p := range all {
		if err := writePart(ctx, p, tmp); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	err = unix.Rename(tmp, dir) // unlike os.Rename, in place of an empty directory, too
	switch err {
	case nil:
		return nil
	case unix.EEXIST, unix.ENOTEMPTY:
		return fmt.Errorf("%s is not empty; remove it or choose another directory", dir)
	}
	return &fs.PathError{Op: "make", Path: dir, Err: err}
}

func writePart(ctx context.Context, p part, dir string) error {
	to := filepath.Join(dir, p.name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(copyPart(ctx, p, f), f.Close())
}

// rootfsTar writes a stack as it looks when mounted.
func (s *Store) rootfsTar(ctx context.Context, stack []LayerID, out io.Writer) error {
	v, err := s.View(stack)
	if err != nil {
		return err
	}
	roots := map[LayerID]*os.Root{}
	defer func() {
		for _, r := range roots {
			r.Close()
		}
	}()
	tw := tar.NewWriter(out)
	first := map[origin]string{} // of hard links, the name written first
	err = v.Walk(".", func(e Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := v.node(e.Path).layer
		if id == "" {
			return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: int64(e.Mode), Format: tar.FormatPAX})
		}
		o := origin{id, e.Path}
		if e.Hardlink != "" {
			o.path = e.Hardlink
		}
		own := e.Path
		if e.Hardlink = first[o]; e.Hardlink == "" && !e.IsDir() {
			first[o] = e.Path
		}
		if roots[id] == nil {
			r, err := os.OpenRoot(string(s.Dir(id)))
			if err != nil {
				return err
			}
			roots[id] = r
		}
		if err := writeEntry(tw, roots[id], e); err != nil {
			return &fs.PathError{Op: "write", Path: own, Err: err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

// digester counts and digests what passes.
type digester struct {
	w io.Writer
	h hash.Hash
	n int64
}

func newDigester(w io.Writer) *digester { return &digester{w: w, h: sha256.New()} }

func (d *digester) Write(b []byte) (int, error) {
	n, err := d.w.Write(b)
	d.h.Write(b[:n])
	d.n += int64(n)
	return n, err
}

func (d *digester) hash() v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(d.h.Sum(nil))}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
