package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Brown, Cai and DasGupta 2001, table 5 (n = 10 of the Jeffreys interval), and
// the definition where the table has two digits less.
func TestJeffreys(t *testing.T) {
	for _, c := range []struct {
		c, n   int
		lo, hi float64
	}{{0, 10, 0, 0.217}, {1, 10, 0.011, 0.381}, {2, 10, 0.044, 0.503}, {3, 10, 0.093, 0.606}, {5, 10, 0.224, 0.776}, {10, 10, 0.783, 1}} {
		i := Jeffreys(c.c, c.n)
		near(t, "lo", i.Lo, c.lo, 6e-4)
		near(t, "hi", i.Hi, c.hi, 6e-4)
	}
	if (Jeffreys(0, 0) != Interval{0, 1}) || (Jeffreys(5, 3) != Interval{0, 1}) {
		t.Error("of nothing everything is possible")
	}
}

func TestMcNemar(t *testing.T) {
	// Fagerland, Lydersen and Laake 2013, table 1: airway hyper-responsiveness.
	m := McNemarOf(1, 7)
	near(t, "exact", m.Exact, 0.0703, 5e-5)
	near(t, "mid-p", m.MidP, 0.0391, 5e-5)
	if a, b := McNemarOf(3, 9), McNemarOf(9, 3); a.Exact != b.Exact || a.MidP != b.MidP {
		t.Errorf("%+v, %+v", a, b)
	}
	// 2·Σ C(81,i)/2^81 for i ≤ 22, in whole numbers.
	near(t, "59 against 22", McNemarOf(59, 22).Exact, 4.769842118e-05, 1e-13)
	if e := McNemarOf(4, 4); e.Exact != 1 || e.MidP > 1 {
		t.Errorf("even: %+v", e)
	}
	if e := McNemarOf(0, 0); e.Exact != 1 || e.MidP != 1 {
		t.Errorf("nothing: %+v", e)
	}
}

// R: p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm"), and an order of its own.
func TestHolm(t *testing.T) {
	for _, c := range []struct{ ps, want []float64 }{
		{[]float64{0.01, 0.02, 0.03, 0.04}, []float64{0.04, 0.06, 0.06, 0.06}},
		{[]float64{0.04, 0.005, 0.03}, []float64{0.06, 0.015, 0.06}},
		{[]float64{0.9}, []float64{0.9}}, {[]float64{0.9, 0.8}, []float64{1, 1}}, {nil, []float64{}},
	} {
		got := Holm(c.ps)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("Holm(%v) = %v, want %v", c.ps, got, c.want)
		}
	}
}

func TestClusteredSE(t *testing.T) {
	xs := []float64{1, 0, 1, 1, 0, 0, 1, 0}
	near(t, "every value its own group", ClusteredSE(xs, []int{0, 1, 2, 3, 4, 5, 6, 7}), 0.5/math.Sqrt(8), 1e-12)
	// Each value twice in one group: as many facts as before, so the same error,
	// where the plain formula would have it smaller by √2.
	near(t, "doubled", ClusteredSE(append(xs, xs...), []int{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}), 0.5/math.Sqrt(8), 1e-12)
	se, g, even := jackknifeSE(xs, []int{0, 1, 2, 3, 4, 5, 6, 7})
	near(t, "jackknife of single values", se, 0.5/math.Sqrt(7), 1e-12)
	near(t, "groups of one size", even, 8, 1e-12)
	if g != 8 {
		t.Errorf("%d groups", g)
	}
}

func TestPairedOfLittle(t *testing.T) {
	if _, ok := Paired([]Pair{{A: 1}}); ok {
		t.Error("one task shows a difference")
	}
	d, ok := Paired([]Pair{{A: 1, B: 1}, {A: 1, B: 1}, {}, {A: 1, B: 1}, {}})
	if !ok || d.Value != 0 || d.Hi < 0.3 || d.Lo > -0.3 || d.Shows() {
		t.Errorf("five tasks alike show that agents are: %+v", d)
	}
	var all []Pair
	for range 10 {
		all = append(all, Pair{A: 1})
	}
	if d, _ := Paired(all); !d.Shows() || d.Hi < d.Value || d.Value != 1 || d.P > 1e-4 {
		t.Errorf("ten of ten: %+v", d)
	}
}

