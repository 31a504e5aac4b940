package sandboxtest

import (
	"errors"
	"testing"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// ends: a sandbox that is ended is closed, its processes are dead, and its tree
// is a snapshot like any other.
func (h harness) ends(t *testing.T) {
	s := h.create(t)
	if _, can := s.(sandbox.Ender); !can {
		return // a backend need not
	}
	end := func(s sandbox.Sandbox) sandbox.Snapshot {
		t.Helper()
		snap, err := s.(sandbox.Ender).End(ctx(t))
		if err != nil {
			t.Fatalf("end: %v", err)
		}
		return snap
	}
	equal(t, "nothing differs", string(h.same(t, end(s))), "")
	s = h.create(t)
	ok(t, s, "mkdir /d; echo one > /d/a")
	between := snapshot(t, s)
	ok(t, s, "echo two > /d/b; rm /d/a")
	p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sh", "-c", "trap '' TERM; sleep 600 & sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	last := end(s)
	if e, err := p.Wait(ctx(t)); err == nil && e.Signal == 0 {
		t.Errorf("the program ended well: %+v", e)
	}
	if _, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sh"}}); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("start after the end: %v", err)
	}
	if _, err := s.(sandbox.Ender).End(ctx(t)); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("the end of an ended one: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close after the end: %v", err)
	}
	equal(t, "a fork of it", ok(t, h.fork(t, last), "cat /d/b; test ! -e /d/a"), "two")
	equal(t, "the one before", ok(t, h.fork(t, between), "cat /d/a; test ! -e /d/b"), "one")
	layer := h.same(t, last)
	upon := h.create(t, func(sp *sandbox.Spec) { sp.Extra = []image.LayerID{layer} })
	equal(t, "its layer", ok(t, upon, "cat /d/b; test ! -e /d/a"), "two")
	if d, can := h.b.(sandbox.Dropper); can {
		if err := d.Drop(last); err != nil {
			t.Error(err)
		}
	}
}
