package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/stats"
)

// say is the answer in words.
func (p *Pair) say() string {
	if p.Diff == nil {
		n := len(p.Dropped)
		s := fmt.Sprintf("%s and %s have fewer than two tasks in common that both were graded on", p.A, p.B)
		if n > 0 {
			s += ": " + p.Dropped[0].Why
		}
		return s + "."
	}
	d := *p.Diff
	on := fmt.Sprintf("on %d tasks, %d/%d and %d/%d attempts graded", d.Tasks, p.RateA.Graded, p.RateA.Planned, p.RateB.Graded, p.RateB.Planned)
	switch p.Verdict {
	case ABetter:
		return p.better(p.A, p.B, d, on)
	case BBetter:
		return p.better(p.B, p.A, turned(d), on)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d tasks cannot tell %s from %s: %s", d.Tasks, p.A, p.B, p.leaning(d))
	lead := d
	if d.Value < 0 {
		lead = turned(d) // told as the lead of whoever solved more, so that the interval's signs are clear
	}
	fmt.Fprintf(&b, " (95 %% interval %s to %s%s; %d/%d and %d/%d attempts graded).", Points(lead.Lo), Points(lead.Hi), unit(d), p.RateA.Graded, p.RateA.Planned, p.RateB.Graded, p.RateB.Planned)
	if d.Shows() {
		fmt.Fprintf(&b, " By itself this would count as a difference; as one of %d comparisons made at once it does not (p %s after Holm's correction).", p.Of, pvalue(p.Adjusted))
	}
	switch {
	case p.Needed > d.Tasks && math.Abs(d.Value) >= 0.005:
		fmt.Fprintf(&b, " To show a difference as large as that, about %d tasks like these are needed: %d more.", p.Needed, p.Needed-d.Tasks)
	case math.Abs(d.Value) < 0.005:
		if n, ok := d.TasksToShow(0.05); ok && n > d.Tasks {
			fmt.Fprintf(&b, " No number of tasks shows that nothing differs; about %d would show a difference of 5 in 100 tasks.", n)
		}
	}
	if p.Detectable < 0.99 {
		fmt.Fprintf(&b, " A difference of %s in 100 tasks would probably have shown here.", Points(p.Detectable))
	}
	return b.String()
}

func (p *Pair) leaning(d stats.Difference) string {
	switch {
	case d.Value > 0:
		return fmt.Sprintf("%s solved %s more of every 100", p.A, Points(d.Value))
	case d.Value < 0:
		return fmt.Sprintf("%s solved %s more of every 100", p.B, Points(-d.Value))
	}
	return "both solved as many"
}

func (p *Pair) better(winner, loser string, d stats.Difference, on string) string {
	s := fmt.Sprintf("%s solves %s more of every 100 tasks than %s (95 %% interval %s to %s%s), %s.", winner, Points(d.Value), loser, Points(d.Lo), Points(d.Hi), unit(d), on)
	if p.Of > 1 {
		s += fmt.Sprintf(" It holds among %d comparisons (p %s after Holm's correction).", p.Of, pvalue(p.Adjusted))
	}
	if !p.Survives {
		lo, hi := p.Worst, p.Best
		if winner == p.B {
			lo, hi = -hi, -lo
		}
		s += fmt.Sprintf(" Trials without a verdict could turn it round: had they all gone one way or the other, it would be %s to %s.", Points(lo), Points(hi))
	}
	return s
}

// turned is the difference seen from the other arm.
func turned(d stats.Difference) stats.Difference {
	d.Value, d.Lo, d.Hi = -d.Value, -d.Hi, -d.Lo
	return d
}

// unit names what an interval stands on where that is not the task.
func unit(d stats.Difference) string {
	if d.By != stats.ByGroup {
		return ""
	}
	s := fmt.Sprintf(", by %d repositories", d.Groups)
	if d.Groups < stats.FewGroups {
		s += ", which are few: read it with care"
	}
	return s
}

// Points is a share as points of 100: 12, 3.5, −4.
func Points(x float64) string {
	x *= 100
	digits := 0
	if math.Abs(x) < 9.95 {
		digits = 1
	}
	s := strings.TrimSuffix(strconv.FormatFloat(x, 'f', digits, 64), ".0")
	if s == "-0" {
		return "0"
	}
	return strings.Replace(s, "-", "−", 1)
}

func pvalue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// maxAnswers bounds the sentences at the head of a report; the rest stand with
// their pairs.
const maxAnswers = 12

// answers puts winners first, then what cannot be told.
func answers(r *Report, comparisons int) []string {
	if len(r.Arms) == 0 {
		return []string{"There is no trial to compare."}
	}
	if len(r.Arms) == 1 {
		a := r.Arms[0]
		s := "There is one arm alone: " + a.Name + ", " + rateWords(a) + "."
		if len(r.Jobs) > 1 && r.By != ByJob {
			s += " To compare the jobs with each other, say --by job."
		}
		return []string{s}
	}
	rank := map[Verdict]int{ABetter: 0, BBetter: 0, CannotTell: 1, Unpaired: 2}
	sorted := slices.Clone(r.Pairs)
	slices.SortStableFunc(sorted, func(a, b Pair) int { return rank[a.Verdict] - rank[b.Verdict] })
	var all []string
	for i, p := range sorted {
		if i == maxAnswers {
			all = append(all, fmt.Sprintf("%d more comparisons stand below.", len(sorted)-i))
			break
		}
		all = append(all, p.Sentence)
	}
	if comparisons > 1 {
		fewer := ""
		if n := len(r.Arms); n > 2 && comparisons == n*(n-1)/2 {
			fewer = " With --baseline ARM there are fewer."
		}
		all = append(all, fmt.Sprintf("%d comparisons were made at once: a winner is named only where Holm's correction leaves p below 0.05; each interval is for itself alone.%s", comparisons, fewer))
	}
	return all
}

func rateWords(a Arm) string {
	if !a.Rate.Known {
		return fmt.Sprintf("of which nothing was graded (0/%d)", a.Rate.Planned)
	}
	return fmt.Sprintf("which solves %s of every 100 tasks (95 %% interval %s to %s), %d/%d attempts graded", Points(a.Rate.Value), Points(a.Rate.Lo), Points(a.Rate.Hi), a.Rate.Graded, a.Rate.Planned)
}
