package gemini

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"assay/internal/model"
)

// Decode returns a decoder of one stream.
func (Gemini) Decode() model.Decoder { return &decoder{} }

// decoder reads events, each of which is a whole answer as far as it goes.
// Text that follows text of its kind goes on with it, unless a signature has
// closed that.
type decoder struct {
	started bool
	next    int
	open    model.PartKind // of the last part, if it is text that may go on
	calls   bool
}

func (d *decoder) Next(e model.Event) ([]model.Delta, error) {
	data := bytes.TrimSpace(e.Data)
	o, err := model.ParseObject("", data)
	if err != nil {
		return nil, fmt.Errorf("read gemini event: %w", err)
	}
	if o.Has("error") {
		return []model.Delta{{Kind: model.DeltaError, Err: parseError(0, nil, data)}}, nil
	}
	out := d.event(o)
	if err := o.Err(); err != nil {
		return out, fmt.Errorf("read gemini event: %w", err)
	}
	return out, nil
}

func (d *decoder) event(o *model.Object) []model.Delta {
	either(o, "modelVersion", "responseId", "usageMetadata", "promptFeedback")
	var out []model.Delta
	id, name := o.Str("responseId"), o.Str("modelVersion")
	if !d.started {
		d.started = true
		out = append(out, model.Delta{Kind: model.DeltaStart, ID: id, Model: name})
	}
	reason := ""
	for i, c := range o.Objs("candidates") {
		if n := c.Int("index"); i > 0 || n != nil && *n != 0 {
			continue
		}
		either(c, "finishReason")
		reason = c.Str("finishReason")
		if content := c.Obj("content"); content != nil {
			for _, p := range content.Objs("parts") {
				out = append(out, d.part(parsePart(p))...)
			}
		}
	}
	if f := o.Obj("promptFeedback"); f != nil {
		either(f, "blockReason")
		if blocked := f.Str("blockReason"); blocked != "" {
			reason = "SAFETY"
		}
	}
	if u := parseUsage(o.Obj("usageMetadata")); u != nil {
		out = append(out, model.Delta{Kind: model.DeltaUsage, Usage: u})
	}
	if reason == "" || reason == "FINISH_REASON_UNSPECIFIED" {
		return out
	}
	out = append(out, d.close()...)
	// There is no other mark of the end.
	return append(out, model.Delta{Kind: model.DeltaStop, Stop: stopOf(reason, d.calls)}, model.Delta{Kind: model.DeltaDone})
}

func (d *decoder) part(p model.Part) []model.Delta {
	if p.Kind != model.PartText && p.Kind != model.PartReasoning {
		out := d.close()
		n := d.next
		d.next++
		d.calls = d.calls || p.Kind == model.PartCall
		return append(out, model.Delta{Kind: model.DeltaPart, Index: n, Part: &p}, model.Delta{Kind: model.DeltaEnd, Index: n})
	}
	var out []model.Delta
	if p.Text == "" && p.Signature == "" {
		return nil
	}
	if d.open != p.Kind {
		out = d.close()
		d.open = p.Kind
		d.next++
	}
	kind := model.DeltaText
	if p.Kind == model.PartReasoning {
		kind = model.DeltaReasoning
	}
	n := d.next - 1
	out = append(out, model.Delta{Kind: kind, Index: n, Text: p.Text})
	if p.Signature != "" {
		out = append(out, model.Delta{Kind: model.DeltaSignature, Index: n, Text: p.Signature})
		out = append(out, d.close()...)
	}
	return out
}

// close ends text that may go on.
func (d *decoder) close() []model.Delta {
	if d.open == "" {
		return nil
	}
	d.open = ""
	return []model.Delta{{Kind: model.DeltaEnd, Index: d.next - 1}}
}

// Encode returns an encoder of the answer to r.
func (Gemini) Encode(r model.Request) model.Encoder {
	return &encoder{seq: model.Sequencer{Asked: r}, w: newWriter(&r)}
}

// encoder writes text as it comes, calls when they are whole, and last the
// reason and usage.
type encoder struct {
	seq    model.Sequencer
	w      *writer
	id     string
	model  string
	kind   model.PartKind // of the open part
	call   *model.Call
	args   strings.Builder
	sign   string
	usage  *model.Usage
	losses model.Losses
}

func (e *encoder) Losses() []model.Loss {
	return slices.Concat(e.losses.All(), e.w.losses.All(), e.seq.Losses(model.Gemini))
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
		e.id, e.model = d.ID, d.Model
		if e.model == "" {
			e.model = e.seq.Asked.Model
		}
	case model.DeltaText, model.DeltaRefusal:
		e.kind = model.PartText
		return e.text(d.Text, nil)
	case model.DeltaReasoning:
		e.kind = model.PartReasoning
		return e.text(d.Text, obj{"thought": true})
	case model.DeltaSignature:
		e.sign += d.Text
	case model.DeltaCall:
		e.kind, e.call = model.PartCall, d.Call
		e.args.Reset()
	case model.DeltaArguments:
		e.args.WriteString(d.Text)
	case model.DeltaPart:
		if d.Part.Kind != model.PartMedia && d.Part.Dialect != model.Gemini {
			e.losses.Add("messages[]."+opaqueName(*d.Part), "there is no such part")
			return nil
		}
		return e.event(e.w.part(*d.Part))
	case model.DeltaEnd:
		return e.end()
	case model.DeltaTokens:
		e.losses.Add("tokens", "tokens are not told")
	case model.DeltaUsage:
		e.usage = d.Usage
	case model.DeltaStop:
		out := body(e.id, e.model, []any{obj{"text": ""}})
		finish(out, d.Stop, e.usage)
		return model.Event{Data: model.JSON(out)}.Append(nil)
	case model.DeltaError:
		return model.Event{Data: model.JSON(errorBody(d.Err))}.Append(nil)
	}
	return nil
}

func (e *encoder) text(text string, part obj) []byte {
	if text == "" {
		return nil
	}
	if part == nil {
		part = obj{}
	}
	part["text"] = text
	return e.event(part)
}

func (e *encoder) event(part any) []byte {
	return model.Event{Data: model.JSON(body(e.id, e.model, []any{part}))}.Append(nil)
}

// end writes a call, and a signature, which comes with the last piece.
func (e *encoder) end() []byte {
	var part obj
	switch {
	case e.call != nil:
		c := *e.call
		c.Arguments = e.args.String()
		part = obj{"functionCall": e.w.call(c)}
	case e.sign != "" && e.kind == model.PartReasoning:
		part = obj{"text": "", "thought": true}
	case e.sign != "":
		part = obj{"text": ""}
	}
	if part == nil {
		return nil
	}
	if e.sign != "" {
		part["thoughtSignature"] = e.sign
	}
	e.call, e.sign, e.kind = nil, "", ""
	return e.event(part)
}
