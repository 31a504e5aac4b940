package openai

import (
	"strings"
	"time"

	"assay/internal/model"
)

// Encode returns an encoder of the answer to r.
func (Responses) Encode(r model.Request) model.Encoder {
	return &responsesEncoder{seq: model.Sequencer{Asked: r}, created: time.Now().Unix(), w: newItemWriter(&r)}
}

// responsesEncoder writes created and in_progress; for each part an item that
// is added, filled and done; then completed, with the whole output and usage.
// Official helpers need created, added and completed; codex runs a call when
// its item is done, and nothing if that is missing.
type responsesEncoder struct {
	seq     model.Sequencer
	w       *itemWriter
	id      string
	model   string
	created int64
	n       int64 // sequence_number
	output  []any // items that are done
	part    model.Part
	text    strings.Builder // of the open part
	itemID  any             // of it
	open    bool
	inWords bool // it refused in words
	usage   *model.Usage
	stop    model.Stop
}

func (e *responsesEncoder) Losses() []model.Loss {
	return append(e.w.losses.All(), e.seq.Losses(model.Responses)...)
}

func (e *responsesEncoder) Next(d model.Delta) []byte {
	var out []byte
	for _, d := range e.seq.Next(d) {
		out = append(out, e.write(d)...)
	}
	return out
}

func (e *responsesEncoder) write(d model.Delta) []byte {
	switch d.Kind {
	case model.DeltaStart:
		e.id, e.model = d.ID, d.Model
		e.w.prefix = idPrefix(d.ID)
		return append(e.event("response.created", obj{"response": e.body()}), e.event("response.in_progress", obj{"response": e.body()})...)
	case model.DeltaText:
		return e.say(d, model.PartText, "response.output_text.delta")
	case model.DeltaRefusal:
		e.inWords = true
		return e.say(d, model.PartRefusal, "response.refusal.delta")
	case model.DeltaReasoning:
		return e.think(d)
	case model.DeltaSignature:
		out := e.think(model.Delta{Index: d.Index})
		if e.part.Kind != model.PartReasoning {
			e.w.losses.Signed(e.part.Kind)
			return out
		}
		e.part.Signature += d.Text
		return out
	case model.DeltaCall:
		return e.begin(model.Part{Kind: model.PartCall, Call: d.Call})
	case model.DeltaArguments:
		e.text.WriteString(d.Text)
		name := "response.function_call_arguments.delta"
		if e.part.Call.Custom {
			name = "response.custom_tool_call_input.delta"
		}
		return e.event(name, obj{"delta": d.Text, "item_id": e.itemID})
	case model.DeltaPart:
		return e.begin(*d.Part)
	case model.DeltaEnd:
		return e.end()
	case model.DeltaTokens:
		e.w.losses.Add("tokens", "tokens are not told")
	case model.DeltaUsage:
		e.usage = d.Usage
	case model.DeltaStop:
		e.stop = d.Stop
	case model.DeltaError:
		return e.fail(d.Err)
	case model.DeltaDone:
		body := e.body()
		body["usage"] = responsesUsage(e.usage)
		name := endBody(body, e.stop, e.inWords)
		return e.event(name, obj{"response": body})
	}
	return nil
}

func (e *responsesEncoder) body() obj {
	body := responsesBody(&e.seq.Asked, e.id, e.model, e.created)
	body["output"] = append([]any{}, e.output...)
	return body
}

// event writes one; events of an item carry its index.
func (e *responsesEncoder) event(name string, body obj) []byte {
	body["type"], body["sequence_number"] = name, e.n
	e.n++
	if _, ok := body["response"]; !ok && name != "error" {
		body["output_index"] = len(e.output)
	}
	return model.Event{Name: name, Data: model.JSON(body)}.Append(nil)
}

// item is the open part as it is now.
func (e *responsesEncoder) item(status string) any {
	p := e.part
	if p.Call != nil {
		c := *p.Call
		c.Arguments = e.text.String()
		p.Call = &c
	} else {
		p.Text = e.text.String()
	}
	item := e.w.item(p, len(e.output))
	o, ok := item.(obj)
	if !ok {
		return item
	}
	if status != "completed" {
		switch o["type"] {
		case "message":
			o["content"] = []any{}
		case "reasoning":
			o["summary"] = []any{}
			delete(o, "encrypted_content")
		}
	}
	if _, ok := o["status"]; ok {
		o["status"] = status
	}
	return o
}

