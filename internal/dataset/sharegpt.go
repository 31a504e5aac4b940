package dataset

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"assay/trajectory"
)

// ShareGPT is the form that LLaMA-Factory and Axolotl read as "sharegpt". The
// trainer wants human and observation turns to alternate with the model's, and
// an even number in all; calls and results are text in the turns, since a
// function_call turn of its own would lose what the model said with it.
type ShareGPT struct {
	System string         `json:"system,omitempty"`
	Turns  []ShareGPTTurn `json:"conversations"`
	Tools  string         `json:"tools,omitempty"` // JSON text of the list
}

// ShareGPTTurn is one turn: human, gpt or observation.
type ShareGPTTurn struct {
	From  string `json:"from"`
	Value string `json:"value"`
}

// The marks are those of the Hermes and Qwen templates.
const (
	thinkOpen, thinkClose = "<think>\n", "\n</think>\n\n"
	callOpen, callClose   = "\n<tool_call>\n", "\n</tool_call>"
	backOpen, backClose   = "<tool_response>\n", "\n</tool_response>"
)

// ToShareGPT converts a document; embedded ones are lost.
func ToShareGPT(t *trajectory.Trajectory) (ShareGPT, Lost) {
	chat, lost := ToChat(t)
	w := &shareGPT{lost: lost}
	if len(chat.Tools) > 0 {
		w.out.Tools = oneLine(chat.Tools)
	}
	for i := 0; i < len(chat.Messages); i++ {
		m := chat.Messages[i]
		switch m.Role {
		case "system":
			w.system(text(m.Content))
		case "assistant":
			w.assistant(m)
			last := i
			for i+1 < len(chat.Messages) && chat.Messages[i+1].Role == "tool" {
				i++
			}
			w.results(m.Calls, chat.Messages[last+1:i+1])
		default:
			w.put("human", w.clean(text(m.Content)))
		}
	}
	if n := len(w.out.Turns); n%2 == 1 {
		w.out.Turns = w.out.Turns[:n-1]
		lost.add("trailing turn", true)
	}
	if w.out.Turns == nil {
		w.out.Turns = []ShareGPTTurn{}
	}
	return w.out, lost
}

