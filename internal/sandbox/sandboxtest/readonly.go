package sandboxtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"testing"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// readOnly pins Spec.ReadOnly.
func (h harness) readOnly(t *testing.T) {
	only := func(paths ...image.Path) func(*sandbox.Spec) {
		return func(s *sandbox.Spec) { s.ReadOnly = paths }
	}
	if !h.b.Capabilities().ReadOnly {
		spec := sandbox.Spec{Image: h.Image, UID: h.UID, ReadOnly: []image.Path{"/tmp"}}
		if s, err := h.b.Create(ctx(t), spec); !errors.Is(err, sandbox.ErrUnsupported) {
			if err == nil {
				s.Close()
			}
			t.Errorf("made although it is not claimed: %v", err)
		}
		return
	}
	first := h.create(t)
	put(t, first, "/w", entry{name: "f", mode: 0o644, body: "f"}, entry{name: "d/x", mode: 0o644, body: "x"},
		entry{name: "free", mode: 0o644, body: "1"}, entry{name: "l", typ: tar.TypeSymlink, mode: 0o777, link: "free"})
	snap, err := first.Snapshot(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	s := h.create(t, only("/w/f", "/w/d", "/w/missing", "/w/l", "/w/f/below"), func(s *sandbox.Spec) { s.From = snap })
	denied := func(t *testing.T) {
		for _, try := range []string{
			"echo 2 >/w/f", "echo 2 >>/w/f", "rm -f /w/f", "mv /w/f /w/g", "ln /w/f /w/g", "chmod 777 /w/f", "echo n >/w/n && mv /w/n /w/f",
			"echo 2 >/w/d/x", "rm -f /w/d/x", "echo n >/w/d/new", "rm -rf /w/d", "mv /w/d /w/e", "mkdir /w/d/sub", "chmod 777 /w/d", "umount /w/f", "umount -l /w/d",
		} {
			if sh(t, s, try).Exit.Code == 0 {
				t.Errorf("%s: it may", try)
			}
		}
		equal(t, "what is read-only", ok(t, s, "cat /w/f /w/d/x"), "fx")
		equal(t, "what is not", ok(t, s, "echo 2 >/w/free; echo 3 >/w/l; echo 4 >/w/missing; cat /w/free /w/missing; rm /w/missing"), "3\n4")
	}
	t.Run("at once", denied)
	t.Run("after a snapshot", func(t *testing.T) {
		if _, err := s.Snapshot(ctx(t)); err != nil {
			t.Fatal(err)
		}
		denied(t)
	})
	t.Run("after a reset", func(t *testing.T) {
		if err := s.Reset(ctx(t), ""); err != nil {
			t.Fatal(err)
		}
		denied(t)
	})
	t.Run("put", func(t *testing.T) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "d/y", Mode: 0o644}), w.Close()); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ctx(t), "/w", &b); err == nil {
			t.Error("it may")
		}
		if got := get(t, s, "/w/d/x"); len(got) != 1 || got[0].body != "x" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a fork that asks for nothing", func(t *testing.T) {
		f := h.create(t, func(s *sandbox.Spec) { s.From = snap })
		equal(t, "content", ok(t, f, "echo 2 >/w/f; rm -r /w/d; ls /w"), "f\nfree\nl")
	})
	t.Run("no path", func(t *testing.T) {
		for _, p := range []image.Path{"", "/", "w", "/.."} {
			if s, err := h.b.Create(ctx(t), sandbox.Spec{Image: h.Image, UID: h.UID, ReadOnly: []image.Path{p}}); err == nil {
				s.Close()
				t.Errorf("%q: made", p)
			}
		}
	})
}