// The p-value and the interval are one rule, and either agent may stand first.
func TestPairedIsOneRule(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var ab, ba []Pair
		for range 2 + r.IntN(40) {
			p := Pair{A: float64(r.IntN(4)) / 3, B: float64(r.IntN(3)) / 3, Group: r.IntN(12)}
			ab = append(ab, p)
			ba = append(ba, Pair{A: p.B, B: p.A, Group: p.Group})
		}
		d, _ := Paired(ab)
		if d.Shows() != (d.P < 0.05) {
			t.Fatalf("%+v", d)
		}
		if d.Lo > d.Value || d.Hi < d.Value || d.Better+d.Worse+d.Equal != len(ab) {
			t.Fatalf("%+v", d)
		}
		e, _ := Paired(ba)
		if math.Abs(e.Lo+d.Hi) > 1e-12 || math.Abs(e.P-d.P) > 1e-12 {
			t.Fatalf("%+v turned round is %+v", d, e)
		}
	}
}

// world is a population of tasks and two agents: log odds of a task are normal,
// what agents differ in is the same everywhere (delta), by task (tau) and by
// repository (rt).
type world struct {
	name                   string
	tasks, k, repos        int
	mu, sd, tau, rt, delta float64
	loss                   float64 // share of attempts that are lost
	uneven                 bool    // repositories
	sizes                  []int   // of repositories, instead of tasks and repos
}

func (w world) task(r *rand.Rand, repo [2]float64) (a, b float64) {
	th := w.mu + w.sd*r.NormFloat64() + repo[0]
	return logistic(th + w.delta + w.tau*r.NormFloat64() + repo[1]), logistic(th)
}

func (w world) repo(r *rand.Rand) [2]float64 {
	if w.repos == 0 {
		return [2]float64{}
	}
	return [2]float64{r.NormFloat64(), w.rt * r.NormFloat64()}
}

// truth is the mean difference and A's mean rate in the whole population.
func (w world) truth() (diff, rate float64) {
	r := rand.New(rand.NewPCG(9, 9))
	const n = 200_000
	for range n {
		a, b := w.task(r, w.repo(r))
		diff, rate = diff+(a-b)/n, rate+a/n
	}
	return diff, rate
}

func (w world) sample(r *rand.Rand) (a, b []Count, groups []int) {
	var places []int
	for g, n := range w.sizes {
		places = append(places, slices.Repeat([]int{g}, n)...)
	}
	repos := make([][2]float64, max(1, w.repos))
	for i := range repos {
		repos[i] = w.repo(r)
	}
	draw := func(p float64) Count {
		c := Count{Graded: w.k}
		for range w.k {
			if c.Graded > 1 && r.Float64() < w.loss {
				c.Graded--
			}
		}
		for range c.Graded {
			if r.Float64() < p {
				c.Passed++
			}
		}
		return c
	}
	for i := range w.tasks {
		g, effect := i, [2]float64{}
		if w.repos > 0 {
			if g = r.IntN(w.repos); w.uneven {
				g = int(float64(w.repos) * math.Pow(r.Float64(), 2.5))
			}
			if places != nil {
				g = places[i]
			}
			effect = repos[g]
		}
		pa, pb := w.task(r, effect)
		a, b, groups = append(a, draw(pa)), append(b, draw(pb)), append(groups, g)
	}
	return a, b, groups
}

func worlds() []world {
	return []world{
		{name: "20 tasks", tasks: 20, k: 3, sd: 2, tau: 0.8},
		{name: "50 tasks, one attempt", tasks: 50, k: 1, sd: 2, tau: 0.8},
		{name: "300 tasks, one attempt", tasks: 300, k: 1, sd: 2, tau: 0.8},
		{name: "50 tasks, attempts lost", tasks: 50, k: 4, sd: 2, tau: 0.8, loss: 0.2},
		{name: "100 tasks, a difference", tasks: 100, k: 5, sd: 2, tau: 0.8, delta: 0.5, loss: 0.2},
		{name: "hard tasks", tasks: 50, k: 3, mu: -4, sd: 2, tau: 0.5},
		{name: "12 repositories", tasks: 100, k: 3, repos: 12, sd: 2, tau: 0.5, rt: 0.7},
		{name: "12 uneven repositories", tasks: 100, k: 3, repos: 12, sd: 2, tau: 0.5, rt: 0.7, uneven: true},
		{name: "SWE-bench Verified's", tasks: 500, k: 1, repos: 12, sd: 2, tau: 0.5, rt: 0.5, sizes: []int{231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1}},
		{name: "30 repositories", tasks: 200, k: 2, repos: 30, sd: 2, tau: 0.5, rt: 0.7},
	}
}

