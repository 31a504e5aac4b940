package web

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"assay/internal/compare"
	"assay/internal/stats"
)

const (
	maxSentence = 1200 // bytes of an answer that are shown
	cellWidth   = 160  // bytes of a cell
)

// Comparison writes a comparison for the terminal: answers first, then tables;
// the grid of tasks where it is small.
func Comparison(w io.Writer, r *compare.Report) error {
	b := bufio.NewWriter(w)
	for _, s := range r.Sentences {
		fmt.Fprintln(b, line(s, maxSentence))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "note: %s\n", line(n, maxSentence))
	}
	for _, s := range sheets(r) {
		if s.Title == "Tasks" && (len(s.Rows) > maxMatrixTasks || len(r.Arms) > maxMatrixAgents) {
			fmt.Fprintf(b, "\n%d tasks by %d arms: see --format html, csv or --json\n", len(s.Rows), len(r.Arms))
			continue
		}
		fmt.Fprintf(b, "\n%s\n", line(s.Title, cellWidth))
		if s.Note != "" {
			fmt.Fprintf(b, "  (%s)\n", line(s.Note, maxSentence))
		}
		g := grid{right: s.Right}
		for _, row := range append([][]string{s.Head}, s.Rows...) {
			g.add(short(row, 48)...)
		}
		g.write(b)
	}
	return b.Flush()
}

// short cuts names in the middle, where cells are wide.
func short(row []string, limit int) []string {
	out := make([]string, len(row))
	for i, c := range row {
		if i < 2 {
			c = name(c, limit)
		}
		out[i] = line(c, cellWidth)
	}
	return out
}

// ComparisonMarkdown writes a comparison as GitHub's Markdown.
func ComparisonMarkdown(w io.Writer, r *compare.Report) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "# Comparison\n\n")
	for _, s := range r.Sentences {
		fmt.Fprintf(b, "- %s\n", markdown(line(s, maxSentence)))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "- Note: %s\n", markdown(line(n, maxSentence)))
	}
	for _, s := range sheets(r) {
		fmt.Fprintf(b, "\n## %s\n\n", markdown(line(s.Title, cellWidth)))
		if s.Note != "" {
			fmt.Fprintf(b, "%s\n\n", markdown(line(s.Note, maxSentence)))
		}
		row := func(cells []string) {
			for _, c := range cells {
				b.WriteString("| " + markdown(line(c, cellWidth)) + " ")
			}
			b.WriteString("|\n")
		}
		row(s.Head)
		for i := range s.Head {
			if s.Right[i] {
				b.WriteString("|---:")
			} else {
				b.WriteString("|---")
			}
		}
		b.WriteString("|\n")
		for _, cells := range s.Rows {
			row(cells)
		}
	}
	return b.Flush()
}

// markdown keeps a text from being anything but text.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '|', '\\', '`', '*', '_', '[', ']', '#', '!', '~':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '@': // would name a user of a forge
			b.WriteString("@\u200b")
		default:
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(b.String(), "pass@\u200b", "pass@")
}

// ComparisonCSV writes a comparison as one tidy table: a line for each number,
// with what it is of. Empty is unknown.
func ComparisonCSV(w io.Writer, r *compare.Report) error {
	t := tidy{w: csv.NewWriter(w)}
	t.write("scope", "kind", "arm", "other", "task", "metric", "k", "value", "lo", "hi", "graded", "planned", "interval_by", "text")
	t.scope("all", r.Arms, r.Pairs)
	for _, s := range r.Sources {
		t.scope(s.Name, s.Arms, s.Pairs)
	}
	for _, kind := range []struct {
		name  string
		tiers []compare.Tier
	}{{"pooled", r.Tiers}, {"declared", r.Declared}} {
		for _, tier := range kind.tiers {
			for i, rate := range tier.Rates {
				if rate != nil {
					t.number("all", "tier", r.Arms[i].Name, "", "", "resolved_"+kind.name+"_"+tier.Name, 0, rate.Value, &rate.Interval, rate.Graded, rate.Planned, "")
				}
			}
		}
	}
	t.tasks(r)
	t.w.Flush()
	return t.w.Error()
}

type tidy struct{ w *csv.Writer }

// write takes a row whose cells no spreadsheet takes for a formula.
func (t tidy) write(cells ...string) {
	for i, c := range cells {
		c = line(c, 400)
		if c != "" && strings.ContainsRune("=+@", rune(c[0])) {
			c = "'" + c
		}
		cells[i] = c
	}
	t.w.Write(cells) // an error stays and is told by the writer at the end
}

func num(x float64) string { return strconv.FormatFloat(x, 'g', 8, 64) }

func (t tidy) number(scope, kind, arm, other, task, metric string, k int, value float64, i *stats.Interval, graded, planned int, unit stats.Unit) {
	row := []string{scope, kind, arm, other, task, metric, "", num(value), "", "", strconv.Itoa(graded), strconv.Itoa(planned), string(unit), ""}
	if k > 0 {
		row[6] = strconv.Itoa(k)
	}
	if i != nil {
		row[8], row[9] = num(i.Lo), num(i.Hi)
	}
	t.write(row...)
}

