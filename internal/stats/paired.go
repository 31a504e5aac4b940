package stats

import "math"

// Pair is what two agents came to on the same task: the share of its graded
// attempts that each passed, or any other mean of something within 0..1.
type Pair struct {
	A, B  float64
	Group int // repository, or whatever tasks share; 0 is as good a number as any
}

// Unit is what an interval takes to be drawn independently.
type Unit string

const (
	ByTask  Unit = "task"
	ByGroup Unit = "repository"
)

// Difference is how much better A is than B on the tasks of a population that
// these are a sample of: the mean over tasks of A's share less B's.
type Difference struct {
	Estimate
	Tasks   int     `json:"tasks"`
	Groups  int     `json:"groups"` // of tasks
	Even    float64 `json:"even"`   // to how many groups of one size they amount
	By      Unit    `json:"by"`     // what the interval stands on
	SE      float64 `json:"se"`     // of that unit
	P       float64 `json:"p"`      // two-sided, of no difference; below 0.05 exactly when the interval leaves 0 out
	Better  int     `json:"better"` // tasks where A did better
	Worse   int     `json:"worse"`
	Equal   int     `json:"equal"`
	Spread  float64 `json:"spread"`            // standard deviation of one task's difference
	Lasting float64 `json:"lasting,omitempty"` // see [DifferenceOf]
}

// GroupsTooFew reports whether tasks share groups that are too few or too uneven
// to stand for others: then the interval speaks of tasks of these groups.
func (d Difference) GroupsTooFew() bool {
	return d.Groups < d.Tasks && !byGroups(d.Groups, d.Tasks, d.Even)
}

// Shows reports whether the interval leaves 0 out.
func (d Difference) Shows() bool { return d.Lo > 0 || d.Hi < 0 }

// unseen is how many tasks' worth of typical differences [Paired] adds, half
// of it for either agent.
const unseen = 1

// Paired is the difference with its interval: Student's t on the tasks'
// differences and one more task that nobody saw, which is half a typical
// difference for A and half a one for B. Bonett and Price (2012, "Adjusted Wald
// Confidence Interval for a Difference of Binomial Proportions Based on Paired
// Data") add two for one attempt each, with the normal quantile: with few
// differing tasks the plain interval is far too short, and of no width where
// none differs. One, with Student's, is what simulations of tasks of many
// difficulties with one to ten attempts ask for (TestPairedCovers).
//
// Where tasks come from at least [MinGroups] groups of which some hold more
// than one, the interval is by group if that one is wider: a group that suits
// one agent is one fact and not as many as it has tasks. Its degrees of freedom
// are those of as many groups of one size as are as uneven, (Σn)²/Σn², less 1;
// below [MinEven] of these it would say nothing, and is by task after all. ok is
// false for fewer than two tasks.
func Paired(pairs []Pair) (d Difference, ok bool) {
	n := float64(len(pairs))
	if len(pairs) < 2 {
		return d, false
	}
	xs, groups := make([]float64, len(pairs)), make([]int, len(pairs))
	var typical float64 // root mean square of the differences that are not 0
	for i, p := range pairs {
		x := p.A - p.B
		xs[i], groups[i] = x, p.Group
		switch {
		case x > 0:
			d.Better++
		case x < 0:
			d.Worse++
		default:
			d.Equal++
		}
		typical += x * x
	}
	if differ := d.Better + d.Worse; differ > 0 {
		typical = math.Sqrt(typical / float64(differ))
	} else {
		typical = 1
	}
	d.Tasks, d.Value, d.By = len(pairs), mean(xs), ByTask
	d.Spread = math.Sqrt(variance(xs))
	centre := d.Value * n / (n + unseen)
	ss := unseen*typical*typical - (n+unseen)*centre*centre
	for _, x := range xs {
		ss += x * x
	}
	df := n - 1
	d.SE = math.Sqrt(ss / (n + unseen - 1) / (n + unseen))
	half := student(Confidence, df) * d.SE
	se, g, even := jackknifeSE(xs, groups)
	d.Groups, d.Even = g, even
	if byGroups(g, len(pairs), even) {
		dfg := max(1, even-1)
		if wider := student(Confidence, dfg) * se; wider > half {
			d.SE, d.By, df, half = se, ByGroup, dfg, wider
		}
	}
	d.Interval = Interval{max(-1, min(d.Value, centre-half)), min(1, max(d.Value, centre+half))}
	d.P = studentTail(math.Abs(centre)/d.SE, df)
	return d, true
}

// DifferenceOf is [Paired] for attempts that passed or failed. Lasting is then
// the part of the variance of a task's difference that more attempts would not
// wash out (0..1, for one attempt of each agent), where tasks with several
// attempts of both let it be told; it is 0 where they do not. Tasks that one
// of the two has no graded attempt at must not be among the counts.
func DifferenceOf(a, b []Count, groups []int) (Difference, bool) {
	if len(a) != len(b) || len(groups) != len(a) {
		return Difference{}, false
	}
	pairs := make([]Pair, len(a))
	var within, noise float64 // of one attempt each; of the shares as they are
	told := true
	for i := range a {
		if a[i].Graded == 0 || b[i].Graded == 0 {
			return Difference{}, false
		}
		pairs[i] = Pair{A: share(a[i]), B: share(b[i]), Group: groups[i]}
		for _, c := range []Count{a[i], b[i]} {
			if c.Graded < 2 {
				told = false
				continue
			}
			p := share(c)
			v := p * (1 - p) * float64(c.Graded) / float64(c.Graded-1)
			within += v
			noise += v / float64(c.Graded)
		}
	}
	d, ok := Paired(pairs)
	if !ok || !told {
		return d, ok
	}
	n := float64(len(a))
	between := max(0, d.Spread*d.Spread-noise/n)
	if all := between + within/n; all > 0 {
		d.Lasting = max(0.01, between/all)
	}
	return d, ok
}

func share(c Count) float64 { return float64(c.Passed) / float64(c.Graded) }

// TasksToShow is how many tasks in all a comparison like this one needs to
// show a difference of diff with a power of 80 %, given the spread that it
// measured. Where the interval is by group, so many more groups are meant. ok
// is false when diff is 0.
func (d Difference) TasksToShow(diff float64) (tasks int, ok bool) {
	if diff == 0 || d.Tasks < 2 {
		return 0, false
	}
	reach := Assumptions{}.orDefaults().reach()
	n := reach * reach * d.SE * d.SE * float64(d.Tasks) / (diff * diff)
	if n > 1e9 {
		return 0, false
	}
	return max(2, int(math.Ceil(n))), true
}

// Detectable is the smallest true difference that a comparison like this one
// would show with a power of 80 %, given the spread that it measured.
func (d Difference) Detectable() float64 {
	return min(1, Assumptions{}.orDefaults().reach()*d.SE)
}
