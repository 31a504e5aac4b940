package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"assay/internal/stats"
	"assay/trial"
)

// unknown is printed where a number is not known.
const unknown = "–"

// Bytes is a size for people: 512 B, 1.5 KiB, 50 MiB.
func Bytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f := float64(n)
	for _, u := range []string{"KiB", "MiB", "GiB"} {
		if f /= 1024; f < 1024 || u == "GiB" {
			if f < 10 {
				return fmt.Sprintf("%.1f %s", f, u)
			}
			return fmt.Sprintf("%.0f %s", f, u)
		}
	}
	return unknown
}

// Millis is a duration in milliseconds for people: 0.4 ms, 31 ms, 1.4 s,
// 12 min 5 s, 3 h 2 min.
func Millis(ms float64) string {
	switch {
	case math.IsNaN(ms) || ms < 0:
		return unknown
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	case ms < 999.5:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	case ms < 99_950:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	}
	s := int64(ms/1000 + 0.5)
	if s < 3600 {
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	}
	return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
}

// Percent is a share of 0..1 with one digit where it tells something.
func Percent(p float64) string {
	s := strconv.FormatFloat(100*p, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0") + " %"
}

// rate prints "50 % [19, 81]", or a dash when nothing was graded.
func rate(r stats.Rate) string {
	if !r.Known {
		return unknown
	}
	return Percent(r.Value) + " " + interval(r.Interval)
}

// interval prints "[19, 81]" in whole percent, never rounding a bound that is
// not 0 or 100 to it.
func interval(i stats.Interval) string {
	round := func(p float64) string {
		x := math.Round(100 * p)
		if x == 0 && p > 0.0005 || x == 100 && p < 0.9995 {
			return strconv.FormatFloat(100*p, 'f', 1, 64)
		}
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return "[" + round(i.Lo) + ", " + round(i.Hi) + "]"
}

// Tokens is a count for people; null is unknown.
func Tokens(n *int64) string {
	switch {
	case n == nil:
		return unknown
	case *n < 10_000:
		return strconv.FormatInt(*n, 10)
	case *n < 1_000_000:
		return fmt.Sprintf("%.1f k", float64(*n)/1e3)
	}
	return fmt.Sprintf("%.2f M", float64(*n)/1e6)
}

// Dollars is a cost for people; null is unknown.
func Dollars(c *float64) string {
	switch {
	case c == nil:
		return unknown
	case *c != 0 && *c < 0.01:
		return fmt.Sprintf("$%.4f", *c)
	}
	return fmt.Sprintf("$%.2f", *c)
}

// Used is what several trials used together. Each number says for itself
// whether it is complete; one that no trial knows is null.
type Used struct {
	Input, Output trial.Sum // only the token count of the name is set
	Cost          trial.Sum // only the cost is set
	Calls         int       // to models, where trials recorded them
}

func sumUsage(all []trial.Usage) Used {
	var in, out, cost []trial.Usage
	for _, u := range all {
		in = append(in, trial.Usage{InputTokens: u.InputTokens})
		out = append(out, trial.Usage{OutputTokens: u.OutputTokens})
		cost = append(cost, trial.Usage{CostUSD: u.CostUSD})
	}
	return Used{Input: trial.SumUsage(in...), Output: trial.SumUsage(out...), Cost: trial.SumUsage(cost...)}
}

// Partial reports whether the truth may be more than what is shown.
func (u Used) Partial() bool { return u.Input.Partial || u.Output.Partial || u.Cost.Partial }

// String prints tokens in and out and cost, "≥" where some trials do not know.
func (u Used) String() string {
	if u.Input.InputTokens == nil && u.Output.OutputTokens == nil && u.Cost.CostUSD == nil {
		return unknown
	}
	s := atLeast(Tokens(u.Input.InputTokens), u.Input) + " in, " + atLeast(Tokens(u.Output.OutputTokens), u.Output) + " out, "
	if u.Calls > 0 {
		s = count(u.Calls, "call", "calls") + ", " + s
	}
	if u.Cost.CostUSD == nil {
		return s + "cost unknown"
	}
	return s + atLeast(Dollars(u.Cost.CostUSD), u.Cost)
}

func atLeast(s string, sum trial.Sum) string {
	if sum.Partial && s != unknown {
		return "≥ " + s
	}
	return s
}

// clock is an instant in UTC, or a dash.
func clock(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// reward prints a reward; null is unknown.
func reward(r *float64) string {
	if r == nil {
		return unknown
	}
	return strconv.FormatFloat(*r, 'g', 6, 64)
}
