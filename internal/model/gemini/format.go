package gemini

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"assay/internal/model"
)

// obj is a JSON object that is being written; its keys come out sorted.
type obj = map[string]any

// writer writes the parts of one request or answer.
type writer struct {
	r      *model.Request
	own    bool              // it is of this dialect, or made here
	names  map[string]string // of calls, by id
	losses model.Losses
}

func newWriter(r *model.Request) *writer {
	w := &writer{r: r, own: r.Dialect == model.Gemini || r.Dialect == "", names: map[string]string{}}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind == model.PartCall {
				w.names[p.Call.ID] = model.FlatName(p.Call.Namespace, p.Call.Name)
			}
		}
	}
	return w
}

// FormatRequest writes a request.
func (Gemini) FormatRequest(r model.Request) (string, []byte, []model.Loss, error) {
	w := newWriter(&r)
	if err := r.Stateless(); err != nil && !w.own {
		return "", nil, nil, err
	}
	out := obj{}
	if w.own {
		maps.Copy(out, anyMap(r.Extra))
	} else {
		w.losses.Unknown("", r.Dialect, r.Extra)
	}
	in := r.Messages
	var system []any
	for len(in) > 0 && in[0].Role == model.RoleSystem {
		system = append(system, w.parts(in[0].Parts)...)
		in = in[1:]
	}
	if len(system) > 0 {
		out["systemInstruction"] = obj{"parts": system}
	}
	out["contents"] = w.contents(in)
	if tools := w.tools(); len(tools) > 0 {
		out["tools"] = tools
	}
	if c := w.choice(); c != nil {
		put(out, "toolConfig", obj{"functionCallingConfig": c})
	}
	if c := w.config(); len(c) > 0 {
		put(out, "generationConfig", c)
	}
	body, err := model.Encode(out)
	if err != nil {
		return "", nil, nil, fmt.Errorf("write gemini request: %w", err)
	}
	path := "/v1beta/models/" + url.PathEscape(r.Model) + ":generateContent"
	if r.Stream {
		path = "/v1beta/models/" + url.PathEscape(r.Model) + ":streamGenerateContent?alt=sse"
	}
	return path, body, w.losses.All(), nil
}

