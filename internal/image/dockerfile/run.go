package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"assay/internal/image"
	"assay/internal/sandbox"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const (
	runOutput = 16 << 20 // bytes of one RUN's stream that are shown; the rest is dropped
	lastKept  = 4 << 10  // bytes of output in a RunError
)

// run executes one command in a sandbox on the image so far; what it changed
// is the layer.
func (b *build) run(ctx context.Context, c *instructions.RunCommand) error {
	if b.o.Backend == nil {
		return errors.New("no sandbox is there to run it in")
	}
	args := commandLine(c)
	key := b.key("RUN", args, b.vars.args, b.cfg.Env, b.cfg.Workdir, b.cfg.User, b.o.Network)
	return b.cached(key, func() (image.LayerID, error) { return b.sandboxed(ctx, args) })
}

func (b *build) sandboxed(ctx context.Context, args []string) (id image.LayerID, err error) {
	sb, err := b.o.Backend.Create(ctx, sandbox.Spec{
		Image: image.New("", b.stack, b.binds, b.cfg), UID: b.o.UID, Limits: b.o.Limits, Hostname: "buildkitsandbox",
		Network: b.o.Network, Egress: b.o.Egress, Mounts: b.o.RunMounts,
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sb.Close()) }()
	out := &tail{w: b.o.Progress}
	r, err := sandbox.Exec(ctx, sb, sandbox.Command{
		Args: args, Env: slices.Concat(b.o.RunEnv, b.vars.inside()), Dir: b.cfg.Workdir, User: b.cfg.User,
	}, sandbox.ExecOptions{Timeout: b.o.Timeout, Cap: runOutput, Stdout: out, Stderr: out})
	switch {
	case err != nil:
		return "", err
	case r.Cancelled:
		return "", fmt.Errorf("cancelled: %w", context.Cause(ctx))
	case r.TimedOut:
		return "", fmt.Errorf("no end after %v; its last output:\n%s", b.o.Timeout, out.last)
	case r.Exit.Code != 0:
		return "", &RunError{Code: r.Exit.Code, Output: out.last}
	}
	snap, err := sb.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	return b.o.Backend.Commit(ctx, snap)
}

// commandLine gives the program and its arguments as BuildKit does: a single
// here-document is the script itself, others are put together again for the
// shell to read.
func commandLine(c *instructions.RunCommand) []string {
	args := c.CmdLine
	if len(c.Files) > 0 && len(args) == 1 {
		if isHeredoc(args) {
			data := c.Files[0].Data
			if c.Files[0].Chomp {
				data = parser.ChompHeredocContent(data)
			}
			args = []string{data}
		} else {
			var s strings.Builder
			s.WriteString(args[0])
			for _, f := range c.Files {
				s.WriteString("\n" + f.Data + f.Name)
			}
			args = []string{s.String()}
		}
	}
	return withShell(instructions.ShellDependantCmdLine{CmdLine: args, PrependShell: c.PrependShell})
}

// tail passes output on and keeps the last of it.
type tail struct {
	w    io.Writer
	last []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.last = append(t.last, b...)
	if n := len(t.last) - lastKept; n > 0 {
		t.last = append(t.last[:0], t.last[n:]...)
	}
	return t.w.Write(b)
}

const maxPasswd = 1 << 20

// userIDs finds the ids of USER's value, a name or number with an optional
// group. Names are looked up in the image's own files; a number without group
// is its group too, as in BuildKit.
func userIDs(v *image.View, user string) (uid, gid int, err error) {
	if user == "" {
		return 0, 0, nil
	}
	name, group, hasGroup := strings.Cut(user, ":")
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		uid, gid = int(n), int(n)
	} else if f := lookUp(v, "etc/passwd", name, 4); f != nil {
		u, errU := strconv.ParseUint(f[2], 10, 31)
		g, errG := strconv.ParseUint(f[3], 10, 31)
		if errU != nil || errG != nil {
			return 0, 0, fmt.Errorf("user %q has no numbers in the image's /etc/passwd", name)
		}
		uid, gid = int(u), int(g)
	} else {
		return 0, 0, fmt.Errorf("user %q is not in the image's /etc/passwd", name)
	}
	if !hasGroup {
		return uid, gid, nil
	}
	number := group
	if f := lookUp(v, "etc/group", group, 3); f != nil {
		number = f[2]
	}
	g, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return 0, 0, fmt.Errorf("group %q is not in the image's /etc/group", group)
	}
	return uid, int(g), nil
}

// lookUp returns the fields of the first line for a name in a file like
// /etc/passwd, nil if none has that many. A file that is missing or too large
// has no lines.
func lookUp(v *image.View, file, name string, fields int) []string {
	at, err := v.Resolve(file)
	if err != nil {
		return nil
	}
	b, err := v.ReadFile(at, maxPasswd)
	if err != nil {
		return nil
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Split(strings.TrimSpace(l), ":"); f[0] == name && len(f) >= fields {
			return f
		}
	}
	return nil
}
