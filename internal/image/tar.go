package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// TarOptions shape FromTar. The zero value reads an archive as a layer that
// lies on nothing.
type TarOptions struct {
	// Below is the stack that the layer will lie upon, bottom first. An entry
	// below a symbolic link of that stack lands where the link leads inside
	// the image, and directories that the archive leaves out keep their mode.
	Below []LayerID
	// Squash makes everything root's.
	Squash bool
}

// The OCI form of what an archive cannot hold otherwise.
// https://github.com/opencontainers/image-spec/blob/main/layer.md
const (
	whPrefix = ".wh."
	whOpaque = ".wh..wh..opq"
	whMeta   = ".wh..wh." // bookkeeping of file systems that are long gone
)

const paxXattr = "SCHILY.xattr."

// FromTar makes a layer from an uncompressed tar stream, which may be hostile:
// no name leaves the layer, links are content and are resolved among the
// layer's own entries only, and the store's caps hold for the unpacked stream.
// Of two entries with one name the later wins.
func (s *Store) FromTar(ctx context.Context, r io.Reader, o TarOptions) (LayerID, error) {
	w, err := s.NewLayer(ctx, o.Below...)
	if err != nil {
		return "", err
	}
	return w.fromTar(ctx, r, o)
}

// fromTar fills an empty layer and ends it.
func (w *LayerWriter) fromTar(ctx context.Context, r io.Reader, o TarOptions) (LayerID, error) {
	defer w.Abort()
	c := w.s.opt.Caps
	// The stream holds content and at most some KiB of headers per entry.
	capped := &capReader{ctx: ctx, r: r, left: c.Bytes + int64(c.Entries)*1024}
	t := tarReader{w: w, tr: tar.NewReader(capped), o: o}
	for n := 1; ; n++ {
		h, err := t.tr.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.add(h)
		}
		if err != nil {
			return "", fmt.Errorf("read archive: entry %d: %w", n, err)
		}
		if n > c.Entries {
			return "", fmt.Errorf("read archive: %d entries: %w", n, ErrCap)
		}
	}
	// What follows the end mark belongs to the stream: a writer on the other
	// end of a pipe and a digest over the stream wait for it.
	if _, err := io.Copy(io.Discard, capped); err != nil {
		return "", fmt.Errorf("read archive: %w", err)
	}
	return w.Commit()
}

type tarReader struct {
	w  *LayerWriter
	tr *tar.Reader
	o  TarOptions
}

func (t *tarReader) add(h *tar.Header) error {
	p, err := tarPath(h.Name)
	if err != nil {
		return err
	}
	if p != "." {
		if p, err = t.w.Land(p); err != nil {
			return err
		}
	}
	if b := base(p); strings.HasPrefix(b, whPrefix) {
		return t.whiteout(p, b)
	}
	e, err := t.entry(h, p)
	if err != nil {
		return err
	}
	old := t.w.nodes[p]
	e.Opaque = e.IsDir() && old != nil && (old.Type == TypeWhiteout || old.Opaque)
	if h.Typeflag == tar.TypeLink {
		return t.hardlink(h, e)
	}
	if h.Size > t.w.s.opt.Caps.Bytes-t.w.bytes {
		return fmt.Errorf("%q of %d bytes: %w", p, h.Size, ErrCap)
	}
	return t.w.Add(e, t.tr)
}

