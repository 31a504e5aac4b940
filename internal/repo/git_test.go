package repo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// git runs the machine's own git as its user, to make repositories.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE=2020-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2020-01-02T03:04:05Z"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sample is a repository with three commits, the last one a merge.
func sample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	put(t, dir, "a.py", "x = 1\n")
	put(t, dir, "bin", "\x00\x01")
	put(t, dir, "odd\nname\t.py", "y = 1\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "first\n\n:100644 looks like a change\n1\t1\ta.py")
	git(t, dir, "checkout", "-qb", "side")
	git(t, dir, "mv", "odd\nname\t.py", "even.py")
	put(t, dir, "bin", "\x00\x02")
	git(t, dir, "commit", "-qam", "second")
	git(t, dir, "checkout", "-q", "main")
	put(t, dir, "a.py", "x = 2\nz = 3\n")
	git(t, dir, "commit", "-qam", "third")
	git(t, dir, "merge", "-q", "--no-ff", "-m", "merge side", "side")
	return dir
}

func open(t *testing.T, dir string) *Git {
	t.Helper()
	g, err := OpenGit(t.Context(), dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func TestLog(t *testing.T) {
	dir := sample(t)
	g := open(t, dir)
	var got []Commit
	err := g.Log(t.Context(), LogOptions{Numstat: true, FirstParent: true}, func(c Commit) error {
		got = append(got, c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Message != "merge side" || len(got[0].Parents) != 2 || got[0].Hash != git(t, dir, "rev-parse", "HEAD") {
		t.Fatalf("commits: %+v", got)
	}
	if c := got[0].Changes; len(c) != 2 || c[0].Path != "bin" || c[0].Added != -1 ||
		c[1].Status != 'R' || c[1].From != "odd\nname\t.py" || c[1].Path != "even.py" || c[1].Added != 0 {
		t.Errorf("the merge's changes: %+v", c)
	}
	if c := got[1].Changes; len(c) != 1 || c[0].Added != 2 || c[0].Deleted != 1 || c[0].Status != 'M' {
		t.Errorf("the change of third: %+v", c)
	}
	if c := got[2]; len(c.Changes) != 3 || !strings.HasSuffix(c.Message, "1\t1\ta.py") || c.Committer.Unix() != 1577934245 {
		t.Errorf("first: %+v", c)
	}
	stop := errors.New("enough")
	if err := g.Log(t.Context(), LogOptions{}, func(Commit) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a yield that returned an error: %v", err)
	}
}

func TestObjects(t *testing.T) {
	dir := sample(t)
	g := open(t, dir)
	o := g.Objects()
	defer o.Close()
	get := func(name string) (Object, error) { return o.Get(t.Context(), name) }
	if b, err := get("HEAD:a.py"); err != nil || string(b.Data) != "x = 2\nz = 3\n" || b.Type != "blob" {
		t.Fatalf("HEAD:a.py: %+v, %v", b, err)
	}
	if _, err := get("HEAD:no such file"); !errors.Is(err, ErrNoObject) {
		t.Errorf("a name that is not there: %v", err)
	}
	o.MaxObject = 3
	if _, err := get("HEAD:a.py"); !errors.Is(err, ErrObjectTooLarge) {
		t.Errorf("over the cap: %v", err)
	}
	o.MaxObject = 1 << 20
	if b, err := get("HEAD:even.py"); err != nil || string(b.Data) != "y = 1\n" {
		t.Errorf("after an object over the cap: %q, %v", b.Data, err)
	}
	done, stop := context.WithCancel(t.Context())
	stop()
	if _, err := o.Get(done, "HEAD:a.py"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// What a repository's configuration names is not run: each of these leaves a
// mark when it is, as the machine's git shows for two of them.
func TestNothingOfARepositoryRuns(t *testing.T) {
	dir := sample(t)
	mark := filepath.Join(t.TempDir(), "mark")
	prog := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(prog, []byte("#!/bin/sh\necho ran >> "+mark+"\ncat \"$@\" 2>/dev/null\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"core.fsmonitor", "diff.external", "core.pager", "core.sshCommand", "core.gitProxy", "core.alternateRefsCommand",
		"credential.helper", "gpg.program", "filter.f.clean", "filter.f.smudge", "filter.f.process", "diff.f.textconv", "diff.f.command",
		"core.editor", "core.askPass", "alias.ls-files", "uploadpack.packObjectsHook", "pager.log", "pager.diff"} {
		git(t, dir, "config", k, prog)
	}
	git(t, dir, "config", "log.showSignature", "true")
	git(t, dir, "config", "remote.origin.url", "ext::"+prog)
	git(t, dir, "config", "remote.origin.promisor", "true")
	git(t, dir, "config", "extensions.partialClone", "origin")
	git(t, dir, "config", "include.path", "/dev/zero")
	put(t, dir, ".gitattributes", "* filter=f diff=f\n")
	put(t, dir, ".git/info/attributes", "* filter=f diff=f\n")
	for _, h := range []string{"post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"} {
		if err := os.WriteFile(filepath.Join(dir, ".git/hooks", h), []byte("#!/bin/sh\necho ran >> "+mark+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g := open(t, dir)
	ctx := t.Context()
	head, err := g.Commit(ctx, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Log(ctx, LogOptions{Numstat: true}, func(Commit) error { return nil }); err != nil {
		t.Error(err)
	}
	if p, err := g.Patch(ctx, head+"^1", head); err != nil || !bytes.Contains(p, []byte("GIT binary patch")) {
		t.Errorf("patch: %q, %v", p, err)
	}
	tracked, others, err := g.Tracked(ctx)
	if err != nil || !slices.Equal(tracked, []string{"a.py", "bin", "even.py"}) || !slices.Equal(others, []string{".gitattributes"}) {
		t.Errorf("tracked %q, others %q, %v", tracked, others, err)
	}
	o := g.Objects()
	defer o.Close()
	if _, err := o.Get(ctx, strings.Repeat("1", 40)); !errors.Is(err, ErrNoObject) {
		t.Errorf("an object of a partial clone that is not there: %v", err)
	}
	if b, err := os.ReadFile(mark); err == nil {
		t.Errorf("programs of the repository ran: %s", b)
	}
	if !g.Partial {
		t.Error("it is not known to be partial")
	}
	// The marks have teeth.
	config, err := os.ReadFile(filepath.Join(dir, ".git/config"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, ".git/config", strings.ReplaceAll(string(config), "/dev/zero", "none"))
	exec.Command("git", "-C", dir, "-c", "safe.directory=*", "status").Run()
	if _, err := os.ReadFile(mark); err != nil {
		t.Error("the machine's own git runs none of it either: this test shows nothing")
	}
}

func TestGitPlaces(t *testing.T) {
	dir := sample(t)
	head := git(t, dir, "rev-parse", "HEAD")
	tree := filepath.Join(t.TempDir(), "linked")
	git(t, dir, "worktree", "add", "-q", tree, "side")
	if h, err := open(t, tree).Commit(t.Context(), "HEAD"); err != nil || h != git(t, dir, "rev-parse", "side") {
		t.Errorf("a linked work tree: %s, %v", h, err)
	}
	bare := filepath.Join(t.TempDir(), "bare")
	if err := CloneGit(t.Context(), CloneConfig{URL: "file://" + dir, Dir: bare}); err != nil {
		t.Fatal(err)
	}
	if h, err := open(t, bare).Commit(t.Context(), "HEAD"); err != nil || h != head {
		t.Errorf("a bare clone: %s, %v", h, err)
	}
	shallow := filepath.Join(t.TempDir(), "shallow")
	if err := CloneGit(t.Context(), CloneConfig{URL: "file://" + dir, Dir: shallow, Depth: 1}); err != nil {
		t.Fatal(err)
	}
	if g := open(t, shallow); !g.Shallow {
		t.Error("a shallow clone is not known to be one")
	}
	empty := t.TempDir()
	git(t, empty, "init", "-q")
	if _, err := open(t, empty).Commit(t.Context(), "HEAD"); !errors.Is(err, ErrNoCommits) {
		t.Errorf("an empty repository: %v", err)
	}

	thief := t.TempDir()
	put(t, thief, ".git", "gitdir: "+filepath.Join(dir, ".git")+"\n")
	if _, err := OpenGit(t.Context(), thief, ""); err == nil || !strings.Contains(err.Error(), "does not know of it") {
		t.Errorf("a .git file that leads to another's repository: %v", err)
	}
	linked := t.TempDir()
	for _, d := range []string{"refs", "hooks"} {
		os.MkdirAll(filepath.Join(linked, ".git", d), 0o755)
	}
	put(t, linked, ".git/HEAD", "ref: refs/heads/main\n")
	put(t, linked, ".git/config", "")
	os.Symlink(filepath.Join(dir, ".git/objects"), filepath.Join(linked, ".git/objects"))
	if _, err := OpenGit(t.Context(), linked, ""); err == nil || !strings.Contains(err.Error(), "not followed") {
		t.Errorf("objects that are a link: %v", err)
	}
	if _, err := OpenGit(t.Context(), t.TempDir(), ""); !errors.Is(err, ErrNoGit) {
		t.Errorf("no repository: %v", err)
	}
}

func TestCloneRefusesHelpers(t *testing.T) {
	for _, bad := range []string{"ext::sh -c id", "-u", "--upload-pack=id", "ssh://-oProxyCommand=id/x", "fd::3", "/etc", "a\nb"} {
		if err := CloneGit(t.Context(), CloneConfig{URL: bad, Dir: filepath.Join(t.TempDir(), "x")}); err == nil || !strings.Contains(err.Error(), "not a URL") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	err := CloneGit(t.Context(), CloneConfig{URL: "http://user:hunter2@127.0.0.1:1/x", Dir: filepath.Join(t.TempDir(), "x")})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an error that tells a password: %v", err)
	}
	if u := CleanURL("https://user:hunter2@example.org/x"); u != "https://example.org/x" {
		t.Errorf("CleanURL: %s", u)
	}
}

func TestInitGit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g, err := InitGit(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := g.Feed(t.Context(), strings.NewReader("hello\n"), "hash-object", "-w", "--stdin")
	if err != nil || strings.TrimSpace(string(h)) != "ce013625030ba8dba906f756967f9e9ca394464a" {
		t.Errorf("%s, %v", h, err)
	}
	g.MaxOutput = 3
	if _, err := g.Run(t.Context(), "cat-file", "-p", "ce013625030ba8dba906f756967f9e9ca394464a"); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("over the cap: %v", err)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte("\x01abc\x00tree\x00\x001\x002\x00me\x00msg\n\x00\n:100644 100644 a b M\x00a.py\x001\t2\ta.py\x00\x00"))
	f.Add([]byte("\x01abc\x00tree\x00\x001\x002\x00me\x00msg\n\x00\n:100644 100644 a b R100\x00a\x00b\x001\t2\t\x00a\x00b\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_ = readLog(bytes.NewReader(b), func(c Commit) error {
			if n++; len(c.Message) > 3*maxMessage {
				t.Errorf("a message of %d bytes", len(c.Message))
			}
			return nil
		})
	})
}
