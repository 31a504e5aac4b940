package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"assay/internal/model"
)

// itemWriter writes the items of one request or answer.
type itemWriter struct {
	r      *model.Request
	own    bool
	prefix string          // of ids that are made here; empty: none are
	custom map[string]bool // ids of free-form calls
	losses model.Losses
}

func newItemWriter(r *model.Request) *itemWriter {
	w := &itemWriter{r: r, own: r.Dialect == model.Responses || r.Dialect == "", custom: map[string]bool{}}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind == model.PartCall && p.Call.Custom {
				w.custom[p.Call.ID] = true
			}
		}
	}
	return w
}

// FormatRequest writes a request. One of another dialect is not kept by the
// server, and asks for encrypted reasoning where it can carry that.
func (Responses) FormatRequest(r model.Request) (string, []byte, []model.Loss, error) {
	w := newItemWriter(&r)
	out := obj{"model": r.Model}
	if w.own {
		maps.Copy(out, anyMap(r.Extra))
	} else {
		w.losses.Unknown("", r.Dialect, r.Extra)
		out["store"] = false
		if r.Dialect == model.Messages {
			out["include"] = []string{"reasoning.encrypted_content"}
		}
	}
	in := r.Messages
	if len(in) > 0 && in[0].Role == model.RoleSystem {
		if text, ok := onlyText(in[0]); ok {
			out["instructions"] = text
			in = in[1:]
		}
	}
	out["input"] = w.input(in)
	if tools := w.tools(); len(tools) > 0 {
		out["tools"] = tools
	}
	if r.Choice != "" {
		out["tool_choice"] = w.choice()
	}
	w.sampling(out)
	body, err := model.Encode(out)
	if err != nil {
		return "", nil, nil, fmt.Errorf("write responses request: %w", err)
	}
	return responsesPath, body, w.losses.All(), nil
}

func (w *itemWriter) sampling(out obj) {
	r, s := w.r, w.r.Sampling
	set(out, "parallel_tool_calls", r.Parallel)
	set(out, "temperature", s.Temperature)
	set(out, "top_p", s.TopP)
	set(out, "max_output_tokens", s.MaxTokens)
	if r.Stream {
		out["stream"] = true
	}
	for field, given := range map[string]bool{"top_k": s.TopK != nil, "stop": len(s.Stop) > 0, "seed": s.Seed != nil, "logprobs": r.Logprobs} {
		if given {
			w.losses.Add(field, "there is no such parameter")
		}
	}
	if s.Effort != "" {
		put(out, "reasoning", "effort", s.Effort)
	}
	if f := r.Format; f != nil {
		format := obj{"type": "json_object"}
		if f.Schema != nil {
			format = obj{"type": "json_schema", "name": f.Name, "schema": f.Schema}
			if f.Name == "" {
				format["name"] = "answer"
			}
			set(format, "strict", f.Strict)
		}
		put(out, "text", "format", format)
	}
}

// put sets a field of an object within out, which may hold others.
func put(out obj, object, key string, v any) {
	in := obj{}
	if raw, ok := out[object].(json.RawMessage); ok {
		_ = json.Unmarshal(raw, &in) // it was an object when it was read
	}
	in[key] = v
	out[object] = in
}

func onlyText(m model.Message) (string, bool) {
	if len(m.Parts) != 1 || m.Parts[0].Kind != model.PartText || m.Parts[0].Extra != nil || m.Extra != nil {
		return "", false
	}
	return m.Parts[0].Text, m.Parts[0].Text != ""
}

func (w *itemWriter) tools() []any {
	var all []any
	groups := map[string]obj{}
	for _, t := range w.r.Tools {
		if t.Hosted != "" {
			if w.own {
				all = append(all, t.Raw)
			} else {
				w.losses.Add("tools["+t.Hosted+"]", "a tool that the provider itself runs")
			}
			continue
		}
		extra := maps.Clone(t.Extra)
		about := extra[namespaceAbout]
		delete(extra, namespaceAbout)
		tool := w.tool(t, extra)
		if t.Namespace == "" {
			all = append(all, tool)
			continue
		}
		group := groups[t.Namespace]
		if group == nil {
			group = obj{"type": "namespace", "name": t.Namespace, "tools": []obj{}}
			if about != nil {
				group["description"] = about
			}
			groups[t.Namespace] = group
			all = append(all, group)
		}
		in, _ := group["tools"].([]obj)
		group["tools"] = append(in, tool)
	}
	return all
}

