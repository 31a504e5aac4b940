package leak

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/image"
)

const before = `def total(rows):
    """Sum of the rows' amounts."""
    result = 0
    return result
`

const solved = `def total(rows):
    """Sum of the rows' amounts."""
    result = 0
    for amount_of_row in collect_amounts(rows, skip_header=True):
        result += normalised_value(amount_of_row)
    return result
`

const diff = `--- a/total.py
+++ b/total.py
@@ -2,3 +2,5 @@
     """Sum of the rows' amounts."""
     result = 0
+    for amount_of_row in collect_amounts(rows, skip_header=True):
+        result += normalised_value(amount_of_row)
     return result
`

func gold() *Gold { return NewGold(FromDiff([]byte(diff))) }

// tree makes a layer of a directory that fill fills.
func tree(t *testing.T, st *image.Store, fill func(dir string)) image.LayerID {
	t.Helper()
	dir := t.TempDir()
	fill(dir)
	id, err := st.FromDir(t.Context(), image.HostPath(dir), image.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func store(t *testing.T) *image.Store {
	t.Helper()
	st, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// repository holds the solution in a commit that no branch names any more.
func repository(t *testing.T, dir string, packed bool) {
	t.Helper()
	gitIn(t, dir, "init", "-q", "-b", "main")
	put(t, filepath.Join(dir, "total.py"), before)
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "before")
	put(t, filepath.Join(dir, "total.py"), solved)
	gitIn(t, dir, "commit", "-qam", "after")
	if packed {
		gitIn(t, dir, "gc", "-q", "--prune=now")
	}
	gitIn(t, dir, "reset", "-q", "--hard", "HEAD~1")
}

func TestScanFindsWhereASolutionStands(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	cases := map[string]struct {
		fill func(t *testing.T, dir string)
		want string // part of the one finding; empty: none
	}{
		"clean":             {func(t *testing.T, d string) { put(t, d+"/app/total.py", before) }, ""},
		"backup":            {func(t *testing.T, d string) { put(t, d+"/app/total.py.orig", solved) }, "/app/total.py.orig holds 2 of 2 lines"},
		"reindented":        {func(t *testing.T, d string) { put(t, d+"/x", strings.ReplaceAll(solved, "    ", "\t")) }, "/x holds 2 of 2"},
		"after a long line": {func(t *testing.T, d string) { put(t, d+"/x", strings.Repeat("x", 3<<20)+"\n"+solved) }, "/x holds 2 of 2"},
		"compressed": {func(t *testing.T, d string) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			fmt.Fprint(z, solved)
			z.Close()
			put(t, d+"/cache/total.gz", b.String())
		}, "/cache/total.gz (gz) holds"},
		"archive": {func(t *testing.T, d string) {
			var b bytes.Buffer
			z := zip.NewWriter(&b)
			f, _ := z.Create("pkg/total.py")
			fmt.Fprint(f, solved)
			z.Close()
			put(t, d+"/pkg.whl", b.String())
		}, "/pkg.whl (pkg/total.py) holds"},
		"broken archive": {func(t *testing.T, d string) {
			put(t, d+"/pkg.whl", "PK\x03\x04"+solved)
			put(t, d+"/x.gz", "\x1f\x8bno")
			put(t, d+"/cut.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b")
		}, ""},
		"bytecode": {func(t *testing.T, d string) {
			put(t, d+"/app/__pycache__/total.cpython-311.pyc", "\x00\x01amount_of_row\x00\x0fcollect_amounts\xda\x0bskip_header\x00normalised_value\x00")
		}, "4 of 4 names"},
		"loose commit":  {func(t *testing.T, d string) { repository(t, d, false) }, "/.git/objects (blob "},
		"packed commit": {func(t *testing.T, d string) { repository(t, d, true) }, "/.git/objects (blob "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st := store(t)
			id := tree(t, st, func(d string) { c.fill(t, d) })
			for _, shared := range []bool{false, true} {
				s := &Scanner{Store: st, Git: git, Cache: image.HostPath(t.TempDir()), Shared: func(image.LayerID) bool { return shared }}
				for range 2 { // the second time from the cache
					got, err := s.Scan(t.Context(), image.Image{Layers: []image.LayerID{id}}, []*Gold{gold(), NewGold([]string{"something_else = entirely_different(solution)", "and_nothing = to_be_seen_anywhere()"}, nil)})
					if err != nil {
						t.Fatal(err)
					}
					f := got[0].Findings
					if len(got[1].Findings) > 0 {
						t.Errorf("a solution that is not there was found: %v", got[1].Findings)
					}
					// An index holds lines: names in byte code of a shared layer are not looked for.
					if c.want == "" || shared && name == "bytecode" {
						if len(f) > 0 {
							t.Errorf("found %v", f)
						}
						continue
					}
					if len(f) != 1 || !strings.Contains(f[0].String(), c.want) || !f[0].Sure {
						t.Errorf("shared %v: found %v, want %q", shared, f, c.want)
					}
				}
			}
		})
	}
}

