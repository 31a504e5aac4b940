package forge

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"assay/internal/image"
)

// Caps of a delta.
const (
	maxEdits = 20_000
	maxData  = 64 << 20 // bytes of all edits together
)

// Check refuses what no delta may say, whatever tree it is for.
func (d Delta) Check() error {
	if len(d) > maxEdits {
		return fmt.Errorf("delta: %d edits, at most %d", len(d), maxEdits)
	}
	kinds := make(map[string]image.Type, len(d))
	size := 0
	for _, e := range d {
		if err := e.check(); err != nil {
			return fmt.Errorf("delta: %.200q: %w", e.Path, err)
		}
		if _, twice := kinds[e.Path]; twice {
			return fmt.Errorf("delta: %.200q stands there twice", e.Path)
		}
		kinds[e.Path] = e.Type
		if size += len(e.Data); size > maxData {
			return fmt.Errorf("delta: more than %d bytes of content", maxData)
		}
	}
	for _, e := range d {
		for p := path.Dir(e.Path); p != "/"; p = path.Dir(p) {
			if t, ok := kinds[p]; ok && t != image.TypeDir {
				return fmt.Errorf("delta: %.200q is below %.200q, which is removed or is no directory", e.Path, p)
			}
		}
	}
	return nil
}

func (e Edit) check() error {
	switch {
	case !strings.HasPrefix(e.Path, "/") || path.Clean(e.Path) != e.Path || e.Path == "/":
		return errors.New("the path must be absolute and clean, and below the root")
	case !utf8.ValidString(e.Path) || strings.ContainsRune(e.Path, 0):
		return errors.New("the path must be UTF-8 without NUL")
	case e.Type != image.TypeFile && (len(e.Data) > 0 || e.From != ""):
		return errors.New("only a file has content")
	case len(e.Data) > 0 && e.From != "":
		return errors.New("content comes from data or from a path, not from both")
	case (e.Link != "") != (e.Type == image.TypeSymlink):
		return errors.New("a symbolic link, and nothing else, has a target")
	case e.Mode&^0o7777 != 0 || e.UID < 0 || e.GID < 0:
		return fmt.Errorf("mode %o, owner %d:%d", e.Mode, e.UID, e.GID)
	case e.From != "" && (!strings.HasPrefix(e.From, "/") || path.Clean(e.From) != e.From):
		return fmt.Errorf("its content is from %.200q, which is not absolute and clean", e.From)
	case strings.HasPrefix(path.Base(e.Path), ".wh."):
		return errors.New("names of layers' marks (.wh.) cannot be in an image")
	}
	switch e.Type {
	case "", image.TypeFile, image.TypeDir, image.TypeSymlink, image.TypeFIFO:
		return nil
	}
	return fmt.Errorf("a %q cannot be made: only file, dir, symlink, fifo, and nothing", e.Type)
}

// On completes a delta for a tree: directories that are missing above its
// edits are added, edits that remove what is not there are left out, and the
// order becomes that of the paths, parents first. It refuses edits that a link
// of the tree would lead elsewhere.
func (d Delta) On(v *image.View) (Delta, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	all := make(map[string]Edit, len(d))
	for _, e := range d {
		if _, err := v.Lstat(e.Path); e.Type == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if e.From != "" {
			if f, err := v.Lstat(e.From); err != nil || f.Type != image.TypeFile {
				return nil, fmt.Errorf("delta: %q takes its content from %q, which is no file of the image", e.Path, e.From)
			}
		}
		all[e.Path] = e
	}
	for _, e := range d {
		for p := path.Dir(e.Path); p != "/"; p = path.Dir(p) {
			if _, own := all[p]; own {
				continue
			}
			switch at, err := v.Lstat(p); {
			case errors.Is(err, fs.ErrNotExist):
				all[p] = Edit{Path: p, Type: image.TypeDir, Mode: 0o755}
			case err != nil:
				return nil, err
			case !at.IsDir():
				return nil, fmt.Errorf("delta: %q is below %q, which is a %s in the image", e.Path, p, at.Type)
			}
		}
	}
	out := slices.Collect(maps.Values(all))
	slices.SortFunc(out, byPath)
	return out, nil
}