func (t *tarReader) entry(h *tar.Header, p string) (Entry, error) {
	e := Entry{Path: p, Mode: uint32(h.Mode) & modeBits, UID: h.Uid, GID: h.Gid, ModTime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Type = TypeDir
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont, '\x00':
		e.Type = TypeFile
	case tar.TypeSymlink:
		e.Type, e.Link = TypeSymlink, h.Linkname
	case tar.TypeLink:
		e.Type = TypeFile
	case tar.TypeFifo:
		e.Type = TypeFIFO
	case tar.TypeChar:
		e.Type, e.Major, e.Minor = TypeChar, uint32(h.Devmajor), uint32(h.Devminor)
	case tar.TypeBlock:
		e.Type, e.Major, e.Minor = TypeBlock, uint32(h.Devmajor), uint32(h.Devminor)
	default:
		return e, fmt.Errorf("%q: archive entry of unknown type %q", p, h.Typeflag)
	}
	if t.o.Squash {
		e.UID, e.GID = 0, 0
	}
	for k, v := range h.PAXRecords {
		if k, ok := strings.CutPrefix(k, paxXattr); ok && !reservedXattr(k) {
			if e.Xattrs == nil {
				e.Xattrs = map[string]string{}
			}
			e.Xattrs[k] = v
		}
	}
	return e, nil
}

// tarPath makes an archive's name relative. A leading slash is the image's
// root, as in every tar; ".." is refused wherever it leads.
func tarPath(n string) (string, error) {
	if slices.Contains(strings.Split(n, "/"), "..") {
		return "", fmt.Errorf("archive entry %.200q holds \"..\"", n)
	}
	p := strings.TrimPrefix(path.Clean("/"+n), "/")
	if p == "" {
		p = "."
	}
	return p, nil
}

