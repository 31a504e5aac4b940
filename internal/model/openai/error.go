package openai

import (
	"net/http"

	"assay/internal/model"
)

// parseError reads {"error": {"message", "type", "param", "code"}}, which both
// formats share; {"error": "text"}, {"detail": …} and {"message": …} of
// servers that only imitate them too.
func parseError(status int, header http.Header, body []byte) *model.Error {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Unreadable(status, header, body)
	}
	said, ok := saidIn(o)
	if !ok {
		return model.Unreadable(status, header, body)
	}
	return model.Classify(status, header, said)
}

// saidIn reads an error out of an answer or an event.
func saidIn(o *model.Object) (model.Said, bool) {
	if text := o.Peek("error"); text != "" {
		return model.Said{Message: text}, true
	}
	if o.Has("error") {
		if e, err := model.ParseObject("error", o.Raw("error")); err == nil {
			return said(e), true
		}
	}
	for _, key := range []string{"message", "detail"} {
		if text := o.Peek(key); text != "" {
			return said(o), true
		}
	}
	if o.Has("detail") { // FastAPI's list of what is wrong
		return model.Said{Type: "invalid_request_error", Message: string(o.Raw("detail"))}, true
	}
	return model.Said{}, false
}

func said(e *model.Object) model.Said {
	s := model.Said{Type: e.Peek("type"), Code: e.Peek("code"), Message: e.Peek("message")}
	if s.Message == "" {
		s.Message = e.Peek("detail")
	}
	return s
}

func formatError(d model.Dialect, e *model.Error) (int, http.Header, []byte) {
	status := e.HTTPStatus(d)
	return status, e.ErrorHeader(), model.JSON(obj{"error": errorBody(e)})
}

// errorBody is the error itself, as it also stands within a stream.
func errorBody(e *model.Error) obj {
	kind, code := "server_error", any(nil)
	switch e.Kind {
	case model.ErrAuth, model.ErrForbidden:
		kind, code = "invalid_request_error", "invalid_api_key"
	case model.ErrUnknownModel:
		kind, code = "invalid_request_error", "model_not_found"
	case model.ErrContext:
		kind, code = "invalid_request_error", "context_length_exceeded"
	case model.ErrRefused:
		kind, code = "invalid_request_error", "content_filter"
	case model.ErrBadRequest, model.ErrBudget, model.ErrDeadline, model.ErrLoop:
		kind = "invalid_request_error"
	case model.ErrRate, model.ErrBusy:
		kind, code = "requests", "rate_limit_exceeded"
	case model.ErrQuota:
		kind, code = "insufficient_quota", "insufficient_quota"
	case model.ErrOverload:
		kind, code = "server_error", "server_is_overloaded"
	}
	if own := e.Code(); own != "" {
		code = own
	}
	return obj{"message": e.Message, "type": kind, "param": nil, "code": code}
}
