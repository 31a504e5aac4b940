package forge

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/repo"
)

// inlined is how many ids of a list stand in the plan itself.
const inlined = 50

// lists are the closed lists of a task, by command: ids as reports spell them.
type lists struct {
	failToPass, passToPass map[string][]string
}

func (l lists) count() (f, p int) {
	for _, ids := range l.failToPass {
		f += len(ids)
	}
	for _, ids := range l.passToPass {
		p += len(ids)
	}
	return f, p
}

// planOf makes a plan of the suite's commands. chosen are the tests that are to
// run; nil: whole commands. It also gives the files below tests/ that it names.
func planOf(suite *repo.Suite, l lists, chosen map[string][]repo.Test, protected []string) (*checks.Plan, map[string][]byte) {
	p := &checks.Plan{Version: 1, Protected: protected}
	files := map[string][]byte{}
	for name, b := range suite.SupportFiles() {
		files[name] = b
	}
	for _, c := range suite.Commands {
		f2p, p2p := slices.Sorted(slices.Values(l.failToPass[c.Name])), slices.Sorted(slices.Values(l.passToPass[c.Name]))
		if len(f2p)+len(p2p) == 0 {
			continue
		}
		k := c.Command
		k.Run = runLine(c, chosen[c.Name])
		if k.Report == "" {
			if len(p2p) > 0 {
				k.PassToPass = p2p
			}
			p.Commands = append(p.Commands, k)
			continue
		}
		k.FailToPass, k.PassToPass, k.FailToPassFile, k.PassToPassFile = f2p, p2p, "", ""
		if len(f2p) > inlined {
			k.FailToPass, k.FailToPassFile = nil, c.Name+".fail-to-pass.txt"
			files[k.FailToPassFile] = lines(f2p)
		}
		if len(p2p) > inlined {
			k.PassToPass, k.PassToPassFile = nil, c.Name+".pass-to-pass.txt"
			files[k.PassToPassFile] = lines(p2p)
		}
		p.Commands = append(p.Commands, k)
	}
	return p, files
}

// runLine is a command's line for some of its tests, with its build before it.
func runLine(c repo.Command, some []repo.Test) string {
	run := c.Run
	if len(some) > 0 {
		if line, ok := repo.Select(c, some); ok {
			run = line
		}
	}
	if c.Build == "" {
		return run
	}
	return "{ " + c.Build + "\n} && {\n" + run + "\n}"
}

func lines(ids []string) []byte { return []byte(strings.Join(ids, "\n") + "\n") }

// configured are files by which a directory says that a build is made in it.
var configured = []string{"CMakeCache.txt", "meson-private", "CACHEDIR.TAG", "maven-status"}

// compiled reports whether a file is what a build leaves beside its sources.
func compiled(name string) bool {
	return slices.Contains([]string{".o", ".lo", ".a", ".la", ".so", ".class", ".d"}, path.Ext(name))
}

// foreign reports whether a file lies in what git or a package manager keeps.
func foreign(rel string) bool {
	dirs := strings.Split(path.Dir(rel), "/")
	return strings.HasPrefix(rel, ".git/") || rel == ".git" || slices.ContainsFunc(dirs, func(d string) bool {
		return slices.Contains([]string{"node_modules", "bower_components", "site-packages", ".venv", "venv", "vendor"}, d)
	})
}

// testFiles are the files of the healthy image that belong to the tests, by
// their paths relative to the working directory. What a build writes does not,
// whatever its name: to be built again it must be writable. Nor do the tests of
// installed packages, which nobody runs.
func testFiles(v *image.View, workdir string, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	m, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fmt.Errorf("test files of the suite: %w", err)
	}
	var out, built []string
	err = v.Walk(workdir, func(e image.Entry) error {
		rel, below := strings.CutPrefix("/"+e.Path, workdir+"/")
		if below && slices.Contains(configured, path.Base(rel)) {
			built = append(built, path.Dir(rel)+"/")
		}
		if !below || e.IsDir() || e.Type != image.TypeFile || foreign(rel) || compiled(rel) {
			return nil
		}
		ok, err := m.MatchesOrParentMatches(rel)
		if ok {
			out = append(out, rel)
		}
		return err
	})
	out = slices.DeleteFunc(out, func(rel string) bool {
		return slices.ContainsFunc(built, func(dir string) bool { return strings.HasPrefix(rel, dir) })
	})
	slices.Sort(out)
	return out, err
}

// maxProtected is how many protected paths a plan names: the grader shows at
// most a thousand read-only.
const maxProtected = 400

// protect are the paths that a plan protects: directories that hold nothing but
// tests, and test files elsewhere. What the task itself breaks is not among
// them, nor a directory that holds it: it could never be mended.
func protect(v *image.View, workdir string, tests []string, broken Delta) []string {
	mine := map[string]bool{}
	for _, f := range tests {
		mine[f] = true
	}
	free := map[string]bool{} // what must not be protected, and directories above it
	for _, e := range broken {
		for p := strings.TrimPrefix(e.Path, workdir+"/"); p != "." && p != "/"; p = path.Dir(p) {
			free[p] = true
		}
	}
	var out []string
	var dir func(rel string) bool
	// dir reports whether all below rel is protected; what is not a whole
	// directory is added to out.
	dir = func(rel string) bool {
		all, err := v.ReadDir(path.Join(workdir, rel))
		if err != nil {
			return false
		}
		var some []string
		whole := len(all) > 0 && rel != "" && !free[rel]
		for _, e := range all {
			p := strings.TrimPrefix("/"+e.Path, workdir+"/")
			ok := mine[p] && !free[p]
			switch name := path.Base(p); {
			case name == "__pycache__":
				continue
			case e.IsDir() && name != ".git" && name != "node_modules":
				ok = dir(p)
			}
			if ok {
				some = append(some, p)
			}
			whole = whole && ok
		}
		if !whole {
			out = append(out, some...)
		}
		return whole
	}
	dir("")
	slices.Sort(out)
	return out[:min(len(out), maxProtected)]
}
