package setup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"assay/internal/repo"
)

// Caps bound what is taken of a repository. A zero field means its default.
type Caps struct {
	Files int   // default 50,000: each becomes an object of git's own
	Bytes int64 // default 2 GiB
	File  int64 // of one file; default 512 MiB
}

func (c Caps) orDefault() Caps {
	if c.Files == 0 {
		c.Files = 50_000
	}
	if c.Bytes == 0 {
		c.Bytes = 2 << 30
	}
	if c.File == 0 {
		c.File = 512 << 20
	}
	return c
}

// source is a repository's tree as it was copied.
type source struct {
	repo.Source
	name    string
	version string // by its nearest tag; empty: not known
	dir     string // the copy
	tree    *tree
	notes   []string // what a person should know of it
}

// left are names that are copied from no tree: what version control and
// package managers make of it. A tracked file is copied whatever its name.
func left(name string, tracked bool) bool {
	if name == ".git" {
		return true
	}
	return !tracked && slices.Contains([]string{".hg", ".svn", ".bzr", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox",
		".mypy_cache", ".pytest_cache", ".ruff_cache", ".assay"}, name)
}

// copier copies one tree, and counts.
type copier struct {
	from, to *os.Root
	caps     Caps
	when     time.Time // of every file; zero: its own time

	files int
	bytes int64
	sum   []string // of the digest
	seen  map[string]bool
	notes map[string][]string
}

func newCopier(from, to *os.Root, c Caps) *copier {
	return &copier{from: from, to: to, caps: c.orDefault(), seen: map[string]bool{}, notes: map[string][]string{}}
}

func (c *copier) note(kind, name string) { c.notes[kind] = append(c.notes[kind], name) }

func (c *copier) tooMany() error {
	return fmt.Errorf("more than %d files: set up a copy of the part that is built, or raise --max-files", c.caps.Files)
}

func (c *copier) count(name string, size int64) error {
	if c.files++; c.files > c.caps.Files {
		return c.tooMany()
	}
	if size > c.caps.File {
		return fmt.Errorf("%q has %d bytes, more than %d: leave it out of the tree", name, size, c.caps.File)
	}
	if c.bytes += size; c.bytes > c.caps.Bytes {
		return fmt.Errorf("more than %d bytes: set up a copy of the part that is built", c.caps.Bytes)
	}
	return nil
}

