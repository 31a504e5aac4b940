package leak

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"assay/internal/image"
)

// ScanMerged looks for each solution in what can be seen of its own image: not
// in what a whiteout or a later layer hides, since nobody in a sandbox reads a
// lower layer. Layers that several images share are gone through once.
func (s *Scanner) ScanMerged(ctx context.Context, images []image.Image, golds []*Gold) ([]Result, error) {
	out := make([]Result, len(golds))
	views := make([]*image.View, len(images))
	var layers []image.LayerID
	for i, im := range images {
		v, err := s.Store.View(im.Layers)
		if err != nil {
			return nil, fmt.Errorf("look for solutions: %w", err)
		}
		views[i] = v
		for _, id := range im.Layers {
			if !slices.Contains(layers, id) {
				layers = append(layers, id)
			}
		}
	}
	for _, id := range layers {
		look := make([]*Gold, len(golds)) // nil: not in this layer
		for i, g := range golds {
			if slices.Contains(images[i].Layers, id) {
				look[i] = g
			}
		}
		if s.Shared != nil && s.Shared(id) {
			f, err := s.index(ctx, id)
			if err != nil {
				return nil, fmt.Errorf("look for solutions in layer %s: %w", id, err)
			}
			for i, g := range look {
				if g != nil && !f.holds(g) {
					look[i] = nil
				}
			}
		}
		if !slices.ContainsFunc(look, func(g *Gold) bool { return g != nil && len(g.lines) > 0 }) {
			continue
		}
		got := make([]Result, len(golds))
		w := &walk{s: s, layer: id, golds: look, out: got}
		if err := w.layerAll(ctx); err != nil {
			return nil, fmt.Errorf("look for solutions in layer %s: %w", id, err)
		}
		for i := range got {
			out[i].Notes = append(out[i].Notes, got[i].Notes...)
			for _, f := range got[i].Findings {
				if visible(views[i], f) {
					out[i].Findings = append(out[i].Findings, f)
				}
			}
		}
	}
	for i := range out {
		slices.Sort(out[i].Notes)
		out[i].Notes = slices.Compact(out[i].Notes)
	}
	return out, nil
}

// Git reports whether a finding is an object of git's.
func (f Finding) Git() bool {
	return path.Base(f.Path) == "objects" && (strings.HasPrefix(f.Inside, "blob ") || strings.HasPrefix(f.Inside, "commit ") || strings.HasPrefix(f.Inside, "tag "))
}

// visible reports whether a finding of a layer can be seen in a stack of which
// that layer is one. An object that no loose file of its name holds is in a
// pack, and packs are seen with their directory.
func visible(v *image.View, f Finding) bool {
	if !f.Git() {
		id, err := v.Source(f.Path)
		return err == nil && id == f.Layer
	}
	_, name, _ := strings.Cut(f.Inside, " ")
	name, _, _ = strings.Cut(name, " ") // "ab12… in gz"
	if len(name) < 3 {
		return true
	}
	all, err := v.ReadDir(path.Join(f.Path, name[:2]))
	if err == nil {
		for _, e := range all {
			if strings.HasPrefix(path.Base(e.Path), name[2:]) {
				return true
			}
		}
	}
	packs, err := v.ReadDir(path.Join(f.Path, "pack"))
	return err == nil && len(packs) > 0
}
