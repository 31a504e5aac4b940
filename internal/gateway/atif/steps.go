package atif

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/model"
	"assay/trajectory"
)

// steps are those of one document while it is written.
type steps struct {
	w   *writer
	doc int
	all []trajectory.Step
	// open are calls without an answer, by "id …" and "name …".
	open map[string][]*waiting
}

// turnNote is what a step's extra says under "assay".
type turnNote struct {
	Seq         int               `json:"seq,omitempty"` // of the call
	Stop        model.Stop        `json:"stop,omitempty"`
	Millis      float64           `json:"ms,omitempty"`
	First       *float64          `json:"first_byte_ms,omitempty"`
	Waited      float64           `json:"waited_ms,omitempty"`
	Retries     []try             `json:"retries,omitempty"`
	Error       *model.Error      `json:"error,omitempty"`
	Aborted     bool              `json:"aborted,omitempty"`
	Cut         bool              `json:"cut,omitempty"` // the answer is not whole
	Refusal     bool              `json:"refusal,omitempty"`
	NewSystem   bool              `json:"system_changed,omitempty"`
	Edited      bool              `json:"history_edited,omitempty"`
	Injected    bool              `json:"injected,omitempty"` // the client wrote it in the model's name
	Failed      bool              `json:"failed,omitempty"`   // no answer came
	HiddenThink bool              `json:"reasoning_hidden,omitempty"`
	Opaque      []json.RawMessage `json:"opaque,omitempty"`
}

func (s *steps) add(x trajectory.Step) int {
	s.w.steps++
	if s.w.steps > maxSteps {
		return len(s.all) - 1
	}
	s.all = append(s.all, x)
	s.expect(len(s.all) - 1)
	return len(s.all) - 1
}

// turn writes what a request added, and its answer.
func (s *steps) turn(n, next *node, newSystem bool) {
	if s.w.steps > maxSteps {
		return
	}
	s.context(n)
	extra := turnNote{
		Seq: n.call.Seq, Millis: finite(n.call.Millis), First: n.call.First, Waited: finite(n.call.Waited), Retries: s.tries(n.tries),
		Error: s.error(n.call.Err), Aborted: n.call.Aborted, NewSystem: newSystem, Edited: n.edited,
	}
	if extra.First != nil && !isFinite(*extra.First) {
		extra.First = nil
	}
	if n.answer == nil || len(n.said) == 0 && reasoningText(n.answer) == "" && !whole(&n.call, n.answer) {
		extra.Failed = true
		s.w.at[n] = spot{s.doc, s.add(trajectory.Step{Source: trajectory.System, Timestamp: stamp(ended(n)), Message: trajectory.Text(s.failure(n)), Extra: note(extra)})}
		return
	}
	s.answer(n, next, extra)
}

func ended(n *node) time.Time {
	return n.call.Time.Add(time.Duration(finite(n.call.Millis) * float64(time.Millisecond)))
}

