package scripted

import (
	"strings"

	"assay/internal/model"
)

// ask is a request as far as a server without a model needs it.
type ask struct {
	dialect model.Dialect
	model   string
	stream  bool
	usage   bool // chat: the stream ends with a chunk of usage
	logprob bool
	tokens  bool // token ids, as some servers of open models give
	system  string
	msgs    []message
	tools   []tool
	size    int // bytes of the body
}

type role string

const (
	user      role = "user"
	assistant role = "assistant"
)

// message is one turn of either side. Results of tools come as the user.
type message struct {
	role    role
	text    string
	calls   []call
	results []result
}

type call struct {
	id, name, namespace, args string
	custom                    bool // a free-form tool: args are its input
}

type result struct{ id, name, text string }

// tool is one that a request offers.
type tool struct {
	name, namespace string
	custom          bool
	schema          schema
}

// schema is what of a JSON Schema tells how arguments are spelled.
type schema struct {
	Type       any               `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	Enum       []any             `json:"enum"`
	Minimum    *float64          `json:"minimum"`
}

// is reports whether values of type t are allowed. Gemini writes types in
// capitals; several are a list.
func (s schema) is(t string) bool {
	switch v := s.Type.(type) {
	case string:
		return strings.EqualFold(v, t)
	case []any:
		for _, one := range v {
			if w, ok := one.(string); ok && strings.EqualFold(w, t) {
				return true
			}
		}
	}
	return false
}

// said is all that the user wrote, results of tools excluded.
func (a *ask) said() string {
	var b strings.Builder
	for _, m := range a.msgs {
		if m.role == user && m.text != "" {
			b.WriteString(m.text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// last is the text of the last message, results included.
func (a *ask) last() string {
	if len(a.msgs) == 0 {
		return ""
	}
	m := a.msgs[len(a.msgs)-1]
	text := m.text
	for _, r := range m.results {
		text += "\n" + r.text
	}
	return text
}

// answers counts the assistant's turns.
func (a *ask) answers() (n int) {
	for _, m := range a.msgs {
		if m.role == assistant {
			n++
		}
	}
	return n
}

// add appends to the last message if it is of the same side, as dialects that
// send items instead of messages need it.
func (a *ask) add(r role) *message {
	if n := len(a.msgs); n == 0 || a.msgs[n-1].role != r {
		a.msgs = append(a.msgs, message{role: r})
	}
	return &a.msgs[len(a.msgs)-1]
}

func (w *When) matches(a *ask) bool {
	switch {
	case w.model != nil && !w.model.MatchString(a.model),
		w.system != nil && !w.system.MatchString(a.system),
		w.task != nil && !w.task.MatchString(a.said()),
		w.last != nil && !w.last.MatchString(a.last()),
		w.Tools != nil && *w.Tools != (len(a.tools) > 0):
		return false
	}
	return true
}
