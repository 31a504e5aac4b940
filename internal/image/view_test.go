package image_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"assay/internal/image"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// stack is three layers with every way to hide and to replace.
func stack(t testing.TB, s *image.Store) []image.LayerID {
	low := tree{
		dir("etc", 0o755), file("etc/a", 0o644, "low a"), file("etc/b", 0o644, "low b"),
		dir("o", 0o755), file("o/1", 0o644, ""), file("o/d/2", 0o644, ""),
		dir("becomes-file", 0o755), file("becomes-file/x", 0o644, ""),
		file("becomes-dir", 0o644, ""), link("bin", "usr/bin"), file("usr/bin/sh", 0o755, "#!"),
		dir("gone", 0o755), file("gone/x/y", 0o644, ""), file("top", 0o644, ""),
		link("abs", "/etc/a"), link("up", "../../../etc/b"), link("loop", "loop"), link("chain", "abs"),
	}.commit(t, s)
	mid := tree{
		whiteout("etc/a"), file("etc/b", 0o600, "mid b"),
		entry(image.Entry{Path: "o", Type: image.TypeDir, Mode: 0o711, Opaque: true}), file("o/3", 0o644, ""),
		file("becomes-file", 0o644, "now a file"), file("becomes-dir/x", 0o644, ""),
		whiteout("gone"), whiteout("top"), whiteout("never-there"),
	}.commit(t, s, low)
	top := tree{file("etc/a", 0o644, "top a"), dir("gone", 0o700), file("o/d/4", 0o644, "")}.commit(t, s, low, mid)
	return []image.LayerID{low, mid, top}
}

