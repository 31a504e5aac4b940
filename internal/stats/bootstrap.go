package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Method is how resamples become an interval.
type Method int

const (
	// Studentised (bootstrap-t): the quantiles of (θ* − θ)/se* around θ. It
	// covers best for means and ratios with skewed terms, and is the default.
	Studentised Method = iota + 1
	// BCa: percentiles corrected for bias and skewness (Efron 1987).
	BCa
	// Percentile: the quantiles of θ*. Too short for few units.
	Percentile
)

// resamples is enough for ends that change by a fiftieth of a standard error.
const resamples = 2000

// bootSeed makes every bootstrap of the same input the same.
const bootSeed = 0x61737361

// Ratio is one unit's part of a ratio of sums: its differences and how many
// tasks they are, or its cost and how often it was solved.
type Ratio struct{ Num, Den float64 }

// BootstrapRatio is the interval of Σ Num / Σ Den when units (tasks, or
// repositories with the sums of their tasks) are drawn anew with replacement.
// The mean of values is the ratio with Den 1. ok is false for fewer than two
// units and where Σ Den is not positive; resamples without a positive Den are
// passed over, and more than one in twenty of these is not ok either.
func BootstrapRatio(units []Ratio, by Method) (Estimate, bool) {
	theta, se, ok := ratio(units)
	if len(units) < 2 || !ok {
		return Estimate{}, false
	}
	rnd := rand.New(rand.NewPCG(bootSeed, uint64(len(units))))
	drawn := make([]Ratio, len(units))
	var thetas, ts []float64
	for range resamples {
		for i := range drawn {
			drawn[i] = units[rnd.IntN(len(units))]
		}
		th, s, ok := ratio(drawn)
		if !ok {
			continue
		}
		thetas = append(thetas, th)
		if s > 0 {
			ts = append(ts, (th-theta)/s)
		}
	}
	if len(thetas) < resamples*19/20 {
		return Estimate{}, false
	}
	slices.Sort(thetas)
	lo, hi := (1-Confidence)/2, 1-(1-Confidence)/2
	switch by {
	case BCa:
		lo, hi = bca(units, theta, thetas)
	case Studentised:
		slices.Sort(ts)
		up, ok1 := sortedQuantile(ts, hi)
		down, ok2 := sortedQuantile(ts, lo)
		if !ok1 || !ok2 || len(ts) < resamples*19/20 {
			return Estimate{}, false // hardly anything differs: the spread of resamples tells nothing
		}
		return Estimate{theta, Interval{theta - up*se, theta - down*se}}, true
	}
	from, ok1 := sortedQuantile(thetas, lo)
	to, ok2 := sortedQuantile(thetas, hi)
	return Estimate{theta, Interval{min(theta, from), max(theta, to)}}, ok1 && ok2
}

// ratio is Σ Num / Σ Den and its linearised standard error.
func ratio(units []Ratio) (theta, se float64, ok bool) {
	var num, den float64
	for _, u := range units {
		num, den = num+u.Num, den+u.Den
	}
	if !(den > 0) || math.IsInf(num, 0) || math.IsNaN(num) {
		return 0, 0, false
	}
	theta = num / den
	var ss float64
	for _, u := range units {
		r := u.Num - theta*u.Den
		ss += r * r
	}
	n := float64(len(units))
	return theta, math.Sqrt(ss*n/max(1, n-1)) / den, true
}

// bca are the two corrected percentiles: z0 from the share of resamples below
// the estimate, the acceleration from leaving one unit out after the other.
func bca(units []Ratio, theta float64, sorted []float64) (lo, hi float64) {
	below := 0.0
	for _, t := range sorted {
		if t < theta {
			below++
		} else if t == theta {
			below += 0.5
		}
	}
	share := below / float64(len(sorted))
	half := 0.5 / float64(len(sorted))
	z0 := normal(min(1-half, max(half, share)))
	var num, den float64
	for _, u := range units {
		num, den = num+u.Num, den+u.Den
	}
	var left []float64
	for _, u := range units {
		if den-u.Den > 0 {
			left = append(left, (num-u.Num)/(den-u.Den))
		}
	}
	m := mean(left)
	var s2, s3 float64
	for _, x := range left {
		d := m - x
		s2, s3 = s2+d*d, s3+d*d*d
	}
	a := 0.0
	if s2 > 0 {
		a = s3 / (6 * math.Pow(s2, 1.5))
	}
	at := func(p float64) float64 {
		z := z0 + normal(p)
		q := z0 + z/(1-a*z)
		return 0.5 * math.Erfc(-q/math.Sqrt2)
	}
	return at((1 - Confidence) / 2), at(1 - (1-Confidence)/2)
}

// PairedBootstrap is the studentised bootstrap of the mean difference of pairs,
// drawing tasks, or whole groups of them where by is [ByGroup]. It makes no
// assumption of [Paired]'s about the form of the differences, and needs more
// tasks: where too few differ it is not ok.
func PairedBootstrap(pairs []Pair, by Unit) (Estimate, bool) {
	var units []Ratio
	at := map[int]int{}
	for _, p := range pairs {
		i, seen := at[p.Group]
		if !seen || by != ByGroup {
			i = len(units)
			at[p.Group] = i
			units = append(units, Ratio{})
		}
		units[i].Num += p.A - p.B
		units[i].Den++
	}
	e, ok := BootstrapRatio(units, Studentised)
	e.Lo, e.Hi = max(-1, e.Lo), min(1, e.Hi)
	return e, ok
}
