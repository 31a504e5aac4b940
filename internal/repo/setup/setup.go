package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// Config says what is set up and with what. Source, Out, Images, Backend, Build
// and Base are needed.
type Config struct {
	Source string // a directory, a bare repository, or a URL of git
	Out    string // the directory for recipe, Dockerfile, environment and log; made if missing
	Name   string // of the environment; empty: of the source
	Branch string // of a URL; empty: its HEAD
	At     string // a commit that stands for the tree; empty: the work tree, or HEAD
	GitEnv []string
	Caps   Caps

	Image      string   // stands instead of the toolchain's
	Dockerfile string   // of the repository, relative to it: the same
	Subdir     string   // of a monorepo
	Tests      []string // commands; empty: recognised
	Services   []string
	Secrets    []string // ids that installing commands see
	SSH        []string
	Fresh      bool // do not take the recipe that Out has

	Runs         int           // 0: 3
	Timeout      time.Duration // of one run of the suite; 0: 10 minutes
	BuildTimeout time.Duration // of one command; 0: 20 minutes
	Budget       time.Duration // of everything; 0: 1 hour
	Attempts     int           // at most; 0: 12
	Cover        bool

	Images  *image.Store
	Backend sandbox.Backend
	UID     sandbox.UIDMode
	Limits  sandbox.Limits
	// Build builds a Dockerfile with the caller's network, mirrors, secrets and
	// agents of ssh.
	Build func(ctx context.Context, o dockerfile.Options) (image.Image, error)
	// Resolve finds an image; nil: Images.Resolve.
	Resolve func(ctx context.Context, name string) (image.Image, error)
	// Base makes "debian:SUITE" where the store does not have it.
	Base func(ctx context.Context, suite string) error
	Say  func(format string, args ...any) // nil: nobody

	Temp string // a directory of the caller's for what lasts as long as Run
}

func (o *Config) settle() {
	if o.Runs == 0 {
		o.Runs = 3
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.BuildTimeout == 0 {
		o.BuildTimeout = 20 * time.Minute
	}
	if o.Budget == 0 {
		o.Budget = time.Hour
	}
	if o.Attempts == 0 {
		o.Attempts = 12
	}
	if o.Resolve == nil {
		o.Resolve = func(_ context.Context, name string) (image.Image, error) { return o.Images.Resolve(name) }
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
}

// Run makes a repository ready. A repository for which nothing helped is a
// *Failure.
func Run(ctx context.Context, o Config) (*repo.Environment, error) {
	o.settle()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Budget, fmt.Errorf("the setup's budget of %s is used up", o.Budget))
	defer cancel()
	s, err := obtain(ctx, o.Source, filepath.Join(o.Temp, "tree"), o)
	if err != nil {
		return nil, err
	}
	if o.Name != "" {
		s.name = NameOf(o.Name)
	}
	for _, n := range s.notes {
		o.Say("note: %s", n)
	}
	w := &work{o: o, s: s}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	a, err := w.find(ctx)
	if err != nil {
		return nil, errors.Join(err, w.log())
	}
	env, err := w.finish(ctx, a)
	return env, errors.Join(err, w.log())
}

// work is one setup under way.
type work struct {
	o        Config
	s        *source
	attempts []*Attempt
	reasons  []string
}

// find tries until an attempt is good, or nothing is left to try.
func (w *work) find(ctx context.Context) (*Attempt, error) {
	at := filepath.Join(w.o.Out, RecipeFile)
	if _, err := os.Stat(at); err == nil && !w.o.Fresh {
		r, err := ReadRecipe(at)
		if err != nil {
			return nil, err
		}
		w.o.Say("by the recipe %s", at)
		if not := w.o.unused(r); len(not) > 0 {
			w.o.Say("note: the recipe decides, and says otherwise than %s: write it there, or forget the recipe with --fresh", strings.Join(not, ", "))
		}
		a := w.attempt(ctx, "recipe", "it was there", nil, r)
		if a.Stage != StageTest || a.Passed == 0 || a.tried.void != "" || a.tried.hung != "" {
			return nil, w.failure(ctx, a)
		}
		return a, nil
	}
	plans, err := w.plans(ctx)
	if err != nil {
		return nil, err
	}
	var best *Attempt
	for _, p := range plans {
		a, err := w.climb(ctx, p)
		if err != nil {
			return nil, err
		}
		if a.better(best) {
			best = a
		}
		if best.tried.fair() {
			break
		}
	}
	if best.Stage != StageTest || best.Passed == 0 || best.tried.void != "" || best.tried.hung != "" {
		if werr := w.writeRecipe(best.recipe); werr != nil {
			return nil, werr
		}
		return nil, w.failure(ctx, best)
	}
	return best, nil
}

// unused are the flags that a recipe overrules.
func (o *Config) unused(r *Recipe) []string {
	var out []string
	for _, f := range []struct {
		name  string
		other bool
	}{
		{"--image", o.Image != "" && o.Image != r.Base},
		{"--dockerfile", o.Dockerfile != "" && o.Dockerfile != r.Dockerfile},
		{"--subdir", o.Subdir != "" && o.Subdir != r.Subdir},
		{"--service", len(o.Services) > 0 && !slices.Equal(o.Services, r.Services)},
		{"--secret", lacks(r.Secrets, o.Secrets)},
		{"--ssh", lacks(r.SSH, o.SSH)},
	} {
		if f.other {
			out = append(out, f.name)
		}
	}
	return out
}

func lacks(have, want []string) bool {
	return slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(have, s) })
}

