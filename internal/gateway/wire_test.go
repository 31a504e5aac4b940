package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/model"
	"assay/internal/model/anthropic"
	"assay/internal/model/gemini"
	"assay/internal/model/openai"
	"assay/internal/model/scripted"
)

func codecs() model.Codecs {
	return model.Codecs{model.Chat: openai.Chat{}, model.Responses: openai.Responses{}, model.Messages: anthropic.Messages{}, model.Gemini: gemini.Gemini{}}
}

// script is a scripted model over real TCP.
func script(t *testing.T, text string) *Upstream {
	t.Helper()
	f, err := scripted.Parse("script.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f.Key = realKey
	h, err := scripted.New(f)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &Upstream{Name: "scripted", URL: srv.URL, Dialects: f.Dialects, Credential: func(context.Context, bool) (string, error) { return realKey, nil }}
}

const (
	chatTool      = `"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}]`
	responsesTool = `"tools":[{"type":"function","name":"exec_command","parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"]}}]`
	messagesTool  = `"tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]`
	geminiTool    = `"tools":[{"functionDeclarations":[{"name":"run_shell_command","parametersJsonSchema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}]`
)

// ask is the first request of an agent of a dialect.
func ask(d model.Dialect, stream bool) (path, body string) {
	on := ""
	if stream {
		on = `"stream":true,`
	}
	switch d {
	case model.Responses:
		return "/v1/responses", `{` + on + `"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"do it"}]}],` + responsesTool + `}`
	case model.Messages:
		return "/v1/messages?beta=true", `{` + on + `"model":"m","max_tokens":100,"messages":[{"role":"user","content":"do it"}],` + messagesTool + `}`
	case model.Gemini:
		verb := ":generateContent"
		if stream {
			verb = ":streamGenerateContent?alt=sse"
		}
		return "/v1beta/models/m" + verb, `{"contents":[{"role":"user","parts":[{"text":"do it"}]}],` + geminiTool + `}`
	}
	return "/v1/chat/completions", `{` + on + `"model":"m","messages":[{"role":"user","content":"do it"}],` + chatTool + `}`
}

func dialects(c model.Codecs) []model.Dialect {
	var all []model.Dialect
	for _, d := range model.Dialects() {
		if c[d] != nil {
			all = append(all, d)
		}
	}
	return all
}

// Every dialect of an agent meets every dialect of a provider, streamed and
// not: the call, the text and the usage arrive, by the agent's own codec, and
// are the same in the record.
func TestEveryDialectMeetsEveryProvider(t *testing.T) {
	const turns = `turns: [{text: I look., calls: [{bash: "ls -la"}, {bash: pwd}], usage: {input: 900, output: 40}}]`
	for _, agent := range dialects(codecs()) {
		for _, provider := range dialects(codecs()) {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s, stream %v", agent, provider, stream), func(t *testing.T) {
					s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: script(t, "dialects: ["+string(provider)+"]\n"+turns)})
					path, body := ask(agent, stream)
					status, got := post(t, s.BaseAt(relayed(t, s))+path, s.Key(), body)
					if status != 200 || strings.Contains(got, "data:") != stream {
						t.Fatalf("%d %s", status, got)
					}
					answer, said := parseAnswer(codecs()[agent], []byte(got))
					if said.err != nil {
						t.Fatalf("%v in %s", said.err, got)
					}
					check := func(where string, r *model.Response) {
						calls := r.Calls()
						if r.Message.Text() != "I look." || len(calls) != 2 || !strings.Contains(calls[0].Arguments, "ls -la") || !strings.Contains(calls[1].Arguments, "pwd") || r.Stop != model.StopCalls {
							t.Errorf("%s: %+v %+v", where, r.Message, calls)
						}
					}
					check("the agent", answer)
					records, sum, rec := ended(t, s)
					x, err := rec.Exchange(1, codecs())
					if err != nil || x.Answer == nil || x.Asked == nil {
						t.Fatalf("exchange: %+v %v", x, err)
					}
					check("the record", x.Answer)
					c := records[0]
					if want := provider; (agent != provider) != (c.Upstream == want) || c.Err != nil || c.Usage == nil || *c.Usage.Input != 900 || *c.Usage.Output != 40 || len(c.Unknown)+c.Malformed > 0 {
						b, _ := json.Marshal(c)
						t.Errorf("line: %s", b)
					}
					if sum.Usage.Input == nil || *sum.Usage.Input != 900 || sum.Last != model.StopCalls {
						t.Errorf("%+v", sum)
					}
				})
			}
		}
	}
}

