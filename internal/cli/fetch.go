package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/image/registry"
	"assay/internal/job"
)

// fetchFunc is job.Deps.Fetch.
type fetchFunc = func(ctx context.Context, ref string, tell func(done, total int64)) (image.Image, error)

// fetcher brings images from registries; nil with --offline.
func (a *app) fetcher(g *grammar, s *image.Store, f registryFlags) (fetchFunc, error) {
	if g.Offline {
		return nil, nil
	}
	c, err := a.jobRegistry(f)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, ref string, tell func(done, total int64)) (image.Image, error) {
		c := c
		c.Progress = func(p registry.Progress) { tell(p.Done, p.Total) }
		p, err := registry.New(s, c).Pull(ctx, ref, registry.PullOptions{})
		return p.Image, err
	}, nil
}

// fetchMissing is resolve, but brings what this machine does not have and tells
// so. A nil fetch brings nothing.
func fetchMissing(resolve func(context.Context, string) (image.Image, error), fetch fetchFunc, tell func(ref string)) func(context.Context, string) (image.Image, error) {
	return func(ctx context.Context, ref string) (image.Image, error) {
		im, err := resolve(ctx, ref)
		var missing *image.MissingError
		if fetch == nil || !errors.As(err, &missing) {
			return im, err
		}
		tell(ref)
		if im, err = fetch(ctx, ref, func(int64, int64) {}); err != nil {
			return im, fmt.Errorf("%w\nfetching it: %w", missing, err)
		}
		return im, nil
	}
}

// jobRegistry is how a job reaches registries. Commands without the flag for
// mirrors take them from the variable.
func (a *app) jobRegistry(f registryFlags) (registry.Config, error) {
	if len(f.Mirrors) == 0 {
		if m, ok := a.Env("ASSAY_REGISTRY_MIRRORS"); ok && m != "" {
			f.Mirrors = []string{m}
		}
	}
	c, err := a.registryConfig(f)
	if err != nil {
		return c, usage(err)
	}
	return c, nil
}

// survey says what images a job needs; asks: registries may be asked.
func (a *app) survey(ctx context.Context, g *grammar, cfg job.Config, f registryFlags) ([]job.ImageNeed, error) {
	images, err := a.openStore(g)
	if err != nil {
		return nil, err
	}
	resolve := func(_ context.Context, ref string) (image.Image, error) {
		if ref == image.HostName {
			return image.Image{Name: ref}, nil
		}
		return images.Resolve(ref)
	}
	deps := job.SurveyDeps{
		Resolve: resolve, Services: g.Env == "docker",
		Bases: func(ctx context.Context, dir string) ([]string, error) {
			return dockerfile.Bases(ctx, dockerfile.Options{Store: images, Dir: image.HostPath(dir), Resolve: resolve})
		},
	}
	if !g.Offline {
		c, err := a.jobRegistry(f)
		if err != nil {
			return nil, err
		}
		client := registry.New(images, c)
		deps.Look = func(ctx context.Context, ref string) (job.Remote, error) {
			m, err := client.Missing(ctx, ref, registry.PullOptions{})
			return job.Remote{Bytes: m.Bytes, Digest: m.Digest}, err
		}
	}
	return job.Survey(ctx, cfg, deps)
}

// allHere refuses a job some of whose images would have to be fetched.
func (a *app) allHere(ctx context.Context, g *grammar, cfg job.Config) error {
	needs, err := a.survey(ctx, g, cfg, registryFlags{})
	if err != nil {
		return err
	}
	var lines []string
	for _, n := range needs {
		if n.State == job.ImageMissing {
			lines = append(lines, fmt.Sprintf("  %s, for %s: %s", n.Name, taskList(n.Tasks), n.Error))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return errors.New("with --offline nothing is fetched, and these images are not on this machine:\n" + strings.Join(lines, "\n") +
		"\nfetch them with 'assay image pull NAME', import them with 'assay image import', or leave --offline out")
}

// taskList names up to three tasks.
func taskList(tasks []string) string {
	if len(tasks) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(tasks[:3], ", "), len(tasks)-3)
	}
	return strings.Join(tasks, ", ")
}
