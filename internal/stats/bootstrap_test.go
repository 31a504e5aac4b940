package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The patch data of Efron and Tibshirani 1993, table 10.2: θ = −0.0713, and a
// standard error of 0.10 by 400 resamples.
func TestBootstrapPatchData(t *testing.T) {
	z := []float64{8406, 2342, 8187, 8459, 4795, 3516, 4796, 10238}
	y := []float64{-1200, 2601, -2705, 1982, -1290, 351, -638, -2719}
	var units []Ratio
	for i := range z {
		units = append(units, Ratio{y[i], z[i]})
	}
	theta, se, _ := ratio(units)
	near(t, "theta", theta, -0.0713, 5e-5)
	near(t, "se", se, 0.10, 0.012)
	for _, by := range []Method{Studentised, BCa, Percentile} {
		e, ok := BootstrapRatio(units, by)
		if !ok || e.Value != theta || e.Lo > -0.15 || e.Hi < 0.08 {
			t.Errorf("%d: %+v", by, e)
		}
		if again, _ := BootstrapRatio(units, by); again != e {
			t.Errorf("the same input gave %+v and %+v", e, again)
		}
	}
	if _, ok := BootstrapRatio(units[:1], BCa); ok {
		t.Error("one unit has an interval")
	}
	if _, ok := BootstrapRatio([]Ratio{{1, 0}, {2, 0}}, BCa); ok {
		t.Error("a ratio to nothing is known")
	}
}

// Costs are skewed and solving is rare: the ratio of sums over 40 tasks.
func TestBootstrapCoversCostPerSolved(t *testing.T) {
	draw := func(r *rand.Rand) Ratio {
		p := logistic(2 * r.NormFloat64())
		u := Ratio{}
		for range 3 {
			u.Num += math.Exp(0.7*r.NormFloat64()) * (1.5 - p)
			if r.Float64() < p {
				u.Den++
			}
		}
		return u
	}
	rr := rand.New(rand.NewPCG(1, 2))
	var num, den float64
	for range 300_000 {
		u := draw(rr)
		num, den = num+u.Num, den+u.Den
	}
	truth := num / den
	covered := map[Method]int{}
	const n = 300
	for range n {
		units := make([]Ratio, 40)
		for i := range units {
			units[i] = draw(rr)
		}
		for _, by := range []Method{Studentised, BCa, Percentile} {
			if e, ok := BootstrapRatio(units, by); ok && e.Lo <= truth && truth <= e.Hi {
				covered[by]++
			}
		}
	}
	t.Logf("studentised %d, BCa %d, percentile %d of %d", covered[Studentised], covered[BCa], covered[Percentile], n)
	if covered[Studentised] < n*92/100 || covered[BCa] < n*89/100 {
		t.Errorf("%v of %d", covered, n)
	}
}

// Drawing tasks and drawing repositories agree with the closed forms where
// there are enough of them.
func TestPairedBootstrap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	a, b, groups := world{tasks: 300, k: 2, repos: 40, sd: 2, tau: 0.5, rt: 1}.sample(r)
	var pairs []Pair
	for i := range a {
		pairs = append(pairs, Pair{share(a[i]), share(b[i]), groups[i]})
	}
	d, _ := Paired(pairs)
	if d.By != ByGroup {
		t.Fatalf("%+v is not by repository", d)
	}
	e, ok := PairedBootstrap(pairs, ByGroup)
	if !ok || math.Abs(e.Lo-d.Lo) > 0.25*(d.Hi-d.Lo) || math.Abs(e.Hi-d.Hi) > 0.25*(d.Hi-d.Lo) {
		t.Errorf("by repository %+v, closed %+v", e, d.Interval)
	}
	one, ok := PairedBootstrap(pairs, ByTask)
	if !ok || one.Hi-one.Lo >= e.Hi-e.Lo {
		t.Errorf("by task %+v is not narrower than by repository %+v", one, e)
	}
	if _, ok := PairedBootstrap([]Pair{{A: 1, B: 1}, {}}, ByTask); ok {
		t.Error("two tasks alike have a bootstrap interval")
	}
}
