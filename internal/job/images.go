package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// images resolves each task's image once a job, whoever asks first.
type images struct {
	deps     Deps
	override string
	composed bool                  // services have a place, whatever the backend is
	moved    func(trial.ImageMark) // how far a fetch is; may be nil

	mu      sync.Mutex // guards both below
	made    map[string]*imageOnce
	fetches map[string]*fetch // by reference

	loading sync.Mutex // held while an image that came with the tasks is read
}

type imageOnce struct {
	once sync.Once
	img  image.Image
	used trial.ImageUsed
	note string
	err  error
}

// resolved is a task's image and what must be said aloud about it.
type resolved struct {
	image image.Image
	used  trial.ImageUsed
	note  string // empty, or why this image and not the task's own
}

// environment names what an image is made from.
type environment struct {
	dir      string // build context; may be missing
	name     string // [environment].docker_image
	fallback string // [metadata.assay].fallback_image

	dockerfile string            // relative to dir; empty: "Dockerfile"
	target     string            // stage to build
	args       map[string]string // of the build
	beside     bool              // of a service: --image is not for it
	uid        sandbox.UIDMode   // of RUN, where it is built
}

// request asks for the image to be built.
func (e environment) request(base image.Image, find func(context.Context, string) (image.Image, error)) BuildRequest {
	return BuildRequest{Dir: e.dir, Base: base, Resolve: find, Dockerfile: e.dockerfile, Target: e.target, Args: e.args, UID: e.uid}
}

// builds reports whether there is a Dockerfile.
func (e environment) builds() bool {
	name := e.dockerfile
	if name == "" {
		name = "Dockerfile"
	}
	return e.dir != "" && exists(filepath.Join(e.dir, name))
}

func (m *images) task(ctx context.Context, t *task.Task, uid sandbox.UIDMode) (resolved, error) {
	if err := m.alone(t); err != nil {
		return resolved{}, err
	}
	env := agentEnvironment(t)
	env.uid = uid
	return m.get(ctx, env)
}

func agentEnvironment(t *task.Task) environment {
	return mainEnvironment(t, environment{
		dir:      t.ImageDir(),
		name:     t.Config.Environment.DockerImage,
		fallback: t.Config.Metadata.Assay.FallbackImage,
	})
}

// verifierEnvironment is a separate verifier's own; false: it has none.
func (c Config) verifierEnvironment(t *task.Task, key task.Key) (environment, bool) {
	env := environment{dir: key.ImageDir, name: key.Image, fallback: t.Config.Metadata.Assay.FallbackImage}
	return env, c.verifierMode(key) == task.VerifierSeparate && (env.dir != "" || env.name != "")
}

// alone refuses a task whose Compose file has services beside the agent's where
// the backend has no place for them: without them the task would be another one.
func (m *images) alone(t *task.Task) error {
	beside, err := t.Sidecars()
	if err != nil {
		return &endError{trial.CauseUnsupported, fmt.Errorf("which services %s needs is not known: %w", t.Name, err)}
	}
	if len(beside) == 0 || m.services() {
		return nil
	}
	return &endError{trial.CauseUnsupported, fmt.Errorf(
		"%s needs the docker backend (-e docker): its Compose file has %d services beside the agent's, the first at %v",
		t.Name, len(beside), beside[0])}
}

// get resolves env once; waiting callers share the answer. A fault that may be
// gone the next time is not remembered, so that a retry is one.
func (m *images) get(ctx context.Context, env environment) (resolved, error) {
	key := m.key(env)
	m.mu.Lock()
	o := m.made[key]
	if o == nil {
		o = &imageOnce{}
		if m.made == nil {
			m.made = map[string]*imageOnce{}
		}
		m.made[key] = o
	}
	m.mu.Unlock()
	o.once.Do(func() { o.img, o.used, o.note, o.err = m.resolve(ctx, env) })
	if o.err != nil && passing(o.err) {
		m.mu.Lock()
		if m.made[key] == o {
			delete(m.made, key)
		}
		m.mu.Unlock()
	}
	return resolved{o.img, o.used, o.note}, o.err
}

// known is the error that was remembered of an environment; nil: none, or it
// was not asked for.
func (m *images) known(env environment) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.made[m.key(env)]; o != nil {
		return o.err
	}
	return nil
}

