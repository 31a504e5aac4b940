package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"assay/internal/model"
)

// ParseResponse reads an answer. Of several choices the first counts.
func (Chat) ParseResponse(body []byte) (model.Response, error) {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Response{}, fmt.Errorf("read chat answer: %w", err)
	}
	if o.Has("error") {
		e := parseError(0, nil, body)
		return model.Response{Dialect: model.Chat, Stop: model.StopError, Err: e}, e
	}
	r := model.Response{
		Dialect: model.Chat, ID: o.Str("id"), Model: o.Str("model"),
		Message: model.Message{Role: model.RoleAssistant},
		Usage:   parseChatUsage(o.Raw("usage")),
	}
	tokens := &model.Tokens{Prompt: ints(o.Raw("prompt_token_ids"))}
	o.Drop("object", "created")
	choices := o.Objs("choices")
	if len(choices) == 0 {
		o.Fail("choices are missing")
	}
	for _, c := range choices {
		if n := c.Int("index"); n != nil && *n != 0 {
			continue
		}
		if m := c.Obj("message"); m != nil {
			r.Message.Parts = parseAssistant(m, &legacyCalls{})
			m.Drop("role")
			r.Message.Extra = m.Rest()
		}
		r.Stop = refused(chatStop(c.Str("finish_reason"), len(r.Calls()) > 0), r.Message.Parts)
		addTokens(tokens, c)
		break
	}
	r.Tokens = someTokens(tokens)
	r.Extra = o.Rest()
	if err := o.Err(); err != nil {
		return r, fmt.Errorf("read chat answer: %w", err)
	}
	return r, nil
}

func chatStop(reason string, calls bool) model.Stop {
	switch reason {
	case "stop", "eos", "":
		if calls {
			return model.StopCalls // several servers say stop after calls
		}
		if reason == "" {
			return model.StopUnknown
		}
		return model.StopEnd
	case "length":
		return model.StopLength
	case "tool_calls", "function_call":
		return model.StopCalls
	case "content_filter":
		return model.StopRefusal
	case "error":
		return model.StopError
	}
	return model.StopEnd // a stop sequence, a number of a token: vendors differ
}

// refused is the stop of an answer whose parts refuse.
func refused(s model.Stop, parts []model.Part) model.Stop {
	for _, p := range parts {
		if p.Kind == model.PartRefusal && s == model.StopEnd {
			return model.StopRefusal
		}
	}
	return s
}

func chatReason(s model.Stop, calls, refusal bool) string {
	switch s {
	case model.StopLength:
		return "length"
	case model.StopRefusal:
		if !refusal { // it is said in words else
			return "content_filter"
		}
	}
	if calls {
		return "tool_calls"
	}
	return "stop"
}

// parseChatUsage never fails: numbers that cannot be read are unknown.
func parseChatUsage(raw json.RawMessage) *model.Usage {
	o, err := model.ParseObject("usage", raw)
	if raw == nil || err != nil {
		return nil
	}
	u := &model.Usage{Input: o.Int("prompt_tokens"), Output: o.Int("completion_tokens"), Cached: o.Int("prompt_cache_hit_tokens")}
	if d := o.Obj("prompt_tokens_details"); d != nil {
		if n := d.Int("cached_tokens"); n != nil {
			u.Cached = n
		}
	}
	if d := o.Obj("completion_tokens_details"); d != nil {
		u.Reasoning = d.Int("reasoning_tokens")
	}
	if u.Input == nil && u.Output == nil {
		return nil
	}
	return u
}

func chatUsage(u *model.Usage) obj {
	out := obj{}
	set(out, "prompt_tokens", u.Input)
	set(out, "completion_tokens", u.Output)
	if u.Input != nil && u.Output != nil {
		out["total_tokens"] = *u.Input + *u.Output
	}
	if u.Cached != nil {
		out["prompt_tokens_details"] = obj{"cached_tokens": *u.Cached}
	}
	if u.Reasoning != nil {
		out["completion_tokens_details"] = obj{"reasoning_tokens": *u.Reasoning}
	}
	return out
}