// put sets fields of an object within out, which may hold others.
func put(out obj, object string, add obj) {
	in := obj{}
	if raw, ok := out[object].(json.RawMessage); ok {
		_ = json.Unmarshal(raw, &in) // it was an object when it was read
	}
	for k, v := range add {
		if inner, ok := v.(obj); ok {
			if old, ok := in[k].(obj); ok {
				maps.Copy(old, inner)
				continue
			}
		}
		in[k] = v
	}
	out[object] = in
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

func (w *writer) config() obj {
	r, s, c := w.r, w.r.Sampling, obj{}
	set(c, "temperature", s.Temperature)
	set(c, "topP", s.TopP)
	set(c, "topK", s.TopK)
	set(c, "maxOutputTokens", s.MaxTokens)
	set(c, "seed", s.Seed)
	if len(s.Stop) > 0 {
		c["stopSequences"] = s.Stop
	}
	if s.Effort != "" {
		c["thinkingConfig"] = obj{"thinkingLevel": strings.ToUpper(s.Effort)}
	}
	if r.Logprobs {
		c["responseLogprobs"] = true
	}
	if r.Format != nil {
		c["responseMimeType"] = "application/json"
		if r.Format.Schema != nil {
			c["responseJsonSchema"] = r.Format.Schema
		}
	}
	if r.Parallel != nil && !*r.Parallel {
		w.losses.Add("parallel_tool_calls", "gemini cannot be held to one call a turn")
	}
	return c
}

func (w *writer) choice() obj {
	switch w.r.Choice {
	case "":
		return nil
	case model.ChoiceAuto:
		return obj{"mode": "AUTO"}
	case model.ChoiceNone:
		return obj{"mode": "NONE"}
	case model.ChoiceRequired:
		return obj{"mode": "ANY"}
	}
	name := string(w.r.Choice)
	if t := w.r.Tool(model.Call{Name: name}); t != nil {
		name = model.FlatName(t.Namespace, t.Name)
	}
	return obj{"mode": "ANY", "allowedFunctionNames": []string{name}}
}

func (w *writer) tools() []any {
	var functions []obj
	var hosted []any
	for _, t := range w.r.Tools {
		if t.Hosted != "" {
			if w.own {
				hosted = append(hosted, t.Raw)
			} else {
				w.losses.Add("tools["+t.Hosted+"]", "a tool that the provider itself runs")
			}
			continue
		}
		f := obj{"name": model.FlatName(t.Namespace, t.Name), "parametersJsonSchema": t.Schema}
		if t.Custom {
			f["parametersJsonSchema"] = model.FreeForm()
			if t.Raw != nil {
				w.losses.Add("tools[].format", "the grammar of a free-form tool is not enforced; it becomes a function with one string")
			}
		}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if t.Strict != nil && *t.Strict {
			w.losses.Add("tools[].strict", "gemini does not hold arguments to the schema on request")
		}
		if w.own {
			maps.Copy(f, anyMap(t.Extra))
		} else {
			w.losses.Unknown("tools[].", w.r.Dialect, t.Extra)
		}
		functions = append(functions, f)
	}
	if len(functions) > 0 {
		return append([]any{obj{"functionDeclarations": functions}}, hosted...)
	}
	return hosted
}

// contents writes messages. Results and what follows them are one turn.
func (w *writer) contents(in []model.Message) []obj {
	out := []obj{}
	for i, m := range in {
		role := "user"
		switch m.Role {
		case model.RoleAssistant:
			role = "model"
		case model.RoleSystem:
			w.losses.Add("messages[].system", "instructions after the beginning are sent as the user's")
		}
		parts := w.parts(m.Parts)
		if len(parts) == 0 {
			continue // an empty turn is refused
		}
		if i > 0 && in[i-1].Role == model.RoleTool && role == "user" && len(out) > 0 && out[len(out)-1]["role"] == "user" {
			last := out[len(out)-1]
			before, _ := last["parts"].([]any)
			last["parts"] = append(before, parts...)
			continue
		}
		turn := obj{"role": role, "parts": parts}
		if w.own {
			maps.Copy(turn, anyMap(m.Extra))
		} else {
			w.losses.Unknown("messages[].", w.r.Dialect, m.Extra)
		}
		out = append(out, turn)
	}
	return out
}

func (w *writer) parts(parts []model.Part) []any {
	all := []any{}
	for _, p := range parts {
		if b := w.part(p); b != nil {
			all = append(all, b)
		}
	}
	return all
}

// part writes one; nil if it cannot be said. The signature that a foreign
// provider gave its reasoning means nothing here.
func (w *writer) part(p model.Part) any {
	var out obj
	switch p.Kind {
	case model.PartText, model.PartRefusal:
		out = obj{"text": p.Text}
	case model.PartReasoning:
		if !w.own {
			w.losses.Add("messages[].reasoning", "gemini takes back only reasoning of its own")
			return nil
		}
		out = obj{"text": p.Text, "thought": true}
	case model.PartCall:
		out = obj{"functionCall": w.call(*p.Call)}
	case model.PartResult:
		out = obj{"functionResponse": w.result(p.Result)}
	case model.PartMedia:
		out = media(p.Media)
	case model.PartOpaque:
		if p.Dialect == model.Gemini {
			return p.Raw
		}
		w.losses.Add("messages[]."+opaqueName(p), "there is no such part")
		return nil
	}
	if p.Signature != "" && !w.own {
		w.losses.Signed(p.Kind)
	}
	if p.Signature != "" && w.own {
		out["thoughtSignature"] = p.Signature
	}
	if p.Dialect == model.Gemini {
		maps.Copy(out, anyMap(p.Extra))
	} else {
		w.losses.Unknown("messages[].", p.Dialect, p.Extra)
	}
	return out
}

func media(m *model.Media) obj {
	if m.Data == "" {
		return obj{"fileData": obj{"mimeType": m.Type, "fileUri": m.URL}}
	}
	return obj{"inlineData": obj{"mimeType": m.Type, "data": m.Data}}
}

func (w *writer) call(c model.Call) obj {
	c = c.Flat()
	args, ok := c.Object()
	if !ok {
		args = model.JSON(obj{"INVALID_JSON": c.Arguments})
	}
	f := obj{"name": c.Name, "args": args}
	if c.ID != "" && !strings.HasPrefix(c.ID, ownID) {
		f["id"] = c.ID
	}
	return f
}

func (w *writer) result(res *model.Result) obj {
	var text []string
	var other []any
	for _, p := range res.Parts {
		if p.Kind == model.PartText {
			text = append(text, p.Text)
		} else if part := w.part(p); part != nil {
			other = append(other, part)
		}
	}
	key := "output"
	if res.Error {
		key = "error"
	}
	all := strings.Join(text, "\n\n")
	f := obj{"name": res.Name, "response": obj{key: all}}
	if object, ok := (model.Call{Arguments: all}).Object(); ok && all != "" && !res.Error {
		f["response"] = object
	}
	if res.Name == "" {
		f["name"] = w.names[res.CallID]
	}
	if res.CallID != "" && !strings.HasPrefix(res.CallID, ownID) {
		f["id"] = res.CallID
	}
	if len(other) > 0 {
		f["parts"] = other
	}
	return f
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
