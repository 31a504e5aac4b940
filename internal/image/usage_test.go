package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/image"

	"github.com/google/go-cmp/cmp"
)

func TestUsage(t *testing.T) {
	s := open(t)
	layer := func(name string, size int) image.LayerID {
		return tree{file(name, 0o644, string(make([]byte, size))), entry(image.Entry{Path: "hard", Type: image.TypeFile, Mode: 0o644, Hardlink: name})}.commit(t, s)
	}
	base, one, two := layer("base", 1000), layer("one", 200), layer("two", 30)
	end, step, running := layer("end", 4), layer("step", 5), layer("running", 7)
	layer("unneeded", 6)
	job := t.TempDir()
	if err := errors.Join(s.Put(image.New("a", []image.LayerID{base, one}, nil, image.Config{})),
		s.Put(image.New("b", []image.LayerID{base, two, base}, nil, image.Config{})),
		s.Put(image.New("b:alias", []image.LayerID{base, two}, nil, image.Config{})),
		s.Lease(image.HostPath(job), base, end), s.Cache("k", step), s.Cache("same", step), s.Cache("empty", "")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.Hold(running, base); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(string(s.Root()), "trash", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(s.Root()), "trash", "x", "f"), make([]byte, 10_000), 0o644); err != nil {
		t.Fatal(err)
	}
	u, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u.Trash < 8192 || u.Unfinished+u.Partial+u.CacheMounts != 0 {
		t.Errorf("trash %d, unfinished %d, partial %d, mounts %d", u.Trash, u.Unfinished, u.Partial, u.CacheMounts)
	}
	u.Trash = 0
	for i := range u.Images {
		u.Images[i].ID = ""
	}
	want := image.Usage{
		Images: []image.ImageUsage{
			{Name: "a", Layers: 2, Bytes: 1200, Unique: 200, SharedWith: []string{"b", "b:alias"}},
			{Name: "b", Layers: 3, Bytes: 1030, SharedWith: []string{"a", "b:alias"}},
			{Name: "b:alias", Layers: 2, Bytes: 1030, SharedWith: []string{"a", "b"}},
		},
		Jobs:  []image.JobUsage{{Dir: job, Layers: 1, Bytes: 4}},
		Total: image.Share{Layers: 7, Bytes: 1252}, Named: image.Share{Layers: 3, Bytes: 1230}, EndStates: image.Share{Layers: 1, Bytes: 4},
		Running: image.Share{Layers: 1, Bytes: 7}, BuildCache: image.Share{Layers: 1, Bytes: 5}, Unneeded: image.Share{Layers: 1, Bytes: 6},
	}
	if d := cmp.Diff(want, u); d != "" {
		t.Error(d)
	}
}
