package invert

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/forge"
	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox/ns"
)

// What operators yield on real environments: for each, the sites, and of some
// of them how many bite. ASSAY_YIELD names directories with an
// environment.json, ASSAY_YIELD_STORE the store with their images,
// ASSAY_OPERATORS a glob, ASSAY_YIELD_SITES how many sites of each are tried.
func TestYield(t *testing.T) {
	dirs := filepath.SplitList(os.Getenv("ASSAY_YIELD"))
	if len(dirs) == 0 {
		t.Skip("ASSAY_YIELD names no environments")
	}
	which, n := os.Getenv("ASSAY_OPERATORS"), 2
	if v := os.Getenv("ASSAY_YIELD_SITES"); v != "" {
		if _, err := fmt.Sscan(v, &n); err != nil {
			t.Fatal(err)
		}
	}
	images, err := image.Open(image.HostPath(os.Getenv("ASSAY_YIELD_STORE")), image.Options{Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	backend, err := ns.Open(t.Context(), ns.Config{Store: images, Scratch: image.HostPath(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	for _, dir := range dirs {
		env, err := repo.ReadEnvironment(dir)
		if err != nil {
			t.Fatal(err)
		}
		img, err := images.Resolve(env.Image)
		if err != nil {
			t.Fatal(err)
		}
		view, err := images.View(img.Layers)
		if err != nil {
			t.Fatal(err)
		}
		w := &forge.World{Env: env, Tree: view, Images: images, Backend: backend, Seed: 1, Say: t.Logf}
		g := NewGround(view, env)
		for _, o := range All() {
			if ok, _ := path.Match(which, o.Name); which != "" && !ok {
				continue
			}
			if sites := o.Sites(g); len(sites) > 0 {
				t.Log(yield(t, w, g, o, sites, n))
			}
		}
	}
}

func yield(t *testing.T, w *forge.World, g *Ground, o Operator, sites []Site, n int) string {
	bit, tried := 0, 0
	var mute []string
	for _, s := range some(sites, n) {
		f, err := o.Apply(g, s, chance(o, s))
		if err != nil {
			t.Errorf("%s %s: %v", o.Name, s, err)
			continue
		}
		b, err := Suite(t.Context(), w, f.Delta)
		if err != nil {
			t.Errorf("%s %s: %v", o.Name, s, err)
			continue
		}
		tried++
		if len(b.Failed) > 0 {
			bit++
		} else {
			mute = append(mute, s.String())
		}
	}
	return fmt.Sprintf("%-14s %3d %-26s sites %3d tried %d bitten %d  %s", w.Env.Name, o.Number, o.Name, len(sites), tried, bit, strings.Join(mute, "; "))
}
