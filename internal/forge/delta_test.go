package forge

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/remove"
)

// testStore is an empty store.
func testStore(t *testing.T) *image.Store {
	t.Helper()
	dir := t.TempDir()
	s, err := image.Open(image.HostPath(dir), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		_ = remove.Tree(dir) // layers keep their modes
	})
	return s
}

// healthyTree is a layer of the given entries; contents by path.
func healthyTree(t *testing.T, s *image.Store, entries ...image.Entry) []image.LayerID {
	t.Helper()
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i, e := range entries {
		e.ModTime = time.Unix(1_600_000_000+int64(i), 123_000_000)
		var err error
		if e.Type == image.TypeFile {
			err = w.Add(e, strings.NewReader("content of "+e.Path+"\n"))
		} else {
			err = w.Add(e, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return []image.LayerID{id}
}

func smallTree(t *testing.T, s *image.Store) []image.LayerID {
	dir, file, link := image.TypeDir, image.TypeFile, image.TypeSymlink
	return healthyTree(t, s,
		image.Entry{Path: "app", Type: dir, Mode: 0o755},
		image.Entry{Path: "app/a.py", Type: file, Mode: 0o644},
		image.Entry{Path: "app/run.sh", Type: file, Mode: 0o755, UID: 7, GID: 8, Xattrs: map[string]string{"user.note": "\x00\xff"}},
		image.Entry{Path: "app/link", Type: link, Link: "a.py"},
		image.Entry{Path: "app/pkg", Type: dir, Mode: 0o2750, GID: 8},
		image.Entry{Path: "app/pkg/one", Type: file, Mode: 0o600},
		image.Entry{Path: "app/pkg/deep", Type: dir, Mode: 0o700},
		image.Entry{Path: "app/pkg/deep/two", Type: file, Mode: 0o4755},
		image.Entry{Path: "app/pkg/pipe", Type: image.TypeFIFO, Mode: 0o666},
		image.Entry{Path: "etc", Type: dir, Mode: 0o755},
		image.Entry{Path: "etc/profile", Type: file, Mode: 0o644})
}

// there and back again: the tree with a delta and its inverse is the tree.
func roundTrip(t *testing.T, s *image.Store, stack []image.LayerID, d Delta) {
	t.Helper()
	v, err := s.View(stack)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Invert(d, v)
	if err != nil {
		t.Fatal(err)
	}
	id, err := Layer(t.Context(), s, stack, v, d)
	if err != nil {
		t.Fatalf("%v\n%+v", err, d)
	}
	broken := stack
	if id != "" {
		broken = append(stack[:len(stack):len(stack)], id)
	}
	b, err := s.View(broken)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range d {
		got, err := b.Lstat(e.Path)
		if e.Type == "" && err == nil || e.Type != "" && (err != nil || got.Type != e.Type || got.Link != e.Link) {
			t.Errorf("%s: %+v, %v; want %q", e.Path, got, err, e.Type)
		}
	}
	again, err := Layer(t.Context(), s, broken, v, back)
	if err != nil {
		t.Fatalf("%v\n%+v\nback %+v", err, d, back)
	}
	if again != "" {
		broken = append(broken, again)
	}
	healed, err := s.View(broken)
	if err != nil {
		t.Fatal(err)
	}
	if bad, err := Differ(v, healed, []string{"."}, true, 10); err != nil || len(bad) > 0 {
		t.Errorf("not the same: %q, %v\nthere %+v\nback %+v", bad, err, d, back)
	}
}

func TestInverseIsExact(t *testing.T) {
	s := testStore(t)
	stack := smallTree(t, s)
	for name, d := range map[string]Delta{
		"content":        {{Path: "/app/a.py", Type: image.TypeFile, Mode: 0o644, Data: []byte("x")}},
		"mode and owner": {{Path: "/app/run.sh", Type: image.TypeFile, Mode: 0o000, UID: 1, From: "/app/run.sh"}},
		"gone":           {{Path: "/app/pkg"}},
		"moved": func() Delta {
			v, err := s.View(stack)
			if err != nil {
				t.Fatal(err)
			}
			d, err := CopyTree(v, "/app/pkg", "/var/old/pkg")
			if err != nil || len(d) != 5 {
				t.Fatal(d, err)
			}
			return append(d, Edit{Path: "/app/pkg"})
		}(),
		"directory becomes file": {{Path: "/app/pkg", Type: image.TypeFile, Mode: 0o644}},
		"file becomes directory": {{Path: "/app/a.py", Type: image.TypeDir, Mode: 0o755}, {Path: "/app/a.py/x", Type: image.TypeFile}},
		"link elsewhere":         {{Path: "/app/link", Type: image.TypeSymlink, Link: "nowhere"}},
		"link loop":              {{Path: "/app/loop", Type: image.TypeSymlink, Link: "loop"}},
		"directory's mode":       {{Path: "/app/pkg", Type: image.TypeDir, Mode: 0o555}, {Path: "/app/pkg/one"}},
		"new below new":          {{Path: "/opt/x/y/z", Type: image.TypeFile, Mode: 0o644, Data: []byte("1"), Time: 5, Nanos: 6}},
		"nothing there":          {{Path: "/no/such"}},
		"pipe":                   {{Path: "/app/pkg/pipe", Type: image.TypeFile, Mode: 0o644}, {Path: "/etc/p", Type: image.TypeFIFO, Mode: 0o600}},
	} {
		t.Run(name, func(t *testing.T) { roundTrip(t, s, stack, d) })
	}
}

// Of random deltas the inverse is exact, too.
func TestInverseOfRandomDeltas(t *testing.T) {
	s := testStore(t)
	stack := smallTree(t, s)
	paths := []string{"/app", "/app/a.py", "/app/run.sh", "/app/link", "/app/pkg", "/app/pkg/one", "/app/pkg/deep", "/app/pkg/deep/two", "/app/pkg/new/er", "/etc/profile", "/opt/n", "/opt/n/m"}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		var d Delta
		for range 1 + r.IntN(5) {
			e := Edit{Path: paths[r.IntN(len(paths))], Mode: uint32(r.IntN(0o10000)), UID: r.IntN(3)}
			switch r.IntN(5) {
			case 0:
				e = Edit{Path: e.Path}
			case 1:
				e.Type = image.TypeDir
			case 2:
				e.Type, e.Link = image.TypeSymlink, "to/x"
			case 3:
				e.Type, e.From = image.TypeFile, "/app/a.py"
			default:
				e.Type, e.Data, e.Time = image.TypeFile, fmt.Append(nil, r.IntN(100)), int64(r.IntN(3))
			}
			if more := append(d[:len(d):len(d)], e); more.Check() == nil {
				v, err := s.View(stack)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := more.On(v); err == nil {
					d = more
				}
			}
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { roundTrip(t, s, stack, d) })
	}
}

func TestDeltasThatAreRefused(t *testing.T) {
	s := testStore(t)
	v, err := s.View(smallTree(t, s))
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]Delta{
		"relative":      {{Path: "app/a.py"}},
		"root":          {{Path: "/"}},
		"escape":        {{Path: "/app/../../etc/x"}},
		"not clean":     {{Path: "/app//x"}},
		"twice":         {{Path: "/app/a.py"}, {Path: "/app/a.py", Type: image.TypeFile}},
		"below nothing": {{Path: "/app"}, {Path: "/app/x", Type: image.TypeFile}},
		"below a link":  {{Path: "/app/link/x", Type: image.TypeFile}},
		"device":        {{Path: "/dev/sda", Type: image.TypeBlock}},
		"whiteout":      {{Path: "/app/.wh.a.py", Type: image.TypeFile}},
		"both":          {{Path: "/x", Type: image.TypeFile, Data: []byte("x"), From: "/etc/profile"}},
		"from nowhere":  {{Path: "/x", Type: image.TypeFile, From: "/etc/shadow"}},
		"from a link":   {{Path: "/x", Type: image.TypeFile, From: "/app/link"}},
		"bytes":         {{Path: "/x\xff", Type: image.TypeFile}},
		"setuid beyond": {{Path: "/x", Type: image.TypeFile, Mode: 0o10000}},
		"link to none":  {{Path: "/x", Type: image.TypeSymlink}},
	} {
		if _, err := d.On(v); err == nil || !strings.HasPrefix(err.Error(), "delta: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What changes does not show its place by time, nor does byte code of the old
// content pass for current.
func TestTimesOfEdits(t *testing.T) {
	s := testStore(t)
	stack := smallTree(t, s)
	v, err := s.View(stack)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Rewrite(v, "/app/a.py", []byte("y"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := Layer(t.Context(), s, stack, v, Delta{e, {Path: "/app/pkg/new", Type: image.TypeFile, Mode: 0o644}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.View([]image.LayerID{stack[0], id})
	if err != nil {
		t.Fatal(err)
	}
	at := func(v *image.View, p string) time.Time {
		x, err := v.ModTime(p)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	if want := at(v, "/app/a.py").Add(-time.Second); !at(b, "/app/a.py").Equal(want) {
		t.Errorf("a.py: %v, want %v", at(b, "/app/a.py"), want)
	}
	for _, p := range []string{"/app", "/app/pkg"} {
		if !at(b, p).Equal(at(v, p)) {
			t.Errorf("%s: %v, was %v", p, at(b, p), at(v, p))
		}
	}
	if !at(b, "/app/pkg/new").Equal(at(v, "/app/pkg")) {
		t.Errorf("new: %v", at(b, "/app/pkg/new"))
	}
	if l, err := Later(v, "/app"); err != nil || !l.After(at(v, "/app/pkg/pipe")) {
		t.Error(l, err)
	}
	if fi, err := os.Lstat(path.Join(string(s.Dir(id)), "app/a.py")); err != nil || fi.Size() != 1 {
		t.Error(fi, err)
	}
}
