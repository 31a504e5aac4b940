package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"assay/internal/image"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/patternmatcher"
)

// transfer is a COPY or an ADD.
type transfer struct {
	tree     tree
	what     instructions.SourcesAndDest
	chown    string
	chmod    string
	parents  bool
	excludes []string
	link     bool
	add      bool // archives are unpacked, URLs fetched
	unpack   *bool
	checksum string
}

// piece is one source: a tree, a file, a here-document or an archive.
type piece struct {
	tree    tree
	base    string // its last name
	isDir   bool
	archive bool
	items   []item
}

// transfer puts files into the image, as BuildKit does: a directory's content,
// never the directory itself, into the destination; a file to it, or into it
// if it is a directory or is written with a slash.
func (x *execution) transfer(ctx context.Context, c transfer) error {
	if err := c.check(); err != nil {
		return err
	}
	change, err := modeChange{}, error(nil)
	if c.chmod != "" {
		if change, err = parseMode(c.chmod); err != nil {
			return err
		}
	}
	v, err := x.b.o.Store.View(x.stack)
	if err != nil {
		return err
	}
	var owner *image.Owner
	if c.chown != "" {
		uid, gid, err := userIDs(v, c.chown)
		if err != nil {
			return fmt.Errorf("--chown=%s: %w", c.chown, err)
		}
		owner = &image.Owner{UID: uid, GID: gid}
	}
	pieces, err := x.pieces(ctx, c)
	if err != nil {
		return err
	}
	if len(pieces) == 0 {
		return nil
	}
	dest := x.abs(c.what.DestPath)
	slash := strings.HasSuffix(c.what.DestPath, "/") || path.Base(c.what.DestPath) == "."
	key := []any{"COPY", dest, slash, owner, c.chmod}
	for _, p := range pieces {
		key = append(key, p.base, p.isDir, p.archive, digestsOf(p.items))
	}
	return x.cached(x.b.key(x, key...), func() (image.LayerID, error) {
		w, err := x.b.o.Store.NewLayer(ctx, x.stack...)
		if err != nil {
			return "", err
		}
		defer w.Abort()
		t := target{w: w, owner: owner, mode: change}
		if err := t.into(ctx, dest[1:], slash, pieces); err != nil {
			return "", err
		}
		return w.Commit()
	})
}

func (c *transfer) check() error {
	switch {
	case c.link && c.chown != "" && strings.Trim(c.chown, "0123456789:") != "":
		return fmt.Errorf("--link with --chown=%s: names cannot be looked up, write numbers", c.chown)
	case c.checksum != "" && (len(c.what.SourcePaths) != 1 || !isURL(c.what.SourcePaths[0])):
		return errors.New("--checksum needs exactly one source, a URL")
	}
	return nil
}

// digestsOf is what of items decides a step's result.
func digestsOf(items []item) []any {
	var all []any
	files := map[string]int{}
	for _, it := range items {
		n := -1 // the first name of the same file
		if it.file != "" {
			if first, ok := files[it.file]; ok {
				n = first
			} else {
				files[it.file] = len(all)
			}
		}
		e := it.entry
		all = append(all, []any{it.to, e.Type, e.Mode, e.UID, e.GID, e.Xattrs, e.Link, e.Digest, e.Major, e.Minor, n, it.text})
	}
	return all
}

