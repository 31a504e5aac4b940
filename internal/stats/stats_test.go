package stats

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tol {
		t.Errorf("%s = %.10g, want %.10g", what, got, want)
	}
}

func TestPassAtK(t *testing.T) {
	for _, c := range []struct {
		n, c, k int
		want    float64
	}{
		// C(3,2)/C(5,2) = 3/10.
		{5, 2, 2, 0.7},
		{10, 3, 1, 0.3},
		// 1 − ∏(1 − k/i) for i in n−c+1..n, as openai/human-eval computes it.
		{200, 37, 1, 0.185},
		{200, 37, 10, 0.8773745674},
		{200, 37, 100, 0.99999999999988},
		{10, 0, 5, 0},
		{10, 6, 5, 1}, // n−c < k
		{1, 1, 1, 1},
	} {
		got, ok := PassAtK(c.n, c.c, c.k)
		if !ok {
			t.Errorf("pass@%d of %d/%d not ok", c.k, c.c, c.n)
		}
		near(t, "pass@k", got, c.want, 1e-9)
	}
	for _, c := range [][3]int{{4, 2, 5}, {4, 2, 0}, {4, 5, 1}, {4, -1, 1}, {0, 0, 1}} {
		if _, ok := PassAtK(c[0], c[1], c[2]); ok {
			t.Errorf("PassAtK%v is ok", c)
		}
		if _, ok := PassPowK(c[0], c[1], c[2]); ok {
			t.Errorf("PassPowK%v is ok", c)
		}
	}
}

// Against exact binomials, where float products would lose digits too.
func TestPassAtKIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "n")
		c := rapid.IntRange(0, n).Draw(t, "c")
		k := rapid.IntRange(1, n).Draw(t, "k")
		ratio := func(of int) float64 {
			a := new(big.Int).Binomial(int64(of), int64(k))
			b := new(big.Int).Binomial(int64(n), int64(k))
			f, _ := new(big.Rat).SetFrac(a, b).Float64()
			return f
		}
		got, ok := PassAtK(n, c, k)
		if want := 1 - ratio(n-c); !ok || math.Abs(got-want) > 1e-12 {
			t.Fatalf("pass@%d of %d/%d = %v, want %v", k, c, n, got, want)
		}
		got, ok = PassPowK(n, c, k)
		if want := ratio(c); !ok || math.Abs(got-want) > 1e-12 {
			t.Fatalf("pass^%d of %d/%d = %v, want %v", k, c, n, got, want)
		}
	})
}

func TestPassAtKOver(t *testing.T) {
	a, ok := PassAtKOver([]Count{{1, 4}, {4, 4}, {1, 1}}, 2)
	if !ok || a.Tasks != 2 || a.Tasked != 3 {
		t.Fatalf("got %+v, %v; the task with one attempt must stand aside", a, ok)
	}
	near(t, "mean", a.Mean.Value, (0.5+1)/2, 1e-12) // 1 − C(3,2)/C(4,2) = 0.5
	if a.Mean.Lo < 0 || a.Mean.Hi > 1 {
		t.Errorf("interval leaves 0..1: %+v", a.Mean)
	}
	if _, ok := PassAtKOver([]Count{{1, 1}}, 2); ok {
		t.Error("pass@2 of a single attempt is ok")
	}
}

func TestKs(t *testing.T) {
	for n, want := range map[int][]int{
		0: nil, 1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 10: {1, 2, 5, 10}, 16: {1, 2, 5, 10, 16}, 100: {1, 2, 5, 10, 20, 50, 100},
	} {
		if got := Ks(n); !slices.Equal(got, want) {
			t.Errorf("Ks(%d) = %v, want %v", n, got, want)
		}
	}
}

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		c, n   int
		lo, hi float64
	}{
		// Newcombe 1998, Statistics in Medicine 17, table I, method 3.
		{81, 263, 0.2553, 0.3662},
		{15, 148, 0.0624, 0.1605},
		{0, 20, 0, 0.1611},
		{1, 29, 0.0061, 0.1718},
		{29, 29, 0.8830, 1},
	} {
		i := Wilson(c.c, c.n)
		near(t, "lo", i.Lo, c.lo, 5e-5)
		near(t, "hi", i.Hi, c.hi, 5e-5)
	}
	if (Wilson(0, 0) != Interval{0, 1}) {
		t.Error("of nothing everything is possible")
	}
}

func TestWilsonHoldsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		c := rapid.IntRange(0, n).Draw(t, "c")
		i, p := Wilson(c, n), float64(c)/float64(n)
		if i.Lo < 0 || i.Hi > 1 || i.Lo > p || i.Hi < p {
			t.Fatalf("%d/%d: %+v", c, n, i)
		}
		// The mirror image has the mirrored interval.
		m := Wilson(n-c, n)
		if math.Abs(m.Lo-(1-i.Hi)) > 1e-12 || math.Abs(m.Hi-(1-i.Lo)) > 1e-12 {
			t.Fatalf("%d/%d: %+v is not the mirror of %+v", c, n, m, i)
		}
	})
}

func TestWilsonByTask(t *testing.T) {
	same := func(a, b Interval, why string) {
		t.Helper()
		near(t, why, a.Lo, b.Lo, 1e-12)
		near(t, why, a.Hi, b.Hi, 1e-12)
	}
	same(WilsonByTask([]Count{{1, 1}, {0, 1}, {1, 1}}), Wilson(2, 3), "one attempt a task")
	same(WilsonByTask([]Count{{3, 8}}), Wilson(3, 8), "one task")
	same(WilsonByTask([]Count{{4, 4}, {4, 4}, {0, 0}}), Wilson(2, 2), "all pass: a task is one fact")
	// Tasks that always or never pass: 40 attempts hold no more than 10 facts
	// (9, for the correction of few tasks).
	var fixed []Count
	for i := range 10 {
		fixed = append(fixed, Count{4 * (i % 2), 4})
	}
	same(WilsonByTask(fixed), wilson(4.5, 9), "attempts that repeat each other")
}

func TestWilsonByTaskIsNeverNarrower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all Count
		var tasks []Count
		for range rapid.IntRange(1, 20).Draw(t, "tasks") {
			n := rapid.IntRange(0, 6).Draw(t, "n")
			c := Count{rapid.IntRange(0, n).Draw(t, "c"), n}
			tasks = append(tasks, c)
			all.Passed, all.Graded = all.Passed+c.Passed, all.Graded+c.Graded
		}
		plain, by := Wilson(all.Passed, all.Graded), WilsonByTask(tasks)
		if by.Hi-by.Lo < plain.Hi-plain.Lo-1e-12 || by.Lo < 0 || by.Hi > 1 {
			t.Fatalf("%v: %+v, plain %+v", tasks, by, plain)
		}
	})
}

func TestMean(t *testing.T) {
	m, ok := Mean([]float64{1, 2, 3, 4, 5})
	if !ok {
		t.Fatal("not ok")
	}
	// t(0.975, 4) = 2.776445 (any t table); s/√n = √2.5/√5.
	near(t, "mean", m.Value, 3, 0)
	near(t, "lo", m.Lo, 3-2.776445*math.Sqrt(0.5), 1e-5)
	if one, _ := Mean([]float64{7}); !math.IsInf(one.Hi, 1) {
		t.Error("one value has a finite interval")
	}
	if _, ok := Mean(nil); ok {
		t.Error("mean of nothing is ok")
	}
	for df, want := range map[float64]float64{1: 12.7062, 10: 2.22814, 30: 2.04227, 1000: 1.96234} {
		near(t, "t", student(0.95, df), want, 1e-4)
	}
	near(t, "z", normal(0.975), 1.959964, 1e-6)
}

