package mutate

import (
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/forge"
	"assay/internal/repo"
	"assay/internal/syntax"
	"assay/internal/syntax/syntaxtest"
)

func grammarsOf(t testing.TB, langs ...syntax.Language) *syntax.Parser {
	return syntaxtest.Parser(t, os.Getenv("ASSAY_GRAMMARS"), os.Getenv("npm_config_registry"), langs...)
}

// directory gives a directory's sources as a view's would be.
func directory(dir string) iter.Seq2[string, []byte] {
	w := &forge.World{Env: &repo.Environment{Workdir: "/app"}}
	return func(yield func(string, []byte) bool) {
		filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(dir, p)
			if _, ok := syntax.ByPath(rel); err != nil || d.IsDir() || !ok || !own(rel) || isTest(w, rel) {
				return err
			}
			src, err := os.ReadFile(p)
			if err == nil && !generated(src) && !yield(rel, src) {
				return fs.SkipAll
			}
			return err
		})
	}
}

// TestShow prints the first proposals for a directory, to be judged by people:
// ASSAY_MUTATE_SHOW=DIR [ASSAY_MUTATE_N=30] [ASSAY_MUTATE_SEED=1].
func TestShow(t *testing.T) {
	dir := os.Getenv("ASSAY_MUTATE_SHOW")
	if dir == "" {
		t.Skip("ASSAY_MUTATE_SHOW names no directory")
	}
	n, _ := strconv.Atoi(os.Getenv("ASSAY_MUTATE_N"))
	if n == 0 {
		n = 30
	}
	seed, _ := strconv.ParseUint(os.Getenv("ASSAY_MUTATE_SEED"), 10, 64)
	g := New(Config{Parser: grammarsOf(t)})
	files := map[string]string{}
	for name, src := range directory(dir) {
		files[name] = string(src)
	}
	by, i := map[string]int{}, -1
	for p, err := range g.draw(t.Context(), directory(dir), seed, t.Logf) {
		if err != nil {
			t.Fatal(err)
		}
		i++
		for _, o := range p.Operators {
			by[o]++
		}
		if i >= n {
			continue
		}
		fmt.Printf("== %d %s in %s\n", i+1, strings.Join(p.Operators, "+"), strings.Join(p.Functions, " "))
		for name, b := range p.Files {
			d := udiff.Unified(name, name, files[name], string(b))
			fmt.Println(d)
		}
	}
	fmt.Println(i+1, "proposals", by)
}
