package trajectory

import "encoding/json"

// Version is the schema_version that this package writes.
const Version = "ATIF-v1.8"

// Versions lists every schema_version that can be read.
func Versions() []string {
	return []string{"ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2", "ATIF-v1.3", "ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7", Version}
}

// Source says who made a step.
type Source string

const (
	System Source = "system"
	User   Source = "user"
	Agents Source = "agent"
)

// Unknown holds the keys of one object that the format does not know, and
// known keys whose value is not of the format's type.
type Unknown map[string]json.RawMessage

// Trajectory is one document.
type Trajectory struct {
	SchemaVersion string // empty is read as the newest
	SessionID     string // of the run; may be shared by several documents
	TrajectoryID  string // of this document; required and unique where embedded
	Agent         Agent
	Steps         []Step // at least one, numbered 1, 2, 3, …
	Notes         string
	FinalMetrics  *FinalMetrics
	ContinuedRef  string // file of the continuation
	Extra         map[string]json.RawMessage
	Subagents     []Trajectory
	Unknown       Unknown
}

// Agent describes who worked.
type Agent struct {
	Name            string
	Version         string
	ModelName       string
	ToolDefinitions []json.RawMessage // each in OpenAI's function schema
	Extra           map[string]json.RawMessage
	Unknown         Unknown
}

// Step is one turn.
type Step struct {
	ID               int64 // 1, 2, 3, … without gaps
	Timestamp        string
	Source           Source
	ModelName        string          // agent steps only; empty means the agent's
	ReasoningEffort  json.RawMessage // agent steps only: a string or a number
	Message          Content
	ReasoningContent *string      // agent steps only
	ToolCalls        []ToolCall   // agent steps only
	Observation      *Observation // of any step
	Metrics          *Metrics     // agent steps only; nil is unknown
	CopiedContext    *bool        // repeated from an earlier document
	LLMCalls         *int64       // 0: no model was asked; then no Metrics and no ReasoningContent
	Extra            map[string]json.RawMessage
	Unknown          Unknown
}

// ToolCall is one action of an agent step.
type ToolCall struct {
	ID        string
	Function  string
	Arguments json.RawMessage // a JSON object
	Extra     map[string]json.RawMessage
	Unknown   Unknown
}

// Observation is what came back.
type Observation struct {
	Results []ObservationResult
	Unknown Unknown
}

// ObservationResult is one answer. CallID names a call of the same step, or is
// empty for an answer that belongs to no call.
type ObservationResult struct {
	CallID    string
	Content   *Content
	Subagents []SubagentRef
	Extra     map[string]json.RawMessage
	Unknown   Unknown
}

// SubagentRef points at an embedded document by TrajectoryID or at a file by
// TrajectoryPath; one of them must be set.
type SubagentRef struct {
	TrajectoryID   string
	SessionID      string
	TrajectoryPath string
	Extra          map[string]json.RawMessage
	Unknown        Unknown
}

// Metrics are what one step asked of a model; nil is unknown.
type Metrics struct {
	PromptTokens       *int64 // cached ones included
	CompletionTokens   *int64
	CachedTokens       *int64
	CostUSD            *float64
	PromptTokenIDs     []int64
	CompletionTokenIDs []int64
	Logprobs           []float64
	Extra              map[string]json.RawMessage
	Unknown            Unknown
}

// FinalMetrics are totals as the producer states them; nothing checks them
// against the steps.
type FinalMetrics struct {
	PromptTokens     *int64
	CompletionTokens *int64
	CachedTokens     *int64
	CostUSD          *float64 // subagents included
	Steps            *int64
	Extra            map[string]json.RawMessage
	Unknown          Unknown
}

// PartType is the kind of one content part.
type PartType string

const (
	PartText  PartType = "text"
	PartImage PartType = "image"
	PartAudio PartType = "audio"
)

// Part is one part of a multimodal message: text xor media.
type Part struct {
	Type    PartType
	Text    *string // of a text part
	Media   *Media  // of an image or audio part
	Unknown Unknown
}

// Media names a file or URL.
type Media struct {
	MediaType string
	Path      string   // relative to the document, absolute, or a URL
	Duration  *float64 // seconds; audio only
	Unknown   Unknown
}
