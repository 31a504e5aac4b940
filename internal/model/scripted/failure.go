package scripted

import (
	"time"

	"assay/internal/model"
)

// failure is an answer that is an error, before it has a dialect's shape.
type failure struct {
	status  int
	kind    Kind
	message string
	retry   time.Duration // what retry-after asks for; 0: nothing
}

func (f failure) openaiType() string {
	switch f.kind {
	case Quota:
		return "insufficient_quota"
	case RateLimit:
		return "requests"
	}
	if f.status >= 500 {
		return "server_error"
	}
	return "invalid_request_error"
}

func (f failure) openaiCode() any {
	switch f.kind {
	case Unauthorized:
		return "invalid_api_key"
	case Forbidden:
		return "permission_denied"
	case NoModel:
		return "model_not_found"
	case RateLimit:
		return "rate_limit_exceeded"
	case Quota:
		return "insufficient_quota"
	case Context:
		return "context_length_exceeded"
	case Filter:
		return "content_filter"
	case Overloaded, Unavailable:
		return "server_is_overloaded"
	case ServerError:
		return "server_error"
	}
	return nil
}

func (f failure) anthropicType() string {
	switch f.status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	}
	if f.status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

func (f failure) googleStatus() string {
	switch f.status {
	case 401:
		return "UNAUTHENTICATED"
	case 403:
		return "PERMISSION_DENIED"
	case 404:
		return "NOT_FOUND"
	case 429:
		return "RESOURCE_EXHAUSTED"
	case 503, 529:
		return "UNAVAILABLE"
	}
	if f.status >= 500 {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// words are what providers say, as clients look for them in messages.
func words(k Kind, d model.Dialect, name string) string {
	switch k {
	case Unauthorized:
		if d == model.Messages {
			return "invalid x-api-key"
		}
		return "Incorrect API key provided."
	case Forbidden:
		return "Your API key does not have permission to use the specified resource."
	case NoModel:
		if d == model.Messages {
			return "model: " + name
		}
		return "The model `" + name + "` does not exist or you do not have access to it."
	case RateLimit:
		return "Rate limit reached for requests. Please try again later."
	case Quota:
		return "You exceeded your current quota, please check your plan and billing details."
	case ServerError:
		return "The server had an error while processing your request."
	case Unavailable:
		return "The engine is currently overloaded, please try again later."
	case Overloaded:
		return "Overloaded"
	case Context:
		switch d {
		case model.Messages:
			return "prompt is too long: 200001 tokens > 200000 maximum"
		case model.Gemini:
			return "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
		}
		return "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages."
	case Filter:
		if d == model.Messages {
			return "Output blocked by content filtering policy"
		}
		return "The response was filtered due to the prompt triggering the content management policy."
	}
	return "Invalid request."
}
