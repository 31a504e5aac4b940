package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// Filter picks trials. An empty field picks all.
type Filter struct {
	Agent   string
	Task    string
	Outcome string // an outcome, or the state of a trial that has not ended
	Cause   string
	Text    string // words that must all occur somewhere in the row
}

// maxQuery is how much of a query parameter is looked at, in bytes.
const maxQuery = 400

// FilterOf reads a filter from query parameters agent, task, outcome, cause, q.
func FilterOf(q url.Values) Filter {
	get := func(k string) string {
		v := q.Get(k)
		return v[:min(len(v), maxQuery)]
	}
	return Filter{Agent: get("agent"), Task: get("task"), Outcome: get("outcome"), Cause: get("cause"), Text: get("q")}
}

// Query is the filter as query parameters, empty fields left out.
func (f Filter) Query() string {
	q := url.Values{}
	for _, p := range []struct{ k, v string }{
		{"agent", f.Agent}, {"task", f.Task}, {"outcome", f.Outcome}, {"cause", f.Cause}, {"q", f.Text},
	} {
		if p.v != "" {
			q.Set(p.k, p.v)
		}
	}
	return q.Encode()
}

// Active reports whether the filter leaves anything out.
func (f Filter) Active() bool { return f != Filter{} }

// Apply returns the trials that the filter picks, in their order.
func (f Filter) Apply(trials []*Trial) []*Trial {
	if !f.Active() {
		return trials
	}
	words := strings.Fields(strings.ToLower(f.Text))
	var out []*Trial
	for _, t := range trials {
		if !is(f.Agent, t.Agent) || !is(f.Task, t.Task) || !is(f.Outcome, t.Word()) || !is(f.Cause, string(t.Cause)) {
			continue
		}
		text := ""
		if len(words) > 0 {
			text = t.text()
		}
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			out = append(out, t)
		}
	}
	return out
}

// plainName is a name as a filter compares it: cleaned, and long enough to be
// told from any other.
func plainName(s string) string { return line(s, maxQuery) }

func is(want, name string) bool { return want == "" || want == plainName(name) }

// choices are the values that a job's trials have, for the filter's lists.
type choices struct{ Agents, Tasks, Outcomes, Causes []string }

func choicesOf(trials []*Trial) choices {
	var c choices
	for _, p := range []struct {
		into *[]string
		get  func(*Trial) string
	}{
		{&c.Agents, func(t *Trial) string { return t.Agent }},
		{&c.Tasks, func(t *Trial) string { return t.Task }},
		{&c.Outcomes, (*Trial).Word},
		{&c.Causes, func(t *Trial) string { return string(t.Cause) }},
	} {
		seen := map[string]bool{"": true}
		for _, t := range trials {
			if v := plainName(p.get(t)); !seen[v] {
				seen[v] = true
				*p.into = append(*p.into, v)
			}
		}
		slices.SortFunc(*p.into, func(a, b string) int { return cmp.Compare(a, b) })
	}
	return c
}
