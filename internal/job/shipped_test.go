package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
)

// An image that came with a set of tasks is read into an empty store, once, and
// only if it is the one that it was written as.
func TestImagesComeWithTasks(t *testing.T) {
	open := func() *image.Store {
		s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	const ref = "forge/tiny:0123456789abcdef"
	here := open()
	var layers []image.LayerID
	for _, entries := range [][]image.Entry{
		{{Path: "app", Type: image.TypeDir, Mode: 0o2755, UID: 7}, {Path: "app/a", Type: image.TypeFile, Mode: 0o4644, Xattrs: map[string]string{"user.x": "\x00"}},
			{Path: "app/b", Type: image.TypeFile, Mode: 0o600, Hardlink: "app/a"}, {Path: "app/l", Type: image.TypeSymlink, Link: "nowhere"}},
		{{Path: "app/a", Type: image.TypeWhiteout}, {Path: "app/new", Type: image.TypeDir, Mode: 0o700, Opaque: true}},
	} {
		w, err := here.NewLayer(t.Context(), layers...)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			e.ModTime = time.Unix(1_600_000_000, 0)
			if e.Type == image.TypeFile && e.Hardlink == "" {
				err = w.Add(e, strings.NewReader("text"))
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
		layers = append(layers, id)
	}
	im := image.New(ref, layers, nil, image.Config{Workdir: "/app", Env: []string{"A=b"}})
	if err := here.Put(im); err != nil {
		t.Fatal(err)
	}
	set := t.TempDir()
	dir := filepath.Join(set, ".forge", "images", ShippedName(ref))
	if err := Ship(t.Context(), here, im, image.HostPath(dir)); err != nil {
		t.Fatal(err)
	}
	find := func(s *image.Store) (image.Image, error) {
		m := &images{deps: Deps{Images: s, Resolve: func(_ context.Context, ref string) (image.Image, error) { return s.Resolve(ref) }}}
		return m.finder(environment{dir: filepath.Join(set, "task", "environment")})(t.Context(), ref)
	}
	there := open()
	for range 2 { // the second time out of the store
		got, err := find(there)
		if err != nil || !slices.Equal(got.Layers, layers) || got.Name != ref || got.Config.Workdir != "/app" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	needs := &survey{deps: SurveyDeps{Resolve: func(_ context.Context, ref string) (image.Image, error) { return open().Resolve(ref) }}}
	n := ImageNeed{Name: ref, context: filepath.Join(set, "task", "environment")}
	if needs.look(t.Context(), &n); n.State != ImageShipped {
		t.Errorf("survey: %+v", n)
	}
	if err := os.WriteFile(filepath.Join(dir, LayersFile), []byte(layers[1]+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := find(open()); err == nil || !strings.Contains(err.Error(), "not those that it was written with") {
		t.Errorf("an image of other layers: %v", err)
	}
	var missing *image.MissingError
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := find(open()); !errors.As(err, &missing) {
		t.Errorf("nothing came with the tasks: %v", err)
	}
}
