package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"assay/internal/image"
)

// maxSaved bounds what an engine sends of one image.
const maxSaved = 256 << 30

// Image takes an image that the engine has into the store, under the name by
// which the engine knows it. One that it has not is an *image.MissingError.
func (b *Backend) Image(ctx context.Context, ref string) (image.Image, error) {
	b.fetching.Lock()
	defer b.fetching.Unlock()
	var missing *image.MissingError
	if im, err := b.conf.Store.Resolve(ref); err == nil || !errors.As(err, &missing) {
		return im, err // somebody else was first
	}
	at := "/images/" + url.PathEscape(ref)
	err := b.api.call(ctx, "GET", at+"/json", nil, nil, nil)
	if isStatus(err, 400, 404) {
		return image.Image{}, &image.MissingError{Ref: ref}
	}
	if err != nil {
		return image.Image{}, fmt.Errorf("ask the engine for image %q: %w", ref, err)
	}
	// Its file has no name, so that nothing stays of a killed process.
	f, err := os.CreateTemp(string(b.conf.Store.Root()), ".engine-")
	if err != nil {
		return image.Image{}, err
	}
	defer f.Close()
	name := f.Name()
	if open := fmt.Sprintf("/proc/self/fd/%d", f.Fd()); exists(open) {
		os.Remove(name)
		name = open
	} else {
		defer os.Remove(name)
	}
	body, err := b.api.do(ctx, "GET", at+"/get", nil, nil, "")
	if err == nil {
		var n int64
		n, err = io.Copy(f, io.LimitReader(body, maxSaved))
		body.Close()
		if err == nil && n == maxSaved {
			err = fmt.Errorf("it is larger than %d bytes", int64(maxSaved))
		}
	}
	if err != nil {
		return image.Image{}, fmt.Errorf("take image %q from the engine: %w", ref, err)
	}
	im, err := b.conf.Store.Import(ctx, image.HostPath(name), ref)
	if err != nil {
		return image.Image{}, fmt.Errorf("take image %q from the engine: %w", ref, err)
	}
	return im, nil
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}
