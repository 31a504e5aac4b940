package dockerfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
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
	Name       string         // of the image in the store; empty: it is not named
	// Resolve finds the image of FROM; nil: Store.Resolve. It may give another
	// base than the file names.
	Resolve   func(ctx context.Context, name string) (image.Image, error)
	Progress  io.Writer // steps and the output of RUN; nil: nowhere
	BuildArgs map[string]string
	UID       sandbox.UIDMode // of RUN; part of every key
	Limits    sandbox.Limits  // of RUN
	Timeout   time.Duration   // of one RUN; 0: none but ctx's
	NoCache   bool            // do every step anew
	// Network is what RUN can reach; zero means sandbox.NetNone. Part of every
	// key of RUN.
	Network sandbox.Network
	Egress  sandbox.Egress // where RUN's network leads to
	// RunEnv and RunMounts are this machine's own settings for RUN, such as its
	// package mirrors: they are in no layer and in no key. Variables of the
	// image and the Dockerfile win over RunEnv ("KEY=value").
	RunEnv    []string
	RunMounts []sandbox.Mount
}

// executor is part of every key: it changes when equal steps give other layers.
const executor = "assay dockerfile 1"

type build struct {
	o      Options
	p      *program
	vars   *vars
	source *source
	stack  []image.LayerID
	binds  []image.Bind
	cfg    image.Config
	cmdSet bool // a CMD of this file
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
	root, err := os.OpenRoot(string(o.Dir))
	if err != nil {
		return image.Image{}, fmt.Errorf("build image: %w", err)
	}
	defer root.Close()
	text, err := readSmall(root, o.Dockerfile)
	if err != nil {
		return image.Image{}, fmt.Errorf("build image from %s: %w", o.Dir, err)
	}
	p, err := parse(filepath.Join(string(o.Dir), o.Dockerfile), text)
	if err != nil {
		return image.Image{}, err
	}
	b := &build{o: o, p: p, vars: newVars(p.escape, o.BuildArgs)}
	if b.source, err = newSource(root, o.Dockerfile); err != nil {
		return image.Image{}, &Error{File: p.file, Err: err}
	}
	if err := b.from(ctx); err != nil {
		return image.Image{}, p.at(p.from, err)
	}
	for i, s := range p.steps {
		fmt.Fprintf(o.Progress, "step %d/%d: %s\n", i+1, len(p.steps), s.code)
		if err := b.step(ctx, s); err != nil {
			return image.Image{}, p.at(s, err)
		}
	}
	im := image.New(o.Name, b.stack, b.binds, b.cfg)
	if o.Name == "" {
		return im, nil
	}
	return im, o.Store.Put(im)
}

func (b *build) from(ctx context.Context) error {
	for _, a := range b.p.args {
		if err := b.vars.declareMeta(a.args); err != nil {
			return b.p.at(a.step, err)
		}
	}
	name, err := b.vars.expand(b.vars.meta)(b.p.base)
	if err != nil {
		return err
	}
	switch name {
	case "":
		return fmt.Errorf("%q names no image: a variable in it has no value", b.p.base)
	case "scratch":
		b.cfg.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	default:
		im, err := b.o.Resolve(ctx, name)
		if err != nil {
			return err
		}
		b.stack, b.binds, b.cfg = slices.Clone(im.Layers), im.Binds, im.Config
	}
	b.vars.env = slices.Clone(b.cfg.Env)
	b.cfg.Labels = cloneLabels(b.cfg.Labels)
	return nil
}

func (b *build) step(ctx context.Context, s step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e, ok := s.cmd.(instructions.SupportsSingleWordExpansion); ok {
		if _, isArg := s.cmd.(*instructions.ArgCommand); !isArg { // its names are declared, its values have a scope of their own
			if err := e.Expand(b.vars.expand(b.vars.inside())); err != nil {
				return err
			}
		}
	}
	switch c := s.cmd.(type) {
	case *instructions.ArgCommand:
		return b.vars.declare(c.Args)
	case *instructions.EnvCommand:
		for _, kv := range c.Env {
			b.vars.env = set(b.vars.env, kv.Key, kv.Value)
		}
		b.cfg.Env = slices.Clone(b.vars.env)
	case *instructions.LabelCommand:
		for _, kv := range c.Labels {
			b.cfg.Labels[kv.Key] = kv.Value
		}
	case *instructions.UserCommand:
		b.cfg.User = c.User
	case *instructions.ExposeCommand: // says nothing that a sandbox would act upon
	case *instructions.CmdCommand:
		b.cfg.Cmd, b.cmdSet = withShell(c.ShellDependantCmdLine), true
	case *instructions.EntrypointCommand:
		b.cfg.Entrypoint = withShell(c.ShellDependantCmdLine)
		if !b.cmdSet {
			b.cfg.Cmd = nil // the base's belongs to the base's entrypoint
		}
	case *instructions.WorkdirCommand:
		return b.workdir(ctx, c)
	case *instructions.CopyCommand:
		return b.copy(ctx, c)
	case *instructions.RunCommand:
		return b.run(ctx, c)
	default:
		return errors.New("parsed but not executed")
	}
	return nil
}

