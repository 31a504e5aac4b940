package sandboxtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

func (h harness) capabilities(t *testing.T) {
	c := h.b.Capabilities()
	if c.Name == "" || c.Isolation == "" || len(c.UIDModes) == 0 || len(c.Networks) == 0 {
		t.Errorf("incomplete: %+v", c)
	}
	if !c.Snapshots {
		t.Error("a backend without snapshots cannot grade")
	}
	refuse := func(what string, f func(*sandbox.Spec)) {
		spec := sandbox.Spec{Image: h.Image}
		f(&spec)
		s, err := h.b.Create(ctx(t), spec)
		if err == nil {
			s.Close()
			t.Errorf("%s: made although it is not claimed", what)
		} else if !errors.Is(err, sandbox.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, n := range []sandbox.Network{sandbox.NetNone, sandbox.NetAllowlist, sandbox.NetFull} {
		if !has(c.Networks, n) {
			refuse("network "+string(n), func(s *sandbox.Spec) { s.Network = n })
		} else {
			h.create(t, func(s *sandbox.Spec) {
				if s.Network = n; n != sandbox.NetNone {
					s.Egress = gate{carries: true}
				}
			})
		}
	}
	for _, u := range []sandbox.UIDMode{sandbox.UIDSingle, sandbox.UIDSub, sandbox.UIDRoot} {
		if !has(c.UIDModes, u) {
			refuse("uid mode "+string(u), func(s *sandbox.Spec) { s.UID = u })
		} else {
			h.create(t, func(s *sandbox.Spec) { s.UID = u })
		}
	}
	refuse("a second service", func(s *sandbox.Spec) { s.Service = "database" })
	if !c.Relays {
		refuse("relays", func(s *sandbox.Spec) { s.Relays = []sandbox.Relay{{Port: 1234}} })
	}
	if !c.Peek {
		if _, err := h.create(t).Peek(ctx(t)); !errors.Is(err, sandbox.ErrUnsupported) {
			t.Errorf("peek: %v", err)
		}
	}
	if !c.TTY {
		_, err := h.create(t).Start(ctx(t), sandbox.Command{Args: []string{"sh"}, TTY: &sandbox.Size{Rows: 24, Cols: 80}})
		if !errors.Is(err, sandbox.ErrUnsupported) {
			t.Errorf("terminal: %v", err)
		}
	}
}

func has[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// times is how often something is repeated.
func (h harness) times(quick, slow int) int {
	if h.Slow {
		return slow
	}
	return quick
}

func (h harness) fork(t testing.TB, snap sandbox.Snapshot) sandbox.Sandbox {
	t.Helper()
	return h.create(t, func(s *sandbox.Spec) { s.From = snap })
}

func snapshot(t testing.TB, s sandbox.Sandbox) sandbox.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func reset(t testing.TB, s sandbox.Sandbox, to sandbox.Snapshot) {
	t.Helper()
	if err := s.Reset(ctx(t), to); err != nil {
		t.Fatal(err)
	}
}

func (h harness) branches(t *testing.T) {
	t.Run("snapshot, fork, go on", func(t *testing.T) {
		s := h.create(t)
		ok(t, s, "mkdir -p /d; echo one > /d/f; ln -s f /d/l")
		snap := snapshot(t, s)
		equal(t, "the sandbox goes on", ok(t, s, "cat /d/l"), "one")
		ok(t, s, "echo two > /d/f; echo new > /d/g; rm /d/l")
		f := h.fork(t, snap)
		equal(t, "the fork", ok(t, f, "cat /d/f /d/l; test ! -e /d/g"), "one\none")
		ok(t, f, "echo fork > /d/f")
		equal(t, "the sandbox", ok(t, s, "cat /d/f"), "two")
		again := h.fork(t, snap)
		equal(t, "a second fork", ok(t, again, "cat /d/f"), "one")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		equal(t, "a fork of what is closed", ok(t, h.fork(t, snap), "cat /d/l"), "one")
	})
	t.Run("reset", h.resets)
	t.Run("processes end", func(t *testing.T) {
		s := h.create(t)
		for name, change := range map[string]func() error{
			"snapshot": func() error { _, err := s.Snapshot(ctx(t)); return err },
			"reset":    func() error { return s.Reset(ctx(t), "") },
		} {
			p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sleep", "600"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if e, err := p.Wait(ctx(t)); err != nil || e.Signal == 0 {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
			p.Close()
		}
	})
	t.Run("deletions survive", h.deletions)
	t.Run("many generations", func(t *testing.T) {
		s := h.create(t)
		var snaps []sandbox.Snapshot
		n := h.times(60, 12)
		for i := range n {
			ok(t, s, "echo "+strings.Repeat("x", i+1)+" > /gen; echo x > /g"+strings.Repeat("y", i))
			snaps = append(snaps, snapshot(t, s))
		}
		for _, i := range []int{0, 20, 47, 48, 49, 50, 59} {
			if i >= n {
				break
			}
			equal(t, "a generation", ok(t, h.fork(t, snaps[i]), "cat /gen"), strings.Repeat("x", i+1))
		}
	})
	t.Run("forks of forks", func(t *testing.T) {
		s := h.create(t)
		last := h.times(55, 6)
		for i := range last {
			ok(t, s, "echo "+strings.Repeat("x", i+1)+" > /gen; rm -f /old; mkdir /dir"+strings.Repeat("y", i)+"; echo > /old")
			snap := snapshot(t, s)
			s.Close()
			s = h.fork(t, snap)
		}
		equal(t, "the last", ok(t, s, "cat /gen"), strings.Repeat("x", last))
		ok(t, s, "test -d /dir && test -d /diryyyyy && test -f /old")
	})
	t.Run("a put that hangs", h.hangingPut)
	t.Run("peek", h.peek)
	t.Run("commit", h.commit)
	t.Run("drop", func(t *testing.T) {
		d, isDropper := h.b.(sandbox.Dropper)
		if !isDropper {
			t.Skip("this backend frees snapshots when it closes")
		}
		s := h.create(t)
		ok(t, s, "echo one > /f")
		snap := snapshot(t, s)
		f := h.fork(t, snap)
		for range 2 {
			if err := d.Drop(snap); err != nil {
				t.Error(err)
			}
		}
		equal(t, "a fork of what is dropped", ok(t, f, "cat /f"), "one")
		equal(t, "the source", ok(t, s, "cat /f"), "one")
		if _, err := h.b.Create(ctx(t), sandbox.Spec{Image: h.Image, From: snap}); err == nil {
			t.Error("a dropped snapshot was forked")
		}
	})
}

func (h harness) deletions(t *testing.T) {
	s := h.create(t)
	ok(t, s, "mkdir -p /d/sub; echo a > /d/a; echo b > /d/sub/b")
	snapshot(t, s)
	ok(t, s, "rm -r /d; mkdir /d; echo new > /d/new")
	snap := snapshot(t, s)
	ok(t, s, "rm /d/new; echo z > /d/z")
	last := snapshot(t, s)
	equal(t, "replaced directory", ok(t, h.fork(t, snap), "test ! -e /d/a; test ! -e /d/sub; cat /d/new"), "new")
	f := h.fork(t, last)
	ok(t, f, "test ! -e /d/new && test ! -e /d/a && test -f /d/z")
	for _, e := range get(t, f, "/d") {
		if e.name != "z" {
			t.Errorf("unexpected %q", e.name)
		}
	}
}

func (h harness) peek(t *testing.T) {
	if !h.b.Capabilities().Peek {
		t.Skip("not claimed")
	}
	s := h.create(t)
	ok(t, s, "mkdir /d; echo one > /d/f; ln /d/f /d/hard; ln -s f /d/l; chmod 751 /d; echo x > /d/gone")
	snapshot(t, s)
	ok(t, s, "rm /d/gone; echo two > /d/f2")
	p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	snap, err := s.Peek(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	ok(t, s, "echo later > /d/f")
	if _, err := p.Stdin().Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := p.Stdout().Read(make([]byte, 1)); err != nil {
		t.Errorf("the program did not survive the peek: %v", err)
	}
	f := h.fork(t, snap)
	equal(t, "the peek", ok(t, f, "cat /d/f /d/hard /d/l /d/f2; test ! -e /d/gone"), "one\none\none\ntwo")
	equal(t, "the sandbox", ok(t, s, "cat /d/f"), "later")
}

// same commits and expects the same answer twice.
func (h harness) same(t testing.TB, s sandbox.Snapshot) image.LayerID {
	t.Helper()
	a, err := h.b.Commit(ctx(t), s)
	if err != nil {
		t.Fatal(err)
	}
	b, err := h.b.Commit(ctx(t), s)
	if err != nil || a != b {
		t.Fatalf("committed twice: %q, %q, %v", a, b, err)
	}
	return a
}

func (h harness) commit(t *testing.T) {
	s := h.create(t)
	equal(t, "nothing differs", string(h.same(t, snapshot(t, s))), "")
	ok(t, s, "mkdir -p /d/sub /e; echo a > /d/a; chmod 640 /d/a; ln /d/a /d/hard; ln -s a /d/l; echo b > /d/sub/b; echo e > /e/e; chmod 1777 /e")
	snapshot(t, s)
	ok(t, s, "rm -r /d/sub; echo c > /d/c")
	one := h.same(t, snapshot(t, s))
	if one == "" {
		t.Fatal("a layer was expected")
	}
	equal(t, "equal trees have equal ids", string(h.again(t)), string(one))
	upon := h.create(t, func(sp *sandbox.Spec) { sp.Extra = []image.LayerID{one} })
	equal(t, "the layer's content", ok(t, upon, "cat /d/a /d/hard /d/l /d/c /e/e; test ! -e /d/sub"), "a\na\na\nc\ne")
	modes := map[string]int64{"a": 0o640, "c": 0o644}
	for _, e := range get(t, upon, "/d") {
		if want, ok := modes[e.name]; ok && e.mode != want {
			t.Errorf("%s has mode %o", e.name, e.mode)
		}
	}
	t.Run("what hides layers", func(t *testing.T) {
		ok(t, upon, "rm /d/a; rm -r /e; mkdir /e; echo new > /e/new")
		two := h.same(t, snapshot(t, upon))
		third := h.create(t, func(sp *sandbox.Spec) { sp.Extra = []image.LayerID{one, two} })
		equal(t, "whiteouts", ok(t, third, "test ! -e /d/a; test ! -e /e/e; cat /d/hard /e/new"), "a\nnew")
	})
	t.Run("touched is not changed", func(t *testing.T) {
		u := h.create(t, func(sp *sandbox.Spec) { sp.Extra = []image.LayerID{one} })
		ok(t, u, "echo c > /d/c; chmod 644 /d/c; echo x > /d/x; rm /d/x")
		equal(t, "the layer", string(h.same(t, snapshot(t, u))), "")
	})
}

// again does the same work as commit in another way.
func (h harness) again(t testing.TB) image.LayerID {
	s := h.create(t)
	ok(t, s, "mkdir /e; chmod 1777 /e; echo e > /e/e; mkdir /d; echo wrong > /d/c; echo a > /d/hard; ln /d/hard /d/a; chmod 640 /d/hard; ln -s a /d/l; echo c > /d/c")
	return h.same(t, snapshot(t, s))
}

func (h harness) endings(t *testing.T) {
	t.Run("kill", func(t *testing.T) {
		s := h.create(t)
		ok(t, s, "echo kept > /f")
		p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sh", "-c", "trap '' TERM; sleep 600 & sleep 600"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := s.Kill(ctx(t)); err != nil {
			t.Fatal(err)
		}
		if e, err := p.Wait(ctx(t)); err != nil || e.Signal != 9 {
			t.Errorf("%+v, %v", e, err)
		}
		equal(t, "the tree", ok(t, s, "cat /f"), "kept")
	})
	t.Run("close", func(t *testing.T) {
		s := h.create(t)
		p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sleep", "600"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if e, err := p.Wait(ctx(t)); err == nil && e.Signal == 0 {
			t.Errorf("the program ended well: %+v", e)
		}
		_, startErr := s.Start(ctx(t), sandbox.Command{Args: []string{"sh"}})
		_, snapErr := s.Snapshot(ctx(t))
		for what, err := range map[string]error{
			"start": startErr, "snapshot": snapErr, "reset": s.Reset(ctx(t), ""), "kill": s.Kill(ctx(t)),
			"put": s.Put(ctx(t), "/", pack(t)), "get": s.Get(ctx(t), "/", &strings.Builder{}, 0),
		} {
			if !errors.Is(err, sandbox.ErrClosed) {
				t.Errorf("%s after close: %v", what, err)
			}
		}
	})
	t.Run("backend", func(t *testing.T) {
		b := h.New(t)
		s, err := b.Create(ctx(t), sandbox.Spec{Image: h.Image})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sh"}}); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("start after the backend's close: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := b.Create(ctx(t), sandbox.Spec{Image: h.Image}); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("create after close: %v", err)
		}
	})
}

// resets go back, forward again, and nowhere else.
func (h harness) resets(t *testing.T) {
	s := h.create(t)
	ok(t, s, "echo one > /f")
	snap := snapshot(t, s)
	ok(t, s, "echo two > /f")
	reset(t, s, snap)
	equal(t, "to the snapshot", ok(t, s, "cat /f"), "one")
	reset(t, s, "")
	ok(t, s, "test ! -e /f")
	reset(t, s, snap)
	equal(t, "forward again", ok(t, s, "cat /f"), "one")
	f := h.fork(t, snap)
	ok(t, f, "echo three > /f")
	reset(t, f, "")
	equal(t, "a fork's beginning", ok(t, f, "cat /f"), "one")
	if err := s.Reset(ctx(t), "no-such-snapshot"); err == nil {
		t.Error("reset to nowhere")
	}
	equal(t, "after a refused reset", ok(t, s, "cat /f"), "one")
}

// hangingPut: a stream that nobody ends neither holds a snapshot up nor changes it.
func (h harness) hangingPut(t *testing.T) {
	s := h.create(t)
	ok(t, s, "mkdir /put") // the snapshot may come before the stream's first entry
	hangs, w := io.Pipe()
	defer w.Close()
	done := make(chan error, 1)
	go func() { done <- s.Put(context.Background(), "/put", hangs) }()
	if _, err := w.Write(pack(t, entry{name: "first", mode: 0o644, body: "x"}).Bytes()[:1024]); err != nil {
		t.Fatal(err)
	}
	snap := snapshot(t, s)
	w.CloseWithError(errors.New("given up"))
	select {
	case err := <-done:
		if err == nil {
			t.Error("half an archive was taken")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("put hangs")
	}
	before := len(get(t, h.fork(t, snap), "/put"))
	ok(t, s, "echo later > /put/later")
	if n := len(get(t, h.fork(t, snap), "/put")); n != before {
		t.Errorf("the snapshot changed: %d entries, then %d", before, n)
	}
}