// start is a plan and why it is one.
type startPlan struct {
	*plan
	name, why string
}

// plans are what is begun with, in order: what the user or the repository says
// first, the tables last.
func (w *work) plans(ctx context.Context) ([]startPlan, error) {
	_, shared, err := ecosystems()
	if err != nil {
		return nil, err
	}
	p, reasons, err := recognise(w.s.tree, w.o.Subdir)
	given := w.o.Image != "" || w.o.Dockerfile != ""
	if err != nil {
		if !(given && len(w.o.Tests) > 0) || w.o.Subdir != "" && !w.s.tree.dirs[w.o.Subdir] {
			return nil, err
		}
		p = &plan{shared: shared, vars: map[string]string{}, env: map[string]string{}, subdir: w.o.Subdir}
	}
	w.reasons = reasons
	for _, r := range reasons {
		w.o.Say("%s", r)
	}
	p.name, p.tests, p.services, p.secrets, p.ssh = w.s.name, w.o.Tests, w.o.Services, w.o.Secrets, w.o.SSH
	p.runs, p.timeout, p.build = w.o.Runs, w.o.Timeout.Seconds(), w.o.BuildTimeout.Seconds()
	if p.vars["version"] == "" {
		p.vars["version"] = w.s.version
	}
	if given {
		p.base, p.file = w.o.Image, w.o.Dockerfile
		return []startPlan{{p, "given", "--image or --dockerfile names it"}}, nil
	}
	var out []startPlan
	for _, e := range existing(w.s.tree) {
		if _, err := w.o.Resolve(ctx, e.image); e.image != "" && (err != nil || e.image == image.HostName) {
			w.attempts = append(w.attempts, &Attempt{Rung: e.name, Why: e.why, Stage: StageImage, Result: fmt.Sprintf("not tried: %v", err)})
			w.o.Say("%s names %s, which is not in the store", e.name, e.image)
			continue
		}
		n := p.clone()
		n.base, n.file = e.image, e.file
		if e.file != "" {
			n.base = ""
		}
		out = append(out, startPlan{n, e.name, e.why})
	}
	return append(out, startPlan{p, "first", "the tables"}), nil
}

