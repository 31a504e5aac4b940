package external

import (
	"errors"
	"os"
	"testing"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/docker/inside"
	"assay/internal/sandbox/ns"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := inside.Main(os.Args); ok {
		os.Exit(code)
	}
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// ground is a store of a test's own, and sandboxes on it.
func ground(t *testing.T) (*image.Store, sandbox.Backend) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := image.Open(image.HostPath(dir), image.Options{Volatile: true, Owner: ns.Owner()})
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
	return store, b
}

// open makes sandboxes of this machine's tools in a store of their own.
func open(t *testing.T) (sandbox.Backend, image.Image) {
	t.Helper()
	store, b := ground(t)
	host, err := store.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b, host
}

func create(t *testing.T, b sandbox.Backend, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	sb, err := b.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}
