package invert

import (
	"context"
	"fmt"
	"slices"
	"time"

	"assay/internal/forge"
	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// Suite runs the whole suite once on the healthy image with a delta upon it,
// and says which of its stable tests do not pass there.
func Suite(ctx context.Context, w *forge.World, d forge.Delta) (Bite, error) {
	img, err := w.Images.Resolve(w.Env.Image)
	if err != nil {
		return Bite{}, fmt.Errorf("the healthy image: %w", err)
	}
	layer, err := forge.Layer(ctx, w.Images, img.Layers, w.Tree, d)
	if err != nil || layer == "" {
		return Bite{}, err
	}
	img.Layers = append(slices.Clone(img.Layers), layer)
	return suiteOn(ctx, w, img)
}

func suiteOn(ctx context.Context, w *forge.World, img image.Image) (Bite, error) {
	passed, err := repo.Passing(ctx, repo.SuiteConfig{Backend: w.Backend, Image: img, Workdir: w.Env.Workdir, Commands: w.Env.Suite.Commands,
		Seed: w.Seed, User: w.Env.User, UID: sandbox.UIDMode(w.Env.UIDMode), Limit: patience(w.Env)})
	if err != nil {
		return Bite{}, err
	}
	var b Bite
	for _, t := range w.Env.Suite.Tests {
		if t.Stability == repo.Stable && !passed[t.Global()] {
			b.Failed = append(b.Failed, t.Global())
		}
	}
	slices.Sort(b.Failed)
	return b, nil
}

// patience is how long a broken suite may take: some faults make it hang.
func patience(env *repo.Environment) time.Duration {
	return max(time.Minute, 8*time.Duration(env.Suite.Millis)*time.Millisecond)
}
