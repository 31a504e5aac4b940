package anthropic

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"assay/internal/model"
)

// obj is a JSON object that is being written; its keys come out sorted.
type obj = map[string]any

// writer writes the parts of one request or answer.
type writer struct {
	r      *model.Request
	own    bool // it is of this dialect, or made here
	losses model.Losses
}

func newWriter(r *model.Request) *writer {
	return &writer{r: r, own: r.Dialect == model.Messages || r.Dialect == ""}
}

// FormatRequest writes a request. Reasoning that carries no signature is left
// out of a request of another dialect: Anthropic's servers refuse it.
func (c Messages) FormatRequest(r model.Request) (string, []byte, []model.Loss, error) {
	w := newWriter(&r)
	if err := r.Stateless(); err != nil && !w.own {
		return "", nil, nil, err
	}
	out := obj{"model": r.Model}
	if w.own {
		maps.Copy(out, anyMap(r.Extra))
	} else {
		w.losses.Unknown("", r.Dialect, r.Extra)
	}
	rest := w.system(out, r.Messages)
	out["messages"] = w.turns(rest)
	if tools := w.tools(); len(tools) > 0 {
		out["tools"] = tools
		if choice := w.choice(); choice != nil {
			out["tool_choice"] = choice
		}
	}
	c.sampling(w, out)
	body, err := model.Encode(out)
	if err != nil {
		return "", nil, nil, fmt.Errorf("write messages request: %w", err)
	}
	return "/v1/messages", body, w.losses.All(), nil
}

func (c Messages) sampling(w *writer, out obj) {
	r, s := w.r, w.r.Sampling
	set(out, "temperature", s.Temperature)
	set(out, "top_p", s.TopP)
	set(out, "top_k", s.TopK)
	set(out, "max_tokens", s.MaxTokens)
	if s.MaxTokens == nil && r.Dialect != model.Messages { // a count of tokens has none
		limit := c.MaxTokens
		if limit == 0 {
			limit = 32000
		}
		out["max_tokens"] = limit
	}
	if len(s.Stop) > 0 {
		out["stop_sequences"] = s.Stop
	}
	if s.Seed != nil {
		w.losses.Add("seed", "there is no such parameter")
	}
	if r.Logprobs {
		w.losses.Add("logprobs", "there is no such parameter")
	}
	if r.Stream {
		out["stream"] = true
	}
	config := obj{}
	switch s.Effort {
	case "":
	case "none":
		w.losses.Add("reasoning_effort", "messages has no effort none")
	case "minimal":
		config["effort"] = "low"
	default:
		config["effort"] = s.Effort
	}
	if r.Format != nil && r.Format.Schema != nil {
		config["format"] = obj{"type": "json_schema", "schema": r.Format.Schema}
	} else if r.Format != nil {
		w.losses.Add("response_format", "messages asks for JSON by a schema only")
	}
	if len(config) > 0 {
		out["output_config"] = config
	}
}

func set[T any](out obj, key string, v *T) {
	if v != nil {
		out[key] = *v
	}
}

func anyMap(in map[string]json.RawMessage) obj {
	out := obj{}
	for k, v := range in {
		out[k] = v
	}
	return out
}

// system takes the instructions at the beginning.
func (w *writer) system(out obj, in []model.Message) []model.Message {
	var blocks []any
	for len(in) > 0 && in[0].Role == model.RoleSystem {
		blocks = append(blocks, w.blocks(in[0].Parts)...)
		in = in[1:]
	}
	if len(blocks) > 0 {
		out["system"] = blocks
	}
	return in
}

// turns writes messages. Results and what follows them are one turn.
func (w *writer) turns(in []model.Message) []obj {
	out := []obj{}
	for i, m := range in {
		role := "user"
		switch {
		case m.Role == model.RoleAssistant:
			role = "assistant"
		case m.Role == model.RoleSystem && w.own:
			role = "system"
		case m.Role == model.RoleSystem:
			w.losses.Add("messages[].system", "instructions after the beginning are sent as the user's")
		}
		blocks := w.blocks(m.Parts)
		if len(blocks) == 0 && !w.own {
			continue // an empty turn is refused
		}
		if i > 0 && in[i-1].Role == model.RoleTool && role == "user" && len(out) > 0 {
			last := out[len(out)-1]
			before, _ := last["content"].([]any)
			last["content"] = append(before, blocks...)
			continue
		}
		turn := obj{"role": role, "content": blocks}
		if w.own {
			maps.Copy(turn, anyMap(m.Extra))
		} else {
			w.losses.Unknown("messages[].", w.r.Dialect, m.Extra)
		}
		out = append(out, turn)
	}
	return out
}

