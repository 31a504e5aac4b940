package openai

import (
	"bytes"
	"fmt"
	"time"

	"assay/internal/model"
)

// Decode returns a decoder of one stream.
func (Chat) Decode() model.Decoder {
	return &chatDecoder{calls: map[int64]int{}, ids: map[int]string{}, single: map[string]int{}}
}

// chatDecoder reads chunks. Chat has no marks where a part begins or ends:
// text, reasoning and refusal are one part each, calls are merged by index.
type chatDecoder struct {
	started bool
	next    int
	single  map[string]int // the part of "content", "reasoning", "refusal"
	calls   map[int64]int  // the part of each call by the server's index
	ids     map[int]string // of calls, by part
	last    int64          // index of the last call
	high    int64          // the highest one
}

func (d *chatDecoder) Next(e model.Event) ([]model.Delta, error) {
	data := bytes.TrimSpace(e.Data)
	if string(data) == "[DONE]" {
		return []model.Delta{{Kind: model.DeltaDone}}, nil
	}
	if deltas, ok := d.plain(data); ok {
		return deltas, nil
	}
	o, err := model.ParseObject("", data)
	if err != nil {
		return nil, fmt.Errorf("read chat chunk: %w", err)
	}
	if o.Has("error") {
		return []model.Delta{{Kind: model.DeltaError, Err: parseError(0, nil, data)}}, nil
	}
	var out []model.Delta
	id, name := o.Str("id"), o.Str("model")
	choices := o.Objs("choices")
	if !d.started && (id != "" || len(choices) > 0) {
		d.started = true
		out = append(out, model.Delta{Kind: model.DeltaStart, ID: id, Model: name})
	}
	tokens := &model.Tokens{Prompt: ints(o.Raw("prompt_token_ids"))}
	for _, c := range choices {
		if n := c.Int("index"); n != nil && *n != 0 {
			continue
		}
		if m := c.Obj("delta"); m != nil {
			out = append(out, d.message(m)...)
		}
		addTokens(tokens, c)
		if reason := c.Str("finish_reason"); reason != "" {
			for i := range d.next {
				out = append(out, model.Delta{Kind: model.DeltaEnd, Index: i})
			}
			stop := chatStop(reason, len(d.ids) > 0)
			if _, no := d.single["refusal"]; no && stop == model.StopEnd {
				stop = model.StopRefusal
			}
			out = append(out, model.Delta{Kind: model.DeltaStop, Stop: stop})
		}
	}
	if t := someTokens(tokens); t != nil {
		out = append(out, model.Delta{Kind: model.DeltaTokens, Tokens: t})
	}
	if u := parseChatUsage(o.Raw("usage")); u != nil {
		out = append(out, model.Delta{Kind: model.DeltaUsage, Usage: u})
	}
	if err := o.Err(); err != nil {
		return out, fmt.Errorf("read chat chunk: %w", err)
	}
	return out, nil
}

func (d *chatDecoder) message(m *model.Object) []model.Delta {
	var out []model.Delta
	say := func(kind model.DeltaKind, key, text string) {
		if text != "" {
			out = append(out, model.Delta{Kind: kind, Index: d.part(key), Text: text})
		}
	}
	say(model.DeltaReasoning, "reasoning", takeReasoning(m))
	say(model.DeltaText, "content", m.Str("content"))
	say(model.DeltaRefusal, "refusal", m.Str("refusal"))
	for _, c := range m.Objs("tool_calls") {
		index := c.Int("index")
		out = append(out, d.call(index, parseChatCall(c))...)
	}
	if f := m.Obj("function_call"); f != nil {
		zero := int64(0)
		call := &model.Call{Name: f.Str("name"), Arguments: f.Str("arguments")}
		if len(d.ids) == 0 {
			call.ID = "call_function_1"
		}
		out = append(out, d.call(&zero, call)...)
	}
	return out
}

func (d *chatDecoder) part(key string) int {
	i, ok := d.single[key]
	if !ok {
		i = d.next
		d.single[key] = i
		d.next++
	}
	return i
}

// call reads a piece of a call. Servers exist that give no index, and ones
// that give each of several whole calls the index 0: a new id is a new call.
func (d *chatDecoder) call(index *int64, c *model.Call) []model.Delta {
	n := d.last
	if index != nil {
		n = *index
	}
	i, ok := d.calls[n]
	if ok && c.ID != "" && d.ids[i] != "" && c.ID != d.ids[i] {
		ok = false
		if index == nil {
			n = d.high + 1
		}
	}
	d.last, d.high = n, max(d.high, n)
	if ok {
		if c.Arguments == "" {
			return nil
		}
		return []model.Delta{{Kind: model.DeltaArguments, Index: i, Text: c.Arguments}}
	}
	i = d.next
	d.next++
	d.calls[n] = i
	d.ids[i] = c.ID
	return []model.Delta{{Kind: model.DeltaCall, Index: i, Call: c}}
}

