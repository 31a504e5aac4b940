package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"assay/internal/model"
)

// ParseResponse reads an answer.
func (Responses) ParseResponse(body []byte) (model.Response, error) {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Response{}, fmt.Errorf("read responses answer: %w", err)
	}
	if !o.Has("output") && o.Has("error") {
		e := parseError(0, nil, body)
		return model.Response{Dialect: model.Responses, Stop: model.StopError, Err: e}, e
	}
	if !o.Has("output") {
		o.Fail("output is missing")
	}
	r := model.Response{
		Dialect: model.Responses, ID: o.Str("id"), Model: o.Str("model"),
		Message: model.Message{Role: model.RoleAssistant}, Usage: parseResponsesUsage(o.Raw("usage")),
	}
	for _, item := range o.Objs("output") {
		r.Message.Parts = append(r.Message.Parts, parseItem(item)...)
	}
	r.Stop, r.Err = responsesStop(o, len(r.Calls()) > 0)
	r.Stop = refused(r.Stop, r.Message.Parts)
	o.Drop("object", "created_at")
	r.Extra = o.Rest()
	if err := o.Err(); err != nil {
		return r, fmt.Errorf("read responses answer: %w", err)
	}
	return r, nil
}

// responsesStop reads why an answer ended, and takes what tells it.
func responsesStop(o *model.Object, calls bool) (model.Stop, *model.Error) {
	status := o.Str("status")
	details := o.Obj("incomplete_details")
	if e := o.Obj("error"); e != nil && status != "completed" {
		return model.StopError, model.Classify(0, nil, said(e))
	}
	switch status {
	case "completed", "":
		if calls {
			return model.StopCalls, nil
		}
		return model.StopEnd, nil
	case "incomplete":
		if details != nil && details.Str("reason") == "content_filter" {
			return model.StopRefusal, nil
		}
		return model.StopLength, nil
	case "failed", "cancelled":
		return model.StopError, &model.Error{Kind: model.ErrServer, Type: status, Message: "the provider ended the answer: " + status}
	}
	return model.StopUnknown, nil // in_progress, queued
}

func parseResponsesUsage(raw json.RawMessage) *model.Usage {
	o, err := model.ParseObject("usage", raw)
	if raw == nil || err != nil {
		return nil
	}
	u := &model.Usage{Input: o.Int("input_tokens"), Output: o.Int("output_tokens")}
	if d := o.Obj("input_tokens_details"); d != nil {
		u.Cached = d.Int("cached_tokens")
		u.CacheWrite = d.Int("cache_write_tokens")
	}
	if d := o.Obj("output_tokens_details"); d != nil {
		u.Reasoning = d.Int("reasoning_tokens")
	}
	if u.Input == nil && u.Output == nil {
		return nil
	}
	return u
}

// responsesUsage has every field that official clients name, as far as it is
// known; null is not allowed for the sums.
func responsesUsage(u *model.Usage) any {
	if u == nil || u.Input == nil || u.Output == nil {
		return nil
	}
	in, out := obj{"cached_tokens": 0}, obj{"reasoning_tokens": 0}
	set(in, "cached_tokens", u.Cached)
	set(in, "cache_write_tokens", u.CacheWrite)
	set(out, "reasoning_tokens", u.Reasoning)
	return obj{
		"input_tokens": *u.Input, "input_tokens_details": in,
		"output_tokens": *u.Output, "output_tokens_details": out,
		"total_tokens": *u.Input + *u.Output,
	}
}

// FormatResponse writes an answer.
func (Responses) FormatResponse(asked model.Request, r model.Response) ([]byte, []model.Loss) {
	r = asked.Restored(r)
	w := newItemWriter(&asked)
	w.prefix = idPrefix(r.ID)
	body := responsesBody(&asked, r.ID, r.Model, time.Now().Unix())
	body["output"] = w.items(r.Message.Parts)
	endBody(body, r.Stop, hasRefusal(r.Message.Parts))
	body["usage"] = responsesUsage(r.Usage)
	if r.Tokens != nil {
		w.losses.Add("tokens", "tokens are not told")
	}
	return model.JSON(body), w.losses.All()
}

func hasRefusal(parts []model.Part) bool {
	return refused(model.StopEnd, parts) == model.StopRefusal
}

// idPrefix makes the ids of items from that of the answer, the same in every
// replay.
func idPrefix(id string) string {
	if id == "" {
		return "0"
	}
	return id
}

// responsesBody is an answer that has just begun.
func responsesBody(asked *model.Request, id, name string, created int64) obj {
	if name == "" {
		name = asked.Model
	}
	body := obj{
		"id": id, "object": "response", "created_at": created, "status": "in_progress", "model": name,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": obj{}, "output": []any{},
		"parallel_tool_calls": true, "temperature": nil, "top_p": nil, "tool_choice": "auto", "tools": []any{},
		"usage": nil,
	}
	set(body, "parallel_tool_calls", asked.Parallel)
	set(body, "temperature", asked.Sampling.Temperature)
	set(body, "top_p", asked.Sampling.TopP)
	return body
}

// endBody says how an answer ended and returns the name of the event for it.
func endBody(body obj, s model.Stop, inWords bool) string {
	reason := ""
	switch {
	case s == model.StopLength:
		reason = "max_output_tokens"
	case s == model.StopRefusal && !inWords:
		reason = "content_filter"
	}
	if reason == "" {
		body["status"] = "completed"
		return "response.completed"
	}
	body["status"] = "incomplete"
	body["incomplete_details"] = obj{"reason": reason}
	return "response.incomplete"
}

// ParseError reads an answer with a status other than 200.
func (Responses) ParseError(status int, header http.Header, body []byte) *model.Error {
	return parseError(status, header, body)
}

// FormatError writes e.
func (Responses) FormatError(e *model.Error) (int, http.Header, []byte) {
	return formatError(model.Responses, e)
}