func (x *execution) pieces(ctx context.Context, c transfer) ([]piece, error) {
	var all []piece
	exclude, err := matcher(c.excludes)
	if err != nil {
		return nil, fmt.Errorf("--exclude: %w", err)
	}
	for _, src := range c.what.SourcePaths {
		var more []piece
		switch {
		case c.add && isURL(src):
			more, err = x.fetched(ctx, c, src)
		case c.parents:
			more, err = withParents(ctx, c.tree, x.b.o.Store.Caps().Bytes, src, exclude)
		default:
			more, err = x.named(ctx, c, src, exclude)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	for _, f := range c.what.SourceContents {
		it := item{entry: image.Entry{Path: f.Path, Type: image.TypeFile, Mode: 0o644}, text: f.Data}
		all = append(all, piece{base: f.Path, items: []item{it}})
	}
	return all, nil
}

func matcher(patterns []string) (*patternmatcher.PatternMatcher, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	return patternmatcher.New(patterns)
}

// named are the pieces that a path or a pattern stands for.
func (x *execution) named(ctx context.Context, c transfer, src string, exclude *patternmatcher.PatternMatcher) ([]piece, error) {
	found, err := find(ctx, c.tree, src)
	if err != nil {
		return nil, err
	}
	var all []piece
	for _, f := range found {
		w := walker{t: c.tree, left: x.b.o.Store.Caps().Bytes, exclude: exclude}
		if err := w.collect(ctx, f); err != nil {
			return nil, err
		}
		p := piece{tree: c.tree, base: path.Base(f), items: w.items}
		p.isDir = len(w.items) == 0 || w.items[0].entry.IsDir()
		if exclude != nil && !p.isDir && wild(src) {
			if no, err := exclude.MatchesOrParentMatches(p.base); err != nil || no {
				continue
			}
		}
		if unpack := c.add && (c.unpack == nil || *c.unpack); unpack && !p.isDir {
			if p.archive, err = isArchive(c.tree, w.items[0]); err != nil {
				return nil, fmt.Errorf("%q: %w", f, err)
			}
		}
		all = append(all, p)
	}
	return all, nil
}

func isArchive(t tree, it item) (bool, error) {
	if it.entry.Type != image.TypeFile || it.entry.Size == 0 {
		return false, nil
	}
	f, err := t.open(it.from)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r, ok, err := image.Archive(f)
	if ok {
		r.Close()
	}
	return ok, err
}

// withParents is COPY --parents: directories above the source come along, from
// the pivot "/./" on where there is one.
func withParents(ctx context.Context, t tree, left int64, src string, exclude *patternmatcher.PatternMatcher) ([]piece, error) {
	root, pattern, ok := strings.Cut(src, "/./")
	if !ok {
		root, pattern = "/", src
	}
	pattern = strings.TrimPrefix(path.Clean("/"+pattern), "/")
	if pattern == "" {
		pattern = "**"
	}
	include, err := matcher([]string{pattern})
	if err != nil {
		return nil, fmt.Errorf("%q: %w", src, err)
	}
	roots, err := find(ctx, t, root)
	if err != nil {
		return nil, err
	}
	var all []piece
	for _, r := range roots {
		if !wild(root) && !wild(pattern) {
			if _, err := t.lstat(path.Join(r, pattern)); err != nil {
				return nil, missing(t, path.Join(r, pattern), err)
			}
		}
		w := walker{t: t, left: left, include: include, exclude: exclude}
		if err := w.collect(ctx, r); err != nil {
			return nil, err
		}
		all = append(all, piece{tree: t, base: path.Base(r), isDir: true, items: w.items})
	}
	return all, nil
}

// target is the layer that a step writes.
type target struct {
	w     *image.LayerWriter
	owner *image.Owner // nil: the sources', root for what is made
	mode  modeChange
	first map[string]string // the first target of a file with several names
}

func newTarget(w *image.LayerWriter) *target { return &target{w: w, first: map[string]string{}} }

func (t *target) into(ctx context.Context, dest string, slash bool, pieces []piece) error {
	for _, p := range pieces {
		at, err := t.w.Land(path.Join(dest, "x"))
		if err != nil {
			return err
		}
		at = path.Dir(at)
		e, there := t.w.Lstat(at)
		isDir := at == "." || there && e.IsDir()
		if len(pieces) > 1 && !isDir && !slash {
			return fmt.Errorf("several sources need a directory as destination: write it with a slash, /%s/", dest)
		}
		if there && !isDir && (slash || p.isDir || p.archive) {
			return fmt.Errorf("/%s is a %s, not a directory", dest, e.Type)
		}
		t.first = map[string]string{}
		switch {
		case p.archive:
			err = t.archive(ctx, at, p)
		case p.isDir:
			err = t.tree(ctx, at, p)
		case isDir || slash:
			err = t.one(ctx, path.Join(at, p.base), p.items[0], p.tree)
		default:
			err = t.one(ctx, at, p.items[0], p.tree)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dirs makes a directory and its missing parents.
func (t *target) dirs(p string) error {
	mode, uid, gid := uint32(0o755), 0, 0
	if t.mode.set && t.mode.clauses == nil {
		mode = t.mode.octal & 0o777
	}
	if t.owner != nil {
		uid, gid = t.owner.UID, t.owner.GID
	}
	return makeDirs(t.w, p, mode, uid, gid)
}

func (t *target) archive(ctx context.Context, at string, p piece) error {
	if at != "." {
		if err := makeDirs(t.w, at, 0o755, t.uid(), t.gid()); err != nil {
			return err
		}
	}
	f, err := p.tree.open(p.items[0].from)
	if err != nil {
		return err
	}
	defer f.Close()
	r, ok, err := image.Archive(f)
	if err != nil {
		return err
	}
	if !ok {
		return errors.New(p.items[0].from + " changed while it was read")
	}
	defer r.Close()
	return t.w.Unpack(ctx, at, r, t.owner)
}

func (t *target) uid() int {
	if t.owner == nil {
		return 0
	}
	return t.owner.UID
}

func (t *target) gid() int {
	if t.owner == nil {
		return 0
	}
	return t.owner.GID
}

// tree puts a directory's content below at, which keeps its mode if it is
// there.
func (t *target) tree(ctx context.Context, at string, p piece) error {
	if err := t.dirs(at); err != nil {
		return err
	}
	for _, it := range p.items {
		if it.to == "" {
			continue
		}
		if err := t.one(ctx, path.Join(at, it.to), it, p.tree); err != nil {
			return err
		}
	}
	return nil
}

// one puts one entry at a path whose parents hold no links.
func (t *target) one(ctx context.Context, at string, it item, from tree) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if old, ok := t.w.Lstat(at); ok && old.IsDir() != it.entry.IsDir() {
		return fmt.Errorf("/%s is a %s in the image and a %s in the source", at, old.Type, it.entry.Type)
	}
	if dir := path.Dir(at); dir != "." {
		if _, ok := t.w.Lstat(dir); !ok {
			if err := t.dirs(dir); err != nil {
				return err
			}
		}
	}
	e := it.entry
	e.Path = at
	if t.owner != nil {
		e.UID, e.GID = t.owner.UID, t.owner.GID
	}
	if e.Type != image.TypeSymlink {
		e.Mode = t.mode.apply(e.Mode, e.IsDir())
	}
	if first := t.first[it.file]; it.file != "" && first != "" {
		e.Hardlink = first
		return t.w.Add(e, nil)
	}
	want := e.Digest
	var r io.Reader
	if e.Type == image.TypeFile && it.from != "" {
		f, err := from.open(it.from)
		if err != nil {
			return err
		}
		defer f.Close()
		if file, ok := f.(*os.File); ok && e.ModTime.IsZero() {
			if fi, err := file.Stat(); err == nil {
				e.ModTime = fi.ModTime()
			}
		}
		r = f
	} else if e.Type == image.TypeFile {
		r = strings.NewReader(it.text)
	}
	if err := t.w.Add(e, r); err != nil {
		return err
	}
	if got, _ := t.w.Lstat(at); want != "" && got.Digest != want {
		return errors.New(it.from + " changed while it was copied")
	}
	if it.file != "" {
		t.first[it.file] = at
	}
	return nil
}

// makeDirs makes p and its missing parents.
func makeDirs(w *image.LayerWriter, p string, mode uint32, uid, gid int) error {
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		at, err := w.Land(path.Join(p[:i], "x"))
		if err != nil {
			return err
		}
		at = path.Dir(at)
		if e, ok := w.Lstat(at); ok && e.IsDir() || at == "." {
			continue
		} else if ok {
			return fmt.Errorf("/%s is a %s, not a directory", at, e.Type)
		}
		if err := w.Add(image.Entry{Path: at, Type: image.TypeDir, Mode: mode, UID: uid, GID: gid}, nil); err != nil {
			return err
		}
	}
	return nil
}
