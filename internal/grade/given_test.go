package grade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/image"
)

// hostDir is a directory of the host with files, executable where the name ends
// with .sh; a text of "-> x" makes a link.
func hostDir(t *testing.T, all map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range all {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if to, ok := strings.CutPrefix(text, "-> "); ok && err == nil {
			err = os.Symlink(to, p)
		} else if err == nil {
			mode := os.FileMode(0o644)
			if strings.HasSuffix(name, ".sh") {
				mode = 0o755
			}
			err = os.WriteFile(p, []byte(text), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What was given is no work; what became of it is.
func TestWorkspaceDiffOfWhatWasGiven(t *testing.T) {
	s := newStore(t)
	img := image.Image{Layers: []image.LayerID{layer(t, s, nil, file("app/kept.txt", "of the image\n"), file("app/over.txt", "of the image\n"), file("app/same.txt", "same\n"))}}
	given := Given{Dirs: []string{
		hostDir(t, map[string]string{"first.txt": "early\n", "over.txt": "given\n", "same.txt": "same\n", "a/edit.txt": "one\n", "a/gone.txt": "bye\n", "run.sh": "#!/bin/sh\n", "l": "-> first.txt",
			"big": strings.Repeat("x", 3000), "big2": strings.Repeat("y", 3000), ".git/HEAD": "x"}),
		hostDir(t, map[string]string{"first.txt": "late\n"}),
		filepath.Join(t.TempDir(), "nowhere"),
	}}
	end := layer(t, s, img.Layers, file("app/first.txt", "late\n"), file("app/over.txt", "given\n"), file("app/a/edit.txt", "two\n"), file("app/run.sh", "#!/bin/sh\n"), link("app/l", "first.txt"),
		file("app/big", strings.Repeat("x", 3000)), file("app/big2", strings.Repeat("z", 3000)), file("app/new.txt", "new\n"), file("app/.git/HEAD", "x"))
	got, _, err := WorkspaceDiff(s, img, end, "/app", given, DiffCaps{File: 2000})
	if err != nil {
		t.Fatal(err)
	}
	want := `diff --git a/a/edit.txt b/a/edit.txt
--- a/a/edit.txt
+++ b/a/edit.txt
@@ -1 +1 @@
-one
+two
diff --git a/a/gone.txt b/a/gone.txt
deleted file mode 100644
--- a/a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/big2 b/big2
Binary files a/big2 and b/big2 differ
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+new
diff --git a/run.sh b/run.sh
old mode 100755
new mode 100644
`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// In a workdir that holds everything the harness's own places are left out; a
// workdir below one of them is not.
func TestWorkspaceDiffLeavesOutTheHarness(t *testing.T) {
	s := newStore(t)
	end := layer(t, s, nil, file("logs/agent/x", "x"), file("solution/solve.sh", "x"), file("tests/test.sh", "x"), file("testsuite/y", "y\n"), file("run/brief", "x"), file("etc/conf", "c\n"))
	given := Given{Own: []image.Path{"/logs", "/tests/", "/solution", "/run/brief"}}
	got, stat, err := WorkspaceDiff(s, image.Image{}, end, "/", given, DiffCaps{})
	if err != nil || stat.Files != 2 || !strings.Contains(string(got), "b/etc/conf") || !strings.Contains(string(got), "b/testsuite/y") {
		t.Errorf("%v, %+v:\n%s", err, stat, got)
	}
	got, stat, err = WorkspaceDiff(s, image.Image{}, end, "/tests", given, DiffCaps{})
	if err != nil || stat.Files != 1 || !strings.Contains(string(got), "b/test.sh") {
		t.Errorf("%v, %+v:\n%s", err, stat, got)
	}
}
