package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/zstd"
)

// Layer returns the layer that holds a path's entry; empty for what no layer
// describes.
func (v *View) Layer(p string) LayerID {
	n, err := v.find("layer", p)
	if err != nil {
		return ""
	}
	return n.layer
}

// ErrPacked: an archive is compressed in a way that is not read here.
var ErrPacked = errors.New("xz is not unpacked here; pack it with gzip or zstd")

// Archive opens a tar archive, compressed with gzip, bzip2 or zstd or not at
// all. ok is false for anything else; r then has been read from. xz is
// ErrPacked.
func Archive(r io.Reader) (plain io.ReadCloser, ok bool, err error) {
	b := bufio.NewReaderSize(r, 64<<10)
	magic, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	var in io.ReadCloser
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		in, err = gzip.NewReader(b)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var z *zstd.Decoder
		if z, err = zstd.NewReader(b, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(1)); err == nil {
			in = z.IOReadCloser()
		}
	case bytes.HasPrefix(magic, []byte("BZh")):
		in, err = io.NopCloser(bzip2.NewReader(b)), nil
	case bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return nil, false, ErrPacked
	default:
		in, err = io.NopCloser(b), nil
	}
	if err != nil {
		return nil, false, nil // it only begins like one
	}
	// The first entry may have a header of its own before it (PAX, GNU's long
	// names), with the whole of which the library reads it.
	head := bufio.NewReaderSize(in, 64<<10)
	block, _ := head.Peek(64 << 10)
	if _, err := tar.NewReader(bytes.NewReader(block)).Next(); err != nil {
		in.Close()
		return nil, false, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{head, in}, true, nil
}

// Unpack adds the entries of an uncompressed archive below dir, which must be
// there, as tar does: a name that begins with .wh. is a name like others, and
// links of the image are followed inside the image. A nil owner keeps the
// archive's. The caps of FromTar hold.
func (w *LayerWriter) Unpack(ctx context.Context, dir string, r io.Reader, owner *Owner) error {
	c := w.s.opt.Caps
	t := tarReader{w: w, tr: tar.NewReader(&capReader{ctx: ctx, r: r, left: c.Bytes + int64(c.Entries)*1024})}
	for n := 1; ; n++ {
		h, err := t.tr.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.below(dir, h, owner)
		}
		if err != nil {
			return fmt.Errorf("read archive: entry %d: %w", n, err)
		}
		if n > c.Entries {
			return fmt.Errorf("read archive: %d entries: %w", n, ErrCap)
		}
	}
}

func (t *tarReader) below(dir string, h *tar.Header, owner *Owner) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // git archive's commit
	}
	p, err := tarPath(h.Name)
	if err != nil || p == "." {
		return err
	}
	if p, err = t.w.Land(path.Join(dir, p)); err != nil {
		return err
	}
	e, err := t.entry(h, p)
	if err != nil {
		return err
	}
	if owner != nil {
		e.UID, e.GID = owner.UID, owner.GID
	}
	if h.Typeflag == tar.TypeLink {
		h.Linkname = path.Join("/", dir, path.Clean("/"+h.Linkname))
		return t.hardlink(h, e)
	}
	if h.Size > t.w.s.opt.Caps.Bytes-t.w.bytes {
		return fmt.Errorf("%q of %d bytes: %w", p, h.Size, ErrCap)
	}
	return t.w.Add(e, t.tr)
}
