package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"assay/internal/model"
)

// obj is a JSON object that is being written; its keys come out sorted.
type obj = map[string]any

// FormatRequest writes a request.
//
// A request of another dialect is written for the many servers that fill a
// template: text is one string, system messages at the beginning become one,
// and later ones become the user's, since templates refuse them elsewhere.
func (c Chat) FormatRequest(r model.Request) (string, []byte, []model.Loss, error) {
	w := chatWriter{r: &r, asks: true, own: r.Dialect == model.Chat || r.Dialect == ""}
	if err := r.Stateless(); err != nil && !w.own {
		return "", nil, nil, err
	}
	out := obj{"model": r.Model, "messages": w.messages(r.Messages)}
	if w.own {
		for k, v := range r.Extra {
			out[k] = v
		}
	} else {
		w.losses.Unknown("", r.Dialect, r.Extra)
	}
	if tools := w.tools(); len(tools) > 0 {
		out["tools"] = tools
		set(out, "parallel_tool_calls", r.Parallel)
		if r.Choice != "" {
			out["tool_choice"] = w.choice()
		}
	}
	s := r.Sampling
	set(out, "temperature", s.Temperature)
	set(out, "top_p", s.TopP)
	set(out, "top_k", s.TopK)
	set(out, "seed", s.Seed)
	if c.CompletionTokens {
		set(out, "max_completion_tokens", s.MaxTokens)
	} else {
		set(out, "max_tokens", s.MaxTokens)
	}
	if len(s.Stop) > 0 {
		out["stop"] = s.Stop
	}
	if s.Effort != "" {
		out["reasoning_effort"] = s.Effort
	}
	if r.Stream {
		out["stream"] = true
		if r.Usage {
			out["stream_options"] = obj{"include_usage": true}
		}
	}
	if r.Logprobs {
		out["logprobs"] = true
	}
	if r.Format != nil {
		out["response_format"] = chatFormat(r.Format)
	}
	body, err := model.Encode(out)
	if err != nil {
		return "", nil, nil, fmt.Errorf("write chat request: %w", err)
	}
	return chatPath, body, w.losses.All(), nil
}

func set[T any](out obj, key string, v *T) {
	if v != nil {
		out[key] = *v
	}
}

func chatFormat(f *model.Format) obj {
	if f.Schema == nil {
		return obj{"type": "json_object"}
	}
	schema := obj{"name": f.Name, "schema": f.Schema}
	if f.Name == "" {
		schema["name"] = "answer"
	}
	set(schema, "strict", f.Strict)
	return obj{"type": "json_schema", "json_schema": schema}
}

// chatWriter writes the messages of one request.
type chatWriter struct {
	r      *model.Request
	own    bool // the request is of this dialect
	asks   bool // a request is written, no answer
	losses model.Losses
}

func (w *chatWriter) tools() []any {
	var all []any
	for _, t := range w.r.Tools {
		switch {
		case t.Hosted != "" && w.own:
			all = append(all, t.Raw)
		case t.Hosted != "":
			w.losses.Add("tools["+t.Hosted+"]", "a tool that the provider itself runs")
		case t.Custom && w.own:
			custom := obj{"name": t.Name}
			if t.Description != "" {
				custom["description"] = t.Description
			}
			if t.Raw != nil {
				custom["format"] = t.Raw
			}
			all = append(all, obj{"type": "custom", "custom": custom})
		default:
			all = append(all, obj{"type": "function", "function": w.function(t)})
		}
	}
	return all
}

func (w *chatWriter) function(t model.Tool) obj {
	f := obj{"name": model.FlatName(t.Namespace, t.Name), "parameters": t.Schema}
	description := t.Description
	if t.Custom {
		f["parameters"] = model.FreeForm()
		if t.Raw != nil {
			w.losses.Add("tools[].format", "the grammar of a free-form tool is not enforced; it becomes a function with one string")
		}
	}
	if description != "" {
		f["description"] = description
	}
	set(f, "strict", t.Strict)
	if w.own {
		for k, v := range t.Extra {
			f[k] = v
		}
	} else {
		w.losses.Unknown("tools[].", w.r.Dialect, t.Extra)
	}
	return f
}

func (w *chatWriter) choice() any {
	switch w.r.Choice {
	case model.ChoiceAuto, model.ChoiceNone, model.ChoiceRequired:
		return w.r.Choice
	}
	name := string(w.r.Choice)
	if t := w.r.Tool(model.Call{Name: name}); t != nil {
		if t.Custom && w.own {
			return obj{"type": "custom", "custom": obj{"name": name}}
		}
		name = model.FlatName(t.Namespace, t.Name)
	}
	return obj{"type": "function", "function": obj{"name": name}}
}

func (w *chatWriter) messages(in []model.Message) []obj {
	out := []obj{}
	if !w.own {
		var system []string
		for len(in) > 0 && in[0].Role == model.RoleSystem {
			system = append(system, w.plain(in[0].Parts, "messages[]"))
			in = in[1:]
		}
		if len(system) > 0 {
			out = append(out, obj{"role": "system", "content": strings.Join(system, "\n\n")})
		}
	}
	for _, m := range in {
		out = append(out, w.message(m)...)
	}
	return out
}

