package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/internal/compare"
	"assay/internal/stats"
	"assay/trial"
)

// sheet is one table of a comparison, the same for terminal, Markdown and page.
// Its cells may hold names of a trial: whoever prints them cleans them.
type sheet struct {
	Title string
	Note  string // what a reader must know before the numbers
	Head  []string
	Right map[int]bool // columns of numbers
	Rows  [][]string
}

func (s *sheet) add(cells ...string) { s.Rows = append(s.Rows, cells) }

// sheets are all tables of a comparison; the grid of tasks is the last.
func sheets(r *compare.Report) (all []sheet) {
	keep := func(s sheet) {
		if len(s.Rows) > 0 {
			all = append(all, s)
		}
	}
	keep(armSheet("Arms", r.Arms))
	keep(pairSheet("Comparisons", r.Pairs))
	keep(leftOutSheet(r.Pairs))
	keep(spentSheet("Spending", r.Arms))
	keep(tierSheet("Difficulty, by the pooled rate of all arms", pooledNote, r.Arms, r.Tiers))
	keep(tierSheet("Difficulty, as tasks declare it", "", r.Arms, r.Declared))
	keep(causeSheet("Endings", r.Arms))
	keep(conditionSheet(r.Arms))
	for _, s := range r.Sources {
		title := fmt.Sprintf("Data set %s, %s: ", s.Name, count(s.Tasks, "task", "tasks"))
		keep(armSheet(title+"arms", s.Arms))
		keep(pairSheet(title+"comparisons", s.Pairs))
		keep(spentSheet(title+"spending", s.Arms))
		keep(tierSheet(title+"difficulty, pooled", pooledNote, s.Arms, s.Tiers))
		keep(tierSheet(title+"difficulty, declared", "", s.Arms, s.Declared))
		keep(causeSheet(title+"endings", s.Arms))
	}
	keep(taskSheet(r))
	return all
}

const pooledNote = "These tiers are made of the same trials: they say where a difference was made, not that a task was known to be hard."

// by marks an interval that stands on repositories.
func by(u stats.Unit) string {
	if u == stats.ByGroup {
		return " †"
	}
	return ""
}

func armSheet(title string, arms []compare.Arm) sheet {
	s := sheet{Title: title, Head: []string{"arm", "rate", "95 % interval", "graded/planned", "if lost failed … passed", "tasks"}, Right: map[int]bool{1: true, 3: true, 5: true}}
	if len(arms) == 0 {
		return s
	}
	checked := slices.ContainsFunc(arms, func(a compare.Arm) bool { return a.Checked > 0 })
	staged := slices.ContainsFunc(arms, func(a compare.Arm) bool { return a.Reached != nil })
	for _, at := range arms[0].AtK {
		s.Head = append(s.Head, fmt.Sprintf("pass@%d", at.K), fmt.Sprintf("pass^%d", at.K))
	}
	if checked {
		s.Head = append(s.Head, "strict", "partial", "checked")
	}
	if staged {
		s.Head = append(s.Head, "milestones")
	}
	s.Head = append(s.Head, "evidence")
	for _, a := range arms {
		row := []string{a.Name, unknown, unknown, fmt.Sprintf("%d/%d", a.Rate.Graded, a.Rate.Planned), compare.Points(a.Worst) + " … " + compare.Points(a.Best) + " %", strconv.Itoa(a.Tasks)}
		if a.Rate.Known {
			row[1], row[2] = Percent(a.Rate.Value), interval(a.Rate.Interval)+by(a.Unit)
		}
		for _, at := range a.AtK {
			row = append(row, atK(at.Any), atK(at.All))
		}
		if checked {
			row = append(row, shareWord(a.Strict), shareWord(a.Partial), fmt.Sprintf("%d/%d", a.Checked, a.Rate.Graded))
		}
		if staged {
			row = append(row, shareWord(a.Reached))
		}
		s.add(append(row, countWords(a.Evidence))...)
		if a.Unit == stats.ByGroup {
			s.Note = fmt.Sprintf("† by %d repositories%s.", a.Groups, fewWords(a.Groups))
		}
	}
	if slices.ContainsFunc(arms, func(a compare.Arm) bool {
		return slices.ContainsFunc(a.Evidence, func(c compare.Count) bool { return c.Word == string(trial.SelfReported) })
	}) {
		s.Note = strings.TrimSpace(s.Note + " Evidence self-reported: verdicts are the word of the tasks' own test scripts.")
	}
	return s
}

func fewWords(groups int) string {
	if groups < stats.FewGroups {
		return ", which are few: read these intervals with care"
	}
	return ""
}

func atK(p *stats.AtK) string {
	if p == nil {
		return unknown
	}
	s := Percent(p.Mean.Value) + " " + interval(p.Mean.Interval)
	if p.Tasks != p.Tasked {
		s += fmt.Sprintf(" of %d/%d tasks", p.Tasks, p.Tasked)
	}
	return s
}

