package dockerfile

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// Options shape one Build. Store and Dir are mandatory, Backend is where the
// Dockerfile has a RUN.
type Options struct {
	Store      *image.Store
	Backend    sandbox.Backend
	Dir        image.HostPath // the build context
	Dockerfile string         // relative to Dir; empty means "Dockerfile"
	// FileDir is where the Dockerfile lies if not in Dir.
	FileDir image.HostPath
	Name    string // of the image in the store; empty: it is not named
	Target  string // the stage to build; empty: the last
	// Resolve finds the image of FROM; nil: Store.Resolve. It may give another
	// base than the file names.
	Resolve func(ctx context.Context, name string) (image.Image, error)
	// Base, if it has an ID, stands in for the image that the target stands
	// upon, wherever the file names that one.
	Base image.Image
	// Contexts are further trees by name, for FROM and --from: a directory, or
	// "docker-image://NAME" for an image of the store.
	Contexts map[string]string
	Progress io.Writer // steps and the output of RUN, as lines; nil: nowhere
	// Events is told the same as it happens, one event at a time; nil: nobody is.
	Events    func(Event)
	BuildArgs map[string]string
	Secrets   map[string][]byte         // by id; never in a layer, a key or the progress
	SSH       map[string]image.HostPath // an agent's socket by id
	UID       sandbox.UIDMode           // of RUN; part of every key
	Limits    sandbox.Limits            // of RUN
	Timeout   time.Duration             // of one RUN; 0: none but ctx's
	NoCache   bool                      // do every step anew
	Parallel  int                       // RUNs at a time; 0: one a processor
	// Network is what RUN can reach; zero means sandbox.NetNone. Part of every
	// key of RUN.
	Network sandbox.Network
	Egress  sandbox.Egress // where RUN's network leads to
	// RunEnv and RunMounts are this machine's own settings for RUN, such as its
	// package mirrors: they are in no layer and in no key. Variables of the
	// image and the Dockerfile win over RunEnv ("KEY=value").
	RunEnv    []string
	RunMounts []sandbox.Mount
	RunRelays []sandbox.Relay // only with a network
	Inherited []Inherited     // the same, told: for the Record
	// Authorities are whom ADD of a URL trusts besides; nil: the host's alone.
	Authorities *x509.CertPool
	// Record, if set, is filled with what the build was made of.
	Record *Record
}

// executor is part of every key: it changes when equal steps give other layers.
const executor = "assay dockerfile 3"

// build is what the stages of one Build share.
type build struct {
	o       Options
	p       *program
	vars    *vars // before FROM
	context *source
	stages  []*execution
	bottom  string        // what the target's lowest FROM names
	running chan struct{} // holds one token a RUN
	report  *report

	mu       sync.Mutex
	contexts map[string]*source
	opened   []*os.Root
}

// Build makes an image from a Dockerfile. Errors of the file are *Error, with
// what is not supported as *UnsupportedError in it, a failing command as
// *RunError and an unknown base as *image.MissingError.
func Build(ctx context.Context, o Options) (image.Image, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Resolve == nil {
		o.Resolve = func(_ context.Context, name string) (image.Image, error) { return o.Store.Resolve(name) }
	}
	if o.Dockerfile == "" {
		o.Dockerfile = "Dockerfile"
	}
	if o.Parallel <= 0 {
		o.Parallel = runtime.NumCPU()
	}
	b := &build{o: o, running: make(chan struct{}, o.Parallel), contexts: map[string]*source{}}
	defer b.close()
	if err := b.read(); err != nil {
		return image.Image{}, err
	}
	b.report = newReport(o, b.p)
	target, err := b.plan(ctx)
	if err != nil {
		return image.Image{}, err
	}
	if err := b.all(ctx, target); err != nil {
		return image.Image{}, err
	}
	im := image.New(o.Name, target.stack, target.binds, target.cfg)
	b.report.finish(im)
	if o.Name == "" {
		return im, nil
	}
	return im, o.Store.Put(im)
}

func (b *build) close() {
	for _, r := range b.opened {
		r.Close()
	}
}

