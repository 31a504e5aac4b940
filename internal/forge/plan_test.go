package forge

import (
	"path"
	"slices"
	"testing"

	"assay/internal/image"
)

// What a build writes is no test, whatever its name, and a directory that it
// writes to is not protected as a whole: the tests could not be built again.
func TestWhatABuildWritesIsNoTest(t *testing.T) {
	s := testStore(t)
	var tree []image.Entry
	made := map[string]bool{".": true}
	for _, p := range []string{
		"tests/a.c", "tests/data/in.json", "tests2/tests/b.c", "tests2/tests/b.o", "src/lib.c", "docs/tests/how-to.md",
		"build/CMakeCache.txt", "build/tests/Makefile", "target/CACHEDIR.TAG", "target/debug/tests/x",
		"node_modules/dep/tests/t.js", "java/target/maven-status/l", "java/target/tests/T.txt", "java/src/test/tests/T.java", "meson/meson-private/c.dat", "meson/tests/t.p/t.ninja",
	} {
		p = "app/" + p
		var above []string
		for d := path.Dir(p); !made[d]; d = path.Dir(d) {
			made[d], above = true, append(above, d)
		}
		slices.Reverse(above)
		for _, d := range above {
			tree = append(tree, image.Entry{Path: d, Type: image.TypeDir, Mode: 0o755})
		}
		tree = append(tree, image.Entry{Path: p, Type: image.TypeFile, Mode: 0o644})
	}
	v, err := s.View(healthyTree(t, s, tree...))
	if err != nil {
		t.Fatal(err)
	}
	got, err := testFiles(v, "/app", []string{"tests", "**/tests/**"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"docs/tests/how-to.md", "java/src/test/tests/T.java", "tests/a.c", "tests/data/in.json", "tests2/tests/b.c"}; !slices.Equal(got, want) {
		t.Errorf("test files are %q, not %q", got, want)
	}
	if got, want := protect(v, "/app", got, nil), []string{"docs", "java/src", "tests", "tests2/tests/b.c"}; !slices.Equal(got, want) {
		t.Errorf("protected are %q, not %q", got, want)
	}
}

// A budget takes tests that can be asked for before those for which the whole
// command would have to run, even if these cover the change.
func TestCutTakesWhatCanBeAskedFor(t *testing.T) {
	doc, unit := "cargo:doc[a] src/lib.rs - sum (line 5)", "cargo:src/lib.rs[a] tests::adds"
	both := map[string]bool{doc: true, unit: true}
	for seed := range uint64(8) {
		f := &forge{known: both, bound: map[string]bool{doc: true}}
		f.cfg.Seed = seed
		l := map[string][]string{"cargo": {doc[len("cargo:"):], unit[len("cargo:"):]}}
		if got := f.cut(l, 1, map[string]bool{doc: true}, nil); !got[unit] || got[doc] {
			t.Errorf("seed %d: %v", seed, got)
		}
	}
}
