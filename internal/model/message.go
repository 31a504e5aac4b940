package model

import "encoding/json"

// Dialect names a wire format.
type Dialect string

const (
	Chat      Dialect = "chat"      // OpenAI chat completions: POST …/chat/completions
	Responses Dialect = "responses" // OpenAI responses: POST …/responses
	Messages  Dialect = "messages"  // Anthropic messages: POST …/v1/messages
	Gemini    Dialect = "gemini"    // Google generateContent: POST …/models/NAME:generateContent
)

// Dialects lists all of them, the one that most servers speak first.
func Dialects() []Dialect { return []Dialect{Chat, Responses, Messages, Gemini} }

// Role says who a message is from.
type Role string

const (
	RoleSystem    Role = "system" // developer messages and top-level instructions too
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // holds results only; messages and gemini send them as the user
)

// Message is one turn.
type Message struct {
	Role  Role
	Parts []Part
	// Extra are fields of the message that this layer does not know, in the
	// dialect of its request.
	Extra map[string]json.RawMessage
}

// PartKind says which fields of a Part are set.
type PartKind string

const (
	PartText      PartKind = "text"
	PartReasoning PartKind = "reasoning" // Text may be empty where a provider hides it
	PartCall      PartKind = "call"
	PartResult    PartKind = "result"
	PartMedia     PartKind = "media"
	PartRefusal   PartKind = "refusal" // Text says why
	PartOpaque    PartKind = "opaque"  // Raw, in the dialect it was read from
)

// Part is one piece of a message.
type Part struct {
	Kind   PartKind
	Text   string
	Call   *Call
	Result *Result
	Media  *Media
	// ID of the item that carried it, where the dialect gives items ids.
	ID string
	// Signature is what a provider wants back with its reasoning: a signature or
	// the encrypted reasoning itself. Gemini signs calls and text too.
	Signature string
	Raw       json.RawMessage
	// Extra are fields of the part that this layer does not know
	// (cache_control, annotations, …).
	Extra map[string]json.RawMessage
	// Dialect is that of Raw and Extra; empty without them.
	Dialect Dialect
}

// Call is a tool call of a model.
type Call struct {
	ID   string
	Name string
	// Arguments as the model wrote them: for a function the text of a JSON
	// object, if the model did it right; for a free-form (custom) tool any text.
	Arguments string
	Custom    bool   // a free-form tool of the responses dialect
	Namespace string // of the tool in the responses dialect; usually empty
}

// Result answers a call.
type Result struct {
	CallID string
	Name   string // gemini answers by name
	Parts  []Part // text and media
	Error  bool   // the tool failed
	Custom bool   // answers a custom call
}

// Media is an image, a sound or a document.
type Media struct {
	Type string // media type
	Data string // base64; empty: URL
	URL  string
}

// Tool is what a model may call. Name or Hosted is set; both for a tool that
// the provider defines and the agent runs (Anthropic's bash, text_editor, …).
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments; nil for a custom tool
	Strict      *bool
	Custom      bool
	Namespace   string
	// Hosted is the provider's name of a tool that the provider itself defines,
	// and runs if Name is empty (web_search, code_execution, mcp, …). Raw is its
	// whole definition; of a custom tool its format.
	Hosted string
	Raw    json.RawMessage
	// Extra are fields of a named tool that this layer does not know.
	Extra map[string]json.RawMessage
}

// Format asks for structured output: any JSON object, or one that meets a
// schema.
type Format struct {
	Name   string
	Schema json.RawMessage // nil: any JSON object
	Strict *bool
}

// ToolChoice is "" (the provider's default), "auto", "none", "required", or the
// name of the tool that must be called.
type ToolChoice string

const (
	ChoiceAuto     ToolChoice = "auto"
	ChoiceNone     ToolChoice = "none"
	ChoiceRequired ToolChoice = "required"
)

// Sampling are the generation parameters. Nil and empty mean: not said.
type Sampling struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	TopK        *int64   `json:"top_k,omitempty"`
	MaxTokens   *int64   `json:"max_tokens,omitempty"`
	Stop        []string `json:"stop,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
	Effort      string   `json:"effort,omitempty"` // of reasoning: "low", "medium", "high", …
}

// Request is one question to a model.
type Request struct {
	// Dialect is the one it was read from, and that of Extra and of each hosted
	// tool; empty for a request that was made here.
	Dialect  Dialect
	Model    string
	Messages []Message // system messages included, in order
	Tools    []Tool
	Choice   ToolChoice
	Parallel *bool // whether several calls in one turn are allowed
	Sampling Sampling
	Stream   bool
	Usage    bool    // a streamed answer ends with usage (chat's stream_options)
	Logprobs bool    // of the answer's tokens
	Format   *Format // nil: text
	// Extra are top-level fields that this layer does not know.
	Extra map[string]json.RawMessage
}

// Stop says why a model ended its turn.
type Stop string

const (
	StopUnknown Stop = ""
	StopEnd     Stop = "end"       // it was done, or met a stop sequence
	StopCalls   Stop = "calls"     // it wants its tools run
	StopLength  Stop = "length"    // the cap on output tokens, or the context window
	StopRefusal Stop = "refusal"   // it declined, or a filter did
	StopPause   Stop = "pause"     // the provider wants the turn sent back to go on
	StopError   Stop = "error"     // the provider failed within the stream
	StopCut     Stop = "truncated" // the stream ended before it was complete
)

// Usage counts tokens of one answer. Nil is unknown, never zero.
type Usage struct {
	Input      *int64 `json:"input,omitempty"` // cached and cache-written ones included, in every dialect
	Cached     *int64 `json:"cached,omitempty"`
	CacheWrite *int64 `json:"cache_write,omitempty"`
	Output     *int64 `json:"output,omitempty"` // reasoning included
	Reasoning  *int64 `json:"reasoning,omitempty"`
}

// Tokens is what a server tells of the tokens themselves, for training.
type Tokens struct {
	Prompt     []int64   `json:"prompt,omitempty"`
	Completion []int64   `json:"completion,omitempty"`
	Logprobs   []float64 `json:"logprobs,omitempty"` // one for each completion token
}

// Response is one answer.
type Response struct {
	Dialect Dialect // that it was read from, and that of Extra
	ID      string
	Model   string
	Message Message // of the assistant
	Stop    Stop
	Usage   *Usage // nil: the server said nothing
	Tokens  *Tokens
	Err     *Error // StopError: what the provider said within the stream
	Extra   map[string]json.RawMessage
}

// Calls are the tool calls of an answer in order.
func (r *Response) Calls() []Call {
	var all []Call
	for _, p := range r.Message.Parts {
		if p.Kind == PartCall {
			all = append(all, *p.Call)
		}
	}
	return all
}

// Text is all text of a message, without reasoning and calls.
func (m Message) Text() string {
	var s string
	for _, p := range m.Parts {
		if p.Kind == PartText || p.Kind == PartRefusal {
			s += p.Text
		}
	}
	return s
}
