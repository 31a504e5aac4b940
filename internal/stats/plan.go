package stats

import "math"

// Assumptions of a plan: what is not known before a job has run. The zero
// value of each stands for the default beside it.
type Assumptions struct {
	Power      float64 // chance to see a difference that is there; 0.80
	Alpha      float64 // two-sided chance to see one that is not; 0.05
	Rate       float64 // expected pass rate; 0.5, where a difference is hardest to see
	Discordant float64 // share of tasks on which one attempt of each agent ends differently; 0.2
	// Lasting is the part of the discordance that repeating attempts does not
	// wash out, since the agents really differ on those tasks; 0.5.
	Lasting float64
}

func (a Assumptions) orDefaults() Assumptions {
	for _, d := range []struct {
		v    *float64
		or   float64
		high float64
	}{{&a.Power, 0.80, 1}, {&a.Alpha, 0.05, 1}, {&a.Rate, 0.5, 1}, {&a.Discordant, 0.2, 1}, {&a.Lasting, 0.5, 1}} {
		if !(*d.v > 0 && *d.v <= d.high) {
			*d.v = d.or
		}
	}
	return a
}

// reach is the sum of the two normal quantiles of a two-sided test, 2.80 at
// the defaults.
func (a Assumptions) reach() float64 { return normal(1-a.Alpha/2) + normal(a.Power) }

// DetectableUnpaired is the smallest difference between two pass rates that
// two separate samples of n trials each can show:
// (z₁₋α⁄₂ + z_power) · sqrt(2·p·(1−p)/n). ok is false when n < 1 or when even
// 0 % against 100 % would not be seen.
func DetectableUnpaired(n int, a Assumptions) (diff float64, ok bool) {
	a = a.orDefaults()
	if n < 1 {
		return 0, false
	}
	d := a.reach() * math.Sqrt(2*a.Rate*(1-a.Rate)/float64(n))
	return d, d <= 1
}

// DetectablePaired is the smallest difference that shows when both agents make
// k attempts at each of the same tasks and are compared task by task:
//
//	reach · sqrt(ψ·(r + (1−r)/k) / tasks)
//
// ψ (Discordant) is the variance of the difference of one attempt each, for
// equal agents exactly the share of discordant tasks: with task pass rates a
// and b, E[a(1−b)+b(1−a)] = E[(a−b)²] + E[a(1−a)+b(1−b)]. The first term stays
// however often one tries (r, Lasting), the second falls as 1/k. Approximate:
// normal, and ψ and r are guesses until a job has measured them. ok is false
// as in [DetectableUnpaired].
func DetectablePaired(tasks, k int, a Assumptions) (diff float64, ok bool) {
	a = a.orDefaults()
	if tasks < 1 || k < 1 {
		return 0, false
	}
	v := a.Discordant * (a.Lasting + (1-a.Lasting)/float64(k))
	d := a.reach() * math.Sqrt(v/float64(tasks))
	return d, d <= 1
}

// HalfWidth is half of the Wilson interval that n trials at the given pass
// rate will have: how far off one agent's rate may be.
func HalfWidth(n int, rate float64) float64 {
	i := wilson(rate*float64(n), float64(n))
	return (i.Hi - i.Lo) / 2
}

// PowerPaired is the chance that a paired comparison of so many tasks, k
// attempts each, shows a true difference of diff. Approximate as
// [DetectablePaired], which inverts it.
func PowerPaired(tasks, k int, diff float64, a Assumptions) (power float64, ok bool) {
	a = a.orDefaults()
	if tasks < 1 || k < 1 {
		return 0, false
	}
	se := math.Sqrt(a.Discordant * (a.Lasting + (1-a.Lasting)/float64(k)) / float64(tasks))
	return 0.5 * math.Erfc((normal(1-a.Alpha/2)-math.Abs(diff)/se)/math.Sqrt2), true
}

// TasksPaired is how many tasks, with k attempts each, a paired comparison
// needs to show a difference of diff. ok is false when diff or k is not
// positive.
func TasksPaired(diff float64, k int, a Assumptions) (tasks int, ok bool) {
	a = a.orDefaults()
	if !(diff > 0) || k < 1 {
		return 0, false
	}
	r := a.reach() / diff
	return int(math.Ceil(r*r*a.Discordant*(a.Lasting+(1-a.Lasting)/float64(k)) - 1e-9)), true
}
