package external

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
)

const (
	cleanTime = 10 * time.Second
	cleanMost = 4096    // names that are removed
	cleanList = 1 << 20 // bytes of them
)

// The shell that the tree has does it: names come and go as arguments, so that
// nothing in them counts. Globs are those of a recipe, see [Recipe.check].
const (
	listScript   = `cd "$0" || exit 0; for glob; do for f in $glob; do if [ -e "$f" ] || [ -L "$f" ]; then printf '%s\0' "$f"; fi; done; done`
	removeScript = `exec rm -rf -- "$@"`
)

// listed are the names in dir that match the globs. A dir that is not there has none.
func listed(ctx context.Context, s agent.Place, dir image.Path, globs []string) ([]string, error) {
	out, err := asRoot(ctx, s, listScript, string(dir), globs)
	var names []string
	for n := range bytes.SplitSeq(out, []byte{0}) {
		if len(n) > 0 && len(names) < cleanMost {
			names = append(names, string(n))
		}
	}
	return names, err
}

// remove removes what stands at the paths, and below them.
func remove(ctx context.Context, s agent.Place, paths ...string) error {
	for some := range slices.Chunk(paths, 500) {
		if _, err := asRoot(ctx, s, removeScript, "rm", some); err != nil {
			return err
		}
	}
	return nil
}

// errShell says that the sandbox's own shell could not do it: a note.
var errShell = errors.New("the sandbox's shell did not do it")

func asRoot(ctx context.Context, s agent.Place, script, zero string, args []string) ([]byte, error) {
	res, err := sandbox.Exec(ctx, s, sandbox.Command{
		Args: append([]string{"/bin/sh", "-c", script, zero}, args...), Dir: "/", User: "0",
	}, sandbox.ExecOptions{Timeout: cleanTime, Cap: cleanList})
	switch {
	case errors.Is(err, sandbox.ErrNotStarted):
		return nil, fmt.Errorf("%w: %w", errShell, err)
	case err != nil:
		return nil, err
	case res.Exit.Code != 0 || res.TimedOut || res.Cancelled:
		return nil, fmt.Errorf("%w: exit status %d: %.200q", errShell, res.Exit.Code, res.Stderr)
	}
	return res.Stdout, nil
}

// readFile is a file of the sandbox; nil where it is none, or longer than most.
func readFile(ctx context.Context, from sandbox.Trees, p image.Path, most int64) ([]byte, error) {
	var b bytes.Buffer
	err := from.Get(ctx, p, &b, most)
	switch {
	case sandbox.Ended(err):
		return nil, err
	case err != nil:
		return nil, nil
	}
	r := tar.NewReader(&b)
	if h, err := r.Next(); err != nil || h.Typeflag != tar.TypeReg {
		return nil, nil
	}
	return io.ReadAll(r)
}
