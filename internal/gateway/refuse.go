package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"assay/internal/model"
)

func forbidden() *model.Error {
	return &model.Error{Kind: model.ErrForbidden, Message: "this key does not belong to this path, or neither is known"}
}

// refuse answers with an error in the dialect's own shape.
func refuse(w http.ResponseWriter, codec model.Codec, d model.Dialect, e *model.Error) (status int) {
	var header http.Header
	var body []byte
	if codec != nil {
		status, header, body = codec.FormatError(e)
	} else {
		status, header, body = plainError(d, e)
	}
	for name, v := range header {
		w.Header()[name] = v
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever asked may be gone
	return status
}

// plainError is for dialects whose codec is not at hand.
func plainError(d model.Dialect, e *model.Error) (int, http.Header, []byte) {
	inner := map[string]any{"message": e.Message, "type": string(e.Kind)}
	v := map[string]any{"error": inner}
	if d == model.Messages {
		v["type"] = "error"
	}
	body, _ := json.Marshal(v) // strings always can
	return e.HTTPStatus(d), e.ErrorHeader(), body
}

// plainKind is what a provider's status means by itself.
func plainKind(status int) *model.Error {
	e := model.Classify(status, nil, model.Said{})
	e.Message = "HTTP " + strconv.Itoa(status)
	return e
}