// Faults of the server reach the agent in its own dialect and the record under
// one name, whether they are translated or not.
func TestFaultsHaveOneName(t *testing.T) {
	for _, c := range []struct {
		fault string
		kind  model.ErrorKind
	}{
		{"unauthorized", model.ErrAuth}, {"no-model", model.ErrUnknownModel}, {"rate-limit", model.ErrRate}, {"quota", model.ErrQuota},
		{"server-error", model.ErrServer}, {"overloaded", model.ErrOverload}, {"context", model.ErrContext}, {"html", model.ErrMalformed},
		{"half-json", model.ErrCutStream}, {"cut", model.ErrCutStream}, {"end", model.ErrCutStream}, {"reset", model.ErrUnreachable},
		{"endless, bytes: 3000000", model.ErrMalformed}, {"huge-arguments, bytes: 3000000", model.ErrMalformed}, {"stall", model.ErrStalled},
		{"in-stream", ""},
	} {
		for _, provider := range []model.Dialect{model.Messages, model.Chat} {
			t.Run(fmt.Sprintf("%s from %s", c.fault, provider), func(t *testing.T) {
				g := gateway(t, Config{Codecs: codecs(), Limits: Limits{Stall: 700 * time.Millisecond, Response: 1 << 20}})
				up := script(t, fmt.Sprintf("dialects: [%s]\nfaults: [{kind: %s}]\nturns: [{text: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}]", provider, c.fault))
				s := opened(t, g, SessionConfig{Upstream: up})
				path, body := ask(model.Messages, true)
				status, got := post(t, s.BaseAt(relayed(t, s))+path, s.Key(), body)
				calls, sum, _ := ended(t, s)
				line, _ := json.Marshal(calls)
				if len(calls) != 1 || calls[0].Err == nil || c.kind != "" && calls[0].Err.Kind != c.kind {
					t.Fatalf("line: %s; the agent got %d %.300s", line, status, got)
				}
				if status != 200 && !strings.Contains(got, `"type":"error"`) {
					t.Errorf("not in the agent's words: %d %.300s", status, got)
				}
				if status == 200 && strings.Contains(got, "message_stop") {
					t.Errorf("it looks whole: %.300s", got)
				}
				if sum.LastError == nil {
					t.Errorf("%+v", sum)
				}
			})
		}
	}
}

func TestBudgets(t *testing.T) {
	cheap := func(u *model.Usage) *float64 { usd := float64(*u.Output) / 1000; return &usd }
	for _, c := range []struct {
		name   string
		conf   SessionConfig
		turn   string
		cost   Cost
		passed int
	}{
		{"tokens", SessionConfig{Budget: Budget{Tokens: 250}}, "usage: {input: 90, output: 10}", nil, 3},
		{"unknown usage", SessionConfig{Budget: Budget{Tokens: 180}}, "no_usage: true", nil, 2},
		{"dollars", SessionConfig{Budget: Budget{USD: 0.02}}, "usage: {input: 90, output: 10}", cheap, 2},
		{"the job's", SessionConfig{Purse: &Purse{Budget: Budget{Tokens: 100}}}, "usage: {input: 90, output: 10}", nil, 1},
		{"none", SessionConfig{}, "usage: {input: 90, output: 10}", nil, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := script(t, "turns: [{text: yes, "+c.turn+"}]")
			up.Cost = c.cost
			stops := make(chan Stop, 9)
			c.conf.Upstream, c.conf.OnStop = up, func(s Stop) { stops <- s }
			s := opened(t, gateway(t, Config{Codecs: codecs()}), c.conf)
			url := s.BaseAt(relayed(t, s)) + "/v1/chat/completions"
			_, body := ask(model.Chat, false)
			passed := 0
			for range 5 {
				status, got := post(t, url, s.Key(), body)
				if status == 200 {
					passed++
				} else if status != 401 || !strings.Contains(got, "assay_budget") {
					t.Errorf("refused by %d %s", status, got)
				}
			}
			if passed != c.passed {
				t.Errorf("%d calls passed, want %d", passed, c.passed)
			}
			if _, sum, _ := ended(t, s); passed < 5 && (len(stops) != 1 || sum.Stop == nil || sum.Stop.Kind != model.ErrBudget || sum.Refused != 5-passed) {
				t.Errorf("%d stops, %+v", len(stops), sum)
			}
		})
	}
	if _, err := gateway(t, Config{}).Open(SessionConfig{Dir: t.TempDir(), Upstream: &Upstream{URL: "http://x"}, Budget: Budget{USD: 1}}); err == nil || !strings.Contains(err.Error(), "price") {
		t.Errorf("a limit in dollars without a price: %v", err)
	}
}

