package gateway

import (
	"net/http"
	"testing"

	"assay/internal/model"
)

// A model's name may hold colons; the verb is what follows the last one.
func TestColonsInNames(t *testing.T) {
	r := routeOf(http.MethodPost, "/v1beta/models/qwen3:8b:streamGenerateContent", http.Header{})
	if r.unknown || r.dialect != model.Gemini || r.model != "qwen3:8b" || !r.stream {
		t.Errorf("%+v", r)
	}
	if r := routeOf(http.MethodPost, "/v1beta/models/qwen3", http.Header{}); !r.unknown {
		t.Errorf("%+v", r)
	}
}
