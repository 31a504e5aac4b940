package gemini_test

import (
	"strings"
	"testing"
	"time"

	"assay/internal/model"
	"assay/internal/model/gemini"
	"assay/internal/model/modeltest"
)

func sse(data ...string) string {
	var b []byte
	for _, d := range data {
		b = model.Event{Data: []byte(d)}.Append(b)
	}
	return string(b)
}

func samples() modeltest.Samples {
	const usage = `"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":5,"thoughtsTokenCount":2,"totalTokenCount":17},"modelVersion":"m","responseId":"r1"`
	chunk := func(parts string) string {
		return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"index":0}],"usageMetadata":{"promptTokenCount":10},"modelVersion":"m","responseId":"r1"}`
	}
	whole := func(reason, parts string) string {
		return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"finishReason":"` + reason + `","index":0,"safetyRatings":[]}],` + usage + `}`
	}
	return modeltest.Samples{
		Requests: []modeltest.Request{
			{Name: "gemini-cli", Path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", Body: `{
				"systemInstruction":{"role":"user","parts":[{"text":"You are"}]},
				"contents":[{"role":"user","parts":[{"text":"go"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},
				{"role":"model","parts":[{"text":"hm","thought":true},{"text":"I look","thoughtSignature":"s0"},{"functionCall":{"name":"shell","args":{"command":"ls"}},"thoughtSignature":"s1"},{"functionCall":{"id":"x7","name":"shell","args":{}}}]},
				{"role":"user","parts":[{"functionResponse":{"name":"shell","response":{"output":"a"}}},{"functionResponse":{"id":"x7","name":"shell","response":{"error":"no"}}},{"text":"go on"}]},
				{"role":"model","parts":[{"functionCall":{"name":"stat","args":{}}},{"executableCode":{"language":"PYTHON","code":"1"}}]},
				{"role":"user","parts":[{"functionResponse":{"name":"stat","response":{"size":3},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}},{"fileData":{"mimeType":"application/pdf","fileUri":"gs://x"}}]}],
				"tools":[{"functionDeclarations":[{"name":"shell","description":"run","parameters":{"type":"OBJECT","properties":{"type":{"type":"STRING"}}}},{"name":"stat","parametersJsonSchema":{"type":"object"}}]},{"googleSearch":{}}],
				"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["shell"]}},
				"generationConfig":{"temperature":0,"topP":0.95,"topK":64,"maxOutputTokens":100,"stopSequences":["END"],"seed":7,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"},"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"}},
				"safetySettings":[]}`},
			{Name: "underscores", Path: "/v1beta/models/m:generateContent", Body: `{"contents":[{"parts":[{"text":"go"}]}],"system_instruction":{"parts":[{"text":"x"}]},"generation_config":{"max_output_tokens":5},"tools":[{"function_declarations":[{"name":"f"}]}]}`},
		},
		Answers: []modeltest.Answer{
			{
				Name: "thoughts, text and calls", Want: model.StopCalls,
				Whole: whole("STOP", `{"text":"think","thought":true},{"text":"Hello","thoughtSignature":"s0"},{"functionCall":{"name":"shell","args":{"command":"ls"}},"thoughtSignature":"s1"},{"functionCall":{"id":"b","name":"stat","args":{}}}`),
				Stream: sse(chunk(`{"text":"thi","thought":true}`), chunk(`{"text":"nk","thought":true}`), chunk(`{"text":"Hel"}`), chunk(`{"text":"lo"}`), chunk(`{"text":"","thoughtSignature":"s0"}`),
					chunk(`{"functionCall":{"name":"shell","args":{"command":"ls"}},"thoughtSignature":"s1"},{"functionCall":{"id":"b","name":"stat","args":{}}}`),
					whole("STOP", `{"text":""}`)),
			},
			{
				Name: "length", Want: model.StopLength,
				Whole: whole("MAX_TOKENS", `{"text":"Hel"}`), Stream: sse(chunk(`{"text":"H"}`), chunk(`{"text":"el"}`), whole("MAX_TOKENS", "")),
			},
			{
				Name: "the prompt is blocked", Want: model.StopRefusal,
				Whole: `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},` + usage + `}`, Stream: sse(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},` + usage + `}`),
			},
		},
	}
}

func TestGemini(t *testing.T) { modeltest.Run(t, gemini.Gemini{}, samples()) }

func FuzzGemini(f *testing.F) { modeltest.Fuzz(f, gemini.Gemini{}, samples()) }

func TestGeminiEventOrder(t *testing.T) {
	r := modeltest.Responses()["all"]
	events := modeltest.Events(t, modeltest.Encode(gemini.Gemini{}, model.Request{Model: "m"}, modeltest.Deltas(r, 1<<20)))
	for i, e := range events {
		text := string(e.Data)
		last := i == len(events)-1
		if e.Name != "" || !strings.HasPrefix(text, `{"candidates":[{"content":{"parts":[`) ||
			strings.Contains(text, "finishReason") != last || strings.Contains(text, "usageMetadata") != last {
			t.Errorf("event %d of %d named %q: %s", i, len(events), e.Name, text)
		}
	}
}

func TestGeminiLimits(t *testing.T) {
	limit := func(id string) []byte {
		return []byte(`[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[
			{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + id + `"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}]`)
	}
	for id, want := range map[string]model.ErrorKind{
		"GenerateRequestsPerMinutePerProjectPerModel": model.ErrRate, "GenerateRequestsPerDayPerProjectPerModel": model.ErrQuota,
	} {
		if e := (gemini.Gemini{}).ParseError(429, nil, limit(id)); e.Kind != want || e.RetryAfter != 34500*time.Millisecond {
			t.Errorf("%s: %+v", id, e)
		}
	}
}