// climb tries a plan, and the rungs that fit its failures.
func (w *work) climb(ctx context.Context, p startPlan) (*Attempt, error) {
	c := newClimber(p.plan, theirPackages(w.s.tree))
	r, err := p.recipe()
	if err != nil {
		return nil, err
	}
	best := w.attempt(ctx, p.name, p.why, p.plan, r)
	best.Kept = true
	for len(w.attempts) < w.o.Attempts && ctx.Err() == nil && !best.tried.good() && best.tried.hung == "" && best.Stage != StageImage {
		s, ok := c.next(best)
		if !ok {
			break
		}
		if r, err = s.next.recipe(); err != nil {
			return nil, err
		}
		a := w.attempt(ctx, s.Name, strings.ReplaceAll(s.Why, "{1}", s.found), s.next, r)
		if a.better(best) || !best.tried.fair() && s.cured(a, best) {
			a.Kept, best = true, a
		}
	}
	return best, nil
}

// attempt builds by a recipe and runs the suite once.
func (w *work) attempt(ctx context.Context, name, why string, p *plan, r *Recipe) *Attempt {
	a := &Attempt{Rung: name, Why: why, plan: p, recipe: r, Stage: StageImage}
	began := time.Now()
	w.attempts = append(w.attempts, a)
	w.o.Say("attempt %d, %s: %s", len(w.attempts), name, why)
	a.Result = w.do(ctx, a)
	a.Seconds = seconds(began)
	a.Output = lastLines(a.text, 20)
	w.o.Say("  %s: %s (%.0f s)", a.Stage, a.Result, a.Seconds)
	return a
}

func (w *work) do(ctx context.Context, a *Attempt) string {
	im, err := w.build(ctx, a)
	if err != nil {
		if installing(a.recipe, a.Step) {
			a.Stage = StageInstall
		}
		a.text += "\n" + err.Error()
		return firstLine(err.Error())
	}
	a.image = im
	a.Stage = StageTest
	suite := a.recipe.commands()
	if len(suite) == 0 {
		a.tried.void = "no way to run tests was recognised"
		return a.tried.void
	}
	if a.tried, err = probe(ctx, w.o, im, suite); err != nil {
		a.tried.void = err.Error()
	}
	a.Passed, a.Failed = a.tried.passed, a.tried.failed
	a.text += a.tried.output
	return a.tried.String()
}

func installing(r *Recipe, step string) bool {
	return slices.ContainsFunc(r.Install, func(l string) bool { return strings.Contains(step, l) })
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return plain(s)
}

// build makes the image of an attempt's recipe.
func (w *work) build(ctx context.Context, a *Attempt) (image.Image, error) {
	base := a.recipe.Base
	if a.recipe.Dockerfile != "" {
		im, err := w.o.Build(ctx, dockerfile.Options{Dir: image.HostPath(w.s.dir), Dockerfile: a.recipe.Dockerfile, UID: w.o.UID, Limits: w.o.Limits,
			Timeout: w.buildLimit(a.recipe), Events: w.events(a), Name: "forge/" + a.recipe.Name + ":base"})
		if err != nil {
			return image.Image{}, err
		}
		base = im.Name
	} else if suite, ok := strings.CutPrefix(base, "debian:"); ok {
		if _, err := w.o.Resolve(ctx, base); err != nil {
			w.o.Say("making %s by debootstrap, once for all repositories: some minutes", base)
			if err := w.o.Base(ctx, suite); err != nil {
				return image.Image{}, fmt.Errorf("make %s: %w", base, err)
			}
		}
	}
	if err := w.inheritEnv(ctx, a, base); err != nil {
		return image.Image{}, err
	}
	dir := filepath.Join(w.o.Temp, fmt.Sprintf("attempt-%d", len(w.attempts)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return image.Image{}, err
	}
	text := a.recipe.dockerfileText(base, w.s.Date)
	for name, data := range map[string]string{"Dockerfile": text, "Dockerfile.dockerignore": "# all of the repository is copied\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			return image.Image{}, err
		}
	}
	return w.o.Build(ctx, dockerfile.Options{Dir: image.HostPath(w.s.dir), FileDir: image.HostPath(dir), UID: w.o.UID, Limits: w.o.Limits,
		Timeout: w.buildLimit(a.recipe), Events: w.events(a)})
}

