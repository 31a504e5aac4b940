package dockerfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// backend runs a language of its own instead of programs: lines of
// "put PATH TEXT", "rm PATH", "echo TEXT", "env NAME", "exit N", "sleep".
type backend struct {
	t     testing.TB
	store *image.Store
	runs  atomic.Int64 // stages are built side by side
	open  atomic.Int64
}

func (b *backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Name: "script", UIDModes: []sandbox.UIDMode{sandbox.UIDSingle}}
}

func (b *backend) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	b.open.Add(1)
	return &box{b: b, spec: spec, dirty: map[string]*string{}}, nil
}

func (b *backend) Commit(ctx context.Context, s sandbox.Snapshot) (image.LayerID, error) {
	return image.LayerID(s), nil
}

func (b *backend) Close() error { return nil }

type box struct {
	sandbox.Trees // not used by builds
	b             *backend
	spec          sandbox.Spec
	dirty         map[string]*string // nil: removed
}

func (x *box) Kill(context.Context) error                    { return nil }
func (x *box) Close() error                                  { x.b.open.Add(-1); return nil }
func (x *box) Reset(context.Context, sandbox.Snapshot) error { return errors.New("not used") }
func (x *box) Peek(context.Context) (sandbox.Snapshot, error) {
	return "", errors.New("not used")
}

func (x *box) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	if len(x.dirty) == 0 {
		return "", nil
	}
	w, err := x.b.store.NewLayer(ctx, x.spec.Image.Layers...)
	if err != nil {
		return "", err
	}
	defer w.Abort()
	for p, text := range x.dirty {
		e := image.Entry{Path: strings.TrimPrefix(p, "/"), Type: image.TypeFile, Mode: 0o644}
		if text == nil {
			e.Type = image.TypeWhiteout
			text = new(string)
		}
		if err := w.Add(e, strings.NewReader(*text)); err != nil {
			return "", err
		}
	}
	id, err := w.Commit()
	return sandbox.Snapshot(id), err
}

func (x *box) Start(_ context.Context, c sandbox.Command) (sandbox.Process, error) {
	x.b.runs.Add(1)
	p := &process{}
	script := c.Args[len(c.Args)-1]
	if len(c.Args) == 3 && c.Args[0] != "/bin/sh" || len(c.Args) == 2 {
		script = strings.Join(c.Args, " ")
	}
	for l := range strings.Lines(script) {
		f := append(strings.Fields(l), "", "", "")
		switch f[0] {
		case "put":
			text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(l), "put "+f[1]))
			x.dirty[f[1]] = &text
		case "rm":
			x.dirty[f[1]] = nil
		case "echo":
			p.out.WriteString(strings.TrimPrefix(l, "echo "))
		case "env":
			for _, kv := range slices.Concat(x.spec.Image.Config.Env, c.Env) {
				if v, ok := strings.CutPrefix(kv, f[1]+"="); ok {
					text := v
					x.dirty["/env-"+f[1]] = &text
				}
			}
		case "where":
			text := fmt.Sprintf("%s %s", c.Dir, c.User)
			x.dirty["/where"] = &text
		case "exit":
			fmt.Sscan(f[1], &p.exit.Code)
		case "sleep":
			p.hang = true
		}
	}
	return p, nil
}

type process struct {
	out  bytes.Buffer
	exit sandbox.Exit
	hang bool
}

func (p *process) Stdin() io.WriteCloser { return nil }
func (p *process) Stdout() io.Reader     { return &p.out }
func (p *process) Stderr() io.Reader     { return strings.NewReader("") }
func (p *process) Close() error          { return nil }
func (p *process) Signal(_ context.Context, s syscall.Signal) error {
	p.hang, p.exit = false, sandbox.Exit{Code: 128 + int(s), Signal: s}
	return nil
}
func (p *process) Wait(ctx context.Context) (sandbox.Exit, error) {
	if p.hang {
		<-ctx.Done()
		return sandbox.Exit{}, ctx.Err()
	}
	return p.exit, nil
}
