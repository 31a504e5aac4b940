package invert

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"assay/internal/image"
	"assay/internal/repo"
)

// Ground is what operators look at: a healthy image and what is known of its
// suite. All its paths are absolute. It never changes, and many goroutines may
// share it. What it does not find or cannot read is simply not there: an
// operator without a site proposes nothing.
type Ground struct {
	Tree *image.View
	Env  *repo.Environment

	project   func() []string
	search    func() []string
	pythonUse func() pythonUse
	dists     func() []dist
	prose     func() string
	guard     []*regexp.Regexp
}

// Caps of what operators read: images hold anything.
const (
	maxText    = 512 << 10
	maxBinary  = 4 << 20
	maxProject = 20_000 // files of a project that are looked at
)

// NewGround looks at a healthy image.
func NewGround(tree *image.View, env *repo.Environment) *Ground {
	g := &Ground{Tree: tree, Env: env}
	g.project = sync.OnceValue(g.walkProject)
	g.search = sync.OnceValue(g.readSearch)
	g.pythonUse = sync.OnceValue(g.lookPython)
	g.dists = sync.OnceValue(g.lookDists)
	g.prose = sync.OnceValue(g.readProse)
	for _, p := range env.Suite.TestFiles {
		g.guard = append(g.guard, globs(p))
	}
	return g
}

// Dir is the directory that is built and tested.
func (g *Ground) Dir() string { return path.Join("/", g.Env.Workdir, g.Env.Subdir) }

// Home is the home directory of the suite's user.
func (g *Ground) Home() string {
	name := g.Env.User
	if name == "" || name == "0" || name == "root" {
		name = "root"
	}
	passwd, _ := g.Text("/etc/passwd") // without one there are the usual places
	for l := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSpace(l), ":")
		if len(f) == 7 && (f[0] == name || f[2] == name) && path.IsAbs(f[5]) {
			return path.Clean(f[5])
		}
	}
	if name == "root" {
		return "/root"
	}
	return path.Join("/home", name)
}

// Root reports whether the suite runs as root, before whom permissions mean
// little.
func (g *Ground) Root() bool { return slices.Contains([]string{"", "0", "root"}, g.Env.User) }

// Speaks reports whether the project is written in a language.
func (g *Ground) Speaks(language string) bool { return slices.Contains(g.Env.Languages, language) }

// Commands is all that the suite runs, one command a line.
func (g *Ground) Commands() string {
	var all []string
	for _, c := range g.Env.Suite.Commands {
		all = append(all, c.Build, c.Run, strings.Join(c.Args, " "))
	}
	return strings.Join(all, "\n")
}

// Runs reports whether the suite's commands name a program.
func (g *Ground) Runs(program string) bool {
	return regexp.MustCompile(`(^|[\s/;&|(])` + regexp.QuoteMeta(program) + `($|[\s;&|)])`).MatchString(g.Commands())
}

// Entry is what stands at a path, itself and not where it leads.
func (g *Ground) Entry(p string) (image.Entry, bool) {
	e, err := g.Tree.Lstat(p)
	return e, err == nil
}

// Has reports whether anything stands at a path.
func (g *Ground) Has(p string) bool { _, ok := g.Entry(p); return ok }

// IsDir reports whether a directory stands at a path, no link to one.
func (g *Ground) IsDir(p string) bool { e, ok := g.Entry(p); return ok && e.IsDir() }

// Text is a regular file's content, if it is text of a sensible size.
func (g *Ground) Text(p string) (string, bool) {
	b, err := g.Tree.ReadFile(p, maxText)
	if err != nil || !utf8.Valid(b) || slices.Contains(b, 0) {
		return "", false
	}
	return string(b), true
}

// Bytes is a regular file's content, if it is of a sensible size.
func (g *Ground) Bytes(p string) ([]byte, bool) {
	b, err := g.Tree.ReadFile(p, maxBinary)
	return b, err == nil
}

// List is a directory's content in order of names.
func (g *Ground) List(dir string) []image.Entry {
	es, _ := g.Tree.ReadDir(dir) // what is missing is empty
	return es
}

// Below lists the paths below a directory that keep says, parents first. It
// enters no directory that has the name of a dependency store, a build output
// or a version control system.
func (g *Ground) Below(dir string, keep func(image.Entry) bool) []string {
	var all []string
	_ = g.Tree.Walk(dir, func(e image.Entry) error {
		p := "/" + e.Path
		if e.IsDir() && p != path.Clean(dir) && slices.Contains(aside(), path.Base(p)) {
			return fs.SkipDir
		}
		if len(all) >= maxProject {
			return fs.SkipAll
		}
		if p != path.Clean(dir) && keep(e) {
			all = append(all, p)
		}
		return nil
	})
	return all
}

