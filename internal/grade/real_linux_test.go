package grade

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

// storeOptions give the layers to whom sandboxes belong.
func storeOptions() image.Options {
	o := image.Options{Volatile: true}
	if os.Geteuid() == 0 {
		o.Owner = &image.Owner{UID: ns.DefaultRootUID, GID: ns.DefaultRootUID}
	}
	return o
}

// realBackends run real programs: without walls on this machine, and with the
// walls that it can give.
func realBackends(testing.TB) []backendMaker {
	return []backendMaker{
		{"host", func(t testing.TB, s *image.Store) sandbox.Backend { return newHostBackend(t, s) }, false},
		{"ns", openNS, true},
	}
}

func openNS(t testing.TB, s *image.Store) sandbox.Backend {
	b, err := ns.Open(t.Context(), ns.Config{Store: s, Scratch: image.HostPath(t.TempDir())})
	var refused *doctor.Refusal
	if errors.As(err, &refused) {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}
