package sdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"assay/internal/model"
)

// sse is one event of a stream; kind is its type, or what a chunk of the
// dialects without types brings.
type sse struct {
	name, data, kind string
	body             map[string]any
}

// events reads a stream strictly: event and data lines, a blank line between.
func events(t *testing.T, d model.Dialect, stream string) []sse {
	t.Helper()
	var all []sse
	for block := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		var e sse
		for l := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(l, "event: "); ok && e.name == "" && e.data == "" {
				e.name = v
			} else if v, ok := strings.CutPrefix(l, "data: "); ok && e.data == "" {
				e.data = v
			} else if !strings.HasPrefix(l, ":") {
				t.Fatalf("%s: line %q in %q", d, l, block)
			}
		}
		if e.data == "" {
			continue // a comment, which keeps a connection open
		}
		e.kind = kind(t, d, &e)
		all = append(all, e)
	}
	return all
}

func kind(t *testing.T, d model.Dialect, e *sse) string {
	if e.data == "[DONE]" {
		return "[DONE]"
	}
	if err := json.Unmarshal([]byte(e.data), &e.body); err != nil {
		t.Fatalf("%s: %q: %v", d, e.data, err)
	}
	if d == model.Responses || d == model.Messages {
		k, _ := e.body["type"].(string)
		return k
	}
	if d == model.Gemini {
		return geminiKind(e.body)
	}
	choices, _ := e.body["choices"].([]any)
	if len(choices) == 0 {
		return "usage"
	}
	c := choices[0].(map[string]any)
	delta, _ := c["delta"].(map[string]any)
	switch {
	case c["finish_reason"] != nil:
		return "finish"
	case delta["tool_calls"] != nil:
		if f := delta["tool_calls"].([]any)[0].(map[string]any); f["id"] != nil {
			return "call"
		}
		return "arguments"
	case delta["role"] != nil:
		return "role"
	default:
		return "text"
	}
}

// geminiKind is what one object of a stream brings.
func geminiKind(body map[string]any) string {
	candidates, _ := body["candidates"].([]any)
	if len(candidates) != 1 {
		return "no candidate"
	}
	c := candidates[0].(map[string]any)
	if c["finishReason"] != nil && body["usageMetadata"] != nil {
		return "finish"
	}
	content, _ := c["content"].(map[string]any)
	parts, _ := content["parts"].([]any)
	for _, p := range parts {
		p := p.(map[string]any)
		if f, ok := p["functionCall"].(map[string]any); ok {
			if args, ok := f["args"].(map[string]any); ok && args["command"] != nil {
				return "call"
			}
			return "half a call"
		}
		if p["thought"] == true {
			return "thought"
		}
	}
	return "text"
}

// streamed asks for the first turn of the work.
func streamed(t *testing.T, to target, d model.Dialect) string {
	t.Helper()
	tool := `"name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`
	path, body := "/v1/chat/completions", `{"model":"work","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"do it"}],"tools":[{"type":"function","function":{`+tool+`}}]}`
	switch d {
	case model.Responses:
		path, body = "/v1/responses", `{"model":"work","stream":true,"input":"do it","tools":[{"type":"function",`+tool+`}]}`
	case model.Messages:
		path, body = "/v1/messages", `{"model":"work","max_tokens":99,"stream":true,"messages":[{"role":"user","content":"do it"}],"tools":[{`+strings.Replace(tool, "parameters", "input_schema", 1)+`}]}`
	}
	if d == model.Gemini {
		path, body = "/v1beta/models/work:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"do it"}]}],"tools":[{"functionDeclarations":[{`+tool+`}]}]}`
	}
	req, err := http.NewRequest(http.MethodPost, to.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+to.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s: %d %s %v", d, resp.StatusCode, b, err)
	}
	return string(b)
}