func (w *itemWriter) tool(t model.Tool, extra map[string]json.RawMessage) obj {
	tool := obj{"type": "function", "name": t.Name}
	if t.Custom {
		tool["type"] = "custom"
		if t.Raw != nil {
			tool["format"] = flatGrammar(t.Raw)
		}
	} else {
		tool["parameters"] = t.Schema
		set(tool, "strict", t.Strict)
		if t.Strict == nil && !w.own {
			tool["strict"] = false // what leaving it out means elsewhere
		}
	}
	if t.Description != "" {
		tool["description"] = t.Description
	}
	if w.own {
		maps.Copy(tool, anyMap(extra))
	} else {
		w.losses.Unknown("tools[].", w.r.Dialect, extra)
	}
	return tool
}

// flatGrammar takes chat's {"type": "grammar", "grammar": {…}} apart, which is
// flat here.
func flatGrammar(format json.RawMessage) json.RawMessage {
	o, err := model.ParseObject("format", format)
	if err != nil || o.Peek("type") != "grammar" || !o.Has("grammar") {
		return format
	}
	in, err := model.ParseObject("grammar", o.Raw("grammar"))
	if err != nil {
		return format
	}
	in.Put("type", model.JSON("grammar"))
	return in.JSON()
}

func (w *itemWriter) choice() any {
	switch w.r.Choice {
	case model.ChoiceAuto, model.ChoiceNone, model.ChoiceRequired:
		return w.r.Choice
	}
	kind := "function"
	if t := w.r.Tool(model.Call{Name: string(w.r.Choice)}); t != nil && t.Custom {
		kind = "custom"
	}
	return obj{"type": kind, "name": w.r.Choice}
}

func (w *itemWriter) input(in []model.Message) []any {
	items := []any{}
	for _, m := range in {
		if !w.own {
			w.losses.Unknown("messages[].", w.r.Dialect, m.Extra)
		}
		if m.Role == model.RoleAssistant || m.Role == model.RoleTool {
			items = append(items, w.items(m.Parts)...)
			continue
		}
		role := "user"
		if m.Role == model.RoleSystem {
			role = "developer"
		}
		var content []any
		for _, p := range m.Parts {
			if p.Kind == model.PartOpaque && p.Dialect == model.Responses && givenItem(opaqueName(p)) {
				items = append(items, p.Raw) // an item of its own
				continue
			}
			if c := w.content(p, "input_text"); c != nil {
				content = append(content, c)
			}
		}
		if content != nil {
			item := obj{"type": "message", "role": role, "content": content}
			if w.own {
				maps.Copy(item, anyMap(m.Extra))
			}
			items = append(items, item)
		}
	}
	return items
}

// items writes what a model said or a tool answered. Parts of one message of
// the model stay one.
func (w *itemWriter) items(parts []model.Part) []any {
	items := []any{}
	var last obj // the message that the next part may belong to
	var lastID string
	for i, p := range parts {
		item := w.item(p, i)
		if item == nil {
			continue
		}
		m, ok := item.(obj)
		if !ok || m["type"] != "message" {
			items = append(items, item)
			last = nil
			continue
		}
		if last != nil && p.ID == lastID && p.ID != "" {
			before, _ := last["content"].([]any)
			add, _ := m["content"].([]any)
			last["content"] = append(before, add...)
			continue
		}
		items = append(items, item)
		last, lastID = m, p.ID
	}
	return items
}

// item writes a part as an item; nil if it cannot be said. n is the number of
// the part.
func (w *itemWriter) item(p model.Part, n int) any {
	if p.Signature != "" && p.Kind != model.PartReasoning {
		w.losses.Signed(p.Kind)
	}
	switch p.Kind {
	case model.PartReasoning:
		return w.reasoning(p, n)
	case model.PartCall:
		return w.with(p, w.call(*p.Call, n, p.ID))
	case model.PartResult:
		return w.with(p, w.result(p.Result))
	case model.PartOpaque:
		if p.Dialect == model.Responses {
			return p.Raw
		}
		w.losses.Add("messages[]."+opaqueName(p), "there is no such part")
		return nil
	}
	c := w.content(p, "output_text")
	if c == nil {
		return nil
	}
	item := obj{"type": "message", "role": "assistant", "status": "completed", "content": []any{c}}
	w.id(item, "msg", n, p.ID)
	if o, ok := c.(obj); ok {
		if phase, ok := o["phase"]; ok {
			item["phase"] = phase
			delete(o, "phase")
		}
	}
	return item
}

