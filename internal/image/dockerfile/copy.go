package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"assay/internal/image"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// piece is one source of a COPY: a tree of the context or a here-document.
type piece struct {
	base  string // its last name
	isDir bool
	items []item
	text  string // of a here-document
}

// copy puts files of the context into the image, as BuildKit does: a
// directory's content, never the directory itself, into the destination; a
// file to it, or into it if it is a directory or is written with a slash.
func (b *build) copy(ctx context.Context, c *instructions.CopyCommand) error {
	pieces, err := b.pieces(ctx, c)
	if err != nil {
		return err
	}
	if len(pieces) == 0 {
		return nil
	}
	dest := b.abs(c.DestPath)
	slash := strings.HasSuffix(c.DestPath, "/") || path.Base(c.DestPath) == "."
	key := []any{"COPY", dest, slash}
	for _, p := range pieces {
		key = append(key, p.base, p.text)
		for _, it := range p.items {
			key = append(key, it.to, it.entry.Type, it.entry.Mode, it.entry.Link, it.entry.Digest)
		}
	}
	return b.cached(b.key(key...), func() (image.LayerID, error) {
		w, err := b.o.Store.NewLayer(ctx, b.stack...)
		if err != nil {
			return "", err
		}
		defer w.Abort()
		t := target{w: w, s: b.source}
		if err := t.into(dest[1:], slash, pieces); err != nil {
			return "", err
		}
		return w.Commit()
	})
}

func (b *build) pieces(ctx context.Context, c *instructions.CopyCommand) ([]piece, error) {
	var all []piece
	for _, src := range c.SourcePaths {
		found, err := b.source.find(src)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			items, err := b.source.collect(ctx, f)
			if err != nil {
				return nil, err
			}
			p := piece{base: path.Base(f), items: items}
			p.isDir = len(items) == 0 || items[0].entry.IsDir()
			all = append(all, p)
		}
	}
	for _, f := range c.SourceContents {
		text := f.Data
		if f.Expand {
			lex := shell.NewLex(b.p.escape)
			lex.RawQuotes, lex.RawEscapes = true, true
			var err error
			if text, _, err = lex.ProcessWord(text, shell.EnvsFromSlice(b.vars.inside())); err != nil {
				return nil, err
			}
		}
		it := inline(f.Path)
		all = append(all, piece{base: f.Path, items: []item{it}, text: text})
	}
	return all, nil
}

// target is the layer that a COPY writes.
type target struct {
	w *image.LayerWriter
	s *source
}

func (t target) into(dest string, slash bool, pieces []piece) error {
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
	if there && !isDir && (slash || pieces[0].isDir) {
		return fmt.Errorf("/%s is a %s, not a directory", dest, e.Type)
	}
	for _, p := range pieces {
		switch {
		case p.isDir:
			err = t.tree(at, p)
		case isDir || slash:
			err = t.one(path.Join(at, p.base), p.items[0], p.text)
		default:
			err = t.one(at, p.items[0], p.text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tree puts a directory's content below at, which keeps its mode if it is
// there and else gets 0755.
func (t target) tree(at string, p piece) error {
	if err := makeDirs(t.w, at, 0, 0); err != nil {
		return err
	}
	for _, it := range p.items {
		if it.to == "" {
			continue
		}
		if err := t.one(path.Join(at, it.to), it, ""); err != nil {
			return err
		}
	}
	return nil
}

// one puts one entry at a path whose parents hold no links.
func (t target) one(at string, it item, text string) error {
	if old, ok := t.w.Lstat(at); ok && old.IsDir() != it.entry.IsDir() && (old.IsDir() || it.entry.IsDir()) {
		return fmt.Errorf("/%s is a %s in the image and a %s in the build context", at, old.Type, it.entry.Type)
	}
	e := it.entry
	e.Path = at
	want := e.Digest
	var r io.Reader
	if e.Type == image.TypeFile && it.from != "" {
		f, err := t.s.open(it.from)
		if err != nil {
			return err
		}
		defer f.Close()
		r = f
	} else if e.Type == image.TypeFile {
		r = strings.NewReader(text)
	}
	if err := t.w.Add(e, r); err != nil {
		return err
	}
	if got, _ := t.w.Lstat(at); want != "" && got.Digest != want {
		return errors.New(it.from + " changed while it was copied")
	}
	return nil
}