// byPath orders parents before what is below them, whole subtrees together.
func byPath(a, b Edit) int {
	return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
}

// Invert is the delta that leads from the tree with d back to the tree v
// without it, exactly: content, modes, owners, links, attributes and times.
func Invert(d Delta, v *image.View) (Delta, error) {
	d, err := d.On(v)
	if err != nil {
		return nil, err
	}
	var back Delta
	gone := "" // below what is to be removed nothing needs a word
	for _, e := range d {
		if gone != "" && strings.HasPrefix(e.Path, gone+"/") {
			continue
		}
		old, err := v.Lstat(e.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			back, gone = append(back, Edit{Path: e.Path}), e.Path
			continue
		case err != nil:
			return nil, err
		case old.IsDir() && e.Type != image.TypeDir:
			err = v.Walk(e.Path, func(o image.Entry) error {
				was, err := Was(v, "/"+o.Path)
				back = append(back, was)
				return err
			})
		default:
			var was Edit
			was, err = Was(v, e.Path)
			back = append(back, was)
			if !old.IsDir() && e.Type == image.TypeDir {
				gone = e.Path
			}
		}
		if err != nil {
			return nil, fmt.Errorf("invert: %w", err)
		}
	}
	return back, nil
}

// Was is the edit that makes a path what it is in the tree; its content is
// named, not held.
func Was(v *image.View, p string) (Edit, error) {
	o, err := v.Lstat(p)
	if err != nil {
		return Edit{}, err
	}
	e := Edit{Path: "/" + strings.TrimPrefix(o.Path, "/"), Type: o.Type, Mode: o.Mode, UID: o.UID, GID: o.GID, Link: o.Link}
	switch o.Type {
	case image.TypeFile:
		e.From = e.Path
	case image.TypeDir, image.TypeSymlink, image.TypeFIFO:
	default:
		return e, fmt.Errorf("%q is a %s, which a delta cannot bring back", e.Path, o.Type)
	}
	for k, x := range o.Xattrs {
		if e.Xattrs == nil {
			e.Xattrs = map[string][]byte{}
		}
		e.Xattrs[k] = []byte(x)
	}
	if e.Type != image.TypeFile && e.Type != image.TypeDir { // layers keep no others
		return e, nil
	}
	t, err := v.ModTime(p)
	if err != nil {
		return e, err
	}
	e.Time, e.Nanos = t.Unix(), int32(t.Nanosecond())
	return e, nil
}

// Rewrite is the edit that gives a file of the tree other content and leaves
// all else of it.
func Rewrite(v *image.View, p string, content []byte) (Edit, error) {
	e, err := Was(v, p)
	if err != nil {
		return e, err
	}
	if e.Type != image.TypeFile {
		return e, fmt.Errorf("%q is a %s, not a file", p, e.Type)
	}
	e.From, e.Data, e.Time, e.Nanos = "", content, 0, 0
	return e, nil
}

// CopyTree are the edits that put what stands at from, and below it, at to as
// well. With a removal of from they move it.
func CopyTree(v *image.View, from, to string) (Delta, error) {
	var d Delta
	err := v.Walk(from, func(o image.Entry) error {
		e, err := Was(v, o.Path)
		if err != nil {
			return err
		}
		e.Path = to + strings.TrimPrefix("/"+o.Path, from)
		d = append(d, e)
		if len(d) > maxEdits {
			return fmt.Errorf("copy of %q: more than %d names", from, maxEdits)
		}
		return nil
	})
	return d, err
}

// Content is what a file of a delta holds; v is the healthy tree.
func (e Edit) Content(v *image.View) ([]byte, error) {
	if e.From == "" {
		return e.Data, nil
	}
	return v.ReadFile(e.From, maxData)
}

// open is Content as a stream.
func (e Edit) open(v *image.View) (io.ReadCloser, error) {
	if e.From == "" {
		return io.NopCloser(bytes.NewReader(e.Data)), nil
	}
	return v.Open(e.From)
}

