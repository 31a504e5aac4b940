package compare

import (
	"fmt"
	"strconv"
	"strings"

	"assay/internal/stats"
)

// Gated is what a gate came to for one arm, or for one comparison.
type Gated struct {
	Gate  string          `json:"gate"`
	Arm   string          `json:"arm"`
	Met   bool            `json:"met"`
	Value *float64        `json:"value"` // of the metric; null: not known, and the gate not met
	CI    *stats.Interval `json:"interval"`
	Line  string          `json:"line"` // what came out and why
	// Partial: trials have no verdict, so that the figure is not that of the
	// whole plan. Sure: the gate would be met, or not met, whatever they had
	// come to; only of resolved.
	Partial bool `json:"partial"`
	Sure    bool `json:"sure,omitempty"`
}

// Check holds every gate against every arm; the difference, against every
// comparison with the baseline.
func (r *Report) Check(gates []Gate) (all []Gated, met bool) {
	met = true
	for _, g := range gates {
		if g.Metric == "difference" {
			for i := range r.Pairs {
				all = append(all, r.Pairs[i].check(g))
			}
			if len(r.Pairs) == 0 {
				all = append(all, Gated{Gate: g.Text, Line: "there are no two arms to compare"}.told(g))
			}
			continue
		}
		for i := range r.Arms {
			all = append(all, r.Arms[i].check(g))
		}
		if len(r.Arms) == 0 {
			all = append(all, Gated{Gate: g.Text, Line: "there are no trials"}.told(g))
		}
	}
	for _, c := range all {
		met = met && c.Met
	}
	return all, met
}

// figure is a metric's value and interval; nil: not known, and why.
type figure struct {
	value *float64
	ci    *stats.Interval
	on    string // what it stands on
	why   string
}

func known(e stats.Estimate, on string) figure { return figure{&e.Value, &e.Interval, on, ""} }

func (a *Arm) metric(g Gate) figure {
	graded := fmt.Sprintf("%d/%d trials graded", a.Rate.Graded, a.Rate.Planned)
	switch g.Metric {
	case "resolved":
		if a.Rate.Known {
			return known(a.Rate.Estimate, graded)
		}
		return figure{why: "nothing was graded (" + graded + ")"}
	case "graded":
		if a.Rate.Planned > 0 {
			return known(stats.Estimate{Value: float64(a.Rate.Graded) / float64(a.Rate.Planned), Interval: stats.Wilson(a.Rate.Graded, a.Rate.Planned)}, graded)
		}
	case "pass@K", "pass^K":
		return a.atK(g)
	case "strict":
		return checked(a.Strict, a.Checked, a.Rate.Graded)
	case "partial":
		return checked(a.Partial, a.Checked, a.Rate.Graded)
	case "cost":
		return a.Cost.mean("cost")
	case "cost_per_solved":
		return a.Cost.perSolved("cost")
	case "time":
		return a.Time.mean("time")
	case "time_per_solved":
		return a.Time.perSolved("time")
	case "tokens_per_solved":
		return a.Tokens.perSolved("tokens")
	case "turns":
		if a.Turns != nil {
			return figure{value: &a.Turns.P50, on: fmt.Sprintf("%d solved trials", a.Turns.N)}
		}
		return figure{why: "no solved trial counted its model calls"}
	}
	return figure{why: "nothing was planned"}
}

func (a *Arm) atK(g Gate) figure {
	for _, at := range a.AtK {
		p := at.Any
		if g.Metric == "pass^K" {
			p = at.All
		}
		if at.K == g.K && p != nil {
			return known(p.Mean, fmt.Sprintf("%d of %d tasks with %d graded attempts", p.Tasks, p.Tasked, g.K))
		}
	}
	if g.K == 1 && a.Rate.Known { // pass^1 is the rate
		return known(a.Rate.Estimate, fmt.Sprintf("%d/%d trials graded", a.Rate.Graded, a.Rate.Planned))
	}
	return figure{why: fmt.Sprintf("no task has %d graded attempts, or %s is not among those that are counted (1, 2, 5, 10, 20, … and the most that a task has)", g.K, g.name())}
}

func checked(s *stats.Share, n, graded int) figure {
	if s == nil {
		return figure{why: "no graded trial has a check plan"}
	}
	return known(s.Estimate, fmt.Sprintf("%d of %d graded trials have a check plan", n, graded))
}

func (s Spent) on() string {
	if s.Unknown > 0 {
		return fmt.Sprintf("%d trials, unknown of %d more", s.Known, s.Unknown)
	}
	return fmt.Sprintf("%d trials", s.Known)
}

