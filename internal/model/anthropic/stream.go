package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"assay/internal/model"
)

// Decode returns a decoder of one stream.
func (Messages) Decode() model.Decoder { return &decoder{blocks: map[int64]*block{}} }

type decoder struct {
	usage  usage
	blocks map[int64]*block // open ones, by the server's index
	next   int
}

// block is one that has begun and not ended.
type block struct {
	part  int
	kind  string
	start *model.Object   // of a block that comes whole
	input json.RawMessage // that the start of a call held
	text  strings.Builder // of a text block, or partial JSON of an opaque one
	cites []json.RawMessage
	said  bool
}

func (d *decoder) Next(e model.Event) ([]model.Delta, error) {
	o, err := model.ParseObject("", bytes.TrimSpace(e.Data))
	if err != nil {
		return nil, fmt.Errorf("read messages event: %w", err)
	}
	var out []model.Delta
	switch o.Peek("type") {
	case "message_start":
		out = d.start(o.Obj("message"))
	case "content_block_start":
		out = d.begin(o)
	case "content_block_delta":
		out = d.delta(o)
	case "content_block_stop":
		out = d.end(o)
	case "message_delta":
		d.usage.add(o.Obj("usage"))
		if u := d.usage.total(); u != nil {
			out = append(out, model.Delta{Kind: model.DeltaUsage, Usage: u})
		}
		if m := o.Obj("delta"); m != nil {
			if reason := m.Str("stop_reason"); reason != "" {
				out = append(out, model.Delta{Kind: model.DeltaStop, Stop: stopOf(reason)})
			}
		}
	case "message_stop":
		out = append(out, model.Delta{Kind: model.DeltaDone})
	case "error":
		return []model.Delta{{Kind: model.DeltaError, Err: parseError(0, nil, e.Data)}}, nil
	}
	if err := o.Err(); err != nil {
		return out, fmt.Errorf("read messages event: %w", err)
	}
	return out, nil
}

// start takes what is known at the beginning. The count of output tokens there
// is a placeholder.
func (d *decoder) start(m *model.Object) []model.Delta {
	out := model.Delta{Kind: model.DeltaStart}
	if m != nil {
		out.ID, out.Model = m.Str("id"), m.Str("model")
		d.usage.add(m.Obj("usage"))
		d.usage.output = nil
		out.Usage = d.usage.total()
	}
	return []model.Delta{out}
}

func (d *decoder) begin(o *model.Object) []model.Delta {
	index := o.Int("index")
	c := o.Obj("content_block")
	if index == nil || c == nil {
		o.Fail("a block needs an index and a content_block")
		return nil
	}
	b := &block{part: d.next, kind: c.Peek("type")}
	d.blocks[*index] = b
	d.next++
	switch b.kind {
	case "text":
		text := c.Str("text")
		b.text.WriteString(text)
		return d.say(b, model.DeltaText, text)
	case "thinking":
		out := d.say(b, model.DeltaReasoning, c.Str("thinking"))
		if sign := c.Str("signature"); sign != "" {
			out = append(out, model.Delta{Kind: model.DeltaSignature, Index: b.part, Text: sign})
		}
		return out
	case "tool_use":
		call := &model.Call{ID: c.Str("id"), Name: c.Str("name")}
		b.input = c.Raw("input")
		return []model.Delta{{Kind: model.DeltaCall, Index: b.part, Call: call}}
	}
	b.start = c
	return nil
}

func (d *decoder) say(b *block, kind model.DeltaKind, text string) []model.Delta {
	return []model.Delta{{Kind: kind, Index: b.part, Text: text}}
}

func (d *decoder) delta(o *model.Object) []model.Delta {
	index := o.Int("index")
	c := o.Obj("delta")
	if index == nil || c == nil || d.blocks[*index] == nil {
		o.Fail("a delta of a block that has not begun")
		return nil
	}
	b := d.blocks[*index]
	switch c.Peek("type") {
	case "text_delta":
		text := c.Str("text")
		b.text.WriteString(text)
		return d.say(b, model.DeltaText, text)
	case "citations_delta":
		if cite := c.Raw("citation"); cite != nil {
			b.cites = append(b.cites, cite)
		}
	case "thinking_delta":
		return d.say(b, model.DeltaReasoning, c.Str("thinking"))
	case "signature_delta":
		return d.say(b, model.DeltaSignature, c.Str("signature"))
	case "input_json_delta":
		text := c.Str("partial_json")
		if b.start != nil {
			b.text.WriteString(text)
			return nil
		}
		if b.kind != "tool_use" || text == "" {
			return nil
		}
		b.said = true
		return d.say(b, model.DeltaArguments, text)
	}
	return nil // newer than this
}

func (d *decoder) end(o *model.Object) []model.Delta {
	index := o.Int("index")
	if index == nil || d.blocks[*index] == nil {
		o.Fail("the end of a block that has not begun")
		return nil
	}
	b := d.blocks[*index]
	delete(d.blocks, *index)
	var out []model.Delta
	switch {
	case b.start != nil:
		if input := json.RawMessage(b.text.String()); len(input) > 0 && json.Valid(input) {
			b.start.Put("input", input)
		}
		p := parseBlock(b.start)
		out = append(out, model.Delta{Kind: model.DeltaPart, Index: b.part, Part: &p})
	case b.kind == "text" && b.cites != nil:
		p := model.Part{Kind: model.PartText, Text: b.text.String(), Dialect: model.Messages}
		p.Extra = map[string]json.RawMessage{"citations": model.JSON(b.cites)}
		out = append(out, model.Delta{Kind: model.DeltaPart, Index: b.part, Part: &p})
	case b.kind == "tool_use" && !b.said:
		if b.input == nil {
			b.input = json.RawMessage("{}")
		}
		out = d.say(b, model.DeltaArguments, string(b.input))
	}
	return append(out, model.Delta{Kind: model.DeltaEnd, Index: b.part})
}