// Land follows links among p's parents, in this layer and those below, inside
// the image, and returns where p comes to lie. Parents that are missing count
// as directories.
func (w *LayerWriter) Land(p string) (string, error) {
	rest := strings.Split(p, "/")
	last := rest[len(rest)-1]
	rest = rest[:len(rest)-1]
	at := "."
	for links := 0; len(rest) > 0; {
		s := rest[0]
		rest = rest[1:]
		switch s {
		case "", ".":
			continue
		case "..":
			at = parent(at)
			continue
		}
		next := join(at, s)
		target, ok := w.linkAt(next)
		if !ok {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("archive entry %.200q: %w", p, errLoop)
		}
		if strings.HasPrefix(target, "/") {
			at = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return join(at, last), nil
}

func (w *LayerWriter) linkAt(p string) (string, bool) {
	e, ok := w.Lstat(p)
	return e.Link, ok && e.Type == TypeSymlink
}

// Lstat returns what a relative, clean path is in the layer or, where the layer
// says nothing, below it.
func (w *LayerWriter) Lstat(p string) (Entry, bool) {
	if n := w.nodes[p]; n != nil {
		return n.Entry, n.Type != TypeWhiteout
	}
	if w.below == nil {
		return Entry{}, false
	}
	for d := p; d != "."; {
		d = parent(d)
		if n := w.nodes[d]; n != nil && (n.Opaque || !n.IsDir()) {
			return Entry{}, false
		}
	}
	e, err := w.below.Lstat(p)
	return e, err == nil
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// whiteout handles a name of the form .wh.NAME. Such marks speak of the layers
// below only, whatever order the archive has: what this layer holds stays.
func (t *tarReader) whiteout(p, b string) error {
	dir := parent(p)
	if b == whOpaque {
		if err := t.w.ensureDir(dir); err != nil {
			return err
		}
		t.w.nodes[dir].Opaque = true
		return nil
	}
	if strings.HasPrefix(b, whMeta) {
		return nil
	}
	hidden := strings.TrimPrefix(b, whPrefix)
	if hidden == "" || hidden == "." || hidden == ".." {
		return fmt.Errorf("archive entry %.200q hides no name", p)
	}
	p = join(dir, hidden)
	if n := t.w.nodes[p]; n != nil {
		if n.IsDir() {
			n.Opaque = true
		}
		return nil
	}
	return t.w.Add(Entry{Path: p, Type: TypeWhiteout}, nil)
}

// hardlink gives a second name to an entry of the archive. A target that only
// the stack below holds is copied, as an overlay would on writing.
func (t *tarReader) hardlink(h *tar.Header, e Entry) error {
	to, err := tarPath(h.Linkname)
	if err != nil {
		return fmt.Errorf("hard link %q: %w", e.Path, err)
	}
	if to != "." {
		if to, err = t.w.Land(to); err != nil {
			return err
		}
	}
	if to == e.Path && t.w.nodes[to] != nil {
		return nil // some writers link a name to itself
	}
	if t.w.nodes[to] == nil && t.w.below != nil {
		below, err := t.w.below.Lstat(to)
		if err == nil && below.Type == TypeFile {
			f, err := t.w.below.Open(to)
			if err != nil {
				return err
			}
			defer f.Close()
			below.Hardlink = ""
			if err := t.w.Add(below, f); err != nil {
				return err
			}
			if to == e.Path {
				return nil
			}
		}
	}
	e.Hardlink = to
	return t.w.Add(e, nil)
}

// capReader ends a stream that is too long or whose context is over.
type capReader struct {
	ctx  context.Context // of the one call that made this reader
	r    io.Reader
	left int64
}

func (c *capReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.left <= 0 {
		return 0, fmt.Errorf("archive: %w", ErrCap)
	}
	n, err := c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// ToTar writes a layer as an uncompressed OCI layer: marks in the .wh. form,
// attributes as PAX records, names in path order. Sockets are left out, as in
// every tar. A file whose name begins with ".wh." has no such form and is an
// error.
func (s *Store) ToTar(ctx context.Context, id LayerID, out io.Writer) error {
	m, err := s.Manifest(id)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(string(s.Dir(id)))
	if err != nil {
		return fmt.Errorf("write layer %s: %w", id.Short(), err)
	}
	defer root.Close()
	tw := tar.NewWriter(out)
	for _, e := range m.Entries {
		err := ctx.Err()
		if err == nil {
			err = writeEntry(tw, root, e)
		}
		if err != nil {
			return fmt.Errorf("write layer %s: %q: %w", id.Short(), e.Path, err)
		}
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, root *os.Root, e Entry) error {
	if strings.HasPrefix(base(e.Path), whPrefix) {
		return errors.New("an OCI layer cannot hold a name that begins with .wh.")
	}
	h, ok := header(e)
	if !ok {
		return nil
	}
	if e.Type == TypeWhiteout {
		return tw.WriteHeader(h)
	}
	if fi, err := root.Lstat(e.Path); err == nil {
		h.ModTime = fi.ModTime()
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if e.Opaque {
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: join(e.Path, whOpaque), Mode: 0o600, Format: tar.FormatPAX})
	}
	if e.Type != TypeFile || e.Hardlink != "" {
		return nil
	}
	f, err := root.Open(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(tw, f, e.Size)
	return err
}

// header reports false for what a tar cannot hold.
func header(e Entry) (*tar.Header, bool) {
	h := &tar.Header{Name: e.Path, Mode: int64(e.Mode), Uid: e.UID, Gid: e.GID, Format: tar.FormatPAX}
	switch e.Type {
	case TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
	case TypeFile:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	case TypeSymlink:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Link, 0o777
	case TypeFIFO:
		h.Typeflag = tar.TypeFifo
	case TypeChar:
		h.Typeflag, h.Devmajor, h.Devminor = tar.TypeChar, int64(e.Major), int64(e.Minor)
	case TypeBlock:
		h.Typeflag, h.Devmajor, h.Devminor = tar.TypeBlock, int64(e.Major), int64(e.Minor)
	case TypeWhiteout:
		h.Typeflag, h.Mode = tar.TypeReg, 0o600
		h.Name = join(parent(e.Path), whPrefix+base(e.Path))
	default:
		return nil, false
	}
	if e.Hardlink != "" {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, e.Hardlink, 0
	}
	for _, k := range slices.Sorted(maps.Keys(e.Xattrs)) {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[paxXattr+k] = e.Xattrs[k]
	}
	return h, true
}