// A layer that a later one hides is looked through too.
func TestScanSeesHiddenLayers(t *testing.T) {
	st := store(t)
	low := tree(t, st, func(d string) { put(t, d+"/app/total.py", solved) })
	high := tree(t, st, func(d string) { put(t, d+"/app/total.py", before) })
	s := &Scanner{Store: st}
	got, err := s.Scan(t.Context(), image.Image{Layers: []image.LayerID{low, high}}, []*Gold{gold()})
	if err != nil || len(got[0].Findings) != 1 || got[0].Findings[0].Layer != low {
		t.Errorf("%+v, %v", got, err)
	}
}

// What can be seen of an image is looked through, and what is hidden is not:
// files, loose objects, what another layer put in their place.
func TestScanMergedSeesWhatIsSeen(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	st := store(t)
	low := tree(t, st, func(d string) {
		put(t, d+"/app/total.py", solved)
		put(t, d+"/app/kept.py", solved)
		repository(t, d, false)
	})
	v, err := st.View([]image.LayerID{low})
	if err != nil {
		t.Fatal(err)
	}
	over := func(hide ...string) image.Image {
		w, err := st.NewLayer(t.Context(), low)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range hide {
			e := image.Entry{Path: p, Type: image.TypeWhiteout}
			if p == "app/total.py" {
				e = image.Entry{Path: p, Type: image.TypeFile, Mode: 0o644}
			}
			var text io.Reader
			if e.Type == image.TypeFile {
				text = strings.NewReader(before)
			}
			if err := w.Add(e, text); err != nil {
				t.Fatal(err)
			}
		}
		id, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		return image.Image{Layers: []image.LayerID{low, id}}
	}
	var objects []string
	err = v.Walk(".", func(e image.Entry) error {
		if e.Type == image.TypeFile && strings.Contains(e.Path, ".git/objects/") {
			objects = append(objects, e.Path)
		}
		return nil
	})
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	images := []image.Image{over("app/total.py", "app/kept.py"), over("app/total.py"), over(append(objects, "app/total.py", "app/kept.py")...)}
	s := &Scanner{Store: st, Git: git, Cache: image.HostPath(t.TempDir()), Shared: func(id image.LayerID) bool { return id == low }}
	got, err := s.ScanMerged(t.Context(), images, []*Gold{gold(), gold(), gold()})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{".git/objects (blob "}, {"/app/kept.py holds", ".git/objects (blob "}, nil} {
		f := got[i].Findings
		if len(f) != len(want) {
			t.Errorf("%d: %v, want %q", i, f, want)
			continue
		}
		for k := range f {
			if !strings.Contains(f[k].String(), want[k]) || f[k].Git() != strings.Contains(want[k], "blob") {
				t.Errorf("%d: %v, want %q", i, f[k], want[k])
			}
		}
	}
}

// Without git, what stands in a repository is not claimed to be clean.
func TestScanWithoutGitSaysSo(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	st := store(t)
	id := tree(t, st, func(d string) { repository(t, d, true) })
	s := &Scanner{Store: st}
	got, err := s.Scan(t.Context(), image.Image{Layers: []image.LayerID{id}}, []*Gold{gold()})
	if err != nil || len(got[0].Findings) != 0 || !strings.Contains(strings.Join(got[0].Notes, "\n"), "there is no git") {
		t.Errorf("%+v, %v", got, err)
	}
}

// The objects' repository may name files of this machine and programs to run:
// only its objects are read.
func TestScanTakesNothingButObjects(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	outside := t.TempDir()
	repository(t, outside, false)
	mark := filepath.Join(t.TempDir(), "ran")
	st := store(t)
	id := tree(t, st, func(d string) {
		gitIn(t, d, "init", "-q")
		put(t, d+"/f", "x\n")
		gitIn(t, d, "add", ".")
		put(t, d+"/.git/objects/info/alternates", filepath.Join(outside, ".git/objects")+"\n")
		put(t, d+"/.git/config", "[core]\n\tfsmonitor = touch "+mark+"\n\tsshCommand = touch "+mark+"\n[extensions]\n\tpartialClone = x\n")
	})
	s := &Scanner{Store: st, Git: git}
	got, err := s.Scan(t.Context(), image.Image{Layers: []image.LayerID{id}}, []*Gold{gold()})
	if err != nil || len(got[0].Findings) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Lstat(mark); err == nil {
		t.Error("a program that the repository names ran")
	}
}

func TestSmall(t *testing.T) {
	if !NewGold([]string{"x = 1"}, nil).Small() || gold().Small() {
		t.Error("small is not told from large")
	}
	// Lines that stood there before are not the solution's.
	if g := NewGold([]string{"result = compute_everything(1)"}, []string{"    result = compute_everything(1)"}); len(g.lines) != 0 {
		t.Errorf("%v", g.lines)
	}
}

func TestScanStops(t *testing.T) {
	st := store(t)
	id := tree(t, st, func(d string) { put(t, d+"/x", solved) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Scanner{Store: st}).Scan(ctx, image.Image{Layers: []image.LayerID{id}}, []*Gold{gold()}); err == nil {
		t.Error("a cancelled scan gave a result")
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(solved))
	f.Add([]byte("PK\x03\x04"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &walk{golds: []*Gold{gold()}, out: make([]Result, 1)}
		if err := w.file("x", "", bytes.NewReader(b), 0); err != nil {
			t.Error(err)
		}
	})
}
