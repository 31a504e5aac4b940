package grade

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"

	"assay/internal/image"
)

// guard says which paths of an agent's layer never cross. Paths are relative
// to the root of the sandbox, as in a layer.
type guard struct {
	literal  []string // a name and all below it
	patterns []string // with wildcards, in .dockerignore syntax
	match    *patternmatcher.PatternMatcher
	placed   map[string]image.Entry // the grader's own files; they are laid over what crosses
}

// byLinks adds to paths and patterns of a task those to which the image's own
// links lead: an image may have /bin for /usr/bin, and what an agent changes has
// the latter name. dir is the working directory.
func byLinks(v *image.View, dir string, patterns []string) []string {
	out := slices.Clone(patterns)
	for _, p := range patterns {
		if p == "" || strings.HasPrefix(p, "!") {
			continue
		}
		full := inBox(dir, p)
		root, wild := globRoot(full)
		if !wild {
			if to, err := v.Resolve("/" + full); err == nil {
				if e, err := v.Lstat(to); err == nil && e.IsDir() {
					root = full
				}
			}
		}
		if to, err := v.Resolve("/" + root); err == nil && to != root && to != "." {
			out = append(out, path.Join("/", to, strings.TrimPrefix(full, root)))
		}
	}
	return out
}

// newGuard reads protected paths: absolute ones as they are, others relative
// to the workdir; "*", "?", "[…]" and "**" as in .dockerignore.
func newGuard(workdir string, protected []string) (*guard, error) {
	g := &guard{}
	for _, p := range protected {
		if p == "" || strings.HasPrefix(p, "!") || strings.ContainsAny(p, "\x00\n") {
			return nil, fmt.Errorf("protected path %q: not a path", p)
		}
		full := path.Join("/", workdir, p)
		if strings.HasPrefix(p, "/") {
			full = path.Clean(p)
		}
		rel := strings.TrimPrefix(full, "/")
		switch {
		case rel == "":
			return nil, fmt.Errorf("protected path %q is everything", p)
		case strings.ContainsAny(rel, `*?[\`):
			g.patterns = append(g.patterns, rel)
		default:
			g.literal = append(g.literal, rel)
		}
	}
	if len(g.patterns) > 0 {
		m, err := patternmatcher.New(g.patterns)
		if err != nil {
			return nil, fmt.Errorf("protected paths: %w", err)
		}
		g.match = m
	}
	return g, nil
}

// covers reports whether p is protected or below something that is.
func (g *guard) covers(p string) bool {
	for _, l := range g.literal {
		if within(p, l) {
			return true
		}
	}
	for q := p; len(g.placed) > 0 && q != "."; q = path.Dir(q) {
		if _, ok := g.placed[q]; ok {
			return true
		}
	}
	if g.match == nil {
		return false
	}
	ok, err := g.match.MatchesOrParentMatches(p)
	return ok || err != nil // what cannot be judged does not cross
}

// roots lists what is to be seen as the image has it, whatever lies upon it:
// every literal path, and what the image holds that a pattern names.
func (g *guard) roots(base *image.View) ([]string, error) {
	all := slices.Clone(g.literal)
	for _, pat := range g.patterns {
		from := pat[:strings.IndexAny(pat, `*?[\`)]
		from = path.Dir("/" + from + "x") // the last directory without a wildcard
		err := base.Walk(from, func(e image.Entry) error {
			if e.Path == "." || !g.covers(e.Path) {
				return nil
			}
			all = append(all, e.Path)
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil && !isMissing(err) {
			return nil, err
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// within reports whether p is dir or below it; "." holds everything.
func within(p, dir string) bool {
	return p == dir || dir == "." || strings.HasPrefix(p, dir) && len(p) > len(dir) && p[len(dir)] == '/'
}
