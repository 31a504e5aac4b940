package prediction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"assay/internal/agent"
	"assay/internal/sandbox"
)

// noTools is the script's exit status where the image has neither git nor patch.
const noTools = 96

// maxFiles bounds what one patch may name.
const maxFiles = 20_000

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
		var out bytes.Buffer
		if err := applyOne(&out, old, f); err != nil {
			return fmt.Sprintf("the patch does not apply: %s: %v", f.NewName, err), nil
		}
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
			puts = append(puts, written{path.Join(string(s.Workdir), f.NewName), out.Bytes(), mode})
		}
	}
	if err := writeFiles(ctx, s.Sandbox, puts); err != nil {
		return "", err
	}
	if len(gone) == 0 {
		return "", nil
	}
	res, err := sandbox.Exec(ctx, s.Sandbox, sandbox.Command{Args: append([]string{"rm", "-f", "--"}, gone...)}, sandbox.ExecOptions{Cap: 4096})
	if err == nil && res.Exit.Code != 0 {
		err = fmt.Errorf("remove %s: %s", strings.Join(gone, ", "), res.Stderr)
	}
	return "", err
}

func applyOne(out *bytes.Buffer, old string, f *gitdiff.File) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not a patch: %v", r)
		}
	}()
	return gitdiff.Apply(out, strings.NewReader(old), f)
}
