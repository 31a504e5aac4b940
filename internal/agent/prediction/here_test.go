package prediction

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

func added(name string) string {
	return "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
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
		{"right, and a new file", clean + "diff --git a/d/new.py b/d/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/d/new.py\n@@ -0,0 +1 @@\n+x = 1\n", ""},
	} {
		why, err := New("m", "d", Patch, c.patch).here(t.Context(), s)
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
