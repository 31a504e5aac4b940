package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/image"
)

// Every kind of damage is found, and a whole store has none.
func TestVerify(t *testing.T) {
	look := func(t *testing.T, s *image.Store, data bool) image.Verified {
		t.Helper()
		v, err := s.Verify(t.Context(), image.VerifyOptions{ReadData: data})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		name   string
		damage func(fs, layer string) error
		want   string // in kind, detail and remedy; empty: no problem
		data   bool   // only found when data is read
	}{
		{"none", func(string, string) error { return nil }, "", false},
		{"a layer is gone", func(_, layer string) error { return os.RemoveAll(layer) }, "image x: layer", false},
		{"a layer of a job is gone", func(_, layer string) error { return os.RemoveAll(layer) }, "is missing; its end states", false},
		{"no manifest", func(_, layer string) error { return os.Remove(layer + "/manifest.json") }, "layer sha256:", false},
		{"another manifest", func(_, layer string) error {
			return errors.Join(os.Remove(layer+"/manifest.json"), os.WriteFile(layer+"/manifest.json", []byte("{}"), 0o644))
		}, "not the one that it is named after; remove what needs it (x", false},
		{"no tree", func(fs, _ string) error { return os.RemoveAll(fs) }, "layer sha256:", false},
		{"other content", func(fs, _ string) error { return os.WriteFile(fs+"/d/f", []byte("other"), 0) }, `"d/f": its content`, true},
		{"longer content", func(fs, _ string) error { return os.WriteFile(fs+"/d/f", []byte("hello and more"), 0) }, `"d/f": its content`, true},
		{"other mode", func(fs, _ string) error { return os.Chmod(fs+"/d/f", 0o755) }, `"d/f": its mode`, true},
		{"a name too few", func(fs, _ string) error { return os.Remove(fs + "/d/f") }, `"d/f":`, true},
		{"a name too many", func(fs, _ string) error { return os.WriteFile(fs+"/d/new", nil, 0o644) }, `"d/new" is on disk`, true},
		{"another link", func(fs, _ string) error { return errors.Join(os.Remove(fs+"/l"), os.Symlink("/", fs+"/l")) }, `"l": it leads to "/"`, true},
		{"a link for a file", func(fs, _ string) error {
			return errors.Join(os.Remove(fs+"/d/f"), os.Symlink("/etc/passwd", fs+"/d/f"))
		}, `"d/f": it is of type`, true},
		{"a hard link broken up", func(fs, _ string) error {
			return errors.Join(os.Remove(fs+"/h"), os.WriteFile(fs+"/h", []byte("hello"), 0o644))
		}, `"h": it is no hard link`, true},
		{"a deletion undone", func(fs, _ string) error {
			return errors.Join(os.Remove(fs+"/w"), os.WriteFile(fs+"/w", []byte("x"), 0o644))
		}, `"w": a`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			id := tree{file("d/f", 0o644, "hello"), link("l", "d/f"), whiteout("w"), dir("e", 0o700),
				entry(image.Entry{Path: "h", Type: image.TypeFile, Mode: 0o644, Hardlink: "d/f"}),
				entry(image.Entry{Path: "p", Type: image.TypeFIFO, Mode: 0o600}), entry(image.Entry{Path: "s", Type: image.TypeSocket, Mode: 0o600})}.commit(t, s)
			if err := errors.Join(s.Put(image.New("x", []image.LayerID{id}, nil, image.Config{})), s.Lease(image.HostPath(t.TempDir()), id)); err != nil {
				t.Fatal(err)
			}
			layer := filepath.Dir(string(s.Dir(id)))
			if err := c.damage(layer+"/fs", layer); err != nil {
				t.Fatal(err)
			}
			v := look(t, s, true)
			if v.Images != 1 || v.Jobs != 1 {
				t.Errorf("%+v", v)
			}
			var all []string
			for _, p := range v.Problems {
				all = append(all, p.Kind+" "+p.Name+": "+p.Detail+"; "+p.Remedy)
			}
			if got := strings.Join(all, "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if n := len(look(t, s, false).Problems); (n > 0) != (c.want != "" && !c.data) {
				t.Errorf("%d problems without the data", n)
			}
		})
	}
	t.Run("a torn image file", func(t *testing.T) {
		s := open(t)
		if err := os.WriteFile(filepath.Join(string(s.Root()), "images", "x.json"), []byte(`{"name":`), 0o600); err != nil {
			t.Fatal(err)
		}
		if v := look(t, s, false); len(v.Problems) != 1 || v.Problems[0].Kind != "image" {
			t.Errorf("%+v", v)
		}
	})
}
