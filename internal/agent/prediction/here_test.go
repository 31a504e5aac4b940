package prediction

import (
	"archive/tar"
	"bytes"
	"compress/zlib"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

func added(name string) string {
	return "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
}

// bomb is a binary patch of a file of n zeros.
func bomb(t *testing.T, n int) string {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	if _, err := w.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return (&gitdiff.File{NewName: "zeros", IsNew: true, NewMode: 0o100644, OldOIDPrefix: strings.Repeat("0", 40), NewOIDPrefix: strings.Repeat("1", 40),
		IsBinary: true, BinaryFragment: &gitdiff.BinaryFragment{Method: gitdiff.BinaryPatchLiteral, Size: int64(n), RawData: packed.Bytes()}}).String()
}

// Without any program of the image, assay applies a patch itself, or not at all.
func TestHere(t *testing.T) {
	store, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Add(image.Entry{Path: "project", Type: image.TypeDir, Mode: 0o755}, nil); err != nil {
		t.Fatal(err)
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	b := fake.Open(store)
	t.Cleanup(func() { b.Close() })
	sb, err := b.Create(t.Context(), sandbox.Spec{Image: image.Image{Layers: []image.LayerID{id}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	s := agent.Session{Sandbox: sb, Workdir: "/project"}
	if err := writeFiles(t.Context(), sb, []written{{"/project/calc.py", []byte(base), 0o644}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, patch, why string }{
		{"another tree", strings.Replace(clean, "-    return a - b", "-    return c", 1), "does not apply"},
		{"a missing file", strings.ReplaceAll(clean, "calc.py", "none.py"), "there is no none.py"},
		{"outside", strings.ReplaceAll(clean, "/calc.py", "/../calc.py"), "no path below the working directory"},
		{"no patch", "hello\n", "not a patch"},
		{"below a file", added("calc.py/x"), "does not apply"},
		{"a file and below it", added("sub/y") + added("sub"), "does not apply"},
		{"a device", strings.ReplaceAll(added("dev"), "100644", "020644"), "is of mode 20644"},
		{"more than it may hold", bomb(t, 3<<20), "are more than 2 MiB"},
		{"more in several files", bomb(t, 1<<20) + strings.ReplaceAll(bomb(t, 1<<20+1), "zeros", "more"), "are more than 2 MiB"},
		{"right, and a new file", clean + "diff --git a/d/new.py b/d/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/d/new.py\n@@ -0,0 +1 @@\n+x = 1\n", ""},
	} {
		a := New("m", "d", Patch, c.patch)
		a.most = 2 << 20
		why, err := a.here(t.Context(), s)
		if err != nil || c.why == "" && why != "" || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, %v, want %q", c.name, why, err, c.why)
		}
		got, err := readFile(t.Context(), sb, "/project/calc.py")
		if want := c.why == ""; err != nil || strings.Contains(got, "return a + b") != want {
			t.Errorf("%s: %v\n%s", c.name, err, got)
		}
	}
	if got, err := readFile(t.Context(), sb, "/project/d/new.py"); err != nil || got != "x = 1\n" {
		t.Errorf("new file: %q, %v", got, err)
	}
	if why, err := New("m", "d", Patch, strings.ReplaceAll(added("to"), "100644", "120000")).here(t.Context(), s); why != "" || err != nil {
		t.Errorf("a link: %q, %v", why, err)
	}
	var got bytes.Buffer
	if err := sb.Get(t.Context(), "/project/to", &got, 1<<20); err != nil {
		t.Fatal(err)
	}
	if h, err := tar.NewReader(&got).Next(); err != nil || h.Typeflag != tar.TypeSymlink || h.Linkname != "x" {
		t.Errorf("a link: %+v, %v", h, err)
	}
}