func (w *writer) tools() []any {
	var all []any
	for _, t := range w.r.Tools {
		if t.Hosted != "" {
			if w.own {
				all = append(all, t.Raw)
			} else {
				w.losses.Add("tools["+t.Hosted+"]", "a tool that the provider itself runs")
			}
			continue
		}
		tool := obj{"name": model.FlatName(t.Namespace, t.Name), "input_schema": t.Schema}
		if t.Custom {
			tool["input_schema"] = model.FreeForm()
			if t.Raw != nil {
				w.losses.Add("tools[].format", "the grammar of a free-form tool is not enforced; it becomes a function with one string")
			}
		}
		if t.Description != "" {
			tool["description"] = t.Description
		}
		set(tool, "strict", t.Strict)
		if w.own {
			maps.Copy(tool, anyMap(t.Extra))
		} else {
			w.losses.Unknown("tools[].", w.r.Dialect, t.Extra)
		}
		all = append(all, tool)
	}
	return all
}

func (w *writer) choice() obj {
	var c obj
	switch w.r.Choice {
	case "":
		if w.r.Parallel != nil {
			c = obj{"type": "auto"}
		}
	case model.ChoiceAuto, model.ChoiceNone:
		c = obj{"type": w.r.Choice}
	case model.ChoiceRequired:
		c = obj{"type": "any"}
	default:
		name := string(w.r.Choice)
		if t := w.r.Tool(model.Call{Name: name}); t != nil {
			name = model.FlatName(t.Namespace, t.Name)
		}
		c = obj{"type": "tool", "name": name}
	}
	if c != nil && w.r.Parallel != nil && w.r.Choice != model.ChoiceNone {
		c["disable_parallel_tool_use"] = !*w.r.Parallel
	}
	return c
}

func (w *writer) blocks(parts []model.Part) []any {
	all := []any{}
	for _, p := range parts {
		if b := w.block(p); b != nil {
			all = append(all, b)
		}
	}
	return all
}

// block writes a part; nil if it cannot be said.
func (w *writer) block(p model.Part) any {
	var b obj
	if p.Signature != "" && p.Kind != model.PartReasoning {
		w.losses.Signed(p.Kind)
	}
	switch p.Kind {
	case model.PartText, model.PartRefusal:
		if p.Text == "" {
			return nil // servers refuse it
		}
		b = obj{"type": "text", "text": p.Text}
	case model.PartReasoning:
		if p.Dialect == model.Messages && p.Raw != nil {
			return p.Raw
		}
		if p.Signature == "" && !w.own {
			w.losses.Add("messages[].reasoning", "reasoning without a signature is refused by messages")
			return nil
		}
		b = obj{"type": "thinking", "thinking": p.Text, "signature": p.Signature}
	case model.PartCall:
		b = w.call(*p.Call)
	case model.PartResult:
		b = obj{"type": "tool_result", "tool_use_id": w.id(p.Result.CallID), "content": w.blocks(p.Result.Parts)}
		if p.Result.Error {
			b["is_error"] = true
		}
	case model.PartMedia:
		b = w.media(p.Media)
	case model.PartOpaque:
		if p.Dialect == model.Messages {
			return p.Raw
		}
		w.losses.Add("messages[]."+opaqueName(p), "there is no such part")
	}
	if b == nil {
		return nil
	}
	if p.Dialect == model.Messages {
		maps.Copy(b, anyMap(p.Extra))
	} else {
		w.losses.Unknown("messages[].", p.Dialect, p.Extra)
	}
	return b
}

func (w *writer) call(c model.Call) obj {
	c = c.Flat()
	input, ok := c.Object()
	if !ok {
		// The form that Anthropic's documentation gives arguments that are no JSON.
		input = model.JSON(obj{"INVALID_JSON": c.Arguments})
	}
	return obj{"type": "tool_use", "id": w.id(c.ID), "name": c.Name, "input": input}
}

// id keeps to the characters that messages allows in ids of calls.
func (w *writer) id(id string) string {
	if w.own {
		return id
	}
	return model.FlatName("", id)
}

func (w *writer) media(m *model.Media) obj {
	kind := "image"
	switch {
	case m.Type == "application/pdf":
		kind = "document"
	case !strings.HasPrefix(m.Type, "image/"):
		w.losses.Add("messages[].media["+m.Type+"]", "messages takes images and PDF only")
		return nil
	}
	if m.Data == "" {
		return obj{"type": kind, "source": obj{"type": "url", "url": m.URL}}
	}
	return obj{"type": kind, "source": obj{"type": "base64", "media_type": m.Type, "data": m.Data}}
}

// opaqueName is the type that a part has in its own dialect.
func opaqueName(p model.Part) string {
	if o, err := model.ParseObject("", p.Raw); err == nil {
		if kind := o.Peek("type"); kind != "" {
			return kind
		}
	}
	return string(p.Kind)
}
