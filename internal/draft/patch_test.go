package draft

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const testPatch = `diff --git a/test_calc.py b/test_calc.py
index 1111111..2222222 100644
--- a/test_calc.py
+++ b/test_calc.py
@@ -1,5 +1,10 @@
-from calc import mul
+from calc import add, mul
 
 
 def test_mul():
     assert mul(2, 3) == 6
+
+
+def test_add():
+    assert add(2, 3) == 5
+    assert add(20, 30) == 50
diff --git a/notes.txt b/notes.txt
new file mode 100644
--- /dev/null
+++ b/notes.txt
@@ -0,0 +1 @@
+assert 1 == 1
`

// Canaries of a patch change what it adds, and nothing else, and it still
// applies.
func TestCandidatesOfAPatch(t *testing.T) {
	all := Candidates("test.patch", []byte(testPatch), 1)
	if len(all) < 2 {
		t.Fatalf("%+v", all)
	}
	git, gitErr := exec.LookPath("git")
	for _, k := range all {
		if strings.Count(testPatch, k.Old) != 1 || !strings.Contains(k.Old, "+    assert add(") || strings.Contains(k.Old, "notes") {
			t.Errorf("%+v", k)
		}
		changed := strings.Replace(testPatch, k.Old, k.New, 1)
		if n := len(strings.Split(changed, "\n")); n != len(strings.Split(testPatch, "\n")) {
			t.Errorf("%d lines: %+v", n, k)
		}
		if gitErr != nil {
			continue
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "test_calc.py")
		if err := os.WriteFile(file, []byte("from calc import mul\n\n\ndef test_mul():\n    assert mul(2, 3) == 6\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(git, "apply", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(changed)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir, "GIT_CEILING_DIRECTORIES=/")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("assert mul(2, 3) == 6")) || bytes.Contains(b, []byte("add(2, 3) == 5\n    assert add(20, 30) == 50\n")) {
			t.Errorf("%q, %v", b, err)
		}
	}
	if Candidates("test.txt", []byte(testPatch), 1) != nil {
		t.Error("a text file has candidates")
	}
}