// id gives an item the id it came with, or one of its own where a client needs
// one.
func (w *itemWriter) id(item obj, kind string, n int, id string) {
	if id == "" && w.prefix != "" {
		id = fmt.Sprintf("%s_%s_%d", kind, w.prefix, n)
	}
	if id != "" {
		item["id"] = id
	}
}

// with adds what the part has beyond what is known.
func (w *itemWriter) with(p model.Part, item obj) any {
	if p.Dialect == model.Responses {
		maps.Copy(item, anyMap(p.Extra))
	} else {
		w.losses.Unknown("messages[].", p.Dialect, p.Extra)
	}
	return item
}

func (w *itemWriter) reasoning(p model.Part, n int) any {
	if p.Dialect == model.Responses && p.Raw != nil {
		return p.Raw
	}
	item := obj{"type": "reasoning", "summary": []any{}}
	w.id(item, "rs", n, p.ID)
	if p.Text != "" {
		item["summary"] = []any{obj{"type": "summary_text", "text": p.Text}}
	}
	if p.Signature != "" {
		item["encrypted_content"] = p.Signature
	} else if w.prefix == "" && !w.own {
		w.losses.Add("messages[].reasoning", "a server takes back only the reasoning that it has encrypted itself")
		return nil
	}
	return item
}

func (w *itemWriter) call(c model.Call, n int, id string) obj {
	item := obj{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": c.Arguments, "status": "completed"}
	kind := "fc"
	if c.Custom {
		kind = "ctc"
		item = obj{"type": "custom_tool_call", "call_id": c.ID, "name": c.Name, "input": c.Arguments, "status": "completed"}
	}
	if c.Namespace != "" {
		item["namespace"] = c.Namespace
	}
	w.id(item, kind, n, id)
	return item
}

func (w *itemWriter) result(res *model.Result) obj {
	item := obj{"type": "function_call_output", "call_id": res.CallID}
	if res.Custom || w.custom[res.CallID] {
		item["type"] = "custom_tool_call_output"
	}
	if res.Error {
		w.losses.Add("messages[].result.error", "failed calls are not marked; the text of the result tells")
	}
	plain := len(res.Parts) == 0
	if len(res.Parts) == 1 {
		p := res.Parts[0]
		plain = p.Kind == model.PartText && (p.Extra == nil || p.Dialect != model.Responses)
	}
	if plain {
		item["output"] = ""
		if len(res.Parts) == 1 {
			item["output"] = res.Parts[0].Text
		}
		return item
	}
	list := []any{}
	for _, p := range res.Parts {
		if c := w.content(p, "input_text"); c != nil {
			list = append(list, c)
		}
	}
	item["output"] = list
	return item
}

// content writes a part of a message; text is the type that text has there.
func (w *itemWriter) content(p model.Part, text string) any {
	var c obj
	switch p.Kind {
	case model.PartText:
		c = obj{"type": text, "text": p.Text}
		if text == "output_text" {
			c["annotations"] = []any{}
		}
	case model.PartRefusal:
		c = obj{"type": "refusal", "refusal": p.Text}
	case model.PartMedia:
		switch m := p.Media; {
		case strings.HasPrefix(m.Type, "image/"):
			c = obj{"type": "input_image", "image_url": urlOfMedia(m)}
			if !w.own {
				c["detail"] = "auto" // demanded, and said by nobody else
			}
		case strings.HasPrefix(m.Type, "audio/") || strings.HasPrefix(m.Type, "video/"):
			w.losses.Add("messages[].media["+m.Type+"]", "responses takes images and files only")
			return nil
		case m.Data == "":
			c = obj{"type": "input_file", "file_url": m.URL}
		default:
			c = obj{"type": "input_file", "file_data": urlOfMedia(m), "filename": "file"}
		}
	default:
		if p.Kind == model.PartOpaque && p.Dialect == model.Responses {
			return p.Raw
		}
		w.losses.Add("messages[]."+opaqueName(p), "there is no such part")
		return nil
	}
	return w.with(p, c)
}
