package openai

import (
	"bytes"
	"fmt"

	"assay/internal/model"
)

// Decode returns a decoder of one stream.
func (Responses) Decode() model.Decoder {
	return &responsesDecoder{parts: map[place]int{}, done: map[int64]bool{}}
}

// responsesDecoder reads events. Parts are told by item and content; whatever
// events a server leaves out, the item at its end and the answer at the end of
// the stream make up for.
type responsesDecoder struct {
	started bool
	next    int
	parts   map[place]int
	done    map[int64]bool // items, by output_index
	calls   bool
	refused bool
	summary int64 // index of the last piece of a summary
}

// place is a content of an item; calls and reasoning have content 0.
type place struct{ output, content int64 }

func (d *responsesDecoder) Next(e model.Event) ([]model.Delta, error) {
	data := bytes.TrimSpace(e.Data)
	if string(data) == "[DONE]" {
		return nil, nil
	}
	o, err := model.ParseObject("", data)
	if err != nil {
		return nil, fmt.Errorf("read responses event: %w", err)
	}
	kind := o.Peek("type")
	if kind == "" {
		kind = e.Name
	}
	if kind == "error" || kind == "" && o.Has("error") {
		return []model.Delta{{Kind: model.DeltaError, Err: parseError(0, nil, data)}}, nil
	}
	out := d.event(kind, o)
	if err := o.Err(); err != nil {
		return out, fmt.Errorf("read responses event %s: %w", kind, err)
	}
	return out, nil
}

func (d *responsesDecoder) event(kind string, o *model.Object) []model.Delta {
	switch kind {
	case "response.created", "response.in_progress", "response.queued":
		return d.start(o.Obj("response"))
	case "response.output_item.added":
		return d.added(o)
	case "response.output_text.delta":
		return d.text(model.DeltaText, o)
	case "response.refusal.delta":
		return d.text(model.DeltaRefusal, o)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		return d.reasoning(o)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		at := d.place(o, "")
		if _, ok := d.parts[at]; !ok {
			o.Fail("arguments of a call that has not begun")
			return nil
		}
		return []model.Delta{{Kind: model.DeltaArguments, Index: d.parts[at], Text: o.Str("delta")}}
	case "response.output_item.done":
		at := d.place(o, "")
		return d.item(at.output, o.Obj("item"))
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return d.end(o.Obj("response"))
	}
	return nil
}

func (d *responsesDecoder) start(r *model.Object) []model.Delta {
	if d.started || r == nil {
		return nil
	}
	d.started = true
	return []model.Delta{{Kind: model.DeltaStart, ID: r.Str("id"), Model: r.Str("model")}}
}

func (d *responsesDecoder) place(o *model.Object, content string) place {
	var at place
	if n := o.Int("output_index"); n != nil {
		at.output = *n
	}
	if content != "" {
		if n := o.Int(content); n != nil {
			at.content = *n
		}
	}
	return at
}

func (d *responsesDecoder) part(at place) int {
	i, ok := d.parts[at]
	if !ok {
		i = d.next
		d.parts[at] = i
		d.next++
	}
	return i
}

func (d *responsesDecoder) added(o *model.Object) []model.Delta {
	at := d.place(o, "")
	item := o.Obj("item")
	if item == nil {
		o.Fail("item is missing")
		return nil
	}
	if kind := item.Peek("type"); kind != "function_call" && kind != "custom_tool_call" {
		return nil // parts of a message begin with their text
	}
	d.calls = true
	parts := parseItem(item)
	return []model.Delta{{Kind: model.DeltaCall, Index: d.part(at), Call: parts[0].Call}}
}

func (d *responsesDecoder) text(kind model.DeltaKind, o *model.Object) []model.Delta {
	d.refused = d.refused || kind == model.DeltaRefusal
	at := d.place(o, "content_index")
	return []model.Delta{{Kind: kind, Index: d.part(at), Text: o.Str("delta")}}
}

func (d *responsesDecoder) reasoning(o *model.Object) []model.Delta {
	at := d.place(o, "")
	text := o.Str("delta")
	n := int64(0)
	for _, key := range []string{"summary_index", "content_index"} {
		if i := o.Int(key); i != nil {
			n = *i
		}
	}
	if _, ok := d.parts[at]; ok && n != d.summary {
		text = "\n\n" + text
	}
	d.summary = n
	return []model.Delta{{Kind: model.DeltaReasoning, Index: d.part(at), Text: text}}
}

// item takes what an item is known to be at its end.
func (d *responsesDecoder) item(output int64, item *model.Object) []model.Delta {
	if item == nil || d.done[output] {
		return nil
	}
	d.done[output] = true
	var out []model.Delta
	for i, p := range parseItem(item) {
		d.calls = d.calls || p.Kind == model.PartCall
		d.refused = d.refused || p.Kind == model.PartRefusal
		n := d.part(place{output, int64(i)})
		out = append(out, model.Delta{Kind: model.DeltaPart, Index: n, Part: &p}, model.Delta{Kind: model.DeltaEnd, Index: n})
	}
	return out
}

func (d *responsesDecoder) end(r *model.Object) []model.Delta {
	if r == nil {
		return []model.Delta{{Kind: model.DeltaStop}, {Kind: model.DeltaDone}}
	}
	out := d.start(r)
	for i, item := range r.Objs("output") {
		out = append(out, d.item(int64(i), item)...)
	}
	if u := parseResponsesUsage(r.Raw("usage")); u != nil {
		out = append(out, model.Delta{Kind: model.DeltaUsage, Usage: u})
	}
	stop, err := responsesStop(r, d.calls)
	if err != nil {
		return append(out, model.Delta{Kind: model.DeltaError, Err: err})
	}
	if stop == model.StopEnd && d.refused {
		stop = model.StopRefusal
	}
	return append(out, model.Delta{Kind: model.DeltaStop, Stop: stop}, model.Delta{Kind: model.DeltaDone})
}
