package ns

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// The diff of a snapshot travels as a tar stream with these PAX records.
const (
	paxKind   = "ASSAY.kind"   // kindWhiteout, kindOpaque, kindSocket
	paxDigest = "ASSAY.digest" // of a file's content
	paxLinked = "ASSAY.linked" // other entries link to this one
	paxXattr  = "SCHILY.xattr."

	kindWhiteout = "whiteout"
	kindOpaque   = "opaque"
)

// visibleXattr reports whether an attribute belongs to a tree. One that no layer
// can hold does not: else setting it would be a way out of being judged.
func visibleXattr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.") && image.HoldsXattr(name)
}

// diff writes all that a snapshot's volumes lay upon the layers.
func (k *keeper) diff(q request, pipe io.Writer) error {
	st, err := k.snapshot(q.Snapshot)
	if err != nil {
		return err
	}
	defer k.release(st.holds()...)
	uppers := []string{}
	for _, v := range slices.Backward(st.frozen) {
		uppers = append(uppers, v.upper())
	}
	out := bufio.NewWriterSize(pipe, streamBuffer)
	d := &differ{w: tar.NewWriter(out), links: map[inode]string{}, buf: make([]byte, 128<<10)}
	if err := merge(uppers, d); err != nil {
		return fmt.Errorf("diff %s: %w", q.Snapshot, err)
	}
	if err := d.w.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// differ is the visitor that writes the stream.
type differ struct {
	w     *tar.Writer
	links map[inode]string
	buf   []byte
	holes int64 // bytes of sparse files that nobody wrote
}

// maxHoles bounds a tree's bytes that nobody wrote: a file of many terabytes
// costs a program nothing, and would be read for days.
const maxHoles = 8 << 30

func (d *differ) head(rel string, st *unix.Stat_t, typ byte) *tar.Header {
	return &tar.Header{Name: rel, Typeflag: typ, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), Format: tar.FormatPAX,
		ModTime: time.Unix(st.Mtim.Sec, st.Mtim.Nsec), PAXRecords: map[string]string{}}
}

func (d *differ) enter(rel string, at int, st *unix.Stat_t, opaque bool) error {
	h := d.head(rel+"/", st, tar.TypeDir)
	if opaque {
		h.PAXRecords[paxKind] = kindOpaque
	}
	addXattrs(h, at)
	return d.w.WriteHeader(h)
}

func (d *differ) leave() error { return nil }

func (d *differ) whiteout(rel string) error {
	return d.w.WriteHeader(&tar.Header{Name: rel, Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		PAXRecords: map[string]string{paxKind: kindWhiteout}})
}

func addXattrs(h *tar.Header, fd int) {
	for name, v := range userXattrs(fd) {
		h.PAXRecords[paxXattr+name] = v
	}
}

func (d *differ) leaf(rel string, dir int, base string, st *unix.Stat_t) error {
	linked := false
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		key := inode{uint64(st.Dev), st.Ino}
		if first, ok := d.links[key]; ok {
			h := d.head(rel, st, tar.TypeLink)
			h.Linkname = first
			return d.w.WriteHeader(h)
		}
		d.links[key], linked = rel, true
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to, err := readlinkat(dir, base)
		if err != nil {
			return err
		}
		h := d.head(rel, st, tar.TypeSymlink)
		h.Linkname = to
		return d.w.WriteHeader(markLinked(h, linked))
	case unix.S_IFIFO:
		return d.w.WriteHeader(markLinked(d.head(rel, st, tar.TypeFifo), linked))
	case unix.S_IFREG:
		return d.file(rel, dir, base, st, linked)
	}
	return nil // a socket of a dead process is nothing
}

func markLinked(h *tar.Header, linked bool) *tar.Header {
	if linked {
		h.PAXRecords[paxLinked] = "1"
	}
	return h
}

// file reads the content twice: the digest spares the other side the content
// of a file that is written but not changed.
func (d *differ) file(rel string, dir int, base string, st *unix.Stat_t, linked bool) error {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if d.holes += max(0, st.Size-st.Blocks*512); d.holes > maxHoles {
		return fmt.Errorf("%.200q: more than %d bytes of holes in sparse files: %w", rel, int64(maxHoles), sandbox.ErrTooLarge)
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{fdReader(fd)}, d.buf)
	if err != nil {
		return err
	}
	h := markLinked(d.head(rel, st, tar.TypeReg), linked)
	h.Size = n
	h.PAXRecords[paxDigest] = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	addXattrs(h, fd)
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return err
	}
	if err := d.w.WriteHeader(h); err != nil {
		return err
	}
	m, err := io.CopyBuffer(struct{ io.Writer }{d.w}, io.LimitReader(fdReader(fd), n), d.buf)
	if err == nil && m != n {
		err = fmt.Errorf("%.200q changed although it is frozen", rel)
	}
	return err
}

// peek copies the written volume of a running sandbox.
func (k *keeper) peek(q request) error {
	b, leave, err := k.enter(q.Sandbox, nil)
	if err != nil {
		return err
	}
	defer leave()
	v, err := k.newVolume(b.size.bytes, b.size.inodes, b.disk)
	if err != nil {
		return err
	}
	if err := copyUppers([]string{b.vol.upper()}, v.upper(), k.noFollow); err != nil {
		k.release(v)
		return fmt.Errorf("peek: %w", err)
	}
	st := &stack{layers: b.on.layers, frozen: append(slices.Clone(b.on.frozen), v), covers: b.on.covers}
	k.hold(b.on.holds()...)
	k.mu.Lock()
	k.snaps[q.Snapshot] = st
	k.mu.Unlock()
	return nil
}