// Encode returns an encoder of the answer to r.
func (Chat) Encode(r model.Request) model.Encoder {
	return &chatEncoder{seq: model.Sequencer{Asked: r}, created: time.Now().Unix(), calls: map[int]int{}, kind: model.PartReasoning}
}

// chatEncoder writes a chunk with the role, one for each piece, an empty one
// with the reason, one with usage if it was asked for, and [DONE].
type chatEncoder struct {
	seq     model.Sequencer
	id      string
	model   string
	created int64
	calls   map[int]int    // number of a call by its part
	custom  bool           // of the open call
	refused bool           // in words
	kind    model.PartKind // of the open part; reasoning if it only has a signature
	usage   *model.Usage
	losses  model.Losses
}

func (e *chatEncoder) Losses() []model.Loss {
	return append(e.losses.All(), e.seq.Losses(model.Chat)...)
}

func (e *chatEncoder) Next(d model.Delta) []byte {
	var out []byte
	for _, d := range e.seq.Next(d) {
		out = append(out, e.write(d)...)
	}
	return out
}

func (e *chatEncoder) write(d model.Delta) []byte {
	switch d.Kind {
	case model.DeltaStart:
		e.id, e.model = d.ID, d.Model
		if e.model == "" {
			e.model = e.seq.Asked.Model
		}
		return e.chunk(obj{"role": "assistant", "content": ""}, nil)
	case model.DeltaText:
		e.kind = model.PartText
		if d.Text == "" {
			return nil
		}
		return e.chunk(obj{"content": d.Text}, nil)
	case model.DeltaReasoning:
		e.kind = model.PartReasoning
		if d.Text == "" {
			return nil
		}
		return e.chunk(obj{"reasoning_content": d.Text}, nil)
	case model.DeltaRefusal:
		e.refused = true
		return e.chunk(obj{"refusal": d.Text}, nil)
	case model.DeltaSignature:
		e.losses.Signed(e.kind)
	case model.DeltaCall, model.DeltaArguments:
		return e.call(d)
	case model.DeltaPart:
		e.losses.Add("messages[]."+opaqueName(*d.Part), "there is no such part")
	case model.DeltaTokens:
		return e.tokens(d.Tokens)
	case model.DeltaEnd:
		e.kind = model.PartReasoning
	case model.DeltaUsage:
		e.usage = d.Usage
	case model.DeltaStop:
		return e.chunk(obj{}, chatReason(d.Stop, len(e.calls) > 0, e.refused))
	case model.DeltaError:
		return event(obj{"error": errorBody(d.Err)})
	case model.DeltaDone:
		return e.end()
	}
	return nil
}

func (e *chatEncoder) call(d model.Delta) []byte {
	e.kind = model.PartCall
	n, ok := e.calls[d.Index]
	if !ok {
		n = len(e.calls)
		e.calls[d.Index] = n
	}
	if d.Kind == model.DeltaArguments {
		body := obj{"index": n, "function": obj{"arguments": d.Text}}
		if e.custom {
			body = obj{"index": n, "custom": obj{"input": d.Text}}
		}
		return e.chunk(obj{"tool_calls": []obj{body}}, nil)
	}
	c := *d.Call
	e.custom = c.Custom
	if c.Custom {
		return e.chunk(obj{"tool_calls": []obj{{"index": n, "id": c.ID, "type": "custom", "custom": obj{"name": c.Name, "input": ""}}}}, nil)
	}
	function := obj{"name": model.FlatName(c.Namespace, c.Name), "arguments": ""}
	return e.chunk(obj{"tool_calls": []obj{{"index": n, "id": c.ID, "type": "function", "function": function}}}, nil)
}

func (e *chatEncoder) chunk(delta obj, reason any) []byte {
	return event(e.root([]obj{{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": nil}}))
}

func (e *chatEncoder) root(choices []obj) obj {
	return obj{"id": e.id, "object": "chat.completion.chunk", "created": e.created, "model": e.model, "choices": choices}
}

func (e *chatEncoder) tokens(t *model.Tokens) []byte {
	choice := obj{"index": 0, "delta": obj{}, "finish_reason": nil, "logprobs": nil}
	root := e.root([]obj{choice})
	writeTokens(root, choice, t, e.seq.Asked.Logprobs)
	return event(root)
}

func (e *chatEncoder) end() []byte {
	var out []byte
	if e.usage != nil && e.seq.Asked.Usage {
		root := e.root([]obj{})
		root["usage"] = chatUsage(e.usage)
		out = event(root)
	}
	return model.Event{Data: []byte("[DONE]")}.Append(out)
}

func event(v obj) []byte { return model.Event{Data: model.JSON(v)}.Append(nil) }
