package prediction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"assay/internal/agent"
	"assay/internal/sandbox"
)

// noTools is the script's exit status where the image has neither git nor patch.
const noTools = 96

// Bounds of one patch: the files that it may name, and the bytes that they may
// hold where assay itself applies it. A binary one is small and unpacks to much.
const (
	maxFiles   = 20_000
	maxWritten = 256 << 20
)

// parse understands a patch; the library's panics on hostile ones are errors.
func parse(text string) (files []*gitdiff.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			files, err = nil, fmt.Errorf("not a patch: %v", r)
		}
	}()
	files, _, err = gitdiff.Parse(strings.NewReader(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a patch: %w", err)
	case len(files) == 0:
		return nil, errors.New("not a patch: it names no file")
	case len(files) > maxFiles:
		return nil, fmt.Errorf("it names %d files (at most %d)", len(files), maxFiles)
	}
	for _, f := range files {
		for _, name := range []string{f.OldName, f.NewName} {
			if name != "" && (!fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\n\x00") || inGit(name)) {
				return nil, fmt.Errorf("it names %q, which is no path below the working directory", name)
			}
		}
	}
	return files, nil
}

func inGit(name string) bool { return name == ".git" || strings.HasPrefix(name, ".git/") }

// patchPaths lists the files that a patch names, before and after it.
func patchPaths(text string) ([]string, error) {
	files, err := parse(text)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range files {
		for _, name := range []string{f.OldName, f.NewName} {
			if name != "" && (len(all) == 0 || all[len(all)-1] != name) {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// here applies a patch without any program of the sandbox: strictly, as git
// apply would. why is empty when it is applied.
func (a *Agent) here(ctx context.Context, s agent.Session) (why string, err error) {
	files, err := parse(a.text)
	if err != nil {
		return err.Error(), nil
	}
	var puts []written
	var gone []string
	left := a.most
	for _, f := range files {
		old := ""
		if !f.IsNew {
			old, err = readFile(ctx, s.Sandbox, path.Join(string(s.Workdir), f.OldName))
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Sprintf("the patch does not apply: there is no %s", f.OldName), nil
			}
			if err != nil {
				return "", err
			}
		}
		out := bounded{left: left}
		if err := applyOne(&out, old, f); errors.Is(err, errTooMuch) {
			return fmt.Sprintf("the patch does not apply: its files are more than %d MiB", a.most>>20), nil
		} else if err != nil {
			return fmt.Sprintf("the patch does not apply: %s: %v", f.NewName, err), nil
		}
		left = out.left
		if f.IsDelete || f.IsRename {
			gone = append(gone, path.Join(string(s.Workdir), f.OldName))
		}
		if !f.IsDelete {
			mode := int64(f.NewMode & 0o777)
			if mode == 0 {
				mode = int64(f.OldMode & 0o777)
			}
			if mode == 0 {
				mode = 0o644
			}
			switch f.NewMode & kindMask {
			case 0, kindFile:
			case kindLink:
				mode |= kindLink
			default:
				return fmt.Sprintf("the patch does not apply: %s is of mode %o", f.NewName, f.NewMode), nil
			}
			puts = append(puts, written{path.Join(string(s.Workdir), f.NewName), out.buf.Bytes(), mode})
		}
	}
	if err := writeFiles(ctx, s.Sandbox, puts); lost(ctx, err) {
		return "", err
	} else if err != nil { // a file where it wants a directory, or a name too long
		return fmt.Sprintf("the patch does not apply: %v", err), nil
	}
	if len(gone) == 0 {
		return "", nil
	}
	res, err := sandbox.Exec(ctx, s.Sandbox, sandbox.Command{Args: append([]string{"rm", "-f", "--"}, gone...)}, sandbox.ExecOptions{Cap: 4096})
	switch {
	case lost(ctx, err):
		return "", err
	case err != nil:
		return fmt.Sprintf("the patch does not apply: remove %d files: %v", len(gone), err), nil
	case res.Exit.Code != 0:
		return fmt.Sprintf("the patch does not apply: remove %d files: %s", len(gone), lastLine(string(res.Stderr))), nil
	}
	return "", nil
}

// What the upper bits of a mode of git's say.
const (
	kindMask = 0o170000
	kindFile = 0o100000
	kindLink = 0o120000
)

// lost tells the end of the sandbox, or of the caller's patience, from what no
// tree can hold: that is the patch's own fault.
func lost(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || sandbox.Ended(err))
}

var errTooMuch = errors.New("more than its files may hold")

// bounded keeps at most left bytes; what would be more is an error.
type bounded struct {
	buf  bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooMuch
	}
	return b.buf.Write(p)
}

func applyOne(out io.Writer, old string, f *gitdiff.File) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not a patch: %v", r)
		}
	}()
	return gitdiff.Apply(out, strings.NewReader(old), f)
}