func (s Spent) mean(what string) figure {
	if s.Mean == nil {
		return figure{why: "no graded trial knows its " + what}
	}
	return figure{value: s.Mean, ci: s.MeanOf, on: s.on()}
}

// perSolved is not known where trials do not say: a lower bound must not meet a
// gate.
func (s Spent) perSolved(what string) figure {
	switch {
	case s.Known == 0:
		return figure{why: "no graded trial knows its " + what}
	case s.PerSolved == nil:
		return figure{why: "nothing was solved"}
	case s.Unknown > 0:
		return figure{why: fmt.Sprintf("%d of %d graded trials do not know their %s", s.Unknown, s.Known+s.Unknown, what)}
	}
	return figure{value: s.PerSolved, ci: s.Interval, on: s.on()}
}

func (a *Arm) check(g Gate) Gated {
	c := Gated{Gate: g.Text, Arm: a.Name}
	c.judge(g, a.metric(g))
	if n := a.Rate.Planned - a.Rate.Graded; n > 0 {
		c.Partial = true
		c.Line += "; " + a.lostWords(n)
		if g.Metric == "resolved" && a.Rate.Known {
			c.Line += fmt.Sprintf(", so that it lies between %s and %s whatever they had come to", number(g, a.Worst), number(g, a.Best))
			c.Sure = g.holds(a.Worst) == g.holds(a.Best)
			if g.End == Value && !c.Sure {
				c.Line += ": the gate could go either way"
			}
		}
	}
	return c.told(g)
}

// lostWords says why trials have no verdict.
func (a *Arm) lostWords(n int) string {
	t := a.Tally
	var l []string
	for _, p := range []struct {
		n    int
		word string
	}{{t.Infra, "lost to infrastructure"}, {t.Invalid, "of broken tasks"}, {t.Cancelled, "cancelled"}, {t.Planned - t.Ended(), "not run to their end"}} {
		if p.n > 0 {
			l = append(l, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return fmt.Sprintf("the job is partial: %d of %d trials have no verdict (%s)", n, t.Planned, strings.Join(l, ", "))
}

func (p *Pair) check(g Gate) Gated {
	c := Gated{Gate: g.Text, Arm: p.A + " against " + p.B}
	f := figure{why: "they have fewer than two tasks in common that both were graded on"}
	if p.Diff != nil {
		f = known(p.Diff.Estimate, fmt.Sprintf("%d tasks", p.Diff.Tasks))
	}
	c.judge(g, f)
	if n := p.RateA.Planned + p.RateB.Planned - p.RateA.Graded - p.RateB.Graded; n > 0 {
		c.Partial = true
		c.Line += fmt.Sprintf("; %d trials of these tasks have no verdict: between %s and %s whatever they had come to", n, number(g, p.Worst), number(g, p.Best))
		c.Sure = g.holds(p.Worst) == g.holds(p.Best)
	}
	return c.told(g)
}

// judge decides; what is not known meets no gate.
func (c *Gated) judge(g Gate, f figure) {
	c.Value, c.CI = f.value, f.ci
	if f.value == nil {
		c.Line = f.why
		return
	}
	c.Line = number(g, *f.value)
	if f.ci != nil {
		c.Line += fmt.Sprintf(" (95 %% interval %s to %s)", number(g, f.ci.Lo), number(g, f.ci.Hi))
	}
	c.Line += " on " + f.on
	if g.End == Value {
		c.Met = g.holds(*f.value)
		return
	}
	if f.ci == nil {
		c.Line += ", too few for an interval"
		return
	}
	end, word := f.ci.Lo, "lower"
	if g.End == Upper {
		end, word = f.ci.Hi, "upper"
	}
	c.Met = g.holds(end)
	c.Line += fmt.Sprintf("; its %s end counts", word)
}

// told puts the gate before what came out.
func (c Gated) told(g Gate) Gated {
	word := "not met"
	if c.Met {
		word = "met"
	}
	who := ""
	if c.Arm != "" {
		who = " by " + c.Arm
	}
	c.Line = fmt.Sprintf("gate %s: %s%s: %s", g.Text, word, who, c.Line)
	return c
}

// number prints a metric's value in its unit.
func number(g Gate, x float64) string {
	for _, m := range metrics() {
		if m.name != g.Metric {
			continue
		}
		switch {
		case m.share:
			return Points(x) + " %"
		case m.unit == "$":
			return "$" + strconv.FormatFloat(x, 'f', 4, 64)
		case m.unit == "s":
			return strconv.FormatFloat(x, 'f', 1, 64) + " s"
		}
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}
