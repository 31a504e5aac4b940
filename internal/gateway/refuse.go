package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"assay/internal/model"
)

// stopStatus is the status that ends an agent's retries soonest, by dialect,
// as it was seen with eleven agents: those that speak chat give up at once
// after 401, and some retry a 400; codex and claude-code give up after 400 and
// retry a 401 for long. None stops all of them, which is why the job ends the
// agent's processes as well.
func stopStatus(d model.Dialect) int {
	if d == model.Chat {
		return http.StatusUnauthorized
	}
	return http.StatusBadRequest
}

func forbidden() *model.Error {
	return &model.Error{Kind: model.ErrForbidden, Status: http.StatusUnauthorized, Message: "this key does not belong to this path, or neither is known"}
}

// refuse answers with an error in the dialect's own shape.
func refuse(w http.ResponseWriter, codec model.Codec, d model.Dialect, e *model.Error) {
	status, header, body := plainError(d, e)
	if codec != nil {
		s, h, b := codec.FormatError(e)
		if status = e.Status; status == 0 {
			status = s
		}
		header, body = h, b
	}
	for name, v := range header {
		w.Header()[name] = v
	}
	if e.RetryAfter > 0 && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter.Seconds() + 0.999))))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever asked may be gone
}

// plainError is for dialects whose codec is not at hand.
func plainError(d model.Dialect, e *model.Error) (int, http.Header, []byte) {
	var v any
	switch d {
	case model.Messages:
		v = map[string]any{"type": "error", "error": map[string]any{"type": string(e.Kind), "message": e.Message}}
	case model.Gemini:
		v = map[string]any{"error": map[string]any{"code": e.Status, "message": e.Message, "status": string(e.Kind)}}
	default:
		v = map[string]any{"error": map[string]any{"message": e.Message, "type": string(e.Kind), "param": nil, "code": string(e.Kind)}}
	}
	body, _ := json.Marshal(v) // strings always can
	status := e.Status
	if status == 0 {
		status = http.StatusBadGateway
	}
	return status, http.Header{"Content-Type": {"application/json"}}, body
}
