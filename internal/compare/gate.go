package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Gate is one condition that figures must meet: a metric, or an end of its
// interval, against a bound.
type Gate struct {
	Text   string // as it was written
	Metric string // one of [Metrics]
	K      int    // of pass@k and pass^k
	End    End
	Op     string // >=, >, <=, <
	Bound  float64
}

// End is which number of an estimate counts.
type End int

const (
	Value End = iota + 1
	Lower
	Upper
)

// metric is what a gate may ask for.
type metric struct {
	name  string
	share bool   // within 0..1, or −1..1: a bound in per cent
	unit  string // of the bound: "", "$", "s"
	means string
}

func metrics() []metric {
	return []metric{
		{"resolved", true, "", "mean of the tasks' pass rates; also pass, rate"},
		{"pass@K", true, "", "chance that any of K attempts passes"},
		{"pass^K", true, "", "chance that all of K attempts pass"},
		{"strict", true, "", "resolved with nothing else broken, of trials with a check plan"},
		{"partial", true, "", "mean share of the fail-to-pass checks, of trials with a check plan"},
		{"graded", true, "", "share of the planned trials that have a verdict"},
		{"cost", false, "$", "mean cost of a trial, in US dollars"},
		{"cost_per_solved", false, "$", "total cost by solved trials"},
		{"time", false, "s", "mean time of the agent in a trial"},
		{"time_per_solved", false, "s", "total time of the agents by solved trials"},
		{"tokens_per_solved", false, "", "total tokens by solved trials"},
		{"turns", false, "", "median of the model calls of solved trials"},
		{"difference", true, "", "paired difference from the other arm or the baseline; assay compare alone"},
	}
}

// Metrics describes what gates may ask for, one line each.
func Metrics() (lines []string) {
	for _, m := range metrics() {
		lines = append(lines, fmt.Sprintf("%-18s %s", m.name, m.means))
	}
	return lines
}

// maxGate bounds an expression, in bytes.
const maxGate = 1000

// ParseGates reads conditions joined by "and": CONDITION = TERM OP NUMBER, TERM =
// METRIC | lower(METRIC) | upper(METRIC). Shares may be written 0.5 or 50%,
// money $2, times 30s, 5m, 2h.
func ParseGates(text string) ([]Gate, error) {
	if len(text) > maxGate {
		return nil, fmt.Errorf("a gate of %d bytes; at most %d are read", len(text), maxGate)
	}
	var all []Gate
	for _, part := range split(text) {
		g, err := parseGate(part)
		if err != nil {
			return nil, fmt.Errorf("gate %q: %w", text, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// split parts a text at the word "and", "&&" and ",".
func split(text string) (parts []string) {
	text = strings.NewReplacer("&&", " and ", ",", " and ").Replace(text)
	var now []string
	for _, w := range strings.Fields(text) {
		if strings.EqualFold(w, "and") {
			parts = append(parts, strings.Join(now, " "))
			now = nil
			continue
		}
		now = append(now, w)
	}
	return append(parts, strings.Join(now, " "))
}

func parseGate(text string) (Gate, error) {
	g := Gate{Text: text, End: Value}
	at := strings.IndexAny(text, "<>=!")
	if at < 0 {
		return g, fmt.Errorf("no >=, >, <= or <; write for example: resolved >= 0.5")
	}
	left, right := strings.TrimSpace(text[:at]), text[at:]
	for _, op := range []string{">=", "<=", ">", "<"} {
		if rest, ok := strings.CutPrefix(right, op); ok {
			g.Op, right = op, strings.TrimSpace(rest)
			break
		}
	}
	if g.Op == "" {
		return g, fmt.Errorf("%q compares by neither >=, >, <= nor <: figures are hardly ever equal", text)
	}
	name := left
	for word, end := range map[string]End{"lower": Lower, "upper": Upper} {
		if rest, ok := strings.CutPrefix(strings.ReplaceAll(left, " ", ""), word+"("); ok {
			inner, closed := strings.CutSuffix(rest, ")")
			if !closed {
				return g, fmt.Errorf("%q is not closed", left)
			}
			name, g.End = inner, end
		}
	}
	m, err := g.metric(strings.TrimSpace(name))
	if err != nil {
		return g, err
	}
	return g, g.bound(right, m)
}

// metric reads the name of a metric, with its k.
func (g *Gate) metric(name string) (metric, error) {
	name = strings.ToLower(name)
	switch name {
	case "pass", "rate", "pass@1":
		name = "resolved"
	case "mean_time":
		name = "time"
	}
	kind := name
	for _, p := range []string{"pass@", "pass^"} {
		if k, ok := strings.CutPrefix(name, p); ok {
			n, err := strconv.Atoi(k)
			if err != nil || n < 1 || n > 1_000_000 {
				return metric{}, fmt.Errorf("%q: k must be a whole number from 1", name)
			}
			g.K, kind = n, p+"K"
		}
	}
	all := metrics()
	i := slices.IndexFunc(all, func(m metric) bool { return m.name == kind && (g.K > 0 || !strings.HasSuffix(m.name, "K")) })
	if i < 0 {
		var names []string
		for _, m := range all {
			names = append(names, m.name)
		}
		return metric{}, fmt.Errorf("%q is no metric; they are %s", name, strings.Join(names, ", "))
	}
	g.Metric = kind
	return all[i], nil
}

// bound reads the number with its unit.
func (g *Gate) bound(text string, m metric) error {
	number, scale := text, 1.0
	cut := func(ok bool, rest string, by float64) bool {
		if ok {
			number, scale = rest, by
		}
		return ok
	}
	if rest, ok := strings.CutSuffix(text, "%"); ok && m.share {
		cut(true, strings.TrimSpace(rest), 0.01)
	} else if rest, ok := strings.CutPrefix(text, "$"); ok && m.unit == "$" {
		cut(true, rest, 1)
	} else if m.unit == "s" {
		for _, u := range []struct {
			suffix string
			by     float64
		}{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}} {
			rest, ok := strings.CutSuffix(text, u.suffix)
			if cut(ok, rest, u.by) {
				break
			}
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || strings.ContainsAny(number, "xX_pP") {
		return fmt.Errorf("%q is no number that %s can be compared with", text, g.Metric)
	}
	g.Bound = x * scale
	if m.share && (g.Bound > 1 || g.Bound < -1 || g.Bound < 0 && m.name != "difference") {
		return fmt.Errorf("%s is a share from 0 to 1, and the bound is %s: write 0.5 or 50%%", g.Metric, text)
	}
	return nil
}

// Careful turns a gate to the end of the interval that is against it: the
// lower end where the figure must be large, the upper one where it must be
// small.
func (g Gate) Careful() Gate {
	if g.End == Value {
		g.End = Lower
		if g.Op[0] == '<' {
			g.End = Upper
		}
	}
	return g
}

func (g Gate) name() string {
	n := strings.TrimSuffix(g.Metric, "K")
	if g.K > 0 {
		n += strconv.Itoa(g.K)
	}
	return n
}

func (g Gate) holds(x float64) bool {
	// A bound like 0.7 and a mean like 0.7 may differ in their last digit.
	const hair = 1e-9
	switch g.Op {
	case ">=":
		return x >= g.Bound-hair
	case ">":
		return x > g.Bound+hair
	case "<=":
		return x <= g.Bound+hair
	}
	return x < g.Bound-hair
}
