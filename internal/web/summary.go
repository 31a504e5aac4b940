package web

import (
	"cmp"
	"slices"

	"assay/internal/stats"
	"assay/trial"
)

// Summary is everything a job page or table says above its list of trials.
type Summary struct {
	Tally  stats.Tally
	Rate   stats.Rate
	Agents []AgentRow
	Tasks  []TaskRow
	Ks     []int // the k of every AgentRow.AtK, largest last; empty when one attempt is all
	Causes []CauseRow
	Timing Timing
	Usage  Used
}

// AgentRow is one agent over all its tasks.
type AgentRow struct {
	Agent    string
	Tally    stats.Tally
	Rate     stats.Rate
	AtK      []AtK
	Evidence []string // labels, most trials first
	Labels   []string
	Wall     stats.Spread // ms
	Overhead stats.Spread // ms; N is 0 when nothing was measured
	Usage    Used
}

// AtK is one pass@k, which may not exist.
type AtK struct {
	stats.AtK
	Known bool
}

// TaskRow is one task with a cell for each agent, in the order of
// [Summary.Agents].
type TaskRow struct {
	Task  string
	Tally stats.Tally
	Cells []Cell
}

// Cell is one agent's attempts at one task.
type Cell struct {
	Tally  stats.Tally
	Trials []*Trial
}

// CauseRow counts trials that ended for one cause.
type CauseRow struct {
	Outcome trial.Outcome
	Fault   trial.Fault
	Cause   trial.Cause
	Means   string
	Counted bool
	N       int
}

// Summarize adds up the trials. Agents stand in the order in which the job
// names them first, tasks in the order of their names.
func Summarize(trials []*Trial) Summary {
	var s Summary
	agents := map[string]int{}
	tasks := map[string]int{}
	var cells [][][]*Trial // task, agent
	for _, t := range trials {
		if _, ok := agents[t.Agent]; !ok {
			agents[t.Agent] = len(agents)
			s.Agents = append(s.Agents, AgentRow{Agent: t.Agent})
		}
		if _, ok := tasks[t.Task]; !ok {
			tasks[t.Task] = len(tasks)
			s.Tasks = append(s.Tasks, TaskRow{Task: t.Task})
			cells = append(cells, nil)
		}
		row, col := tasks[t.Task], agents[t.Agent]
		for len(cells[row]) <= col {
			cells[row] = append(cells[row], nil)
		}
		cells[row][col] = append(cells[row][col], t)
		s.Tally = s.Tally.Plus(t.tally())
	}
	for row := range s.Tasks {
		s.Tasks[row].fill(cells[row], len(s.Agents))
	}
	slices.SortStableFunc(s.Tasks, func(a, b TaskRow) int { return cmp.Compare(a.Task, b.Task) })
	s.Ks = ksOf(s.Tasks)
	for col := range s.Agents {
		s.agent(col, trials)
	}
	s.Rate = stats.RateOver(tallies(s.Tasks))
	s.Causes = causes(trials)
	s.Timing = TimingOf(trials)
	s.Usage = usageOf(trials)
	return s
}

func tallies(rows []TaskRow) []stats.Tally {
	all := make([]stats.Tally, len(rows))
	for i, r := range rows {
		all[i] = r.Tally
	}
	return all
}

func (r *TaskRow) fill(cells [][]*Trial, agents int) {
	r.Cells = make([]Cell, agents)
	for col, ts := range cells {
		c := Cell{Trials: ts}
		for _, t := range ts {
			c.Tally = c.Tally.Plus(t.tally())
		}
		slices.SortStableFunc(c.Trials, func(a, b *Trial) int { return cmp.Compare(a.Rep, b.Rep) })
		r.Cells[col] = c
		r.Tally = r.Tally.Plus(c.Tally)
	}
}