// aside are names of directories whose files people do not write.
func aside() []string {
	return []string{".git", ".hg", ".svn", "node_modules", ".venv", "venv", "env", "site-packages", "__pycache__",
		".tox", ".nox", ".mypy_cache", ".pytest_cache", "target", "build", "dist", "vendor", ".gradle", ".cargo", ".cache", ".eggs"}
}

// Project lists the files and links that people wrote below Dir and that an
// operator may change: none of the tests' own.
func (g *Ground) Project() []string { return slices.Clone(g.project()) }

// Sources are those of Project with one of these suffixes.
func (g *Ground) Sources(suffixes ...string) []string {
	var all []string
	for _, p := range g.Project() {
		if slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(p, s) }) {
			all = append(all, p)
		}
	}
	return all
}

func (g *Ground) walkProject() []string {
	return g.Below(g.Dir(), func(e image.Entry) bool {
		return (e.Type == image.TypeFile || e.Type == image.TypeSymlink) && g.Ours("/"+e.Path)
	})
}

// Everything lists all files below Dir that people wrote, those of tests too:
// to learn what is used, not to change it.
func (g *Ground) Everything(suffixes ...string) []string {
	return g.Below(g.Dir(), func(e image.Entry) bool {
		return e.Type == image.TypeFile && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(e.Path, s) })
	})
}

// Ours reports whether a path, there or to be, may carry a fault: it is no
// test file, which a grader would put back, and no part of the repository's
// store.
func (g *Ground) Ours(p string) bool {
	rel, in := strings.CutPrefix(p, path.Clean(g.Env.Workdir)+"/")
	if !in {
		return !slices.ContainsFunc([]string{"/proc", "/sys", "/dev", "/tests", "/logs", "/solution"}, func(d string) bool {
			return p == d || strings.HasPrefix(p, d+"/")
		})
	}
	if rel == ".git" {
		return false
	}
	return !slices.ContainsFunc(g.guard, func(r *regexp.Regexp) bool { return r.MatchString(rel) })
}

// Search lists the directories in which a login shell looks for programs.
func (g *Ground) Search() []string { return g.search() }

// readSearch reads assignments to PATH in the files that a login shell reads.
// It understands what people write there, no more: literals and $PATH.
func (g *Ground) readSearch() []string {
	line := regexp.MustCompile(`(?m)^\s*(?:export\s+)?PATH=["']?([^"'\n;]*)`)
	dirs := []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
	for _, f := range g.Profiles() {
		text, _ := g.Text(f)
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			var next []string
			for d := range strings.SplitSeq(m[1], ":") {
				switch {
				case d == "$PATH" || d == "${PATH}":
					next = append(next, dirs...)
				case path.IsAbs(d):
					next = append(next, path.Clean(d))
				}
			}
			if strings.Contains(m[1], "PATH") { // one without is a default that is overwritten
				dirs = next
			}
		}
	}
	return dirs
}

// Profiles lists the files below /etc/profile.d that a login shell reads, in
// their order.
func (g *Ground) Profiles() []string {
	var all []string
	for _, e := range g.List("/etc/profile.d") {
		if e.Type == image.TypeFile && strings.HasSuffix(e.Path, ".sh") {
			all = append(all, "/"+e.Path)
		}
	}
	return all
}

// Which finds a program where a login shell would; empty: nowhere. Links are
// not followed.
func (g *Ground) Which(program string) string {
	for _, d := range g.Search() {
		real, err := g.Tree.Resolve(d)
		if err != nil {
			continue
		}
		if e, ok := g.Entry("/" + real + "/" + program); ok && !e.IsDir() {
			return path.Join(d, program)
		}
	}
	return ""
}

// Real is where a path leads; empty: nowhere.
func (g *Ground) Real(p string) string {
	r, err := g.Tree.Resolve(p)
	if err != nil {
		return ""
	}
	return "/" + r
}

// globs makes a pattern of test files a regular expression for relative
// paths: "*" within a name, "**" across names; what names a directory stands
// for all below it. A pattern without a slash is one of names anywhere.
func globs(pattern string) *regexp.Regexp {
	p := strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/")
	var b strings.Builder
	b.WriteString("^")
	if !strings.Contains(p, "/") && strings.ContainsAny(p, "*?") {
		b.WriteString("(.*/)?")
	}
	for i := 0; i < len(p); i++ {
		switch {
		case strings.HasPrefix(p[i:], "**/"):
			b.WriteString("(.*/)?")
			i += 2
		case strings.HasPrefix(p[i:], "**"):
			b.WriteString(".*")
			i++
		case p[i] == '*':
			b.WriteString("[^/]*")
		case p[i] == '?':
			b.WriteString("[^/]")
		default:
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		}
	}
	b.WriteString("(/.*)?$")
	r, err := regexp.Compile(b.String())
	if err != nil { // bytes that are no text
		return regexp.MustCompile("^" + regexp.QuoteMeta(strings.ToValidUTF8(p, "?")) + "$")
	}
	return r
}
