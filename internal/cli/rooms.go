package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/docker"
	"assay/internal/sandbox/ns"
)

// rooms are the parts that commands which run something need: the layer store
// and a backend on it.
type rooms struct {
	images  *image.Store
	backend sandbox.Backend
	host    func() (image.Image, error) // made once
}

// resolve finds an image by name.
func (r *rooms) resolve(ctx context.Context, ref string) (image.Image, error) {
	if ref == image.HostName {
		return r.host()
	}
	im, err := r.images.Resolve(ref)
	var missing *image.MissingError
	if e, ok := r.backend.(*docker.Backend); ok && errors.As(err, &missing) {
		return e.Image(ctx, ref) // the engine may have it
	}
	return im, err
}

func (r *rooms) Close() error {
	if r.backend == nil {
		return r.images.Close()
	}
	return errors.Join(r.backend.Close(), r.images.Close())
}

// storeDir is where layers lie: the flag, else below the user's cache. Real
// root keeps them where the unprivileged id its sandboxes run as can reach.
func (a *app) storeDir(g *grammar) (string, error) {
	if g.Store != "" {
		return filepath.Abs(g.Store)
	}
	if ns.Owner() != nil {
		return "/var/lib/assay", nil
	}
	if dir, ok := a.Env("XDG_CACHE_HOME"); ok && dir != "" {
		return filepath.Join(dir, "assay"), nil
	}
	home, ok := a.Env("HOME")
	if !ok || home == "" {
		return "", usagef("neither HOME nor XDG_CACHE_HOME is set: say where layers are kept with --store DIR")
	}
	return filepath.Join(home, ".cache", "assay"), nil
}

func (a *app) openStore(g *grammar) (*image.Store, error) {
	dir, err := a.storeDir(g)
	if err != nil {
		return nil, err
	}
	s, err := image.Open(image.HostPath(dir), image.Options{Owner: ns.Owner()})
	if err != nil {
		return nil, fmt.Errorf("open the layer store: %w", err)
	}
	return s, nil
}

// openDocker connects to the engine that the environment names.
func (a *app) openDocker(ctx context.Context, images *image.Store) (sandbox.Backend, error) {
	host, _ := a.Env("DOCKER_HOST")
	self, _ := a.Env("ASSAY_DOCKER_INIT")
	return docker.Open(ctx, docker.Config{Store: images, Host: host, Program: self})
}

// open opens the store and starts the backend that was asked for.
func (a *app) open(ctx context.Context, g *grammar) (*rooms, error) {
	images, err := a.openStore(g)
	if err != nil {
		return nil, err
	}
	if g.Env == "docker" {
		backend, err := a.openDocker(ctx, images)
		if err != nil {
			return nil, err
		}
		return newRooms(ctx, images, backend), nil
	}
	dir, _ := a.storeDir(g)
	backend, err := ns.Open(ctx, ns.Config{Store: images, Scratch: image.HostPath(filepath.Join(dir, "scratch"))})
	if err != nil {
		return nil, err
	}
	return newRooms(ctx, images, backend), nil
}

func newRooms(ctx context.Context, images *image.Store, backend sandbox.Backend) *rooms {
	return &rooms{images: images, backend: backend, host: sync.OnceValues(func() (image.Image, error) {
		return images.Host(ctx, image.HostOptions{})
	})}
}
