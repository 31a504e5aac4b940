package job

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"assay/internal/image"
)

// ImageState says what must be done for an image before trials can run on it.
type ImageState string

const (
	ImageHere     ImageState = "present"
	ImageShipped  ImageState = "shipped"  // it came with the tasks, and is read when it is needed
	ImageFetch    ImageState = "fetch"    // a registry has it
	ImageBuild    ImageState = "build"    // from a Dockerfile; steps that are cached cost nothing
	ImageFallback ImageState = "fallback" // it is missing; the tasks' fallback takes its place
	ImageMissing  ImageState = "missing"  // it is not here and cannot be had: Error says why
	ImageBroken   ImageState = "broken"   // the Dockerfile cannot be built: Error says why
)

// ImageNeed is one image that trials of a job stand on, or that a Dockerfile of
// theirs takes from.
type ImageNeed struct {
	Name   string     `json:"name"` // of a build: the Dockerfile's directory
	State  ImageState `json:"state"`
	Tasks  []string   `json:"tasks"`                 // that need it
	Bases  []string   `json:"bases,omitempty"`       // of a build
	Bytes  *int64     `json:"fetch_bytes,omitempty"` // to fetch, compressed; null: nothing, or not known
	Digest string     `json:"digest,omitempty"`      // of the manifest, here or to be fetched
	Error  string     `json:"error,omitempty"`

	fallback string
	context  string // of the build that needs it
}

// Remote is what a registry says of an image.
type Remote struct {
	Bytes  int64  // to fetch, compressed; what is here is not counted
	Digest string // of its manifest
}

// SurveyDeps are the rooms that a survey asks.
type SurveyDeps struct {
	Resolve func(ctx context.Context, ref string) (image.Image, error)
	// Services says that the trials' backend has a place for services.
	Services bool
	// Bases lists the images that a Dockerfile takes from.
	Bases func(ctx context.Context, dir string) ([]string, error)
	// Look asks a registry; nil: nobody is asked, and what is not here is missing.
	Look func(ctx context.Context, ref string) (Remote, error)
}

// Survey says what images the trials of a job need and what must be done for
// them. It fetches and builds nothing.
func Survey(ctx context.Context, cfg Config, deps SurveyDeps) ([]ImageNeed, error) {
	s := &survey{deps: deps, at: map[string]int{}}
	m := &images{override: cfg.Image, composed: deps.Services}
	for _, t := range cfg.Tasks {
		r := run{cfg: cfg, images: m}
		for _, env := range r.environments(t) {
			s.environment(ctx, m, env, t.Name)
		}
	}
	var g errgroup.Group
	g.SetLimit(2 * preparing)
	for i := range s.needs {
		g.Go(func() error { s.look(ctx, &s.needs[i]); return nil })
	}
	g.Wait()
	return s.needs, context.Cause(ctx)
}

type survey struct {
	deps  SurveyDeps
	needs []ImageNeed
	at    map[string]int
}

// environment adds an environment's image, and the images it is built upon.
func (s *survey) environment(ctx context.Context, m *images, env environment, task string) {
	name, fallback := m.name(env), env.fallback
	if m.base(env) != "" {
		fallback = ""
	}
	builds := env.builds() && env.name == ""
	if !builds {
		s.add(ImageNeed{Name: name, fallback: fallback, context: env.dir}, task)
		return
	}
	n := ImageNeed{Name: env.dir, State: ImageBuild}
	if base := m.base(env); base != "" {
		n.Bases = []string{base}
	} else if env.how() != "" { // which bases that file has is seen when it is built
		n.Bases = nil
	} else if bases, err := s.deps.Bases(ctx, env.dir); err != nil {
		n.State, n.Error = ImageBroken, err.Error()
	} else {
		n.Bases = bases
	}
	s.add(n, task)
	for _, b := range n.Bases {
		s.add(ImageNeed{Name: b, fallback: fallback, context: env.dir}, task)
	}
}

func (s *survey) add(n ImageNeed, task string) {
	key := string(n.State) + "\x00" + n.Name + "\x00" + n.fallback
	i, ok := s.at[key]
	if !ok {
		i = len(s.needs)
		s.at[key] = i
		s.needs = append(s.needs, n)
	}
	if !slices.Contains(s.needs[i].Tasks, task) {
		s.needs[i].Tasks = append(s.needs[i].Tasks, task)
	}
}

// look finds out about a named image.
func (s *survey) look(ctx context.Context, n *ImageNeed) {
	if n.State != "" {
		return
	}
	here, err := s.deps.Resolve(ctx, n.Name)
	var missing *image.MissingError
	pushed, _ := pushedAs(n.context, n.Name)
	switch {
	case err == nil:
		n.State, n.Digest = ImageHere, registryDigest(here, n.Name)
	case !errors.As(err, &missing):
		n.State, n.Error = ImageMissing, err.Error()
	case shippedAt(n.context, n.Name) != "":
		n.State = ImageShipped
	case pushed != "":
		n.State = ImageFetch
		_, n.Digest, _ = strings.Cut(pushed, "@")
	case n.fallback != "":
		if _, err := s.deps.Resolve(ctx, n.fallback); err != nil {
			n.State, n.Error = ImageMissing, err.Error()
			return
		}
		n.State, n.Error = ImageFallback, "fallback image "+n.fallback
	case s.deps.Look == nil:
		n.State, n.Error = ImageMissing, err.Error()
	default:
		r, err := s.deps.Look(ctx, n.Name)
		if err != nil {
			n.State, n.Error = ImageMissing, err.Error()
			return
		}
		n.State, n.Bytes, n.Digest = ImageFetch, &r.Bytes, r.Digest
	}
}

// ToFetch sums what must be fetched, in compressed bytes.
func ToFetch(needs []ImageNeed) int64 {
	sum := int64(0)
	for _, n := range needs {
		if n.State == ImageFetch && n.Bytes != nil {
			sum += *n.Bytes
		}
	}
	return sum
}

// unpacked is how much larger layers are than on their way, about, and the blob
// lies beside them while they are unpacked.
const unpacked = 3.5

// RoomFor is about the space that fetching takes, in bytes. What builds add is
// not known before.
func RoomFor(needs []ImageNeed) int64 { return int64(unpacked * float64(ToFetch(needs))) }