// A rate limit is waited out before the first byte, with the agent's clock
// standing still, as far as patience goes.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		patience time.Duration
		status   int
		tries    int
	}{{0, 429, 0}, {100 * time.Millisecond, 429, 0}, {10 * time.Second, 200, 3}} {
		var waits []bool
		up := script(t, "faults: [{kind: rate-limit, retry_after: 150ms, first: 2}]\nturns: [{text: yes}]")
		s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: up, Patience: c.patience, OnWait: func(w bool) { waits = append(waits, w) }, Time: 5 * time.Second})
		path, body := ask(model.Messages, true)
		status, got := post(t, s.BaseAt(relayed(t, s))+path, s.Key(), body)
		calls, sum, _ := ended(t, s)
		if status != c.status || calls[0].Tries != c.tries {
			t.Errorf("patience %v: %d after %d tries: %s", c.patience, status, calls[0].Tries, got)
		}
		if c.tries > 0 && (fmt.Sprint(waits) != "[true false true false]" || sum.Waited < 300 || calls[0].Waited < 300) {
			t.Errorf("waits %v, %+v", waits, sum)
		}
		if c.tries == 0 && (len(waits) > 0 || sum.Waited > 0) {
			t.Errorf("waits %v, %+v", waits, sum)
		}
	}
}

// Time that is waited is not the agent's.
func TestClockStandsStill(t *testing.T) {
	up := script(t, "faults: [{kind: overloaded, retry_after: 1s, first: 1}]\nturns: [{text: yes}]")
	s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: up, Patience: time.Minute, Time: 900 * time.Millisecond})
	path, body := ask(model.Chat, false)
	if status, got := post(t, s.BaseAt(relayed(t, s))+path, s.Key(), body); status != 200 {
		t.Fatalf("%d %s", status, got)
	}
	<-s.ctx.Done() // a clock that never goes on would hang here
	if sum := s.Summary(); sum.Stop == nil || sum.Stop.Kind != model.ErrDeadline {
		t.Errorf("%+v", sum)
	}
}

func TestCredentialIsRefreshed(t *testing.T) {
	up := script(t, "turns: [{text: yes}]")
	var asked []bool
	up.Credential = func(_ context.Context, refresh bool) (string, error) {
		asked = append(asked, refresh)
		if refresh {
			return realKey, nil
		}
		return "a-credential-that-is-old", nil
	}
	s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: up})
	path, body := ask(model.Chat, false)
	if status, got := post(t, s.BaseAt(relayed(t, s))+path, s.Key(), body); status != 200 || fmt.Sprint(asked) != "[false true]" {
		t.Errorf("%d %s, asked %v", status, got, asked)
	}
}

