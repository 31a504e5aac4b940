package harbor

import (
	"encoding/json"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/importer"
)

// isolated is an environment of git without this machine's configuration.
func isolated(t *testing.T) []string {
	home := t.TempDir()
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost"}
}

// origin is a repository with two tasks, a submodule, links, an attribute that
// would filter, and a hook: its address below root, and its two commits.
func origin(t *testing.T, root string) (dir, first, second string) {
	t.Helper()
	dir = filepath.Join(root, "sets")
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = isolated(t)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run("init", "-q", "-b", "main")
	for _, name := range []string{"one", "two"} {
		put("set/"+name+"/task.toml", "schema_version = \"1.4\"\n", 0o644)
		put("set/"+name+"/instruction.md", "Do "+name+".\n", 0o644)
		put("set/"+name+"/tests/test.sh", "#!/bin/sh\n", 0o755)
		put("set/"+name+"/environment/Dockerfile", "FROM x\n", 0o644)
	}
	put("set/.gitattributes", "*.md filter=lfs\n", 0o644)
	put("set/two/data.bin", lfs+"oid sha256:00\nsize 1\n", 0o644)
	if err := os.Symlink("tests/test.sh", filepath.Join(dir, "set/two/again.sh")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("tests", filepath.Join(dir, "set/two/more")); err != nil {
		t.Fatal(err)
	}
	put("big/file", strings.Repeat("x", 1<<20), 0o644)
	run("add", "-A")
	run("commit", "-qm", "one")
	first = run("rev-parse", "HEAD")
	put("set/one/instruction.md", "Do one better.\n", 0o644)
	for name, to := range map[string]string{"out/away": "/etc/passwd", "up/away": "../../big/file", "circle/a": "b", "circle/b": "a", "gone/x": "nothing", "loop/me": "."} {
		if err := os.MkdirAll(filepath.Join(dir, "bad", filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, "bad", name)); err != nil {
			t.Fatal(err)
		}
	}
	put("bad/loop/file", "x", 0o644)
	run("add", "-A")
	run("update-index", "--add", "--cacheinfo", "160000,"+first+",bad/sub/module")
	run("commit", "-qm", "two")
	second = run("rev-parse", "HEAD")
	run("config", "uploadpack.allowFilter", "true")
	run("config", "uploadpack.allowAnySHA1InWant", "true")
	return dir, first, second
}

// served is the repository behind git's own HTTP server.
func served(t *testing.T, root string) string {
	t.Helper()
	exe, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := filepath.Join(strings.TrimSpace(string(exe)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git has no http-backend here")
	}
	s := httptest.NewServer(&cgi.Handler{Path: backend, Env: []string{
		"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_NOSYSTEM=1"}})
	t.Cleanup(s.Close)
	return s.URL + "/sets/.git"
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		if info, _ := os.Lstat(p); !info.Mode().IsRegular() {
			t.Errorf("%s is no plain file", rel)
		} else if info.Mode()&0o100 != 0 {
			rel += "*"
		}
		all[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImport(t *testing.T) {
	root := t.TempDir()
	dir, first, second := origin(t, root)
	for _, url := range []string{"file://" + dir, served(t, root)} {
		var said []string
		f := &Fetcher{Env: isolated(t), Local: true, Say: func(format string, args ...any) { said = append(said, format) }}
		out := t.TempDir()
		d := Dataset{Name: "set", Version: "1", Tasks: []Task{
			{Name: "one", GitURL: url, Commit: first, Path: "set/one"}, {Name: "two", GitURL: url, Commit: first, Path: "./set/two/"}, {Name: "new", GitURL: url, Path: "set/one"},
		}}
		sum, err := f.Import(t.Context(), d, out, importer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if sum.Written != 3 {
			t.Errorf("%+v", sum)
		}
		want := map[string]string{
			"one/task.toml": "schema_version = \"1.4\"\n", "one/instruction.md": "Do one.\n", "one/tests/test.sh*": "#!/bin/sh\n", "one/environment/Dockerfile": "FROM x\n",
			"new/task.toml": "schema_version = \"1.4\"\n", "new/instruction.md": "Do one better.\n", "new/tests/test.sh*": "#!/bin/sh\n", "new/environment/Dockerfile": "FROM x\n",
			"two/task.toml": "schema_version = \"1.4\"\n", "two/instruction.md": "Do two.\n", "two/tests/test.sh*": "#!/bin/sh\n", "two/environment/Dockerfile": "FROM x\n",
			"two/again.sh*": "#!/bin/sh\n", "two/more/test.sh*": "#!/bin/sh\n", "two/data.bin": lfs + "oid sha256:00\nsize 1\n",
		}
		if diff := cmp.Diff(want, contents(t, out)); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "Git LFS") }) {
			t.Errorf("nothing was said of the file in Git LFS: %q", said)
		}
		if sum, err = f.Import(t.Context(), d, out, importer.Options{}); err != nil || sum.Unchanged != 3 {
			t.Errorf("again: %+v, %v", sum, err)
		}
		for path, want := range map[string]string{
			"bad/out": "leads out of the task", "bad/up": "leads out of the task", "bad/circle": "in a circle", "bad/gone": "leads to nothing",
			"bad/loop": "in a circle", "bad/sub": "is a submodule", "nowhere": "there is no directory", "../x": "does not stay", "/etc": "does not stay",
		} {
			d := Dataset{Name: "set", Version: "1", Tasks: []Task{{Name: "x", GitURL: url, Commit: second, Path: path}}}
			if _, err := f.Import(t.Context(), d, t.TempDir(), importer.Options{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		}
	}
}

// A registry of other people's cannot name what this machine can reach.
func TestForeignRegistryIsHeldBack(t *testing.T) {
	for _, task := range []Task{
		{GitURL: "file:///etc"}, {GitURL: "ssh://host/x"}, {GitURL: "ext::sh -c id"}, {GitURL: "git@host:x"}, {GitURL: "-oProxyCommand=id"}, {GitURL: "https://-x/"},
		{GitURL: "https://host/x y"}, {Path: "/etc"}, {GitURL: "https://host/x", Commit: "--upload-pack=id"}, {GitURL: "https://host/x", Commit: "a..b"},
	} {
		task.Name = "x"
		if task.Path == "" {
			task.Path = "a"
		}
		_, err := (&Fetcher{}).Import(t.Context(), Dataset{Name: "d", Version: "1", Tasks: []Task{task}}, t.TempDir(), importer.Options{})
		if err == nil || !strings.Contains(err.Error(), "task x") {
			t.Errorf("%+v: %v", task, err)
		}
	}
}

func TestLocalTasks(t *testing.T) {
	base := t.TempDir()
	if err := os.MkdirAll(filepath.Join(base, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "a", "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := &Fetcher{Local: true, Base: base}
	d := Dataset{Name: "d", Version: "1", Tasks: []Task{{Name: "t", Path: "a"}}}
	out := t.TempDir()
	if _, err := f.Import(t.Context(), d, out, importer.Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"t/f": "x"}, contents(t, out)); diff != "" {
		t.Error(diff)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(base, "a", "l")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Import(t.Context(), d, t.TempDir(), importer.Options{}); err == nil {
		t.Error("a link out of the task was followed")
	}
}

// Which version a name alone means is Harbor's choice.
func TestFind(t *testing.T) {
	var all []Dataset
	for _, v := range []string{"0.9", "0.10", "1.0rc1", "head", "odd"} {
		all = append(all, Dataset{Name: "a", Version: v})
	}
	all = append(all, Dataset{Name: "b", Version: "1.0"}, Dataset{Name: "b", Version: "1.0rc1"}, Dataset{Name: "b", Version: "0.10.1"}, Dataset{Name: "c", Version: "x"}, Dataset{Name: "c", Version: "y"})
	for spec, want := range map[string]string{"a": "head", "a@0.9": "0.9", "b": "1.0", "c": "y"} {
		if d, err := Find(all, spec); err != nil || d.Version != want {
			t.Errorf("%s: %s, %v, want %s", spec, d.Version, err, want)
		}
	}
	for spec, want := range map[string]string{"z": `no data set "z"; it has a@0.10`, "b@2": "no b@2; it has b@0.10.1, b@1.0"} {
		if _, err := Find(all, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	b, _ := json.Marshal([]Dataset{{Name: "a", Version: "1", Tasks: []Task{{Name: "t", GitURL: "https://h/x", Commit: "head", Path: "p"}}}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := Parse(b)
		if err != nil {
			return
		}
		for _, d := range all {
			d.Key()
			for _, task := range d.Tasks {
				p, err := inside(task.Path)
				if err == nil && (strings.HasPrefix(p, "/") || strings.HasPrefix(p, "..")) {
					t.Errorf("%q is inside as %q", task.Path, p)
				}
				_ = task.check(false)
			}
			if _, err := Find(all, d.Name); err != nil {
				t.Error(err)
			}
		}
	})
}
