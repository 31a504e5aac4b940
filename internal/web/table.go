package web

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/internal/stats"
	"assay/trial"
)

const (
	maxMatrixTasks  = 40 // more tasks than this and the terminal shows no matrix
	maxMatrixAgents = 6
)

// Table writes a job's results as plain aligned text: one line an agent, how
// trials ended where that needs saying, and for small jobs a line a task.
func Table(w io.Writer, j *Job) error {
	b := bufio.NewWriter(w)
	s := Summarize(j.Trials)
	agentTable(b, s)
	fmt.Fprintf(b, "\n%s", tallyWords(s.Tally))
	if s.Tally.Lost() > 0 {
		fmt.Fprintf(b, " (%d in no rate)", s.Tally.Lost())
	}
	fmt.Fprintln(b)
	causeLines(b, s)
	if len(s.Tasks) <= maxMatrixTasks && len(s.Agents) <= maxMatrixAgents && len(s.Tasks) > 0 {
		fmt.Fprintln(b)
		matrixTable(b, s)
	}
	for _, g := range j.NoteGroups() {
		who := name(g.Trial, 60)
		if g.N > 1 {
			who = fmt.Sprintf("%d trials", g.N)
		}
		fmt.Fprintf(b, "note: %s%s\n", line(g.Text, 200), suffix(who))
	}
	for _, r := range j.Replaced {
		fmt.Fprintf(b, "replaced: attempt %d of %s: %s", r.Attempt, name(r.Trial, 60), line(r.Why, 120))
		if r.Cause != "" {
			fmt.Fprintf(b, ", %s", line(string(r.Cause), 40))
		}
		if r.Kept != "" {
			fmt.Fprintf(b, "; kept in %s", line(r.Kept, 120))
		}
		fmt.Fprintln(b)
	}
	for _, p := range j.Problems {
		fmt.Fprintf(b, "problem: %s\n", line(p, 300))
	}
	return b.Flush()
}

func suffix(who string) string {
	if who == "" {
		return ""
	}
	return " (" + who + ")"
}

func agentTable(b *bufio.Writer, s Summary) {
	g := grid{right: map[int]bool{1: true, 3: true}}
	top := []string{"agent", "rate", "95 % interval", "graded/planned"}
	for i, k := range s.Ks {
		g.right[4+i] = true
		top = append(top, "pass@"+strconv.Itoa(k))
	}
	at := len(top)
	g.right[at+1], g.right[at+2] = true, true
	g.add(append(top, "evidence", "time p50", "overhead p50", "usage")...)
	for _, a := range s.Agents {
		row := []string{name(a.Agent, 40), unknown, unknown, fmt.Sprintf("%d/%d", a.Rate.Graded, a.Rate.Planned)}
		if a.Rate.Known {
			row[1], row[2] = Percent(a.Rate.Value), interval(a.Rate.Interval)
		}
		for _, p := range a.AtK {
			row = append(row, atKWord(p))
		}
		wall, over := unknown, unknown
		if a.Wall.N > 0 {
			wall = Millis(a.Wall.P50)
		}
		if a.Overhead.N > 0 {
			over = Millis(a.Overhead.P50)
		}
		labels := strings.Join(append(append([]string{}, a.Evidence...), a.Labels...), ", ")
		if labels == "" {
			labels = unknown
		}
		g.add(append(row, labels, wall, over, a.Usage.String())...)
	}
	g.write(b)
}

func atKWord(p AtK) string {
	if !p.Known {
		return unknown
	}
	s := Percent(p.Mean.Value)
	if p.Tasks != p.Tasked {
		s += fmt.Sprintf(" (%d/%d tasks)", p.Tasks, p.Tasked)
	}
	return s
}

// causeLines names every cause but the two that need no explaining.
func causeLines(b *bufio.Writer, s Summary) {
	var g grid
	for _, c := range s.Causes {
		if c.Cause == trial.CauseSolved || c.Cause == trial.CauseUnsolved {
			continue
		}
		g.add(fmt.Sprintf("  %d × %s", c.N, line(string(c.Cause), 40)), string(c.Outcome), "fault: "+line(string(c.Fault), 20), c.Means)
	}
	g.write(b)
}

func matrixTable(b *bufio.Writer, s Summary) {
	var g grid
	top := []string{"task"}
	for _, a := range s.Agents {
		top = append(top, name(a.Agent, 30))
	}
	g.add(top...)
	for _, t := range s.Tasks {
		row := []string{name(t.Task, 48)}
		for _, c := range t.Cells {
			row = append(row, cellWord(c))
		}
		g.add(row...)
	}
	g.write(b)
}

// cellWord is an ending for one attempt, "2/3" for several, with what was
// planned where that differs.
func cellWord(c Cell) string {
	switch n := c.Tally.Planned; {
	case n == 0:
		return unknown
	case n == 1:
		return c.Trials[0].Word()
	case c.Tally.Graded() != n:
		return fmt.Sprintf("%d/%d of %d", c.Tally.Pass, c.Tally.Graded(), n)
	}
	return fmt.Sprintf("%d/%d", c.Tally.Pass, c.Tally.Graded())
}

// grid aligns columns; the first row decides how many there are.
type grid struct {
	rows  [][]string
	right map[int]bool // columns that are aligned to the right
}

// add takes a row. Whatever a cell holds, it stays on its line and in its
// terminal.
func (g *grid) add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = line(c, 120)
	}
	g.rows = append(g.rows, row)
}

func (g *grid) write(b *bufio.Writer) {
	if len(g.rows) == 0 {
		return
	}
	width := make([]int, len(g.rows[0]))
	for _, r := range g.rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range g.rows {
		var l strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i > 0 {
				l.WriteString("  ")
			}
			if g.right[i] {
				l.WriteString(pad + c)
			} else {
				l.WriteString(c + pad)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
}

// TimingTable writes where the time of a job went: each phase's p50 and p95
// over the trials, then assay's own overhead a trial.
func TimingTable(w io.Writer, t Timing) error {
	b := bufio.NewWriter(w)
	g := grid{right: map[int]bool{2: true, 3: true, 4: true, 5: true}}
	g.add("phase", "whose", "trials", "p50", "p95", "sum")
	for _, p := range t.Phases {
		g.add(append([]string{string(p.Phase), p.Whose()}, spreadWords(p.Time)...)...)
	}
	g.add(append([]string{"overhead", "assay"}, spreadWords(t.Overhead)...)...)
	g.add(append([]string{"wall", ""}, spreadWords(t.Wall)...)...)
	g.write(b)
	if t.Untimed > 0 {
		fmt.Fprintf(b, "%s no measured phases and are not counted here\n", count(t.Untimed, "ended trial has", "ended trials have"))
	}
	return b.Flush()
}

func spreadWords(s stats.Spread) []string {
	if s.N == 0 {
		return []string{"0", unknown, unknown, unknown}
	}
	return []string{strconv.Itoa(s.N), Millis(s.P50), Millis(s.P95), Millis(s.Sum)}
}