// What clients need of a stream, in their order, holds for the scripted
// server and for what the gateway's codecs write.
func TestChecklist(t *testing.T) {
	for _, to := range []target{direct(t), through(t, "gateway"), through(t, "translated", model.Chat)} {
		for _, d := range model.Dialects() {
			to.s.Forget()
			all := events(t, d, streamed(t, to, d))
			if r := to.s.Requests(); len(r) != 1 || to.translated && r[0].Dialect != model.Chat {
				t.Errorf("%s, %s: the server was asked for %+v", to.name, d, r)
			}
			for _, wrong := range checklist(d, all) {
				t.Errorf("%s, %s: %s", to.name, d, wrong)
			}
			// The check itself notices each event that is left out.
			for i, e := range all {
				if optional(e.kind) || i > 0 && all[i-1].kind == e.kind || i+1 < len(all) && all[i+1].kind == e.kind {
					continue
				}
				if len(checklist(d, slices.Delete(slices.Clone(all), i, i+1))) == 0 {
					t.Errorf("%s, %s: nobody misses event %d, %s", to.name, d, i, e.kind)
				}
			}
		}
	}
}

func optional(kind string) bool {
	return kind == "ping" || kind == "text" || strings.HasSuffix(kind, ".delta") || strings.HasSuffix(kind, "_delta") && kind != "message_delta"
}

// shape is the order of kinds, repeats of one joined.
func shape(all []sse) string {
	var kinds []string
	for _, e := range all {
		if e.kind != "ping" && (len(kinds) == 0 || kinds[len(kinds)-1] != e.kind) {
			kinds = append(kinds, e.kind)
		}
	}
	return strings.Join(kinds, " ")
}

func checklist(d model.Dialect, all []sse) (wrong []string) {
	want := map[model.Dialect]string{
		model.Chat: "role text call arguments call arguments finish usage [DONE]",
		model.Responses: "response.created response.in_progress" +
			" response.output_item.added response.reasoning_summary_part.added response.reasoning_summary_text.delta response.reasoning_summary_text.done response.reasoning_summary_part.done response.output_item.done" +
			" response.output_item.added response.content_part.added response.output_text.delta response.output_text.done response.content_part.done response.output_item.done" +
			strings.Repeat(" response.output_item.added response.function_call_arguments.delta response.function_call_arguments.done response.output_item.done", 2) +
			" response.completed",
		model.Gemini:   "thought text call finish",
		model.Messages: "message_start" + strings.Repeat(" content_block_start content_block_delta content_block_stop", 4) + " message_delta message_stop",
	}[d]
	if got := shape(all); got != want {
		wrong = append(wrong, fmt.Sprintf("the order is\n%s, want\n%s", got, want))
	}
	last := all[len(all)-1].body
	switch d {
	case model.Responses:
		for i, e := range all {
			if e.name != e.kind || e.body["sequence_number"] != float64(i) {
				wrong = append(wrong, fmt.Sprintf("event %d: line %q, number %v", i, e.name, e.body["sequence_number"]))
			}
		}
		r, _ := last["response"].(map[string]any)
		output, _ := r["output"].([]any)
		if len(output) != 4 || r["usage"] == nil {
			wrong = append(wrong, fmt.Sprintf("completed: %v", r))
		}
	case model.Messages:
		for i, e := range all {
			if e.name != e.kind {
				wrong = append(wrong, fmt.Sprintf("event %d: line %q", i, e.name))
			}
			m, _ := e.body["message"].(map[string]any)
			u, _ := cmpMap(m["usage"], e.body["usage"])["output_tokens"].(float64)
			if (e.kind == "message_start" || e.kind == "message_delta") && u < 0 || e.kind == "message_delta" && u == 0 {
				wrong = append(wrong, e.kind+" without usage")
			}
		}
	case model.Chat, model.Gemini:
		for _, e := range all {
			if e.name != "" {
				wrong = append(wrong, "an event: line")
			}
		}
	}
	return wrong
}

