package dockerfile

import (
	"context"
	"errors"
	"io"
	"slices"

	"assay/internal/image"
)

// Bases lists the images that a Build with the same options would take from,
// each once, as the Dockerfile names them; nothing is built. An image that
// Resolve does not find is listed like the others. What the triggers of such a
// base would take from is not known.
func Bases(ctx context.Context, o Options) ([]string, error) {
	if o.Dockerfile == "" {
		o.Dockerfile = "Dockerfile"
	}
	o.Progress = io.Discard
	find := o.Resolve
	if find == nil {
		find = func(_ context.Context, name string) (image.Image, error) { return o.Store.Resolve(name) }
	}
	var names []string
	o.Resolve = func(ctx context.Context, name string) (image.Image, error) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		im, err := find(ctx, name)
		var missing *image.MissingError
		if errors.As(err, &missing) {
			return image.Image{}, nil
		}
		return im, err
	}
	b := &build{o: o, contexts: map[string]*source{}}
	defer b.close()
	if err := b.read(); err != nil {
		return nil, err
	}
	if _, err := b.plan(ctx); err != nil {
		return nil, err
	}
	return names, nil
}
