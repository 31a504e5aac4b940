package compare

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/stats"
)

// Verdict is what a comparison of two arms came to.
type Verdict string

const (
	ABetter    Verdict = "a"
	BBetter    Verdict = "b"
	CannotTell Verdict = "cannot tell"
	Unpaired   Verdict = "nothing to pair" // fewer than two tasks that both have
)

// level is the chance to name a winner where there is none, of all comparisons
// of a report together.
const level = 0.05

// Pair compares two arms on the tasks that both have, with equal digests and
// under equal modes.
type Pair struct {
	A       string            `json:"a"`
	B       string            `json:"b"`
	Verdict Verdict           `json:"verdict"`
	RateA   stats.Rate        `json:"rate_a"` // on the paired tasks
	RateB   stats.Rate        `json:"rate_b"`
	Diff    *stats.Difference `json:"difference"` // A less B, of the tasks' rates
	// Adjusted is Diff.P after Holm's correction for all comparisons of the
	// report (or data set). A winner is named when it is below 0.05.
	Adjusted float64         `json:"p_adjusted"`
	Of       int             `json:"comparisons"`
	Boot     *stats.Interval `json:"bootstrap"`         // studentised, by task or repository as Diff.By; null of too few
	McNemar  *stats.McNemar  `json:"mcnemar,omitempty"` // where both made one attempt each
	Worst    float64         `json:"worst"`             // the difference, had A's lost trials failed and B's passed
	Best     float64         `json:"best"`              // and the other way round
	Survives bool            `json:"survives"`          // the verdict's sign holds between Worst and Best
	// Needed is how many tasks such a comparison needs to show the difference
	// that was seen, and Detectable the one that this sample probably shows;
	// both at a power of 80 %.
	Needed     int       `json:"tasks_needed,omitempty"`
	Detectable float64   `json:"detectable,omitempty"`
	Dropped    []Dropped `json:"dropped,omitempty"`
	Sentence   string    `json:"sentence"`
}

// Dropped is what was left out of a comparison, and why.
type Dropped struct {
	Why   string   `json:"why"`
	Tasks []string `json:"tasks"`
}

// pairs compares every arm with the baseline, or each with each.
func (c *grid) pairs(baseline int) []Pair {
	all := []Pair{}
	for i := range c.arms {
		for j := i + 1; j < len(c.arms); j++ {
			switch baseline {
			case -1:
				all = append(all, c.pair(i, j))
			case i:
				all = append(all, c.pair(j, i)) // the newcomer first
			case j:
				all = append(all, c.pair(i, j))
			}
		}
	}
	decide(all)
	return all
}

// decide names winners. It is the only place that does.
func decide(all []Pair) {
	var ps []float64
	for _, p := range all {
		if p.Diff != nil {
			ps = append(ps, p.Diff.P)
		}
	}
	adjusted := stats.Holm(ps)
	n := 0
	for i := range all {
		p := &all[i]
		p.Of = len(ps)
		if p.Diff == nil {
			p.Verdict, p.Adjusted = Unpaired, 1
			p.Sentence = p.say()
			continue
		}
		p.Adjusted = adjusted[n]
		n++
		switch {
		case p.Adjusted >= level:
			p.Verdict = CannotTell
		case p.Diff.Value > 0:
			p.Verdict = ABetter
		default:
			p.Verdict = BBetter
		}
		p.Survives = p.Worst > 0 && p.Diff.Value > 0 || p.Best < 0 && p.Diff.Value < 0
		p.Sentence = p.say()
	}
}

// match is one task in a comparison.
type match struct {
	row            row
	a, b           []attempt
	countA, countB stats.Count
}

func (c *grid) pair(i, j int) Pair {
	p := Pair{A: c.arms[i], B: c.arms[j]}
	matches, dropped := c.matches(i, j)
	p.Dropped = dropped
	var as, bs []stats.Count
	var groups []int
	var ta, tb stats.Tally
	single := true
	for _, m := range matches {
		as, bs, groups = append(as, m.countA), append(bs, m.countB), append(groups, m.row.group)
		ta, tb = ta.Plus(tally(m.a)), tb.Plus(tally(m.b))
		single = single && m.countA.Graded == 1 && m.countB.Graded == 1
	}
	p.RateA, _ = rateOf(ta, as, groups)
	p.RateB, _ = rateOf(tb, bs, groups)
	p.bounds(c, i, j)
	d, ok := stats.DifferenceOf(as, bs, groups)
	if !ok {
		return p
	}
	p.Diff = &d
	p.Detectable = d.Detectable()
	if n, ok := d.TasksToShow(d.Value); ok {
		p.Needed = n
	}
	pairs := make([]stats.Pair, len(as))
	for k := range as {
		pairs[k] = stats.Pair{A: share(as[k]), B: share(bs[k]), Group: groups[k]}
	}
	if e, ok := stats.PairedBootstrap(pairs, d.By); ok {
		p.Boot = &e.Interval
	}
	if single {
		m := stats.McNemarOf(d.Better, d.Worse)
		p.McNemar = &m
	}
	return p
}

func share(c stats.Count) float64 { return float64(c.Passed) / float64(c.Graded) }

