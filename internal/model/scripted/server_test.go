package scripted

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"assay/internal/model"
)

// start serves a script over HTTP.
func start(t *testing.T, script string) (*Server, *httptest.Server) {
	t.Helper()
	f, err := Parse("script.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(f)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h
}

const (
	chatTools      = `"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}]`
	responsesTools = `"tools":[{"type":"web_search"},{"type":"namespace","name":"mcp","tools":[]},{"type":"function","name":"exec_command","parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"]}}]`
	messagesTools  = `"tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"}},"required":["command","description"]}}]`
	geminiTools    = `"tools":[{"functionDeclarations":[{"name":"run_shell_command","parametersJsonSchema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}]`
)

// question is a first request of each dialect.
func question(d model.Dialect, stream bool) (path, body string) {
	on := ""
	if stream {
		on = `"stream":true,`
	}
	switch d {
	case model.Chat:
		return "/v1/chat/completions", `{` + on + `"stream_options":{"include_usage":true},"model":"m","messages":[{"role":"user","content":"do it"}],` + chatTools + `}`
	case model.Responses:
		return "/v1/responses", `{` + on + `"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"do it"}]}],` + responsesTools + `}`
	case model.Messages:
		return "/v1/messages?beta=true", `{` + on + `"model":"m","max_tokens":100,"messages":[{"role":"user","content":"do it"}],` + messagesTools + `}`
	default:
		verb := ":generateContent"
		if stream {
			verb = ":streamGenerateContent?alt=sse"
		}
		return "/v1beta/models/m" + verb, `{"contents":[{"role":"user","parts":[{"text":"do it"}]}],` + geminiTools + `}`
	}
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestEveryDialectCallsItsShell(t *testing.T) {
	_, h := start(t, "turns:\n  - {reasoning: think, text: look, calls: [{bash: \"echo '<x>' > f\"}]}\n")
	for _, d := range model.Dialects() {
		for _, stream := range []bool{false, true} {
			path, body := question(d, stream)
			code, got := post(t, h.URL+path, body)
			if code != 200 {
				t.Fatalf("%s: %d %s", d, code, got)
			}
			name := map[model.Dialect]string{model.Chat: "bash", model.Responses: "exec_command", model.Messages: "Bash", model.Gemini: "run_shell_command"}[d]
			for _, want := range []string{`"name":"` + name + `"`, "look", "think"} {
				if !strings.Contains(got, want) {
					t.Errorf("%s, stream %v: no %s in %s", d, stream, want, got)
				}
			}
			if !stream && !json.Valid([]byte(got)) {
				t.Errorf("%s: not JSON: %s", d, got)
			}
		}
	}
}

// The log of a server that runs for long does not grow with what it was sent.
func TestLogLetsGo(t *testing.T) {
	s, h := start(t, "turns: [{text: x}]")
	s.log.keep = 10 * (2000 + headerBytes)
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a", 2000-60) + `"}]}`
	for range 50 {
		post(t, h.URL+"/v1/chat/completions", body)
	}
	kept := 0
	all := s.Requests()
	for _, r := range all {
		if r.Body != nil {
			kept++
		}
	}
	if len(all) != 50 || kept < 9 || kept > 11 || all[49].Body == nil || all[0].Header != nil {
		t.Errorf("%d requests, %d with bodies", len(all), kept)
	}
}
