package invert

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// some are sites to try: spread over all of them, at most n.
func some(sites []Site, n int) []Site {
	if len(sites) <= n {
		return sites
	}
	var out []Site
	for i := range n {
		out = append(out, sites[i*len(sites)/n])
	}
	return out
}

// slow reports a patient whose toolchain takes long: its archive's comment has
// a line "slow".
func slow(t *testing.T, file string) bool {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(strings.Split(string(a.Comment), "\n"), "slow")
}

// ward are the patients of a run, each found healthy.
type ward struct {
	patients map[string]*patient
	grounds  map[string]*Ground
	absent   []string // those that this machine cannot have
}

func openWard(t *testing.T, quick bool) ward {
	w := ward{map[string]*patient{}, map[string]*Ground{}, nil}
	for _, f := range names(t) {
		if quick && slow(t, f) {
			continue
		}
		p, err := admitPatient(t, f)
		if err != nil {
			t.Logf("%s is left out: %v", f, err)
			w.absent = append(w.absent, strings.TrimSuffix(path.Base(f), ".txtar"))
			continue
		}
		box, err := p.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ok, says, err := p.suite(t.Context(), box)
		box.Close()
		if err != nil || !ok {
			t.Fatalf("%s is not healthy: %v\n%s", p.name, err, says)
		}
		w.patients[p.name], w.grounds[p.name] = p, NewGround(p.view, p.env)
	}
	return w
}

// round is the order in which an operator visits patients: those that have
// most of its kind of fault first, so that one that bites is found soon.
func (w ward) round(o Operator) []string {
	all := sorted(w.patients)
	first, _, _ := strings.Cut(o.Name, "-")
	slices.SortStableFunc(all, func(a, b string) int { return rank(b, first, o) - rank(a, first, o) })
	return all
}

func rank(patient, first string, o Operator) int {
	switch patient {
	case first:
		return 2
	case string(o.Ecosystem), string(o.Family):
		return 1
	}
	return 0
}

// Every operator bites on a real toolchain, and its inverse is exact. With
// ASSAY_OPERATORS=all all of them are tried, else a few drawn by a fixed seed;
// with a glob of names those. Faults that a tool does not notice are reported
// as masked, with the reason that the operator gives; an operator that no
// patient has a place for is an error, reason or not.
// ASSAY_OPERATORS_SHARD=I/N takes each Nth operator, from the Ith on, 0 to N-1.
func TestOperators(t *testing.T) {
	begun := time.Now()
	list, sites, which := All(), 6, os.Getenv("ASSAY_OPERATORS")
	w := openWard(t, which == "")
	if which == "" {
		sites = 2
		list = subset(slices.DeleteFunc(list, func(o Operator) bool {
			return !slices.ContainsFunc(sorted(w.grounds), func(n string) bool { return len(o.Sites(w.grounds[n])) > 0 })
		}), 8)
	} else if which != "all" {
		list = slices.DeleteFunc(list, func(o Operator) bool { ok, _ := path.Match(which, o.Name); return !ok })
	}
	list = shard(t, list, os.Getenv("ASSAY_OPERATORS_SHARD"))
	rows, slots := make([]verdict, len(list)), make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i, o := range list {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			rows[i] = verdict{Operator: o}
			for _, n := range w.round(o) {
				if rows[i].bit {
					break
				}
				rows[i].tryAll(t, w.patients[n], w.grounds[n], sites)
			}
			rows[i].report(t, w.absent)
		})
	}
	wg.Wait()
	t.Log(summary(rows, w.absent, time.Since(begun)))
}

// report says what became of an operator. Where patients are missing on this
// machine, having no place among the others is no error.
func (v verdict) report(t *testing.T, absent []string) {
	t.Log(v)
	switch {
	case v.bit:
	case v.sites == 0 && len(absent) == 0:
		t.Errorf("%s: no patient has a place for it", v.Name)
	case v.sites > 0 && v.Masked == "" && len(absent) == 0:
		t.Errorf("%s: no site bites and the operator gives no reason: %s", v.Name, v)
	}
}

// summary counts operators, and rows of the catalogue.
func summary(rows []verdict, absent []string, took time.Duration) string {
	bite, masked, none, tried := 0, 0, 0, 0
	numbers := map[int]bool{}
	for _, v := range rows {
		tried += v.tried
		switch {
		case v.bit:
			bite++
			numbers[v.Number] = true
		case v.sites == 0:
			none++
		default:
			masked++
		}
	}
	delete(numbers, 0)
	s := fmt.Sprintf("%d operators: %d bite, %d masked here, %d without a place; %d rows of the 100 bite; %d sites tried, each undone exactly; %.0f s",
		len(rows), bite, masked, none, len(numbers), tried, took.Seconds())
	if len(absent) > 0 {
		s += "; left out: " + strings.Join(absent, ", ")
	}
	return s
}

// shard is a part of a list: "1/3" the second of three.
func shard[T any](t *testing.T, all []T, part string) []T {
	if part == "" {
		return all
	}
	var i, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &i, &n); err != nil || i < 0 || i >= n {
		t.Fatalf("ASSAY_OPERATORS_SHARD is %q, not like 0/3", part)
	}
	var some []T
	for ; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// verdict is a row of the table.
type verdict struct {
	Operator
	bit   bool
	where string
	sites int
	tried int
	mute  []string
}

func (v verdict) String() string {
	state := "masked: " + v.Masked
	if v.bit {
		state = "bites at " + v.where
	} else if v.sites == 0 {
		state = "no site on any patient"
	}
	return fmt.Sprintf("%3d %-28s %-10s sites %3d tried %2d  %s", v.Number, v.Name, v.Family, v.sites, v.tried, state)
}

func (v *verdict) tryAll(t *testing.T, p *patient, g *Ground, n int) {
	t.Helper()
	all := v.Sites(g)
	v.sites += len(all)
	for _, s := range some(all, n) {
		v.tried++
		out, err := p.try(t.Context(), g, v.Operator, s)
		if err != nil {
			t.Errorf("%s on %s at %s: %v", v.Name, p.name, s, err)
			return
		}
		if out.bit {
			v.bit, v.where = true, p.name+" "+s.String()
			if os.Getenv("ASSAY_OPERATORS_SAY") != "" {
				t.Logf("%s: %s", v.Name, out.says)
			}
			return
		}
		v.mute = append(v.mute, s.String())
	}
}

// subset draws operators by a fixed seed.
func subset(all []Operator, n int) []Operator {
	rng := rand.New(rand.NewPCG(8, 1))
	var out []Operator
	for _, i := range rng.Perm(len(all))[:min(n, len(all))] {
		out = append(out, all[i])
	}
	return out
}

func sorted[V any](m map[string]V) []string {
	return slices.Sorted(keys(m))
}
