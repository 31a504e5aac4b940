package gateway

import (
	"bytes"
	"encoding/json"

	"assay/internal/model"
)

// Some of what a provider answers was asked for by the gateway and not by the
// agent: what a streamed answer used, and, with CaptureTokens, its tokens. It
// is recorded and taken out of what the agent reads.

// extra asks for what the agent did not.
func (a *asked) extra(o *outgoing, e edit) {
	if o.dialect != model.Chat || a.call.Side == SideCount {
		return
	}
	if a.call.Stream && string(a.at(e, "stream_options.include_usage")) != "true" {
		a.put(e, "stream_options.include_usage", json.RawMessage("true"))
		o.noUsage = true
	}
	if a.s.conf.CaptureTokens {
		if string(a.at(e, "logprobs")) != "true" {
			e["logprobs"] = json.RawMessage("true")
			o.noLogprobs = true
		}
		if string(a.at(e, "return_token_ids")) != "true" {
			e["return_token_ids"] = json.RawMessage("true")
			o.noTokens = true
		}
	}
}

// filter takes what the agent did not ask for out of an answer in its own
// dialect; nil: there is nothing.
func (o *outgoing) filter(stream bool) transform {
	switch {
	case stream && (o.noUsage || o.noLogprobs || o.noTokens):
		return &eventFilter{o: o}
	case !stream && (o.noLogprobs || o.noTokens):
		return &bodyFilter{o: o}
	}
	return nil
}

// strip returns what the agent sees of a chunk, or of a whole answer; nil:
// nothing. What cannot be read passes.
func (o *outgoing) strip(b []byte) []byte {
	if !json.Valid(b) {
		return b
	}
	all, err := members(b, span{0, len(b)})
	if err != nil {
		return b
	}
	cut := edit{}
	for _, m := range all {
		switch m.key {
		case "choices":
			els, ok := elements(b, m.value)
			if ok && len(els) == 0 && o.noUsage {
				return nil // the chunk that holds the usage, and nothing else
			}
			if ok && (o.noLogprobs || o.noTokens) {
				cut[m.key] = o.stripChoices(b, els)
			}
		case "usage":
			if o.noUsage {
				cut[m.key] = nil // null in every chunk but the last
			}
		case "prompt_token_ids", "prompt_logprobs":
			if o.noTokens {
				cut[m.key] = nil
			}
		}
	}
	return cut.apply(b, all)
}

func (o *outgoing) stripChoices(b []byte, els []span) json.RawMessage {
	var kept [][]byte
	for _, el := range els {
		raw := el.of(b)
		fields, err := members(raw, span{0, len(raw)})
		if err != nil {
			kept = append(kept, raw)
			continue
		}
		cut := edit{}
		for _, f := range fields {
			if f.key == "logprobs" && o.noLogprobs {
				cut[f.key] = json.RawMessage("null")
			}
			if f.key == "token_ids" && o.noTokens {
				cut[f.key] = nil
			}
		}
		kept = append(kept, cut.apply(raw, fields))
	}
	return append(append([]byte("["), bytes.Join(kept, []byte(","))...), ']')
}

// eventFilter strips the events of a stream.
type eventFilter struct {
	o    *outgoing
	scan model.EventScanner
	buf  []byte
	bad  error
}

func (f *eventFilter) next(piece []byte) []byte {
	f.buf = f.buf[:0]
	if err := f.scan.Feed(piece, f.take); err != nil {
		f.bad = err
	}
	return f.buf
}

func (f *eventFilter) take(e model.Event) error {
	if e.Data = f.o.strip(e.Data); e.Data != nil {
		f.buf = e.Append(f.buf)
	}
	return nil
}

func (f *eventFilter) end() ([]byte, *model.Error) {
	f.buf = f.buf[:0]
	_ = f.scan.End(f.take) // its error was noted before
	if f.bad != nil {
		return f.buf, &model.Error{Kind: model.ErrMalformed, Message: f.bad.Error()}
	}
	return f.buf, nil
}

// bodyFilter strips an answer that is not streamed.
type bodyFilter struct {
	o *outgoing
	b []byte
}

func (f *bodyFilter) next(piece []byte) []byte {
	f.b = append(f.b, piece...)
	return nil
}

func (f *bodyFilter) end() ([]byte, *model.Error) { return f.o.strip(f.b), nil }