// dialogue is a request after n equal steps, each with what result says.
func dialogue(n int, call func(i int) string, result func(i int) string) []byte {
	msgs := []map[string]any{{"role": "user", "content": "do it"}}
	for i := range n {
		id := fmt.Sprintf("call_%d", i)
		msgs = append(msgs,
			map[string]any{"role": "assistant", "content": fmt.Sprintf("try %d", i), "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "bash", "arguments": call(i)}}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": result(i)})
	}
	b, _ := json.Marshal(map[string]any{"model": "m", "messages": msgs})
	return b
}

func TestLoops(t *testing.T) {
	same := func(string) func(int) string { return func(int) string { return `{"command":"make"}` } }("")
	other := func(i int) string { return fmt.Sprintf(`{"command":"make %d"}`, i) }
	ok := func(int) string { return "done in 0.3 s" }
	for _, c := range []struct {
		name         string
		call, result func(int) string
		at           int // turns until it is refused; 0: never
		why          string
	}{
		{"same action, same result", same, func(i int) string { return fmt.Sprintf("done in %d.%d s", i, i) }, 4, "same action"},
		{"same action, numbered by codex", same, func(i int) string { return fmt.Sprintf("Chunk ID: 3%x\nWall time: 0.0%d seconds\nOutput:\nok", i, i) }, 4, "same action"},
		{"same action, numbered by copilot", same, func(i int) string { return fmt.Sprintf("ok\n<shellId: %d completed with exit code 0>", i) }, 4, "same action"},
		{"same action, spelled differently", func(i int) string { return `{"command":` + strings.Repeat(" ", i) + `"make"}` }, ok, 4, "same action"},
		{"same action, other results", same, func(i int) string { return fmt.Sprintf("%d objects", i) }, 0, ""},
		{"other actions, same success", other, ok, 0, ""},
		{"other actions, same error", other, func(int) string { return "bash: make: command not found" }, 6, "same error"},
		{"a circle of three", func(i int) string { return other(i % 3) }, func(i int) string { return fmt.Sprintf("state %d", i%3) }, 3 + 8, "none of the last"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := provider(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"on"},"finish_reason":"stop"}]}`)
			})
			s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: up, Loop: &LoopRules{Repeat: 4, Errors: 6, Stale: 8}})
			url := s.BaseAt(relayed(t, s)) + "/v1/chat/completions"
			at := 0
			for n := range 20 {
				status, got := post(t, url, s.Key(), string(dialogue(n, c.call, c.result)))
				if status != 200 {
					if at = n - 1; !strings.Contains(got, c.why) {
						t.Errorf("refused by %s", got)
					}
					break
				}
			}
			if at != c.at {
				t.Errorf("stopped after %d steps, want %d", at, c.at)
			}
		})
	}
}

func TestWithholding(t *testing.T) {
	var got []byte
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	up.Model = ""
	for _, c := range []struct {
		name, path, body, want, withheld string
		grant                            []string
	}{
		{"responses", "/v1/responses", `{"input":"x","tools":[{"type":"web_search"},{"type":"function","name":"f"},{"type":"mcp","server_label":"s"}],"tool_choice":{"type":"web_search"}}`,
			`{"input":"x","tools":[{"type":"function","name":"f"}]}`, "[web_search mcp]", nil},
		{"a namespace", "/v1/responses", `{"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"code_interpreter"}]}]}`,
			`{"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]}`, "[code_interpreter]", nil},
		{"granted", "/v1/responses", `{"input":"x","tools":[{"type":"web_search"}]}`, `{"input":"x","tools":[{"type":"web_search"}]}`, "[]", []string{"web_search"}},
		{"messages", "/v1/messages", `{"messages":[],"mcp_servers":[{"url":"http://x"}],"tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash"}]}`,
			`{"messages":[],"tools":[{"type":"bash_20250124","name":"bash"}]}`, "[mcp_servers web_search_20250305]", nil},
		{"a choice of what is gone", "/v1/messages", `{"messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"search"}],"tool_choice":{"type":"tool","name":"web_search"}}`,
			`{"messages":[],"tools":[{"name":"search"}]}`, "[web_search_20250305]", nil},
		{"a choice of what is there", "/v1/messages", `{"messages":[],"tools":[{"type":"web_search_20250305","name":"web"},{"name":"web_x"}],"tool_choice":{"type":"tool","name":"web_x"}}`,
			`{"messages":[],"tools":[{"name":"web_x"}],"tool_choice":{"type":"tool","name":"web_x"}}`, "[web_search_20250305]", nil},
		{"granted without its date", "/v1/messages", `{"messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`,
			`{"messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, "[]", []string{"web_search"}},
		{"chat", "/v1/chat/completions", `{"messages":[],"web_search_options":{},"t":1,"tools":[{"type":"x"}],"tool_choice":"auto"}`, `{"messages":[],"t":1}`, "[web_search_options x]", nil},
		{"gemini", "/v1beta/models/m:generateContent", `{"contents":[],"tools":[{"googleSearch":{}},{"functionDeclarations":[],"codeExecution":{}}]}`,
			`{"contents":[],"tools":[{"functionDeclarations":[]}]}`, "[googleSearch codeExecution]", nil},
		{"gemini, the other spelling", "/v1beta/models/m:generateContent", `{"contents":[],"tools":[{"google_search":{}},{"function_declarations":[]}]}`,
			`{"contents":[],"tools":[{"function_declarations":[]}]}`, "[google_search]", nil},
		{"an escaped key", "/v1/responses", `{"input":"x","to\u006fls":[{"typ\u0065":"web_search"}]}`, `{"input":"x"}`, "[web_search]", nil},
	} {
		s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up, Grant: c.grant})
		status, answer := post(t, s.BaseAt(relayed(t, s))+c.path, s.Key(), c.body)
		calls, _, _ := ended(t, s)
		if status != 200 || string(got) != c.want || fmt.Sprint(calls[0].Withheld) != c.withheld {
			t.Errorf("%s: %d %s: sent %s, withheld %v", c.name, status, answer, got, calls[0].Withheld)
		}
	}
}

func TestRemoteMediaAndDoubleKeys(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up})
	base := s.BaseAt(relayed(t, s))
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"/v1/chat/completions", `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"http://x/i.png"}}]}]}`, 400},
		{"/v1/chat/completions", `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`, 200},
		{"/v1/chat/completions", `{"messages":[{"content":[{"type":"image_url","im\u0061ge_url":{"url":"https://x"}}]}]}`, 400},
		{"/v1/responses", `{"input":[{"content":[{"type":"input_image","image_url":"https://x"}]}]}`, 400},
		{"/v1/responses", `{"input":[{"type":"function_call","arguments":"{\"image_url\":\"https://x\"}"}]}`, 200},
		{"/v1/messages", `{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]}]}`, 400},
		{"/v1/messages", `{"messages":[{"content":[{"type":"tool_use","input":{"type":"url","url":"https://x","image_url":"https://y"}}]}]}`, 200},
		{"/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"fileData":{"fileUri":"https://x"}}]}]}`, 400},
		{"/v1/chat/completions", `{"messages":[],"tools":[],"Tools":[{"type":"web_search"}]}`, 400},
		{"/v1/responses", `{"input":"x","Tools":[{"type":"web_search"}]}`, 400}, {"/v1beta/models/m:generateContent", `{"contents":[],"generationConfig":{},"generation_config":{}}`, 400},
		{"/v1/chat/completions", `{"messages":[`, 400}, {"/v1/chat/completions", `[]`, 400}, {"/v1/chat/completions", ``, 400},
	} {
		if status, got := post(t, base+c.path, s.Key(), c.body); status != c.want {
			t.Errorf("%s: %d %s", c.body, status, got)
		}
	}
}

