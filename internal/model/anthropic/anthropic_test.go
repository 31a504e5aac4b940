package anthropic_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"assay/internal/model"
	"assay/internal/model/anthropic"
	"assay/internal/model/modeltest"
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

func samples() modeltest.Samples {
	const start = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":1,"service_tier":"standard"}}}`
	const usage = `"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":42}`
	whole := func(reason, content string) string {
		return `{"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"` + reason + `","stop_sequence":null,"content":[` + content + `],` + usage + `}`
	}
	end := func(reason string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":42}}`
	}
	const stop = `{"type":"message_stop"}`
	block := func(i, kind string) string {
		return `{"type":"content_block_start","index":` + i + `,"content_block":` + kind + `}`
	}
	delta := func(i, d string) string {
		return `{"type":"content_block_delta","index":` + i + `,"delta":` + d + `}`
	}
	close := func(i string) string { return `{"type":"content_block_stop","index":` + i + `}` }
	return modeltest.Samples{
		Requests: []modeltest.Request{
			{Name: "claude-code", Path: "/v1/messages?beta=true", Body: `{"model":"m","max_tokens":32000,"stream":true,
				"system":[{"type":"text","text":"You are"},{"type":"text","text":"careful","cache_control":{"type":"ephemeral"}}],
				"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},"context_management":{"edits":[]},"metadata":{"user_id":"u"},
				"messages":[{"role":"user","content":"go"},
				{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"xyz"},
				{"type":"text","text":"I look"},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}},{"type":"tool_use","id":"toolu_2","name":"Read","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a","is_error":true},
				{"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"b"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},
				{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]},
				{"role":"system","content":"be quick"},
				{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"x"}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}]},
				{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}],
				"tools":[{"name":"Bash","description":"run","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},{"name":"Read","input_schema":{"type":"object"}},
				{"type":"web_search_20250305","name":"web_search","max_uses":3},{"type":"bash_20250124","name":"bash"}],
				"tool_choice":{"type":"any","disable_parallel_tool_use":true},"stop_sequences":["END"],"temperature":1}`},
			{Name: "count of tokens", Path: "/v1/messages/count_tokens", Body: `{"model":"m","messages":[{"role":"user","content":"go"}]}`},
		},
		Answers: []modeltest.Answer{
			{
				Name: "thoughts, text and two calls", Want: model.StopCalls,
				Whole: whole("tool_use", `{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"Hello","citations":[{"type":"x"}]},
					{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls -l"}},{"type":"tool_use","id":"t2","name":"Now","input":{}}`),
				Stream: sse(start, block("0", `{"type":"thinking","thinking":"","signature":""}`), `{"type":"ping"}`,
					delta("0", `{"type":"thinking_delta","thinking":"h"}`), delta("0", `{"type":"thinking_delta","thinking":"m"}`),
					delta("0", `{"type":"signature_delta","signature":"sig"}`), close("0"),
					block("1", `{"type":"text","text":""}`), delta("1", `{"type":"text_delta","text":"Hel"}`), delta("1", `{"type":"citations_delta","citation":{"type":"x"}}`), delta("1", `{"type":"text_delta","text":"lo"}`), close("1"),
					block("2", `{"type":"tool_use","id":"t1","name":"Bash","input":{}}`), delta("2", `{"type":"input_json_delta","partial_json":""}`),
					delta("2", `{"type":"input_json_delta","partial_json":"{\"command\":"}`), delta("2", `{"type":"input_json_delta","partial_json":"\"ls -l\"}"}`), close("2"),
					block("3", `{"type":"tool_use","id":"t2","name":"Now","input":{}}`), close("3"), end("tool_use"), stop),
			},
			{
				Name: "a tool that the provider runs", Want: model.StopPause,
				Whole: whole("pause_turn", `{"type":"redacted_thinking","data":"xyz"},{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"x"}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}`),
				Stream: sse(start, block("0", `{"type":"redacted_thinking","data":"xyz"}`), close("0"),
					block("1", `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`), delta("1", `{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`), close("1"),
					block("2", `{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}`), close("2"), end("pause_turn"), stop),
			},
		},
	}
}

func TestMessages(t *testing.T) { modeltest.Run(t, anthropic.Messages{}, samples()) }

func FuzzMessages(f *testing.F) { modeltest.Fuzz(f, anthropic.Messages{}, samples()) }

// Without any of these official clients or claude-code fail.
func TestMessagesEventOrder(t *testing.T) {
	r := modeltest.Responses()["all"]
	asked := model.Request{Model: "m", Stream: true}
	wire := string(modeltest.Encode(anthropic.Messages{}, asked, modeltest.Deltas(r, 1<<20)))
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^event: (.*)$`).FindAllStringSubmatch(wire, -1) {
		names = append(names, m[1])
	}
	const block = "content_block_start content_block_delta content_block_stop "
	want := "message_start " + block + block + block + block + "message_delta message_stop"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("events are\n%s\nwant\n%s", got, want)
	}
	first, _, _ := strings.Cut(wire, "\n\n")
	for _, key := range []string{`"input_tokens":`, `"output_tokens":`, `"cache_read_input_tokens":`, `"stop_reason":null`, `"content":[]`} {
		if !strings.Contains(first, key) {
			t.Errorf("message_start has no %s: %s", key, first)
		}
	}
	if !strings.Contains(wire, `"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":100,"input_tokens":20,"output_tokens":9}`) {
		t.Errorf("usage at the end is not there:\n%s", wire)
	}
}