// matches finds the tasks that two arms share, and says of every other why not.
func (c *grid) matches(i, j int) (all []match, dropped []Dropped) {
	drop := func(why string, r row) {
		at := slices.IndexFunc(dropped, func(d Dropped) bool { return d.Why == why })
		if at < 0 {
			at = len(dropped)
			dropped = append(dropped, Dropped{Why: why})
		}
		dropped[at].Tasks = append(dropped[at].Tasks, r.name)
	}
	byName := map[string][2]bool{}
	for _, r := range c.rows {
		has := byName[r.name]
		has[0], has[1] = has[0] || len(r.cells[i]) > 0, has[1] || len(r.cells[j]) > 0
		byName[r.name] = has
	}
	for _, r := range c.rows {
		a, b := r.cells[i], r.cells[j]
		if len(a) == 0 && len(b) == 0 {
			continue
		}
		if len(a) == 0 || len(b) == 0 {
			who := c.arms[i]
			if len(a) == 0 {
				who = c.arms[j]
			}
			switch has := byName[r.name]; {
			case has[0] && has[1] && r.digest == "":
				drop("the task's digest is not known in "+who+"'s job: it may be another version", r)
			case has[0] && has[1]:
				drop("another version of the task (its digest differs)", r)
			default:
				drop("only "+who+" tried it", r)
			}
			continue
		}
		if why := lost(c.arms[i], a); why != "" {
			drop(why, r)
			continue
		}
		if why := lost(c.arms[j], b); why != "" {
			drop(why, r)
			continue
		}
		mode, why := common(a, b)
		if why != "" {
			drop(why, r)
			continue
		}
		m := match{row: r, a: under(a, mode), b: under(b, mode)}
		if len(m.a)+len(m.b) < len(a)+len(b) {
			drop("some attempts of it, made under other modes than "+mode, r)
		}
		m.countA, m.countB = tally(m.a).Count(), tally(m.b).Count()
		all = append(all, m)
	}
	return all, dropped
}

// lost says why none of an arm's attempts at a task can be compared.
func lost(arm string, all []attempt) string {
	t := tally(all)
	if t.Graded() > 0 {
		return ""
	}
	var l []string
	for _, p := range []struct {
		n    int
		word string
	}{{t.Infra, "lost to infrastructure"}, {t.Invalid, "of a broken task"}, {t.Cancelled, "cancelled"}, {t.Planned - t.Ended(), "not run to its end"}} {
		if p.n > 0 {
			l = append(l, p.word)
		}
	}
	return arm + " has no verdict on it: " + strings.Join(l, ", ")
}

// common is the mode under which both have most attempts, or what differs.
func common(a, b []attempt) (mode, why string) {
	count := func(all []attempt) map[string]int {
		n := map[string]int{}
		for _, t := range all {
			if t.graded {
				n[t.mode]++
			}
		}
		return n
	}
	na, nb := count(a), count(b)
	best := 0
	for _, m := range sortedKeys(na) {
		if n := min(na[m], nb[m]); n > best {
			mode, best = m, n
		}
	}
	if best > 0 {
		return mode, ""
	}
	return "", "other modes: " + differing(sortedKeys(na)[0], sortedKeys(nb)[0])
}

// differing names the modes that differ between two keys.
func differing(a, b string) string {
	as, bs := strings.Fields(a), strings.Fields(b)
	var l []string
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			name, va, _ := strings.Cut(as[i], "=")
			_, vb, _ := strings.Cut(bs[i], "=")
			l = append(l, fmt.Sprintf("%s %s and %s", name, va, vb))
		}
	}
	return strings.Join(l, ", ")
}

// under keeps the attempts of one mode, and those that have none since they
// came to no verdict.
func under(all []attempt, mode string) []attempt {
	return slices.DeleteFunc(slices.Clone(all), func(t attempt) bool { return t.graded && t.mode != mode })
}

// bounds are the difference on every task that both planned, had all trials
// without a verdict ended in the worst and in the best way for A.
func (p *Pair) bounds(c *grid, i, j int) {
	n := 0.0
	for _, r := range c.rows {
		a, b := tally(r.cells[i]), tally(r.cells[j])
		if a.Planned == 0 || b.Planned == 0 {
			continue
		}
		n++
		lo := func(t stats.Tally) float64 { return float64(t.Pass) / float64(t.Planned) }
		hi := func(t stats.Tally) float64 { return float64(t.Pass+t.Planned-t.Graded()) / float64(t.Planned) }
		p.Worst += lo(a) - hi(b)
		p.Best += hi(a) - lo(b)
	}
	if n > 0 {
		p.Worst, p.Best = p.Worst/n, p.Best/n
	}
}

// versions notes tasks that stand in several versions.
func (c *grid) versions() []string {
	n := map[string]int{}
	for _, r := range c.rows {
		n[r.name]++
	}
	var many []string
	for _, name := range sortedKeys(n) {
		if n[name] > 1 {
			many = append(many, fmt.Sprintf("%s (%d)", name, n[name]))
		}
	}
	if len(many) == 0 {
		return nil
	}
	return []string{"tasks in several versions, each compared with itself alone: " + few(many, 5)}
}

// few lists at most n words and counts the rest.
func few(words []string, n int) string {
	if len(words) <= n {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), len(words)-n)
}
