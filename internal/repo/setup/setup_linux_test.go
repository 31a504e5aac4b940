package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/repo"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

// workshop is a place to set repositories up on this machine's own tools,
// without network: what a Debian base and mirrors add is tested by
// `check --long setup`.
func workshop(t *testing.T) Config {
	t.Helper()
	o := image.Options{Volatile: true}
	if os.Geteuid() == 0 {
		o.Owner = &image.Owner{UID: ns.DefaultRootUID, GID: ns.DefaultRootUID}
	}
	s, err := image.Open(image.HostPath(t.TempDir()), o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: s, Scratch: image.HostPath(t.TempDir())})
	if err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	t.Cleanup(func() { b.Close(); s.Close() })
	resolve := func(ctx context.Context, name string) (image.Image, error) {
		if name == image.HostName {
			return s.Host(ctx, image.HostOptions{})
		}
		return s.Resolve(name)
	}
	return Config{Images: s, Backend: b, UID: b.Capabilities().UIDModes[0], Resolve: resolve, Image: image.HostName, Runs: 2, Say: t.Logf,
		Out: filepath.Join(t.TempDir(), "out"), Temp: t.TempDir(),
		Build: func(ctx context.Context, o dockerfile.Options) (image.Image, error) {
			o.Store, o.Backend, o.Resolve = s, b, resolve
			return dockerfile.Build(ctx, o)
		},
		Base: func(context.Context, string) error { return errors.New("no Debian here") }}
}

// repository writes files, by "NAME: text" pairs.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/" + name); err != nil {
		t.Skipf("%s is not in /usr/bin", name)
	}
}

// The whole way on this machine's compiler: a Makefile is recognised, built,
// tested; the image's tree is one clean commit of loose objects, and the recipe
// that was written does the same again.
func TestSetup(t *testing.T) {
	tool(t, "make")
	tool(t, "cc")
	o := workshop(t)
	o.Source = repository(t, map[string]string{
		"Makefile":   "prog: prog.c\n\tcc -o prog prog.c\n\techo rebuilt > stamp.txt\ncheck: prog\n\t./prog\n",
		"prog.c":     "int main(void) { return 0; }\n",
		"stamp.txt":  "as it came\n",
		"LICENSE":    "Permission is hereby granted, free of charge, to any person\n",
		".gitignore": "*.o\nstamp.txt\n",
	})
	o.Tests = []string{"make check"}
	env, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if env.Source.Licence != "MIT" || env.Languages[0] != "c" || len(env.Suite.Tests) != 1 || env.Suite.Tests[0].Stability != repo.Stable {
		t.Errorf("%+v", env)
	}
	if got, err := repo.ReadEnvironment(o.Out); err != nil || got.Image != env.Image {
		t.Errorf("read again: %v", err)
	}
	im, err := o.Images.Resolve(env.Image)
	if err != nil {
		t.Fatal(err)
	}
	v, err := o.Images.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	err = v.Walk("app/.git", func(e image.Entry) error {
		rel := strings.TrimPrefix(e.Path, "app/.git")
		switch {
		case e.IsDir():
		case strings.HasPrefix(rel, "/objects/pack"), strings.HasPrefix(rel, "/logs"), strings.HasPrefix(rel, "/objects/info"):
			t.Errorf("%s is in the healthy image", e.Path)
		case strings.HasPrefix(rel, "/objects/"):
			objects++
		}
		return nil
	})
	// One commit, one tree, five blobs.
	if err != nil || objects != 7 {
		t.Errorf("%d objects, %v", objects, err)
	}
	const look = "git status --porcelain; git rev-list --all --count; git show HEAD:stamp.txt; git count-objects"
	if got := inImage(t, o, im, look); !strings.HasPrefix(got, "1\nas it came\n7 objects") {
		t.Errorf("git says %q", got)
	}

	o.Temp, o.Tests, o.Image = t.TempDir(), nil, ""
	again, err := Run(t.Context(), o)
	if err != nil || again.Image != env.Image {
		t.Errorf("by its recipe: %v, %v", again, err)
	}

	// A person adds a build: what it makes is ignored, and the tracked file that
	// it rewrites is in the one commit. And a report that names the tests' file,
	// which no pattern knows.
	at := filepath.Join(o.Out, RecipeFile)
	r, err := ReadRecipe(at)
	if err != nil {
		t.Fatal(err)
	}
	r.Install = []string{"make"}
	r.Tests[0].Report, r.Tests[0].Files = "pytest-log", []string{"/logs/verifier/t.log"}
	r.Tests[0].Run = `make check && printf '%s\n' '{"log":"assay-tests","v":1,"runner":"pytest"}' '{"plan":1}' '{"start":"stamp.txt::test_a"}' '{"end":"stamp.txt::test_a","status":"passed"}' ` +
		`'{"done":{"passed":1,"xpassed":0,"xfailed":0,"skipped":0,"failed":0,"error":0}}' >/logs/verifier/t.log`
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, b, 0o644); err != nil {
		t.Fatal(err)
	}
	o.Temp = t.TempDir()
	if env, err = Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(env.Suite.TestFiles, "stamp.txt") {
		t.Errorf("test files %q, tests %+v", env.Suite.TestFiles, env.Suite.Tests)
	}
	if im, err = o.Images.Resolve(env.Image); err != nil {
		t.Fatal(err)
	}
	if got := inImage(t, o, im, look); !strings.HasPrefix(got, "1\nrebuilt\n7 objects") {
		t.Errorf("git says %q", got)
	}
}

