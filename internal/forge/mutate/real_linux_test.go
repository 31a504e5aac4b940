package mutate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/forge"
	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox/ns"
)

func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestReal proposes for a repository that was made ready, decides with its own
// suite, and prints the bugs with the statements that their tests lead to, to
// be judged by people: ASSAY_MUTATE_ENV=DIR (with environment.json),
// ASSAY_MUTATE_STORE=DIR [ASSAY_MUTATE_N=30] [ASSAY_MUTATE_SEED=1].
func TestReal(t *testing.T) {
	dir, store := os.Getenv("ASSAY_MUTATE_ENV"), os.Getenv("ASSAY_MUTATE_STORE")
	if dir == "" || store == "" {
		t.Skip("ASSAY_MUTATE_ENV and ASSAY_MUTATE_STORE name no repository that was made ready")
	}
	n, _ := strconv.Atoi(os.Getenv("ASSAY_MUTATE_N"))
	if n == 0 {
		n = 30
	}
	seed, _ := strconv.ParseUint(os.Getenv("ASSAY_MUTATE_SEED"), 10, 64)
	env, err := repo.ReadEnvironment(dir)
	if err != nil {
		t.Fatal(err)
	}
	images, err := image.Open(image.HostPath(store), image.Options{Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	scratch := t.TempDir()
	if err := os.Chmod(filepath.Dir(scratch), 0o755); err != nil {
		t.Fatal(err)
	}
	backend, err := ns.Open(t.Context(), ns.Config{Store: images, Scratch: image.HostPath(scratch)})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	view, err := images.View(env.Layers)
	if err != nil {
		t.Fatal(err)
	}
	w := &forge.World{Env: env, Tree: view, Images: images, Backend: backend, Seed: seed, Say: t.Logf}
	g := New(Config{Parser: grammarsOf(t), Decide: Decided(2)})
	enough := errors.New("enough")
	i := 0
	err = g.Propose(t.Context(), w, func(c forge.Candidate) error {
		i++
		fmt.Printf("== %d %s, %d tests fail, in %s\n", i, strings.Join(c.Operators, "+"), len(c.Expect)+len(c.Covering), c.Notes["functions"])
		for _, e := range c.Broken {
			old, err := view.ReadFile(e.Path, maxSource)
			if err != nil {
				return err
			}
			fmt.Println(udiff.Unified(e.Path, e.Path, string(old), string(e.Data)))
		}
		seen := forge.Seen{}
		for _, id := range slices.Concat(c.Expect, c.Covering) {
			seen.Failed = append(seen.Failed, forge.Failure{ID: id, Status: "failed"})
		}
		s := g.Describe(w, c, seen)
		fmt.Printf("-- %s\n%s\n", s.Title, strings.Join(s.Hints, "\n"))
		if i == n {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		t.Fatal(err)
	}
}
