package exchange

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// columns of the CSV, one value each; unknown is empty and never zero.
var columns = []struct {
	name  string
	value func(v *store.View, t *store.Trial) string
}{
	{"job", func(v *store.View, _ *store.Trial) string { return v.Name }},
	{"trial", func(_ *store.View, t *store.Trial) string { return t.Name }},
	{"task", func(_ *store.View, t *store.Trial) string { return t.Task }},
	{"task_digest", func(_ *store.View, t *store.Trial) string { return t.Digest }},
	{"agent", func(_ *store.View, t *store.Trial) string { return t.Agent }},
	{"model", func(_ *store.View, t *store.Trial) string { return t.Model }},
	{"attempt", func(_ *store.View, t *store.Trial) string { return strconv.Itoa(t.Rep) }},
	{"status", func(_ *store.View, t *store.Trial) string { return string(t.Status) }},
	{"outcome", func(_ *store.View, t *store.Trial) string { return string(t.Outcome) }},
	{"fault", func(_ *store.View, t *store.Trial) string { return string(t.Fault) }},
	{"cause", func(_ *store.View, t *store.Trial) string { return string(t.Cause) }},
	{"evidence", func(_ *store.View, t *store.Trial) string { return string(t.Evidence) }},
	{"reward", func(_ *store.View, t *store.Trial) string { return optFloat(t.Reward) }},
	{"resolved", checked(func(c *trial.Checks) string { return strconv.FormatBool(c.Resolved) })},
	{"strict", checked(func(c *trial.Checks) string { return strconv.FormatBool(c.Strict) })},
	{"fail_to_pass_passed", checked(func(c *trial.Checks) string { return strconv.Itoa(c.FailToPass.Passed) })},
	{"fail_to_pass_total", checked(func(c *trial.Checks) string { return strconv.Itoa(c.FailToPass.Total) })},
	{"pass_to_pass_passed", checked(func(c *trial.Checks) string { return strconv.Itoa(c.PassToPass.Passed) })},
	{"pass_to_pass_total", checked(func(c *trial.Checks) string { return strconv.Itoa(c.PassToPass.Total) })},
	{"verifier", func(_ *store.View, t *store.Trial) string { return t.Record.Modes.Verifier }},
	{"network", func(_ *store.View, t *store.Trial) string { return t.Record.Modes.Network }},
	{"backend", func(_ *store.View, t *store.Trial) string { return t.Record.Modes.Backend }},
	{"started", func(_ *store.View, t *store.Trial) string { return optTime(t.Started) }},
	{"wall_sec", func(_ *store.View, t *store.Trial) string {
		if ms := t.Millis(); ms > 0 {
			return inSeconds(ms / 1000)
		}
		return ""
	}},
	{"input_tokens", func(_ *store.View, t *store.Trial) string { return optInt(t.Usage.InputTokens) }},
	{"cache_tokens", func(_ *store.View, t *store.Trial) string { return optInt(t.Usage.CacheTokens) }},
	{"output_tokens", func(_ *store.View, t *store.Trial) string { return optInt(t.Usage.OutputTokens) }},
	{"cost_usd", func(_ *store.View, t *store.Trial) string { return optFloat(t.Usage.CostUSD) }},
	{"arm", func(_ *store.View, t *store.Trial) string { return ArmName(t.Agent, t.Model) }},
}

func checked(get func(*trial.Checks) string) func(*store.View, *store.Trial) string {
	return func(_ *store.View, t *store.Trial) string {
		if t.Record.Checks == nil {
			return ""
		}
		return get(t.Record.Checks)
	}
}

func optFloat(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'g', -1, 64)
}

func optInt(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func optTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// cell keeps a spreadsheet from taking a name for a formula, and a terminal from
// being steered: agents' and models' names come from files of anybody.
func cell(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
	if text == "" || !strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return text
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text
	}
	if text[0] == '@' && !strings.ContainsAny(text, "(|!") {
		return text // as providers write names: @host/model
	}
	return "'" + text
}

// CSV writes a job as a table of one line a trial (RFC 4180), the first line
// naming the columns.
func CSV(v *store.View) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	if err := w.Write(line); err != nil {
		return nil, err
	}
	for _, t := range v.Trials {
		for i, c := range columns {
			line[i] = cell(c.value(v, t))
		}
		if err := w.Write(line); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}
