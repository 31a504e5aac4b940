package stats

import "math"

// Count is how many of the graded attempts at one task passed.
type Count struct {
	Passed int
	Graded int
}

// PassAtK is the unbiased estimate of the chance that at least one of k
// attempts passes, given that c of n did: 1 − C(n−c,k)/C(n,k).
//
// Source: Chen et al. 2021, "Evaluating Large Language Models Trained on
// Code", and openai/human-eval's estimate_pass_at_k; the product is summed as
// logarithms here, so that large n loses no digits. ok is false when the
// estimate does not exist: k < 1, n < k, or c outside 0..n.
func PassAtK(n, c, k int) (p float64, ok bool) {
	if k < 1 || n < k || c < 0 || c > n {
		return 0, false
	}
	if n-c < k {
		return 1, true
	}
	return -math.Expm1(logMissAll(n, c, k)), true
}

// logMissAll is log(C(n−c,k)/C(n,k)), the log of the chance that k draws
// without replacement from n attempts, c of them passing, meet none that
// passes. It wants n−c ≥ k.
func logMissAll(n, c, k int) float64 {
	var sum float64
	for i := n - c + 1; i <= n; i++ {
		sum += math.Log1p(-float64(k) / float64(i))
	}
	return sum
}

// PassPowK is the unbiased estimate of the chance that all of k attempts pass,
// C(c,k)/C(n,k), written pass^k. ok is false as in [PassAtK].
func PassPowK(n, c, k int) (p float64, ok bool) {
	if k < 1 || n < k || c < 0 || c > n {
		return 0, false
	}
	if c < k {
		return 0, true
	}
	return math.Exp(logMissAll(n, n-c, k)), true
}

// AtK is pass@k or pass^k over a set of tasks.
type AtK struct {
	K      int      `json:"k"`
	Mean   Estimate `json:"mean"`
	Tasks  int      `json:"tasks"`  // tasks with at least K graded attempts: those that the mean stands on
	Tasked int      `json:"tasked"` // tasks in all
}

// PassAtKOver is the mean of pass@k over tasks, with the interval of
// [MeanShare]. A task with fewer than k graded attempts has no unbiased
// estimate and stands aside; Tasks and Tasked say how many did. ok is false
// when no task has k graded attempts.
func PassAtKOver(tasks []Count, k int) (AtK, bool) { return overTasks(tasks, nil, k, PassAtK) }

// PassAtKBy is [PassAtKOver] of tasks of which some belong together.
func PassAtKBy(tasks []Count, groups []int, k int) (AtK, bool) {
	return overTasks(tasks, groups, k, PassAtK)
}

// PassPowKBy is the mean of pass^k over tasks, as [PassAtKBy] is of pass@k.
func PassPowKBy(tasks []Count, groups []int, k int) (AtK, bool) {
	return overTasks(tasks, groups, k, PassPowK)
}

func overTasks(tasks []Count, groups []int, k int, of func(n, c, k int) (float64, bool)) (AtK, bool) {
	a := AtK{K: k, Tasked: len(tasks)}
	var each []float64
	var own []int
	most := 0
	for i, t := range tasks {
		p, ok := of(t.Graded, t.Passed, k)
		if !ok {
			continue
		}
		each = append(each, p)
		most += t.Graded / k
		if len(groups) == len(tasks) {
			own = append(own, groups[i])
		}
	}
	a.Tasks = len(each)
	m, ok := MeanShare(each, own, most)
	a.Mean = m.Estimate
	return a, ok
}

// Ks lists the k worth printing when the best-sampled task has n graded
// attempts: 1, 2, 5, 10, 20, 50, … below n, and n itself.
func Ks(n int) []int {
	var ks []int
	for scale := 1; scale < n; scale *= 10 {
		for _, m := range []int{1, 2, 5} {
			if k := m * scale; k < n {
				ks = append(ks, k)
			}
		}
	}
	if n > 0 {
		ks = append(ks, n)
	}
	return ks
}
