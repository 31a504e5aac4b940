package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"assay/internal/model"
)

// chat is OpenAI's chat completions. Source of the order of chunks: what the
// official clients and agents need (role first; a call's id and name before
// its arguments; usage in a chunk without choices; then [DONE]).
type chat struct{}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (chat) read(_ string, body []byte) (*ask, error) {
	var in struct {
		Model         string        `json:"model"`
		Messages      []chatMessage `json:"messages"`
		Stream        bool          `json:"stream"`
		Logprobs      bool          `json:"logprobs"`
		TokenIDs      bool          `json:"return_token_ids"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools []struct {
			Type     string `json:"type"`
			Function struct {
				Name       string `json:"name"`
				Parameters schema `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Model == "":
		return nil, errors.New("you must provide a model parameter")
	case len(in.Messages) == 0:
		return nil, errors.New("[] is too short - 'messages'")
	}
	a := &ask{dialect: model.Chat, model: in.Model, stream: in.Stream, usage: in.StreamOptions.IncludeUsage, logprob: in.Logprobs, tokens: in.TokenIDs, size: len(body)}
	for _, t := range in.Tools {
		if t.Type == "function" && t.Function.Name != "" {
			a.tools = append(a.tools, tool{name: t.Function.Name, schema: t.Function.Parameters})
		}
	}
	for i, m := range in.Messages {
		if err := a.chatMessage(m); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	return a, nil
}

func (a *ask) chatMessage(m chatMessage) error {
	text, err := texts(m.Content)
	if err != nil {
		return err
	}
	switch m.Role {
	case "system", "developer":
		a.system += text + "\n"
	case "user":
		a.msgs = append(a.msgs, message{role: user, text: text})
	case "assistant":
		out := message{role: assistant, text: text}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Function.Name == "" {
				return errors.New("a tool call without id or name")
			}
			out.calls = append(out.calls, call{id: c.ID, name: c.Function.Name, args: c.Function.Arguments})
		}
		a.msgs = append(a.msgs, out)
	case "tool":
		if m.ToolCallID == "" {
			return errors.New("missing parameter 'tool_call_id'")
		}
		r := result{id: m.ToolCallID, text: text}
		if n := len(a.msgs); n > 0 && len(a.msgs[n-1].results) > 0 {
			a.msgs[n-1].results = append(a.msgs[n-1].results, r)
		} else {
			a.msgs = append(a.msgs, message{role: user, results: []result{r}})
		}
	default:
		return fmt.Errorf("invalid value: '%s'; supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'", m.Role)
	}
	return nil
}

func (chat) usage(u *Usage) any {
	if u == nil {
		return nil
	}
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func (a *answer) chatFinish() string {
	return a.finish("tool_calls", "length", "content_filter", "stop", "stop")
}

func (c chat) whole(q *ask, a *answer) object {
	m := object{"role": "assistant", "content": nil, "refusal": nil}
	if a.text != "" || (len(a.calls) == 0 && a.refusal == "") {
		m["content"] = a.text
	}
	if a.refusal != "" {
		m["refusal"] = a.refusal
	}
	if a.reasoning != "" {
		m["reasoning_content"] = a.reasoning
	}
	var calls []object
	for _, t := range a.calls {
		calls = append(calls, object{"id": t.id, "type": "function", "function": object{"name": t.name, "arguments": t.args}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	choice := object{"index": 0, "message": m, "finish_reason": a.chatFinish(), "logprobs": nil}
	out := object{"id": "chatcmpl-" + a.id, "object": "chat.completion", "created": a.created, "model": a.model, "choices": []object{choice}}
	var ids []int64
	var probs []object
	for piece := range pieces(a.text, a.chunk) {
		ids, probs = append(ids, tokenID(piece)), append(probs, logprob(piece))
	}
	if q.logprob {
		choice["logprobs"] = object{"content": probs, "refusal": nil}
	}
	if q.tokens {
		choice["token_ids"], out["prompt_token_ids"] = ids, q.promptIDs()
	}
	if a.usage != nil {
		out["usage"] = c.usage(a.usage)
	}
	if a.empty {
		out["choices"] = []object{}
	}
	return out
}

// promptIDs are made-up ids of the prompt, one for each word.
func (q *ask) promptIDs() []int64 {
	ids := []int64{}
	for _, w := range strings.Fields(q.system + " " + q.said()) {
		ids = append(ids, tokenID(w))
	}
	return ids
}

func logprob(piece string) object {
	p := -0.125
	bytes := []int{}
	for _, b := range []byte(piece) {
		bytes = append(bytes, int(b))
	}
	return object{"token": piece, "logprob": p, "bytes": bytes, "top_logprobs": []object{}}
}

func (c chat) events(q *ask, a *answer) iter.Seq[event] {
	chunk := func(delta object, finish any, more object) event {
		choice := object{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}
		for k, v := range more {
			choice[k] = v
		}
		out := object{"id": "chatcmpl-" + a.id, "object": "chat.completion.chunk", "created": a.created, "model": a.model, "choices": []object{choice}}
		if q.usage {
			out["usage"] = nil
		}
		return event{data: encode(out)}
	}
	return func(yield func(event) bool) {
		if !yield(chunk(object{"role": "assistant", "content": ""}, nil, nil)) {
			return
		}
		if !a.empty && !c.deltas(q, a, chunk, yield) {
			return
		}
		if !yield(chunk(object{}, a.chatFinish(), nil)) {
			return
		}
		if q.usage && a.usage != nil {
			last := object{"id": "chatcmpl-" + a.id, "object": "chat.completion.chunk", "created": a.created, "model": a.model, "choices": []object{}, "usage": c.usage(a.usage)}
			if !yield(event{data: encode(last)}) {
				return
			}
		}
		yield(event{data: []byte("[DONE]")})
	}
}

func (chat) deltas(q *ask, a *answer, chunk func(object, any, object) event, yield func(event) bool) bool {
	for piece := range pieces(a.reasoning, a.chunk) {
		if !yield(chunk(object{"reasoning_content": piece}, nil, nil)) {
			return false
		}
	}
	for piece := range pieces(a.text, a.chunk) {
		more := object{}
		if q.logprob {
			more["logprobs"] = object{"content": []object{logprob(piece)}, "refusal": nil}
		}
		if q.tokens {
			more["token_ids"] = []int64{tokenID(piece)}
		}
		if !yield(chunk(object{"content": piece}, nil, more)) {
			return false
		}
	}
	for piece := range pieces(a.refusal, a.chunk) {
		if !yield(chunk(object{"refusal": piece}, nil, nil)) {
			return false
		}
	}
	for i, t := range a.calls {
		begin := object{"index": i, "id": t.id, "type": "function", "function": object{"name": t.name, "arguments": ""}}
		if !yield(chunk(object{"tool_calls": []object{begin}}, nil, nil)) {
			return false
		}
		for piece := range pieces(t.args, a.chunk) {
			more := object{"index": i, "function": object{"arguments": piece}}
			if !yield(chunk(object{"tool_calls": []object{more}}, nil, nil)) {
				return false
			}
		}
	}
	return true
}

func (chat) fail(f failure) object {
	return object{"error": object{"message": f.message, "type": f.openaiType(), "param": nil, "code": f.openaiCode()}}
}

func (c chat) within(f failure, _ int) event { return event{data: encode(c.fail(f))} }
