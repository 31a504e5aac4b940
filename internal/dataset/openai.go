package dataset

import (
	"encoding/json"
	"strings"

	"assay/trajectory"
)

// Lost counts what a format cannot hold, by field.
type Lost map[string]int

func (l Lost) add(field string, lost bool) {
	if lost {
		l[field]++
	}
}

// Chat is OpenAI's chat form of a conversation.
type Chat struct {
	Messages []ChatMessage     `json:"messages"`
	Tools    []json.RawMessage `json:"tools,omitempty"`
}

// ChatMessage is one message. Reasoning stands in reasoning_content, as the
// servers that give it and the trainers that take it call it.
type ChatMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	Calls     []ChatCall `json:"tool_calls,omitempty"`
	CallID    *string    `json:"tool_call_id,omitempty"`
}

// ChatCall is a call of a function, or of a custom tool with free text.
type ChatCall struct {
	ID       string        `json:"id"`
	Type     string        `json:"type"`
	Function *ChatFunction `json:"function,omitempty"`
	Custom   *ChatCustom   `json:"custom,omitempty"`
}

// ChatFunction holds arguments as the model wrote them.
type ChatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ChatCustom is a call of a custom tool.
type ChatCustom struct {
	Name  string `json:"name"`
	Input string `json:"input"`
}

// The forms of calls that the gateway's trajectories name in extra.assay.form.
const (
	formCustom    = "custom"
	formMalformed = "malformed"
	formText      = "text"
)

// ToChat converts a document; embedded ones are lost.
func ToChat(t *trajectory.Trajectory) (Chat, Lost) {
	lost := Lost{}
	lostOfDocument(lost, t)
	c := Chat{Messages: []ChatMessage{}, Tools: t.Agent.ToolDefinitions}
	for i := range t.Steps {
		s := &t.Steps[i]
		lostOfStep(lost, s)
		m := ChatMessage{Role: role(s.Source), Reasoning: s.ReasoningContent}
		calls, written := chatCalls(lost, s)
		m.Calls = calls
		if text := s.Message.String(); text != "" || len(calls) == 0 {
			m.Content = &text
		}
		c.Messages = append(c.Messages, m)
		c.results(lost, s, written)
	}
	return c, lost
}

func role(s trajectory.Source) string {
	if s == trajectory.Agents {
		return "assistant"
	}
	return string(s)
}

func lostOfDocument(lost Lost, t *trajectory.Trajectory) {
	lost.add("session_id", t.SessionID != "")
	lost.add("trajectory_id", t.TrajectoryID != "")
	lost.add("notes", t.Notes != "")
	lost.add("final_metrics", t.FinalMetrics != nil)
	lost.add("continued_trajectory_ref", t.ContinuedRef != "")
	lost.add("extra", len(t.Extra) > 0)
	lost.add("agent.extra", len(t.Agent.Extra) > 0)
	lost.add("unknown keys", len(t.Unknown)+len(t.Agent.Unknown) > 0)
	for range t.Subagents {
		lost.add("subagent_trajectories", true)
	}
}

func lostOfStep(lost Lost, s *trajectory.Step) {
	lost.add("timestamp", s.Timestamp != "")
	lost.add("model_name", s.ModelName != "")
	lost.add("reasoning_effort", len(s.ReasoningEffort) > 0)
	lost.add("metrics", s.Metrics != nil)
	lost.add("is_copied_context", s.CopiedContext != nil)
	lost.add("llm_call_count", s.LLMCalls != nil)
	lost.add("steps.extra", len(s.Extra) > 0)
	lost.add("unknown keys", len(s.Unknown) > 0)
	lost.add("parts of a message", s.Message.Parts != nil)
}

// chatCalls are the calls of a step. Those that were read out of the message
// are in it already.
func chatCalls(lost Lost, s *trajectory.Step) (all []ChatCall, written map[string]bool) {
	written = map[string]bool{}
	for _, c := range s.ToolCalls {
		form, more := formOf(c.Extra)
		lost.add("tool_calls.extra", more)
		lost.add("unknown keys", len(c.Unknown) > 0)
		var text struct{ Input, Text string }
		_ = json.Unmarshal(c.Arguments, &text) // other fields stay empty
		switch form {
		case formText:
			written[c.ID] = true
			lost.add("tool_calls read out of a message", true)
		case formCustom:
			all = append(all, ChatCall{ID: c.ID, Type: "custom", Custom: &ChatCustom{c.Function, text.Input}})
		case formMalformed:
			all = append(all, ChatCall{ID: c.ID, Type: "function", Function: &ChatFunction{c.Function, text.Text}})
		default:
			all = append(all, ChatCall{ID: c.ID, Type: "function", Function: &ChatFunction{c.Function, string(c.Arguments)}})
		}
	}
	return all, written
}

