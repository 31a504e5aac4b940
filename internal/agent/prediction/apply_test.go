package prediction

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const base = `def add(a, b):
    return a - b


def mul(a, b):
    return a * b


def sub(a, b):
    return a - b


def div(a, b):
    return a / b
`

// world makes a repository whose tree has changes nobody committed, as images
// have them: an ignored file, an untracked one, a changed one.
func world(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repo")
	for name, text := range map[string]string{"calc.py": base, "other.py": "x = 1\n", "gone.py": "old\n", ".gitignore": "*.so\n"} {
		put(t, dir, name, text)
	}
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A")
	git(t, dir, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "one")
	put(t, dir, "built.so", "binary")
	put(t, dir, "untracked.txt", "of the image")
	put(t, dir, "other.py", "x = 2\n")
	return dir
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

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// tree is what lies below dir, but for git's own.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		all[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// apply runs the script on a patch, as the agent does; without names programs
// that are not there.
func apply(t *testing.T, dir, patch string, without ...string) (out string, exit int) {
	t.Helper()
	side := t.TempDir()
	paths, _ := patchPaths(patch)
	put(t, side, "p", patch)
	put(t, side, "n", strings.Join(append(paths, ""), "\n"))
	bin := filepath.Join(side, "bin")
	for _, name := range []string{"sh", "cat", "cp", "rm", "mkdir", "mktemp", "dirname", "git", "patch", "env"} {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("no %s here", name)
		}
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(" "+strings.Join(without, " ")+" ", " "+name+" ") {
			if err := os.Symlink(at, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command("/bin/sh", "-c", script, "apply", filepath.Join(side, "p"), filepath.Join(side, "n"))
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin, "TMPDIR=" + side}
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

const clean = `diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a + b
 
 
 def mul(a, b):
`

func TestTries(t *testing.T) {
	// The context of moved is another, so that only fuzz finds the place.
	moved := strings.Replace(clean, " def mul(a, b):", " def mul(x, y):", 1)
	blob := func(dir string) string { return strings.TrimSpace(git(t, dir, "rev-parse", "HEAD:calc.py")) }
	changed := func(t *testing.T, from, to string) map[string]string {
		all := tree(t, world(t))
		all["calc.py"] = strings.Replace(all["calc.py"], from, to, 1)
		return all
	}
	added := changed(t, "return a - b", "return a + b")
	for _, c := range []struct {
		name, patch string
		without     []string
		by          string // empty: no try
		want        map[string]string
	}{
		{"clean", clean, nil, "git apply", added},
		{"without git", clean, []string{"git"}, "patch --fuzz=5", added},
		{"without patch", clean, []string{"patch"}, "git apply", added},
		{"another context", moved, nil, "patch --fuzz=5", added},
		{"another context, without patch", moved, []string{"patch"}, "", nil},
		{"no last line end", strings.TrimSuffix(clean, "\n"), nil, "patch --fuzz=5", added},
		{"broken", strings.NewReplacer("-    return a - b", "-    return nothing", "def mul", "def other").Replace(clean), nil, "", nil},
		{"half of it", clean + strings.ReplaceAll(strings.Replace(clean, "return a - b", "return a ^ b", 1), "calc.py", "other.py"), nil, "", nil},
		{"no patch at all", "I think that add() is wrong.\n", nil, "", nil},
		{"outside", strings.ReplaceAll(clean, "/calc.py", "/../../calc.py"), nil, "", nil},
		{"git's own", "diff --git a/.git/hooks/post-checkout b/.git/hooks/post-checkout\nnew file mode 100755\n--- /dev/null\n+++ b/.git/hooks/post-checkout\n@@ -0,0 +1 @@\n+id\n", []string{"patch"}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := world(t)
			before := tree(t, dir)
			status := git(t, dir, "status", "--porcelain")
			out, exit := apply(t, dir, c.patch, c.without...)
			if (exit == 0) != (c.by != "") || c.by != "" && !strings.HasSuffix(out, "applied by: "+c.by+"\n") {
				t.Errorf("exit %d, want a tree by %q:\n%s", exit, c.by, out)
			}
			want := c.want
			if c.by == "" {
				want = before
				if now := git(t, dir, "status", "--porcelain"); now != status {
					t.Errorf("the index or tree changed from\n%sto\n%s", status, now)
				}
			}
			if d := cmp.Diff(want, tree(t, dir)); d != "" {
				t.Errorf("tree: %s\n%s", d, out)
			}
		})
	}

	t.Run("three ways", func(t *testing.T) {
		// Made against the commit; since then the line above it was changed.
		dir := world(t)
		patch := strings.Replace(clean, "--- a/", "index "+blob(dir)+"..0000000000000000000000000000000000000001 100644\n--- a/", 1)
		patch = strings.Replace(patch, "@@ -1,5 +1,5 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n \n \n def mul(a, b):\n",
			"@@ -10,5 +10,5 @@ def sub(a, b):\n     return a - b\n \n \n def div(a, b):\n-    return a / b\n+    return a // b\n", 1)
		put(t, dir, "calc.py", strings.Replace(base, "def sub(a, b):\n    return a - b", "def sub(a, b):\n    return b", 1))
		git(t, dir, "add", "calc.py")
		before := tree(t, dir)
		out, exit := apply(t, dir, patch, "patch")
		if exit != 0 {
			// A conflict is none of a success, and leaves nothing behind.
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("what a try left: %s\n%s", d, out)
			}
			if strings.Contains(git(t, dir, "status", "--porcelain"), "UU") {
				t.Errorf("an index with a conflict was left:\n%s", out)
			}
			return
		}
		if got := tree(t, dir)["calc.py"]; !strings.Contains(got, "return a // b") || strings.Contains(got, "<<<<") {
			t.Errorf("%s\n%s", got, out)
		}
	})

	t.Run("applied already", func(t *testing.T) {
		dir := world(t)
		put(t, dir, "calc.py", added["calc.py"])
		if out, exit := apply(t, dir, clean); exit != 0 || !strings.HasSuffix(out, "applied by: nothing: it is applied already\n") {
			t.Errorf("exit %d:\n%s", exit, out)
		}
	})

	t.Run("neither git nor patch", func(t *testing.T) {
		if out, exit := apply(t, world(t), clean, "git", "patch"); exit != noTools {
			t.Errorf("exit %d:\n%s", exit, out)
		}
	})
}

// New, removed, renamed and binary files, by git and by assay's own code.
func TestKindsOfChange(t *testing.T) {
	dir := world(t)
	git(t, dir, "checkout", "-q", "--", "other.py")
	put(t, dir, "calc.py", strings.Replace(base, "return a - b", "return a + b", 1))
	put(t, dir, "new/deep.py", "new\n")
	put(t, dir, "bin.dat", "\x00\x01\x02\xff")
	git(t, dir, "rm", "-q", "gone.py")
	git(t, dir, "mv", "other.py", "moved.py")
	git(t, dir, "add", "-A")
	patch := git(t, dir, "diff", "--cached", "--binary", "-M")
	want := tree(t, dir)
	again := world(t)
	git(t, again, "checkout", "-q", "--", "other.py")
	os.Remove(filepath.Join(again, "untracked.txt")) // which the patch makes
	if out, exit := apply(t, again, patch); exit != 0 {
		t.Fatalf("exit %d:\n%s", exit, out)
	}
	if d := cmp.Diff(want, tree(t, again)); d != "" {
		t.Error(d)
	}
}

func FuzzPaths(f *testing.F) {
	f.Add(clean)
	f.Add("diff --git a/x b/y\nrename from x\nrename to y\n")
	f.Fuzz(func(t *testing.T, text string) {
		paths, err := patchPaths(text)
		if err != nil {
			return
		}
		for _, p := range paths {
			if !filepath.IsLocal(p) || p == ".git" || strings.HasPrefix(p, ".git/") || strings.Contains(p, "\n") {
				t.Errorf("path %q", p)
			}
		}
	})
}
