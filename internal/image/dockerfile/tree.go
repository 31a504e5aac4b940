package dockerfile

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"assay/internal/image"

	"github.com/moby/patternmatcher"
)

// tree is where COPY, ADD and mounts take files from: a build context or the
// layers of an image. Paths are clean and relative, "." is the root; no method
// follows a link.
type tree interface {
	// lstat describes a name, all but a file's digest. What is not there, or
	// is left out by .dockerignore, is fs.ErrNotExist.
	lstat(p string) (item, error)
	// names lists a directory in order.
	names(p string) ([]string, error)
	digest(ctx context.Context, it item) (string, error)
	open(p string) (io.ReadCloser, error)
	// called is the tree's name in messages.
	called() string
}

// item is one name of a tree.
type item struct {
	from  string // in the tree
	to    string // below the destination, "" for itself
	entry image.Entry
	file  string // names files with several links; empty for others
	text  string // of a here-document, where from is empty
}

// maxItems is how many names one COPY may take.
const maxItems = 1_000_000

const maxLinks = 40 // as Linux

// resolve follows links as if the tree's root were "/".
func resolve(t tree, p string) (string, error) {
	rest := strings.Split(p, "/")
	at := "."
	for links := 0; len(rest) > 0; {
		n := rest[0]
		rest = rest[1:]
		if n == "" || n == "." {
			continue
		}
		if n == ".." {
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, n)
		it, err := t.lstat(next)
		if err != nil {
			return "", missing(t, p, err)
		}
		if it.entry.Type != image.TypeSymlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%q: too many levels of symbolic links", p)
		}
		if path.IsAbs(it.entry.Link) {
			at = "."
		}
		rest = append(strings.Split(it.entry.Link, "/"), rest...)
	}
	return at, nil
}

func missing(t tree, p string, err error) error {
	return fmt.Errorf("%q is not in %s: %w", p, t.called(), err)
}

func wild(p string) bool { return strings.ContainsAny(p, `*?[\`) }

// find gives the names that a source of COPY stands for: itself, or what its
// wildcards match. Wildcards that match nothing are no error to BuildKit
// either.
func find(ctx context.Context, t tree, pattern string) ([]string, error) {
	p := strings.TrimPrefix(path.Clean("/"+pattern), "/")
	if p == "" {
		return []string{"."}, nil
	}
	if !wild(p) {
		return []string{p}, nil
	}
	if _, err := path.Match(p, ""); err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	at := []string{"."}
	parts := strings.Split(p, "/")
	for i, part := range parts {
		var next []string
		for _, d := range at {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if !wild(part) {
				next = append(next, path.Join(d, part))
				continue
			}
			dir, err := resolve(t, d)
			if err != nil {
				continue
			}
			names, err := t.names(dir)
			if err != nil {
				continue // what is no directory holds no match
			}
			for _, n := range names {
				if ok, _ := path.Match(part, n); ok {
					next = append(next, path.Join(d, n))
				}
			}
			if len(next) > maxItems {
				return nil, fmt.Errorf("%q: more than %d matches: %w", pattern, maxItems, image.ErrCap)
			}
		}
		at = next
		if i < len(parts)-1 {
			continue
		}
		at = slices.DeleteFunc(at, func(p string) bool {
			_, err := resolve(t, path.Dir(p))
			if err == nil {
				_, err = t.lstat(p)
			}
			return err != nil && wild(p)
		})
	}
	return at, nil
}

// walker collects what lies at a name of a tree.
type walker struct {
	t        tree
	left     int64                          // bytes that files may have, all together
	include  *patternmatcher.PatternMatcher // nil: everything
	exclude  *patternmatcher.PatternMatcher // nil: nothing
	items    []item
	pendings []item // directories that are there only for what they hold
}

// collect lists the name and everything below it, files digested.
func (w *walker) collect(ctx context.Context, name string) error {
	at, err := resolve(w.t, name)
	if err != nil {
		return err
	}
	return w.walk(ctx, at, "", patternmatcher.MatchInfo{}, patternmatcher.MatchInfo{})
}

func (w *walker) walk(ctx context.Context, from, to string, in, out patternmatcher.MatchInfo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(w.items) >= maxItems {
		return fmt.Errorf("more than %d files: %w", maxItems, image.ErrCap)
	}
	it, err := w.t.lstat(from)
	if err != nil {
		return missing(w.t, from, err)
	}
	it.from, it.to = from, to
	take := true
	if to != "" {
		if w.include != nil {
			if take, in, err = w.include.MatchesUsingParentResults(to, in); err != nil {
				return err
			}
		}
		if w.exclude != nil {
			var no bool
			if no, out, err = w.exclude.MatchesUsingParentResults(to, out); err != nil {
				return err
			}
			take = take && !no
		}
	}
	if !it.entry.IsDir() {
		return w.take(ctx, it, take)
	}
	depth := len(w.pendings)
	if take {
		w.flush()
		w.items = append(w.items, it)
	} else {
		w.pendings = append(w.pendings, it)
	}
	names, err := w.t.names(from)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := w.walk(ctx, path.Join(from, n), path.Join(to, n), in, out); err != nil {
			return err
		}
	}
	w.pendings = w.pendings[:min(depth, len(w.pendings))]
	return nil
}

// flush puts down the directories that lead to what is taken now.
func (w *walker) flush() {
	w.items = append(w.items, w.pendings...)
	w.pendings = w.pendings[:0]
}

func (w *walker) take(ctx context.Context, it item, take bool) error {
	if !take || it.entry.Type == image.TypeSocket {
		return nil // sockets as Docker does
	}
	if it.entry.Type == image.TypeFile {
		if w.left -= it.entry.Size; w.left < 0 {
			return fmt.Errorf("%q of %d bytes: more than a layer may hold: %w", it.from, it.entry.Size, image.ErrCap)
		}
		var err error
		if it.entry.Digest, err = w.t.digest(ctx, it); err != nil {
			return err
		}
	}
	w.flush()
	w.items = append(w.items, it)
	return nil
}

// layers is the tree of an image or a stage.
type layers struct {
	v    *image.View
	name string
}

func (l layers) called() string { return l.name }

func (l layers) lstat(p string) (item, error) {
	e, err := l.v.Lstat(p)
	if err != nil {
		return item{}, err
	}
	it := item{entry: e}
	if e.Type == image.TypeFile {
		it.file = string(l.v.Layer(p)) + "\x00" + p
		if e.Hardlink != "" {
			it.file = string(l.v.Layer(p)) + "\x00" + e.Hardlink
		}
	}
	it.entry.Hardlink, it.entry.Opaque = "", false
	return it, nil
}

func (l layers) names(p string) ([]string, error) {
	all, err := l.v.ReadDir(p)
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = path.Base(e.Path)
	}
	return names, err
}

func (l layers) digest(_ context.Context, it item) (string, error) { return it.entry.Digest, nil }

func (l layers) open(p string) (io.ReadCloser, error) {
	r, err := l.v.Open(p)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: err}
	}
	return r, nil
}
