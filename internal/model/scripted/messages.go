package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"assay/internal/model"
)

// messages is Anthropic's dialect. Every event has an event: line;
// message_start carries usage; each block is started, filled and stopped;
// message_delta tells why it ended.
type messages struct{}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
}

func (messages) read(path string, body []byte) (*ask, error) {
	var in struct {
		Model     string          `json:"model"`
		MaxTokens int64           `json:"max_tokens"`
		System    json.RawMessage `json:"system"`
		Stream    bool            `json:"stream"`
		Messages  []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Type   string `json:"type"`
			Name   string `json:"name"`
			Schema schema `json:"input_schema"`
		} `json:"tools"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Model == "":
		return nil, errors.New("model: Field required")
	case len(in.Messages) == 0:
		return nil, errors.New("messages: at least one message is required")
	}
	if in.MaxTokens < 1 && !strings.HasSuffix(path, "/count_tokens") {
		return nil, errors.New("max_tokens: Field required")
	}
	system, err := texts(in.System)
	if err != nil {
		return nil, fmt.Errorf("system: %w", err)
	}
	a := &ask{dialect: model.Messages, model: in.Model, stream: in.Stream, system: system, size: len(body)}
	for _, t := range in.Tools {
		if t.Type == "" || t.Type == "custom" { // another type is one of the provider's own
			a.tools = append(a.tools, tool{name: t.Name, schema: t.Schema})
		}
	}
	for i, m := range in.Messages {
		if err := a.messagesMessage(m.Role, m.Content); err != nil {
			return nil, fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	return a, nil
}

func (a *ask) messagesMessage(from string, content json.RawMessage) error {
	var m *message
	switch from {
	case "user":
		m = a.add(user)
	case "assistant":
		m = a.add(assistant)
	case "system": // within the conversation, as a beta allows
		text, err := texts(content)
		a.system += "\n" + text
		return err
	default:
		return fmt.Errorf("role: Input should be 'user' or 'assistant', not '%s'", from)
	}
	var blocks []messagesBlock
	if len(content) > 0 && content[0] == '"' {
		text, err := texts(content)
		if err != nil {
			return err
		}
		blocks = []messagesBlock{{Type: "text", Text: text}}
	} else if err := json.Unmarshal(content, &blocks); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	if len(blocks) == 0 && from == "user" {
		return errors.New("user messages must have non-empty content")
	}
	for j, b := range blocks {
		if err := m.block(b); err != nil {
			return fmt.Errorf("content.%d: %w", j, err)
		}
	}
	return nil
}

func (m *message) block(b messagesBlock) error {
	switch b.Type {
	case "text":
		if b.Text == "" {
			return errors.New("text content blocks must be non-empty")
		}
		if m.text != "" {
			m.text += "\n"
		}
		m.text += b.Text
	case "thinking":
		if b.Signature != signature(b.Thinking) {
			return errors.New("Invalid `signature` in `thinking` block")
		}
	case "tool_use":
		if b.ID == "" || b.Name == "" || len(b.Input) == 0 || b.Input[0] != '{' {
			return errors.New("tool_use: id, name and input (an object) are required")
		}
		m.calls = append(m.calls, call{id: b.ID, name: b.Name, args: string(b.Input)})
	case "tool_result":
		text, err := texts(b.Content)
		if err != nil {
			return err
		}
		m.results = append(m.results, result{id: b.ToolUseID, text: text})
	}
	return nil
}

// signature is what a thinking block must come back with.
func signature(thinking string) string { return fmt.Sprintf("sig-%05d", tokenID(thinking)) }

func (messages) usage(u *Usage, output int64) object {
	if u == nil {
		return object{}
	}
	return object{"input_tokens": u.Input - u.Cached, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0, "output_tokens": output}
}

func (a *answer) messagesStop() string {
	return a.finish("tool_use", "max_tokens", "refusal", "refusal", "end_turn")
}

// blocks are the whole content.
func (messages) blocks(a *answer) []object {
	out := []object{}
	if a.empty {
		return out
	}
	if a.reasoning != "" {
		out = append(out, object{"type": "thinking", "thinking": a.reasoning, "signature": signature(a.reasoning)})
	}
	if text := a.text + a.refusal; text != "" {
		out = append(out, object{"type": "text", "text": text})
	}
	for _, c := range a.calls {
		var input any = json.RawMessage(c.args)
		if !json.Valid([]byte(c.args)) { // only a stream can say it as it is
			input = object{"INVALID_JSON": c.args}
		}
		out = append(out, object{"type": "tool_use", "id": c.id, "name": c.name, "input": input})
	}
	return out
}

func (m messages) message(a *answer, content []object, stop any, output int64) object {
	out := object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model, "content": content, "stop_reason": stop, "stop_sequence": nil}
	if a.usage != nil {
		out["usage"] = m.usage(a.usage, output)
	}
	return out
}

func (m messages) whole(_ *ask, a *answer) object {
	var output int64
	if a.usage != nil {
		output = a.usage.Output
	}
	return m.message(a, m.blocks(a), a.messagesStop(), output)
}

func (m messages) events(_ *ask, a *answer) iter.Seq[event] {
	return func(yield func(event) bool) {
		send := func(kind string, o object) bool {
			o["type"] = kind
			return yield(event{kind, encode(o)})
		}
		if !send("message_start", object{"message": m.message(a, []object{}, nil, 1)}) || !send("ping", object{}) {
			return
		}
		for i, b := range m.blocks(a) {
			if !m.block(a, i, b, send) {
				return
			}
		}
		last := object{"delta": object{"stop_reason": a.messagesStop(), "stop_sequence": nil}}
		if a.usage != nil {
			last["usage"] = m.usage(a.usage, a.usage.Output)
		}
		_ = send("message_delta", last) && send("message_stop", object{})
	}
}

func (messages) block(a *answer, i int, b object, send func(string, object) bool) bool {
	delta := func(o object) bool { return send("content_block_delta", object{"index": i, "delta": o}) }
	each := func(text, kind, field string) bool {
		for piece := range pieces(text, a.chunk) {
			if !delta(object{"type": kind, field: piece}) {
				return false
			}
		}
		return true
	}
	began, ok := object{"type": b["type"]}, false
	switch b["type"] {
	case "thinking":
		began["thinking"], began["signature"] = "", ""
		text := b["thinking"].(string)
		ok = send("content_block_start", object{"index": i, "content_block": began}) &&
			each(text, "thinking_delta", "thinking") && delta(object{"type": "signature_delta", "signature": signature(text)})
	case "text":
		began["text"] = ""
		ok = send("content_block_start", object{"index": i, "content_block": began}) && each(b["text"].(string), "text_delta", "text")
	default:
		began["id"], began["name"], began["input"] = b["id"], b["name"], object{}
		ok = send("content_block_start", object{"index": i, "content_block": began}) &&
			each(a.argsOf(b["id"]), "input_json_delta", "partial_json")
	}
	return ok && send("content_block_stop", object{"index": i})
}

func (a *answer) argsOf(id any) string {
	for _, c := range a.calls {
		if c.id == id {
			return c.args
		}
	}
	return ""
}

func (messages) fail(f failure) object {
	return object{"type": "error", "error": object{"type": f.anthropicType(), "message": f.message}, "request_id": "req_scripted"}
}

func (m messages) within(f failure, _ int) event { return event{"error", encode(m.fail(f))} }