func TestPinning(t *testing.T) {
	var got []byte
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	up.Model = ""
	zero, most := 0.0, int64(64)
	for _, c := range []struct {
		path, body, want, pinned string
		pin                      Pin
	}{
		{"/v1/chat/completions", `{"temperature":1,"messages":[],"max_completion_tokens":9}`, `{"temperature":0,"messages":[],"max_completion_tokens":64}`,
			"[max_tokens=64 temperature=0]", Pin{Sampling: model.Sampling{Temperature: &zero, MaxTokens: &most}}},
		{"/v1/chat/completions", `{"messages":[],"presence_penalty":1,"top_p":0.5,"seed":1}`, `{"messages":[],"seed":1}`, "[-penalties -top_p]", Pin{Drop: []string{"top_p", "penalties", "top_k"}}},
		{"/v1/messages", `{"messages":[],"max_tokens":9,"temperature":1}`, `{"messages":[],"max_tokens":9,"top_k":64}`, "[-temperature top_k=64]", Pin{Drop: []string{"*"}, Sampling: model.Sampling{TopK: &most}}},
		{"/v1/responses", `{"input":"x","reasoning":{"summary":"auto","effort":"high"}}`, `{"input":"x","reasoning":{"summary":"auto","effort":"low"}}`, "[effort=\"low\"]", Pin{Sampling: model.Sampling{Effort: "low"}}},
		{"/v1beta/models/m:generateContent", `{"contents":[]}`, `{"contents":[],"generationConfig":{"maxOutputTokens":64,"temperature":0}}`, "[max_tokens=64 temperature=0]",
			Pin{Sampling: model.Sampling{Temperature: &zero, MaxTokens: &most}}},
		{"/v1beta/models/m:generateContent", `{"contents":[],"generation_config":{"max_output_tokens":9,"topK":3}}`, `{"contents":[],"generation_config":{"max_output_tokens":64,"topK":3}}`, "[max_tokens=64]",
			Pin{Sampling: model.Sampling{MaxTokens: &most}}},
	} {
		s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up, Pin: c.pin})
		post(t, s.BaseAt(relayed(t, s))+c.path, s.Key(), c.body)
		calls, _, _ := ended(t, s)
		if string(got) != c.want || fmt.Sprint(calls[0].Pinned) != c.pinned {
			t.Errorf("%s became %s, noted %v", c.body, got, calls[0].Pinned)
		}
	}
	if _, err := gateway(t, Config{}).Open(SessionConfig{Dir: t.TempDir(), Upstream: up, Pin: Pin{Drop: []string{"warmth"}}}); err == nil {
		t.Error("an unknown parameter was taken")
	}
}