// In every world the interval of the difference and that of one agent's rate
// cover the truth about as often as they say.
func TestPairedCovers(t *testing.T) {
	const n = 250 // 500 for docs/measurements.md
	all, allRates := 0, 0
	for _, w := range worlds() {
		diff, rate := w.truth()
		r := rand.New(rand.NewPCG(11, 12))
		covers, rates := 0, 0
		for range n {
			a, b, groups := w.sample(r)
			d, _ := DifferenceOf(a, b, groups)
			if d.Lo <= diff && diff <= d.Hi {
				covers++
			}
			xs := make([]float64, len(a))
			attempts := 0
			for i, c := range a {
				xs[i] = share(c)
				attempts += c.Graded
			}
			if s, _ := MeanShare(xs, groups, attempts); s.Lo <= rate && rate <= s.Hi {
				rates++
			}
		}
		t.Logf("%-26s difference %.1f %%, rate %.1f %%", w.name, 100*float64(covers)/n, 100*float64(rates)/n)
		if covers < n*925/1000 || rates < n*915/1000 {
			t.Errorf("%s: %d and %d of %d intervals cover", w.name, covers, rates, n)
		}
		all, allRates = all+covers, allRates+rates
	}
	many := n * len(worlds())
	for what, c := range map[string]int{"differences": all, "rates": allRates} {
		if s := float64(c) / float64(many); s < 0.94 || s > 0.97 {
			t.Errorf("%s: %.3f of all intervals cover", what, s)
		}
	}
}

// What takes every attempt for a fact of its own does not.
func TestNaiveIntervalsDoNotCover(t *testing.T) {
	w := world{tasks: 50, k: 5, sd: 2}
	_, rate := w.truth()
	r := rand.New(rand.NewPCG(1, 1))
	naive := 0
	for range 300 {
		a, _, _ := w.sample(r)
		var all Count
		for _, c := range a {
			all.Passed, all.Graded = all.Passed+c.Passed, all.Graded+c.Graded
		}
		if i := Wilson(all.Passed, all.Graded); i.Lo <= rate && rate <= i.Hi {
			naive++
		}
	}
	if naive > 255 { // 85 %
		t.Errorf("%d of 300 naive intervals cover: the worlds here are too kind to show anything", naive)
	}
}

func TestLastingIsRecovered(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a, b, g := world{tasks: 3000, k: 5, sd: 2, tau: 1.5}.sample(r)
	d, _ := DifferenceOf(a, b, g)
	// What one attempt of each would show, and what of it is between tasks.
	var between, one float64
	rr := rand.New(rand.NewPCG(7, 8))
	const n = 200_000
	for range n {
		pa, pb := world{sd: 2, tau: 1.5}.task(rr, [2]float64{})
		between += (pa - pb) * (pa - pb) / n
		one += (pa*(1-pb) + pb*(1-pa)) / n
	}
	near(t, "lasting", d.Lasting, between/one, 0.03)
	if e, _ := DifferenceOf(a[:3], []Count{{1, 1}, {0, 1}, {1, 1}}, g[:3]); e.Lasting != 0 {
		t.Error("single attempts tell what lasts")
	}
}

// A sample of as many tasks as are said to be needed shows the difference in
// about 80 % of the cases.
func TestTasksToShow(t *testing.T) {
	w := world{tasks: 80, k: 2, sd: 2, tau: 0.8, delta: 0.5}
	diff, _ := w.truth()
	r := rand.New(rand.NewPCG(21, 22))
	var need []float64
	for range 100 {
		a, b, g := w.sample(r)
		d, _ := DifferenceOf(a, b, g)
		n, ok := d.TasksToShow(diff)
		if !ok {
			t.Fatal("not ok")
		}
		need = append(need, float64(n))
	}
	n, _ := Quantile(need, 0.5)
	w.tasks = int(n)
	shown := 0
	for range 400 {
		a, b, g := w.sample(r)
		if d, _ := DifferenceOf(a, b, g); d.Lo > 0 {
			shown++
		}
	}
	if shown < 290 || shown > 350 {
		t.Errorf("%d of 400 samples of %d tasks show it", shown, w.tasks)
	}
	if _, ok := (Difference{Tasks: 5, SE: 0.1}).TasksToShow(0); ok {
		t.Error("no number of tasks shows that nothing differs")
	}
}

func TestPowerIsTheInverse(t *testing.T) {
	for _, n := range []int{30, 100, 1000} {
		d, _ := DetectablePaired(n, 3, Assumptions{})
		p, _ := PowerPaired(n, 3, d, Assumptions{})
		near(t, "power", p, 0.8, 1e-3)
		m, ok := TasksPaired(d, 3, Assumptions{})
		if !ok || m != n {
			t.Errorf("%d tasks, want %d", m, n)
		}
	}
	if p, _ := PowerPaired(100, 1, 0, Assumptions{}); p > 0.05 {
		t.Errorf("no difference is seen with %v", p)
	}
	if _, ok := TasksPaired(0, 1, Assumptions{}); ok {
		t.Error("no difference can be planned for")
	}
}
