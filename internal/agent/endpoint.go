package agent

// AnyDialect is for Needs of programs that may speak any.
const AnyDialect = "chat,messages,responses,gemini"

// Env is how a program finds its model: our own variables, and those that the
// vendors' libraries read, so that most programs need no change. All of them
// are served by the same gateway, whatever the provider behind it speaks. A nil
// endpoint has none.
func (e *Endpoint) Env() []string {
	if e == nil {
		return nil
	}
	return []string{
		"ASSAY_MODEL_URL=" + e.URL, "ASSAY_MODEL_KEY=" + e.Key, "ASSAY_MODEL=" + e.Model,
		"OPENAI_BASE_URL=" + e.URL + "/v1", "OPENAI_API_BASE=" + e.URL + "/v1", "OPENAI_API_KEY=" + e.Key,
		"ANTHROPIC_BASE_URL=" + e.URL, "ANTHROPIC_API_KEY=" + e.Key,
		"GOOGLE_GEMINI_BASE_URL=" + e.URL, "GEMINI_API_KEY=" + e.Key,
	}
}