// What the gateway asked for and the agent did not is in the record, and not
// in what the agent reads.
func TestCapturedTokens(t *testing.T) {
	for _, stream := range []bool{false, true} {
		up := script(t, "turns: [{text: yes indeed, calls: [{bash: ls}]}]")
		s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: up, CaptureTokens: true})
		path, body := ask(model.Chat, stream)
		_, got := post(t, s.BaseAt(relayed(t, s))+path, s.Key(), body)
		if strings.Contains(got, "token_ids") || strings.Contains(got, `"logprob"`) || stream && strings.Contains(got, `"usage"`) || !strings.Contains(got, "yes") {
			t.Errorf("the agent got %s", got)
		}
		if a, said := parseAnswer(openai.Chat{}, []byte(got)); said.err != nil || len(a.Calls()) != 1 || stream && !strings.Contains(got, "[DONE]") {
			t.Errorf("%v in %s", said.err, got)
		}
		calls, _, rec := ended(t, s)
		x, err := rec.Exchange(1, codecs())
		if err != nil || x.Answer.Tokens == nil || len(x.Answer.Tokens.Completion) == 0 || len(x.Answer.Tokens.Logprobs) == 0 || !stream && len(x.Answer.Tokens.Prompt) == 0 {
			t.Errorf("record, stream %v: %+v %v", stream, x.Answer.Tokens, err)
		}
		if calls[0].Usage == nil {
			t.Error("no usage")
		}
	}
}