// Each bad repository gets a report that says what is wrong and what helps, and
// leaves no image, no process and nothing but that report behind.
func TestBadRepositories(t *testing.T) {
	tool(t, "make")
	sh := func(text string) map[string]string {
		return map[string]string{"Makefile": "check:\n\tsh ./test.sh\n", "x.c": "int x;\n", "test.sh": text}
	}
	cases := []struct {
		name  string
		files map[string]string
		mend  func(*Config)
		want  []string
	}{
		{"empty", map[string]string{}, nil, []string{"there is not one file"}},
		{"unknown", map[string]string{"README": "words\n"}, nil, []string{"not recognised", "--test"}},
		{"no build", map[string]string{"Makefile": "all:\n\techo no such thing; false\ncheck: all\n", "x.c": "int x;\n"}, build, []string{"does not build", "no such thing", "more_packages", "setup.json"}},
		{"no tests", sh("exit 2\n"), nil, []string{"no test of its suite passes"}},
		{"hangs", sh("sleep 1000\n"), func(c *Config) { c.Timeout = time.Second }, []string{"hangs or is too long", "did not end in 1s", "timeout_sec"}},
		{"hanging build", map[string]string{"Makefile": "all:\n\tsleep 1000\n", "x.c": ""}, func(c *Config) { build(c); c.BuildTimeout = time.Second }, []string{"does not build", "sleep"}},
		{"network", sh("echo 'socket.gaierror: Temporary failure in name resolution'; exit 1\n"), nil, []string{"seems that the suite needs a network"}},
		{"display", sh("echo 'cannot open display: :0'; exit 1\n"), nil, []string{"needs a display", "xvfb-run"}},
		{"root", sh("test $(id -u) != 0 || { echo 'initdb: cannot be run as root'; exit 1; }\n"), nil, []string{"minds who runs it", "setpriv"}},
		{"zone", sh("echo 'ZoneInfoNotFoundError: no time zone found'; exit 1\n"), nil, []string{"needs a time zone", "TZ below [env]"}},
		{"locale", sh("echo 'locale.Error: unsupported locale setting'; exit 1\n"), nil, []string{"needs a locale"}},
		{"flaky", sh("test -e /proc/self/fd/9 || test $(($(od -An -N1 -tu1 /dev/urandom) % 2)) = 0\n"), func(c *Config) { c.Runs = 40 }, []string{"no test"}},
		{"files", many(300), func(c *Config) { c.Caps.Files = 200 }, []string{"more than 200 files", "--max-files"}},
		{"bytes", map[string]string{"a": strings.Repeat("x", 2000)}, func(c *Config) { c.Caps.Bytes = 1000 }, []string{"more than 1000 bytes"}},
		{"subdir", sh("true\n"), func(c *Config) { c.Subdir = "services/none" }, []string{"no such directory"}},
		{"hostile", map[string]string{"Makefile": "all:\n\trm -rf /app/* /etc/* /var/*; for i in 1 2 3 4; do sleep 1000 & done; false\n", "x.c": ""}, build, []string{"does not build"}},
		{"screen", map[string]string{"Makefile": "all:\n\tprintf '\\033]0;title\\007\\033[2Jgone\\n'; false\n", "x.c": ""}, build, []string{"does not build", "gone"}},
	}
	o := workshop(t)
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			o := o
			o.Source, o.Out, o.Temp, o.Tests = repository(t, c.files), filepath.Join(t.TempDir(), "out"), t.TempDir(), []string{"make check"}
			if len(c.files) == 0 {
				if err := os.Mkdir(o.Source, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if c.name == "unknown" {
				o.Image, o.Tests = "", nil
			}
			if c.mend != nil {
				c.mend(&o)
			}
			env, err := Run(t.Context(), o)
			if err == nil {
				t.Fatalf("it was set up: %+v", env)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in: %v", w, err)
				}
			}
			if strings.ContainsAny(err.Error(), "\x1b\x07") {
				t.Errorf("the report steers terminals: %q", err)
			}
			if _, err := os.Stat(filepath.Join(o.Out, repo.EnvironmentFile)); err == nil {
				t.Error("there is an environment")
			}
			all, err := o.Images.List()
			for _, im := range all {
				if im.Name != image.HostName {
					t.Errorf("image %s is left", im.Name)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// build makes the recipe of a case build: an image that is given is taken to
// have everything.
func build(c *Config) {
	r := &Recipe{Version: 1, Name: "project", Base: image.HostName, Install: []string{"make"}, Suite: RecipeSuite{Runs: 1, TimeoutSec: 60},
		Tests: []RecipeTest{{Name: "make", Run: "make check"}}}
	b, err := r.Encode()
	if err == nil {
		err = os.MkdirAll(c.Out, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(c.Out, RecipeFile), b, 0o644)
	}
	if err != nil {
		panic(err)
	}
}

func many(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("d%d/f%d.c", i%10, i)] = ""
	}
	return files
}

// What a hostile tree, or an awkward one, says of itself is kept apart from
// what is done with it.
func TestAwkwardSources(t *testing.T) {
	tool(t, "git")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("not yours\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := repository(t, map[string]string{
		"Makefile":           "check:\n\ttrue\n",
		"a.c":                "int a;\n",
		"big.bin":            "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
		"node_modules/x.js":  "x\n",
		"na\xefve.c":         "int n;\n",
		"with\nbreak":        "x\n",
		"deep/.git/config":   "[core]\n\tfsmonitor = touch /tmp/fsmonitor-ran\n",
		"sub/.gitignore":     "*\n",
		"target/kept/note.c": "int t;\n",
	})
	for name, to := range map[string]string{"out": secret, "up": "../../../etc/passwd", "in": "a.c", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("mkfifo", filepath.Join(dir, "pipe")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := obtain(t.Context(), dir, filepath.Join(t.TempDir(), "tree"), Config{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(s.notes, "\n")
	for _, w := range []string{"1 files are pointers of Git LFS", "2 links lead out of the tree", "1 names are no files", "2 names are not UTF-8"} {
		if !strings.Contains(notes, w) {
			t.Errorf("no %q in: %s", w, notes)
		}
	}
	if to, err := os.Readlink(filepath.Join(s.dir, "out")); err != nil || to != secret {
		t.Errorf("the link out: %q, %v", to, err)
	}
	for _, gone := range []string{"node_modules", "pipe", "deep/.git"} {
		if _, err := os.Lstat(filepath.Join(s.dir, gone)); err == nil {
			t.Errorf("%s was copied", gone)
		}
	}
}

// Histories that are cut off, empty, of one bare repository; submodules that
// are not there; configuration that runs programs.
func TestSourcesOfGit(t *testing.T) {
	tool(t, "git")
	ran := filepath.Join(t.TempDir(), "ran")
	top := t.TempDir()
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("/usr/bin/git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + top, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
			"GIT_AUTHOR_DATE=2020-02-02T00:00:00Z", "GIT_COMMITTER_DATE=2020-02-02T00:00:00Z"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	work := repository(t, map[string]string{"a.c": "int a;\n", ".gitignore": "*.log\n", "x.log": "no\n", ".gitattributes": "a.c export-ignore filter=evil\n"})
	git(work, "init", "-q", "-b", "main")
	git(work, "add", "-A")
	git(work, "commit", "-qm", "one")
	git(work, "tag", "v1.2.3")
	git(work, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",dep")
	git(work, "commit", "-qm", "two")
	git(work, "config", "core.fsmonitor", "touch "+ran)
	git(work, "config", "filter.evil.smudge", "touch "+ran)
	git(work, "config", "filter.evil.clean", "touch "+ran)
	take := func(where string) (*source, error) {
		return obtain(t.Context(), where, filepath.Join(t.TempDir(), "tree"), Config{Temp: t.TempDir()})
	}
	s, err := take(work)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.tree.files, " "); got != ".gitattributes .gitignore a.c" {
		t.Errorf("files %s", got)
	}
	if s.Commit == "" || s.version != "1.2.3" || !s.Date.Equal(time.Date(2020, 2, 2, 0, 0, 0, 0, time.UTC)) || !strings.Contains(strings.Join(s.notes, "\n"), `submodules are not here ("dep")`) {
		t.Errorf("%+v", s)
	}
	at := func(where, commit string) (*source, error) {
		return obtain(t.Context(), where, filepath.Join(t.TempDir(), "tree"), Config{Temp: t.TempDir(), At: commit})
	}
	old, err := at(work, "v1.2.3")
	if err != nil || old.Commit == "" || old.Commit == s.Commit || old.Tree != s.Tree || len(old.notes) != 0 {
		t.Errorf("the tree of a tag: %+v, %v", old, err)
	}
	for _, c := range []string{"v9", "--help", "HEAD:a.c"} {
		if _, err := at(work, c); err == nil || !strings.Contains(err.Error(), "no commit") {
			t.Errorf("commit %q: %v", c, err)
		}
	}
	if _, err := at(t.TempDir(), "v1"); !errors.Is(err, repo.ErrNoGit) {
		t.Errorf("a commit of a directory without git: %v", err)
	}
	git(top, "clone", "-q", "--bare", work, "bare.git")
	for _, where := range []string{filepath.Join(top, "bare.git"), "file://" + filepath.Join(top, "bare.git")} {
		b, err := take(where)
		if err != nil {
			t.Fatal(err)
		}
		if b.Tree != s.Tree || b.Commit != s.Commit || b.name != "bare" {
			t.Errorf("%s: %+v, the work tree had %+v", where, b.Source, s.Source)
		}
	}
	git(top, "clone", "-q", "--depth=1", "file://"+work, "shallow")
	if s, err := take(filepath.Join(top, "shallow")); err != nil || !strings.Contains(strings.Join(s.notes, "\n"), "shallow clone") {
		t.Errorf("%v, %v", s, err)
	}
	git(top, "init", "-q", "--bare", "none.git")
	if _, err := take(filepath.Join(top, "none.git")); !errors.Is(err, repo.ErrNoCommits) {
		t.Errorf("an empty repository: %v", err)
	}
	if _, err := take("ext::sh -c 'touch " + ran + "'"); err == nil {
		t.Error("a URL that runs a program was taken")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the repository's configuration ran a program")
	}
}

func inImage(t *testing.T, o Config, im image.Image, line string) string {
	t.Helper()
	box, err := o.Backend.Create(t.Context(), sandbox.Spec{Image: im})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	r, err := sandbox.Exec(t.Context(), box, sandbox.Command{Args: []string{"/bin/sh", "-c", line}, Dir: workdir}, sandbox.ExecOptions{Timeout: time.Minute})
	if err != nil || r.Exit.Code != 0 {
		t.Fatalf("%s: %v %v %s", line, err, r.Exit, r.Stderr)
	}
	return string(r.Stdout)
}