func cmpMap(a, b any) map[string]any {
	if m, ok := a.(map[string]any); ok {
		return m
	}
	m, _ := b.(map[string]any)
	return m
}

// leftOut says what becomes of a stream without one of its events.
type leftOut struct{ api, event, python, node string }

// What the official clients do without an event: "" is nothing. It is what
// the checklist stands on; a client that has become stricter shows here.
func measured() []leftOut {
	return []leftOut{
		{"chat", "role", "fails", "fails"},
		{"chat", "finish", "differs", "fails"},
		{"chat", "usage", "differs", "differs"},
		{"chat", "[DONE]", "", ""},
		{"responses", "response.created", "fails", "fails"},
		{"responses", "response.in_progress", "", ""},
		{"responses", "response.output_item.added", "fails", "fails"},
		{"responses", "response.content_part.added", "fails", "fails"},
		{"responses", "response.output_text.done", "", ""},
		{"responses", "response.content_part.done", "", ""},
		{"responses", "response.function_call_arguments.delta", "", ""},
		{"responses", "response.function_call_arguments.done", "", ""},
		{"responses", "response.output_item.done", "", ""},
		{"responses", "response.completed", "fails", "differs"},
		{"responses", "event:", "", ""},
		{"messages", "message_start", "fails", "fails"},
		{"messages", "content_block_start", "fails", "fails"},
		{"messages", "content_block_stop", "", ""},
		{"messages", "message_delta", "differs", "differs"},
		{"messages", "message_stop", "", "fails"},
		{"messages", "ping", "", ""},
		{"messages", "event:", "fails", "fails"},
		{"messages", "usage", "fails", "fails"},
	}
}

// without relays to base what comes below /NAME, and leaves out of streams the
// events of that name, the event: lines, or usage.
func without(t *testing.T, base string) string {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		req, err := http.NewRequestWithContext(r.Context(), r.Method, base+"/"+rest, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header.Clone()
		req.Header.Del("Accept-Encoding")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			b = leave(t, name, rest, b)
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(h.Close)
	return h.URL
}

func leave(t *testing.T, name, path string, stream []byte) []byte {
	d := model.Chat
	switch {
	case strings.Contains(path, "responses"):
		d = model.Responses
	case strings.Contains(path, "messages"):
		d = model.Messages
	}
	var b bytes.Buffer
	for _, e := range events(t, d, string(stream)) {
		if e.kind == name {
			continue
		}
		if name == "usage" && d == model.Messages {
			m, _ := e.body["message"].(map[string]any)
			delete(m, "usage")
			delete(e.body, "usage")
			data, _ := json.Marshal(e.body)
			e.data = string(data)
		}
		if e.name != "" && name != "event:" {
			fmt.Fprintf(&b, "event: %s\n", e.name)
		}
		fmt.Fprintf(&b, "data: %s\n\n", e.data)
	}
	return b.Bytes()
}

func TestEventsLeftOut(t *testing.T) {
	all := clients(t)
	for _, to := range []target{direct(t), through(t, "translated", model.Chat)} {
		base := without(t, to.base)
		var jobs []job
		for _, l := range measured() {
			jobs = append(jobs, job{Name: l.api + " " + l.event, API: l.api, Base: base + "/" + l.event, Key: to.key, Model: "work", Stream: true, Tools: true})
		}
		for _, c := range all {
			t.Run(to.name+"/"+c.name, func(t *testing.T) {
				got := c.do(t, jobs)
				for i, l := range measured() {
					r, effect := got[jobs[i].Name], ""
					switch {
					case r.Error != "":
						effect = "fails"
					case fmt.Sprint(r.Turns) != fmt.Sprint(work(l.api, to)):
						effect = "differs"
					}
					want := l.python
					if c.name == "node" {
						want = l.node
					}
					if effect != want {
						t.Errorf("%s without %s: %q, want %q: %s %s", l.api, l.event, effect, want, r.Error, r.Says)
					}
				}
			})
		}
	}
}
