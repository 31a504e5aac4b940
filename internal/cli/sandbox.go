package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/internal/store"
)

type sandboxCmd struct {
	Shell    sandboxShellCmd    `cmd:"" help:"Open a shell in a fresh sandbox, or in a trial's end state."`
	Selftest sandboxSelftestCmd `cmd:"" help:"Attack the sandbox and say what holds."`
	Bench    sandboxBenchCmd    `cmd:"" help:"Measure create, exec, snapshot, fork, reset and more."`
}

type sandboxShellCmd struct {
	Image string   `default:"host" placeholder:"NAME" help:"Image to start from."`
	Trial string   `placeholder:"DIR" help:"Trial directory: open what its agent left."`
	Step  string   `placeholder:"NAME" help:"Step of a multi-step trial; default: the last."`
	UID   string   `name:"uid" enum:",single,subid,root" default:"" help:"User ids in the sandbox. Default: the trial's, else single."`
	User  string   `placeholder:"USER" help:"Who runs the command: a name or number with an optional :GROUP. Default: the image's user."`
	Args  []string `arg:"" optional:"" passthrough:"" name:"command" help:"Command to run instead of a shell."`
}

func (sandboxShellCmd) Help() string {
	return `What is changed in the shell is gone when it ends.

Examples:
  assay sandbox shell
  assay sandbox shell --trial jobs/demo/fix-csv__a1B2c3D
  assay sandbox shell --image local/base:1 -- cat /etc/os-release

Exit status: the command's own; 2 when the trial has no end state.`
}

func (c *sandboxShellCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	spec, err := c.spec(ctx, r)
	if err != nil {
		return err
	}
	sb, err := r.backend.Create(ctx, spec)
	if err != nil {
		return err
	}
	defer sb.Close()
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		args = []string{"/bin/sh"}
	}
	code, err := a.attach(ctx, sb, args, c.User)
	if err != nil {
		return err
	}
	if code != 0 {
		return &exitError{code, nil}
	}
	return nil
}

// spec finds the image and layers to start from.
func (c *sandboxShellCmd) spec(ctx context.Context, r *rooms) (sandbox.Spec, error) {
	if c.Trial == "" {
		img, err := r.resolve(ctx, c.Image)
		return sandbox.Spec{Image: img, UID: sandbox.UIDMode(c.UID)}, err
	}
	t, err := store.ReadTrial(c.Trial)
	if err != nil {
		return sandbox.Spec{}, usage(err)
	}
	ends := t.Record.EndState
	if len(ends) == 0 {
		return sandbox.Spec{}, usagef("%s has no end state: it ended %s before its agent did", c.Trial, t.Record.Cause)
	}
	end := ends[len(ends)-1]
	for _, e := range ends {
		if e.Step == c.Step && c.Step != "" {
			end = e
		}
	}
	img, err := job.ImageOf(filepath.Dir(t.Dir), image.ID(t.Record.Image.ID))
	if err != nil {
		return sandbox.Spec{}, fmt.Errorf("the image of %s: %w", c.Trial, err)
	}
	spec := sandbox.Spec{Image: img, UID: sandbox.UIDMode(c.UID)}
	if c.UID == "" {
		spec.UID = sandbox.UIDMode(t.Record.Modes.UID)
	}
	if end.Layer != "" {
		spec.Extra = []image.LayerID{image.LayerID(end.Layer)}
	}
	return spec, nil
}

// attach connects this process's streams to a program in the sandbox, through
// a terminal where stdin is one.
func (a *app) attach(ctx context.Context, sb sandbox.Sandbox, args []string, user string) (int, error) {
	stdin, isFile := a.Stdin.(*os.File)
	if !isFile || !term.IsTerminal(int(stdin.Fd())) {
		res, err := sandbox.Exec(ctx, sb, sandbox.Command{Args: args, User: user}, sandbox.ExecOptions{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Cap: 1 << 40})
		return res.Exit.Code, err
	}
	cols, rows, err := term.GetSize(int(stdin.Fd()))
	if err != nil {
		return 0, err
	}
	p, err := sb.Start(ctx, sandbox.Command{Args: args, User: user, Env: []string{"TERM=xterm"}, TTY: &sandbox.Size{Rows: uint16(rows), Cols: uint16(cols)}})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	old, err := term.MakeRaw(int(stdin.Fd()))
	if err != nil {
		return 0, err
	}
	defer term.Restore(int(stdin.Fd()), old)
	go io.Copy(p.Stdin(), stdin) // ends with this process: a read of a terminal cannot be cut short
	read := make(chan struct{})
	go func() { io.Copy(a.Stdout, p.Stdout()); close(read) }()
	e, err := p.Wait(ctx)
	p.Close()
	<-read
	return e.Code, err
}
