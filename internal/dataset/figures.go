package dataset

import (
	"maps"
	"slices"

	"assay/trajectory"
	"assay/trial"
)

// Figures are what is told of a set of trajectories: the six numbers that the
// field reports, and how the agents worked.
type Figures struct {
	Count           int      `json:"count"`
	Turns           float64  `json:"average_turns"`
	AssistantTokens *float64 `json:"average_assistant_tokens"` // null: no trajectory says
	TokensKnown     int      `json:"trajectories_with_tokens"`
	Tools           float64  `json:"average_tool_calls"`
	Messages        float64  `json:"average_messages"`
	Success         *float64 `json:"success_share"` // of those with a verdict; null: none has one
	Graded          int      `json:"graded"`

	PromptTokens     *int64         `json:"prompt_tokens"` // sums of what is known
	CompletionTokens *int64         `json:"completion_tokens"`
	CachedTokens     *int64         `json:"cached_tokens"`
	CostUSD          *float64       `json:"cost_usd"`
	Partial          bool           `json:"partial"` // a sum lacks trajectories or steps that say nothing: a lower bound
	ToolShares       []Share        `json:"tools"`   // by calls
	ActionShares     []Share        `json:"actions"`
	FilesSeen        float64        `json:"average_files_seen"`
	FilesChanged     float64        `json:"average_files_changed"`
	TestRuns         float64        `json:"average_test_runs"`
	Repeated         int            `json:"repeated_actions"`
	Looping          int            `json:"looping_actions"`
	Subagents        int            `json:"subagents"`
	Terminations     map[string]int `json:"terminations,omitempty"`
}

// Share is a count and its share of all.
type Share struct {
	Name  string  `json:"name"`
	Count int     `json:"count"`
	Share float64 `json:"share"`
}

// Counter makes figures of trajectories one at a time.
type Counter struct {
	f              Figures
	turns          int
	calls          int
	messages       int
	seen, changed  int
	tests          int
	passed         int
	known          [4]int // trajectories that tell prompt, completion and cached tokens, and cost
	output         int64
	tools, actions map[string]int
}

// NewCounter begins with nothing.
func NewCounter() *Counter {
	return &Counter{tools: map[string]int{}, actions: map[string]int{}, f: Figures{Terminations: map[string]int{}}}
}

// Add counts a document with those embedded in it: a conversation that was
// compacted, and its sub-agents, are one trial's. r, which may be nil, tells
// what came of it.
func (c *Counter) Add(t *trajectory.Trajectory, r *Row) {
	var m trajectory.Measures
	seen, changed := map[string]bool{}, map[string]bool{}
	for i, d := range t.All() {
		b, own := d.Behave(), d.Measure()
		c.turns += b.Turns
		c.messages += b.Messages
		c.calls += own.ToolCalls
		c.tests += b.TestRuns
		c.f.Repeated += b.Repeated
		c.f.Looping += b.Looping
		for _, f := range b.Seen {
			seen[f] = true
		}
		for _, f := range b.Changed {
			changed[f] = true
		}
		for name, n := range own.Tools {
			c.tools[name] += n
		}
		for kind, n := range b.Actions {
			c.actions[string(kind)] += n
		}
		if i == 0 {
			m = own
		} else {
			m.Join(own)
			c.f.Subagents++
		}
	}
	c.f.Count++
	c.seen += len(seen)
	c.changed += len(changed)
	if m.CompletionTokens != nil {
		c.f.TokensKnown++
		c.output += *m.CompletionTokens
	}
	sum(&c.f.PromptTokens, m.PromptTokens, &c.known[0])
	sum(&c.f.CompletionTokens, m.CompletionTokens, &c.known[1])
	sum(&c.f.CachedTokens, m.CachedTokens, &c.known[2])
	sum(&c.f.CostUSD, m.CostUSD, &c.known[3])
	c.f.Partial = c.f.Partial || m.Partial
	if r == nil {
		return
	}
	c.f.Terminations[string(r.Termination)]++
	if e, err := r.Cause.Ending(); err == nil && e.Counted {
		c.f.Graded++
		if r.Outcome == trial.Pass {
			c.passed++
		}
	}
}

// sum adds what is known and counts it.
func sum[N int64 | float64](total **N, n *N, known *int) {
	if n == nil {
		return
	}
	*known++
	if *total == nil {
		*total = new(N)
	}
	**total += *n
}

// Figures so far.
func (c *Counter) Figures() Figures {
	f := c.f
	per := func(n int) float64 {
		if f.Count == 0 {
			return 0
		}
		return float64(n) / float64(f.Count)
	}
	for _, n := range c.known {
		f.Partial = f.Partial || n > 0 && n < f.Count
	}
	f.Turns, f.Tools, f.Messages = per(c.turns), per(c.calls), per(c.messages)
	f.FilesSeen, f.FilesChanged, f.TestRuns = per(c.seen), per(c.changed), per(c.tests)
	if f.TokensKnown > 0 {
		avg := float64(c.output) / float64(f.TokensKnown)
		f.AssistantTokens = &avg
	}
	if f.Graded > 0 {
		share := float64(c.passed) / float64(f.Graded)
		f.Success = &share
	}
	f.ToolShares, f.ActionShares = shares(c.tools), shares(c.actions)
	return f
}

func shares(counts map[string]int) []Share {
	total := 0
	for _, n := range counts {
		total += n
	}
	all := []Share{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, Share{name, counts[name], float64(counts[name]) / float64(total)})
	}
	slices.SortStableFunc(all, func(x, y Share) int { return y.Count - x.Count })
	return all
}
