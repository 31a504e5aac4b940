package invert

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/forge"
	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// world makes an environment of a patient, its suite run for real.
func (p *patient) world(t *testing.T, c checks.Command) *forge.World {
	t.Helper()
	img := image.New("forge/"+p.name+":test", p.image.Layers, p.image.Binds, p.image.Config)
	if err := p.bed.images.Put(img); err != nil {
		t.Fatal(err)
	}
	s, err := repo.RunSuite(t.Context(), repo.SuiteConfig{Backend: p.bed.backend, Image: img, Workdir: p.env.Workdir, Runs: 1,
		Commands: []repo.Command{{Command: c}}, NoCoverage: true, NoVariants: true})
	if err != nil {
		t.Fatal(err)
	}
	env := *p.env
	files := env.Suite.TestFiles
	env.Image, env.Suite = img.Name, s
	env.Suite.TestFiles = files
	return &forge.World{Env: &env, Tree: p.view, Images: p.bed.images, Backend: p.bed.backend, Seed: 7, Say: t.Logf}
}

var errEnough = errors.New("enough")

// What the generator proposes bites, several faults at once are faults that
// bite alone and fit together, chains are nested, and equal worlds give equal
// candidates.
func TestGenerator(t *testing.T) {
	p, err := admitPatient(t, "testdata/python.txtar")
	if err != nil {
		t.Skip(err)
	}
	w := p.world(t, checks.Command{Name: "unit", Report: report.Junit, Files: []string{"/tmp/unit.xml"},
		Run: ". /etc/profile; cd /app; python3 -m pytest -q -p no:cacheprovider --junitxml=/tmp/unit.xml"})
	if len(w.Env.Suite.Tests) < 10 {
		t.Fatalf("the suite has %d tests", len(w.Env.Suite.Tests))
	}
	known := map[string]Bite{}
	x := &Generator{Probe: func(ctx context.Context, w *forge.World, d forge.Delta) (Bite, error) {
		b, ok := known[digest(d)]
		if !ok {
			var err error
			if b, err = Suite(ctx, w, d); err != nil {
				return b, err
			}
			known[digest(d)] = b
		}
		return b, nil
	}}
	draw := func() (all []forge.Candidate) {
		err := x.Propose(t.Context(), w, func(c forge.Candidate) error {
			if all = append(all, c); len(all) == 14 {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatalf("%d candidates: %v", len(all), err)
		}
		return all
	}
	first := draw()
	ran := len(known)
	if second := draw(); len(known) != ran || encode(t, first) != encode(t, second) {
		t.Error("equal worlds gave other candidates")
	}
	shapes := map[string]int{}
	for _, c := range first {
		shapes[c.Notes["shape"]]++
		n, _ := strconv.Atoi(c.Notes["faults"])
		if n != len(c.Operators) || n > 1 == (c.Notes["shape"] == "single") || len(c.Expect) == 0 || len(c.Statement.Hints) != 2 {
			t.Errorf("%s: %d faults by %q, shape %s, %d tests expected to fail, hints %q", c.Name, n, c.Operators, c.Notes["shape"], len(c.Expect), c.Statement.Hints)
		}
		if err := c.Broken.Check(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		for _, o := range c.Operators {
			if strings.Contains(strings.Join(c.Statement.Hints, " "), o) {
				t.Errorf("a hint names %s: %q", o, c.Statement.Hints)
			}
		}
	}
	t.Log(shapes, ran, "runs")
	if shapes["single"] < 4 || shapes["single"] == len(first) {
		t.Errorf("shapes: %v", shapes)
	}
	// What was foretold of several at once is what happens. Below /usr this
	// machine's own files are mounted, so nothing there can be changed.
	i := slices.IndexFunc(first, func(c forge.Candidate) bool {
		return c.Notes["shape"] != "single" && !slices.ContainsFunc(c.Broken, func(e forge.Edit) bool { return strings.HasPrefix(e.Path, "/usr/") })
	})
	if i < 0 {
		t.Fatal("no combination is outside /usr")
	}
	got, err := Suite(t.Context(), w, first[i].Broken)
	if err != nil || !slices.Equal(got.Failed, first[i].Expect) {
		t.Errorf("%q together fail %q, not %q: %v", first[i].Operators, got.Failed, first[i].Expect, err)
	}
	// What the admission has to be able to do with it.
	back, err := forge.Invert(first[i].Broken, w.Tree)
	if err != nil {
		t.Fatal(err)
	}
	box, err := p.bed.backend.Create(t.Context(), sandbox.Spec{Image: p.image})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for _, d := range []forge.Delta{first[i].Broken, back} {
		if err := forge.Replay(t.Context(), box, d, w.Tree); err != nil {
			t.Fatal(err)
		}
	}
	if ok, says, err := p.suite(t.Context(), box); err != nil || !ok {
		t.Errorf("broken and mended in place, the suite fails: %v\n%s", err, says)
	}
}

func encode(t *testing.T, cs []forge.Candidate) string {
	t.Helper()
	b, err := json.Marshal(cs)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Families are drawn by their shares, whatever the number of their operators.
func TestShares(t *testing.T) {
	var ops []Operator
	for family, n := range map[Family]int{Config: 1, Dependency: 9, FileState: 30, Session: 2, Exotic: 20} {
		for i := range n {
			ops = append(ops, Operator{Name: string(family) + strconv.Itoa(i), Family: family, Realism: 1 + i%5})
		}
	}
	slices.SortFunc(ops, func(a, b Operator) int { return strings.Compare(a.Name, b.Name) })
	d := &draft{rng: rand.New(rand.NewPCG(3, 3))}
	for _, o := range ops {
		d.pool = append(d.pool, pool{op: o})
	}
	count := map[Family]float64{}
	for range 20_000 {
		count[d.pool[d.choose()].op.Family] += 100.0 / 20_000
	}
	for f := range maps.Keys(count) {
		if diff := count[f] - f.Share(); diff > 1.5 || diff < -1.5 {
			t.Errorf("%s: %.1f %% of the draws, not %.0f", f, count[f], f.Share())
		}
	}
}
