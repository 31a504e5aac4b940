package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		c, n int
		want Window
	}{
		{0, 0, WindowOpen}, {3, 8, WindowOpen}, {4, 8, InWindow}, {7, 20, WindowOpen}, {10, 20, InWindow}, {12, 24, InWindow}, {7, 24, TooHard}, {18, 24, TooEasy},
		{48, 96, InWindow}, {1, 8, TooHard}, {8, 8, TooEasy},
	} {
		if got := WindowOf(c.c, c.n); got != c.want {
			t.Errorf("WindowOf(%d, %d) = %s, want %s", c.c, c.n, got, c.want)
		}
	}
}

// persons × items of 0 and 1.
func answers(rows ...string) [][]float64 {
	var all [][]float64
	for _, r := range rows {
		var row []float64
		for _, c := range r {
			row = append(row, float64(c-'0'))
		}
		all = append(all, row)
	}
	return all
}

func TestKR20(t *testing.T) {
	// A perfect scale of ten persons and nine tasks. By hand: Σpq = Σ i(10−i)/100
	// for i = 1..9 = 1.65, the totals 0..9 have the variance 8.25, and so
	// 9/8·(1 − 1.65/8.25) = 0.9.
	guttman := answers("000000000", "100000000", "110000000", "111000000", "111100000", "111110000", "111111000", "111111100", "111111110", "111111111")
	a, ok := KR20(guttman)
	if !ok {
		t.Fatal("not ok")
	}
	near(t, "KR-20", a, 0.9, 1e-12)
	if _, ok := KR20(guttman[:9]); ok {
		t.Error("nine agents are enough")
	}
	if _, ok := KR20(answers("1", "0", "1", "0", "1", "0", "1", "0", "1", "0")); ok {
		t.Error("one task is enough")
	}
	same := answers("10", "10", "10", "10", "10", "10", "10", "10", "10", "10")
	if _, ok := KR20(same); ok {
		t.Error("agents that are all alike have a reliability")
	}
	// Of parallel tasks the reliability is k·r/(1+(k−1)·r) (Spearman and Brown).
	r := rand.New(rand.NewPCG(2, 3))
	var many [][]float64
	for range 20_000 {
		skill := r.NormFloat64()
		row := make([]float64, 8)
		for i := range row {
			row[i] = skill + r.NormFloat64() // correlation of two tasks: 0.5
		}
		many = append(many, row)
	}
	a, _ = KR20(many)
	near(t, "alpha of parallel tasks", a, 8*0.5/(1+7*0.5), 0.01)
}

func TestDiscrimination(t *testing.T) {
	rows := answers("00000", "10001", "11001", "11101", "00000", "10000", "11000", "11100", "11111", "11111", "01110", "00001")
	d, ok := Discrimination(rows, 0)
	if !ok {
		t.Fatal("not ok")
	}
	// By hand: Pearson's correlation of the column 0 1 1 1 0 1 1 1 1 1 0 0 with
	// the rest 0 1 2 3 0 0 1 2 4 4 3 1.
	own := []float64{0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0}
	rest := []float64{0, 1, 2, 3, 0, 0, 1, 2, 4, 4, 3, 1}
	var so, sr, soo, srr, sor float64
	for i := range own {
		so, sr, soo, srr, sor = so+own[i], sr+rest[i], soo+own[i]*own[i], srr+rest[i]*rest[i], sor+own[i]*rest[i]
	}
	n := 12.0
	near(t, "point-biserial", d, (n*sor-so*sr)/math.Sqrt((n*soo-so*so)*(n*srr-sr*sr)), 1e-12)
	for _, r := range rows {
		r[4] = 1 - r[0] // a task that the better agents fail
	}
	if d, ok := Discrimination(rows, 4); !ok || d > 0 {
		t.Errorf("a task turned round discriminates by %v", d)
	}
	if _, ok := Discrimination(rows[:9], 0); ok {
		t.Error("nine agents are enough")
	}
	if _, ok := Discrimination(answers("1", "1", "1", "1", "1", "1", "1", "1", "1", "1"), 0); ok {
		t.Error("what does not vary discriminates")
	}
}

// Abilities and difficulties that made the data are found again, and lie
// within their errors as often as they should.
func TestRaschRecovers(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	const agents, tasks = 40, 120
	theta, b := make([]float64, agents), make([]float64, tasks)
	for i := range theta {
		theta[i] = r.NormFloat64()
	}
	shift := mean(theta)
	for i := range theta {
		theta[i] -= shift
	}
	for i := range b {
		b[i] = 0.5 + 1.5*r.NormFloat64()
	}
	counts := make([][]Count, agents)
	for a := range counts {
		counts[a] = make([]Count, tasks)
		for i := range counts[a] {
			c := Count{Graded: r.IntN(4)} // holes too
			for range c.Graded {
				if r.Float64() < logistic(theta[a]-b[i]) {
					c.Passed++
				}
			}
			counts[a][i] = c
		}
	}
	f, ok := FitRasch(counts, RaschPrior{})
	if !ok || f.Steps > 500 {
		t.Fatalf("%v after %d steps", ok, f.Steps)
	}
	check := func(what string, got []Placed, want []float64) {
		t.Helper()
		var xs []float64
		within := 0
		for i, p := range got {
			xs = append(xs, p.Logits)
			if math.Abs(p.Logits-want[i]) < 1.96*p.SE {
				within++
			}
		}
		c, _ := correlation(xs, want)
		if c < 0.96 || within < len(got)*88/100 {
			t.Errorf("%s: correlation %.3f, %d of %d within their errors", what, c, within, len(got))
		}
	}
	check("abilities", f.Ability, theta)
	check("difficulties", f.Difficulty, b)
	if f.Reliability < 0.9 || f.Reliability > 1 {
		t.Errorf("reliability %v", f.Reliability)
	}
	var sum float64
	for _, a := range f.Ability {
		sum += a.Logits
	}
	near(t, "mean ability", sum/agents, 0, 1e-9)
}

func TestRaschOfExtremes(t *testing.T) {
	all := [][]Count{{{3, 3}, {3, 3}}, {{0, 3}, {0, 3}}, {{0, 0}, {0, 0}}}
	f, ok := FitRasch(all, RaschPrior{})
	if !ok {
		t.Fatal("not ok")
	}
	if !(f.Ability[0].Logits > 1) || !(f.Ability[1].Logits < -1) || math.Abs(f.Ability[2].Logits) > 1e-6 || math.IsInf(f.Ability[0].Logits, 0) {
		t.Errorf("%+v", f)
	}
	if f.Ability[2].SE < 2.9 {
		t.Errorf("an agent without attempts is placed within %v", f.Ability[2].SE)
	}
	if _, ok := FitRasch(nil, RaschPrior{}); ok {
		t.Error("a fit of nothing")
	}
	if _, ok := FitRasch([][]Count{{{1, 1}}, {}}, RaschPrior{}); ok {
		t.Error("a fit of rows of different lengths")
	}
}
