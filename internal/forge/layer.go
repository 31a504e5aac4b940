package forge

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"assay/internal/image"
)

// Layer commits a delta as a layer upon a stack. healthy is the tree that the
// delta takes content from; removals become whiteouts. An empty delta gives no
// layer.
func Layer(ctx context.Context, s *image.Store, stack []image.LayerID, healthy *image.View, d Delta) (image.LayerID, error) {
	v, err := s.View(stack)
	if err != nil {
		return "", fmt.Errorf("layer of a delta: %w", err)
	}
	if d, err = d.onto(v, healthy); err != nil || len(d) == 0 {
		return "", err
	}
	if d, err = d.stamp(v, time.Time{}); err != nil {
		return "", fmt.Errorf("layer of a delta: %w", err)
	}
	w, err := s.NewLayer(ctx, stack...)
	if err != nil {
		return "", err
	}
	defer w.Abort()
	if err := fill(w, v, healthy, d); err != nil {
		return "", fmt.Errorf("layer of a delta: %w", err)
	}
	return w.Commit()
}

// onto is On for a tree other than the one that contents come from.
func (d Delta) onto(v, healthy *image.View) (Delta, error) {
	from := map[string]string{}
	bare := make(Delta, len(d))
	for i, e := range d {
		if e.From != "" {
			if f, err := healthy.Lstat(e.From); err != nil || f.Type != image.TypeFile {
				return nil, fmt.Errorf("delta: %q takes its content from %q, which is no file of the healthy image", e.Path, e.From)
			}
			from[e.Path], e.From = e.From, ""
		}
		bare[i] = e
	}
	out, err := bare.On(v)
	for i := range out {
		out[i].From = from[out[i].Path]
	}
	return out, err
}

// fill writes edits that are complete and have their times.
func fill(w *image.LayerWriter, v, healthy *image.View, d Delta) error {
	above := map[string]bool{}
	for _, e := range d {
		// Directories above keep their times: a new one would show the place.
		for p := path.Dir(e.Path); !above[p]; p = path.Dir(p) {
			above[p] = true
			if err := keep(w, v, p); err != nil {
				return err
			}
			if p == "/" {
				break
			}
		}
	}
	for _, e := range d {
		if err := e.into(w, healthy); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
	}
	return nil
}

// keep puts a directory of the tree into the layer as it is.
func keep(w *image.LayerWriter, v *image.View, p string) error {
	old, err := v.Lstat(p)
	if err != nil || !old.IsDir() {
		return nil // one of the delta's own, which comes by itself
	}
	if old.ModTime, err = v.ModTime(p); err != nil {
		return err
	}
	return w.Add(old, nil)
}

func (e Edit) into(w *image.LayerWriter, healthy *image.View) error {
	to := image.Entry{Path: strings.TrimPrefix(e.Path, "/"), Type: e.Type}
	if e.Type == "" {
		to.Type = image.TypeWhiteout
		return w.Add(to, nil)
	}
	to.UID, to.GID, to.Link = e.UID, e.GID, e.Link
	if e.Type != image.TypeSymlink {
		to.Mode = e.Mode
	}
	to.ModTime = time.Unix(e.Time, int64(e.Nanos))
	for k, x := range e.Xattrs {
		if to.Xattrs == nil {
			to.Xattrs = map[string]string{}
		}
		to.Xattrs[k] = string(x)
	}
	if e.Type != image.TypeFile {
		return w.Add(to, nil)
	}
	r, err := e.open(healthy)
	if err != nil {
		return err
	}
	defer r.Close()
	return w.Add(to, r)
}