func withShell(c instructions.ShellDependantCmdLine) []string {
	if !c.PrependShell {
		return c.CmdLine
	}
	return append([]string{"/bin/sh", "-c"}, c.CmdLine...)
}

// abs makes a path of the image absolute by the current directory.
func (b *build) abs(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join("/", string(b.cfg.Workdir), p)
}

// workdir sets the directory and makes it if it is missing, for the current
// user.
func (b *build) workdir(ctx context.Context, c *instructions.WorkdirCommand) error {
	dir := b.abs(c.Path)
	b.cfg.Workdir = image.Path(dir)
	if dir == "/" {
		return nil
	}
	v, err := b.o.Store.View(b.stack)
	if err != nil {
		return err
	}
	if at, err := v.Resolve(dir); err == nil {
		if e, err := v.Lstat(at); err != nil || !e.IsDir() {
			return fmt.Errorf("%s is a %s, not a directory", dir, e.Type)
		}
		return nil
	}
	uid, gid, err := userIDs(v, b.cfg.User)
	if err != nil {
		return err
	}
	key := b.key("WORKDIR", dir, fmt.Sprint(uid, ":", gid))
	return b.cached(key, func() (image.LayerID, error) {
		w, err := b.o.Store.NewLayer(ctx, b.stack...)
		if err != nil {
			return "", err
		}
		defer w.Abort()
		if err := makeDirs(w, dir[1:], uid, gid); err != nil {
			return "", err
		}
		return w.Commit()
	})
}

// makeDirs makes p and its missing parents.
func makeDirs(w *image.LayerWriter, p string, uid, gid int) error {
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		at, err := w.Land(path.Join(p[:i], "x"))
		if err != nil {
			return err
		}
		at = path.Dir(at)
		if e, ok := w.Lstat(at); ok && e.IsDir() || at == "." {
			continue
		} else if ok {
			return fmt.Errorf("/%s is a %s, not a directory", at, e.Type)
		}
		if err := w.Add(image.Entry{Path: at, Type: image.TypeDir, Mode: 0o755, UID: uid, GID: gid}, nil); err != nil {
			return err
		}
	}
	return nil
}

// key names a step: what it is done on, and everything it depends on.
func (b *build) key(parts ...any) string {
	mode := b.o.UID
	name := ""
	if b.o.Backend != nil {
		c := b.o.Backend.Capabilities()
		name = c.Name
		if mode == sandbox.UIDAuto && len(c.UIDModes) > 0 {
			mode = c.UIDModes[0]
		}
	}
	j, err := json.Marshal([]any{executor, b.stack, b.binds, mode, name, parts})
	if err != nil { // strings and slices of them always marshal
		panic("dockerfile: " + err.Error())
	}
	sum := sha256.Sum256(j)
	return "dockerfile " + hex.EncodeToString(sum[:])
}

// cached puts the step's layer on the stack: the one of the last time, or what
// do makes.
func (b *build) cached(key string, do func() (image.LayerID, error)) error {
	id, ok := b.o.Store.Cached(key)
	if !ok || b.o.NoCache {
		var err error
		if id, err = do(); err != nil {
			return err
		}
		if err := b.o.Store.Cache(key, id); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(b.o.Progress, "  cached")
	}
	if id != "" {
		b.stack = append(slices.Clone(b.stack), id)
	}
	return nil
}

func cloneLabels(m map[string]string) map[string]string {
	c := map[string]string{}
	for k, v := range m {
		c[k] = v
	}
	return c
}
