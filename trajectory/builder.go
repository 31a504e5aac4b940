package trajectory

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Builder makes a document step by step while an agent works. The document is
// valid at any moment: it begins with the brief as its first step, and a step
// that would break a rule is refused with an error and leaves no trace. A
// Builder is used by many goroutines at once.
type Builder struct {
	mu sync.Mutex
	t  Trajectory
}

// AgentStep is what one turn of an agent did.
type AgentStep struct {
	Message   string
	Reasoning string
	Model     string // empty: the agent's own
	Calls     []ToolCall
	Results   []ObservationResult
	Metrics   *Metrics // nil: unknown
	LLMCalls  *int64   // 0: no model was asked
	Extra     map[string]json.RawMessage
}

// NewBuilder begins a document with brief as its first, user's step. A zero
// time leaves the step without a timestamp.
func NewBuilder(a Agent, session string, brief string, at time.Time) *Builder {
	if a.Version == "" {
		a.Version = "unknown"
	}
	return &Builder{t: Trajectory{
		SchemaVersion: Version, SessionID: session, Agent: a,
		Steps: []Step{{ID: 1, Timestamp: stamp(at), Source: User, Message: Text(brief)}},
	}}
}

// AddUser adds what a user said and returns the step's id.
func (b *Builder) AddUser(at time.Time, c Content) (int64, error) {
	return b.add(Step{Timestamp: stamp(at), Source: User, Message: c})
}

// AddSystem adds what the harness or environment said, with what it observed.
func (b *Builder) AddSystem(at time.Time, c Content, results ...ObservationResult) (int64, error) {
	return b.add(Step{Timestamp: stamp(at), Source: System, Message: c, Observation: observed(results)})
}

// AddAgent adds a turn of the agent. Each result's CallID must name a call of
// the same turn or be empty.
func (b *Builder) AddAgent(at time.Time, s AgentStep) (int64, error) {
	step := Step{
		Timestamp: stamp(at), Source: Agents, ModelName: s.Model, Message: Text(s.Message), ToolCalls: slices.Clone(s.Calls),
		Observation: observed(s.Results), Metrics: s.Metrics, LLMCalls: s.LLMCalls, Extra: s.Extra,
	}
	if s.Reasoning != "" {
		step.ReasoningContent = &s.Reasoning
	}
	return b.add(step)
}

// Observe adds results to the agent's step id, for calls whose answer arrives
// after the step was recorded.
func (b *Builder) Observe(id int64, results ...ObservationResult) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id < 1 || id > int64(len(b.t.Steps)) {
		return fmt.Errorf("observe step %d: there are %d", id, len(b.t.Steps))
	}
	step := b.t.Steps[id-1]
	all := []ObservationResult{}
	if step.Observation != nil {
		all = slices.Clone(step.Observation.Results)
	}
	step.Observation = &Observation{Results: append(all, results...)}
	if err := check1(step, id); err != nil {
		return fmt.Errorf("observe step %d: %w", id, err)
	}
	b.t.Steps[id-1] = step
	return nil
}

// Note sets the document's notes.
func (b *Builder) Note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.t.Notes = text
}

// Steps is the number of steps so far, the brief included.
func (b *Builder) Steps() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.t.Steps)
}

// Trajectory is the document so far, with its final_metrics. Its slices are
// the caller's own; their elements must not be changed.
func (b *Builder) Trajectory() *Trajectory {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.t
	t.Steps = slices.Clone(t.Steps)
	m := t.Measure()
	n := int64(m.Steps)
	t.FinalMetrics = &FinalMetrics{
		PromptTokens: m.PromptTokens, CompletionTokens: m.CompletionTokens,
		CachedTokens: m.CachedTokens, CostUSD: m.CostUSD, Steps: &n,
	}
	return &t
}

func (b *Builder) add(s Step) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.ID = int64(len(b.t.Steps) + 1)
	if err := check1(s, s.ID); err != nil {
		return 0, fmt.Errorf("add step %d: %w", s.ID, err)
	}
	b.t.Steps = append(b.t.Steps, s)
	return s.ID, nil
}

// check1 validates one step as it will be written.
func check1(s Step, id int64) error {
	data, err := marshal(&s)
	if err != nil {
		return err
	}
	v, err := decode(data)
	if err != nil {
		return err
	}
	c := &checker{}
	step(c, fmt.Sprintf("$.steps[%d]", id-1), v)
	if len(c.found) > 0 {
		return fmt.Errorf("the step would not be valid: %s", c.found[0])
	}
	return nil
}

func observed(results []ObservationResult) *Observation {
	if len(results) == 0 {
		return nil
	}
	return &Observation{Results: slices.Clone(results)}
}

// stamp writes a time as ATIF's producers do: UTC, microseconds, Z.
func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.000000Z")
}
