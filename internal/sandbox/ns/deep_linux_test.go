package ns

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Images of hundreds of layers, as long Dockerfiles make them, are one mount.
func TestDeepImages(t *testing.T) {
	requireSandbox(t)
	b, st := open(t)
	im := hostImage()
	for i := range 520 {
		w, err := st.NewLayer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for p, text := range map[string]string{fmt.Sprintf("f%d", i): "x", "top": fmt.Sprintln(i)} {
			if err := w.Add(image.Entry{Path: p, Type: image.TypeFile, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		id, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		im.Layers = append(im.Layers, id)
	}
	for _, n := range []int{100, 300, 400} {
		deep := im
		deep.Layers = im.Layers[:n]
		s, err := b.Create(t.Context(), sandbox.Spec{Image: deep})
		if err != nil {
			t.Fatalf("%d layers: %v", n, err)
		}
		if got := script(t, s, "cat /top; ls / | grep -c ^f; echo changed > /top"); got != fmt.Sprintf("%d\n%d", n-1, n) {
			t.Errorf("%d layers: %q", n, got)
		}
		snap, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatalf("%d layers: %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		f, err := b.Create(t.Context(), sandbox.Spec{Image: deep, From: snap})
		if err != nil {
			t.Fatalf("%d layers: %v", n, err)
		}
		if got := script(t, f, "cat /top"); got != "changed" {
			t.Errorf("%d layers: %q", n, got)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	s, err := b.Create(t.Context(), sandbox.Spec{Image: im})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, sandbox.ErrUnsupported) || !strings.Contains(err.Error(), "520 layers") {
		t.Errorf("more than the kernel takes: %v", err)
	}
}

// A stack of many snapshots gets shallow again while the sandbox goes on, and
// every snapshot of it stays what it was.
func TestFlattensInTheBackground(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	depth := func() int {
		n := 0
		fmt.Sscan(script(t, s, "head -1 /proc/self/mounts | tr , '\\n' | grep -c lowerdir || true"), &n)
		return n
	}
	var snaps []sandbox.Snapshot
	take := func() {
		script(t, s, fmt.Sprintf("echo %d > /gen; echo > /f%d; rm -rf /d; mkdir /d; echo > /d/%d", len(snaps), len(snaps), len(snaps)))
		snap, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		snaps = append(snaps, snap)
	}
	base := depth()
	for range softFrozen + 1 {
		take()
	}
	// The next snapshots take what was merged meanwhile; long before maxFrozen.
	for tries := 0; depth()-base > softFrozen-2; tries++ {
		if tries == maxFrozen-softFrozen-4 {
			t.Fatalf("after %d snapshots the stack is %d deep", len(snaps), depth()-base)
		}
		time.Sleep(100 * time.Millisecond)
		take()
	}
	if len(snaps) >= maxFrozen {
		t.Errorf("%d snapshots: it was merged while somebody waited", len(snaps))
	}
	check := func(at int) {
		t.Helper()
		want := fmt.Sprintf("%d\n%d\n%d", at, at+1, at)
		if got := script(t, s, "cat /gen; ls / | grep -c ^f; ls /d"); got != want {
			t.Errorf("snapshot %d: %q, want %q", at, got, want)
		}
	}
	check(len(snaps) - 1)
	for _, at := range []int{0, softFrozen / 2, softFrozen, len(snaps) - 1} {
		if err := s.Reset(t.Context(), snaps[at]); err != nil {
			t.Fatal(err)
		}
		check(at)
	}
}