func (w *chatWriter) message(m model.Message) []obj {
	var out []obj
	switch m.Role {
	case model.RoleAssistant:
		out = []obj{w.assistant(m.Parts)}
	case model.RoleTool:
		out = w.results(m.Parts)
	case model.RoleSystem:
		role := "system"
		if !w.own {
			role = "user"
			w.losses.Add("messages[].system", "instructions after the beginning are sent as the user's")
		}
		out = []obj{{"role": role, "content": w.content(m.Parts, "messages[]")}}
	default:
		out = []obj{{"role": "user", "content": w.content(m.Parts, "messages[]")}}
	}
	if w.own && len(out) > 0 {
		maps.Copy(out[0], anyMap(m.Extra))
	} else {
		w.losses.Unknown("messages[].", w.r.Dialect, m.Extra)
	}
	return out
}

func anyMap(in map[string]json.RawMessage) obj {
	out := obj{}
	for k, v := range in {
		out[k] = v
	}
	return out
}

func (w *chatWriter) assistant(parts []model.Part) obj {
	m := obj{"role": "assistant"}
	var said []model.Part
	var reasoning, refusal strings.Builder
	var calls []obj
	for _, p := range parts {
		if p.Signature != "" {
			w.losses.Signed(p.Kind)
		}
		switch p.Kind {
		case model.PartReasoning:
			reasoning.WriteString(p.Text)
		case model.PartRefusal:
			refusal.WriteString(p.Text)
		case model.PartCall:
			w.extra(p, "messages[].")
			calls = append(calls, w.call(*p.Call))
		default:
			said = append(said, p)
		}
	}
	m["content"] = w.content(said, "messages[]")
	if len(said) == 0 {
		m["content"] = nil
	}
	if reasoning.Len() > 0 {
		m["reasoning_content"] = reasoning.String()
	}
	if refusal.Len() > 0 {
		m["refusal"] = refusal.String()
	}
	if len(calls) > 0 {
		m["tool_calls"] = calls
	}
	return m
}

func (w *chatWriter) call(c model.Call) obj {
	if c.Custom && w.own {
		return obj{"id": c.ID, "type": "custom", "custom": obj{"name": c.Name, "input": c.Arguments}}
	}
	c = c.Flat()
	if c.Arguments == "" && w.asks {
		c.Arguments = "{}" // templates parse it
	}
	return obj{"id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": c.Arguments}}
}

// results writes one message for each result. What is no text goes into a
// message of the user after them.
func (w *chatWriter) results(parts []model.Part) []obj {
	var out []obj
	var media []model.Part
	for _, p := range parts {
		if p.Kind != model.PartResult {
			w.losses.Add("messages[].tool", "what is no result has no place among results")
			continue
		}
		res := p.Result
		w.extra(p, "messages[].result.")
		if res.Error {
			w.losses.Add("messages[].result.error", "failed calls are not marked; the text of the result tells")
		}
		var text []model.Part
		for _, in := range res.Parts {
			if in.Kind == model.PartMedia && !w.own {
				media = append(media, in)
				w.losses.Add("messages[].result.media", "images of results are sent as the user's, after the results")
				continue
			}
			text = append(text, in)
		}
		out = append(out, obj{"role": "tool", "tool_call_id": res.CallID, "content": w.content(text, "messages[].result")})
	}
	if len(media) > 0 {
		out = append(out, obj{"role": "user", "content": w.content(media, "messages[]")})
	}
	return out
}

// content is one string for text alone; a request of this dialect keeps its
// list.
func (w *chatWriter) content(parts []model.Part, place string) any {
	list := []obj{}
	text := true
	for _, p := range parts {
		if item := w.part(p, place); item != nil {
			list = append(list, item)
			text = text && item["type"] == "text" && (len(item) == 2 || !w.own)
		}
	}
	if text && (!w.own || len(list) < 2) {
		return w.plain(parts, place)
	}
	return list
}

// plain is all text of parts.
func (w *chatWriter) plain(parts []model.Part, place string) string {
	var text []string
	for _, p := range parts {
		if w.part(p, place) != nil && p.Text != "" {
			text = append(text, p.Text)
		}
	}
	return strings.Join(text, "\n\n")
}

// sayable reports whether a part that is no text has a form in chat.
func (w *chatWriter) sayable(p model.Part) bool {
	switch p.Kind {
	case model.PartMedia:
		m := p.Media
		return strings.HasPrefix(m.Type, "image/") || m.Data != "" && strings.HasPrefix(m.Type, "audio/")
	case model.PartOpaque:
		return p.Dialect == model.Chat
	}
	return false
}

func (w *chatWriter) part(p model.Part, place string) obj {
	var out obj
	switch p.Kind {
	case model.PartText, model.PartRefusal:
		out = obj{"type": "text", "text": p.Text}
	case model.PartMedia:
		if !w.sayable(p) {
			w.losses.Add(place+".media["+p.Media.Type+"]", "chat takes images and sounds only")
			return nil
		}
		if kind, ok := strings.CutPrefix(p.Media.Type, "audio/"); ok {
			out = obj{"type": "input_audio", "input_audio": obj{"data": p.Media.Data, "format": kind}}
		} else {
			out = obj{"type": "image_url", "image_url": obj{"url": urlOfMedia(p.Media)}}
		}
	default:
		if p.Kind == model.PartOpaque && p.Dialect == model.Chat && json.Unmarshal(p.Raw, &out) == nil {
			return out
		}
		w.losses.Add(place+"."+opaqueName(p), "there is no such part")
		return nil
	}
	if extra := w.extra(p, place+"."); extra != nil {
		maps.Copy(out, extra)
	}
	return out
}

// extra is what a part of this dialect has beyond what is known; that of
// another dialect is lost.
func (w *chatWriter) extra(p model.Part, place string) obj {
	if p.Dialect == model.Chat {
		return anyMap(p.Extra)
	}
	w.losses.Unknown(place, p.Dialect, p.Extra)
	return nil
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
