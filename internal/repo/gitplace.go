package repo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// gitPlace is where the parts of a repository lie.
type gitPlace struct {
	work   string // work tree; empty: bare
	own    string // HEAD and index
	common string // objects, references, configuration
}

// ErrNoGit: there is no repository of git in the directory.
var ErrNoGit = errors.New("no git repository")

// findGit looks at dir alone, not above it. A .git file that leads elsewhere is
// followed only where the other place names dir in turn, as it does for linked
// work trees and submodules: nobody else's repository is read because a tree
// that was sent to us says so.
func findGit(dir string) (gitPlace, error) {
	dot := filepath.Join(dir, ".git")
	st, err := os.Lstat(dot)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if isGitDir(dir) {
			return gitPlace{own: dir, common: dir}, nil
		}
		return gitPlace{}, ErrNoGit
	case err != nil:
		return gitPlace{}, err
	case st.IsDir():
		if !isGitDir(dot) {
			return gitPlace{}, fmt.Errorf("%w: %s has no HEAD, objects and refs", ErrNoGit, dot)
		}
		return gitPlace{work: dir, own: dot, common: dot}, nil
	case !st.Mode().IsRegular():
		return gitPlace{}, fmt.Errorf("%s is neither a directory nor a file", dot)
	}
	return linkedGit(dir, dot)
}

func linkedGit(dir, dot string) (gitPlace, error) {
	b, err := readPlain(dot, 8<<10)
	if err != nil {
		return gitPlace{}, err
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir:")
	if !ok {
		return gitPlace{}, fmt.Errorf("%s does not begin with %q", dot, "gitdir:")
	}
	own := beside(dir, strings.TrimSpace(to))
	if back, err := readPlain(filepath.Join(own, "gitdir"), 8<<10); err == nil && sameFile(beside(own, strings.TrimSpace(string(back))), dot) {
		c, err := readPlain(filepath.Join(own, "commondir"), 8<<10)
		if err != nil {
			return gitPlace{}, err
		}
		return gitPlace{work: dir, own: own, common: beside(own, strings.TrimSpace(string(c)))}, nil
	}
	// A submodule's configuration names its work tree; the key is looked for as
	// git writes it, since this is a question about trust, not a reading.
	if c, err := readPlain(filepath.Join(own, "config"), 1<<20); err == nil {
		for line := range strings.Lines(string(c)) {
			k, v, _ := strings.Cut(line, "=")
			if strings.TrimSpace(k) == "worktree" && sameFile(beside(own, strings.TrimSpace(v)), dir) {
				return gitPlace{work: dir, own: own, common: own}, nil
			}
		}
	}
	return gitPlace{}, fmt.Errorf("%s leads to %s, which does not know of it; it is not followed (give the path of the repository itself)", dot, own)
}

func isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func beside(dir, p string) string {
	if !filepath.IsAbs(p) {
		p = filepath.Join(dir, p)
	}
	return filepath.Clean(p)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// readPlain reads a file that is one: no link, no pipe, at most so many bytes.
func readPlain(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, syscall.ELOOP) {
			return nil, fmt.Errorf("%s is a link, which is not followed", name)
		}
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no plain file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}

// borrowIndex copies the index and what it may be split into: git would write
// through a link.
func (g *Git) borrowIndex() error {
	if !g.own {
		return nil
	}
	shared, err := filepath.Glob(filepath.Join(quoteGlob(g.store), "sharedindex.*"))
	if err != nil {
		return err
	}
	for _, name := range append(shared, filepath.Join(g.store, "index")) {
		b, err := readPlain(name, 512<<20)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(g.Dir, filepath.Base(name)), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// quoteGlob spells a path so that filepath.Glob takes it as it is.
func quoteGlob(p string) string {
	var b strings.Builder
	for _, r := range p {
		if strings.ContainsRune(`*?[\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
