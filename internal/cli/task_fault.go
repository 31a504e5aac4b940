package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"assay/internal/forge"
	"assay/internal/image"
	"assay/internal/sandbox"
)

type taskFaultCmd struct {
	Apply faultApplyCmd `cmd:"" help:"Break a healthy tree as the task's record says."`
	Undo  faultUndoCmd  `cmd:"" help:"Mend a broken tree as the task's record says."`
}

type faultFlags struct {
	Task    string        `arg:"" name:"taskdir" help:"A task of a broken environment (it has tests/fault.json)."`
	Dir     string        `placeholder:"ROOT" help:"Change the tree in this directory, taken for its root, instead of one in a sandbox."`
	Run     string        `placeholder:"CMD" help:"In the sandbox, run this in a login shell afterwards; its status is this command's."`
	Timeout time.Duration `default:"10m" help:"Of --run."`
	UID     string        `name:"uid" enum:",single,subid,root" default:"" help:"User ids in the sandbox. Default: single."`
}

const faultHelp = `A task of a broken environment keeps what breaks the healthy image, and what mends it, in tests/fault.json; agents
never see it. Without --dir a sandbox of the healthy image is made, and the fault replayed there, in one direction or
both; afterwards the tree is compared with what it has to be: path, kind, mode, owner, link, content.

What stood there before is taken from the healthy image, which must be in the store (see 'assay image list').
`

type faultApplyCmd struct{ faultFlags }

func (faultApplyCmd) Help() string {
	return faultHelp + `
Examples:
  assay task fault apply tasks/invert-python-3f2a --run 'cd /app && python -m pytest -q'
  assay task fault apply tasks/invert-python-3f2a --dir /tmp/tree

Exit status: 0 done, 1 failed (or the status of --run), 2 usage, 4 the tree is not what it has to be.`
}

func (c *faultApplyCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	return c.replay(ctx, a, g, false)
}

type faultUndoCmd struct{ faultFlags }

func (faultUndoCmd) Help() string {
	return faultHelp + `
Examples:
  assay task fault undo tasks/invert-python-3f2a --run 'cd /app && python -m pytest -q'
  assay task fault undo tasks/invert-python-3f2a --dir /tmp/tree

Exit status: 0 done, 1 failed (or the status of --run), 2 usage, 4 the tree is not what it has to be.`
}

func (c *faultUndoCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	return c.replay(ctx, a, g, true)
}

func (c *faultFlags) replay(ctx context.Context, a *app, g *grammar, undo bool) error {
	f, err := forge.ReadFault(c.Task)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("%s is no task of a broken environment: %v", c.Task, err)
	}
	if err != nil {
		return usage(err)
	}
	images, err := a.openStore(g)
	if err != nil {
		return err
	}
	healthy, err := images.View(f.Layers)
	if err != nil {
		return fmt.Errorf("the healthy image %s is not in the store: %w; get it with 'assay image import' or 'assay image pull'", f.Environment, err)
	}
	if c.Dir != "" {
		return c.inDir(a, g, f, healthy, undo)
	}
	return c.inSandbox(ctx, a, g, f, healthy, undo)
}

// faultReplay is what --json says of a replay.
type faultReplay struct {
	Task      string   `json:"task"`
	Direction string   `json:"direction"`
	Dir       string   `json:"dir,omitempty"`
	Paths     []string `json:"paths"`
	Exact     bool     `json:"exact"` // compared, and the same
}

func (c *faultFlags) tell(a *app, g *grammar, d forge.Delta, undo, exact bool) error {
	t := faultReplay{Task: c.Task, Direction: "apply", Dir: c.Dir, Paths: []string{}, Exact: exact}
	if undo {
		t.Direction = "undo"
	}
	for _, e := range d {
		t.Paths = append(t.Paths, e.Path)
	}
	if g.JSON {
		return a.emit("fault", t)
	}
	where := "in a sandbox; the tree is what it has to be"
	if c.Dir != "" {
		where = "below " + c.Dir
	}
	a.say("%s: %d paths replayed %s", t.Direction, len(d), where)
	return nil
}

func (c *faultFlags) inDir(a *app, g *grammar, f *forge.Fault, healthy *image.View, undo bool) error {
	if c.Run != "" {
		return usagef("--run is for sandboxes; without --dir there is one")
	}
	if fi, err := os.Stat(c.Dir); err != nil || !fi.IsDir() {
		return usagef("--dir %s is no directory", c.Dir)
	}
	d := f.Break
	if undo {
		d = f.Mend
	}
	if err := d.Under(c.Dir, healthy); err != nil {
		return err
	}
	return c.tell(a, g, d, undo, false)
}

// inSandbox replays the fault, and its inverse for undo, upon a sandbox of the
// healthy image and compares the outcome.
func (c *faultFlags) inSandbox(ctx context.Context, a *app, g *grammar, f *forge.Fault, healthy *image.View, undo bool) error {
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	img, err := r.images.Resolve(f.Environment)
	if err != nil || !slices.Equal(img.Layers, f.Layers) {
		img = image.New("", f.Layers, nil, image.Config{})
	}
	broken, err := forge.Layer(ctx, r.images, f.Layers, healthy, f.Break)
	if err != nil {
		return err
	}
	spec := sandbox.Spec{Image: img, UID: sandbox.UIDMode(c.UID)}
	if undo {
		spec.Extra = []image.LayerID{broken}
	}
	box, err := r.backend.Create(ctx, spec)
	if err != nil {
		return err
	}
	defer box.Close()
	d, want := f.Break, append(slices.Clone(f.Layers), broken)
	if undo {
		d, want = f.Mend, f.Layers
	}
	if err := forge.Replay(ctx, box, d, healthy); err != nil {
		return err
	}
	if err := compareTree(ctx, r, box, spec, want, f.Roots()); err != nil {
		return err
	}
	if err := c.tell(a, g, d, undo, true); err != nil || c.Run == "" {
		return err
	}
	res, err := sandbox.Exec(ctx, box, sandbox.Command{Args: []string{"/bin/sh", "-c", "[ ! -r /etc/profile ] || . /etc/profile; " + c.Run}, Dir: img.Config.Workdir},
		sandbox.ExecOptions{Timeout: c.Timeout, Stdout: a.Stdout, Stderr: a.Stderr, Cap: 16 << 20})
	switch {
	case err != nil:
		return err
	case res.TimedOut:
		return fmt.Errorf("--run took more than %s", c.Timeout)
	case res.Exit.Code != 0:
		return fmt.Errorf("--run ended with status %d", res.Exit.Code)
	}
	return nil
}

// compareTree holds a sandbox's tree against that of layers, at the paths that
// a fault is about.
func compareTree(ctx context.Context, r *rooms, box sandbox.Sandbox, spec sandbox.Spec, want []image.LayerID, roots []string) error {
	snap, err := box.Snapshot(ctx)
	if err != nil {
		return err
	}
	layer, err := r.backend.Commit(ctx, snap)
	if err != nil {
		return err
	}
	stack := append(slices.Clone(spec.Image.Layers), spec.Extra...)
	if layer != "" {
		stack = append(stack, layer)
	}
	got, err := r.images.View(stack)
	if err != nil {
		return err
	}
	right, err := r.images.View(want)
	if err != nil {
		return err
	}
	diff, err := forge.Differ(right, got, roots, false, 10)
	if err != nil {
		return err
	}
	if len(diff) > 0 {
		return gate(fmt.Errorf("after the replay these are not as they have to be: %s", strings.Join(diff, ", ")))
	}
	return nil
}
