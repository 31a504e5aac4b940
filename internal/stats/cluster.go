package stats

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

func sortBy(order []int, of func(int) float64) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(of(a), of(b)) })
}

// MinGroups is the number of repositories (or other groups of tasks) below
// which an interval by group would be a guess about its own width. Below it
// intervals are by task, and speak of tasks like these alone.
const MinGroups = 8

// MinEven is the number of groups of one size that groups must amount to,
// (Σn)²/Σn², for an interval by group. One repository with nearly all tasks
// tells nothing about others.
const MinEven = 3

// byGroups reports whether n tasks in these groups allow an interval by group.
func byGroups(groups, tasks int, even float64) bool {
	return groups >= MinGroups && groups < tasks && even >= MinEven
}

// FewGroups is the number of groups below which an interval by group is to be
// read with care: its width is itself uncertain by a fifth or more.
const FewGroups = 20

// ClusteredSE is the standard error of the mean of xs when values of one group
// resemble each other: sqrt(Σ_c Σ_ij (x_i−x̄)(x_j−x̄))/n (Miller 2024, "Adding
// Error Bars to Evals", §2.2), as it is published, without a correction for
// few groups. groups[i] is the group of xs[i].
func ClusteredSE(xs []float64, groups []int) float64 {
	n := float64(len(xs))
	if n == 0 || len(groups) != len(xs) {
		return math.NaN()
	}
	m := mean(xs)
	sums := map[int]float64{}
	for i, x := range xs {
		sums[groups[i]] += x - m
	}
	var v float64
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		v += sums[k] * sums[k]
	}
	return math.Sqrt(v) / n
}

// jackknifeSE is the standard error of the mean of xs by leaving one group out
// after the other, how many groups there are, and to how many groups of one
// size they amount. Unlike [ClusteredSE] it does not come out too small where
// groups are few or of unequal sizes (it is the CR3 estimator of MacKinnon and
// White 1985 for a mean).
func jackknifeSE(xs []float64, groups []int) (se float64, n int, even float64) {
	sum, count := map[int]float64{}, map[int]float64{}
	var total float64
	for i, x := range xs {
		sum[groups[i]] += x
		count[groups[i]]++
		total += x
	}
	g := float64(len(sum))
	if g < 2 {
		return math.NaN(), len(sum), g
	}
	m := total / float64(len(xs))
	var v, sizes float64
	for _, k := range slices.Sorted(maps.Keys(sum)) { // sums in one order: the last bit is always the same
		s := sum[k]
		sizes += count[k] * count[k]
		without := (total - s) / (float64(len(xs)) - count[k])
		v += (without - m) * (without - m)
	}
	size := float64(len(xs))
	return math.Sqrt((g - 1) / g * v), len(sum), size * size / sizes
}

func mean(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// variance is the unbiased one; 0 of fewer than two values.
func variance(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	m := mean(xs)
	var ss float64
	for _, x := range xs {
		ss += (x - m) * (x - m)
	}
	return ss / float64(len(xs)-1)
}

// Share is a mean of values within 0..1, one a task.
type Share struct {
	Estimate
	Tasks  int  `json:"tasks"`
	Groups int  `json:"groups"` // of tasks; 0: not known
	By     Unit `json:"by"`     // what the interval stands on
}

// MeanShare is the mean of values within 0..1, one a task (its pass rate, its
// pass@k, the share of its checks that passed), with the interval of Wilson's
// form for as many independent yes-or-no answers as have the same standard
// error. With one attempt each that is Wilson's interval itself. The tasks'
// own spread measures everything between them; it is not trusted to show more
// than most answers, which is how many attempts there were in all (0: as many
// as tasks). groups, which may be nil, say which tasks belong together; where
// they are [MinGroups] or more the interval is by group if that is wider. ok is
// false for no values.
func MeanShare(xs []float64, groups []int, most int) (Share, bool) {
	n := float64(len(xs))
	if n == 0 {
		return Share{}, false
	}
	s := Share{Tasks: len(xs), By: ByTask}
	m := min(1, max(0, mean(xs)))
	answers, t := n, normal(1-(1-Confidence)/2)
	v := variance(xs) / n
	if v > 0 {
		answers = min(m*(1-m)/v, max(n, float64(most)))
		if answers > n*1.001 { // the spread of the tasks was estimated: Student's t
			t = student(Confidence, n-1)
		}
	}
	s.Value, s.Interval = m, score(m, answers, t)
	if len(groups) != len(xs) {
		return s, true
	}
	se, g, even := jackknifeSE(xs, groups)
	s.Groups = g
	if !byGroups(g, len(xs), even) || se*se <= v {
		return s, true
	}
	by := score(m, m*(1-m)/(se*se), student(Confidence, max(1, even-1)))
	if by.Hi-by.Lo > s.Hi-s.Lo {
		s.Interval, s.By = by, ByGroup
	}
	return s, true
}