func shareWord(s *stats.Share) string {
	if s == nil {
		return unknown
	}
	return Percent(s.Value) + " " + interval(s.Interval) + by(s.By)
}

// countWords says "separate", or "canaried 40, self-reported 2".
func countWords(all []compare.Count) string {
	var l []string
	for _, c := range all {
		w := c.Word
		if len(all) > 1 {
			w += " " + strconv.Itoa(c.N)
		}
		l = append(l, w)
	}
	if len(l) == 0 {
		return unknown
	}
	return strings.Join(l, ", ")
}

func pairSheet(title string, pairs []compare.Pair) sheet {
	single := slices.ContainsFunc(pairs, func(p compare.Pair) bool { return p.McNemar != nil })
	s := sheet{Title: title, Head: []string{"A", "B", "A − B, in 100 tasks", "95 % interval", "p", "verdict", "tasks", "A better/B better/equal", "graded/planned", "if lost went against … for A", "tasks to show it"}, Right: map[int]bool{2: true, 4: true, 6: true}}
	if single {
		s.Head = append(s.Head, "McNemar, exact (mid-p)")
	}
	for _, p := range pairs {
		row := []string{p.A, p.B, unknown, unknown, unknown, verdictWord(p), "0", unknown, unknown, unknown, unknown}
		if d := p.Diff; d != nil {
			row[2], row[3], row[4], row[6] = signed(d.Value), "["+compare.Points(d.Lo)+", "+compare.Points(d.Hi)+"]"+by(d.By), pWord(p.Adjusted), strconv.Itoa(d.Tasks)
			row[7] = fmt.Sprintf("%d/%d/%d", d.Better, d.Worse, d.Equal)
			row[8] = fmt.Sprintf("%d/%d, %d/%d", p.RateA.Graded, p.RateA.Planned, p.RateB.Graded, p.RateB.Planned)
			row[9] = signed(p.Worst) + " … " + signed(p.Best)
			if p.Needed > d.Tasks {
				row[10] = strconv.Itoa(p.Needed)
			}
			if d.By == stats.ByGroup {
				s.Note = fmt.Sprintf("† by %d repositories%s.", d.Groups, fewWords(d.Groups))
			}
		}
		if m := p.McNemar; m != nil {
			row = append(row, pWord(m.Exact)+" ("+pWord(m.MidP)+")")
		} else if single {
			row = append(row, unknown)
		}
		s.add(row...)
	}
	if len(pairs) > 1 {
		s.Note = strings.TrimSpace(s.Note + fmt.Sprintf(" p after Holm's correction for %d comparisons; each interval is for itself alone.", pairs[0].Of))
	}
	return s
}

func verdictWord(p compare.Pair) string {
	switch p.Verdict {
	case compare.ABetter:
		return "A is better"
	case compare.BBetter:
		return "B is better"
	}
	return string(p.Verdict)
}

func signed(x float64) string {
	s := compare.Points(x)
	if x > 0 && s != "0" {
		return "+" + s
	}
	return s
}

func pWord(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

func leftOutSheet(pairs []compare.Pair) sheet {
	s := sheet{Title: "Left out of comparisons", Head: []string{"A", "B", "tasks", "why", "which"}, Right: map[int]bool{2: true}}
	for _, p := range pairs {
		for _, d := range p.Dropped {
			which := d.Tasks
			more := ""
			if len(which) > 3 {
				which, more = which[:3], fmt.Sprintf(" and %d more", len(d.Tasks)-3)
			}
			s.add(p.A, p.B, strconv.Itoa(len(d.Tasks)), d.Why, strings.Join(which, ", ")+more)
		}
	}
	return s
}

func spentSheet(title string, arms []compare.Arm) sheet {
	s := sheet{Title: title, Note: "Of graded trials; failed attempts are part of what a solved one costs. Intervals by bootstrap over tasks.",
		Head:  []string{"arm", "solved", "cost per solved", "time per solved", "tokens per solved", "time per trial", "turns of solved, p50"},
		Right: map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true}}
	dollars := func(x float64) string { return Dollars(&x) }
	seconds := func(x float64) string { return Millis(1000 * x) }
	many := func(x float64) string { n := int64(x); return Tokens(&n) }
	any := false
	for _, a := range arms {
		turns := unknown
		if a.Turns != nil {
			turns = fmt.Sprintf("%.3g (p95 %.3g, n %d)", a.Turns.P50, a.Turns.P95, a.Turns.N)
		}
		any = any || a.Cost.Known+a.Time.Known+a.Tokens.Known > 0
		s.add(a.Name, fmt.Sprintf("%d/%d", a.Time.Solved, a.Rate.Graded), perSolved(a.Cost, dollars), perSolved(a.Time, seconds), perSolved(a.Tokens, many), perTrial(a.Time, seconds), turns)
	}
	if !any {
		s.Rows = nil
	}
	return s
}

func perSolved(s compare.Spent, word func(float64) string) string {
	if s.PerSolved == nil {
		return unknown
	}
	return spentWord(*s.PerSolved, s.Interval, s, word)
}