func (t tidy) scope(scope string, arms []compare.Arm, pairs []compare.Pair) {
	for _, a := range arms {
		t.arm(scope, a)
	}
	for _, p := range pairs {
		t.pair(scope, p)
	}
}

func (t tidy) arm(scope string, a compare.Arm) {
	put := func(metric string, k int, value float64, i *stats.Interval, graded int, unit stats.Unit) {
		t.number(scope, "arm", a.Name, "", "", metric, k, value, i, graded, a.Rate.Planned, unit)
	}
	if a.Rate.Known {
		put("resolved", 0, a.Rate.Value, &a.Rate.Interval, a.Rate.Graded, a.Unit)
	}
	put("resolved_worst", 0, a.Worst, nil, a.Rate.Graded, "")
	put("resolved_best", 0, a.Best, nil, a.Rate.Graded, "")
	for _, at := range a.AtK {
		for _, p := range []struct {
			name string
			at   *stats.AtK
		}{{"pass@k", at.Any}, {"pass^k", at.All}} {
			if p.at != nil {
				put(p.name, at.K, p.at.Mean.Value, &p.at.Mean.Interval, a.Rate.Graded, "")
			}
		}
	}
	for _, p := range []struct {
		name string
		s    *stats.Share
	}{{"strict", a.Strict}, {"partial", a.Partial}, {"milestones", a.Reached}} {
		if p.s != nil {
			put(p.name, 0, p.s.Value, &p.s.Interval, a.Checked, p.s.By)
		}
	}
	for _, p := range []struct {
		name string
		s    compare.Spent
	}{{"cost_usd", a.Cost}, {"agent_seconds", a.Time}, {"tokens", a.Tokens}} {
		if p.s.Known == 0 {
			continue
		}
		put(p.name+"_total", 0, p.s.Total, nil, p.s.Known, "")
		put(p.name+"_unknown_trials", 0, float64(p.s.Unknown), nil, a.Rate.Graded, "")
		if p.s.PerSolved != nil {
			put(p.name+"_per_solved", 0, *p.s.PerSolved, p.s.Interval, p.s.Known, "")
		}
		if p.s.Mean != nil {
			put(p.name+"_per_trial", 0, *p.s.Mean, p.s.MeanOf, p.s.Known, "")
		}
	}
	if a.Turns != nil {
		put("turns_of_solved_p50", 0, a.Turns.P50, nil, a.Turns.N, "")
	}
	for _, c := range a.Causes {
		put("cause_"+string(c.Cause), 0, float64(c.N), nil, a.Rate.Graded, "")
	}
	for _, c := range a.Evidence {
		put("evidence_"+c.Word, 0, float64(c.N), nil, a.Rate.Graded, "")
	}
}

func (t tidy) pair(scope string, p compare.Pair) {
	graded, planned := p.RateA.Graded+p.RateB.Graded, p.RateA.Planned+p.RateB.Planned
	put := func(metric string, value float64, i *stats.Interval, unit stats.Unit) {
		t.number(scope, "pair", p.A, p.B, "", metric, 0, value, i, graded, planned, unit)
	}
	t.write(scope, "pair", p.A, p.B, "", "verdict", "", "", "", "", strconv.Itoa(graded), strconv.Itoa(planned), "", string(p.Verdict))
	if d := p.Diff; d != nil {
		put("difference", d.Value, &d.Interval, d.By)
		if p.Boot != nil {
			put("difference_bootstrap", d.Value, p.Boot, d.By)
		}
		put("p", d.P, nil, "")
		put("p_holm", p.Adjusted, nil, "")
		if p.McNemar != nil {
			put("p_mcnemar", p.McNemar.Exact, nil, "")
			put("p_mcnemar_mid", p.McNemar.MidP, nil, "")
		}
		put("tasks", float64(d.Tasks), nil, "")
		put("difference_worst", p.Worst, nil, "")
		put("difference_best", p.Best, nil, "")
		put("detectable", p.Detectable, nil, "")
		if p.Needed > 0 {
			put("tasks_needed", float64(p.Needed), nil, "")
		}
	}
	for _, d := range p.Dropped {
		for _, task := range d.Tasks {
			t.write(scope, "dropped", p.A, p.B, task, "dropped", "", "", "", "", "", "", "", d.Why)
		}
	}
}

func (t tidy) tasks(r *compare.Report) {
	for _, task := range r.Tasks {
		for i, c := range task.Cells {
			if c.Graded > 0 {
				rate := stats.RateOf(stats.Tally{Planned: c.Planned, Pass: c.Passed, Fail: c.Graded - c.Passed})
				t.number("all", "task", r.Arms[i].Name, "", task.Name, "resolved", 0, rate.Value, &rate.Interval, c.Graded, c.Planned, "")
			}
		}
		t.write("all", "task", "", "", task.Name, "window", "", "", "", "", "", "", "", string(task.Window))
		if p := task.Logits; p != nil {
			t.number("all", "task", "", "", task.Name, "rasch_difficulty", 0, p.Logits, &stats.Interval{Lo: p.Logits - 1.96*p.SE, Hi: p.Logits + 1.96*p.SE}, 0, 0, "")
		}
		if task.Corr != nil {
			t.number("all", "task", "", "", task.Name, "discrimination", 0, *task.Corr, nil, 0, 0, "")
		}
	}
}
