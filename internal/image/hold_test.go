package image_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/image"
)

// another opens a store a second time, as another process would.
func another(t testing.TB, s *image.Store) *image.Store {
	t.Helper()
	o, err := image.Open(s.Root(), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func collect(t testing.TB, s *image.Store) image.Collected {
	t.Helper()
	c, err := s.GC(t.Context(), image.GCOptions{Young: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// names lists a directory of the store.
func names(t testing.TB, s *image.Store, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(string(s.Root()), dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, d := range all {
		out = append(out, d.Name())
	}
	return out
}

// What a process made, found by name or in the cache, or asked to hold stays
// until it is done with it, whatever others collect.
func TestHolds(t *testing.T) {
	setup, collector := open(t), (*image.Store)(nil)
	made := tree{file("named", 0o644, "")}.commit(t, setup)
	step := tree{file("step", 0o644, "")}.commit(t, setup)
	asked := tree{file("asked", 0o644, "")}.commit(t, setup)
	if err := errors.Join(setup.Put(image.New("x", []image.LayerID{made}, nil, image.Config{})), setup.Cache("k", step)); err != nil {
		t.Fatal(err)
	}
	collector = another(t, setup)

	user := another(t, setup)
	if _, err := user.Resolve("x"); err != nil {
		t.Fatal(err)
	}
	if _, ok := user.Cached("k"); !ok {
		t.Fatal("the step is not cached")
	}
	if err := user.Hold(asked, asked); err != nil {
		t.Fatal(err)
	}
	equal := tree{file("step", 0o644, "")}.commit(t, user) // there already
	own := tree{file("own", 0o644, "")}.commit(t, user)
	setup.Close()
	if err := collector.Remove("x"); err != nil {
		t.Fatal(err)
	}
	if c := collect(t, collector); c.Layers != 0 {
		t.Errorf("%d layers were taken from a live process", c.Layers)
	}
	for _, id := range []image.LayerID{made, step, asked, equal, own} {
		if !collector.Has(id) {
			t.Errorf("layer %s is lost", id.Short())
		}
	}
	user.Close()
	if c := collect(t, collector); c.Layers != 4 {
		t.Errorf("%d of 4 layers were freed when nobody needs them", c.Layers)
	}
	if err := user.Hold(own); !errors.Is(err, image.ErrNoLayer) {
		t.Errorf("hold of a layer that is gone: %v", err)
	}
	if again := (tree{file("own", 0o644, "")}).commit(t, user); again != own || collect(t, collector).Layers != 0 {
		t.Error("a store that was closed does not hold what it makes after that")
	}
}

func TestTemporaryLayers(t *testing.T) {
	s := open(t)
	base := tree{file("a", 0o644, "a"), file("b", 0o644, "b")}.commit(t, s)
	one, two := s.Temporary(), s.Temporary()
	keepA := func(e image.Entry) (image.Entry, bool) { return e, e.Path != "b" }
	id, err := one.Filter(t.Context(), base, keepA)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := two.Filter(t.Context(), base, keepA); err != nil || same != id {
		t.Fatal(same, err)
	}
	v, err := s.View([]image.LayerID{base, id})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := v.ReadFile("a", 10); err != nil || string(b) != "a" || !s.Has(id) {
		t.Errorf("%q, %v", b, err)
	}
	other := another(t, s)
	if other.Has(id) {
		t.Error("another process sees a temporary layer")
	}
	for what, err := range map[string]error{
		"lease": s.Lease(image.HostPath(t.TempDir()), id),
		"name":  s.Put(image.New("x", []image.LayerID{id}, nil, image.Config{})),
	} {
		if !errors.Is(err, image.ErrNoLayer) {
			t.Errorf("%s of a temporary layer: %v", what, err)
		}
	}
	collect(t, other)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(s.Dir(id)) + "/a"); err != nil {
		t.Errorf("a layer that another use needs: %v", err)
	}

	// Made for good meanwhile, it stays for good.
	good := tree{file("a", 0o644, "a")}.commit(t, s)
	if good != id {
		t.Fatalf("%s and %s", good, id)
	}
	two.Close()
	two.Close()
	if left := names(t, s, "tmp"); len(left) > 0 {
		t.Errorf("tmp holds %v", left)
	}
	if _, err := os.Stat(string(s.Dir(id)) + "/a"); err != nil || !other.Has(id) {
		t.Errorf("a layer of the store went with a temporary one: %v", err)
	}
	three := s.Temporary()
	if _, err := three.Filter(t.Context(), base, keepA); err != nil {
		t.Fatal(err)
	}
	three.Close()
	if !s.Has(id) {
		t.Error("a layer of the store went with a temporary use of it")
	}
}

// Open removes what dead processes left, and nothing of live ones.
func TestOpenTidiesUp(t *testing.T) {
	s := open(t)
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	id := tree{file("x", 0o644, "")}.commit(t, s)
	p, err := s.Partial(t.Context(), "sha256:"+strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	secret, err := s.PrivateInMemory()
	if err != nil {
		t.Skip(err)
	}
	defer secret.Close()
	live := map[string][]string{}
	for _, d := range []string{"tmp", "holds", "partial"} {
		live[d] = names(t, s, d)
	}
	dead := []string{"tmp/dead/fs/ro", "trash/some/thing", "tmp/unlocked"}
	for _, d := range dead {
		if err := os.MkdirAll(filepath.Join(string(s.Root()), d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"tmp/dead.lock", "tmp/alone.lock", "holds/dead", "tmp/unlocked/f"} {
		if err := os.WriteFile(filepath.Join(string(s.Root()), f), []byte(id), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(filepath.Join(string(s.Root()), "tmp/dead/fs/ro"), 0o500)
	forgotten, err := os.MkdirTemp(filepath.Dir(string(secret.Path("."))), "assay-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(forgotten+"/secret", []byte("s"), 0o400); err != nil {
		t.Fatal(err)
	}

	another(t, s)
	for d, want := range live {
		if got := names(t, s, d); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s holds %v, want %v", d, got, want)
		}
	}
	if left := names(t, s, "trash"); len(left) > 0 {
		t.Errorf("trash holds %v", left)
	}
	if _, err := os.Lstat(forgotten); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a secret that nobody needs lies about: %v", err)
	}
	if _, err := os.Lstat(string(secret.Path("."))); err != nil {
		t.Errorf("a secret that is needed is gone: %v", err)
	}
	if err := w.Add(image.Entry{Path: "y", Type: image.TypeFile}, nil); err != nil {
		t.Error(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Errorf("the live writer lost its layer: %v", err)
	}
}

// A job directory that is moved keeps its end states; one that is removed, at
// the old place or the new one, does not.
func TestMovedJobsKeepTheirLayers(t *testing.T) {
	s := open(t)
	jobs := filepath.Join(filepath.Dir(string(s.Root())), "jobs") // on the same file system
	a, b := filepath.Join(jobs, "a"), filepath.Join(jobs, "deep", "b")
	for _, d := range []string{a, filepath.Dir(b)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	one, two := tree{file("1", 0o644, "")}.commit(t, s), tree{file("2", 0o644, "")}.commit(t, s)
	three := tree{file("3", 0o644, "")}.commit(t, s)
	if err := errors.Join(s.Lease(image.HostPath(a), one), s.Lease(image.HostPath(a), two), os.Rename(a, b), s.Lease(image.HostPath(b), three)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	has := func() (n int) {
		for _, id := range []image.LayerID{one, two, three} {
			if s.Has(id) {
				n++
			}
		}
		return n
	}
	collect(t, s)
	if has() != 3 {
		t.Errorf("%d of 3 layers are left after the job was moved", has())
	}
	if err := os.Rename(b, a); err != nil {
		t.Fatal(err)
	}
	collect(t, s)
	if has() != 3 {
		t.Errorf("%d of 3 layers are left after the job was moved back", has())
	}
	// What ties the job to its lease comes again when it was lost.
	ties, err := filepath.Glob(filepath.Join(a, ".lease-*"))
	if err != nil || len(ties) != 2 {
		t.Fatalf("%v, %v", ties, err)
	}
	for _, p := range ties {
		if err := errors.Join(os.Remove(p), os.WriteFile(p, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Lease(image.HostPath(a), one, two, three), os.Rename(a, b)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	collect(t, s)
	if has() != 3 {
		t.Errorf("%d of 3 layers are left after the job was moved again", has())
	}
	if err := os.RemoveAll(b); err != nil {
		t.Fatal(err)
	}
	if c := collect(t, s); c.Leases != 2 || has() != 0 {
		t.Errorf("%d leases and %d layers of a removed job: want 2 gone, none left", c.Leases, has())
	}
}
