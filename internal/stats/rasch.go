package stats

import "math"

// Placed is one agent or task on the scale of a Rasch model.
type Placed struct {
	Logits float64 `json:"logits"`
	SE     float64 `json:"se"` // from the observed information, all else held
}

// Rasch is a fit of the one-parameter model: agent a passes task i with the
// chance 1/(1+exp(b_i−θ_a)).
type Rasch struct {
	Ability    []Placed `json:"ability"`    // of agents; their mean is 0
	Difficulty []Placed `json:"difficulty"` // of tasks
	// Reliability is the share of the variance of abilities that is not error:
	// 1 − mean(SE²)/var(θ). It is 0 where that is negative, and of one agent.
	Reliability float64 `json:"reliability"`
	Steps       int     `json:"steps"` // until nothing moved by more than 1e-9
}

// RaschPrior are the standard deviations of the Gaussian priors in logits; the
// zero value is 3 for abilities, around 0, and 3 for difficulties, around their
// mean. They keep agents that pass or fail everything finite.
type RaschPrior struct{ Ability, Difficulty float64 }

// FitRasch finds the joint maximum of the posterior by alternating Newton
// steps. counts[a][i] are agent a's attempts at task i; none is a hole, not a
// failure. The posterior is strictly concave, so that there is one maximum. As
// with every joint fit, abilities spread too far when tasks are few (by about
// 1/tasks). ok is false without agents or tasks, or when rows differ in length.
func FitRasch(counts [][]Count, prior RaschPrior) (r Rasch, ok bool) {
	if len(counts) == 0 || len(counts[0]) == 0 {
		return r, false
	}
	for _, row := range counts {
		if len(row) != len(counts[0]) {
			return r, false
		}
	}
	if !(prior.Ability > 0) {
		prior.Ability = 3
	}
	if !(prior.Difficulty > 0) {
		prior.Difficulty = 3
	}
	f := raschFit{counts, make([]float64, len(counts)), make([]float64, len(counts[0])), 1 / (prior.Ability * prior.Ability), 1 / (prior.Difficulty * prior.Difficulty)}
	for r.Steps = 1; r.Steps <= 2000; r.Steps++ {
		if f.sweep() < 1e-9 {
			break
		}
	}
	for a := range f.theta {
		_, h := f.agent(a)
		r.Ability = append(r.Ability, Placed{f.theta[a], 1 / math.Sqrt(h)})
	}
	mean := f.middle()
	for i := range f.b {
		_, h := f.task(i, mean)
		r.Difficulty = append(r.Difficulty, Placed{f.b[i], 1 / math.Sqrt(h)})
	}
	var noise float64
	for _, a := range r.Ability {
		noise += a.SE * a.SE / float64(len(r.Ability))
	}
	if v := variance(f.theta); v > 0 {
		r.Reliability = max(0, 1-noise/v)
	}
	return r, true
}

type raschFit struct {
	counts       [][]Count
	theta, b     []float64
	tight, loose float64 // precisions of the priors of abilities and difficulties
}

// sweep moves every ability, then every difficulty, by a bounded Newton step,
// and returns the largest move.
func (f *raschFit) sweep() (most float64) {
	step := func(x *float64, grad, info float64) {
		d := max(-2, min(2, grad/info))
		*x += d
		most = max(most, math.Abs(d))
	}
	for a := range f.theta {
		g, h := f.agent(a)
		step(&f.theta[a], g, h)
	}
	// The scale is free to slide: the mean ability is 0 by choice.
	shift := mean(f.theta)
	for a := range f.theta {
		f.theta[a] -= shift
	}
	for i := range f.b {
		f.b[i] -= shift
	}
	m := f.middle()
	for i := range f.b {
		g, h := f.task(i, m)
		step(&f.b[i], g, h)
	}
	return most
}

func (f *raschFit) middle() float64 { return mean(f.b) }

// agent is the gradient of the log posterior in one ability, and its negative
// second derivative.
func (f *raschFit) agent(a int) (grad, info float64) {
	grad, info = -f.theta[a]*f.tight, f.tight
	for i, c := range f.counts[a] {
		p := logistic(f.theta[a] - f.b[i])
		grad += float64(c.Passed) - float64(c.Graded)*p
		info += float64(c.Graded) * p * (1 - p)
	}
	return grad, info
}

func (f *raschFit) task(i int, around float64) (grad, info float64) {
	grad, info = -(f.b[i]-around)*f.loose, f.loose
	for a := range f.counts {
		c := f.counts[a][i]
		p := logistic(f.theta[a] - f.b[i])
		grad += float64(c.Graded)*p - float64(c.Passed)
		info += float64(c.Graded) * p * (1 - p)
	}
	return grad, info
}

// logistic is 1/(1+exp(−x)) without overflow.
func logistic(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}
