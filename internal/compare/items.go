package compare

import (
	"fmt"

	"assay/internal/stats"
)

// items are the rows of the grid and how well they tell agents apart.
func (c *grid) items() ([]Task, Scale) {
	all := make([]Task, len(c.rows))
	scale := Scale{Agents: len(c.arms)}
	var whole []int // rows that every arm has a graded attempt at
	for i, r := range c.rows {
		t := Task{Name: r.name, Digest: r.digest, Labels: r.labels}
		var sum float64
		arms, passed, graded := 0, 0, 0
		for _, cell := range r.cells {
			n := tally(cell)
			t.Cells = append(t.Cells, Cell{n.Pass, n.Graded(), n.Planned})
			passed, graded = passed+n.Pass, graded+n.Graded()
			if n.Graded() > 0 {
				sum += share(n.Count())
				arms++
			}
		}
		t.Window = stats.WindowOf(passed, graded)
		if arms > 0 {
			m := sum / float64(arms)
			t.Pooled, t.Tier = &m, tierOf(m)
		}
		if arms == len(c.arms) {
			whole = append(whole, i)
		}
		all[i] = t
	}
	scale.Tasks = len(whole)
	if len(c.arms) < stats.MinPersons {
		scale.Why = fmt.Sprintf("insufficient: %d of at least %d agents", len(c.arms), stats.MinPersons)
		return all, scale
	}
	c.scale(all, whole, &scale)
	return all, scale
}

// scale adds what only many agents can tell.
func (c *grid) scale(all []Task, whole []int, s *Scale) {
	scores := make([][]float64, len(c.arms))
	counts := make([][]stats.Count, len(c.arms))
	for a := range c.arms {
		for _, i := range whole {
			n := tally(c.rows[i].cells[a]).Count()
			scores[a] = append(scores[a], share(n))
			counts[a] = append(counts[a], n)
		}
	}
	if k, ok := stats.KR20(scores); ok {
		s.KR20 = &k
	} else {
		s.Why = "insufficient: the agents' totals do not differ, or fewer than two tasks"
	}
	fit, fitted := stats.FitRasch(counts, stats.RaschPrior{})
	for n, i := range whole {
		if r, ok := stats.Discrimination(scores, n); ok {
			all[i].Corr = &r
		}
		if fitted {
			all[i].Logits = &fit.Difficulty[n]
		}
	}
}

// tierNames are the tiers from the hardest, by the pooled rate.
func tierNames() []string { return []string{"none", "hard", "middle", "easy", "all"} }

// tierOf places a pooled rate: nobody ever, below 30 %, 30 to 70 %, above, and
// everybody always.
func tierOf(p float64) string {
	switch {
	case p <= 0:
		return "none"
	case p < 0.3:
		return "hard"
	case p <= 0.7:
		return "middle"
	case p < 1:
		return "easy"
	}
	return "all"
}

// tiers are the arms' rates by pooled and by declared difficulty. Tiers made of
// the same trials say which tasks made the difference; they are no difficulty
// that was known before, and a rate within one proves nothing more.
func (c *grid) tiers(tasks []Task) (pooled, declared []Tier) {
	of := func(name string, in func(i int) bool) (Tier, bool) {
		t := Tier{Name: name}
		for i := range tasks {
			if in(i) {
				t.Tasks++
			}
		}
		for col := range c.arms {
			var counts []stats.Count
			var groups []int
			var all stats.Tally
			for i, r := range c.rows {
				if n := tally(r.cells[col]); in(i) && n.Planned > 0 {
					counts, groups, all = append(counts, n.Count()), append(groups, r.group), all.Plus(n)
				}
			}
			rate, _ := rateOf(all, counts, groups)
			if rate.Known {
				t.Rates = append(t.Rates, &rate)
			} else {
				t.Rates = append(t.Rates, nil)
			}
		}
		return t, t.Tasks > 0
	}
	for _, name := range tierNames() {
		if t, ok := of(name, func(i int) bool { return tasks[i].Tier == name }); ok {
			pooled = append(pooled, t)
		}
	}
	names := map[string]int{}
	for _, r := range c.rows {
		names[r.labels.Difficulty]++
	}
	if names[""] == len(c.rows) {
		return pooled, nil
	}
	for _, name := range sortedKeys(names) {
		shown := name
		if name == "" {
			shown = "not declared"
		}
		if t, ok := of(shown, func(i int) bool { return c.rows[i].labels.Difficulty == name }); ok {
			declared = append(declared, t)
		}
	}
	return pooled, declared
}
