package stats

// Tally counts how trials ended. Trials that are planned and have not ended
// are in Planned alone.
type Tally struct {
	Planned      int `json:"planned"`
	Pass         int `json:"pass"`
	Fail         int `json:"fail"`
	Inconclusive int `json:"inconclusive"` // counts as unresolved: crashing the verifier never pays
	Invalid      int `json:"invalid"`
	Infra        int `json:"infra"`
	Cancelled    int `json:"cancelled"`
}

// Graded is the denominator of the pass rate: the trials whose ending says
// something about the agent.
func (t Tally) Graded() int { return t.Pass + t.Fail + t.Inconclusive }

// Lost is how many trials ended without a verdict on the agent.
func (t Tally) Lost() int { return t.Invalid + t.Infra + t.Cancelled }

// Ended is how many trials are over.
func (t Tally) Ended() int { return t.Graded() + t.Lost() }

// Count is the tally as pass@k and clustered intervals want it.
func (t Tally) Count() Count { return Count{Passed: t.Pass, Graded: t.Graded()} }

// Plus adds two tallies.
func (t Tally) Plus(u Tally) Tally {
	return Tally{
		Planned: t.Planned + u.Planned, Pass: t.Pass + u.Pass, Fail: t.Fail + u.Fail,
		Inconclusive: t.Inconclusive + u.Inconclusive, Invalid: t.Invalid + u.Invalid,
		Infra: t.Infra + u.Infra, Cancelled: t.Cancelled + u.Cancelled,
	}
}

// Rate is a pass rate as it is printed: never without its interval and never
// without how many of the planned trials it stands on.
type Rate struct {
	Estimate
	Passed  int  `json:"passed"`
	Graded  int  `json:"graded"`
	Planned int  `json:"planned"`
	Known   bool `json:"known"` // false when nothing was graded; Value is then meaningless
}

// RateOf is the pass rate of trials of different tasks, or of one task.
func RateOf(t Tally) Rate {
	r := Rate{Passed: t.Pass, Graded: t.Graded(), Planned: t.Planned, Known: t.Graded() > 0}
	r.Interval = Wilson(r.Passed, r.Graded)
	if r.Known {
		r.Value = float64(r.Passed) / float64(r.Graded)
	}
	return r
}

// RateOver is the pass rate over several tasks with several attempts each; its
// interval is that of [WilsonByTask].
func RateOver(tasks []Tally) Rate {
	var all Tally
	counts := make([]Count, len(tasks))
	for i, t := range tasks {
		all = all.Plus(t)
		counts[i] = t.Count()
	}
	r := RateOf(all)
	r.Interval = WilsonByTask(counts)
	return r
}
