package scripted

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"assay/internal/model"
)

const three = `turns:
  - calls: [{bash: 'echo 1'}]
  - calls: [{bash: 'echo 2'}, {bash: 'echo 3'}]
  - text: It is done.
`

// talk plays the client of a whole conversation in the chat dialect, changing
// each answer on its way back as rewrite says, and returns the turns it got.
func talk(t *testing.T, s *Server, url string, opening []object, tools string, rewrite func(m map[string]any)) []int {
	t.Helper()
	msgs := opening
	from := len(s.Requests())
	for range 8 {
		body := `{"model":"m","messages":` + string(encode(msgs)) + tools + `}`
		code, got := post(t, url+"/v1/chat/completions", body)
		if code != 200 {
			t.Fatalf("%d %s for %s", code, got, body)
		}
		var out struct {
			Choices []struct {
				Message map[string]any
			}
		}
		if err := decode([]byte(got), &out); err != nil {
			t.Fatal(err)
		}
		m := out.Choices[0].Message
		rewrite(m)
		msgs = append(msgs, m)
		calls, _ := m["tool_calls"].([]any)
		text, _ := m["content"].(string)
		switch {
		case len(calls) > 0:
			for _, c := range calls {
				msgs = append(msgs, object{"role": "tool", "tool_call_id": c.(map[string]any)["id"], "content": "ok"})
			}
		case strings.Contains(text, "```"):
			msgs = append(msgs, object{"role": "user", "content": "output: ok"})
		default:
			var turns []int
			for _, r := range s.Requests()[from:] {
				turns = append(turns, r.Turn)
			}
			return turns
		}
	}
	t.Fatal("the conversation does not end")
	return nil
}

func TestPlace(t *testing.T) {
	asked := []object{{"role": "user", "content": "do it"}}
	text := []object{{"role": "system", "content": "Answer with one ```mswea_bash_command block."}, {"role": "user", "content": "do it"}}
	aider := []object{
		{"role": "user", "content": "an example"}, {"role": "assistant", "content": "```\nx\n```"}, {"role": "user", "content": "new task"},
		{"role": "assistant", "content": "Ok."}, {"role": "user", "content": "do it"},
	}
	for name, c := range map[string]struct {
		opening []object
		tools   string
		rewrite func(m map[string]any)
	}{
		"ids":          {asked, "," + chatTools, func(map[string]any) {}},
		"text":         {text, "", func(map[string]any) {}},
		"trimmed text": {text, "", func(m map[string]any) { m["content"] = " " + strings.ReplaceAll(m["content"].(string), "\n", "\n\n") }},
		"examples":     {aider, "", func(map[string]any) {}},
		"ids of theirs": {asked, "," + chatTools, func(m map[string]any) {
			calls, _ := m["tool_calls"].([]any)
			for i, c := range calls {
				c.(map[string]any)["id"] = fmt.Sprintf("mine-%d", i)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, h := start(t, three)
			if got := talk(t, s, h.URL, c.opening, c.tools, c.rewrite); fmt.Sprint(got) != "[0 1 2]" {
				t.Errorf("turns %v", got)
			}
		})
	}
}

// What is left of a conversation after a client compacted it is enough.
func TestPlaceAfterCompaction(t *testing.T) {
	s, h := start(t, three)
	body := `{"model":"m","messages":[{"role":"user","content":"summary: I ran echo 1"},
		{"role":"assistant","tool_calls":[{"id":"call_s0t1k0n1","type":"function","function":{"name":"bash","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call_s0t1k0n1","content":"2"}],` + chatTools + `}`
	if _, got := post(t, h.URL+"/chat/completions", body); !strings.Contains(got, "It is done.") || s.Requests()[0].Turn != 2 {
		t.Errorf("%s", got)
	}
}

// Many conversations at once, each whole, and every retry gets its turn.
func TestManyAtOnce(t *testing.T) {
	s, h := start(t, "turns:\n  - {calls: [{bash: 'echo {n}'}], times: 10}\n  - text: end\n")
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			msgs := []object{{"role": "user", "content": fmt.Sprint("task ", i)}}
			for n := range 10 {
				body := `{"model":"m","messages":` + string(encode(msgs)) + `,` + chatTools + `}`
				id := fmt.Sprintf("call_s0t%dk0n%d", n, n)
				for range 2 {
					if _, got := post(t, h.URL+"/chat/completions", body); !strings.Contains(got, id) || !strings.Contains(got, fmt.Sprintf("echo %d", n+1)) {
						t.Errorf("turn %d: %s", n, got)
						return
					}
				}
				msgs = append(msgs, object{"role": "assistant", "tool_calls": []object{{"id": id, "type": "function", "function": object{"name": "bash", "arguments": "{}"}}}},
					object{"role": "tool", "tool_call_id": id, "content": "x"})
			}
		})
	}
	all.Wait()
	if n := len(s.Requests()); n != 800 {
		t.Errorf("%d requests", n)
	}
}

