package model

import (
	"fmt"
	"time"
)

// ErrorKind says what an error of a provider means to whoever asked.
type ErrorKind string

const (
	ErrAuth         ErrorKind = "authentication" // the key is wrong, or may not use the model
	ErrUnknownModel ErrorKind = "unknown_model"  // no such model, or no such path
	ErrBadRequest   ErrorKind = "bad_request"    // a retry of the same body cannot help
	ErrContext      ErrorKind = "context_window" // the prompt is too long
	ErrRate         ErrorKind = "rate_limit"     // too many requests or tokens a minute
	ErrQuota        ErrorKind = "quota"          // no money left; waiting does not help
	ErrOverload     ErrorKind = "overload"       // 503, 529: the provider has no room
	ErrServer       ErrorKind = "server"         // any other 5xx
	ErrRefused      ErrorKind = "refusal"        // a filter declined the prompt
	ErrMalformed    ErrorKind = "malformed"      // not the dialect: HTML, half a JSON, too large
	ErrCutStream    ErrorKind = "truncated"      // the stream ended before it was complete
	ErrStalled      ErrorKind = "stalled"        // nothing came for too long
	ErrUnreachable  ErrorKind = "unreachable"    // no connection
	ErrAborted      ErrorKind = "aborted"        // whoever asked went away
	ErrBudget       ErrorKind = "budget"         // our own: tokens or money are used up
	ErrDeadline     ErrorKind = "deadline"       // our own: time is up
	ErrLoop         ErrorKind = "loop"           // our own: nothing new comes of it
	ErrForbidden    ErrorKind = "forbidden"      // our own: not this trial's key, path or model
	ErrBusy         ErrorKind = "too_many"       // our own: too many requests at once
)

// Error is an answer that is not one. It is in the provider's words where it
// is the provider's.
type Error struct {
	Kind       ErrorKind     `json:"kind"`
	Status     int           `json:"status,omitempty"` // of HTTP; 0: none came
	Type       string        `json:"type,omitempty"`   // the dialect's own type or code
	Message    string        `json:"message,omitempty"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"` // as the server asked; 0: it did not
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("%s: %s", e.Kind, e.Message)
	}
	return fmt.Sprintf("%s (HTTP %d): %s", e.Kind, e.Status, e.Message)
}

// Passing reports whether the same request may succeed later.
func (e *Error) Passing() bool {
	switch e.Kind {
	case ErrRate, ErrOverload, ErrServer, ErrCutStream, ErrStalled, ErrUnreachable, ErrMalformed:
		return true
	}
	return false
}
