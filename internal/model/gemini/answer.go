package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"assay/internal/model"
)

// ParseResponse reads an answer, which is a stream of one event.
func (Gemini) ParseResponse(body []byte) (model.Response, error) {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Response{}, fmt.Errorf("read gemini answer: %w", err)
	}
	if o.Has("error") {
		e := parseError(0, nil, body)
		return model.Response{Dialect: model.Gemini, Stop: model.StopError, Err: e}, e
	}
	either(o, "promptFeedback")
	if !o.Has("candidates") && !o.Has("promptFeedback") {
		return model.Response{}, fmt.Errorf("read gemini answer: candidates are missing")
	}
	d := &decoder{}
	var all model.Collector
	for _, x := range d.event(o) {
		all.Add(x)
	}
	r := all.Response()
	if r.Stop == model.StopCut {
		r.Stop = model.StopUnknown // nothing is cut: it came whole
	}
	r.Dialect, r.Extra = model.Gemini, o.Rest()
	if err := o.Err(); err != nil {
		return r, fmt.Errorf("read gemini answer: %w", err)
	}
	return r, nil
}

func stopOf(reason string, calls bool) model.Stop {
	switch reason {
	case "STOP":
		if calls {
			return model.StopCalls
		}
	case "MAX_TOKENS":
		return model.StopLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return model.StopRefusal
	}
	return model.StopEnd
}

func reasonOf(s model.Stop) string {
	switch s {
	case model.StopLength:
		return "MAX_TOKENS"
	case model.StopRefusal:
		return "SAFETY"
	}
	return "STOP"
}

// parseUsage counts thoughts as output, as all other dialects do.
func parseUsage(o *model.Object) *model.Usage {
	if o == nil {
		return nil
	}
	either(o, "promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")
	u := &model.Usage{
		Input: o.Int("promptTokenCount"), Cached: o.Int("cachedContentTokenCount"),
		Output: o.Int("candidatesTokenCount"), Reasoning: o.Int("thoughtsTokenCount"),
	}
	if n := o.Int("toolUsePromptTokenCount"); n != nil && u.Input != nil {
		*u.Input += *n
	}
	if u.Reasoning != nil {
		sum := *u.Reasoning
		if u.Output != nil {
			sum += *u.Output
		}
		u.Output = &sum
	}
	if u.Input == nil && u.Output == nil {
		return nil
	}
	return u
}

func formatUsage(u *model.Usage) obj {
	out := obj{}
	set(out, "promptTokenCount", u.Input)
	set(out, "cachedContentTokenCount", u.Cached)
	set(out, "thoughtsTokenCount", u.Reasoning)
	if u.Output != nil {
		said := *u.Output
		if u.Reasoning != nil {
			said = max(0, said-*u.Reasoning)
		}
		out["candidatesTokenCount"] = said
		if u.Input != nil {
			out["totalTokenCount"] = *u.Input + *u.Output
		}
	}
	return out
}

// FormatResponse writes an answer.
func (Gemini) FormatResponse(asked model.Request, r model.Response) ([]byte, []model.Loss) {
	r = asked.Restored(r)
	w := newWriter(&asked)
	w.own = true // a client takes any reasoning
	out := body(r.ID, r.Model, w.parts(r.Message.Parts))
	finish(out, r.Stop, r.Usage)
	if r.Tokens != nil {
		w.losses.Add("tokens", "tokens are not told")
	}
	return model.JSON(out), w.losses.All()
}

func body(id, name string, parts []any) obj {
	content := obj{"role": "model", "parts": parts}
	out := obj{"candidates": []obj{{"index": 0, "content": content}}, "modelVersion": name}
	if id != "" {
		out["responseId"] = id
	}
	return out
}

// finish makes out the last event of a stream, or a whole answer.
func finish(out obj, stop model.Stop, u *model.Usage) {
	if c, ok := out["candidates"].([]obj); ok {
		c[0]["finishReason"] = reasonOf(stop)
	}
	if u != nil {
		out["usageMetadata"] = formatUsage(u)
	}
}

// ParseError reads an answer with a status other than 200.
func (Gemini) ParseError(status int, header http.Header, body []byte) *model.Error {
	return parseError(status, header, body)
}

// parseError reads {"error": {"code", "message", "status", "details"}}, alone
// or in a list.
func parseError(status int, header http.Header, body []byte) *model.Error {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if len(body) > 0 && body[0] == '[' && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	o, err := model.ParseObject("", body)
	if err != nil || !o.Has("error") {
		return model.Unreadable(status, header, body)
	}
	in, err := model.ParseObject("error", o.Raw("error"))
	if err != nil {
		return model.Unreadable(status, header, body)
	}
	d := parseDetails(in)
	if n := in.Int("code"); status == 0 && n != nil && *n >= 400 && *n < 600 {
		status = int(*n)
	}
	e := model.Classify(status, header, model.Said{Type: in.Peek("status"), Code: d.reason, Message: in.Peek("message")})
	if e.RetryAfter == 0 {
		e.RetryAfter = d.retry
	}
	if e.Kind == model.ErrQuota && status == http.StatusTooManyRequests && !d.daily && d.reason != "insufficient_quota" {
		e.Kind = model.ErrRate // the words are those of a quota for limits a minute too
	}
	return e
}

// details are what an error has beside its words.
type details struct {
	reason string
	daily  bool // the limit is one a day: waiting does not help
	retry  time.Duration
}

func parseDetails(e *model.Object) details {
	var d details
	var list []struct {
		Reason     string
		RetryDelay string
		Violations []struct{ QuotaID string }
	}
	if raw := e.Raw("details"); raw == nil || json.Unmarshal(raw, &list) != nil {
		return d
	}
	for _, x := range list {
		if x.Reason != "" {
			d.reason = x.Reason
		}
		if wait, err := time.ParseDuration(x.RetryDelay); err == nil && wait > 0 {
			d.retry = min(wait, 24*time.Hour)
		}
		for _, v := range x.Violations {
			d.daily = d.daily || strings.Contains(v.QuotaID, "PerDay")
		}
	}
	return d
}

// FormatError writes e.
func (Gemini) FormatError(e *model.Error) (int, http.Header, []byte) {
	return e.HTTPStatus(model.Gemini), e.ErrorHeader(), model.JSON(errorBody(e))
}

func errorBody(e *model.Error) obj {
	status := e.HTTPStatus(model.Gemini)
	word := "INTERNAL"
	switch status {
	case 400, 402, 413, 422:
		word = "INVALID_ARGUMENT"
	case 401:
		word = "UNAUTHENTICATED"
	case 403:
		word = "PERMISSION_DENIED"
	case 404:
		word = "NOT_FOUND"
	case 429:
		word = "RESOURCE_EXHAUSTED"
	case 503:
		word = "UNAVAILABLE"
	case 504:
		word = "DEADLINE_EXCEEDED"
	}
	in := obj{"code": status, "message": e.Words(), "status": word}
	reason := e.Code()
	if e.Kind == model.ErrQuota {
		reason = "insufficient_quota"
	}
	var list []obj
	if reason != "" {
		list = append(list, obj{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "assay"})
	}
	if e.RetryAfter > 0 {
		wait := fmt.Sprintf("%.3fs", e.RetryAfter.Seconds())
		list = append(list, obj{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait})
	}
	if list != nil {
		in["details"] = list
	}
	return obj{"error": in}
}
