package trajectory

import "time"

// Measures are counts over a document. A number that nothing in the document
// tells is null, never zero.
type Measures struct {
	Steps     int            `json:"steps"` // all of them, copied ones included
	Agent     int            `json:"agent_steps"`
	User      int            `json:"user_steps"`
	System    int            `json:"system_steps"`
	Copied    int            `json:"copied_steps"` // repeated from an earlier document; counted nowhere below
	ToolCalls int            `json:"tool_calls"`
	Tools     map[string]int `json:"tools"` // calls by function name
	Subagents int            `json:"subagents"`

	LLMCalls         *int64   `json:"llm_calls"` // null when a step that may have asked a model does not say
	PromptTokens     *int64   `json:"prompt_tokens"`
	CompletionTokens *int64   `json:"completion_tokens"`
	CachedTokens     *int64   `json:"cached_tokens"`
	CostUSD          *float64 `json:"cost_usd"`
	// Partial: some steps that asked a model do not say what it took, so that
	// the totals are lower bounds.
	Partial bool `json:"partial"`
	// Stated: the steps say nothing and the numbers are the document's own
	// final_metrics.
	Stated bool `json:"stated"`

	Duration *time.Duration `json:"duration_ns"` // from the first to the last timestamp
}

// Measure counts the document's own steps, without embedded subagents. A
// document in which no step asked a model has zero tokens, known.
func (t *Trajectory) Measure() Measures {
	m := Measures{Steps: len(t.Steps), Tools: map[string]int{}, Subagents: len(t.Subagents)}
	prompt, completion, cached := &tally[int64]{}, &tally[int64]{}, &tally[int64]{}
	cost, llm := &tally[float64]{}, &tally[int64]{}
	for i := range t.Steps {
		s := &t.Steps[i]
		m.count(s)
		if s.Source != Agents || s.copied() {
			continue
		}
		llm.add(s.LLMCalls)
		if s.LLMCalls != nil && *s.LLMCalls == 0 {
			continue
		}
		x := s.Metrics
		if x == nil {
			x = &Metrics{}
		}
		prompt.add(x.PromptTokens)
		completion.add(x.CompletionTokens)
		cached.add(x.CachedTokens)
		cost.add(x.CostUSD)
	}
	m.LLMCalls = llm.exact()
	m.PromptTokens, m.CompletionTokens = prompt.total(m.Agent), completion.total(m.Agent)
	m.CachedTokens, m.CostUSD = cached.total(m.Agent), cost.total(m.Agent)
	m.Partial = prompt.mixed() || completion.mixed() || cached.mixed() || cost.mixed()
	m.state(t.FinalMetrics)
	m.Duration = t.duration()
	return m
}

func (s *Step) copied() bool { return s.CopiedContext != nil && *s.CopiedContext }

func (m *Measures) count(s *Step) {
	switch s.Source {
	case Agents:
		m.Agent++
	case User:
		m.User++
	case System:
		m.System++
	}
	if s.copied() {
		m.Copied++
		return
	}
	m.ToolCalls += len(s.ToolCalls)
	for _, c := range s.ToolCalls {
		m.Tools[c.Function]++
	}
}

// Join adds the tokens and cost of another document, embedded in this one: a
// sum that one of them does not know is a lower bound. Its other counts stay
// its own.
func (m *Measures) Join(o Measures) {
	join(&m.PromptTokens, o.PromptTokens, &m.Partial)
	join(&m.CompletionTokens, o.CompletionTokens, &m.Partial)
	join(&m.CachedTokens, o.CachedTokens, &m.Partial)
	join(&m.CostUSD, o.CostUSD, &m.Partial)
	m.Partial = m.Partial || o.Partial
}

func join[N int64 | float64](total **N, n *N, partial *bool) {
	switch {
	case n == nil && *total == nil:
	case n == nil:
		*partial = true
	case *total == nil:
		v := *n
		*total, *partial = &v, true
	default:
		v := **total + *n
		*total = &v
	}
}

// state takes the document's own totals where no step tells any.
func (m *Measures) state(f *FinalMetrics) {
	if f == nil || m.PromptTokens != nil || m.CompletionTokens != nil || m.CachedTokens != nil || m.CostUSD != nil {
		return
	}
	m.PromptTokens, m.CompletionTokens, m.CachedTokens, m.CostUSD = f.PromptTokens, f.CompletionTokens, f.CachedTokens, f.CostUSD
	m.Stated = m.PromptTokens != nil || m.CompletionTokens != nil || m.CachedTokens != nil || m.CostUSD != nil
}

func (t *Trajectory) duration() *time.Duration {
	var first, last time.Time
	for i := range t.Steps {
		at, err := time.Parse(time.RFC3339Nano, t.Steps[i].Timestamp)
		if err != nil {
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	if first.IsZero() {
		return nil
	}
	d := last.Sub(first)
	return &d
}

// tally adds numbers of which some may be unknown.
type tally[N int64 | float64] struct {
	sum            N
	known, unknown int
}

func (t *tally[N]) add(n *N) {
	if n == nil {
		t.unknown++
		return
	}
	t.known++
	t.sum += *n
}

func (t *tally[N]) mixed() bool { return t.known > 0 && t.unknown > 0 }

// total is known when a part is, or when there was nothing to ask: agent steps
// that all say they asked no model.
func (t *tally[N]) total(agentSteps int) *N {
	if t.known == 0 && (t.unknown > 0 || agentSteps == 0) {
		return nil
	}
	return &t.sum
}

// exact is known only when every part is.
func (t *tally[N]) exact() *N {
	if t.unknown > 0 || t.known == 0 {
		return nil
	}
	return &t.sum
}