func TestSideCalls(t *testing.T) {
	up := script(t, "turns: [{text: yes}]")
	s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: up})
	base := s.BaseAt(relayed(t, s))
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"system","content":"You are a title generator. You output ONLY a thread title."},{"role":"user","content":"x"}]}`,
		`{"model":"m","messages":[{"role":"system","content":"Generate a one-line commit message"},{"role":"user","content":"diff"}]}`,
		`{"model":"m","messages":[{"role":"system","content":"You are a title generator."},{"role":"user","content":"x"}],` + chatTool + `}`,
	} {
		if status, got := post(t, base+"/v1/chat/completions", s.Key(), body); status != 200 {
			t.Fatalf("%d %s", status, got)
		}
	}
	if status, got := post(t, base+"/v1/messages/count_tokens", s.Key(), `{"model":"m","messages":[{"role":"user","content":"x"}]}`); status != 200 || !strings.Contains(got, "input_tokens") {
		t.Errorf("%d %s", status, got)
	}
	calls, sum, _ := ended(t, s)
	var sides []string
	for _, c := range calls {
		sides = append(sides, c.Side)
	}
	if fmt.Sprint(sides) != "[title commit-message  count]" || sum.Calls != 1 || sum.Side != 3 {
		t.Errorf("%q %+v", sides, sum)
	}
}

// A count of tokens is answered where the provider has no such call.
func TestCountIsEstimated(t *testing.T) {
	s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: script(t, "dialects: [chat]\nturns: [{text: yes}]")})
	body := `{"model":"m","messages":[]}`
	if status, got := post(t, s.BaseAt(relayed(t, s))+"/v1/messages/count_tokens", s.Key(), body); status != 200 || got != fmt.Sprintf(`{"input_tokens":%d}`, (len(body)+3)/4) {
		t.Errorf("%d %s", status, got)
	}
}

// An upstream in this process is the same as one behind a network.
func TestHandlerUpstream(t *testing.T) {
	f, err := scripted.Parse("s", []byte("turns: [{text: yes}]"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := scripted.New(f)
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, gateway(t, Config{Codecs: codecs()}), SessionConfig{Upstream: &Upstream{Name: "in process", Handler: h}})
	client := &http.Client{Transport: s.Transport()}
	for _, d := range dialects(codecs()) {
		path, body := ask(d, true)
		req, _ := http.NewRequest("POST", s.Base()+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+s.Key())
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if a, said := parseAnswer(codecs()[d], b); err != nil || res.StatusCode != 200 || said.err != nil || a.Message.Text() != "yes" {
			t.Errorf("%s: %d %s %v", d, res.StatusCode, b, err)
		}
	}
	if sum, err := s.Close(); err != nil || sum.Calls != 4 {
		t.Errorf("%+v %v", sum, err)
	}
	if _, err := Read(filepath.Join(s.conf.Dir)); err != nil {
		t.Error(err)
	}
}

func FuzzShape(f *testing.F) {
	for _, d := range model.Dialects() {
		_, body := ask(d, true)
		f.Add([]byte(body), uint8(len(d)))
	}
	one := int64(1)
	f.Fuzz(func(t *testing.T, body []byte, n uint8) {
		all, err := object(body)
		if err != nil {
			return
		}
		d := model.Dialects()[int(n)%4]
		s := &Session{conf: SessionConfig{Pin: Pin{Drop: []string{"*"}, Sampling: model.Sampling{MaxTokens: &one, Effort: "low"}}, CaptureTokens: true}}
		if d == model.Gemini && !camels(all) {
			return
		}
		a := &asked{s: s, body: body, members: all, route: route{dialect: d}}
		e := edit{"model": json.RawMessage(`"x"`)}
		o := &outgoing{dialect: d}
		a.pin(e)
		a.extra(o, e)
		a.withhold(e)
		_ = a.remote()
		out := e.apply(body, all)
		if !json.Valid(out) {
			t.Fatalf("%q became %q", body, out)
		}
		if again, err := object(out); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		} else if d == model.Responses {
			b := &asked{s: s, body: out, members: again, route: route{dialect: d}}
			if more := (edit{}); true {
				b.withhold(more)
				if len(b.call.Withheld) > 0 {
					t.Fatalf("%q still has %v", out, b.call.Withheld)
				}
			}
		}
		o.noUsage, o.noTokens, o.noLogprobs = true, true, true
		if s := o.strip(body); s != nil && !json.Valid(s) {
			t.Fatalf("%q stripped to %q", body, s)
		}
	})
}