// formOf reads a call's note; more says that there is anything beside the form.
func formOf(extra map[string]json.RawMessage) (form string, more bool) {
	var n map[string]json.RawMessage
	if json.Unmarshal(extra["assay"], &n) == nil {
		_ = json.Unmarshal(n["form"], &form) // no string: no form that is known
	}
	switch form {
	case formText, formCustom, formMalformed:
		return form, len(extra) > 1 || len(n) > 1
	}
	return "", len(extra) > 0
}

// results adds the messages that follow a step: a tool's for each result of a
// call, a user's for any other.
func (c *Chat) results(lost Lost, s *trajectory.Step, written map[string]bool) {
	if s.Observation == nil {
		return
	}
	lost.add("observation of nothing", len(s.Observation.Results) == 0)
	lost.add("unknown keys", len(s.Observation.Unknown) > 0)
	var loose []ChatMessage // after the tools' messages, which must follow their calls
	for _, r := range s.Observation.Results {
		lost.add("observation.extra", len(r.Extra) > 0)
		lost.add("unknown keys", len(r.Unknown) > 0)
		lost.add("subagent_trajectory_ref", len(r.Subagents) > 0)
		if r.Content == nil {
			lost.add("observation without content", true)
			continue
		}
		lost.add("parts of a message", r.Content.Parts != nil)
		text := r.Content.String()
		if id := r.CallID; id != "" && !written[id] && s.Source == trajectory.Agents {
			c.Messages = append(c.Messages, ChatMessage{Role: "tool", Content: &text, CallID: &id})
			continue
		}
		lost.add("observation without a call", !written[r.CallID])
		loose = append(loose, ChatMessage{Role: "user", Content: &text})
	}
	c.Messages = append(c.Messages, loose...)
}

// FromChat makes a document of a conversation. A tool's message goes to the
// assistant's before it.
func FromChat(c Chat, agent trajectory.Agent) *trajectory.Trajectory {
	agent.ToolDefinitions = c.Tools
	t := &trajectory.Trajectory{SchemaVersion: trajectory.Version, Agent: agent}
	for _, m := range c.Messages {
		text := ""
		if m.Content != nil {
			text = *m.Content
		}
		if n := len(t.Steps); m.Role == "tool" && n > 0 && t.Steps[n-1].Source == trajectory.Agents && m.CallID != nil {
			s, content := &t.Steps[n-1], trajectory.Text(text)
			if s.Observation == nil {
				s.Observation = &trajectory.Observation{}
			}
			s.Observation.Results = append(s.Observation.Results, trajectory.ObservationResult{CallID: *m.CallID, Content: &content})
			continue
		}
		s := trajectory.Step{ID: int64(len(t.Steps) + 1), Source: trajectory.User, Message: trajectory.Text(text)}
		switch m.Role {
		case "assistant":
			s.Source, s.ReasoningContent, s.ToolCalls = trajectory.Agents, m.Reasoning, fromCalls(m.Calls)
		case "system", "developer":
			s.Source = trajectory.System
		}
		t.Steps = append(t.Steps, s)
	}
	return t
}

func fromCalls(all []ChatCall) (calls []trajectory.ToolCall) {
	for _, c := range all {
		switch {
		case c.Custom != nil:
			calls = append(calls, formed(c.ID, c.Custom.Name, formCustom, "input", c.Custom.Input))
		case c.Function == nil:
		case isObject(c.Function.Arguments):
			calls = append(calls, trajectory.ToolCall{ID: c.ID, Function: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)})
		default:
			calls = append(calls, formed(c.ID, c.Function.Name, formMalformed, "text", c.Function.Arguments))
		}
	}
	return calls
}

func formed(id, name, form, field, value string) trajectory.ToolCall {
	b, _ := json.Marshal(map[string]string{field: value}) // strings always marshal
	return trajectory.ToolCall{ID: id, Function: name, Arguments: b,
		Extra: map[string]json.RawMessage{"assay": json.RawMessage(`{"form":"` + form + `"}`)}}
}

func isObject(s string) bool {
	return strings.HasPrefix(strings.TrimSpace(s), "{") && json.Valid([]byte(s))
}