// forget lets an environment be tried again.
func (m *images) forget(env environment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.made, m.key(env))
}

// passing reports whether an image that could not be had may be had next time.
func passing(err error) bool {
	e, known := blame(err, trial.PhaseImage).Ending()
	return known == nil && (e.Retried || e.Fault == trial.FaultCancelled)
}

func (m *images) resolve(ctx context.Context, env environment) (image.Image, trial.ImageUsed, string, error) {
	base := m.base(env)
	if base == "" && env.name != "" {
		// docker_image wins over a Dockerfile, as in Harbor
		img, err := m.finder(env)(ctx, env.name)
		if err == nil {
			return img, trial.ImageUsed{ID: string(img.ID), Source: env.name, Digest: registryDigest(img, env.name)}, "", nil
		}
		return m.fallBack(ctx, env, err)
	}
	if base == "" && !env.builds() {
		return image.Image{}, trial.ImageUsed{}, "", &endError{trial.CauseTaskMalformed,
			fmt.Errorf("%s: neither Dockerfile nor docker_image", env.dir)}
	}
	if base == "" {
		img, err := m.deps.Build(ctx, env.request(image.Image{}, m.finder(env)))
		if err == nil {
			return img, trial.ImageUsed{ID: string(img.ID), Source: "Dockerfile"}, "", nil
		}
		return m.fallBack(ctx, env, err)
	}
	img, err := m.on(ctx, env, base, m.have)
	return img, trial.ImageUsed{ID: string(img.ID), Source: base, Digest: registryDigest(img, base)}, "", err
}

// fallBack uses the task's fallback image, aloud, when and only when the image
// it wanted is not on this machine.
func (m *images) fallBack(ctx context.Context, env environment, err error) (image.Image, trial.ImageUsed, string, error) {
	var missing *image.MissingError
	if !errors.As(err, &missing) || env.fallback == "" {
		return image.Image{}, trial.ImageUsed{}, "", err
	}
	img, err := m.on(ctx, env, env.fallback, m.deps.Resolve)
	note := fmt.Sprintf("image %s is not on this machine: fallback image %q is used instead", missing.Ref, env.fallback)
	return img, trial.ImageUsed{ID: string(img.ID), Source: env.fallback, Digest: registryDigest(img, env.fallback), Fallback: true}, note, err
}

// on applies the task's Dockerfile, if it has one, to another base.
func (m *images) on(ctx context.Context, env environment, name string, find func(context.Context, string) (image.Image, error)) (image.Image, error) {
	base, err := find(ctx, name)
	if err != nil {
		return image.Image{}, err
	}
	if !env.builds() || env.name != "" {
		return base, nil
	}
	return m.deps.Build(ctx, env.request(base, find))
}

// keepImage writes down what an image of the job is made of and leases its
// layers, so that end states can be opened as long as the job exists.
func (r *run) keepImage(img image.Image) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[img.ID] {
		return nil
	}
	if err := r.deps.Images.Lease(imagePath(r.cfg.Dir), img.Layers...); err != nil {
		return fmt.Errorf("lease the image: %w", err)
	}
	if err := writeState(r.cfg.Dir, imageFile(img.ID), raw(img)); err != nil {
		return fmt.Errorf("keep the image: %w", err)
	}
	if r.kept == nil {
		r.kept = map[image.ID]bool{}
	}
	r.kept[img.ID] = true
	return nil
}

// imageFile is the name below a job's .states/ of an image's description.
func imageFile(id image.ID) string {
	return "image-" + short(string(id)) + ".json"
}

// ImageOf reads back what an image that a job ran on is made of.
func ImageOf(dir string, id image.ID) (image.Image, error) {
	var img image.Image
	b, err := os.ReadFile(filepath.Join(dir, store.StatesDir, imageFile(id)))
	if err != nil {
		return img, err
	}
	if err := json.Unmarshal(b, &img); err != nil {
		return img, fmt.Errorf("image of job %s: %w", dir, err)
	}
	if img.ID != id {
		return img, fmt.Errorf("image of job %s: %s is not %s", dir, img.ID, id)
	}
	return img, nil
}