func (b *build) open(dir image.HostPath) (*os.Root, error) {
	r, err := os.OpenRoot(string(dir))
	if err == nil {
		b.opened = append(b.opened, r)
	}
	return r, err
}

// read reads the Dockerfile and .dockerignore.
func (b *build) read() error {
	root, err := b.open(b.o.Dir)
	if err != nil {
		return fmt.Errorf("build image: %w", err)
	}
	in, dir := root, b.o.Dir
	if b.o.FileDir != "" {
		dir = b.o.FileDir
		if in, err = b.open(dir); err != nil {
			return fmt.Errorf("build image: %w", err)
		}
	}
	text, err := readSmall(in, b.o.Dockerfile)
	if err != nil {
		return fmt.Errorf("build image from %s: %w", dir, err)
	}
	if b.p, err = parse(filepath.Join(string(dir), b.o.Dockerfile), text); err != nil {
		return err
	}
	b.vars = newVars(b.p.escape, b.o.BuildArgs, b.o.Target)
	if b.context, err = newSource(root, "the build context", in, b.o.Dockerfile); err != nil {
		return &Error{File: b.p.file, Err: err}
	}
	return nil
}

// all runs the stages that the target needs, each in a goroutine of its own
// that waits for the stages it takes from. The first error ends them all.
func (b *build) all(ctx context.Context, target *execution) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, x := range b.stages {
		if !x.needed {
			continue
		}
		wg.Go(func() {
			defer close(x.done)
			if x.err = x.run(ctx); x.err != nil {
				cancel(x.err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return target.err
}

// execution is one stage being built.
type execution struct {
	b        *build
	s        *stage
	steps    []step // with the triggers of the base
	base     *execution
	from     image.Image // of FROM, where it is no stage
	fromTree *source     // of FROM, where it is a directory
	deps     []*execution
	needed   bool
	done     chan struct{}
	err      error

	out    *output // of the step that is done now
	vars   *vars
	stack  []image.LayerID
	binds  []image.Bind
	cfg    image.Config
	cmdSet bool // a CMD of this stage
}

// wait waits for a stage that this one takes from.
func (x *execution) wait(ctx context.Context, other *execution) error {
	select {
	case <-other.done:
		return other.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (x *execution) run(ctx context.Context) error {
	p := x.b.p
	var vars []string
	if x.base != nil {
		if err := x.wait(ctx, x.base); err != nil {
			return err
		}
		x.stack, x.binds, x.cfg, vars = x.base.stack, x.base.binds, x.base.cfg, x.base.vars.list
		x.cfg.OnBuild = nil
		vars = again(vars, x.cfg.Env)
	} else {
		x.stack, x.binds, x.cfg = slices.Clone(x.from.Layers), x.from.Binds, x.from.Config
		x.cfg.OnBuild = nil
		if _, ok := get(x.cfg.Env, "PATH"); !ok {
			x.cfg.Env = append(slices.Clone(x.cfg.Env), defaultPath)
		}
		vars = x.cfg.Env
	}
	x.vars = x.b.vars.fork(vars)
	if x.fromTree != nil {
		everything := transfer{tree: x.fromTree, what: instructions.SourcesAndDest{SourcePaths: []string{"."}, DestPath: "/"}}
		if err := x.transfer(ctx, everything); err != nil {
			return p.at(x.s.from, err)
		}
	}
	for i, s := range x.steps {
		end := x.b.report.step(x, i, s)
		err := x.step(ctx, s)
		end(x, err)
		if err != nil {
			return p.at(s, err)
		}
	}
	return nil
}

func (x *execution) step(ctx context.Context, s step) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if s.trigger { // it may be executed by several stages, and expanding writes into it
		fresh, err := trigger(s, s.code)
		if err != nil {
			return err
		}
		s.cmd = fresh.cmd
	}
	if e, ok := s.cmd.(instructions.SupportsSingleWordExpansion); ok {
		if _, isArg := s.cmd.(*instructions.ArgCommand); !isArg { // its names are declared, its values have a scope of their own
			if err := e.Expand(x.vars.expand(x.vars.list)); err != nil {
				return err
			}
		}
	}
	if e, ok := s.cmd.(instructions.SupportsSingleWordExpansionRaw); ok {
		if err := e.ExpandRaw(x.vars.raw); err != nil {
			return err
		}
	}
	if err := supported(s); err != nil { // again, with its variables replaced
		return err
	}
	if done, err := x.metadata(s.cmd); done || err != nil {
		return err
	}
	switch c := s.cmd.(type) {
	case *instructions.WorkdirCommand:
		return x.workdir(ctx, c)
	case *instructions.CopyCommand:
		t, err := x.b.tree(ctx, x, c.From)
		if err != nil {
			return err
		}
		return x.transfer(ctx, transfer{tree: t, what: c.SourcesAndDest, chown: c.Chown, chmod: c.Chmod,
			parents: c.Parents, excludes: c.ExcludePatterns, link: c.Link})
	case *instructions.AddCommand:
		return x.transfer(ctx, transfer{tree: x.b.context, what: c.SourcesAndDest, chown: c.Chown, chmod: c.Chmod,
			excludes: c.ExcludePatterns, link: c.Link, add: true, unpack: c.Unpack, checksum: c.Checksum})
	case *instructions.RunCommand:
		return x.command(ctx, c)
	}
	return errors.New("parsed but not executed")
}

// abs makes a path of the image absolute by the current directory.
func (x *execution) abs(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join("/", string(x.cfg.Workdir), p)
}

// workdir sets the directory and makes it if it is missing, for the current
// user.
func (x *execution) workdir(ctx context.Context, c *instructions.WorkdirCommand) error {
	dir := x.abs(c.Path)
	x.cfg.Workdir = image.Path(dir)
	if dir == "/" {
		return nil
	}
	v, err := x.b.o.Store.View(x.stack)
	if err != nil {
		return err
	}
	if at, err := v.Resolve(dir); err == nil {
		if e, err := v.Lstat(at); err != nil || !e.IsDir() {
			return fmt.Errorf("%s is a %s, not a directory", dir, e.Type)
		}
		return nil
	}
	uid, gid, err := userIDs(v, x.cfg.User)
	if err != nil {
		return err
	}
	key := x.b.key(x, "WORKDIR", dir, fmt.Sprint(uid, ":", gid))
	return x.cached(key, func() (image.LayerID, error) {
		w, err := x.b.o.Store.NewLayer(ctx, x.stack...)
		if err != nil {
			return "", err
		}
		defer w.Abort()
		if err := makeDirs(w, dir[1:], 0o755, uid, gid); err != nil {
			return "", err
		}
		return w.Commit()
	})
}

// key names a step: what it is done on, and everything it depends on.
func (b *build) key(x *execution, parts ...any) string {
	mode := b.o.UID
	name := ""
	if b.o.Backend != nil {
		c := b.o.Backend.Capabilities()
		name = c.Name
		if mode == sandbox.UIDAuto && len(c.UIDModes) > 0 {
			mode = c.UIDModes[0]
		}
	}
	j, err := json.Marshal([]any{executor, runtime.GOARCH, x.stack, x.binds, mode, name, parts})
	if err != nil { // strings and slices of them always marshal
		panic("dockerfile: " + err.Error())
	}
	sum := sha256.Sum256(j)
	return "dockerfile " + hex.EncodeToString(sum[:])
}

// cached puts the step's layer on the stack: the one of the last time, or what
// do makes.
func (x *execution) cached(key string, do func() (image.LayerID, error)) error {
	id, ok := x.b.o.Store.Cached(key)
	if !ok || x.b.o.NoCache {
		var err error
		if id, err = do(); err != nil {
			return err
		}
		if err := x.b.o.Store.Cache(key, id); err != nil {
			return err
		}
		x.b.report.layer(x, key, id, false)
	} else {
		x.b.report.layer(x, key, id, true)
	}
	if id != "" {
		x.stack = append(slices.Clone(x.stack), id)
	}
	return nil
}