// Differ lists paths, at most max, at or below the given ones where two trees
// are not the same: kinds, modes, owners, links, attributes, contents, and,
// where times says so, times.
func Differ(a, b *image.View, roots []string, times bool, max int) ([]string, error) {
	var out []string
	for _, r := range roots {
		x, err := names(a, r)
		if err != nil {
			return nil, err
		}
		y, err := names(b, r)
		if err != nil {
			return nil, err
		}
		for p := range x {
			if _, ok := y[p]; !ok {
				out = append(out, "/"+p)
			}
		}
		for p, e := range y {
			same, err := equal(a, b, x, e, times)
			if err != nil {
				return nil, err
			}
			if !same {
				out = append(out, "/"+p)
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), max)], nil
}

func names(v *image.View, root string) (map[string]image.Entry, error) {
	all := map[string]image.Entry{}
	err := v.Walk(root, func(e image.Entry) error {
		all[e.Path] = e
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

func equal(a, b *image.View, x map[string]image.Entry, e image.Entry, times bool) (bool, error) {
	o, ok := x[e.Path]
	if !ok || o.Type != e.Type || o.Mode != e.Mode || o.UID != e.UID || o.GID != e.GID || o.Link != e.Link ||
		o.Digest != e.Digest || o.Size != e.Size || o.Major != e.Major || o.Minor != e.Minor || !maps.Equal(o.Xattrs, e.Xattrs) {
		return false, nil
	}
	if !times || e.Type != image.TypeFile && e.Type != image.TypeDir { // layers keep no others
		return true, nil
	}
	s, err := a.ModTime(e.Path)
	if err != nil {
		return false, err
	}
	t, err := b.ModTime(e.Path)
	return s.Equal(t), err
}

// roots are the paths of a delta above which nothing of it stands.
func (d Delta) roots() []string {
	sorted := slices.SortedFunc(slices.Values(d), byPath)
	var out []string
	for _, e := range sorted {
		if n := len(out); n > 0 && strings.HasPrefix(e.Path, out[n-1]+"/") {
			continue
		}
		out = append(out, e.Path)
	}
	return out
}

// with is d where nothing of more stands at its paths or above them, then more.
func (d Delta) with(more Delta) Delta {
	own := map[string]bool{}
	for _, e := range more {
		own[e.Path] = true
	}
	out := slices.DeleteFunc(slices.Clone(d), func(e Edit) bool { return own[e.Path] })
	return append(out, more...)
}

// Times says how changed files without a time of their own get one.
type Times int

const (
	_ Times = iota
	// TimesHidden: a second before the old time. Fits tools that go by content,
	// or by a time that is exactly the one they noted.
	TimesHidden
	// TimesLater: after everything in the image. Needed by build tools that make
	// anew what is older than its source.
	TimesLater
)

// Later is the time of changed files under TimesLater: a whole number of
// seconds after the newest of the image, so that equal images give equal times.
func Later(v *image.View, dirs ...string) (time.Time, error) {
	var newest time.Time
	for _, dir := range dirs {
		err := v.Walk(dir, func(e image.Entry) error {
			t, err := v.ModTime(e.Path)
			if t.After(newest) {
				newest = t
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return newest, err
		}
	}
	return newest.Truncate(time.Second).Add(2 * time.Second), nil
}

// stamp gives every edit its time. later is that of TimesLater, zero: hidden.
func (d Delta) stamp(v *image.View, later time.Time) (Delta, error) {
	out := slices.Clone(d)
	for i := range out {
		e := &out[i]
		if e.Type == "" || e.Time != 0 {
			continue
		}
		at, off := e.Path, time.Duration(0)
		if _, err := v.Lstat(e.Path); err != nil {
			for at = path.Dir(at); ; at = path.Dir(at) {
				if _, err := v.Lstat(at); err == nil {
					break
				}
			}
		} else if e.Type == image.TypeFile {
			off = -time.Second
		}
		t, err := v.ModTime(at)
		if err != nil {
			return nil, err
		}
		t = t.Add(off)
		if !later.IsZero() && e.Type == image.TypeFile {
			t = later
		}
		e.Time, e.Nanos = t.Unix(), int32(t.Nanosecond())
		e.Time = cmp.Or(e.Time, 1) // zero would mean that none is said
	}
	return out, nil
}
