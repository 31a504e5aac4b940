package forge

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/repo"
)

// steps are a delta in the words of a shell and tar, so that any engine makes
// the same tree of it: copy, remove, unpack, in this order.
type steps struct {
	copies  [][2]string // from, to: whole trees or files, as they are
	removed []string
	spliced []splice // files that change in one place
	rest    Delta    // that is unpacked
	above   Delta    // directories that are not changed, unpacked for their times
}

// smallCopy is how much content is rather packed than copied, in bytes: a line
// of its own is not worth less.
const smallCopy = 4 << 10

// stepsOf takes a complete delta with times apart. from is the tree that it is
// applied to, healthy the one that contents are of; where maps a path whose
// content is wanted to one that has it, metadata and all, in from. Below the
// directory splice, files may be spliced; "" is none.
func stepsOf(d Delta, from, healthy *image.View, where map[string]string, splice string) (steps, error) {
	var s steps
	own := map[string]bool{}
	for _, e := range d {
		own[e.Path] = true
	}
	done := "" // a tree that is copied as a whole
	for i, e := range d {
		if done != "" && strings.HasPrefix(e.Path, done+"/") {
			continue
		}
		if src, ok, err := copied(d[i:], healthy, where); err != nil {
			return s, err
		} else if _, err := from.Lstat(e.Path); ok && err != nil && roomFor(from, path.Dir(e.Path)) {
			s.copies, done = append(s.copies, [2]string{src, e.Path}), e.Path
			continue
		}
		old, err := from.Lstat(e.Path)
		if there := err == nil; e.Type == "" || there && old.Type != e.Type {
			if there {
				s.removed = append(s.removed, e.Path)
			}
			if e.Type == "" {
				continue
			}
		}
		if splice != "" && strings.HasPrefix(e.Path, splice+"/") {
			if one, ok, err := spliceOf(e, from, healthy); err != nil {
				return s, err
			} else if ok {
				s.spliced = append(s.spliced, one)
				continue
			}
		}
		s.rest = append(s.rest, e)
	}
	seen := map[string]bool{}
	for _, e := range d {
		for p := path.Dir(e.Path); p != "/" && !seen[p] && !own[p]; p = path.Dir(p) {
			seen[p] = true
			was, err := Was(from, p)
			if err != nil {
				return s, err
			}
			s.above = append(s.above, was)
		}
	}
	return s, nil
}

// roomFor reports whether a directory can be made at a path before anything is
// removed: what stands nearest above it is one.
func roomFor(from *image.View, p string) bool {
	for ; p != "/"; p = path.Dir(p) {
		if e, err := from.Lstat(p); err == nil {
			return e.IsDir()
		}
	}
	return true
}

// copied reports whether a delta begins with a whole tree, or a file, that
// stands elsewhere just as it is to become, and is worth the line.
func copied(d Delta, healthy *image.View, where map[string]string) (src string, ok bool, err error) {
	root := d[0]
	size := int64(0)
	prefix := "" // of the paths that contents are from
	n := 1
	for ; n <= len(d); n++ {
		e := d[n-1]
		if n > 1 && !strings.HasPrefix(e.Path, root.Path+"/") {
			break
		}
		if e.Type == image.TypeFile {
			tail := strings.TrimPrefix(e.Path, root.Path)
			p, ok := strings.CutSuffix(e.From, tail)
			if e.From == "" || !ok || prefix != "" && p != prefix {
				return "", false, nil
			}
			prefix = p
			f, err := healthy.Lstat(e.From)
			if err != nil {
				return "", false, err
			}
			size += f.Size
		}
	}
	n--
	if prefix == "" || size < smallCopy || prefix == root.Path && where == nil {
		return "", false, nil
	}
	whole, err := CopyTree(healthy, prefix, root.Path)
	if err != nil || len(whole) != n {
		return "", false, err
	}
	slices.SortFunc(whole, byPath)
	for i, e := range whole {
		if !same(e, d[i]) {
			return "", false, nil
		}
	}
	if where != nil {
		at, ok := where[prefix]
		return at, ok, nil
	}
	return prefix, true, nil
}

// same reports whether two edits of one path come to the same.
func same(a, b Edit) bool {
	return a.Path == b.Path && a.Type == b.Type && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Link == b.Link && a.From == b.From &&
		a.Time == b.Time && a.Nanos == b.Nanos && maps.EqualFunc(a.Xattrs, b.Xattrs, bytes.Equal)
}

// archive packs the rest, with the directories above, as a gzipped tar that is
// the same whenever it is made.
func (s steps) archive(healthy *image.View) ([]byte, error) {
	all := slices.Concat(s.above, s.rest)
	slices.SortFunc(all, byPath)
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, e := range all {
		if err := e.tar(w, healthy); err != nil {
			return nil, fmt.Errorf("pack %q: %w", e.Path, err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (e Edit) tar(w *tar.Writer, healthy *image.View) error {
	h := &tar.Header{Name: strings.TrimPrefix(e.Path, "/"), Mode: int64(e.Mode), Uid: e.UID, Gid: e.GID, Linkname: e.Link,
		ModTime: time.Unix(e.Time, int64(e.Nanos)), Format: tar.FormatPAX}
	for k, x := range e.Xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords["SCHILY.xattr."+k] = string(x)
	}
	var content []byte
	switch e.Type {
	case image.TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case image.TypeSymlink:
		h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
	case image.TypeFIFO:
		h.Typeflag = tar.TypeFifo
	default:
		var err error
		if content, err = e.Content(healthy); err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// lines are the shell's part: what is copied, removed and spliced. timed gives
// what is spliced its times.
func (s steps) lines(timed bool) []string {
	var out []string
	for _, c := range s.copies {
		out = append(out, "mkdir -p -- "+repo.Quote(path.Dir(c[1]))+" && cp -a -- "+repo.Quote(c[0])+" "+repo.Quote(c[1]))
	}
	const most = 64 << 10 // bytes of one line
	line := ""
	for _, p := range s.removed {
		if line == "" {
			line = "rm -rf --"
		}
		if line += " " + repo.Quote(p); len(line) > most {
			out, line = append(out, line), ""
		}
	}
	if line != "" {
		out = append(out, line)
	}
	for _, p := range s.spliced {
		out = append(out, p.line(timed))
	}
	return out
}
