package compare

import (
	"cmp"
	"slices"

	"assay/internal/stats"
	"assay/internal/store"
	"assay/trial"
)

// Arm is one arm over all its tasks, whether another arm tried them or not.
type Arm struct {
	Name  string      `json:"name"`
	Tasks int         `json:"tasks"`
	Tally stats.Tally `json:"tally"`
	// Rate is the chance to solve one of these tasks in one attempt: the mean of
	// the tasks' pass rates, so that a task whose attempts were lost weighs as
	// much as any.
	Rate   stats.Rate `json:"rate"`
	Unit   stats.Unit `json:"by"` // what the rate's interval stands on
	Groups int        `json:"groups"`
	Worst  float64    `json:"worst"` // the rate, had every trial without a verdict failed
	Best   float64    `json:"best"`  // and had every one of them passed
	AtK    []AtK      `json:"at_k,omitempty"`

	Checked int          `json:"checked"`           // graded trials with a check plan, which the next ones stand on
	Strict  *stats.Share `json:"strict,omitempty"`  // nothing else broken either
	Partial *stats.Share `json:"partial,omitempty"` // mean share of the fail-to-pass checks
	Reached *stats.Share `json:"milestones,omitempty"`

	Evidence []Count `json:"evidence"`
	Modes    []Count `json:"modes"`
	Causes   []Cause `json:"causes"`

	Turns  *stats.Spread `json:"turns_of_solved,omitempty"` // model calls of solved trials that counted them
	Cost   Spent         `json:"cost_usd"`
	Time   Spent         `json:"agent_seconds"`
	Tokens Spent         `json:"tokens"` // in and out
}

// AtK is pass@k (any of k attempts passes) and pass^k (all of them do).
type AtK struct {
	K   int        `json:"k"`
	Any *stats.AtK `json:"any"`
	All *stats.AtK `json:"all"`
}

// Count is how many trials a word stands for.
type Count struct {
	Word string `json:"word"`
	N    int    `json:"n"`
}

// Cause is why trials ended.
type Cause struct {
	Outcome trial.Outcome `json:"outcome"`
	Cause   trial.Cause   `json:"cause"`
	N       int           `json:"n"`
	Means   string        `json:"means"`
}

// Spent is what the graded trials took of something.
type Spent struct {
	Total   float64 `json:"total"`
	Known   int     `json:"known"`   // trials that say how much
	Unknown int     `json:"unknown"` // that do not: then Total is a lower bound
	Solved  int     `json:"solved"`  // trials among the graded ones
	// PerSolved is the total by solved trials, failed attempts included; null
	// where nothing is known or nothing was solved.
	PerSolved *float64        `json:"per_solved"`
	Interval  *stats.Interval `json:"interval"`  // of PerSolved, by bootstrap over tasks; null of too few
	Mean      *float64        `json:"per_trial"` // by the trials that know it
	MeanOf    *stats.Interval `json:"per_trial_interval"`
}

// figures are those of every arm of the grid.
func (c *grid) figures() []Arm {
	all := make([]Arm, len(c.arms))
	ks := c.ks()
	for col, name := range c.arms {
		all[col] = c.figure(name, col, ks)
	}
	return all
}

// ks are the k worth printing: those of the best-sampled cell but 1, which is
// the rate.
func (c *grid) ks() []int {
	most := 0
	for _, r := range c.rows {
		for _, cell := range r.cells {
			most = max(most, tally(cell).Graded())
		}
	}
	if ks := stats.Ks(most); len(ks) > 1 {
		return ks[1:]
	}
	return nil
}