func finite(f float64) float64 {
	if !isFinite(f) || f < 0 || f > 1e9 {
		return 0
	}
	return f
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func (s *steps) failure(n *node) string {
	if n.call.Err == nil {
		if n.call.Aborted {
			return "The agent went away before the model answered."
		}
		return "The model gave no answer."
	}
	return "The model gave no answer: " + s.w.pen.cut(head(n.call.Err.Error(), maxLate))
}

func (s *steps) error(e *model.Error) *model.Error {
	if e == nil {
		return nil
	}
	c := *e
	c.Message, c.Type, c.Kind = s.w.pen.cut(head(e.Message, maxLate)), clean(e.Type), model.ErrorKind(clean(string(e.Kind)))
	return &c
}

func (s *steps) tries(all []try) []try {
	out := make([]try, 0, min(len(all), maxOther))
	for i, t := range all {
		if i >= maxOther {
			break
		}
		t.Error = s.error(t.Error)
		if t.answer != nil {
			t.Message, t.Reasoning = s.w.pen.cut(answerText(t.answer)), s.w.pen.cut(reasoningText(t.answer))
			for _, c := range calls(t.answer) {
				t.Calls = append(t.Calls, s.w.pen.cut(c.Name+" "+c.Arguments))
			}
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// answer writes the turn of the model.
func (s *steps) answer(n, next *node, extra turnNote) {
	pen := s.w.pen
	extra.Stop, extra.Cut = n.answer.Stop, !whole(&n.call, n.answer)
	tried := int64(1 + len(n.tries))
	x := trajectory.Step{
		Source: trajectory.Agents, Timestamp: stamp(ended(n)), Message: trajectory.Text(pen.cut(answerText(n.answer))),
		LLMCalls: &tried, Metrics: s.metrics(n),
	}
	if r := reasoningText(n.answer); r != "" {
		r = pen.cut(r)
		x.ReasoningContent = &r
	}
	if e := n.sampling.Effort; e != "" {
		x.ReasoningEffort, _ = json.Marshal(clean(e))
	}
	if m := clean(n.answer.Model); m != "" && m != s.w.agent(n).ModelName {
		x.ModelName = m
	}
	for _, p := range n.answer.Message.Parts {
		switch p.Kind {
		case model.PartCall:
			if p.Call != nil {
				x.ToolCalls = append(x.ToolCalls, s.call(*p.Call))
				if c := &x.ToolCalls[len(x.ToolCalls)-1]; c.ID == "" { // gemini's calls need none
					c.ID = fmt.Sprintf("call-%d-%d", n.call.Seq, len(x.ToolCalls))
				}
			}
		case model.PartRefusal:
			extra.Refusal = true
		case model.PartReasoning:
			extra.HiddenThink = extra.HiddenThink || p.Text == "" && p.Signature != ""
		case model.PartOpaque:
			if raw, ok := plain(p.Raw); ok && pen.room(len(raw)) {
				extra.Opaque = append(extra.Opaque, raw)
			}
		}
	}
	if len(n.tools) == 0 && len(x.ToolCalls) == 0 {
		x.ToolCalls = s.written(n, next)
	}
	x.Extra = note(extra)
	s.w.at[n] = spot{s.doc, s.add(x)}
}

// callNote is what a call's extra says under "assay".
type callNote struct {
	Form      string `json:"form,omitempty"` // "custom": arguments.input is free text; "malformed": arguments.text is no JSON object; "text": read out of the message
	Namespace string `json:"namespace,omitempty"`
}

func (s *steps) call(c model.Call) trajectory.ToolCall {
	out := trajectory.ToolCall{ID: clean(c.ID), Function: clean(c.Name)}
	x := callNote{Namespace: clean(c.Namespace)}
	raw, ok := object(c.Arguments)
	switch {
	case c.Custom:
		x.Form = "custom"
		out.Arguments = field("input", s.w.pen.cut(c.Arguments))
	case strings.TrimSpace(c.Arguments) == "":
		out.Arguments = json.RawMessage("{}")
	case ok && len(raw) <= s.w.pen.one && s.w.pen.room(len(raw)):
		out.Arguments = raw
	default:
		x.Form = "malformed"
		if ok {
			x.Form = "cut"
		}
		out.Arguments = field("text", s.w.pen.cut(c.Arguments))
	}
	out.Extra = note(x)
	return out
}

func field(name, value string) json.RawMessage {
	b, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

// fenced finds commands in the texts of agents that use no tools: one block
// fenced as a shell's.
var fenced = regexp.MustCompile("(?s)```([A-Za-z_]*(?:bash|sh|shell)[A-Za-z_]*)[ \t]*\n(.*?)\n?```")

// written is the command that a model without tools wrote into its text. A
// plain shell block counts only where the client answered it; a block whose
// name says that it is an action always does.
func (s *steps) written(n, next *node) []trajectory.ToolCall {
	found := fenced.FindAllStringSubmatch(head(answerText(n.answer), s.w.pen.one), 2)
	if len(found) != 1 {
		return nil
	}
	name := found[0][1]
	if !strings.Contains(name, "_") && (next == nil || len(next.delta) == 0 || next.delta[0].part.Kind != model.PartText) {
		return nil
	}
	return []trajectory.ToolCall{{
		ID: "text-" + strconv.Itoa(n.call.Seq), Function: name,
		Arguments: field("command", s.w.pen.cut(found[0][2])), Extra: note(callNote{Form: "text"}),
	}}
}

// metrics are what a call took; nil when nothing is known.
func (s *steps) metrics(n *node) *trajectory.Metrics {
	u := usageOf(n)
	m := trajectory.Metrics{PromptTokens: u.Input, CompletionTokens: u.Output, CachedTokens: u.Cached}
	if c := n.call.CostUSD; c != nil && isFinite(*c) {
		m.CostUSD = c
	}
	extra := map[string]int64{}
	if u.Reasoning != nil {
		extra["reasoning_tokens"] = *u.Reasoning
	}
	if u.CacheWrite != nil {
		extra["cache_write_tokens"] = *u.CacheWrite
	}
	if len(extra) > 0 {
		m.Extra = note(extra)
	}
	known := u.Input != nil || u.Output != nil || u.Cached != nil || m.CostUSD != nil || len(extra) > 0
	if t := n.answer.Tokens; t != nil {
		if s.w.pen.room(7*(len(t.Prompt)+len(t.Completion)) + 20*len(t.Logprobs)) {
			m.PromptTokenIDs, m.CompletionTokenIDs, m.Logprobs = t.Prompt, t.Completion, finiteAll(t.Logprobs)
			known = true
		} else {
			s.w.pen.tokens = true
		}
	}
	if !known {
		return nil
	}
	return &m
}

// finiteAll is nil when one of the numbers is none: JSON cannot hold it.
func finiteAll(all []float64) []float64 {
	for _, f := range all {
		if !isFinite(f) {
			return nil
		}
	}
	return all
}
