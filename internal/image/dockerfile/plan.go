package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"assay/internal/image"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// plan finds the stages that the target needs, what each stands upon and takes
// from, and every image, before anything runs.
func (b *build) plan(ctx context.Context) (*execution, error) {
	for _, a := range b.p.args {
		if err := b.vars.declareMeta(a.args); err != nil {
			return nil, b.p.at(a.step, err)
		}
	}
	for _, s := range b.p.stages {
		x := &execution{b: b, s: s, steps: s.steps, done: make(chan struct{})}
		if err := b.name(x); err != nil {
			return nil, b.p.at(s.from, err)
		}
		b.stages = append(b.stages, x)
	}
	target := b.stages[len(b.stages)-1]
	if b.o.Target != "" {
		if target = b.stage(b.o.Target); target == nil {
			return nil, &Error{File: b.p.file, Err: fmt.Errorf("it has no stage %q; its stages are %s", b.o.Target, b.names())}
		}
	}
	bottom := target
	for bottom.base != nil {
		bottom = bottom.base
	}
	b.bottom = bottom.from.Name
	return target, b.need(ctx, target)
}

// name replaces variables of a FROM and finds the stage that it may name,
// which must stand above.
func (b *build) name(x *execution) error {
	base, err := b.vars.expand(b.vars.meta)(x.s.base)
	if err != nil {
		return err
	}
	if base == "" {
		return fmt.Errorf("%q names no image: a variable in it has no value", x.s.base)
	}
	if x.s.platform != "" {
		p, err := b.vars.expand(b.vars.meta)(x.s.platform)
		if err != nil {
			return err
		}
		if !ownPlatform(p) {
			return &UnsupportedError{"FROM --platform=" + p, "images run on this machine's platform only, linux/" + runtime.GOARCH}
		}
	}
	x.from.Name = base
	if _, ok := b.o.Contexts[x.s.name]; ok && x.s.name != "" {
		x.from.Name, x.steps = x.s.name, nil // the context stands for the whole stage
		return nil
	}
	x.base = b.stage(base)
	return nil
}

func ownPlatform(p string) bool {
	parts := strings.Split(strings.ToLower(p), "/")
	if len(parts) > 1 && parts[0] == "linux" {
		parts = parts[1:]
	}
	alias := map[string]string{"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64"}
	if a, ok := alias[parts[0]]; ok {
		parts[0] = a
	}
	usual := map[string]string{"amd64": "v1", "arm64": "v8"}[runtime.GOARCH]
	return parts[0] == runtime.GOARCH && (len(parts) == 1 || len(parts) == 2 && parts[1] == usual)
}

// stage finds a stage by name; nil if there is none.
func (b *build) stage(name string) *execution {
	name = strings.ToLower(name)
	for _, x := range slices.Backward(b.stages) {
		if x.s.name != "" && x.s.name == name {
			return x
		}
	}
	return nil
}

func (b *build) names() string {
	var all []string
	for _, x := range b.stages {
		if x.s.name != "" {
			all = append(all, x.s.name)
		}
	}
	if len(all) == 0 {
		return "without names"
	}
	return strings.Join(all, ", ")
}

// need marks a stage and all that it takes from.
func (b *build) need(ctx context.Context, x *execution) error {
	if x.needed {
		return nil
	}
	x.needed = true
	triggers, err := b.under(ctx, x)
	if err != nil {
		return b.p.at(x.s.from, err)
	}
	var steps []step
	for _, t := range triggers {
		s, err := trigger(x.s.from, t)
		if err != nil {
			return b.p.at(x.s.from, fmt.Errorf("ONBUILD of %s: %w", x.from.Name, err))
		}
		steps = append(steps, s)
	}
	x.steps = append(steps, x.steps...)
	for _, s := range x.steps {
		for _, from := range sources(s.cmd) {
			if err := b.take(ctx, x, from); err != nil {
				return b.p.at(s, err)
			}
		}
	}
	return nil
}