func TestView(t *testing.T) {
	s := open(t)
	v, err := s.View(stack(t, s))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := v.Walk("/", func(e image.Entry) error {
		if e.Path == "usr" {
			return fs.SkipDir
		}
		fmt.Fprintln(&got, line(e))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := `. dir 0755 0:0
abs symlink 0000 0:0 -> /etc/a
becomes-dir dir 0755 0:0
becomes-dir/x file 0644 0:0 0
becomes-file file 0644 0:0 10
bin symlink 0000 0:0 -> usr/bin
chain symlink 0000 0:0 -> abs
etc dir 0755 0:0
etc/a file 0644 0:0 5
etc/b file 0600 0:0 5
gone dir 0700 0:0
loop symlink 0000 0:0 -> loop
o dir 0711 0:0
o/3 file 0644 0:0 0
o/d dir 0755 0:0
o/d/4 file 0644 0:0 0
up symlink 0000 0:0 -> ../../../etc/b
`
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Error(d)
	}
	if b, err := v.ReadFile("/etc/b", 100); err != nil || string(b) != "mid b" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := v.ReadFile("etc/b", 4); !errors.Is(err, image.ErrCap) {
		t.Errorf("over the cap: %v", err)
	}
	for _, p := range []string{"abs", "bin/sh", "etc", "o/1", "../etc/passwd", "becomes-file/x"} {
		if b, err := v.ReadFile(p, 100); err == nil {
			t.Errorf("read %s: %q", p, b)
		}
	}
	es, err := v.ReadDir("o")
	if err != nil || len(es) != 2 || es[0].Path != "o/3" || es[1].Path != "o/d" {
		t.Errorf("%v, %v", es, err)
	}
}

// A view that is asked for twice is one view, and does not outlive a change of
// the stack.
func TestViewsAreShared(t *testing.T) {
	s := open(t)
	ids := stack(t, s)
	one, err := s.View(ids)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.View(slices.Clone(ids))
	if err != nil || one != two {
		t.Errorf("two views of one stack: %v", err)
	}
	if less, err := s.View(ids[:2]); err != nil || less == one {
		t.Errorf("another stack has the same view: %v", err)
	}
	for i := range 200 {
		id := tree{file(fmt.Sprint(i), 0o644, "")}.commit(t, s)
		if v, err := s.View([]image.LayerID{id}); err != nil {
			t.Fatal(err)
		} else if _, err := v.Lstat(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestResolve(t *testing.T) {
	s := open(t)
	v, err := s.View(stack(t, s))
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"bin/sh": "usr/bin/sh", "/abs": "etc/a", "up": "etc/b", "chain": "etc/a", "/": ".", "bin/..": ".",
		"../../bin": "usr/bin", "etc/../chain": "etc/a", "o": "o",
	} {
		if got, err := v.Resolve(p); err != nil || got != want {
			t.Errorf("%s leads to %q, %v; want %q", p, got, err, want)
		}
	}
	for _, p := range []string{"loop", "missing", "abs/x", "top"} {
		if got, err := v.Resolve(p); err == nil {
			t.Errorf("%s leads to %q", p, got)
		}
	}
	if _, err := v.Resolve("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFlattenLooksAlike(t *testing.T) {
	s := open(t)
	ids := stack(t, s)
	flat, err := s.Flatten(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(merged(t, s, ids), merged(t, s, []image.LayerID{flat})); d != "" {
		t.Error(d)
	}
	a, errA := os.Stat(filepath.Join(string(s.Dir(ids[1])), "etc/b"))
	b, errB := os.Stat(filepath.Join(string(s.Dir(flat)), "etc/b"))
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		t.Errorf("content was copied: %v %v", errA, errB)
	}
}

// merged is what a view shows, one line a name.
func merged(t testing.TB, s *image.Store, ids []image.LayerID) string {
	t.Helper()
	v, err := s.View(ids)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := v.Walk(".", func(e image.Entry) error {
		l := line(e)
		if e.Type == image.TypeFile {
			c, err := v.ReadFile(e.Path, 1<<20)
			if err != nil {
				return err
			}
			l += fmt.Sprintf(" %q", c)
		}
		b.WriteString(l + "\n")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The kernel must see what a view shows: mount the layers as an overlay inside
// a user namespace and list the tree.
func TestOverlayMountLooksLikeTheView(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("overlay mounts need Linux")
	}
	unshare := func(script string) (string, error) {
		b, err := exec.Command("unshare", "-rm", "sh", "-c", script).CombinedOutput()
		return string(b), err
	}
	s := open(t)
	ids := stack(t, s)
	work := t.TempDir()
	for _, d := range []string{"upper", "work", "mnt"} {
		if err := os.Mkdir(filepath.Join(work, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount := fmt.Sprintf("mount -t overlay overlay -o lowerdir=%s:%s:%s,upperdir=%s/upper,workdir=%s/work,userxattr %s/mnt",
		s.Dir(ids[2]), s.Dir(ids[1]), s.Dir(ids[0]), work, work, work)
	if out, err := unshare(mount); err != nil {
		t.Skipf("overlay cannot be mounted in a user namespace here: %v: %s", err, out)
	}
	out, err := unshare(mount + ` && cd ` + work + `/mnt && find . -printf '%p %y %m\n' | sed 's,^[.]/,,'`)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(got)
	v, err := s.View(ids)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	letters := map[image.Type]string{image.TypeDir: "d", image.TypeFile: "f", image.TypeSymlink: "l"}
	v.Walk(".", func(e image.Entry) error {
		mode := e.Mode
		if e.Type == image.TypeSymlink {
			mode = 0o777
		}
		want = append(want, fmt.Sprintf("%s %s %o", e.Path, letters[e.Type], mode))
		return nil
	})
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the mount (+) is not the view (-):\n%s", d)
	}
}

// A view of layers made from random trees agrees with applying them to a map.
func TestViewAgreesWithAModel(t *testing.T) {
	s := open(t)
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		model := map[string]image.Type{".": image.TypeDir}
		drop := func(p string) {
			for q := range model {
				if q == p || strings.HasPrefix(q, p+"/") {
					delete(model, q)
				}
			}
		}
		var ids []image.LayerID
		var views []*image.View // of every height, each made upon the one before
		var models []map[string]image.Type
		for range rapid.IntRange(1, 4).Draw(rt, "layers") {
			layer := map[string]image.Entry{}
			for range rapid.IntRange(0, 8).Draw(rt, "entries") {
				parts := rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(rt, "path")
				e := image.Entry{Path: strings.Join(parts, "/"),
					Type: rapid.SampledFrom([]image.Type{image.TypeDir, image.TypeFile, image.TypeWhiteout}).Draw(rt, "type")}
				e.Opaque = e.IsDir() && rapid.Bool().Draw(rt, "opaque")
				ok := true
				for d := path.Dir(e.Path); d != "."; d = path.Dir(d) {
					if x, there := layer[d]; there && !x.IsDir() {
						ok = false
					}
				}
				for q := range layer {
					if strings.HasPrefix(q, e.Path+"/") && !e.IsDir() {
						ok = false
					}
				}
				if ok {
					layer[e.Path] = e
				}
			}
			w, err := s.NewLayer(t.Context())
			if err != nil {
				rt.Fatal(err)
			}
			order := slices.Sorted(maps.Keys(layer))
			for _, p := range order {
				if err := w.Add(layer[p], nil); err != nil {
					rt.Fatal(err)
				}
			}
			id, err := w.Commit()
			if err != nil {
				rt.Fatal(err)
			}
			ids = append(ids, id)
			for _, p := range order {
				if e := layer[p]; e.Type == image.TypeWhiteout {
					drop(p)
				} else if e.Opaque {
					drop(p)
				}
			}
			for _, p := range order {
				for i := range p {
					if p[i] == '/' && model[p[:i]] != image.TypeDir {
						drop(p[:i])
						model[p[:i]] = image.TypeDir
					}
				}
				switch e := layer[p]; {
				case e.Type == image.TypeFile:
					drop(p)
					model[p] = image.TypeFile
				case e.IsDir():
					if model[p] != image.TypeDir {
						drop(p)
					}
					model[p] = image.TypeDir
				}
			}
			v, err := s.View(slices.Clone(ids))
			if err != nil {
				rt.Fatal(err)
			}
			views, models = append(views, v), append(models, maps.Clone(model))
		}
		for i, v := range views {
			got := map[string]image.Type{}
			v.Walk(".", func(e image.Entry) error { got[e.Path] = e.Type; return nil })
			if d := cmp.Diff(models[i], got); d != "" {
				rt.Fatalf("%d of %d layers: model (-), view (+):\n%s", i+1, len(ids), d)
			}
		}
	})
}

// Every layer of an import or build asks for the view of what lies below it:
// 200 small layers upon a large one.
func BenchmarkViewOfEachLayer(b *testing.B) {
	s := open(b)
	var low tree
	for i := range 5000 {
		low = append(low, file(fmt.Sprintf("usr/lib/%d/%d", i%100, i), 0o644, ""))
	}
	stack := []image.LayerID{low.commit(b, s)}
	for i := range 200 {
		stack = append(stack, tree{file(fmt.Sprintf("usr/lib/%d/new", i%100), 0o644, fmt.Sprint(i)), file("etc/x", 0o644, fmt.Sprint(i))}.commit(b, s))
	}
	for b.Loop() {
		fresh := another(b, s)
		for i := range stack {
			if _, err := fresh.View(stack[:i+1]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
