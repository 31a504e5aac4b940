package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"assay/internal/model"
)

// probe answers requests that ask for no work: whether somebody is there, and
// which models there are. The provider does not hear of them.
func (a *asked) probe() {
	body := []byte(`{"status":"ok"}`)
	if a.route.side == SideModels {
		body = a.models()
	}
	a.say(body)
}

// say answers with a body of the gateway's own.
func (a *asked) say(body []byte) {
	h := a.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	a.call.Status = http.StatusOK
	a.first()
	a.w.WriteHeader(http.StatusOK)
	if a.r.Method != http.MethodHead {
		a.call.Answered = int64(len(body))
		_, _ = a.w.Write(body) // whoever asked may be gone
	}
	a.over()
}

// estimate answers a count of tokens where the provider has no such call: one
// for four bytes, which is what agents themselves assume.
func (a *asked) estimate() {
	n := (len(a.body) + 3) / 4
	key := "input_tokens"
	if a.route.dialect == model.Gemini {
		key = "totalTokens"
	}
	a.say([]byte(`{"` + key + `":` + strconv.Itoa(n) + `}`))
}

// models lists the one that the session leads to, in the caller's dialect, or
// tells of the one that the path names.
func (a *asked) models() []byte {
	name := a.s.model()
	_, one := strings.CutPrefix(a.route.path, "/models/")
	var v any
	switch a.route.dialect {
	case model.Messages:
		m := map[string]any{"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
		if v = m; !one {
			v = map[string]any{"data": []any{m}, "has_more": false, "first_id": name, "last_id": name}
		}
	case model.Gemini:
		m := map[string]any{"name": "models/" + name, "displayName": name, "supportedGenerationMethods": []string{"generateContent", "countTokens"}}
		if v = m; !one {
			v = map[string]any{"models": []any{m}}
		}
	default:
		m := map[string]any{"id": name, "object": "model", "created": 0, "owned_by": "assay"}
		if v = m; !one {
			v = map[string]any{"object": "list", "data": []any{m}}
		}
	}
	b, _ := json.Marshal(v) // strings always can
	return b
}

// model is the name that the agent knows its model by.
func (s *Session) model() string {
	for _, name := range []string{s.conf.Model, s.up.Model, s.up.Name} {
		if name != "" {
			return name
		}
	}
	return "model"
}
