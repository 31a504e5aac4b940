// Package nstest gives tests a store of layers and real sandboxes upon it. It
// never stands in for a sandbox: where a machine has none, a test is skipped.
package nstest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/remove"
	"assay/internal/sandbox/ns"
)

// Dir is a directory of its own that sandboxes of root can reach. It goes at
// the end of the test, whatever modes the layers in it have kept.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "assay-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove.Tree(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Open opens a store and a backend whose scratch lies in dir, until the end of
// the test. Where a machine has no sandboxes, the test is skipped with the
// reason. A test's program calls [ns.Main] before anything else.
func Open(t testing.TB, dir, store string) (*image.Store, *ns.Backend) {
	t.Helper()
	st, err := image.Open(image.HostPath(store), image.Options{Volatile: true, Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: st, Scratch: image.HostPath(filepath.Join(dir, "scratch"))})
	var refused *doctor.Refusal
	if errors.As(err, &refused) {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return st, b
}
