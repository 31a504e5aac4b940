package ns

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"assay/internal/sandbox"
	"assay/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	requireSandbox(t)
	sandboxtest.Run(t, sandboxtest.Subject{
		New:   func(t testing.TB) sandbox.Backend { b, _ := open(t); return b },
		Image: hostImage(), Walls: true,
	})
}

// Kernels before 6.5 mount overlays in another way.
func TestOldMounts(t *testing.T) {
	requireSandbox(t)
	_, st := openStore(t)
	b, err := Open(t.Context(), Config{Store: st, oldMounts: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s := arena(t, b)
	for i := range 60 {
		script(t, s, fmt.Sprintf("echo %d > /gen; echo > /f%d", i, i))
		if _, err := s.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := script(t, s, "cat /gen; ls / | grep -c ^f"); got != "59\n60" {
		t.Errorf("%q", got)
	}
	if got := script(t, s, "grep -c lowerdir+ /proc/self/mounts"); got != "0" {
		t.Error("the new way was taken")
	}
}

// A limit that memory does not hold goes to disk, or is refused by name.
func TestDiskTrees(t *testing.T) {
	requireSandbox(t)
	_, st := openStore(t)
	b, err := Open(t.Context(), Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	big := sandbox.Spec{Image: hostImage(), Limits: sandbox.Limits{DiskBytes: 1 << 40}}
	if _, err := b.Create(t.Context(), big); !errors.Is(err, sandbox.ErrUnsupported) {
		t.Errorf("without a scratch directory: %v", err)
	}
	onDisk, _ := open(t)
	s, err := onDisk.Create(t.Context(), big)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	script(t, s, "mkdir -p /d/e; echo one > /d/e/f; chmod 000 /d/e")
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	script(t, s, "chmod 755 /d/e; echo two > /d/e/f")
	if err := s.Reset(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	if got := script(t, s, "cat /d/e/f"); got != "one" {
		t.Errorf("%q", got)
	}
	_, unheld := s.(sandbox.Held).Held()
	if !slices.Contains(unheld, "disk") {
		t.Errorf("nothing holds the disk limit, but only %v are said", unheld)
	}
}
