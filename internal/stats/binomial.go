package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Jeffreys is the equal-tailed interval of a proportion c of n under Jeffreys'
// prior, Beta(1/2, 1/2), with the ends set to 0 at c = 0 and to 1 at c = n
// (Brown, Cai and DasGupta 2001, "Interval Estimation for a Binomial
// Proportion"). It covers about as [Wilson] does and is shorter near 0 and 1.
func Jeffreys(c, n int) Interval {
	if n <= 0 || c < 0 || c > n {
		return Interval{0, 1}
	}
	a, b := float64(c)+0.5, float64(n-c)+0.5
	i := Interval{0, 1}
	if c > 0 {
		i.Lo = mathext.InvRegIncBeta(a, b, (1-Confidence)/2)
	}
	if c < n {
		i.Hi = mathext.InvRegIncBeta(a, b, 1-(1-Confidence)/2)
	}
	return i
}

// McNemar is the test of two agents on the same tasks with one attempt each.
type McNemar struct {
	OnlyA int     `json:"only_a"` // tasks that A alone solved
	OnlyB int     `json:"only_b"`
	Exact float64 `json:"p_exact"` // two-sided; 1 where nothing is discordant
	MidP  float64 `json:"p_mid"`   // two-sided mid-p; not as conservative, not guaranteed
}

// McNemarOf is the exact two-sided test of discordant pairs: of n = a + b
// tasks that one agent alone solved, either is as likely to have it when they
// are equal, so p = 2·P(X ≤ min(a,b)), X ~ Bin(n, 1/2), at most 1. The mid-p
// counts half of the observed outcome (Fagerland, Lydersen and Laake 2013).
func McNemarOf(a, b int) McNemar {
	m := McNemar{OnlyA: a, OnlyB: b, Exact: 1, MidP: 1}
	n, k := a+b, min(a, b)
	if n == 0 || k < 0 {
		return m
	}
	at := func(i int) float64 {
		total, _ := math.Lgamma(float64(n + 1))
		x, _ := math.Lgamma(float64(i + 1))
		y, _ := math.Lgamma(float64(n - i + 1))
		return math.Exp(total - x - y - float64(n)*math.Ln2)
	}
	var tail float64
	for i := 0; i <= k; i++ {
		tail += at(i)
	}
	m.Exact = min(1, 2*tail)
	m.MidP = min(1, 2*tail-at(k))
	return m
}

// Holm adjusts p-values of m comparisons made at once, so that the chance of
// any false winner stays below the level (Holm 1979): sorted upwards, the i-th
// (from 0) is multiplied by m−i, and none is smaller than the one before it.
// The order of ps is kept.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	sortBy(order, func(i int) float64 { return ps[i] })
	out := make([]float64, len(ps))
	last := 0.0
	for rank, i := range order {
		last = max(last, min(1, float64(len(ps)-rank)*ps[i]))
		out[i] = last
	}
	return out
}
