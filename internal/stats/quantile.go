package stats

import (
	"math"
	"slices"
)

// Quantile is the p-quantile of xs, 0 ≤ p ≤ 1, interpolated linearly between
// the two nearest values (type 7 of Hyndman and Fan 1996, the default of R and
// NumPy). xs need not be sorted and is not changed. ok is false when xs is
// empty, p is out of range, or a value is not a number.
func Quantile(xs []float64, p float64) (q float64, ok bool) {
	s := slices.Clone(xs)
	slices.Sort(s)
	return sortedQuantile(s, p)
}

func sortedQuantile(s []float64, p float64) (float64, bool) {
	if len(s) == 0 || !(p >= 0 && p <= 1) || math.IsNaN(s[0]) { // Sort puts NaN first
		return 0, false
	}
	at := p * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1], true
	}
	f := at - float64(i)
	return s[i]*(1-f) + s[i+1]*f, true
}

// Spread sums up a set of measurements in their own unit.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
	Sum float64 `json:"sum"`
}

// SpreadOf is the median, 95th percentile, maximum and sum of xs. ok is false
// as in [Quantile].
func SpreadOf(xs []float64) (Spread, bool) {
	s := slices.Clone(xs)
	slices.Sort(s)
	p50, ok := sortedQuantile(s, 0.50)
	if !ok {
		return Spread{}, false
	}
	p95, _ := sortedQuantile(s, 0.95)
	var sum float64
	for _, x := range s {
		sum += x
	}
	return Spread{N: len(s), P50: p50, P95: p95, Max: s[len(s)-1], Sum: sum}, true
}
