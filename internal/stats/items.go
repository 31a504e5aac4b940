package stats

import "math"

// MinPersons is the number of agents below which what is said of a set of
// tasks by how agents differ (reliability, discrimination) is not said at all.
const MinPersons = 10

// Window says whether a task tells agents apart: those that nearly all solve,
// or nearly none, do not.
type Window string

const (
	InWindow   Window = "in"     // 30 to 70 %, and the interval within 20 to 80 %
	TooEasy    Window = "easy"   // above 70 %
	TooHard    Window = "hard"   // below 30 %
	WindowOpen Window = "unsure" // 30 to 70 %, of too few attempts to say so
)

// WindowOf places c passes of n graded attempts. Of fewer than 20 attempts
// hardly any rate but one half is sure to be in the window.
func WindowOf(c, n int) Window {
	if n <= 0 {
		return WindowOpen
	}
	p, i := float64(c)/float64(n), Wilson(c, n)
	switch {
	case p > 0.7:
		return TooEasy
	case p < 0.3:
		return TooHard
	case i.Lo >= 0.2 && i.Hi <= 0.8:
		return InWindow
	}
	return WindowOpen
}

// Discrimination is the point-biserial correlation of one task with the rest
// score: scores[a][i] is what agent a came to at task i (0 or 1, or its pass
// rate), and the task itself is left out of the score. Below 0.10 a task is to
// be reviewed; below 0 its verifier or its text is probably wrong, since agents
// that are better elsewhere are worse at it. ok is false for fewer than
// [MinPersons] agents and where nothing varies.
func Discrimination(scores [][]float64, task int) (r float64, ok bool) {
	if len(scores) < MinPersons {
		return 0, false
	}
	own, rest := make([]float64, len(scores)), make([]float64, len(scores))
	for a, row := range scores {
		if task >= len(row) {
			return 0, false
		}
		for i, x := range row {
			if i == task {
				own[a] = x
			} else {
				rest[a] += x
			}
		}
	}
	return correlation(own, rest)
}

func correlation(xs, ys []float64) (float64, bool) {
	mx, my := mean(xs), mean(ys)
	var xy, xx, yy float64
	for i := range xs {
		dx, dy := xs[i]-mx, ys[i]-my
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	if !(xx > 1e-12) || !(yy > 1e-12) {
		return 0, false
	}
	return xy / math.Sqrt(xx*yy), true
}

// KR20 is the reliability of the total score over tasks, Kuder and Richardson's
// formula 20, k/(k−1)·(1 − Σ pq/σ²), for scores of 0 and 1, and Cronbach's
// alpha, which it is a case of, for scores between. Persons are agents, not
// trials. ok is false, which is printed as "insufficient", for fewer than
// [MinPersons] agents, fewer than two tasks, and where all totals are equal.
func KR20(scores [][]float64) (alpha float64, ok bool) {
	if len(scores) < MinPersons || len(scores[0]) < 2 {
		return 0, false
	}
	k := len(scores[0])
	totals := make([]float64, len(scores))
	var items float64
	for i := range k {
		col := make([]float64, len(scores))
		for a, row := range scores {
			if len(row) != k {
				return 0, false
			}
			col[a] = row[i]
			totals[a] += row[i]
		}
		items += variance(col)
	}
	all := variance(totals)
	if !(all > 1e-12) {
		return 0, false
	}
	return float64(k) / float64(k-1) * (1 - items/all), true
}
