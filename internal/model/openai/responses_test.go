package openai_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"assay/internal/model"
	"assay/internal/model/modeltest"
	"assay/internal/model/openai"
)

func responsesSamples() modeltest.Samples {
	const output = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}],"encrypted_content":"gAAA"},
		{"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hello"}]},
		{"id":"fc_1","type":"function_call","status":"completed","call_id":"c1","name":"exec_command","arguments":"{\"cmd\":\"ls\"}"},
		{"id":"fc_2","type":"function_call","status":"completed","call_id":"c2","name":"spawn","namespace":"agents","arguments":"{}"},
		{"id":"ctc_1","type":"custom_tool_call","status":"completed","call_id":"c3","name":"apply_patch","input":"*** Begin"},
		{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}}`
	const whole = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","error":null,"incomplete_details":null,"output":[` + output + `],
		"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}}`
	item := func(i int) string {
		var all []json.RawMessage
		if err := json.Unmarshal([]byte("["+output+"]"), &all); err != nil {
			panic(err)
		}
		return string(all[i])
	}
	done := func(i string, item string) string {
		return `{"type":"response.output_item.done","output_index":` + i + `,"item":` + item + `}`
	}
	const created = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[]}}`
	stream := sse(created,
		`{"type":"response.in_progress","response":{"id":"resp_1"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"one"}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"two"}`, done("0", item(0)),
		`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","content":[]}}`,
		`{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":""}}`,
		`{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Hel"}`,
		`{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"lo"}`, done("1", item(1)),
		`{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"c1","name":"exec_command","arguments":""}}`,
		`{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call","call_id":"c2","name":"spawn","namespace":"agents","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{}"}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"cmd\":\"ls\"}"}`, done("2", item(2)), done("3", item(3)),
		`{"type":"response.output_item.added","output_index":4,"item":{"id":"ctc_1","type":"custom_tool_call","call_id":"c3","name":"apply_patch","input":""}}`,
		`{"type":"response.custom_tool_call_input.delta","output_index":4,"delta":"*** Begin"}`, done("4", item(4)),
		`{"type":"response.output_item.added","output_index":5,"item":{"id":"ws_1","type":"web_search_call"}}`, done("5", item(5)),
		`{"type":"response.completed","response":`+whole+`}`)
	return modeltest.Samples{
		Requests: []modeltest.Request{
			{Name: "codex", Body: `{"model":"m","instructions":"You are","store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","client_metadata":{"a":"b"},
				"reasoning":{"effort":"high","summary":"auto"},"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},"parallel_tool_calls":true,"tool_choice":"auto",
				"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]},
				{"type":"message","role":"user","content":[{"type":"input_text","text":"go"},{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"auto"}]},` + output + `,
				{"type":"function_call_output","call_id":"c1","output":"a\nb"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]},
				{"type":"custom_tool_call_output","call_id":"c3","output":"done"},{"role":"user","content":"more"},{"type":"item_reference","id":"x"}],
				"tools":[{"type":"function","name":"exec_command","description":"run","strict":false,"parameters":{"type":"object"}},
				{"type":"custom","name":"apply_patch","description":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
				{"type":"namespace","name":"agents","description":"helpers","tools":[{"type":"function","name":"spawn","parameters":{"type":"object"}},{"type":"function","name":"wait","parameters":{"type":"object"},"defer_loading":true}]},
				{"type":"web_search","external_web_access":false},{"type":"local_shell"}]}`},
			{Name: "string", Body: `{"model":"m","input":"go","previous_response_id":"resp_0","max_output_tokens":9,"tool_choice":{"type":"function","name":"f"}}`},
		},
		Answers: []modeltest.Answer{
			{Name: "everything", Want: model.StopCalls, Whole: whole, Stream: stream},
			{Name: "only created and completed", Want: model.StopCalls, Whole: whole, Stream: sse(created, `{"type":"response.completed","response":`+whole+`}`)},
			{
				Name: "length", Want: model.StopLength,
				Whole: `{"id":"resp_1","model":"m","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hel"}]}]}`,
				Stream: sse(created, `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hel"}`, `{"type":"ping"}`,
					`{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`),
			},
		},
	}
}

func TestResponses(t *testing.T) { modeltest.Run(t, openai.Responses{}, responsesSamples()) }

func FuzzResponses(f *testing.F) { modeltest.Fuzz(f, openai.Responses{}, responsesSamples()) }

// The events without which official helpers or codex fail, in their order and
// numbered.
func TestResponsesEventOrder(t *testing.T) {
	r := modeltest.Responses()["all"]
	wire := string(modeltest.Encode(openai.Responses{}, model.Request{Model: "m"}, modeltest.Deltas(r, 1<<20)))
	var names []string
	for i, e := range modeltest.Events(t, []byte(wire)) {
		var head struct {
			Type string
			Seq  int `json:"sequence_number"`
		}
		if err := json.Unmarshal(e.Data, &head); err != nil || head.Type != e.Name || head.Seq != i {
			t.Errorf("event %d named %q is %q, numbered %d: %v", i, e.Name, head.Type, head.Seq, err)
		}
		names = append(names, strings.TrimPrefix(head.Type, "response."))
	}
	const call = "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done "
	want := "created in_progress " +
		"output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done " +
		"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done " +
		call + call + "completed"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("events are\n%s\nwant\n%s", got, want)
	}
	last := wire[strings.LastIndex(wire, "event: "):]
	for _, part := range []string{`"status":"completed"`, `"call_id":"c2"`, `"total_tokens":129`, `"summary_text"`} {
		if !strings.Contains(last, part) {
			t.Errorf("the last event has no %s:\n%s", part, last)
		}
	}
	if ids := regexp.MustCompile(`"item_id":null`).FindString(wire); ids != "" {
		t.Errorf("an event without the id of its item:\n%s", wire)
	}
}

// What only the provider's own server keeps cannot be translated.
func TestStatefulRequestsAreNotTranslated(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","input":"go","previous_response_id":"resp_0"}`,
		`{"model":"m","input":[{"type":"item_reference","id":"x"}]}`,
		`{"model":"m","input":"go","conversation":"c"}`,
	} {
		r, err := openai.Responses{}.ParseRequest("", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = openai.Chat{}.FormatRequest(r)
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != model.ErrBadRequest {
			t.Errorf("%s: %v", body, err)
		}
	}
}
