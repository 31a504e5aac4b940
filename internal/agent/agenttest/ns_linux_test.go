package agenttest

import (
	"errors"
	"os"
	"testing"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// realOpeners are the sandboxes with walls that this machine can give.
func realOpeners() map[string]func(*testing.T) func(testing.TB) sandbox.Sandbox {
	return map[string]func(*testing.T) func(testing.TB) sandbox.Sandbox{"ns": openNS}
}

// openNS makes sandboxes of this machine's tools and an empty /project.
func openNS(t *testing.T) func(testing.TB) sandbox.Sandbox {
	t.Helper()
	o := image.Options{Volatile: true}
	if os.Geteuid() == 0 {
		o.Owner = &image.Owner{UID: ns.DefaultRootUID, GID: ns.DefaultRootUID}
	}
	store, err := image.Open(image.HostPath(t.TempDir()), o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: store, Scratch: image.HostPath(t.TempDir())})
	var refused *doctor.Refusal
	if errors.As(err, &refused) {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	img := tools(t, store)
	return func(t testing.TB) sandbox.Sandbox {
		sb, err := b.Create(t.Context(), sandbox.Spec{Image: img})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sb.Close() })
		return sb
	}
}

func tools(t testing.TB, store *image.Store) image.Image {
	t.Helper()
	w, err := store.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	img := image.Image{Name: "tools", Config: image.Config{Env: []string{"PATH=/usr/bin:/bin"}}}
	add := func(e image.Entry) {
		if err := w.Add(e, nil); err != nil {
			t.Fatal(err)
		}
	}
	add(image.Entry{Path: "project", Type: image.TypeDir, Mode: 0o755})
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		info, err := os.Lstat(p)
		switch {
		case err != nil:
		case info.IsDir():
			img.Binds = append(img.Binds, image.Bind{Source: image.HostPath(p), Target: image.Path(p)})
		default:
			to, err := os.Readlink(p)
			if err != nil {
				t.Fatal(err)
			}
			add(image.Entry{Path: p[1:], Type: image.TypeSymlink, Link: to})
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	img.Layers = []image.LayerID{id}
	return img
}