func TestQuantile(t *testing.T) {
	xs := []float64{40, 15, 50, 20, 35}
	for p, want := range map[float64]float64{0: 15, 0.4: 29, 0.5: 35, 0.95: 48, 1: 50} { // numpy.quantile
		got, ok := Quantile(xs, p)
		if !ok {
			t.Errorf("quantile %v not ok", p)
		}
		near(t, "quantile", got, want, 1e-9)
	}
	if !slices.Equal(xs, []float64{40, 15, 50, 20, 35}) {
		t.Error("the input was changed")
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		if _, ok := Quantile(xs, bad); ok {
			t.Errorf("quantile %v is ok", bad)
		}
	}
	if _, ok := Quantile([]float64{1, math.NaN()}, 0.5); ok {
		t.Error("a quantile of what is not a number is ok")
	}
	s, ok := SpreadOf(xs)
	if !ok || s != (Spread{N: 5, P50: 35, P95: 48, Max: 50, Sum: 160}) {
		t.Errorf("spread %+v", s)
	}
	if _, ok := SpreadOf(nil); ok {
		t.Error("spread of nothing is ok")
	}
}

func TestQuantileIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 50).Draw(t, "xs")
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		q := rapid.Float64Range(p, 1).Draw(t, "q")
		a, _ := Quantile(xs, p)
		b, _ := Quantile(xs, q)
		if a > b+1e-6 || a < slices.Min(xs)-1e-6 || b > slices.Max(xs)+1e-6 {
			t.Fatalf("quantiles %v and %v of %v", a, b, xs)
		}
	})
}

// The table of the design's reference page: minimum detectable difference in
// points at 80 % power and 5 %, paired with 20 % discordant, and unpaired.
func TestDetectable(t *testing.T) {
	for _, c := range []struct {
		n                int
		paired, unpaired float64
	}{{100, 12.5, 19.8}, {300, 7.2, 11.4}, {500, 5.6, 8.9}, {1000, 4.0, 6.3}} {
		u, ok1 := DetectableUnpaired(c.n, Assumptions{})
		p, ok2 := DetectablePaired(c.n, 1, Assumptions{})
		if !ok1 || !ok2 {
			t.Errorf("n=%d not ok", c.n)
		}
		near(t, "unpaired", 100*u, c.unpaired, 0.05)
		near(t, "paired", 100*p, c.paired, 0.05)
	}
	if _, ok := DetectableUnpaired(3, Assumptions{}); ok {
		t.Error("three trials an agent show a difference")
	}
	if _, ok := DetectablePaired(1, 1, Assumptions{}); ok {
		t.Error("one task shows a difference")
	}
	one, _ := DetectablePaired(50, 1, Assumptions{})
	many, _ := DetectablePaired(50, 1000, Assumptions{})
	if !(many < one && many > one*math.Sqrt(0.5)) {
		t.Errorf("attempts wash out half of the variance at most: %v then %v", one, many)
	}
	all, _ := DetectablePaired(50, 9, Assumptions{Lasting: 1})
	near(t, "lasting discordance", all, one, 1e-12)
}

// Half-widths at p = 0.5: the reference page's 0.285, 0.20, 0.134, 0.098.
func TestHalfWidth(t *testing.T) {
	for n, want := range map[int]float64{8: 0.285, 20: 0.20, 50: 0.134, 96: 0.098} {
		near(t, "half width", HalfWidth(n, 0.5), want, 6e-3)
	}
}

func TestTally(t *testing.T) {
	a := Tally{Planned: 10, Pass: 2, Fail: 1, Inconclusive: 1, Invalid: 1, Infra: 2, Cancelled: 1}
	if a.Graded() != 4 || a.Lost() != 4 || a.Ended() != 8 {
		t.Errorf("graded %d, lost %d, ended %d", a.Graded(), a.Lost(), a.Ended())
	}
	r := RateOf(a)
	if !r.Known || r.Value != 0.5 || r.Graded != 4 || r.Planned != 10 {
		t.Errorf("rate %+v: inconclusive counts, infra, invalid and cancelled do not", r)
	}
	if r := RateOf(Tally{Planned: 3, Infra: 3}); r.Known {
		t.Errorf("a rate of nothing is known: %+v", r)
	}
	b := a.Plus(a)
	if b != (Tally{20, 4, 2, 2, 2, 4, 2}) {
		t.Errorf("sum %+v", b)
	}
	over := RateOver([]Tally{{Planned: 4, Pass: 4}, {Planned: 4, Fail: 4}})
	if over.Value != 0.5 || over.Interval == Wilson(4, 8) {
		t.Errorf("rate over tasks %+v has the interval of independent trials", over)
	}
}
