package scripted

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"assay/internal/model"
)

// No request makes the server panic or hang, in any dialect.
func FuzzRequest(f *testing.F) {
	for _, d := range model.Dialects() {
		path, body := question(d, d != model.Gemini)
		f.Add(path, body)
	}
	f.Add("/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_s0t0k0n0","content":[{"text":"x"}]}]}]}`)
	f.Add("/v1/responses", `{"model":"m","input":[{"type":"custom_tool_call","call_id":"call_s0t9k0n0","name":"x","input":"y"},{"type":"custom_tool_call_output","call_id":"call_s0t9k0n0","output":[]}],"tools":[{"type":"custom","name":"shell"}]}`)
	file, err := Parse("f", []byte("lenient: true\nturns: [{text: a, calls: [{bash: x}, {write: {path: a, content: b}}], again: [{text: c}]}, {reasoning: r, calls: [{submit: s}]}]\n"))
	if err != nil {
		f.Fatal(err)
	}
	s := serve(file)
	f.Fuzz(func(t *testing.T, path, body string) {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, " \n\r%#") {
			return
		}
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		p, query, _ := strings.Cut(path, "?")
		r.URL.Path, r.URL.RawQuery = p, query
		w := httptest.NewRecorder()
		begun := time.Now()
		s.ServeHTTP(w, r)
		if w.Code < 200 || time.Since(begun) > 10*time.Second {
			t.Fatalf("%d after %s", w.Code, time.Since(begun))
		}
		s.Forget()
	})
}