// addTokens reads what a choice tells of its tokens: vLLM's token_ids, and
// logprobs, whose tokens are ids if return_tokens_as_token_ids was asked for.
func addTokens(t *model.Tokens, choice *model.Object) {
	t.Completion = append(t.Completion, ints(choice.Raw("token_ids"))...)
	var lp struct {
		Content []struct {
			Token   string
			Logprob *float64
		}
	}
	raw := choice.Raw("logprobs")
	if raw == nil || json.Unmarshal(raw, &lp) != nil {
		return
	}
	for _, c := range lp.Content {
		if c.Logprob == nil {
			continue
		}
		t.Logprobs = append(t.Logprobs, *c.Logprob)
		if id, ok := strings.CutPrefix(c.Token, "token_id:"); ok && len(t.Completion) < len(t.Logprobs) {
			if n, err := strconv.ParseInt(id, 10, 64); err == nil {
				t.Completion = append(t.Completion, n)
			}
		}
	}
}

func someTokens(t *model.Tokens) *model.Tokens {
	if t.Prompt == nil && t.Completion == nil && t.Logprobs == nil {
		return nil
	}
	return t
}

func ints(raw json.RawMessage) []int64 {
	var l []int64
	if raw == nil || json.Unmarshal(raw, &l) != nil {
		return nil
	}
	return l
}

// writeTokens puts tokens into an answer or chunk and its choice.
func writeTokens(root, choice obj, t *model.Tokens, logprobs bool) {
	if t == nil {
		return
	}
	if t.Prompt != nil {
		root["prompt_token_ids"] = t.Prompt
	}
	if t.Completion != nil {
		choice["token_ids"] = t.Completion
	}
	if !logprobs || t.Logprobs == nil {
		return
	}
	content := []obj{}
	for i, p := range t.Logprobs {
		token := ""
		if i < len(t.Completion) {
			token = "token_id:" + strconv.FormatInt(t.Completion[i], 10)
		}
		content = append(content, obj{"token": token, "logprob": p, "bytes": nil, "top_logprobs": []obj{}})
	}
	choice["logprobs"] = obj{"content": content, "refusal": nil}
}

// FormatResponse writes an answer.
func (Chat) FormatResponse(asked model.Request, r model.Response) ([]byte, []model.Loss) {
	r = asked.Restored(r)
	w := chatWriter{r: &asked, own: asked.Dialect == model.Chat || asked.Dialect == ""}
	m := w.answer(r)
	calls := len(r.Calls()) > 0
	choice := obj{"index": 0, "message": m, "finish_reason": chatReason(r.Stop, calls, m["refusal"] != nil), "logprobs": nil}
	out := obj{
		"id": r.ID, "object": "chat.completion", "created": time.Now().Unix(), "model": r.Model,
		"choices": []obj{choice},
	}
	if r.Usage != nil {
		out["usage"] = chatUsage(r.Usage)
	}
	writeTokens(out, choice, r.Tokens, asked.Logprobs)
	return model.JSON(out), w.losses.All()
}

// answer writes the message of an answer, whose content is always one string.
func (w *chatWriter) answer(r model.Response) obj {
	m := w.assistant(r.Message.Parts)
	if list, ok := m["content"].([]obj); ok {
		var text strings.Builder
		for _, item := range list {
			s, _ := item["text"].(string)
			text.WriteString(s)
		}
		m["content"] = text.String()
	}
	if _, ok := m["refusal"]; !ok {
		m["refusal"] = nil
	}
	return m
}

// ParseError reads an answer with a status other than 200.
func (Chat) ParseError(status int, header http.Header, body []byte) *model.Error {
	return parseError(status, header, body)
}

// FormatError writes e.
func (Chat) FormatError(e *model.Error) (int, http.Header, []byte) {
	return formatError(model.Chat, e)
}