// planned are the rows at which an arm planned an attempt.
func (c *grid) planned(col int) (rows []row) {
	for _, r := range c.rows {
		if len(r.cells[col]) > 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

func (c *grid) figure(name string, col int, ks []int) Arm {
	rows := c.planned(col)
	a := Arm{Name: name, Tasks: len(rows)}
	var all []attempt
	var counts []stats.Count
	var groups []int
	for _, r := range rows {
		t := tally(r.cells[col])
		a.Tally = a.Tally.Plus(t)
		all = append(all, r.cells[col]...)
		counts, groups = append(counts, t.Count()), append(groups, r.group)
		a.Worst += float64(t.Pass) / float64(t.Planned) / float64(len(rows))
		a.Best += float64(t.Pass+t.Planned-t.Graded()) / float64(t.Planned) / float64(len(rows))
	}
	var share stats.Share
	a.Rate, share = rateOf(a.Tally, counts, groups)
	a.Unit, a.Groups = share.By, share.Groups
	for _, k := range ks {
		at := AtK{K: k}
		if p, ok := stats.PassAtKBy(counts, groups, k); ok {
			at.Any = &p
		}
		if p, ok := stats.PassPowKBy(counts, groups, k); ok {
			at.All = &p
		}
		a.AtK = append(a.AtK, at)
	}
	a.checks(rows, col)
	a.Cost = spent(rows, col, func(t *store.Trial) (float64, bool) {
		if t.Usage.CostUSD == nil {
			return 0, false
		}
		return *t.Usage.CostUSD, !t.Usage.Partial
	})
	a.Time = spent(rows, col, agentSeconds)
	a.Tokens = spent(rows, col, tokens)
	a.words(all)
	return a
}

// rateOf is the mean of the tasks' rates.
func rateOf(t stats.Tally, counts []stats.Count, groups []int) (stats.Rate, stats.Share) {
	r := stats.Rate{Passed: t.Pass, Graded: t.Graded(), Planned: t.Planned}
	var xs []float64
	var own []int
	for i, c := range counts {
		if c.Graded > 0 {
			xs = append(xs, float64(c.Passed)/float64(c.Graded))
			own = append(own, groups[i])
		}
	}
	s, ok := stats.MeanShare(xs, own, r.Graded)
	r.Estimate, r.Known = s.Estimate, ok
	if !ok {
		r.Interval = stats.Interval{Lo: 0, Hi: 1}
	}
	return r, s
}

// checks are the figures of trials that were graded by a check plan.
func (a *Arm) checks(rows []row, col int) {
	var strict, partial, reached []float64
	var groups, staged []int
	most := 0
	for _, r := range rows {
		var s, p, m, n, nm float64
		for _, t := range r.cells[col] {
			c := t.Record.Checks
			if !t.graded || c == nil {
				continue
			}
			n++
			if c.Strict && c.Void == "" {
				s++
			}
			p += partOf(c)
			if part, ok := milestones(c); ok {
				m += part
				nm++
			}
		}
		if n > 0 {
			strict, partial, groups = append(strict, s/n), append(partial, p/n), append(groups, r.group)
			most += int(n)
		}
		if nm > 0 {
			reached, staged = append(reached, m/nm), append(staged, r.group)
		}
	}
	a.Checked = most
	for _, p := range []struct {
		xs     []float64
		groups []int
		into   **stats.Share
	}{{strict, groups, &a.Strict}, {partial, groups, &a.Partial}, {reached, staged, &a.Reached}} {
		if s, ok := stats.MeanShare(p.xs, p.groups, most); ok {
			*p.into = &s
		}
	}
}

// partOf is the share of the fail-to-pass checks that passed, of all expected
// ones where there are none; nothing of a void report counts.
func partOf(c *trial.Checks) float64 {
	s := c.FailToPass
	if s.Total == 0 {
		s = c.PassToPass
	}
	if c.Void != "" || s.Total == 0 {
		return 0
	}
	return float64(s.Passed) / float64(s.Total)
}

// milestones is the weight of the milestones that were reached over all.
func milestones(c *trial.Checks) (part float64, ok bool) {
	var got, all float64
	for _, m := range c.Milestones {
		w := cmp.Or(m.Weight, 1)
		all += w
		if m.Reached && c.Void == "" {
			got += w
		}
	}
	if !(all > 0) {
		return 0, false
	}
	return got / all, true
}

// agentSeconds is the agent's own time: its phase where phases were measured,
// else the whole trial's.
func agentSeconds(t *store.Trial) (float64, bool) {
	var ms float64
	found := false
	for _, p := range t.Record.Phases {
		if p.Phase == trial.PhaseAgent {
			ms += p.Millis
			found = true
		}
	}
	if !found {
		ms = t.Millis()
		found = ms > 0
	}
	return ms / 1000, found
}

func tokens(t *store.Trial) (float64, bool) {
	if t.Usage.InputTokens == nil || t.Usage.OutputTokens == nil {
		return 0, false
	}
	return float64(*t.Usage.InputTokens + *t.Usage.OutputTokens), !t.Usage.Partial
}

// spent adds up the graded trials; of returns false for what is unknown or
// only a lower bound.
func spent(rows []row, col int, of func(*store.Trial) (float64, bool)) (s Spent) {
	var solved, trials []stats.Ratio
	for _, r := range rows {
		var u, n stats.Ratio
		graded := 0
		for _, t := range r.cells[col] {
			if !t.graded {
				continue
			}
			graded++
			x, ok := of(t.Trial)
			u.Num += x
			if ok {
				s.Known++
				n.Num += x
				n.Den++
			} else {
				s.Unknown++
			}
			if t.passed {
				u.Den++
				s.Solved++
			}
		}
		if graded > 0 {
			s.Total += u.Num
			solved, trials = append(solved, u), append(trials, n)
		}
	}
	if s.Known == 0 {
		return s
	}
	if s.Solved > 0 {
		v := s.Total / float64(s.Solved)
		s.PerSolved = &v
		if e, ok := stats.BootstrapRatio(solved, stats.BCa); ok {
			s.Interval = &stats.Interval{Lo: max(0, e.Lo), Hi: e.Hi}
		}
	}
	var sum float64
	for _, n := range trials {
		sum += n.Num
	}
	m := sum / float64(s.Known)
	s.Mean = &m
	if e, ok := stats.BootstrapRatio(trials, stats.BCa); ok {
		s.MeanOf = &stats.Interval{Lo: max(0, e.Lo), Hi: e.Hi}
	}
	return s
}

// words counts endings, evidence and modes, and the turns of solved trials.
func (a *Arm) words(all []attempt) {
	evidence, modes, causes := map[string]int{}, map[string]int{}, map[trial.Cause]int{}
	var turns []float64
	for _, t := range all {
		if t.Status == store.TrialFinished {
			causes[t.Cause]++
		}
		if !t.graded {
			continue
		}
		evidence[cmp.Or(string(t.Evidence), "unknown")]++
		modes[t.mode]++
		if t.passed && t.Record.Calls != nil {
			turns = append(turns, float64(*t.Record.Calls))
		}
	}
	a.Evidence, a.Modes = byCount(evidence), byCount(modes)
	if s, ok := stats.SpreadOf(turns); ok {
		a.Turns = &s
	}
	for _, e := range trial.Endings() {
		if n := causes[e.Cause]; n > 0 {
			a.Causes = append(a.Causes, Cause{e.Outcome, e.Cause, n, e.Means})
		}
	}
}

func byCount(m map[string]int) []Count {
	all := []Count{}
	for _, w := range sortedKeys(m) {
		all = append(all, Count{w, m[w]})
	}
	slices.SortStableFunc(all, func(a, b Count) int { return cmp.Compare(b.N, a.N) })
	return all
}
