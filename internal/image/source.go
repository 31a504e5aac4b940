package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"assay/internal/remove"
)

// Import reads an image from a file or directory of this machine and names it.
// It recognises a root file system as a directory or tar, the output of
// "docker save", and an OCI layout as a directory or tar; tars may be
// compressed with gzip or zstd. An empty name takes the one in the archive. An
// archive of several images needs a name that it holds.
func (s *Store) Import(ctx context.Context, path HostPath, name string) (Image, error) {
	im, err := s.read(ctx, string(path), name)
	if err != nil {
		return Image{}, fmt.Errorf("import %s: %w", path, err)
	}
	if im.Name == "" {
		return Image{}, fmt.Errorf("import %s: it holds no name for the image; give one", path)
	}
	if err := s.Put(im); err != nil {
		return Image{}, fmt.Errorf("import %s: %w", path, err)
	}
	return im, nil
}

// Read is Import without giving the image its name in the store; its layers are
// held.
func (s *Store) Read(ctx context.Context, path HostPath, name string) (Image, error) {
	im, err := s.read(ctx, string(path), name)
	if err != nil {
		err = fmt.Errorf("read %s: %w", path, err)
	}
	return im, err
}

func (s *Store) read(ctx context.Context, path, name string) (Image, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Image{}, err
	}
	if fi.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "oci-layout")); err == nil {
			return s.fromLayout(ctx, path, name)
		}
		return s.fromRootfs(ctx, path, name)
	}
	if !fi.Mode().IsRegular() {
		return Image{}, fmt.Errorf("a %s is neither a directory nor an archive", fi.Mode().Type())
	}
	kind, packed, err := recognise(path)
	if err != nil {
		return Image{}, err
	}
	if kind == rootfsTar {
		return s.fromRootfsTar(ctx, path, name)
	}
	if packed {
		// These formats are read out of order, several times.
		tmp, err := s.unpack(ctx, path)
		if err != nil {
			return Image{}, err
		}
		defer tmp.remove()
		path = tmp.path
	}
	if kind == dockerSave {
		return s.fromDockerSave(ctx, path, name)
	}
	return s.fromLayoutTar(ctx, path, name)
}

type archiveKind int

const (
	_ archiveKind = iota
	rootfsTar
	dockerSave
	ociTar
)

// recognise tells archives apart by their names alone: the two image formats
// hold nothing but a few well-known ones.
func recognise(path string) (kind archiveKind, packed bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	r, packed, err := decompress(f)
	if err != nil {
		return 0, packed, err
	}
	defer r.Close()
	var in io.Reader = r
	if !packed {
		in = f // can be seeked over content
	}
	tr := tar.NewReader(in)
	var manifest, layout bool
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF && n > 0 {
			break
		}
		if err != nil {
			return 0, packed, fmt.Errorf("not a tar archive that can be read: %w", err)
		}
		p := strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), "/")
		top, rest, _ := strings.Cut(p, "/")
		switch {
		case p == "":
		case p == "manifest.json":
			manifest = true
		case p == "oci-layout":
			layout = true
		case p == "index.json", p == "repositories", top == "blobs":
		case isHex(strings.TrimSuffix(top, ".json")):
		case strings.HasSuffix(p, ".tar") && rest == "", strings.HasSuffix(p, ".tar.gz") && rest == "":
		case strings.HasPrefix(p, "sha256:") && rest == "": // a configuration, as go-containerregistry writes it
		default:
			return rootfsTar, packed, nil
		}
	}
	switch {
	case manifest:
		return dockerSave, packed, nil
	case layout:
		return ociTar, packed, nil
	}
	return 0, packed, errors.New("neither a root file system nor an image: no manifest.json, no oci-layout " +
		"(archives of Docker before 1.10 are not read; load and save them again)")
}

