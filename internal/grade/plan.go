package grade

import (
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/task"
)

// Plan reads the check plan of a step: that of the last test directory that has
// one. Nil: there is none, and the step's reward file is its verdict. An error
// is a fault of the task.
func Plan(key task.Key) (*checks.Plan, error) {
	p, _, err := planIn(key)
	return p, err
}

// planIn also says where the plan stands.
func planIn(key task.Key) (p *checks.Plan, dir string, err error) {
	if p, dir, err = checks.Find(key.Tests); err != nil {
		return nil, "", &taskError{err}
	}
	return p, dir, nil
}

// Guarded lists what a step protects: what its task says and what its plan
// does, which may be nil. The directories that are the grader's in any task are
// not among them.
func Guarded(key task.Key, p *checks.Plan) []string {
	all := slices.DeleteFunc(slices.Clone(key.Protected), isOurs)
	if p != nil {
		all = append(all, p.Protected...)
	}
	return all
}

// maxLocked bounds how many paths a sandbox shows read-only; each is a mount.
const maxLocked = 1000

// Locked lists what an image has at protected paths: the files and directories
// that are to be read-only, absolute. Beyond a thousand there are none: then
// they are only put back.
func Locked(store *image.Store, img image.Image, workdir image.Path, protected []string) ([]image.Path, error) {
	dir, err := resolveDir(store, img.Layers, workdir)
	if err != nil {
		return nil, err
	}
	v, err := store.View(img.Layers)
	if err != nil {
		return nil, err
	}
	g, err := newGuard(dir, byLinks(v, dir, protected))
	if err != nil {
		return nil, &taskError{err}
	}
	roots, err := g.roots(v)
	if err != nil || len(roots) > maxLocked {
		return nil, err
	}
	var out []image.Path
	for _, r := range roots {
		if e, err := v.Lstat(r); err == nil && (e.IsDir() || e.Type == image.TypeFile) {
			out = append(out, image.Path("/"+r))
		}
	}
	return out, nil
}

// inBox makes a path of a plan one relative to the sandbox's root: dir is the
// working directory, relative to the root.
func inBox(dir, p string) string {
	if !strings.HasPrefix(p, "/") {
		p = path.Join("/", dir, p)
	}
	return relative(image.Path(p))
}

// hexSum spells a digest as layers do.
func hexSum(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

// glob reports whether a slash-separated name matches a pattern: "**" stands
// for any number of directories, the rest is [path.Match]'s, with "!" for "^".
func glob(pattern, name string) bool {
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	return globParts(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

func globParts(pattern, name []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for len(pattern) > 1 && pattern[1] == "**" {
				pattern = pattern[1:]
			}
			for i := range len(name) + 1 {
				if globParts(pattern[1:], name[i:]) {
					return true
				}
			}
			return false
		}
		if len(name) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], name[0]); err != nil || !ok {
			return false
		}
		pattern, name = pattern[1:], name[1:]
	}
	return len(name) == 0
}

// globRoot is the last directory of a pattern before its first wildcard, and
// whether there is one at all.
func globRoot(pattern string) (dir string, wild bool) {
	i := strings.IndexAny(pattern, `*?[\`)
	if i < 0 {
		return path.Dir(pattern), false
	}
	return path.Dir(pattern[:i] + "x"), true
}

// errPlan is a fault that a plan shows only when it is graded.
func errPlan(format string, a ...any) error {
	return &taskError{fmt.Errorf(checks.File+": "+format, a...)}
}