// ksOf chooses at most three k: a reader compares few numbers.
func ksOf(tasks []TaskRow) []int {
	most := 0
	for _, r := range tasks {
		for _, c := range r.Cells {
			most = max(most, c.Tally.Graded())
		}
	}
	ks := stats.Ks(most)
	if len(ks) < 2 {
		return nil
	}
	ks = ks[1:] // pass@1 is the rate
	if len(ks) > 3 {
		ks = []int{ks[0], ks[len(ks)/2], ks[len(ks)-1]}
	}
	return ks
}

func (s *Summary) agent(col int, trials []*Trial) {
	a := &s.Agents[col]
	var own []*Trial
	for _, t := range trials {
		if t.Agent == a.Agent {
			own = append(own, t)
		}
	}
	var each []stats.Tally
	var counts []stats.Count
	for _, r := range s.Tasks {
		c := r.Cells[col].Tally
		a.Tally = a.Tally.Plus(c)
		each = append(each, c)
		if c.Planned > 0 {
			counts = append(counts, c.Count())
		}
	}
	a.Rate = stats.RateOver(each)
	for _, k := range s.Ks {
		p, ok := stats.PassAtKOver(counts, k)
		a.AtK = append(a.AtK, AtK{AtK: p, Known: ok})
	}
	a.Evidence = labels(own, func(t *Trial) []string {
		if e := t.EvidenceLabel(); e != "" {
			return []string{e}
		}
		return nil
	})
	a.Labels = labels(own, (*Trial).Labels)
	a.Wall, _ = stats.SpreadOf(pick(own, func(t *Trial) (float64, bool) { return t.Wall, t.Ended() && t.Wall > 0 }))
	a.Overhead, _ = stats.SpreadOf(pick(own, func(t *Trial) (float64, bool) { return t.Overhead, t.Ended() && t.Timed }))
	a.Usage = usageOf(own)
}

// labels collects words, most frequent first.
func labels(trials []*Trial, of func(*Trial) []string) []string {
	n := map[string]int{}
	var words []string
	for _, t := range trials {
		for _, w := range of(t) {
			if n[w]++; n[w] == 1 {
				words = append(words, w)
			}
		}
	}
	slices.SortStableFunc(words, func(a, b string) int { return cmp.Compare(n[b], n[a]) })
	return words
}

func pick(trials []*Trial, get func(*Trial) (float64, bool)) []float64 {
	var xs []float64
	for _, t := range trials {
		if x, ok := get(t); ok {
			xs = append(xs, x)
		}
	}
	return xs
}

func usageOf(trials []*Trial) Used {
	var all []trial.Usage
	calls := 0
	for _, t := range trials {
		if t.Ended() {
			all = append(all, t.Usage)
			if t.Calls != nil {
				calls += *t.Calls
			}
		}
	}
	u := sumUsage(all)
	u.Calls = calls
	return u
}

// causes counts endings in the order of [trial.Endings]; words that are not
// registered come last, so that nothing is hidden.
func causes(trials []*Trial) []CauseRow {
	n := map[CauseRow]int{}
	for _, t := range trials {
		if t.Ended() {
			n[CauseRow{Outcome: t.Outcome, Fault: t.Fault, Cause: t.Cause}]++
		}
	}
	order := map[trial.Cause]int{}
	for i, e := range trial.Endings() {
		order[e.Cause] = i + 1
	}
	var rows []CauseRow
	for r, count := range n {
		r.N = count
		r.Counted = r.Outcome == trial.Pass || r.Outcome == trial.Fail || r.Outcome == trial.Inconclusive
		if e, err := r.Cause.Ending(); err == nil {
			r.Means = e.Means
		}
		rows = append(rows, r)
	}
	rank := func(r CauseRow) int {
		if i := order[r.Cause]; i > 0 {
			return i
		}
		return len(order) + 1
	}
	slices.SortFunc(rows, func(a, b CauseRow) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Cause, b.Cause),
			cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Fault, b.Fault))
	})
	return rows
}