func perTrial(s compare.Spent, word func(float64) string) string {
	if s.Mean == nil {
		return unknown
	}
	w := s
	w.Unknown = 0 // the mean is of those that know
	return spentWord(*s.Mean, s.MeanOf, w, word)
}

func spentWord(x float64, i *stats.Interval, s compare.Spent, word func(float64) string) string {
	w := word(x)
	if s.Unknown > 0 {
		w = "≥ " + w
	}
	if i != nil {
		return w + " [" + word(i.Lo) + ", " + word(i.Hi) + "]"
	}
	return w + " [too few]"
}

func tierSheet(title, note string, arms []compare.Arm, tiers []compare.Tier) sheet {
	s := sheet{Title: title, Note: note, Head: []string{"tier", "tasks"}, Right: map[int]bool{1: true}}
	for _, a := range arms {
		s.Head = append(s.Head, a.Name)
	}
	words := map[string]string{"none": "nobody solved it", "hard": "hard, below 30 %", "middle": "30 to 70 %", "easy": "easy, above 70 %", "all": "everybody always"}
	for _, t := range tiers {
		name := t.Name
		if w, ok := words[name]; ok && note == pooledNote {
			name = w
		}
		row := []string{name, strconv.Itoa(t.Tasks)}
		for _, r := range t.Rates {
			if r == nil {
				row = append(row, unknown)
				continue
			}
			row = append(row, fmt.Sprintf("%s %s of %d/%d", Percent(r.Value), interval(r.Interval), r.Graded, r.Planned))
		}
		s.add(row...)
	}
	return s
}

func causeSheet(title string, arms []compare.Arm) sheet {
	s := sheet{Title: title, Head: []string{"cause", "outcome"}, Right: map[int]bool{}}
	var order []compare.Cause
	for i, a := range arms {
		s.Head = append(s.Head, a.Name)
		s.Right[2+i] = true
		for _, c := range a.Causes {
			if !slices.ContainsFunc(order, func(o compare.Cause) bool { return o.Cause == c.Cause }) {
				order = append(order, c)
			}
		}
	}
	s.Head = append(s.Head, "meaning")
	for _, o := range order {
		row := []string{string(o.Cause), string(o.Outcome)}
		for _, a := range arms {
			n := 0
			if i := slices.IndexFunc(a.Causes, func(c compare.Cause) bool { return c.Cause == o.Cause }); i >= 0 {
				n = a.Causes[i].N
			}
			row = append(row, strconv.Itoa(n))
		}
		s.add(append(row, o.Means)...)
	}
	return s
}

// conditionSheet names the modes of verdicts where they are not one and the
// same for all.
func conditionSheet(arms []compare.Arm) sheet {
	s := sheet{Title: "Conditions", Note: "Only attempts under equal conditions are compared.", Head: []string{"arm", "trials", "modes"}, Right: map[int]bool{1: true}}
	one, several := "", false
	for _, a := range arms {
		for _, m := range a.Modes {
			several = several || one != "" && m.Word != one
			one = m.Word
			s.add(a.Name, strconv.Itoa(m.N), m.Word)
		}
	}
	if !several {
		s.Rows = nil
	}
	return s
}

func taskSheet(r *compare.Report) sheet {
	s := sheet{Title: "Tasks", Note: "Passed of graded attempts.", Head: []string{"task"}, Right: map[int]bool{}}
	if r.Scale.Why != "" {
		s.Note += " Reliability (KR-20), discrimination and a common scale of difficulty: " + r.Scale.Why + "."
	} else if r.Scale.KR20 != nil {
		s.Note += fmt.Sprintf(" KR-20 of %d agents at %d tasks: %.2f.", r.Scale.Agents, r.Scale.Tasks, *r.Scale.KR20)
	}
	for _, a := range r.Arms {
		s.Head = append(s.Head, a.Name)
	}
	scaled := slices.ContainsFunc(r.Tasks, func(t compare.Task) bool { return t.Logits != nil })
	s.Head = append(s.Head, "window")
	if scaled {
		s.Head = append(s.Head, "difficulty", "discrimination")
	}
	for _, t := range r.Tasks {
		row := []string{t.Name}
		for _, c := range t.Cells {
			w := fmt.Sprintf("%d/%d", c.Passed, c.Graded)
			switch {
			case c.Planned == 0:
				w = unknown
			case c.Graded != c.Planned:
				w += fmt.Sprintf(" of %d", c.Planned)
			}
			row = append(row, w)
		}
		row = append(row, string(t.Window))
		if scaled {
			row = append(row, logits(t.Logits), optional(t.Corr))
		}
		s.add(row...)
	}
	return s
}

func logits(p *stats.Placed) string {
	if p == nil {
		return unknown
	}
	return fmt.Sprintf("%.1f ± %.1f", p.Logits, 1.96*p.SE)
}

func optional(x *float64) string {
	if x == nil {
		return unknown
	}
	return strconv.FormatFloat(*x, 'f', 2, 64)
}
