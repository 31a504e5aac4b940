package sandboxtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"reflect"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

func (h harness) trees(t *testing.T) {
	s := h.create(t)
	long := strings.Repeat("long-name-", 20)
	deep := strings.Repeat("d/", 60)
	tree := []entry{
		{name: "dir/", typ: tar.TypeDir, mode: 0o750},
		{name: "dir/empty", mode: 0o600},
		{name: "dir/script", mode: 0o755, body: "#!/bin/sh\necho ran\n"},
		{name: "dir/sealed", mode: 0, body: "unreadable"},
		{name: "hard", typ: tar.TypeReg, mode: 0o644, body: "two names"},
		{name: "hard2", typ: tar.TypeLink, mode: 0o644, link: "hard"},
		{name: "line\nbreak", mode: 0o644, body: "n"},
		{name: "link", typ: tar.TypeSymlink, mode: 0o777, link: "dir/empty"},
		{name: long, mode: 0o644, body: long},
		{name: "loose", typ: tar.TypeSymlink, mode: 0o777, link: "/no/where"},
		{name: "pipe", typ: tar.TypeFifo, mode: 0o600},
		{name: "sticky/", typ: tar.TypeDir, mode: 0o1777},
		{name: "\xff\xfe", mode: 0o644, body: "no UTF-8"},
	}
	t.Run("round trip", func(t *testing.T) {
		put(t, s, "/a/b", tree...)
		got := get(t, s, "/a/b")
		want := append([]entry(nil), tree...)
		for i := range want {
			if want[i].typ == 0 {
				want[i].typ = tar.TypeReg
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%+v\nwant\n%+v", got, want)
		}
		equal(t, "the program", ok(t, s, "/a/b/dir/script"), "ran")
		equal(t, "the link", ok(t, s, "cat /a/b/link; cat /a/b/hard2"), "two names")
	})
	t.Run("deep and again", func(t *testing.T) {
		put(t, s, "/deep", entry{name: deep + "file", mode: 0o644, body: "1"})
		put(t, s, "/deep", entry{name: deep + "file", mode: 0o600, body: "22"})
		equal(t, "content", ok(t, s, "cat /deep/"+deep+"file"), "22")
	})
	t.Run("single file", func(t *testing.T) {
		got := get(t, s, "/a/b/dir/script")
		if len(got) != 1 || got[0].name != "script" || got[0].mode != 0o755 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a link is itself", func(t *testing.T) {
		got := get(t, s, "/a/b/loose")
		if len(got) != 1 || got[0].typ != tar.TypeSymlink || got[0].link != "/no/where" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a way through links stays inside", func(t *testing.T) {
		ok(t, s, "ln -s ../../../../../../a/b/dir /way")
		got := get(t, s, "/way/script")
		if len(got) != 1 || got[0].name != "script" {
			t.Errorf("%+v", got)
		}
		put(t, s, "/way", entry{name: "through", mode: 0o644, body: "x"})
		equal(t, "put through a link", ok(t, s, "cat /a/b/dir/through"), "x")
	})
	t.Run("missing", func(t *testing.T) {
		for _, p := range []image.Path{"/no", "/no/such", "/a/b/hard/below"} {
			if err := s.Get(ctx(t), p, io.Discard, 0); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", p, err)
			}
		}
	})
	t.Run("links that lead nowhere", func(t *testing.T) {
		ok(t, s, "ln -s circle /circle && ln -s "+strings.Repeat("x", 300)+" /endless && ln -s /proc/self /kernel && ln -s /proc/1/root /magic")
		for _, p := range []image.Path{"/circle/x", "/endless/x", "/kernel/status", "/magic/etc/passwd"} {
			if err := s.Get(ctx(t), p, io.Discard, 0); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", p, err)
			}
		}
	})
	t.Run("a head alone", func(t *testing.T) {
		put(t, s, "/heads", entry{name: "d/d", mode: 0o640, body: strings.Repeat("x", 5000)})
		ok(t, s, "chmod 751 /heads/d && mkdir /heads/empty && ln -s /no/where /heads/l")
		for p, want := range map[image.Path]struct {
			typ  byte
			mode int64
			link string
		}{
			"/heads/d": {tar.TypeDir, 0o751, ""}, "/heads/empty": {tar.TypeDir, -1, ""}, "/heads/d/d": {tar.TypeReg, 0o640, ""},
			"/heads/l": {tar.TypeSymlink, -1, "/no/where"},
		} {
			var b bytes.Buffer
			err := s.Get(ctx(t), p, &b, sandbox.HeadOnly)
			r := tar.NewReader(&b)
			h, headErr := r.Next()
			if err != nil || headErr != nil {
				t.Errorf("%s: %v, %v", p, err, headErr)
				continue
			}
			if path.Clean(h.Name) != path.Base(string(p)) || h.Typeflag != want.typ || h.Linkname != want.link || h.Size != 0 || want.mode >= 0 && h.Mode != want.mode {
				t.Errorf("%s: %+v", p, h)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("%s: more than one entry: %v", p, err)
			}
		}
		if err := s.Get(ctx(t), "/heads/none", io.Discard, sandbox.HeadOnly); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		put(t, s, "/big", entry{name: "x", mode: 0o644, body: strings.Repeat("x", 1000)})
		if err := s.Get(ctx(t), "/big", io.Discard, 999); !errors.Is(err, sandbox.ErrTooLarge) {
			t.Errorf("%v", err)
		}
		if err := s.Get(ctx(t), "/big", io.Discard, 1000); err != nil {
			t.Error(err)
		}
	})
	t.Run("while programs run", func(t *testing.T) {
		p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sh", "-c", "mkdir -p /busy; while true; do echo x > /busy/f; rm /busy/f; done"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for range 20 {
			put(t, s, "/busy", entry{name: "g", mode: 0o644, body: "x"})
			get(t, s, "/busy")
		}
	})
	t.Run("broken streams", h.brokenStreams)
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// hostileTars would leave the directory they are put into; none may touch
// anything outside.
func (h harness) hostileTars(t *testing.T) {
	s := h.create(t)
	ok(t, s, "mkdir -p /outside /dst/sub; echo safe > /outside/file; ln -s /outside /dst/abs; ln -s ../outside /dst/rel; ln -s /outside/file /dst/flink")
	for name, es := range map[string][]entry{
		"dots":                 {{name: "../outside/file", mode: 0o644, body: "evil"}},
		"dots in the middle":   {{name: "sub/../../outside/file", mode: 0o644, body: "evil"}},
		"absolute":             {{name: "/outside/file", mode: 0o644, body: "evil"}},
		"through a link":       {{name: "abs/file", mode: 0o644, body: "evil"}},
		"through ..":           {{name: "rel/file", mode: 0o644, body: "evil"}},
		"through its own link": {{name: "own", typ: tar.TypeSymlink, link: "/outside"}, {name: "own/file", mode: 0o644, body: "evil"}},
		"through link to /":    {{name: "root", typ: tar.TypeSymlink, link: "/"}, {name: "root/outside/file", mode: 0o644, body: "evil"}},
		"hard link out":        {{name: "hard", typ: tar.TypeLink, link: "../outside/file"}},
		"hard link through":    {{name: "hard", typ: tar.TypeLink, link: "abs/file"}},
		"device":               {{name: "dev", typ: tar.TypeChar, mode: 0o666}},
		"block device":         {{name: "dev", typ: tar.TypeBlock, mode: 0o666}},
		"kernel files":         {{name: "p", typ: tar.TypeSymlink, link: "/proc/1"}, {name: "p/oom_score_adj", mode: 0o644, body: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.Put(ctx(t), "/dst", pack(t, es...)); err == nil {
				t.Error("it was taken")
			}
			equal(t, "the file outside", ok(t, s, "cat /outside/file"), "safe")
		})
	}
	t.Run("a file replaces a link", func(t *testing.T) {
		put(t, s, "/dst", entry{name: "flink", mode: 0o644, body: "mine"})
		equal(t, "the file outside", ok(t, s, "cat /outside/file"), "safe")
		equal(t, "the file", ok(t, s, "cat /dst/flink"), "mine")
	})
	t.Run("a directory replaces a link", func(t *testing.T) {
		put(t, s, "/dst", entry{name: "abs/", typ: tar.TypeDir, mode: 0o700}, entry{name: "abs/file", mode: 0o644, body: "mine"})
		equal(t, "the file outside", ok(t, s, "cat /outside/file"), "safe")
	})
	t.Run("a file does not replace a directory", func(t *testing.T) {
		ok(t, s, "mkdir -p /dst/full; echo x > /dst/full/x")
		if err := s.Put(ctx(t), "/dst", pack(t, entry{name: "full", mode: 0o644, body: "x"})); err == nil {
			t.Error("it was taken")
		}
	})
	if h.Walls {
		t.Run("links swapped meanwhile", func(t *testing.T) { h.swap(t, s) })
	}
}