// inheritEnv writes what an image that was given has as its ENV into the
// recipe: commands that read /etc/profile would lose it.
func (w *work) inheritEnv(ctx context.Context, a *Attempt, base string) error {
	if len(a.recipe.Packages) > 0 {
		return nil
	}
	im, err := w.o.Resolve(ctx, base)
	if err != nil {
		return err
	}
	if a.recipe.Env == nil {
		a.recipe.Env = map[string]string{}
	}
	for _, e := range im.Config.Env {
		k, v, _ := strings.Cut(e, "=")
		if _, ok := a.recipe.Env[k]; !ok && envName.MatchString(k) && !strings.ContainsAny(v, "\n$") {
			a.recipe.Env[k] = v
		}
	}
	return nil
}

func (w *work) buildLimit(r *Recipe) time.Duration {
	if r.Suite.BuildSec > 0 {
		return time.Duration(r.Suite.BuildSec * float64(time.Second))
	}
	return w.o.BuildTimeout
}

// events keeps what the steps of a build print, and which one failed.
func (w *work) events(a *Attempt) func(dockerfile.Event) {
	return func(e dockerfile.Event) {
		switch e.Kind {
		case dockerfile.EventStarted:
			a.text = "" // what the step that fails prints is kept alone
		case dockerfile.EventOutput:
			if len(a.text) < maxOutput {
				a.text += e.Text + "\n"
			}
		case dockerfile.EventEnded:
			if e.Error != "" {
				a.Step = plain(e.Code)
			}
		}
	}
}

// finish names the image, measures the suite and writes what was made.
func (w *work) finish(ctx context.Context, a *Attempt) (*repo.Environment, error) {
	r := a.recipe
	tag := strings.TrimPrefix(string(a.image.ID), "sha256:")[:16]
	im := a.image
	im.Name = "forge/" + r.Name + ":" + tag
	env := &repo.Environment{Version: 1, Name: r.Name, Source: w.s.Source, Image: im.Name, Tag: tag, Layers: im.Layers, Workdir: workdir, Subdir: r.Subdir,
		User: "root", UIDMode: string(w.o.UID), Languages: w.s.tree.below(r.Subdir).languages(), System: r.System}
	suite, err := w.measure(ctx, im, r)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up %s: %w", r.Name, err), w.writeRecipe(r))
	}
	// Named when it is known to be healthy: what is not named goes with gc.
	if err := w.o.Images.Put(im); err != nil {
		return nil, err
	}
	env.Suite = suite
	if env.Suite.TestFiles, err = suite.WithTests(r.Suite.TestFiles); err != nil {
		return nil, fmt.Errorf("set up %s: %w", r.Name, err)
	}
	env.Limits = checks.Needs{MemoryMB: a.tried.memory >> 20, TimeSec: max(1, suite.Millis/1000)}
	if err := w.writeRecipe(r); err != nil {
		return nil, err
	}
	return env, repo.WriteEnvironment(w.o.Out, env)
}

// writeRecipe writes the recipe and the Dockerfile that is made of it.
func (w *work) writeRecipe(r *Recipe) error {
	b, err := r.Encode()
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(w.o.Out, RecipeFile), b, 0o644); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(w.o.Out, "Dockerfile"), []byte(r.dockerfileText(r.Base, w.s.Date)), 0o644)
}

// log writes every attempt to setup.json.
func (w *work) log() error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(struct {
		Source   repo.Source `json:"source"`
		Notes    []string    `json:"notes"`
		Reasons  []string    `json:"reasons"`
		Attempts []*Attempt  `json:"attempts"`
	}{w.s.Source, w.s.notes, w.reasons, w.attempts})
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(w.o.Out, "setup.json"), b.Bytes(), 0o644)
}
