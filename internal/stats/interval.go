package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Confidence is the level of every interval here unless a function says
// otherwise.
const Confidence = 0.95

// Interval is a confidence interval; for rates within 0..1.
type Interval struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// Estimate is a number and its interval.
type Estimate struct {
	Value float64 `json:"value"`
	Interval
}

// normal is the quantile of the standard normal distribution.
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// student is the t for which a t-distributed number of df degrees of freedom
// lies within ±t with the given probability. It inverts the regularised
// incomplete beta function: P(|T| > t) = I_x(df/2, 1/2), x = df/(df+t²).
func student(conf, df float64) float64 {
	x := mathext.InvRegIncBeta(df/2, 0.5, 1-conf)
	return math.Sqrt(df * (1 - x) / x)
}

// Wilson is the score interval of a proportion c of n (Wilson 1927). Unlike
// the usual p ± z·se it never leaves 0..1 and is not empty at 0 and 1. Of
// nothing it is 0..1: everything is possible.
func Wilson(c, n int) Interval { return wilson(float64(c), float64(n)) }

// wilson takes sizes that need not be whole, for effective sample sizes.
func wilson(c, n float64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	return score(c/n, n, normal(1-(1-Confidence)/2))
}

// score is Wilson's interval of the proportion p of n with the quantile z.
func score(p, n, z float64) Interval {
	z2 := z * z
	mid := (p + z2/(2*n)) / (1 + z2/n)
	half := z / (1 + z2/n) * math.Sqrt(p*(1-p)/n+z2/(4*n*n))
	i := Interval{max(0, mid-half), min(1, mid+half)}
	// Rounding must not push the estimate out of its own interval.
	return Interval{min(i.Lo, p), max(i.Hi, p)}
}

// WilsonByTask is Wilson's interval for the share of passing attempts when
// several attempts were made at each task. Attempts at one task resemble each
// other, so n attempts hold less than n facts: n is divided by the design
// effect, the cluster-robust variance (Miller 2024, "Adding Error Bars to
// Evals", with the T/(T−1) correction for few tasks) over the binomial one,
// never below 1. Where every attempt ended alike the design effect cannot be
// seen, and each task counts once. A single task is plain [Wilson]: it speaks
// of that task alone.
func WilsonByTask(tasks []Count) Interval {
	passed, graded, sampled := 0, 0, 0
	for _, t := range tasks {
		passed, graded = passed+t.Passed, graded+t.Graded
		if t.Graded > 0 {
			sampled++
		}
	}
	if sampled < 2 || graded == sampled {
		return Wilson(passed, graded)
	}
	n, p := float64(graded), float64(passed)/float64(graded)
	if passed == 0 || passed == graded {
		return wilson(p*float64(sampled), float64(sampled))
	}
	var sum float64 // Σ over tasks of (Σ over attempts of (s − p))²
	for _, t := range tasks {
		d := float64(t.Passed) - p*float64(t.Graded)
		sum += d * d
	}
	robust := sum / (n * n) * float64(sampled) / float64(sampled-1)
	effect := max(1, robust/(p*(1-p)/n))
	return wilson(p*n/effect, n/effect)
}

// Mean is the arithmetic mean with Student's t interval. One value has no
// spread and its interval is infinite; ok is false for none.
func Mean(xs []float64) (Estimate, bool) {
	n := float64(len(xs))
	if n == 0 {
		return Estimate{}, false
	}
	m := mean(xs)
	if n == 1 {
		return Estimate{m, Interval{math.Inf(-1), math.Inf(1)}}, true
	}
	half := student(Confidence, n-1) * math.Sqrt(variance(xs)/n)
	return Estimate{m, Interval{m - half, m + half}}, true
}

// studentTail is the chance that a t-distributed number of df degrees of
// freedom lies outside ±t.
func studentTail(t, df float64) float64 {
	if math.IsNaN(t) {
		return 1
	}
	return mathext.RegIncBeta(df/2, 0.5, df/(df+t*t))
}