func TestSamples(t *testing.T) {
	_, h := start(t, "turns:\n  - {text: wrong, again: [{text: still wrong}, {text: right}], fault: {kind: cut, events: 1, skip: 1, first: 1}}\n")
	path, body := question(model.Chat, true)
	var all []string
	for range 5 {
		g, _ := ask1(h.URL+path, body)
		word := "cut"
		for _, w := range []string{"still wrong", "right", "wrong"} {
			if strings.Contains(g.body, `"content":"`+w) {
				word = w
				break
			}
		}
		all = append(all, word)
	}
	// The second answer breaks off before its text, and its retry is the same one.
	if got := strings.Join(all, ", "); got != "wrong, cut, still wrong, right, right" {
		t.Error(got)
	}
}

func TestScriptsAndSides(t *testing.T) {
	s, h := start(t, `
scripts:
  - {name: by task, when: {task: 'def strlen'}, turns: [{text: strlen it is}]}
  - {name: by model, when: {model: '^big'}, turns: [{text: big it is}]}
  - {name: by last, when: {last: 'error: 7'}, turns: [{text: seven}]}
`)
	for _, c := range []struct{ body, want string }{
		{`{"model":"m","messages":[{"role":"user","content":"write def strlen"}]}`, "strlen it is"},
		{`{"model":"big-1","messages":[{"role":"user","content":"x"}]}`, "big it is"},
		{`{"model":"m","messages":[{"role":"user","content":"error: 7"}]}`, "seven"},
		{`{"model":"m","messages":[{"role":"user","content":"what?"}]}`, "no script is meant"},
		{`{"model":"m","messages":[{"role":"system","content":"You are a title generator."},{"role":"user","content":"def strlen"}]}`, "A title"},
		{`{"model":"m","messages":[{"role":"system","content":"Write a commit message"},{"role":"user","content":"def strlen"}]}`, "feat: "},
	} {
		if _, got := post(t, h.URL+"/v1/chat/completions", c.body); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.body, got)
		}
	}
	last := s.Requests()[5]
	if last.Side != "commit-message" || s.Requests()[0].Script != "by task" || s.Requests()[3].Status != 400 {
		t.Errorf("%+v", last)
	}
}

