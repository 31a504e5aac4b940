package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"assay/internal/image"
)

func TestGCByReachability(t *testing.T) {
	s := open(t)
	layer := func(text string) image.LayerID {
		return tree{file(text, 0o644, text), dir("ro", 0o555), file("ro/x", 0o444, text)}.commit(t, s)
	}
	named, leased, released, orphan, gone, cached := layer("named"), layer("leased"), layer("released"), layer("orphan"), layer("gone"), layer("cached")
	if err := s.Put(image.New("keep", []image.LayerID{named}, nil, image.Config{})); err != nil {
		t.Fatal(err)
	}
	jobs := t.TempDir()
	job := func(n string) image.HostPath {
		p := filepath.Join(jobs, n)
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
		return image.HostPath(p)
	}
	a, b, c := job("a"), job("b"), job("c")
	for j, id := range map[image.HostPath]image.LayerID{a: leased, b: released, c: gone} {
		if err := s.Lease(j, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cache("step", cached); err != nil {
		t.Fatal(err)
	}
	if got, ok := s.Cached("step"); !ok || got != cached {
		t.Errorf("%s, %v", got, ok)
	}
	if err := s.Release(b); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(b); err != nil {
		t.Errorf("released twice: %v", err)
	}
	os.RemoveAll(string(c))

	if got, err := s.GC(t.Context(), image.GCOptions{Young: -1}); err != nil || got.Layers != 0 {
		t.Errorf("layers that a live process holds were taken: %+v, %v", got, err)
	}
	s.Close()
	if got, err := s.GC(t.Context(), image.GCOptions{DryRun: true}); err != nil || got.Layers != 3 {
		t.Errorf("dry run that spares the build step: %+v, %v", got, err)
	}
	got, err := s.GC(t.Context(), image.GCOptions{Young: -1, DryRun: true})
	if err != nil || got.Layers != 4 || !s.Has(orphan) {
		t.Errorf("dry run: %+v, %v", got, err)
	}
	if got, err = s.GC(t.Context(), image.GCOptions{Young: -1}); err != nil || got.Layers != 4 || got.Bytes == 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for id, want := range map[image.LayerID]bool{named: true, leased: true, released: false, orphan: false, gone: false, cached: false} {
		if s.Has(id) != want {
			t.Errorf("layer %s is there: %v", id.Short(), !want)
		}
	}
	if _, ok := s.Cached("step"); ok {
		t.Error("a cached step outlived its layer")
	}
	for _, d := range []string{"trash", "tmp", "cache"} {
		if left, err := os.ReadDir(filepath.Join(string(s.Root()), d)); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", d, left, err)
		}
	}
	if err := s.Lease(a, orphan); !errors.Is(err, image.ErrNoLayer) {
		t.Errorf("lease of a layer that is gone: %v", err)
	}
	if err := s.Remove("keep"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if got, err := s.GC(t.Context(), image.GCOptions{Young: -1}); err != nil || got.Layers != 1 || s.Has(named) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTornLease(t *testing.T) {
	s := open(t)
	one, two := tree{file("1", 0o644, "")}.commit(t, s), tree{file("2", 0o644, "")}.commit(t, s)
	job := image.HostPath(t.TempDir())
	if err := s.Lease(job, one); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(string(s.Root()), "leases", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"job":"x","layers":["sha25`)
	f.Close()
	if err := s.Lease(job, two); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := s.GC(t.Context(), image.GCOptions{Young: -1}); err != nil || !s.Has(one) || !s.Has(two) {
		t.Errorf("one %v, two %v, %v", s.Has(one), s.Has(two), err)
	}
}

// What a killed process leaves in tmp goes, what a live one builds stays.
func TestGCSparesWriters(t *testing.T) {
	s := open(t)
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Add(image.Entry{Path: "x", Type: image.TypeFile}, nil); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(string(s.Root()), "tmp", "dead")
	if err := os.MkdirAll(filepath.Join(dead, "fs", "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(dead+".lock", nil, 0o600)
	old := filepath.Join(string(s.Root()), "tmp", "old.lock")
	os.WriteFile(old, nil, 0o600)
	if _, err := s.GC(t.Context(), image.GCOptions{Young: -1}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dead, dead + ".lock", old} {
		if _, err := os.Lstat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
	id, err := w.Commit()
	if err != nil || !s.Has(id) {
		t.Errorf("the writer lost its layer: %v", err)
	}
}

func TestConcurrentEqualCommitsAndGC(t *testing.T) {
	s := open(t)
	job := image.HostPath(t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				w, err := s.NewLayer(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if err := w.Add(image.Entry{Path: "d/x", Type: image.TypeFile}, nil); err != nil {
					t.Error(err)
				}
				id, err := w.Commit()
				if err != nil {
					t.Error(err)
				}
				if err := s.Lease(job, id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if _, err := s.GC(t.Context(), image.GCOptions{Young: -1}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if left, err := filepath.Glob(filepath.Join(string(s.Root()), "layers", "*")); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestResolveAndNames(t *testing.T) {
	s := open(t)
	id := tree{file("x", 0o644, "")}.commit(t, s)
	im := image.New("docker.io/library/python:3.12", []image.LayerID{id}, nil, image.Config{Env: []string{"A=b"}})
	if err := s.Put(im); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(image.New("my/app", []image.LayerID{id}, nil, image.Config{User: "u"})); err != nil {
		t.Fatal(err)
	}
	hex := string(im.ID)[len("sha256:"):]
	for _, ref := range []string{"python:3.12", "library/python:3.12", "docker.io/python:3.12", im.Name, string(im.ID), hex[:12]} {
		if got, err := s.Resolve(ref); err != nil || got.ID != im.ID {
			t.Errorf("%s: %v, %v", ref, got.Name, err)
		}
	}
	if got, err := s.Resolve("my/app:latest"); err != nil || got.Name != "my/app" || got.ID == im.ID {
		t.Errorf("%v, %v", got, err)
	}
	for _, ref := range []string{"python", "python:3.13", "other/python:3.12", hex[:11], "", "../images/x", "a b", "host"} {
		var missing *image.MissingError
		if _, err := s.Resolve(ref); !errors.As(err, &missing) || missing.Ref != ref {
			t.Errorf("%q: %v", ref, err)
		}
	}
	if l, err := s.List(); err != nil || len(l) != 2 || l[0].Name != im.Name {
		t.Errorf("%v, %v", l, err)
	}
	if err := s.Put(image.New("bad\nname", nil, nil, image.Config{})); err == nil {
		t.Error("a name with a newline")
	}
	if err := s.Put(image.New("x", []image.LayerID{"sha256:12"}, nil, image.Config{})); !errors.Is(err, image.ErrNoLayer) {
		t.Errorf("%v", err)
	}
	if err := s.Remove("python:3.12"); err != nil {
		t.Error(err)
	}
	var missing *image.MissingError
	if err := s.Remove("python:3.12"); !errors.As(err, &missing) {
		t.Errorf("removed twice: %v", err)
	}
}
