package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Git runs git on a repository that anybody may have made. What such a
// repository says about how git is to work is not read: git gets a directory of
// ours, whose configuration we wrote and which borrows the repository's objects
// and references. So there is no hook, no filter, no fsmonitor, no external
// diff, no credential helper and no alias to run, whatever git knows of these
// now or later, and nothing is ever fetched because an object is missing.
//
// Methods may be called concurrently. Names that come from outside go behind
// "--end-of-options" or "--", or are full hashes.
type Git struct {
	Dir      string // git's directory that we made
	WorkTree string // of the repository; empty: it is bare
	Shallow  bool   // its history was cut off
	Partial  bool   // its clone left objects out
	// MaxOutput is what Run returns at most. OpenGit makes it 64 MiB.
	MaxOutput int64

	program string
	own     bool // Dir is temporary, and Close removes it
	store   string
}

// ErrNoCommits: the repository's HEAD leads to no commit.
var ErrNoCommits = errors.New("the repository has no commit")

// maxGitFile is what is read of a file in a repository's .git directory.
const maxGitFile = 64 << 20

// OpenGit opens the repository of a work tree, or a bare one. Temp is where the
// directory of ours is made; empty: the system's. Close it.
func OpenGit(ctx context.Context, dir, temp string) (*Git, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open git repository: %w", err)
	}
	at, err := findGit(dir)
	if err != nil {
		return nil, fmt.Errorf("open git repository %s: %w", dir, err)
	}
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("open git repository %s: %w (install git)", dir, err)
	}
	shadow, err := os.MkdirTemp(temp, "assay-git-")
	if err != nil {
		return nil, fmt.Errorf("open git repository %s: %w", dir, err)
	}
	g := &Git{Dir: shadow, WorkTree: at.work, MaxOutput: 64 << 20, program: program, own: true, store: at.own}
	if err := g.borrow(ctx, at); err != nil {
		g.Close()
		return nil, fmt.Errorf("open git repository %s: %w", dir, err)
	}
	return g, nil
}

// InitGit makes an empty repository in a directory of the caller's, bare, to
// put objects into. Close leaves it.
func InitGit(ctx context.Context, dir string) (*Git, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("make git repository %s: %w (install git)", dir, err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("make git repository: %w", err)
	}
	g := &Git{Dir: dir, MaxOutput: 64 << 20, program: program}
	cmd := g.command(ctx, "init", "-q", "--bare", "--template=", "--initial-branch=main", "--", dir)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "GIT_DIR=") })
	var stderr tail
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("make git repository %s: %w: %s", dir, err, stderr.text())
	}
	return g, nil
}

// Close removes what OpenGit made.
func (g *Git) Close() error {
	if !g.own {
		return nil
	}
	return os.RemoveAll(g.Dir)
}

// borrow makes the directory that git gets.
func (g *Git) borrow(ctx context.Context, at gitPlace) error {
	said, err := g.extensions(ctx, filepath.Join(at.common, "config"))
	if err != nil {
		return err
	}
	config := "[core]\n\tbare = " + fmt.Sprint(at.work == "") + "\n\trepositoryformatversion = 1\n"
	if v := said["extensions.objectformat"]; v == "sha256" {
		config += "[extensions]\n\tobjectformat = sha256\n"
	}
	if v := said["extensions.refstorage"]; v == "reftable" {
		config += "[extensions]\n\trefstorage = reftable\n"
	}
	_, g.Partial = said["extensions.partialclone"]
	if err := os.WriteFile(filepath.Join(g.Dir, "config"), []byte(config), 0o600); err != nil {
		return err
	}
	for _, f := range []struct{ from, name string }{{at.own, "HEAD"}, {at.common, "packed-refs"}, {at.common, "shallow"}} {
		b, err := readPlain(filepath.Join(f.from, f.name), maxGitFile)
		if errors.Is(err, os.ErrNotExist) && f.name != "HEAD" {
			continue
		}
		if err != nil {
			return err
		}
		g.Shallow = g.Shallow || f.name == "shallow" && len(bytes.TrimSpace(b)) > 0
		if err := os.WriteFile(filepath.Join(g.Dir, f.name), b, 0o600); err != nil {
			return err
		}
	}
	for _, name := range []string{"objects", "refs", "reftable"} {
		from := filepath.Join(at.common, name)
		st, err := os.Lstat(from)
		if errors.Is(err, os.ErrNotExist) && name == "reftable" {
			continue
		}
		if err != nil {
			return err
		}
		if !st.IsDir() {
			return fmt.Errorf("%s is no directory (a link is not followed)", from)
		}
		if err := os.Symlink(from, filepath.Join(g.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// extensions reads what a repository's configuration says of its own form. Git
// reads the file as a list of keys and acts on none.
func (g *Git) extensions(ctx context.Context, file string) (map[string]string, error) {
	if _, err := readPlain(file, 1<<20); errors.Is(err, os.ErrNotExist) {
		return nil, nil // as git takes it: nothing is said
	} else if err != nil {
		return nil, err
	}
	cmd := g.command(ctx, "config", "--file", file, "--no-includes", "-z", "--list")
	cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "GIT_DIR=") })
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read as git's configuration: %w", file, err)
	}
	said := map[string]string{}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		k, v, _ := strings.Cut(rec, "\n")
		said[k] = v
	}
	return said, nil
}

