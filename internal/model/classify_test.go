package model_test

import (
	"net/http"
	"testing"
	"time"

	"assay/internal/model"
)

// Errors in the words of the servers that say them.
func TestErrorsAreKnown(t *testing.T) {
	for _, x := range []struct {
		dialect model.Dialect
		status  int
		body    string
		want    model.ErrorKind
	}{
		{model.Chat, 400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, model.ErrContext},
		{model.Chat, 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}`, model.ErrContext},
		{model.Chat, 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, model.ErrContext},
		{model.Chat, 413, `{"error":{"message":"Request too large","type":"tokens"}}`, model.ErrContext},
		{model.Chat, 401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, model.ErrAuth},
		{model.Chat, 403, `{"error":{"message":"Project does not have access to model x","type":"invalid_request_error","code":"model_not_found"}}`, model.ErrUnknownModel},
		{model.Chat, 404, `{"error":{"message":"The model 'x' does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}`, model.ErrUnknownModel},
		{model.Chat, 404, `{"detail":"Not Found"}`, model.ErrUnknownModel},
		{model.Chat, 400, `{"error":"model 'x' not found, try pulling it first"}`, model.ErrUnknownModel},
		{model.Chat, 429, `{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`, model.ErrRate},
		{model.Chat, 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`, model.ErrQuota},
		{model.Chat, 402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}`, model.ErrQuota},
		{model.Chat, 400, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter","status":400}}`, model.ErrRefused},
		{model.Chat, 400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model.","type":"invalid_request_error","code":"unsupported_parameter"}}`, model.ErrBadRequest},
		{model.Chat, 422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`, model.ErrBadRequest},
		{model.Chat, 500, `{"error":{"message":"The server had an error while processing your request.","type":"server_error"}}`, model.ErrServer},
		{model.Chat, 503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`, model.ErrOverload},
		{model.Chat, 502, "<html>\r\n<head><title>502 Bad Gateway</title></head>", model.ErrServer},
		{model.Chat, 403, "<!DOCTYPE html><title>Just a moment...</title>", model.ErrAuth},
		{model.Responses, 400, `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded"}}`, model.ErrContext},
		{model.Messages, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, model.ErrContext},
		{model.Messages, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 190000 + 32000 > 200000"}}`, model.ErrContext},
		{model.Messages, 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, model.ErrContext},
		{model.Messages, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, model.ErrQuota},
		{model.Messages, 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, model.ErrAuth},
		{model.Messages, 404, `{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`, model.ErrUnknownModel},
		{model.Messages, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 50,000 input tokens per minute"}}`, model.ErrRate},
		{model.Messages, 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, model.ErrOverload},
		{model.Messages, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.1: tool_use ids were found without tool_result blocks"}}`, model.ErrBadRequest},
		{model.Gemini, 400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, model.ErrContext},
		{model.Gemini, 400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`, model.ErrAuth},
		{model.Gemini, 404, `{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}`, model.ErrUnknownModel},
		{model.Gemini, 503, `[{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}]`, model.ErrOverload},
	} {
		if e := codecs()[x.dialect].ParseError(x.status, nil, []byte(x.body)); e.Kind != x.want || e.Status != x.status || e.Message == "" {
			t.Errorf("%s %d %s\nis %+v, want %s", x.dialect, x.status, x.body, e, x.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for head, want := range map[[2]string]time.Duration{
		{"Retry-After", "7"}:                             7 * time.Second,
		{"Retry-After", "0.5"}:                           500 * time.Millisecond,
		{"Retry-After", "Sat, 21 Nov 2026 12:00:30 GMT"}: 30 * time.Second,
		{"Retry-After", "Sat, 21 Nov 2026 11:00:00 GMT"}: 0,
		{"Retry-After", "soon"}:                          0,
		{"Retry-After", "-5"}:                            0,
		{"Retry-After", "1e300"}:                         24 * time.Hour,
		{"Retry-After", "NaN"}:                           0,
		{"Retry-After-Ms", "1500"}:                       1500 * time.Millisecond,
	} {
		if got := model.RetryAfter(http.Header{head[0]: {head[1]}}, now); got != want {
			t.Errorf("%v: %v, want %v", head, got, want)
		}
	}
	for _, x := range []struct {
		h    http.Header
		want time.Duration
	}{
		{http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1m2.5s"}, "X-Ratelimit-Remaining-Requests": {"5"}, "X-Ratelimit-Reset-Requests": {"1h"}}, 62500 * time.Millisecond},
		{http.Header{"Anthropic-Ratelimit-Input-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Input-Tokens-Reset": {"2026-11-21T12:00:40Z"}}, 40 * time.Second},
		{http.Header{"Retry-After": {"2"}, "X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1m"}}, 2 * time.Second},
		{nil, 0},
	} {
		if got := model.RetryAfter(x.h, now); got != x.want {
			t.Errorf("%v: %v, want %v", x.h, got, x.want)
		}
	}
}