func TestRefusesBrokenConversations(t *testing.T) {
	call := `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{}"}}]}`
	for body, want := range map[string]string{
		`{"model":"m","messages":[{"role":"user","content":"x"},` + call + `]}`:                    "did not have response",
		`{"model":"m","messages":[` + call + `,{"role":"user","content":"x"}]}`:                    "did not have response",
		`{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":"x"}]}`:              "without a call",
		`{"model":"m","messages":[` + call + `,{"role":"tool","tool_call_id":"b","content":"x"}]}`: "without a call",
		`{"model":"m","messages":[{"role":"robot","content":"x"}]}`:                                "invalid value: 'robot'",
		`{"model":"m","messages":[{"role":"user","content":7}]}`:                                   "neither a text nor a list",
		`{"model":"m"`:                "could not parse",
		`{"messages":[]}`:             "model parameter",
		`{"model":"m","messages":[]}`: "too short",
		`[]`:                          "could not parse",
	} {
		_, h := start(t, three)
		if code, got := post(t, h.URL+"/v1/chat/completions", body); code != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s; want %s", body, code, got, want)
		}
		_, h = start(t, "lenient: true\n"+three)
		if code, _ := post(t, h.URL+"/v1/chat/completions", body); (code == 200) != (strings.Contains(want, "response") || strings.Contains(want, "without")) {
			t.Errorf("lenient: %d for %s", code, body)
		}
	}
	for path, bodies := range map[string]map[string]string{
		"/v1/messages": {
			`{"model":"m","messages":[{"role":"user","content":"x"}]}`: "max_tokens",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":{}}]},{"role":"user","content":"y"}]}`: "tool_use",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"forged"}]}]}`:                          "Invalid `signature`",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":""}]}]}`:                                                                                           "non-empty",
		},
		"/v1/responses": {
			`{"model":"m","input":[{"type":"function_call","call_id":"a","name":"b","arguments":"{}"}]}`: "no tool output found",
			`{"model":"m","input":[{"type":"function_call_output","call_id":"a","output":"x"}]}`:         "no tool call found",
			`{"model":"m","previous_response_id":"resp_1","input":"x"}`:                                  "not found",
			`{"model":"m"}`: "input",
		},
		"/v1beta/models/m:generateContent": {
			`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}}]},{"role":"user","parts":[{"text":"x"}]}]}`: "function response parts",
			`{"contents":[]}`: "not specified",
			`{"contents":[{"role":"user","parts":[]}]}`: "must not be empty",
		},
	} {
		for body, want := range bodies {
			_, h := start(t, three)
			if code, got := post(t, h.URL+path, body); code != 400 || !strings.Contains(got, want) {
				t.Errorf("%s: %d %s; want %s", body, code, got, want)
			}
		}
	}
}

func TestOtherEndpoints(t *testing.T) {
	_, h := start(t, "key: k\nmodels: [a, b]\ndialects: [chat, messages]\n")
	for _, c := range []struct {
		method, path, header string
		code                 int
		want                 string
	}{
		{"HEAD", "/", "", 200, ""},
		{"HEAD", "/api/hello", "", 200, ""},
		{"GET", "/v1/models", "Authorization: Bearer k", 200, `"object":"list"`},
		{"GET", "/v1/models", "X-Api-Key: k", 200, `"has_more":false`},
		{"GET", "/v1beta/models", "X-Goog-Api-Key: k", 200, `"models/a"`},
		{"GET", "/v1/models/b", "Authorization: Bearer k", 200, `"id":"b"`},
		{"GET", "/v1/models/c", "Authorization: Bearer k", 404, `model_not_found`},
		{"GET", "/v1/models", "", 401, `invalid_api_key`},
		{"GET", "/v1/files", "Authorization: Bearer k", 404, `Invalid URL`},
		{"DELETE", "/v1/models/a", "X-Api-Key: k", 404, `not_found_error`},
		{"POST", "/v1/responses", "Authorization: Bearer k", 404, `Invalid URL`},
		{"POST", "/v1/chat/completions", "Authorization: Bearer wrong", 401, `Incorrect API key`},
		{"POST", "/v1/messages/count_tokens", "X-Api-Key: k", 200, `"input_tokens":`},
	} {
		req, err := http.NewRequest(c.method, h.URL+c.path, strings.NewReader(`{"model":"a","messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if n, v, ok := strings.Cut(c.header, ": "); ok {
			req.Header.Set(n, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		_ = resp.Write(&b)
		resp.Body.Close()
		if resp.StatusCode != c.code || !strings.Contains(b.String(), c.want) {
			t.Errorf("%+v: %s", c, b.String())
		}
	}
}