// command is git with nothing of this machine's user in it. Its processes, git
// starts more of itself, die with ctx.
func (g *Git) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, append([]string{"--no-pager", "--literal-pathspecs",
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat", "-c", "core.attributesFile=/dev/null",
		"-c", "core.quotePath=false", "-c", "core.autocrlf=false", "-c", "diff.external=", "-c", "diff.ignoreSubmodules=all",
		"-c", "protocol.allow=never", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "submodule.recurse=false",
		"-c", "safe.directory=*"}, args...)...)
	cmd.Dir = g.Dir
	cmd.Env = g.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

func (g *Git) environ() []string {
	return []string{"GIT_DIR=" + g.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"HOME=" + g.Dir, "XDG_CONFIG_HOME=" + g.Dir, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_PAGER=cat", "GIT_EDITOR=/bin/false",
		"LC_ALL=C.UTF-8", "TZ=UTC", "PATH=" + filepath.Dir(g.program) + ":/usr/local/bin:/usr/bin:/bin"}
}

// Run runs git and returns what it printed, at most MaxOutput bytes: more is an
// error, since half a list is a wrong one.
func (g *Git) Run(ctx context.Context, args ...string) ([]byte, error) {
	return g.Feed(ctx, nil, args...)
}

// Feed is Run with a standard input.
func (g *Git) Feed(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := g.stream(ctx, in, func(r io.Reader) error {
		n, err := io.Copy(&out, io.LimitReader(r, g.MaxOutput+1))
		if err == nil && n > g.MaxOutput {
			err = fmt.Errorf("more than %d bytes of output", g.MaxOutput)
		}
		return err
	}, args)
	return out.Bytes(), err
}

// Stream runs git and lets read take what it prints; when read returns, git
// ends. Git's own failure counts only if read had none.
func (g *Git) Stream(ctx context.Context, read func(io.Reader) error, args ...string) error {
	return g.stream(ctx, nil, read, args)
}

func (g *Git) stream(ctx context.Context, in io.Reader, read func(io.Reader) error, args []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := g.command(ctx, args...)
	var stderr tail
	cmd.Stdin, cmd.Stderr = in, &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	if err := read(out); err != nil {
		stop()
		_ = cmd.Wait() // it was killed
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	if err := cmd.Wait(); err != nil {
		return g.failed(ctx, args[0], err, stderr.text())
	}
	return nil
}

func (g *Git) failed(ctx context.Context, what string, err error, said string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", what, context.Cause(ctx))
	}
	if g.Partial {
		said += " (this clone left objects out; a full clone has them: git fetch --refetch --no-filter)"
	}
	return fmt.Errorf("git %s: %w: %s", what, err, said)
}

// Commit is the full hash of the commit that a name leads to.
func (g *Git) Commit(ctx context.Context, name string) (string, error) {
	out, err := g.Run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		if ctx.Err() == nil && name == "HEAD" {
			return "", ErrNoCommits
		}
		return "", fmt.Errorf("no commit %q: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Patch is the difference of two commits or trees, of some paths or all, as
// `git apply` takes it: binaries and full names of blobs are in it, renames
// are a removal and an addition.
func (g *Git) Patch(ctx context.Context, from, to string, paths ...string) ([]byte, error) {
	args := []string{"diff-tree", "-r", "-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames",
		"--src-prefix=a/", "--dst-prefix=b/", "--end-of-options", from, to, "--"}
	return g.Run(ctx, append(args, paths...)...)
}

// tail keeps the end of what git says of a failure.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - 4096; n > 0 {
		t.b = slices.Clone(t.b[n:])
	}
	return len(p), nil
}

func (t *tail) text() string { return oneLine(string(t.b)) }

// oneLine makes text of a program fit for an error: no control characters.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r < ' ' || r == 0x7f }), "; ")
}