func isHex(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

const zstdWindow = 128 << 20 // bytes of memory that an archive may ask for

// decompress opens gzip and zstd by their first bytes and passes anything else
// through. It reads ahead; packed is false if f can be read from its current
// beginning instead.
func decompress(f io.ReadSeeker) (r io.ReadCloser, packed bool, err error) {
	magic := make([]byte, 4)
	n, err := io.ReadFull(f, magic)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, false, err
	}
	magic = magic[:n]
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, false, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
		return z, true, err
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, true, err
		}
		return z.IOReadCloser(), true, nil
	case bytes.HasPrefix(magic, []byte("BZh")), bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X'}):
		return nil, true, errors.New("compressed with bzip2 or xz, which is not read; unpack it first")
	}
	return io.NopCloser(f), false, nil
}

// scratch is a file or directory of the store's tmp that lives for one import.
type scratch struct {
	path string
	lock *fileLock
}

func (s *Store) scratch() (scratch, error) {
	p := s.path(tmpDir, random())
	l, err := lockNew(p + lockSuffix)
	return scratch{p, l}, err
}

func (t scratch) remove() {
	_ = remove.Tree(t.path) // what stays is the collector's
	t.lock.removeAndUnlock()
}

// unpack decompresses an archive into a scratch file.
func (s *Store) unpack(ctx context.Context, path string) (t scratch, err error) {
	f, err := os.Open(path)
	if err != nil {
		return t, err
	}
	defer f.Close()
	r, _, err := decompress(f)
	if err != nil {
		return t, err
	}
	defer r.Close()
	if t, err = s.scratch(); err != nil {
		return t, err
	}
	if err = copyTo(t.path, &capReader{ctx: ctx, r: r, left: s.opt.Caps.Bytes}); err != nil {
		t.remove()
	}
	return t, err
}

func copyTo(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

func (s *Store) fromRootfsTar(ctx context.Context, path, name string) (Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	r, _, err := decompress(f)
	if err != nil {
		return Image{}, err
	}
	defer r.Close()
	id, err := s.FromTar(ctx, r, TarOptions{})
	if err != nil {
		return Image{}, err
	}
	return s.bare(id, name)
}

// bare makes an image of a root file system, which has no configuration, once
// it looks like one.
func (s *Store) bare(id LayerID, name string) (Image, error) {
	v, err := s.View([]LayerID{id})
	if err != nil {
		return Image{}, err
	}
	for _, d := range []string{"bin", "usr", "etc", "lib", "sbin"} {
		if _, err := v.Lstat(d); err == nil {
			return New(name, []LayerID{id}, nil, Config{}), nil
		}
	}
	return Image{}, errors.New("no root file system: none of bin, usr, etc, lib and sbin is there")
}

func (s *Store) fromRootfs(ctx context.Context, dir, name string) (Image, error) {
	id, err := s.FromDir(ctx, HostPath(dir), DirOptions{})
	if err != nil {
		return Image{}, err
	}
	return s.bare(id, name)
}

// fromLayoutTar unpacks an OCI layout, of which only the well-known names are
// taken.
func (s *Store) fromLayoutTar(ctx context.Context, path, name string) (Image, error) {
	t, err := s.scratch()
	if err != nil {
		return Image{}, err
	}
	defer t.remove()
	if err := os.MkdirAll(filepath.Join(t.path, "blobs", "sha256"), 0o700); err != nil {
		return Image{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	left := s.opt.Caps.Bytes
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return Image{}, err
		}
		p := strings.TrimPrefix(h.Name, "./")
		blob, isBlob := strings.CutPrefix(p, "blobs/sha256/")
		if p != "oci-layout" && p != "index.json" && !(isBlob && isHex(blob)) || h.Typeflag != tar.TypeReg {
			continue
		}
		if left -= h.Size; left < 0 {
			return Image{}, fmt.Errorf("archive: %w", ErrCap)
		}
		err = copyTo(filepath.Join(t.path, p), &capReader{ctx: ctx, r: tr, left: h.Size + 1})
		if errors.Is(err, fs.ErrExist) {
			err = nil // the first of two equal names
		}
		if err != nil {
			return Image{}, err
		}
	}
	return s.fromLayout(ctx, t.path, name)
}
