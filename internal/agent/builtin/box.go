package builtin

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"assay/internal/agent"
	"assay/internal/sandbox"
)

const (
	boxTimeout = 60 * time.Second
	maxFile    = 8 << 20 // bytes of a file that is read or written whole
)

// use sums what the agent's programs consumed.
type use struct{ report agent.Report }

func (u *use) add(e sandbox.Exit) {
	u.report.Add(agent.Ran{CPU: e.CPU, MaxRSS: e.MaxRSS, OutOfMemory: e.OutOfMemory})
}

// box runs the small scripts behind the tools for files. They run as the
// task's user and see links, rights and mounts as that user does, so that a
// tool can do nothing that the shell could not.
type box struct {
	s   agent.Session
	env []string
	use *use
}

// toolError is what a tool tells the model.
type toolError string

func (e toolError) Error() string { return string(e) }

// sh runs a script of POSIX shell with args as $1, $2, … and returns what it
// wrote, at most most bytes of it. A script that fails is a toolError with its
// own words.
func (b box) sh(ctx context.Context, most int64, stdin []byte, script string, args ...string) (out []byte, cut bool, err error) {
	o := sandbox.ExecOptions{Timeout: boxTimeout, Cap: most}
	if stdin != nil {
		o.Stdin = bytes.NewReader(stdin)
	}
	for _, a := range args {
		if strings.ContainsRune(a, 0) {
			return nil, false, toolError("an argument holds a zero byte")
		}
	}
	res, err := sandbox.Exec(ctx, b.s.Sandbox, sandbox.Command{
		Args: append([]string{"/bin/sh", "-c", script, "tool"}, args...), Env: b.env, Dir: b.s.Workdir, User: b.s.User,
	}, o)
	if err != nil { // it may have removed its own workdir, or the shell
		return nil, false, notStarted(err)
	}
	b.use.add(res.Exit)
	switch {
	case res.Cancelled:
		return nil, false, context.Cause(ctx)
	case res.TimedOut:
		return nil, false, toolError(fmt.Sprintf("gave up after %v", boxTimeout))
	case res.Exit.Code != 0:
		text := strings.TrimSpace(strings.TrimPrefix(string(res.Stderr), "tool: "))
		if text == "" {
			text = fmt.Sprintf("failed with status %d", res.Exit.Code)
		}
		return nil, false, toolError(strings.ToValidUTF8(clip(text, 2000), "\ufffd"))
	}
	return res.Stdout, res.Dropped > 0, nil
}

// regular lets a script go on only for a file that can be read to its end.
const regular = `[ -e "$1" ] || { echo "$1: there is no such file" >&2; exit 1; }
[ ! -d "$1" ] || { echo "$1: is a directory" >&2; exit 1; }
[ -f "$1" ] || { echo "$1: is not a regular file" >&2; exit 1; }
`

// read returns a whole file.
func (b box) read(ctx context.Context, path string) ([]byte, error) {
	text, cut, err := b.sh(ctx, maxFile, nil, regular+`exec cat -- "$1"`, path)
	if err == nil && cut {
		err = toolError(fmt.Sprintf("%s: larger than %d bytes", path, maxFile))
	}
	return text, err
}

// write replaces a file, its directories made if missing. Its mode stays.
func (b box) write(ctx context.Context, path string, text []byte) error {
	if len(text) > maxFile {
		return toolError(fmt.Sprintf("%s: more than %d bytes", path, maxFile))
	}
	if text == nil {
		text = []byte{}
	}
	_, _, err := b.sh(ctx, 1<<10, text, `[ ! -e "$1" ] || [ -f "$1" ] || { echo "$1: is not a regular file" >&2; exit 1; }
d=$(dirname -- "$1") && mkdir -p -- "$d" && cat >"$1"`, path)
	return err
}