// Encode returns an encoder of the answer to r.
func (Messages) Encode(r model.Request) model.Encoder {
	return &encoder{seq: model.Sequencer{Asked: r}, out: -1}
}

// encoder writes message_start with usage, each block with its start, deltas
// and stop, message_delta and message_stop, always with event lines: official
// clients fail without any one of these.
type encoder struct {
	seq    model.Sequencer
	part   int // index of the open part, as the sequencer counts
	out    int // number of its block
	sign   string
	kind   any // of the open block
	open   bool
	calls  bool
	usage  *model.Usage
	losses model.Losses
}

func (e *encoder) Losses() []model.Loss {
	return append(e.losses.All(), e.seq.Losses(model.Messages)...)
}

func (e *encoder) Next(d model.Delta) []byte {
	var out []byte
	for _, d := range e.seq.Next(d) {
		out = append(out, e.write(d)...)
	}
	return out
}

func (e *encoder) write(d model.Delta) []byte {
	switch d.Kind {
	case model.DeltaStart:
		if d.Model == "" {
			d.Model = e.seq.Asked.Model
		}
		m := message(d.ID, d.Model)
		m["usage"] = formatUsage(d.Usage)
		return event("message_start", obj{"message": m})
	case model.DeltaText, model.DeltaRefusal:
		return e.text(d, "text", "text_delta", "text")
	case model.DeltaReasoning:
		return e.text(d, "thinking", "thinking_delta", "thinking")
	case model.DeltaSignature:
		out := e.begin(d, obj{"type": "thinking", "thinking": "", "signature": ""})
		if e.kind != "thinking" {
			kind := model.PartText
			if e.kind == "tool_use" {
				kind = model.PartCall
			}
			e.losses.Signed(kind)
			return nil
		}
		e.sign += d.Text // clients take the last one for all of it
		return out
	case model.DeltaCall:
		e.calls = true
		c := d.Call
		return e.begin(d, obj{"type": "tool_use", "id": c.ID, "name": model.FlatName(c.Namespace, c.Name), "input": obj{}})
	case model.DeltaArguments:
		return e.delta(obj{"type": "input_json_delta", "partial_json": d.Text})
	case model.DeltaPart:
		return e.whole(d)
	case model.DeltaEnd:
		return e.end()
	case model.DeltaTokens:
		e.losses.Add("tokens", "tokens are not told")
	case model.DeltaUsage:
		e.usage = d.Usage
	case model.DeltaStop:
		reason := obj{"stop_reason": reasonOf(d.Stop, e.calls), "stop_sequence": nil}
		return event("message_delta", obj{"delta": reason, "usage": formatUsage(e.usage)})
	case model.DeltaError:
		return event("error", errorBody(d.Err))
	case model.DeltaDone:
		return event("message_stop", obj{})
	}
	return nil
}

func (e *encoder) text(d model.Delta, kind, delta, key string) []byte {
	start := obj{"type": kind, key: ""}
	if kind == "thinking" {
		start["signature"] = ""
	}
	out := e.begin(d, start)
	if d.Text == "" {
		return out
	}
	return append(out, e.delta(obj{"type": delta, key: d.Text})...)
}

// begin starts the block of d if it is not the open one.
func (e *encoder) begin(d model.Delta, start obj) []byte {
	if e.open && e.part == d.Index {
		return nil
	}
	e.open, e.part, e.sign, e.kind = true, d.Index, "", start["type"]
	e.out++
	return event("content_block_start", obj{"index": e.out, "content_block": start})
}

func (e *encoder) delta(delta obj) []byte {
	return event("content_block_delta", obj{"index": e.out, "delta": delta})
}

// whole writes an opaque part of this dialect; its input goes as a delta, as
// the dialect's own servers send it.
func (e *encoder) whole(d model.Delta) []byte {
	var start obj
	if d.Part.Kind != model.PartOpaque || d.Part.Dialect != model.Messages || json.Unmarshal(d.Part.Raw, &start) != nil {
		e.losses.Add("messages[]."+opaqueName(*d.Part), "there is no such part")
		return nil
	}
	input, ok := start["input"]
	if ok {
		start["input"] = obj{}
	}
	out := e.begin(d, start)
	if ok {
		out = append(out, e.delta(obj{"type": "input_json_delta", "partial_json": string(model.JSON(input))})...)
	}
	return out
}

func (e *encoder) end() []byte {
	if !e.open {
		return nil // of a part that could not be said
	}
	var out []byte
	if e.sign != "" {
		out = e.delta(obj{"type": "signature_delta", "signature": e.sign})
	}
	e.open = false
	return append(out, event("content_block_stop", obj{"index": e.out})...)
}

func event(name string, body obj) []byte {
	body["type"] = name
	return model.Event{Name: name, Data: model.JSON(body)}.Append(nil)
}