// directory copies what is below a directory.
func (c *copier) directory(ctx context.Context, dir string) error {
	d, err := c.from.Open(dir)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if left(n, false) {
			continue
		}
		p := path.Join(dir, n)
		fi, err := c.from.Lstat(p)
		if err != nil {
			return err
		}
		if fi.IsDir() {
			err = c.directory(ctx, p)
		} else {
			err = c.entry(p, fi)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry copies one name that is no directory.
func (c *copier) entry(p string, fi fs.FileInfo) error {
	if c.seen[p] {
		return nil
	}
	c.seen[p] = true
	if strings.ContainsAny(p, "\n") || !utf8.ValidString(p) {
		c.note("odd", p)
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		to, err := c.from.Readlink(p)
		if err != nil {
			return err
		}
		return c.link(p, to)
	case !fi.Mode().IsRegular():
		c.note("special", p)
		return nil
	}
	f, err := c.from.OpenFile(p, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	when := c.when
	if when.IsZero() {
		when = fi.ModTime()
	}
	return c.file(p, fi.Mode().Perm()&0o111 != 0, fi.Size(), f, when)
}

func (c *copier) link(p, to string) error {
	if err := c.count(p, 0); err != nil {
		return err
	}
	if at := path.Join(path.Dir(p), to); path.IsAbs(to) || at == ".." || strings.HasPrefix(at, "../") {
		c.note("link", p)
	}
	c.sum = append(c.sum, fmt.Sprintf("%q link %q", p, to))
	if err := c.to.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	return c.to.Symlink(to, p)
}

func (c *copier) file(p string, exec bool, size int64, r io.Reader, when time.Time) error {
	if err := c.count(p, size); err != nil {
		return err
	}
	if err := c.to.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if exec {
		mode = 0o755
	}
	w, err := c.to.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	sum := sha256.New()
	var head bytes.Buffer
	n, err := io.Copy(io.MultiWriter(w, sum, &first{b: &head, n: 64}), io.LimitReader(r, size))
	err = errors.Join(err, w.Chmod(mode), w.Close())
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("%q changed while it was copied", p)
	}
	if size < 1024 && bytes.HasPrefix(head.Bytes(), []byte("version https://git-lfs.github.com/spec/")) {
		c.note("lfs", p)
	}
	c.sum = append(c.sum, fmt.Sprintf("%q %v %x", p, exec, sum.Sum(nil)))
	return c.to.Chtimes(p, when, when)
}

// first keeps the first n bytes.
type first struct {
	b *bytes.Buffer
	n int
}

func (f *first) Write(p []byte) (int, error) {
	f.b.Write(p[:min(len(p), max(0, f.n-f.b.Len()))])
	return len(p), nil
}

func (c *copier) digest() string {
	slices.Sort(c.sum)
	h := sha256.Sum256([]byte(strings.Join(c.sum, "\n")))
	return "sha256:" + hex.EncodeToString(h[:])
}

// told are the notes as sentences.
func (c *copier) told() []string {
	var out []string
	for _, k := range []struct{ kind, say string }{
		{"lfs", "%d files are pointers of Git LFS, whose content is not in the repository (%s): run git lfs pull in a clone and set up that"},
		{"link", "%d links lead out of the tree (%s): they are kept as links, and lead into the image"},
		{"special", "%d names are no files, directories or links and are left out (%s)"},
		{"odd", "%d names are not UTF-8 or have line breaks (%s)"},
		{"submodule", "%d submodules are not here (%s): clone with --recurse-submodules and set up that directory"},
		{"gone", "%d tracked files are not in the work tree (%s)"},
	} {
		if n := c.notes[k.kind]; len(n) > 0 {
			out = append(out, fmt.Sprintf(k.say, len(n), shown(n)))
		}
	}
	return out
}

func shown(names []string) string {
	var s []string
	for _, n := range names[:min(3, len(names))] {
		s = append(s, fmt.Sprintf("%.80q", n))
	}
	if len(names) > 3 {
		s = append(s, "…")
	}
	return strings.Join(s, ", ")
}

// obtain copies the repository at where, a directory, a bare repository or a
// URL, to dir, which is made.
func obtain(ctx context.Context, where, dir string, o Config) (*source, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	s := &source{dir: dir, name: NameOf(where)}
	fi, err := os.Stat(where)
	switch {
	case err == nil && fi.IsDir():
		err = s.local(ctx, where, to, o)
	case err == nil:
		err = errors.New("it is a file; a directory or a URL of git is wanted")
	case isURL(where):
		err = s.clone(ctx, where, to, o)
	}
	if err != nil {
		return nil, fmt.Errorf("obtain %s: %w", repo.CleanURL(where), err)
	}
	if s.tree, err = readTree(dir); err != nil {
		return nil, fmt.Errorf("obtain %s: %w", repo.CleanURL(where), err)
	}
	if len(s.tree.files) == 0 {
		return nil, fmt.Errorf("obtain %s: the repository is empty: there is not one file in it", repo.CleanURL(where))
	}
	s.Licence = s.tree.licence()
	return s, nil
}

func isURL(s string) bool {
	_, ok := repo.Scheme(s)
	return ok
}

// local copies a work tree as it lies there: tracked files, and untracked ones
// that no ignore file names. A directory without git is copied whole.
func (s *source) local(ctx context.Context, dir string, to *os.Root, o Config) error {
	g, err := repo.OpenGit(ctx, dir, o.Temp)
	if err == nil {
		defer g.Close()
		if g.WorkTree == "" || o.At != "" {
			return s.commit(ctx, g, to, o)
		}
	} else if o.At != "" {
		return fmt.Errorf("commit %s: %w", o.At, err)
	} else if !errors.Is(err, repo.ErrNoGit) {
		s.notes = append(s.notes, fmt.Sprintf("its .git is not read: %v", err))
		g = nil
	} else {
		g = nil
	}
	from, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	c := newCopier(from, to, o.Caps)
	if g == nil {
		err = c.directory(ctx, ".")
	} else {
		s.head(ctx, g, "HEAD")
		err = c.worktree(ctx, g)
	}
	if err != nil {
		return err
	}
	s.Tree, s.notes = c.digest(), append(s.notes, c.told()...)
	return nil
}

// head notes the commit that a work tree stands on.
func (s *source) head(ctx context.Context, g *repo.Git, name string) {
	if g.Shallow {
		s.notes = append(s.notes, "its history was cut off (a shallow clone): git fetch --unshallow brings it back, for forge history")
	}
	head, err := g.Commit(ctx, name)
	if err != nil {
		s.notes = append(s.notes, "its branch has no commit yet; the work tree is taken as it lies there")
		return
	}
	s.Commit = head
	if b, err := g.Run(ctx, "log", "-1", "--format=%cI", "--end-of-options", head); err == nil {
		if t, err := time.Parse(time.RFC3339, strings.TrimSpace(string(b))); err == nil {
			s.Date = t.UTC()
		}
	}
	if b, err := g.Run(ctx, "describe", "--tags", "--abbrev=0", "--end-of-options", head); err == nil {
		s.version = versionIn(string(b))
	}
}

func (c *copier) worktree(ctx context.Context, g *repo.Git) error {
	tracked, others, err := g.Tracked(ctx)
	if err != nil {
		return err
	}
	if len(tracked) > c.caps.Files { // known before anything is copied
		return c.tooMany()
	}
	for i, p := range slices.Concat(tracked, others) {
		if err := ctx.Err(); err != nil {
			return err
		}
		sub := strings.HasSuffix(p, "/")
		p = strings.TrimSuffix(p, "/")
		if slices.ContainsFunc(strings.Split(p, "/"), func(n string) bool { return left(n, i < len(tracked)) }) {
			continue
		}
		fi, err := c.from.Lstat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist) && sub:
			c.note("submodule", p)
		case errors.Is(err, fs.ErrNotExist):
			c.note("gone", p)
		case err != nil:
			return err
		case fi.IsDir():
			before := c.files
			if err = c.directory(ctx, p); err != nil {
				return err
			}
			if sub && c.files == before {
				c.note("submodule", p)
			}
		default:
			if err := c.entry(p, fi); err != nil {
				return err
			}
		}
	}
	return nil
}