// swap lets a program replace a directory by a link while archives are put
// into it.
func (h harness) swap(t *testing.T, s sandbox.Sandbox) {
	p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sh", "-c",
		"mkdir -p /race/d; cd /race; while true; do mv d e; ln -s /outside d; rm d; mv e d; done"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		// Most of these fail, which is right; none may get out.
		_ = s.Put(ctx(t), "/race", pack(t, entry{name: "d/file", mode: 0o644, body: "evil"}))
		var b bytes.Buffer
		if s.Get(ctx(t), "/race/d", &b, 0) == nil {
			for _, e := range unpack(t, &b) {
				if e.body == "safe\n" {
					t.Fatal("get followed a link") // /race/d itself a link is one entry
				}
			}
		}
	}
	equal(t, "the file outside", ok(t, s, "cat /outside/file"), "safe")
}

// brokenStreams: what is no whole archive is an error, the reader's own where it has one.
func (h harness) brokenStreams(t *testing.T) {
	s := h.create(t)
	whole := pack(t, entry{name: "f", mode: 0o644, body: strings.Repeat("y", 2000)}).Bytes()
	for _, b := range [][]byte{whole[:300], whole[:1000], []byte("this is not an archive, whatever its length may be"), bytes.Repeat([]byte{0xff}, 2048)} {
		if err := s.Put(ctx(t), "/broken", bytes.NewReader(b)); err == nil {
			t.Errorf("%d bytes of nonsense were taken", len(b))
		}
	}
	fail := errors.New("the disk is gone")
	if err := s.Put(ctx(t), "/broken", io.MultiReader(bytes.NewReader(whole[:600]), errReader{fail})); !errors.Is(err, fail) {
		t.Errorf("a reader's error is lost: %v", err)
	}
	if err := s.Put(ctx(t), "/broken", bytes.NewReader(append(whole, make([]byte, 1<<20)...))); err != nil {
		t.Errorf("what follows the end: %v", err)
	}
}
