package model_test

import (
	"testing"

	"assay/internal/model"
)

func TestURL(t *testing.T) {
	for _, c := range [][3]string{
		{"https://api.example.com", "/v1/chat/completions", "https://api.example.com/v1/chat/completions"},
		{"https://api.example.com/v1/", "/v1/chat/completions", "https://api.example.com/v1/chat/completions"},
		{"http://127.0.0.1:4180/s/abc", "/v1/messages", "http://127.0.0.1:4180/s/abc/v1/messages"},
		{"https://x.example/api/paas/v4", "/v1/chat/completions", "https://x.example/api/paas/v4/chat/completions"},
		{"https://x.example/v1beta/openai/", "/v1/chat/completions", "https://x.example/v1beta/openai/chat/completions"},
		{"https://v1.example", "/v1beta/models/m:generateContent", "https://v1.example/v1beta/models/m:generateContent"},
	} {
		if got := model.URL(c[0], c[1]); got != c[2] {
			t.Errorf("%s + %s = %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestDialectOf(t *testing.T) {
	for path, want := range map[string]model.Dialect{
		"/v1/chat/completions": model.Chat, "/responses": model.Responses, "/v1/messages?beta=true": model.Messages,
		"/v1beta/models/m:streamGenerateContent": model.Gemini, "/v1/messages/count_tokens": "", "/v1/models": "",
	} {
		if got, ok := model.DialectOf(path); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v", path, got, ok)
		}
	}
}