// clone clones a URL without a work tree and takes the files of its HEAD.
func (s *source) clone(ctx context.Context, url string, to *os.Root, o Config) error {
	bare := filepath.Join(o.Temp, "clone.git")
	if err := repo.CloneGit(ctx, repo.CloneConfig{URL: url, Dir: bare, Branch: o.Branch, Env: o.GitEnv}); err != nil {
		return err
	}
	s.URL = repo.CleanURL(url)
	g, err := repo.OpenGit(ctx, bare, o.Temp)
	if err != nil {
		return err
	}
	defer g.Close()
	return s.commit(ctx, g, to, o)
}

// commit takes the files of a commit, or of HEAD, as they are stored: no filter
// and no attribute changes them.
func (s *source) commit(ctx context.Context, g *repo.Git, to *os.Root, o Config) error {
	if o.At != "" {
		if _, err := g.Commit(ctx, o.At); err != nil {
			return err
		}
	}
	s.head(ctx, g, cmp.Or(o.At, "HEAD"))
	if s.Commit == "" {
		return repo.ErrNoCommits
	}
	list, err := g.Run(ctx, "ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", s.Commit)
	if err != nil {
		return err
	}
	objects := g.Objects()
	defer objects.Close()
	c := newCopier(nil, to, o.Caps)
	objects.MaxObject = c.caps.File
	if strings.Count(string(list), "\x00") > c.caps.Files {
		return c.tooMany()
	}
	for rec := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		meta, p, ok := strings.Cut(rec, "\t")
		f := strings.Fields(meta) // mode, type, hash, size
		if !ok || len(f) != 4 {
			continue
		}
		if !filepath.IsLocal(p) || slices.Contains(strings.Split(p, "/"), ".git") {
			c.note("special", p)
			continue
		}
		if f[1] == "commit" {
			c.note("submodule", p)
			continue
		}
		obj, err := objects.Get(ctx, f[2])
		if err != nil {
			return fmt.Errorf("%q: %w", p, err)
		}
		if !utf8.ValidString(p) || strings.Contains(p, "\n") {
			c.note("odd", p)
		}
		if f[0] == "120000" {
			err = c.link(p, string(obj.Data))
		} else {
			err = c.file(p, f[0] == "100755", int64(len(obj.Data)), bytes.NewReader(obj.Data), s.Date)
		}
		if err != nil {
			return err
		}
	}
	s.Tree, s.notes = c.digest(), append(s.notes, c.told()...)
	return nil
}
