package model

import (
	"bytes"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Said is what a provider's error says, as far as its dialect let it be read.
type Said struct {
	Type    string // the dialect's most general word: "invalid_request_error", "RESOURCE_EXHAUSTED"
	Code    string // its most special one: "context_length_exceeded"
	Message string
}

// Classify makes an Error of a provider's answer. The special words of a
// provider come before the status, the status before its general words.
func Classify(status int, header http.Header, said Said) *Error {
	e := &Error{Kind: kindOfError(status, said), Status: status, Type: said.Code, Message: said.Message}
	if e.Type == "" {
		e.Type = said.Type
	}
	e.RetryAfter = RetryAfter(header, time.Now())
	return e
}

// Unreadable makes an Error of an answer that is not in the dialect.
func Unreadable(status int, header http.Header, body []byte) *Error {
	e := Classify(status, header, Said{Message: gist(body)})
	switch e.Kind {
	case ErrBadRequest, ErrUnknownModel, ErrContext, ErrRefused:
		// Such a judgement needs a server that speaks the dialect; a proxy's or a
		// portal's page is none.
		if status != http.StatusNotFound {
			e.Kind = ErrMalformed
		}
	}
	return e
}

// refusals are the codes of our own stops, in every dialect the same, so that
// a client of ours knows them again.
func refusals() map[string]ErrorKind {
	return map[string]ErrorKind{
		"assay_budget": ErrBudget, "assay_deadline": ErrDeadline, "assay_loop": ErrLoop,
		"assay_forbidden": ErrForbidden, "assay_too_many": ErrBusy,
	}
}

// Code is the special word for an error: "assay_budget" for one of our own,
// and the usual ones for what dialects without codes cannot tell apart; else
// empty.
func (e *Error) Code() string {
	switch e.Kind {
	case ErrContext:
		return "context_length_exceeded"
	case ErrRefused:
		return "content_filter"
	}
	for code, kind := range refusals() {
		if kind == e.Kind {
			return code
		}
	}
	return ""
}

// Words is the message, in words by which agents of dialects without codes
// know a prompt that is too long: they shorten it then.
func (e *Error) Words() string {
	if e.Kind == ErrContext && !contextWords.MatchString(e.Message) {
		return "prompt is too long: " + e.Message
	}
	return e.Message
}

var contextWords = regexp.MustCompile(`(?i)context[_ ](length|window|size|limit)|maximum context|max_model_len|` +
	`(prompt|input|request|messages?) (is|are|was) too (long|large)|prompt too long|too many (input )?tokens|` +
	`input token count.*exceeds|exceeds? .{0,40}(token limit|number of tokens|available context)|` +
	`reduce the length|longer than the model`)

var quotaWords = regexp.MustCompile(`(?i)insufficient[_ ](quota|balance|funds|credit)|credit balance|billing|` +
	`out of credits|exceeded your current quota|spend(ing)? limit|payment required|PerDay`)

var (
	modelWords  = regexp.MustCompile(`(?i)model[_ ]not[_ ]found|no such model|unknown model|unsupported model|model .{0,200}(not found|does not exist|is not available|not supported)`)
	keyWords    = regexp.MustCompile(`(?i)api[_ ]key[_ ](not[_ ]valid|invalid)|invalid[_ ](x-)?api[_ -]?key|incorrect api key|token (has )?expired`)
	filterWords = regexp.MustCompile(`(?i)content[_ ](filter|policy)|responsible ?ai|safety system|flagged|blocked by`)
)

func kindOfError(status int, s Said) ErrorKind {
	if k, ok := refusals()[s.Code]; ok {
		return k
	}
	all := s.Code + " " + s.Type + " " + s.Message
	general := strings.ToLower(s.Type + " " + s.Code)
	is := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(general, w) {
				return true
			}
		}
		return false
	}
	bad := status == 0 || status == 400 || status == 403 || status == 404 || status == 413 || status == 422
	switch {
	case (bad || status == 500) && contextWords.MatchString(all):
		return ErrContext
	case status == 402, (bad || status == 429) && quotaWords.MatchString(all), is("insufficient_quota"):
		return ErrQuota
	case bad && status != 413 && modelWords.MatchString(all):
		return ErrUnknownModel
	case bad && keyWords.MatchString(all):
		return ErrAuth
	case bad && filterWords.MatchString(all):
		return ErrRefused
	}
	switch {
	case status == 401 || status == 403 || status == 407:
		return ErrAuth
	case status == 404:
		return ErrUnknownModel
	case status == 413:
		return ErrContext
	case status == 408 || status == 409 || status == 425:
		return ErrServer
	case status == 429:
		return ErrRate
	case status == 503 || status == 529:
		return ErrOverload
	case status >= 500:
		return ErrServer
	case status >= 400:
		return ErrBadRequest
	}
	// Within a stream, or with a status that is none of an error.
	switch {
	case is("rate_limit", "resource_exhausted", "too_many_requests"):
		return ErrRate
	case is("overloaded", "unavailable"):
		return ErrOverload
	case is("authentication", "permission", "unauthenticated"):
		return ErrAuth
	case is("not_found"):
		return ErrUnknownModel
	case is("invalid", "bad_request"):
		return ErrBadRequest
	case status == 0:
		return ErrServer
	}
	return ErrMalformed
}

// RetryAfter reads when a server wants to be asked again; 0: it does not say.
// Of several answers the most exact one counts: retry-after-ms, retry-after
// (seconds or a date), then the resets of the limits that are used up.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return seconds(ms / 1000)
	}
	if v := h.Get("Retry-After"); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil {
			return seconds(s)
		}
		if t, err := http.ParseTime(v); err == nil {
			return max(0, t.Sub(now))
		}
	}
	var wait time.Duration
	for _, prefix := range []string{"X-Ratelimit-", "Anthropic-Ratelimit-"} {
		for _, what := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
			left, reset := h.Get(prefix+"Remaining-"+what), h.Get(prefix+"Reset-"+what)
			if prefix == "Anthropic-Ratelimit-" {
				left, reset = h.Get(prefix+what+"-Remaining"), h.Get(prefix+what+"-Reset")
			}
			if left == "0" {
				wait = max(wait, resetIn(reset, now))
			}
		}
	}
	return wait
}

// resetIn reads "1m2.5s", "20ms", seconds, or a time of RFC 3339.
func resetIn(v string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(v); err == nil {
		return max(0, d)
	}
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return seconds(s)
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// seconds bounds what a server says: a day is as good as for ever.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, 86400) * float64(time.Second))
}

var titles = regexp.MustCompile(`(?is)<title[^>]*>(.{0,200}?)</title>`)

// gist is a line that says what a body is that nobody can read.
func gist(body []byte) string {
	text := bytes.TrimSpace(body[:min(len(body), 64<<10)])
	low := bytes.ToLower(text[:min(len(text), 512)])
	switch {
	case len(text) == 0:
		return "an empty answer"
	case bytes.HasPrefix(low, []byte("<")):
		if m := titles.FindSubmatch(text); m != nil {
			return fmt.Sprintf("a page titled %q instead of an answer", html.UnescapeString(strings.TrimSpace(string(m[1]))))
		}
		return "a page instead of an answer"
	}
	return fmt.Sprintf("not an answer of a model server: %.200q", text)
}