// under prepares what a stage stands upon and returns its triggers.
func (b *build) under(ctx context.Context, x *execution) ([]string, error) {
	if x.base != nil {
		if err := b.need(ctx, x.base); err != nil {
			return nil, err
		}
		var triggers []string
		for _, s := range x.base.steps {
			if o, ok := s.cmd.(*instructions.OnbuildCommand); ok {
				triggers = append(triggers, o.Expression)
			}
		}
		return triggers, nil
	}
	name := x.from.Name
	if name == "scratch" {
		return nil, nil
	}
	if dir, ok := b.directory(name); ok {
		var err error
		x.fromTree, err = b.side(name, dir)
		return nil, err
	}
	im, err := b.image(ctx, name)
	if err != nil {
		return nil, err
	}
	x.from = im
	return im.Config.OnBuild, nil
}

// image finds an image by the name that a Dockerfile gives it.
func (b *build) image(ctx context.Context, name string) (image.Image, error) {
	if b.o.Base.ID != "" && name == b.bottom {
		return b.o.Base, nil
	}
	if to, ok := b.o.Contexts[name]; ok {
		if ref, ok := strings.CutPrefix(to, "docker-image://"); ok {
			name = ref
		}
	}
	return b.o.Resolve(ctx, name)
}

// directory is where a named context lies, unless it is an image.
func (b *build) directory(name string) (string, bool) {
	to, ok := b.o.Contexts[name]
	return to, ok && !strings.Contains(to, "://")
}

// side opens a named context, once.
func (b *build) side(name, dir string) (*source, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.contexts[name]; s != nil {
		return s, nil
	}
	root, err := b.open(image.HostPath(dir))
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	s, err := newSource(root, fmt.Sprintf("the context %q", name), nil, "")
	if err == nil {
		b.contexts[name] = s
	}
	return s, err
}

// sources are the values of --from and from= of an instruction.
func sources(cmd any) []string {
	switch c := cmd.(type) {
	case *instructions.CopyCommand:
		if c.From != "" {
			return []string{c.From}
		}
	case *instructions.RunCommand:
		var all []string
		for _, m := range instructions.GetMounts(c) {
			if m.From != "" {
				all = append(all, m.From)
			}
		}
		return all
	}
	return nil
}

// source finds the stage that a --from means: nil if it means something else.
func (b *build) source(x *execution, from string) (*execution, error) {
	other := b.stage(from)
	if n, err := strconv.Atoi(from); err == nil {
		if n < 0 || n >= len(b.stages) {
			return nil, fmt.Errorf("there is no stage %d", n)
		}
		other = b.stages[n]
	}
	if other != nil && other.s.index >= x.s.index {
		return nil, fmt.Errorf("stage %q must stand above the one that takes from it", from)
	}
	return other, nil
}

// take makes sure that a --from can be served.
func (b *build) take(ctx context.Context, x *execution, from string) error {
	other, err := b.source(x, from)
	if err != nil {
		return err
	}
	if other != nil {
		return b.need(ctx, other)
	}
	if dir, ok := b.directory(from); ok {
		_, err := b.side(from, dir)
		return err
	}
	if to := b.o.Contexts[from]; strings.Contains(to, "://") && !strings.HasPrefix(to, "docker-image://") {
		return &UnsupportedError{"the context " + to, "give a directory, or docker-image://NAME of an imported image"}
	}
	if from == "scratch" {
		return nil
	}
	_, err = b.image(ctx, from)
	var missing *image.MissingError
	if errors.As(err, &missing) {
		return fmt.Errorf("%q is no stage, no named context and no image here: %w", from, err)
	}
	return err
}

// tree is what a --from means, for a stage once it is built.
func (b *build) tree(ctx context.Context, x *execution, from string) (tree, error) {
	if from == "" {
		return b.context, nil
	}
	stack, name, err := b.stackOf(ctx, x, from)
	if err != nil {
		return nil, err
	}
	if dir, ok := b.directory(from); ok && stack == nil {
		return b.side(from, dir)
	}
	v, err := b.o.Store.View(stack)
	return layers{v, name}, err
}

// stackOf gives the layers of a stage or image; none for a directory.
func (b *build) stackOf(ctx context.Context, x *execution, from string) ([]image.LayerID, string, error) {
	other, err := b.source(x, from)
	if err != nil {
		return nil, "", err
	}
	if other != nil {
		if err := x.wait(ctx, other); err != nil {
			return nil, "", err
		}
		return other.stack, fmt.Sprintf("stage %q", from), nil
	}
	if _, ok := b.directory(from); ok || from == "scratch" {
		return nil, "scratch", nil
	}
	im, err := b.image(ctx, from)
	return im.Layers, fmt.Sprintf("image %q", from), err
}