type shareGPT struct {
	out  ShareGPT
	lost Lost
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// clean notes a text in which the marks of calls, results or thoughts stand.
func (w *shareGPT) clean(s string) string {
	for _, mark := range []string{"<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"} {
		if strings.Contains(s, mark) {
			w.lost.add("text that looks like marks", true)
			break
		}
	}
	return s
}

func (w *shareGPT) system(s string) {
	if len(w.out.Turns) == 0 && w.out.System == "" && s != "" {
		w.out.System = s
		return
	}
	w.lost.add("role of a system message", true)
	w.put("human", w.clean(s))
}

// put adds a turn, joined with the one before where that is of the same side.
func (w *shareGPT) put(from, value string) {
	n := len(w.out.Turns)
	if n == 0 && from == "gpt" {
		w.lost.add("beginning with the model", true)
		w.out.Turns = append(w.out.Turns, ShareGPTTurn{From: "human"})
		n++
	}
	if n > 0 && (w.out.Turns[n-1].From == "gpt") == (from == "gpt") {
		w.lost.add("boundary of turns", true)
		w.out.Turns[n-1].Value += "\n\n" + value
		return
	}
	w.out.Turns = append(w.out.Turns, ShareGPTTurn{from, value})
}

func (w *shareGPT) assistant(m ChatMessage) {
	var b strings.Builder
	if m.Reasoning != nil {
		b.WriteString(thinkOpen + w.clean(*m.Reasoning) + thinkClose)
	}
	b.WriteString(w.clean(text(m.Content)))
	for _, c := range m.Calls {
		w.lost.add("tool_call_id", true)
		b.WriteString(callOpen + w.clean(spell(c)) + callClose)
	}
	w.put("gpt", b.String())
}

// spell is a call as one line of JSON.
func spell(c ChatCall) string {
	switch {
	case c.Custom != nil:
		return oneLine(struct {
			Name  string `json:"name"`
			Input string `json:"input"`
		}{c.Custom.Name, c.Custom.Input})
	case isObject(c.Function.Arguments):
		return oneLine(struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"arguments"`
		}{c.Function.Name, json.RawMessage(c.Function.Arguments)})
	}
	return oneLine(struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	}{c.Function.Name, c.Function.Arguments})
}

func oneLine(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // strings and valid JSON always marshal
	return strings.TrimSuffix(b.String(), "\n")
}

// results writes the answers of a turn's calls, which a reader pairs by their
// order.
func (w *shareGPT) results(calls []ChatCall, answers []ChatMessage) {
	if len(answers) == 0 {
		return
	}
	paired := len(answers) <= len(calls)
	var values []string
	for i, a := range answers {
		paired = paired && calls[i].ID == text(a.CallID)
		values = append(values, backOpen+w.clean(text(a.Content))+backClose)
	}
	w.lost.add("which call a result answers", !paired)
	w.put("observation", strings.Join(values, "\n"))
}

// FromShareGPT makes a document of turns. Calls get ids by their order.
func FromShareGPT(g ShareGPT, agent trajectory.Agent) *trajectory.Trajectory {
	var c Chat
	_ = json.Unmarshal([]byte(g.Tools), &c.Tools) // no list: no tools
	if g.System != "" {
		c.Messages = append(c.Messages, ChatMessage{Role: "system", Content: &g.System})
	}
	ids, open := 0, []string{}
	for _, t := range g.Turns {
		switch t.From {
		case "gpt":
			m := parseTurn(t.Value)
			open = open[:0]
			for i := range m.Calls {
				ids++
				m.Calls[i].ID = "call_" + strconv.Itoa(ids)
				open = append(open, m.Calls[i].ID)
			}
			c.Messages = append(c.Messages, m)
		case "observation":
			for _, part := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(t.Value, backOpen), backClose), backClose+"\n"+backOpen) {
				m := ChatMessage{Role: "tool", Content: &part}
				if len(open) > 0 {
					m.CallID, open = &open[0], slices.Clone(open[1:])
				}
				c.Messages = append(c.Messages, m)
			}
		default:
			c.Messages = append(c.Messages, ChatMessage{Role: "user", Content: &t.Value})
		}
	}
	return FromChat(c, agent)
}

// parseTurn takes a turn of the model apart.
func parseTurn(value string) ChatMessage {
	m := ChatMessage{Role: "assistant"}
	if rest, ok := strings.CutPrefix(value, thinkOpen); ok {
		if think, after, ok := strings.Cut(rest, thinkClose); ok {
			m.Reasoning, value = &think, after
		}
	}
	if at := strings.Index(value, callOpen); at >= 0 && strings.HasSuffix(value, callClose) {
		for _, line := range strings.Split(strings.TrimSuffix(value[at+len(callOpen):], callClose), callClose+callOpen) {
			m.Calls = append(m.Calls, parseCall(line))
		}
		value = value[:at]
	}
	m.Content = &value
	return m
}

func parseCall(line string) ChatCall {
	var c struct {
		Name      string
		Arguments json.RawMessage
		Input     *string
	}
	if json.Unmarshal([]byte(line), &c) != nil {
		return ChatCall{Type: "function", Function: &ChatFunction{Arguments: line}}
	}
	if c.Input != nil {
		return ChatCall{Type: "custom", Custom: &ChatCustom{c.Name, *c.Input}}
	}
	args := string(c.Arguments)
	var asText string
	if json.Unmarshal(c.Arguments, &asText) == nil {
		args = asText
	}
	return ChatCall{Type: "function", Function: &ChatFunction{c.Name, args}}
}
