package model

import (
	"net/http"
	"strconv"
	"time"
)

// HTTPStatus is the status with which a server of dialect d says e. A
// provider's own status passes, but for overload, which messages calls 529.
//
// No status stops every agent. A refusal of ours takes the one after which the
// clients of that dialect were seen to send the fewest requests: most chat
// clients give up on 401 and go on after a 400; codex asks once after a 400
// and six times after a 401; claude-code waits minutes on a 401.
func (e *Error) HTTPStatus(d Dialect) int {
	switch e.Kind {
	case ErrBudget, ErrDeadline, ErrLoop:
		if d == Responses || d == Messages {
			return http.StatusBadRequest
		}
		return http.StatusUnauthorized
	case ErrForbidden:
		return http.StatusUnauthorized
	case ErrBusy, ErrRate:
		return http.StatusTooManyRequests
	case ErrQuota:
		if e.Status == 0 {
			return http.StatusTooManyRequests
		}
	case ErrOverload:
		if d == Messages {
			return 529
		}
		if e.Status < 500 || e.Status > 599 {
			return http.StatusServiceUnavailable
		}
	case ErrMalformed, ErrCutStream, ErrUnreachable, ErrAborted:
		return http.StatusBadGateway
	case ErrStalled:
		return http.StatusGatewayTimeout
	}
	if e.Status >= 400 && e.Status <= 599 {
		return e.Status
	}
	switch e.Kind {
	case ErrAuth:
		return http.StatusUnauthorized
	case ErrUnknownModel:
		return http.StatusNotFound
	case ErrBadRequest, ErrContext, ErrRefused:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// ErrorHeader is the header of an error's answer.
func (e *Error) ErrorHeader() http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if e.RetryAfter > 0 {
		up := (e.RetryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(up), 10))
	}
	return h
}