func (e *responsesEncoder) begin(p model.Part) []byte {
	e.part, e.open = p, true
	e.text.Reset()
	item := e.item("in_progress")
	if item == nil {
		e.open = false // it cannot be said
		return nil
	}
	if o, ok := item.(obj); ok {
		e.itemID = o["id"]
	}
	return e.event("response.output_item.added", obj{"item": item})
}

// say writes text of a message, which is an item of its own.
func (e *responsesEncoder) say(d model.Delta, kind model.PartKind, name string) []byte {
	var out []byte
	if !e.open {
		out = e.begin(model.Part{Kind: kind})
		out = append(out, e.event("response.content_part.added", e.content(""))...)
	}
	if d.Text == "" {
		return out
	}
	e.text.WriteString(d.Text)
	body := obj{"delta": d.Text, "item_id": e.itemID, "content_index": 0}
	if kind == model.PartText {
		body["logprobs"] = []any{}
	}
	return append(out, e.event(name, body)...)
}

func (e *responsesEncoder) content(text string) obj {
	part := obj{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
	if e.part.Kind == model.PartRefusal {
		part = obj{"type": "refusal", "refusal": text}
	}
	return obj{"part": part, "item_id": e.itemID, "content_index": 0}
}

// think writes reasoning as a summary, which is what clients show and send
// back.
func (e *responsesEncoder) think(d model.Delta) []byte {
	var out []byte
	if !e.open {
		out = e.begin(model.Part{Kind: model.PartReasoning})
	}
	if d.Text == "" {
		return out
	}
	if e.text.Len() == 0 {
		body := obj{"item_id": e.itemID, "summary_index": 0, "part": obj{"type": "summary_text", "text": ""}}
		out = append(out, e.event("response.reasoning_summary_part.added", body)...)
	}
	e.text.WriteString(d.Text)
	body := obj{"item_id": e.itemID, "summary_index": 0, "delta": d.Text}
	return append(out, e.event("response.reasoning_summary_text.delta", body)...)
}

// end writes what follows the last piece of a part.
func (e *responsesEncoder) end() []byte {
	if !e.open {
		return nil
	}
	var out []byte
	text, id := e.text.String(), e.itemID
	switch {
	case e.part.Kind == model.PartText:
		body := obj{"text": text, "item_id": id, "content_index": 0, "logprobs": []any{}}
		out = e.event("response.output_text.done", body)
		out = append(out, e.event("response.content_part.done", e.content(text))...)
	case e.part.Kind == model.PartRefusal:
		out = e.event("response.refusal.done", obj{"refusal": text, "item_id": id, "content_index": 0})
		out = append(out, e.event("response.content_part.done", e.content(text))...)
	case e.part.Kind == model.PartReasoning && text != "":
		out = e.event("response.reasoning_summary_text.done", obj{"text": text, "item_id": id, "summary_index": 0})
		part := obj{"item_id": id, "summary_index": 0, "part": obj{"type": "summary_text", "text": text}}
		out = append(out, e.event("response.reasoning_summary_part.done", part)...)
	case e.part.Kind == model.PartCall && e.part.Call.Custom:
		out = e.event("response.custom_tool_call_input.done", obj{"input": text, "item_id": id})
	case e.part.Kind == model.PartCall:
		body := obj{"arguments": text, "item_id": id, "name": e.part.Call.Name}
		out = e.event("response.function_call_arguments.done", body)
	}
	item := e.item("completed")
	out = append(out, e.event("response.output_item.done", obj{"item": item})...)
	e.output = append(e.output, item)
	e.open = false
	return out
}

// fail says the error twice, as OpenAI's servers do: official helpers throw at
// the first event, codex reads the code of the second.
func (e *responsesEncoder) fail(err *model.Error) []byte {
	code := errorBody(err)["code"]
	if code == nil {
		code = "server_error"
		if err.Kind == model.ErrBadRequest {
			code = "invalid_prompt"
		}
	}
	out := e.event("error", obj{"code": code, "message": err.Message, "param": nil})
	body := e.body()
	body["status"] = "failed"
	body["error"] = obj{"code": code, "message": err.Message}
	return append(out, e.event("response.failed", obj{"response": body})...)
}
