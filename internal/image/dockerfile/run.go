package dockerfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
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

// command executes one RUN in a sandbox on the stage so far; what it changed is
// the layer.
func (x *execution) command(ctx context.Context, c *instructions.RunCommand) error {
	if x.b.o.Backend == nil {
		return errors.New("no sandbox is there to run it in")
	}
	network := x.b.o.Network
	if instructions.GetNetwork(c) == instructions.NetworkNone {
		network = sandbox.NetNone
	}
	args, script := x.commandLine(c)
	bound, err := x.mountKey(ctx, c)
	if err != nil {
		return err
	}
	key := x.b.key(x, "RUN", args, script, x.vars.list, x.cfg.Workdir, x.cfg.User, network, bound)
	return x.cached(key, func() (image.LayerID, error) {
		select {
		case x.b.running <- struct{}{}:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		defer func() { <-x.b.running }()
		m, err := x.mounts(ctx, c)
		if err != nil {
			return "", err
		}
		defer m.close()
		if script != "" {
			p, err := x.private(m)
			if err != nil {
				return "", err
			}
			if err := p.Write("script", 0o755, []byte(script)); err != nil {
				return "", err
			}
			m.list = append(m.list, sandbox.Mount{Host: p.Path("script"), Target: image.Path(args[len(args)-1]), ReadOnly: true})
		}
		return x.sandboxed(ctx, args, m, network)
	})
}

func (x *execution) sandboxed(ctx context.Context, args []string, m *mounts, network sandbox.Network) (id image.LayerID, err error) {
	o := x.b.o
	names, err := x.names(m)
	if err != nil {
		return "", err
	}
	inherited, err := x.inherited()
	if err != nil {
		return "", err
	}
	spec := sandbox.Spec{
		Image: image.New("", x.stack, x.binds, x.cfg), UID: o.UID, Limits: o.Limits, Hostname: "buildkitsandbox",
		Network: network, Mounts: slices.Concat(names, inherited, m.list),
	}
	if network != sandbox.NetNone && network != "" {
		spec.Egress, spec.Relays = o.Egress, o.RunRelays
	}
	sb, err := o.Backend.Create(ctx, spec)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sb.Close()) }()
	out := &tail{w: x.out, hide: m.secrets}
	r, err := sandbox.Exec(ctx, sb, sandbox.Command{
		Args: args, Env: slices.Concat(o.RunEnv, x.vars.proxies(), x.vars.list, m.env), Dir: x.cfg.Workdir, User: x.cfg.User,
	}, sandbox.ExecOptions{Timeout: o.Timeout, Cap: runOutput, Stdout: out, Stderr: out})
	out.flush()
	switch {
	case err != nil:
		return "", err
	case r.Cancelled:
		return "", fmt.Errorf("cancelled: %w", context.Cause(ctx))
	case r.TimedOut:
		return "", fmt.Errorf("no end after %v; its last output:\n%s", o.Timeout, out.last)
	case r.Exit.Code != 0:
		return "", &RunError{Code: r.Exit.Code, Output: out.last}
	}
	snap, err := sb.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	id, err = o.Backend.Commit(ctx, snap)
	if d, ok := o.Backend.(sandbox.Dropper); ok && err == nil {
		err = d.Drop(snap)
	}
	if err != nil {
		return "", err
	}
	return x.withoutStubs(ctx, id, spec.Mounts)
}

// scriptDir is where a here-document that names its interpreter lies while it
// runs.
const scriptDir = "/run/assay-script/"

// commandLine gives the program and its arguments as BuildKit does: a single
// here-document is the script itself, for its own interpreter if it begins with
// #!; others are put together again for the shell to read.
func (x *execution) commandLine(c *instructions.RunCommand) (args []string, script string) {
	args = c.CmdLine
	if len(c.Files) > 0 && len(args) == 1 {
		if isHeredoc(args) {
			data := c.Files[0].Data
			if c.Files[0].Chomp {
				data = parser.ChompHeredocContent(data)
			}
			if strings.HasPrefix(data, "#!") {
				name := scriptDir + path.Base("/"+c.Files[0].Name)
				return x.withShell(instructions.ShellDependantCmdLine{CmdLine: []string{name}, PrependShell: true}), data
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
	return x.withShell(instructions.ShellDependantCmdLine{CmdLine: args, PrependShell: c.PrependShell}), ""
}

// tail passes output on, keeps the last of it, and hides secrets in it, line
// by line.
type tail struct {
	w    io.Writer
	last []byte
	hide [][]byte
	line []byte // not ended yet; only where something is hidden
}

// shortest is how long a line of a secret must be to be hidden: shorter ones
// would tear words apart.
const shortest = 6

func (t *tail) Write(b []byte) (int, error) {
	if len(t.hide) == 0 {
		return t.pass(b)
	}
	t.line = append(t.line, b...)
	if i := bytes.LastIndexByte(t.line, '\n'); i >= 0 {
		t.emit(t.line[:i+1])
		t.line = append([]byte(nil), t.line[i+1:]...)
	}
	if len(t.line) > 1<<20 {
		t.flush()
	}
	return len(b), nil
}

func (t *tail) flush() {
	if len(t.line) > 0 {
		t.emit(t.line)
		t.line = nil
	}
}

func (t *tail) emit(b []byte) {
	for _, secret := range t.hide {
		for line := range bytes.SplitSeq(secret, []byte("\n")) {
			if line = bytes.TrimSpace(line); len(line) >= shortest {
				b = bytes.ReplaceAll(b, line, []byte("****"))
			}
		}
	}
	t.pass(b)
}

func (t *tail) pass(b []byte) (int, error) {
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
	gid, err = groupID(v, group)
	return uid, gid, err
}

func groupID(v *image.View, group string) (int, error) {
	number := group
	if f := lookUp(v, "etc/group", group, 3); f != nil {
		number = f[2]
	}
	g, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("group %q is not in the image's /etc/group", group)
	}
	return int(g), nil
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
