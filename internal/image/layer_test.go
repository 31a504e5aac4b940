package image_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/remove"

	"github.com/google/go-cmp/cmp"
)

func open(t testing.TB) *image.Store {
	t.Helper()
	dir := t.TempDir()
	// An ordinary user cannot remove what lies in directories without write
	// permission, which layers may hold.
	t.Cleanup(func() { remove.Tree(dir) })
	s, err := image.Open(image.HostPath(dir), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tree is entries with their content, to write layers with.
type tree []item

type item struct {
	e       image.Entry
	content string
}

func file(p string, mode uint32, content string) item {
	return item{image.Entry{Path: p, Type: image.TypeFile, Mode: mode}, content}
}

func entry(e image.Entry) item {
	return item{e, ""}
}

func dir(p string, mode uint32) item {
	return entry(image.Entry{Path: p, Type: image.TypeDir, Mode: mode})
}

func link(p, to string) item {
	return entry(image.Entry{Path: p, Type: image.TypeSymlink, Link: to})
}

func whiteout(p string) item {
	return entry(image.Entry{Path: p, Type: image.TypeWhiteout})
}

func (tr tree) commit(t testing.TB, s *image.Store, below ...image.LayerID) image.LayerID {
	t.Helper()
	w, err := s.NewLayer(t.Context(), below...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, x := range tr {
		if err := w.Add(x.e, strings.NewReader(x.content)); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// lines prints a layer's entries for comparison.
func lines(t testing.TB, s *image.Store, id image.LayerID) string {
	t.Helper()
	var b strings.Builder
	for e, err := range s.Entries(id) {
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(line(e) + "\n")
	}
	return b.String()
}

func line(e image.Entry) string {
	l := fmt.Sprintf("%s %s %04o %d:%d", e.Path, e.Type, e.Mode, e.UID, e.GID)
	if e.Link != "" {
		l += " -> " + e.Link
	}
	if e.Hardlink != "" {
		l += " == " + e.Hardlink
	}
	if e.Opaque {
		l += " opaque"
	}
	if e.Type == image.TypeFile {
		l += fmt.Sprintf(" %d", e.Size)
	}
	return l
}

func TestLayerIsItsManifest(t *testing.T) {
	s := open(t)
	id := tree{
		dir("usr", 0o755),
		file("usr/b", 0o4755, "set uid"),
		entry(image.Entry{Path: "usr/a", Type: image.TypeFile, Hardlink: "usr/b"}),
		link("bin", "usr"),
		file("etc/shadow", 0, "secret"),
		dir("sealed", 0),
		file("sealed/x", 0o111, "x"),
		entry(image.Entry{Path: "etc/foreign", Type: image.TypeFile, Mode: 0o640, UID: 33, GID: 42}),
		entry(image.Entry{Path: "dev/sda", Type: image.TypeBlock, Mode: 0o660, Major: 8}),
		entry(image.Entry{Path: "run/pipe", Type: image.TypeFIFO, Mode: 0o600}),
		dir("tmp", 0o1777),
	}.commit(t, s)
	want := `. dir 0755 0:0
bin symlink 0000 0:0 -> usr
dev dir 0755 0:0
dev/sda block 0660 0:0
etc dir 0755 0:0
etc/foreign file 0640 33:42 0
etc/shadow file 0000 0:0 6
run dir 0755 0:0
run/pipe fifo 0600 0:0
sealed dir 0000 0:0
sealed/x file 0111 0:0 1
tmp dir 1777 0:0
usr dir 0755 0:0
usr/a file 4755 0:0 7
usr/b file 4755 0:0 == usr/a 7
`
	if d := cmp.Diff(want, lines(t, s, id)); d != "" {
		t.Error(d)
	}
	for p, want := range map[string]fs.FileMode{
		"etc/shadow": 0o400, "sealed": fs.ModeDir | 0o500, "sealed/x": 0o511,
		"usr/a": 0o755, "tmp": fs.ModeDir | fs.ModeSticky | 0o777,
	} {
		fi, err := os.Lstat(filepath.Join(string(s.Dir(id)), p))
		if err != nil {
			t.Error(err)
		} else if fi.Mode() != want {
			t.Errorf("%s lies on disk with mode %v, want %v", p, fi.Mode(), want)
		}
	}
	a, errA := os.Stat(filepath.Join(string(s.Dir(id)), "usr/a"))
	b, errB := os.Stat(filepath.Join(string(s.Dir(id)), "usr/b"))
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		t.Errorf("the hard link is not one on disk: %v %v", errA, errB)
	}
	if _, err := os.Lstat(filepath.Join(string(s.Dir(id)), "dev/sda")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a device lies on disk: %v", err)
	}
}

func TestLayerIDIgnoresHowItWasMade(t *testing.T) {
	s := open(t)
	one := tree{file("d/x", 0o644, "x"), file("d/y", 0o644, "y"), dir("d", 0o700)}.commit(t, s)
	two := tree{
		dir("d", 0o755), link("d/x", "gone"), file("d/y", 0o644, "y"), file("d/x", 0o644, "x"), dir("d", 0o700),
		file("e/z", 0o644, ""), link("e", "d"), whiteout("e"), dir("e", 0o755),
	}
	three := append(two[:5:5], file("f", 0o644, "f"))
	if got := two[:5].commit(t, s); got != one {
		t.Errorf("same tree, other way: %s and %s", one, got)
	}
	if got := three.commit(t, s); got == one {
		t.Errorf("other tree, same id %s", got)
	}
	if got := lines(t, s, two.commit(t, s)); strings.Contains(got, "e/z") {
		t.Errorf("a replaced directory kept its children:\n%s", got)
	}
	left, err := os.ReadDir(filepath.Join(string(s.Root()), "tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("tmp holds %v after commits, %v", left, err)
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	s := open(t)
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(image.Entry{Path: "a/b", Type: image.TypeFile}, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	w.Abort()
	if err := w.Add(image.Entry{Path: "c", Type: image.TypeDir}, nil); err == nil {
		t.Error("Add after Abort succeeded")
	}
	if _, err := w.Commit(); err == nil {
		t.Error("Commit after Abort succeeded")
	}
	for _, d := range []string{"tmp", "layers"} {
		if left, err := os.ReadDir(filepath.Join(string(s.Root()), d)); err != nil || len(left) != 0 {
			t.Errorf("%s holds %v, %v", d, left, err)
		}
	}
}

func TestAddRefuses(t *testing.T) {
	s := open(t)
	for name, e := range map[string]image.Entry{
		"up":          {Path: "../x", Type: image.TypeFile},
		"up inside":   {Path: "a/../../x", Type: image.TypeFile},
		"absolute":    {Path: "/x", Type: image.TypeFile},
		"empty":       {Path: "", Type: image.TypeFile},
		"unclean":     {Path: "a//b", Type: image.TypeFile},
		"zero byte":   {Path: "a\x00b", Type: image.TypeFile},
		"long name":   {Path: strings.Repeat("n", 256), Type: image.TypeFile},
		"long path":   {Path: strings.Repeat("n/", 2100) + "x", Type: image.TypeFile},
		"deep":        {Path: strings.Repeat("n/", 300) + "x", Type: image.TypeFile},
		"no type":     {Path: "x"},
		"mode":        {Path: "x", Type: image.TypeFile, Mode: 0o100644},
		"owner":       {Path: "x", Type: image.TypeFile, UID: -1},
		"xattr =":     {Path: "x", Type: image.TypeFile, Xattrs: map[string]string{"user.a=b": "c"}},
		"xattr utf-8": {Path: "x", Type: image.TypeFile, Xattrs: map[string]string{"user.\xff": "c"}},
		"overlay":     {Path: "x", Type: image.TypeDir, Xattrs: map[string]string{"user.overlay.redirect": "/"}},
		"root file":   {Path: ".", Type: image.TypeFile},
		"opaque file": {Path: "x", Type: image.TypeFile, Opaque: true},
		"hard link":   {Path: "x", Type: image.TypeFile, Hardlink: "missing"},
		"self link":   {Path: "f", Type: image.TypeFile, Hardlink: "f"},
		"eats itself": {Path: "d", Type: image.TypeFile, Hardlink: "d/f"},
		"below file":  {Path: "f/x", Type: image.TypeFile},
		"below link":  {Path: "l/x", Type: image.TypeFile},
	} {
		w, err := s.NewLayer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []image.Entry{{Path: "f", Type: image.TypeFile}, {Path: "d/f", Type: image.TypeFile}, {Path: "l", Type: image.TypeSymlink, Link: "/etc"}} {
			if err := w.Add(x, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Add(e, strings.NewReader("x")); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := w.Commit(); err == nil {
			t.Errorf("%s: committed after a failed Add", name)
		}
	}
}

// No more names of one file than layers that share it can all have.
func TestNamesOfOneFile(t *testing.T) {
	w, err := open(t).NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Add(image.Entry{Path: "f", Type: image.TypeFile}, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		if err = w.Add(image.Entry{Path: fmt.Sprint("d/", i), Type: image.TypeFile, Hardlink: "f"}, nil); err != nil {
			break
		}
	}
	if !errors.Is(err, image.ErrCap) {
		t.Errorf("20,000 names: %v", err)
	}
}

func TestImpliedDirectoriesComeFromBelow(t *testing.T) {
	s := open(t)
	low := tree{dir(".", 0o711), dir("tmp", 0o1777), entry(image.Entry{Path: "home/u", Type: image.TypeDir, Mode: 0o700, UID: 7, GID: 8})}.commit(t, s)
	up := tree{file("tmp/x", 0o644, ""), file("home/u/x", 0o644, "")}.commit(t, s, low)
	want := ". dir 0711 0:0\nhome dir 0755 0:0\nhome/u dir 0700 7:8\nhome/u/x file 0644 0:0 0\ntmp dir 1777 0:0\ntmp/x file 0644 0:0 0\n"
	if d := cmp.Diff(want, lines(t, s, up)); d != "" {
		t.Error(d)
	}
}

func TestContentCap(t *testing.T) {
	s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Caps: image.Caps{Bytes: 10, Entries: 3}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Add(image.Entry{Path: "a", Type: image.TypeFile}, strings.NewReader("123456")); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(image.Entry{Path: "b", Type: image.TypeFile}, strings.NewReader("123456")); !errors.Is(err, image.ErrCap) {
		t.Errorf("12 bytes into a layer of 10: %v", err)
	}
}

func TestNewLayerWithEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t).NewLayer(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
