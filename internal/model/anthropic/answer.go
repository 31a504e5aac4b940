package anthropic

import (
	"fmt"
	"net/http"

	"assay/internal/model"
)

// ParseResponse reads an answer.
func (Messages) ParseResponse(body []byte) (model.Response, error) {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Response{}, fmt.Errorf("read messages answer: %w", err)
	}
	if o.Peek("type") == "error" {
		e := parseError(0, nil, body)
		return model.Response{Dialect: model.Messages, Stop: model.StopError, Err: e}, e
	}
	if !o.Has("content") {
		o.Fail("content is missing")
	}
	var u usage
	u.add(o.Obj("usage"))
	r := model.Response{
		Dialect: model.Messages, ID: o.Str("id"), Model: o.Str("model"), Usage: u.total(),
		Message: model.Message{Role: model.RoleAssistant, Parts: parseContent(o, "content")},
		Stop:    stopOf(o.Str("stop_reason")),
	}
	o.Drop("type", "role", "stop_sequence")
	r.Extra = o.Rest()
	if err := o.Err(); err != nil {
		return r, fmt.Errorf("read messages answer: %w", err)
	}
	return r, nil
}

func stopOf(reason string) model.Stop {
	switch reason {
	case "":
		return model.StopUnknown
	case "tool_use":
		return model.StopCalls
	case "max_tokens", "model_context_window_exceeded":
		return model.StopLength
	case "refusal":
		return model.StopRefusal
	case "pause_turn":
		return model.StopPause
	}
	return model.StopEnd
}

func reasonOf(s model.Stop, calls bool) string {
	switch s {
	case model.StopLength:
		return "max_tokens"
	case model.StopRefusal:
		return "refusal"
	case model.StopPause:
		return "pause_turn"
	}
	if calls {
		return "tool_use"
	}
	return "end_turn"
}

// usage counts as the wire does: input, cached and written to the cache apart.
// The fields of a stream's later events replace those of its first.
type usage struct{ input, cached, written, output, thinking *int64 }

func (u *usage) add(o *model.Object) {
	if o == nil {
		return
	}
	take := func(key string, to **int64) {
		if n := o.Int(key); n != nil {
			*to = n
		}
	}
	take("input_tokens", &u.input)
	take("cache_read_input_tokens", &u.cached)
	take("cache_creation_input_tokens", &u.written)
	take("output_tokens", &u.output)
	if d := o.Obj("output_tokens_details"); d != nil {
		u.thinking = d.Int("thinking_tokens")
	}
}

func (u *usage) total() *model.Usage {
	if u.input == nil && u.output == nil {
		return nil
	}
	t := &model.Usage{Cached: u.cached, CacheWrite: u.written, Output: u.output, Reasoning: u.thinking}
	if u.input != nil {
		sum := *u.input
		for _, n := range []*int64{u.cached, u.written} {
			if n != nil {
				sum += *n
			}
		}
		t.Input = &sum
	}
	return t
}

// formatUsage writes all fields that official clients cannot do without; what
// is unknown has to be 0 there.
func formatUsage(u *model.Usage) obj {
	if u == nil {
		u = &model.Usage{}
	}
	num := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	return obj{
		"input_tokens":                max(0, num(u.Input)-num(u.Cached)-num(u.CacheWrite)),
		"cache_read_input_tokens":     num(u.Cached),
		"cache_creation_input_tokens": num(u.CacheWrite),
		"output_tokens":               num(u.Output),
	}
}

// FormatResponse writes an answer.
func (Messages) FormatResponse(asked model.Request, r model.Response) ([]byte, []model.Loss) {
	r = asked.Restored(r)
	w := newWriter(&asked)
	w.own = true // a client takes reasoning without a signature
	out := message(r.ID, r.Model)
	out["content"] = w.blocks(r.Message.Parts)
	out["stop_reason"] = reasonOf(r.Stop, len(r.Calls()) > 0)
	out["usage"] = formatUsage(r.Usage)
	if r.Tokens != nil {
		w.losses.Add("tokens", "tokens are not told")
	}
	return model.JSON(out), w.losses.All()
}

func message(id, name string) obj {
	return obj{
		"id": id, "type": "message", "role": "assistant", "model": name, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
	}
}

// ParseError reads an answer with a status other than 200.
func (Messages) ParseError(status int, header http.Header, body []byte) *model.Error {
	return parseError(status, header, body)
}

func parseError(status int, header http.Header, body []byte) *model.Error {
	o, err := model.ParseObject("", body)
	if err != nil || !o.Has("error") {
		return model.Unreadable(status, header, body)
	}
	e, err := model.ParseObject("error", o.Raw("error"))
	if err != nil {
		return model.Unreadable(status, header, body)
	}
	return model.Classify(status, header, model.Said{Type: e.Peek("type"), Code: e.Peek("code"), Message: e.Peek("message")})
}

// FormatError writes e.
func (Messages) FormatError(e *model.Error) (int, http.Header, []byte) {
	return e.HTTPStatus(model.Messages), e.ErrorHeader(), model.JSON(errorBody(e))
}

func errorBody(e *model.Error) obj {
	kind := "api_error"
	switch e.Kind {
	case model.ErrAuth, model.ErrForbidden:
		kind = "authentication_error"
	case model.ErrUnknownModel:
		kind = "not_found_error"
	case model.ErrBadRequest, model.ErrContext, model.ErrRefused, model.ErrBudget, model.ErrDeadline, model.ErrLoop:
		kind = "invalid_request_error"
	case model.ErrRate, model.ErrBusy:
		kind = "rate_limit_error"
	case model.ErrQuota:
		kind = "billing_error"
	case model.ErrOverload:
		kind = "overloaded_error"
	case model.ErrStalled:
		kind = "timeout_error"
	}
	body := obj{"type": kind, "message": e.Words()}
	if code := e.Code(); code != "" {
		body["code"] = code // beyond the dialect, which has no special words
	}
	return obj{"type": "error", "error": body}
}
