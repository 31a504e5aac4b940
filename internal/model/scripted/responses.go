package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"assay/internal/model"
)

// responses is OpenAI's responses dialect. Every event has an event: line
// equal to its type, and a rising sequence_number; created and in_progress
// come first, each item is added and done, and completed repeats the whole.
type responses struct{}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
}

type responsesTool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters schema          `json:"parameters"`
	Tools      []responsesTool `json:"tools"` // of a namespace
}

func (responses) read(_ string, body []byte) (*ask, error) {
	var in struct {
		Model        string          `json:"model"`
		Instructions string          `json:"instructions"`
		Input        json.RawMessage `json:"input"`
		Stream       bool            `json:"stream"`
		Previous     string          `json:"previous_response_id"`
		Tools        []responsesTool `json:"tools"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Model == "":
		return nil, errors.New("missing required parameter: 'model'")
	case len(in.Input) == 0:
		return nil, errors.New("missing required parameter: 'input'")
	case in.Previous != "":
		return nil, fmt.Errorf("previous response with id '%s' not found", in.Previous) // nothing is stored
	}
	a := &ask{dialect: model.Responses, model: in.Model, stream: in.Stream, system: in.Instructions, size: len(body)}
	for _, t := range in.Tools {
		a.responsesTool(t, "")
	}
	if in.Input[0] == '"' {
		text, err := texts(in.Input)
		a.msgs = []message{{role: user, text: text}}
		return a, err
	}
	var items []responsesItem
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return nil, fmt.Errorf("input is neither a text nor a list of items: %w", err)
	}
	for i, it := range items {
		if err := a.responsesItem(it); err != nil {
			return nil, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	return a, nil
}

func (a *ask) responsesTool(t responsesTool, namespace string) {
	switch t.Type {
	case "function", "custom":
		a.tools = append(a.tools, tool{name: t.Name, namespace: namespace, custom: t.Type == "custom", schema: t.Parameters})
	case "namespace":
		for _, inner := range t.Tools {
			a.responsesTool(inner, t.Name)
		}
	}
}

func (a *ask) responsesItem(it responsesItem) error {
	switch it.Type {
	case "", "message":
		text, err := texts(it.Content)
		if err != nil {
			return err
		}
		switch it.Role {
		case "system", "developer":
			a.system += "\n" + text
		case "assistant":
			a.add(assistant).text += text
		case "user":
			m := a.add(user)
			if m.text != "" {
				m.text += "\n"
			}
			m.text += text
		default:
			return fmt.Errorf("invalid value: '%s' for a role", it.Role)
		}
	case "function_call", "custom_tool_call":
		if it.CallID == "" || it.Name == "" {
			return errors.New("a call without call_id or name")
		}
		m := a.add(assistant)
		m.calls = append(m.calls, call{id: it.CallID, name: it.Name, namespace: it.Namespace, args: it.Arguments + it.Input, custom: it.Type == "custom_tool_call"})
	case "function_call_output", "custom_tool_call_output":
		if it.CallID == "" {
			return errors.New("an output without call_id")
		}
		text, err := texts(it.Output)
		if err != nil {
			return err
		}
		m := a.add(user)
		m.results = append(m.results, result{id: it.CallID, text: text})
	case "reasoning":
		a.add(assistant)
	}
	return nil // an item of another type is none of ours
}

func (responses) usage(u *Usage) any {
	if u == nil {
		return nil
	}
	return object{
		"input_tokens": u.Input, "input_tokens_details": object{"cached_tokens": u.Cached},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning},
		"total_tokens": u.Input + u.Output,
	}
}

// response is the object that created, in_progress and completed carry.
func (r responses) response(a *answer, status string, output []object, usage *Usage) object {
	out := object{
		"id": "resp_" + a.id, "object": "response", "created_at": a.created, "status": status, "model": a.model,
		"output": output, "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{},
		"parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": []object{},
		"usage": r.usage(usage),
	}
	if status == "incomplete" {
		reason := "max_output_tokens"
		if a.stop == "filter" {
			reason = "content_filter"
		}
		out["incomplete_details"] = object{"reason": reason}
	}
	return out
}

func (a *answer) responsesStatus() string {
	if a.stop != "" {
		return "incomplete"
	}
	return "completed"
}

// items are the whole output.
func (responses) items(a *answer) []object {
	out := []object{}
	if a.empty {
		return out
	}
	if a.reasoning != "" {
		out = append(out, object{"id": "rs_" + a.id, "type": "reasoning", "summary": []object{{"type": "summary_text", "text": a.reasoning}}, "encrypted_content": "encrypted:" + a.id})
	}
	if part := a.responsesPart(); part != nil {
		out = append(out, object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "status": a.responsesStatus(), "content": []object{part}})
	}
	for i, c := range a.calls {
		out = append(out, c.item(a, i))
	}
	return out
}

// responsesPart is the content of the message; nil: there is no message.
func (a *answer) responsesPart() object {
	switch {
	case a.refusal != "":
		return object{"type": "refusal", "refusal": a.refusal}
	case a.text != "" || (len(a.calls) == 0 && a.reasoning == ""):
		return object{"type": "output_text", "text": a.text, "annotations": []object{}, "logprobs": []object{}}
	}
	return nil
}

func (c call) item(a *answer, i int) object {
	out := object{"id": "fc_" + a.id + strconv.Itoa(i), "type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.args, "status": "completed"}
	if c.custom {
		out = object{"id": "ctc_" + a.id + strconv.Itoa(i), "type": "custom_tool_call", "call_id": c.id, "name": c.name, "input": c.args, "status": "completed"}
	}
	if c.namespace != "" {
		out["namespace"] = c.namespace
	}
	return out
}

func (r responses) whole(_ *ask, a *answer) object {
	return r.response(a, a.responsesStatus(), r.items(a), a.usage)
}

// responsesStream numbers the events of one stream.
type responsesStream struct {
	n     int
	yield func(event) bool
}

func (s *responsesStream) send(kind string, o object) bool {
	o["type"], o["sequence_number"] = kind, s.n
	s.n++
	return s.yield(event{kind, encode(o)})
}

func (r responses) events(_ *ask, a *answer) iter.Seq[event] {
	return func(yield func(event) bool) {
		s := &responsesStream{yield: yield}
		if !s.send("response.created", object{"response": r.response(a, "in_progress", []object{}, nil)}) ||
			!s.send("response.in_progress", object{"response": r.response(a, "in_progress", []object{}, nil)}) {
			return
		}
		for i, item := range r.items(a) {
			if !s.item(i, item, a) {
				return
			}
		}
		status := a.responsesStatus()
		s.send("response."+status, object{"response": r.response(a, status, r.items(a), a.usage)})
	}
}

func (s *responsesStream) item(i int, item object, a *answer) bool {
	began := object{}
	for k, v := range item {
		began[k] = v
	}
	began["status"] = "in_progress"
	for _, k := range []string{"content", "summary"} {
		if _, ok := item[k]; ok {
			began[k] = []object{}
		}
	}
	for _, k := range []string{"arguments", "input"} {
		if _, ok := item[k]; ok {
			began[k] = ""
		}
	}
	if !s.send("response.output_item.added", object{"output_index": i, "item": began}) {
		return false
	}
	at := object{"output_index": i, "item_id": item["id"]}
	ok := false
	switch item["type"] {
	case "message":
		ok = s.message(at, item["content"].([]object)[0], a)
	case "reasoning":
		ok = s.reasoning(at, a)
	case "custom_tool_call":
		ok = s.fragments(at, "response.custom_tool_call_input", "input", item["input"].(string), a)
	default:
		ok = s.fragments(at, "response.function_call_arguments", "arguments", item["arguments"].(string), a)
	}
	return ok && s.send("response.output_item.done", object{"output_index": i, "item": item})
}

func with(at object, more object) object {
	out := object{}
	for k, v := range at {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func (s *responsesStream) message(at, part object, a *answer) bool {
	at = with(at, object{"content_index": 0})
	kind, field, text := "response.output_text", "text", a.text
	empty := object{"type": "output_text", "text": "", "annotations": []object{}, "logprobs": []object{}}
	if a.refusal != "" {
		kind, field, text = "response.refusal", "refusal", a.refusal
		empty = object{"type": "refusal", "refusal": ""}
	}
	if !s.send("response.content_part.added", with(at, object{"part": empty})) {
		return false
	}
	for piece := range pieces(text, a.chunk) {
		if !s.send(kind+".delta", with(at, object{"delta": piece, "logprobs": []object{}})) {
			return false
		}
	}
	return s.send(kind+".done", with(at, object{field: text, "logprobs": []object{}})) &&
		s.send("response.content_part.done", with(at, object{"part": part}))
}

func (s *responsesStream) reasoning(at object, a *answer) bool {
	at = with(at, object{"summary_index": 0})
	if !s.send("response.reasoning_summary_part.added", with(at, object{"part": object{"type": "summary_text", "text": ""}})) {
		return false
	}
	for piece := range pieces(a.reasoning, a.chunk) {
		if !s.send("response.reasoning_summary_text.delta", with(at, object{"delta": piece})) {
			return false
		}
	}
	return s.send("response.reasoning_summary_text.done", with(at, object{"text": a.reasoning})) &&
		s.send("response.reasoning_summary_part.done", with(at, object{"part": object{"type": "summary_text", "text": a.reasoning}}))
}

func (s *responsesStream) fragments(at object, kind, field, text string, a *answer) bool {
	for piece := range pieces(text, a.chunk) {
		if !s.send(kind+".delta", with(at, object{"delta": piece})) {
			return false
		}
	}
	return s.send(kind+".done", with(at, object{field: text}))
}

func (responses) fail(f failure) object { return chat{}.fail(f) }

func (responses) within(f failure, n int) event {
	return event{"error", encode(object{"type": "error", "sequence_number": n, "code": f.openaiCode(), "message": f.message, "param": nil})}
}
