package trajectory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// MaxSize is the most bytes of a document that [Read] takes.
const MaxSize = 128 << 20

// Read reads a document leniently. An error means that it is no JSON object,
// or larger than [MaxSize]; anything else that the format does not know is
// kept in Unknown. Use [Validate] to learn what is wrong with it.
func Read(r io.Reader) (*Trajectory, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read trajectory: %w", err)
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("read trajectory: larger than %d MiB", MaxSize>>20)
	}
	return Parse(data)
}

// Parse reads a document leniently; see [Read].
func Parse(data []byte) (*Trajectory, error) {
	var flat bytes.Buffer // raw parts are kept without the file's indentation
	if err := json.Compact(&flat, data); err != nil {
		return nil, fmt.Errorf("parse trajectory: %w", err)
	}
	t := &Trajectory{}
	if err := json.Unmarshal(flat.Bytes(), t); err != nil {
		return nil, fmt.Errorf("parse trajectory: %w", err)
	}
	return t, nil
}

// Marshal writes the document: indent 2, empty optional keys left out, a final
// newline. A required key that nothing fills is written empty. It checks
// nothing; see [Validate].
func Marshal(t *Trajectory) ([]byte, error) {
	flat, err := marshal(t)
	if err != nil {
		return nil, fmt.Errorf("format trajectory: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, flat, "", "  "); err != nil {
		return nil, fmt.Errorf("format trajectory: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (t *Trajectory) slots() []slot {
	return []slot{
		{"schema_version", &t.SchemaVersion, false},
		{"session_id", &t.SessionID, false},
		{"trajectory_id", &t.TrajectoryID, false},
		{"agent", &t.Agent, true},
		{"steps", &t.Steps, true},
		{"notes", &t.Notes, false},
		{"final_metrics", &t.FinalMetrics, false},
		{"continued_trajectory_ref", &t.ContinuedRef, false},
		{"extra", &t.Extra, false},
		{"subagent_trajectories", &t.Subagents, false},
	}
}

func (a *Agent) slots() []slot {
	return []slot{
		{"name", &a.Name, true},
		{"version", &a.Version, true},
		{"model_name", &a.ModelName, false},
		{"tool_definitions", &a.ToolDefinitions, false},
		{"extra", &a.Extra, false},
	}
}

func (s *Step) slots() []slot {
	return []slot{
		{"step_id", &s.ID, true},
		{"timestamp", &s.Timestamp, false},
		{"source", &s.Source, true},
		{"model_name", &s.ModelName, false},
		{"reasoning_effort", &s.ReasoningEffort, false},
		{"message", &s.Message, true},
		{"reasoning_content", &s.ReasoningContent, false},
		{"tool_calls", &s.ToolCalls, false},
		{"observation", &s.Observation, false},
		{"metrics", &s.Metrics, false},
		{"is_copied_context", &s.CopiedContext, false},
		{"llm_call_count", &s.LLMCalls, false},
		{"extra", &s.Extra, false},
	}
}

func (c *ToolCall) slots() []slot {
	return []slot{
		{"tool_call_id", &c.ID, true},
		{"function_name", &c.Function, true},
		{"arguments", &c.Arguments, true},
		{"extra", &c.Extra, false},
	}
}

func (o *Observation) slots() []slot {
	return []slot{
		{"results", &o.Results, true},
	}
}

func (r *ObservationResult) slots() []slot {
	return []slot{
		{"source_call_id", &r.CallID, false},
		{"content", &r.Content, false},
		{"subagent_trajectory_ref", &r.Subagents, false},
		{"extra", &r.Extra, false},
	}
}

func (r *SubagentRef) slots() []slot {
	return []slot{
		{"trajectory_id", &r.TrajectoryID, false},
		{"session_id", &r.SessionID, false},
		{"trajectory_path", &r.TrajectoryPath, false},
		{"extra", &r.Extra, false},
	}
}

func (m *Metrics) slots() []slot {
	return []slot{
		{"prompt_tokens", &m.PromptTokens, false},
		{"completion_tokens", &m.CompletionTokens, false},
		{"cached_tokens", &m.CachedTokens, false},
		{"cost_usd", &m.CostUSD, false},
		{"prompt_token_ids", &m.PromptTokenIDs, false},
		{"completion_token_ids", &m.CompletionTokenIDs, false},
		{"logprobs", &m.Logprobs, false},
		{"extra", &m.Extra, false},
	}
}

func (m *FinalMetrics) slots() []slot {
	return []slot{
		{"total_prompt_tokens", &m.PromptTokens, false},
		{"total_completion_tokens", &m.CompletionTokens, false},
		{"total_cached_tokens", &m.CachedTokens, false},
		{"total_cost_usd", &m.CostUSD, false},
		{"total_steps", &m.Steps, false},
		{"extra", &m.Extra, false},
	}
}

func (p *Part) slots() []slot {
	return []slot{
		{"type", &p.Type, true},
		{"text", &p.Text, false},
		{"source", &p.Media, false},
	}
}

func (m *Media) slots() []slot {
	return []slot{
		{"media_type", &m.MediaType, true},
		{"path", &m.Path, true},
		{"duration_sec", &m.Duration, false},
	}
}

// MarshalJSON writes the format's key order.
func (t Trajectory) MarshalJSON() ([]byte, error) { return writeObject(t.slots(), t.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (t *Trajectory) UnmarshalJSON(data []byte) error { return t.read(data, 0) }

// maxEmbedding bounds how deep documents are read into each other: every level
// reads its text again, so that a hostile file could cost hours. Deeper ones
// stay in Unknown.
const maxEmbedding = 8

func (t *Trajectory) read(data []byte, depth int) (err error) {
	*t = Trajectory{}
	slots := t.slots()
	slots[len(slots)-1].at = &embedded{&t.Subagents, depth + 1}
	t.Unknown, err = readObject(data, slots)
	return err
}

type embedded struct {
	at    *[]Trajectory
	depth int
}

func (e *embedded) UnmarshalJSON(data []byte) error {
	if e.depth > maxEmbedding {
		return fmt.Errorf("subagents embedded deeper than %d levels", maxEmbedding)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	all := make([]Trajectory, len(raw))
	for i := range raw {
		if err := all[i].read(raw[i], e.depth); err != nil {
			return fmt.Errorf("subagent %d: %w", i, err)
		}
	}
	*e.at = all
	return nil
}

// MarshalJSON writes the format's key order.
func (a Agent) MarshalJSON() ([]byte, error) { return writeObject(a.slots(), a.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (a *Agent) UnmarshalJSON(data []byte) (err error) {
	*a = Agent{}
	a.Unknown, err = readObject(data, a.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (s Step) MarshalJSON() ([]byte, error) { return writeObject(s.slots(), s.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (s *Step) UnmarshalJSON(data []byte) (err error) {
	*s = Step{}
	s.Unknown, err = readObject(data, s.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (c ToolCall) MarshalJSON() ([]byte, error) { return writeObject(c.slots(), c.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (c *ToolCall) UnmarshalJSON(data []byte) (err error) {
	*c = ToolCall{}
	c.Unknown, err = readObject(data, c.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (o Observation) MarshalJSON() ([]byte, error) { return writeObject(o.slots(), o.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (o *Observation) UnmarshalJSON(data []byte) (err error) {
	*o = Observation{}
	o.Unknown, err = readObject(data, o.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (r ObservationResult) MarshalJSON() ([]byte, error) { return writeObject(r.slots(), r.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (r *ObservationResult) UnmarshalJSON(data []byte) (err error) {
	*r = ObservationResult{}
	r.Unknown, err = readObject(data, r.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (r SubagentRef) MarshalJSON() ([]byte, error) { return writeObject(r.slots(), r.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (r *SubagentRef) UnmarshalJSON(data []byte) (err error) {
	*r = SubagentRef{}
	r.Unknown, err = readObject(data, r.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (m Metrics) MarshalJSON() ([]byte, error) { return writeObject(m.slots(), m.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (m *Metrics) UnmarshalJSON(data []byte) (err error) {
	*m = Metrics{}
	m.Unknown, err = readObject(data, m.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (m FinalMetrics) MarshalJSON() ([]byte, error) { return writeObject(m.slots(), m.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (m *FinalMetrics) UnmarshalJSON(data []byte) (err error) {
	*m = FinalMetrics{}
	m.Unknown, err = readObject(data, m.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (p Part) MarshalJSON() ([]byte, error) { return writeObject(p.slots(), p.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (p *Part) UnmarshalJSON(data []byte) (err error) {
	*p = Part{}
	p.Unknown, err = readObject(data, p.slots())
	return err
}

// MarshalJSON writes the format's key order.
func (m Media) MarshalJSON() ([]byte, error) { return writeObject(m.slots(), m.Unknown) }

// UnmarshalJSON keeps what it does not know in Unknown.
func (m *Media) UnmarshalJSON(data []byte) (err error) {
	*m = Media{}
	m.Unknown, err = readObject(data, m.slots())
	return err
}
