package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"assay/internal/model"
	"assay/internal/model/modeltest"
	"assay/internal/model/openai"
)

func sse(data ...string) string {
	var b []byte
	for _, d := range data {
		var head struct{ Type string }
		_ = json.Unmarshal([]byte(d), &head)
		b = model.Event{Name: head.Type, Data: []byte(d)}.Append(b)
	}
	return string(b)
}

func chatSamples() modeltest.Samples {
	chunk := func(choices string) string {
		return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choices + `]}`
	}
	delta := func(d string) string { return chunk(`{"index":0,"delta":` + d + `,"finish_reason":null}`) }
	return modeltest.Samples{
		Requests: []modeltest.Request{
			{Name: "tools", Body: `{"model":"m","messages":[{"role":"system","content":"be brief"},
				{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},
				{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},{"id":"c2","type":"custom","custom":{"name":"patch","input":"*** Begin"}}]},
				{"role":"tool","tool_call_id":"c1","content":"a\nb"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"ok"}]}],
				"tools":[{"type":"function","function":{"name":"bash","description":"run","parameters":{"type":"object"},"strict":true}},
				{"type":"custom","custom":{"name":"patch","format":{"type":"text"}}}],
				"tool_choice":{"type":"function","function":{"name":"bash"}},"parallel_tool_calls":false,"stream":true,
				"stream_options":{"include_usage":true},"max_completion_tokens":100,"temperature":0,"stop":"END","reasoning_effort":"low",
				"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"},"strict":true}},
				"logprobs":true,"top_logprobs":2,"user":"u","frequency_penalty":0}`},
			{Name: "functions of 2023", Body: `{"model":"m","messages":[{"role":"user","content":"go"},
				{"role":"assistant","content":null,"function_call":{"name":"bash","arguments":"{}"}},{"role":"function","name":"bash","content":"ok"}],
				"functions":[{"name":"bash","parameters":{"type":"object"}}],"function_call":"auto","max_tokens":5}`},
		},
		Answers: []modeltest.Answer{
			{
				Name: "text", Want: model.StopEnd,
				Whole: `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],
					"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":"f"}`,
				Stream: sse(delta(`{"role":"assistant","content":"","refusal":null}`), delta(`{"content":"Hel"}`), delta(`{"content":"lo"}`),
					chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`),
					`{"id":"chatcmpl-1","choices":[],"model":"m","usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}}}`, "[DONE]"),
			},
			{
				Name: "vLLM with thoughts, calls and token ids", Want: model.StopCalls,
				Whole: `{"id":"chatcmpl-1","model":"m","prompt_token_ids":[1,2,3],"choices":[{"index":0,"token_ids":[7,8],
					"logprobs":{"content":[{"token":"token_id:7","logprob":-0.5,"bytes":null,"top_logprobs":[]},{"token":"token_id:8","logprob":-0.25}]},
					"message":{"role":"assistant","content":null,"reasoning_content":"think","tool_calls":[
					{"id":"a","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},
					{"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
				Stream: sse(
					`{"id":"chatcmpl-1","model":"m","prompt_token_ids":[1,2,3],"choices":[{"index":0,"delta":{"role":"assistant","reasoning":"thi"},"finish_reason":null}]}`,
					delta(`{"reasoning_content":"nk"}`),
					delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"bash","arguments":""}}]}`),
					delta(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"read","arguments":"{"}}]}`),
					chunk(`{"index":0,"token_ids":[7],"logprobs":{"content":[{"token":"token_id:7","logprob":-0.5}]},"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":"}}]},"finish_reason":null}`),
					chunk(`{"index":0,"token_ids":[8],"logprobs":{"content":[{"token":"token_id:8","logprob":-0.25}]},"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":"\"ls\"}"}}]},"finish_reason":null}`),
					chunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`)),
			},
			{
				Name: "two calls with index 0, stop after calls", Want: model.StopCalls,
				Whole: `{"id":"chatcmpl-1","model":"m","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"y","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
				Stream: sse(
					delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"x","arguments":"{}"}}]}`),
					delta(`{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"y","arguments":"{}"}}]}`),
					chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`), "[DONE]"),
			},
			{
				Name: "refusal", Want: model.StopRefusal,
				Whole:  `{"id":"chatcmpl-1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"No."},"finish_reason":"stop"}]}`,
				Stream: sse(delta(`{"role":"assistant","refusal":"N"}`), delta(`{"refusal":"o."}`), chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`), "[DONE]"),
			},
		},
	}
}

func TestChat(t *testing.T) { modeltest.Run(t, openai.Chat{}, chatSamples()) }

func FuzzChat(f *testing.F) { modeltest.Fuzz(f, openai.Chat{}, chatSamples()) }

// The order of the event checklist, which official stream helpers and agents
// depend on.
func TestChatEventOrder(t *testing.T) {
	asked := model.Request{Model: "m", Stream: true, Usage: true}
	r := modeltest.Responses()["all"]
	wire := string(modeltest.Encode(openai.Chat{}, asked, modeltest.Deltas(r, 1<<20)))
	at := 0
	for _, want := range []string{
		`"role":"assistant"`, `"reasoning_content":`, `"content":"I write`,
		`"function":{"arguments":"","name":"write"},"id":"c1","index":0,"type":"function"`,
		`"index":0`, `"id":"c2","index":1`, `"delta":{},"finish_reason":"tool_calls"`,
		`"choices":[]`, `"usage":{`, "data: [DONE]\n\n",
	} {
		i := strings.Index(wire[at:], want)
		if i < 0 {
			t.Fatalf("%s is not where it belongs in\n%s", want, wire)
		}
		at += i
	}
	if strings.Contains(wire, "event:") {
		t.Error("chat has no event lines")
	}
	asked.Usage = false
	if wire := string(modeltest.Encode(openai.Chat{}, asked, modeltest.Deltas(r, 8))); strings.Contains(wire, `"usage":{`) {
		t.Errorf("usage that was not asked for:\n%s", wire)
	}
}
