package gateway

import (
	"time"

	"assay/internal/model"
)

// CallVersion is the value of [Call.V] that this package writes.
const CallVersion = 1

// InProcess is the Host of a provider that is a handler of this process.
const InProcess = "in-process"

// Call is one request of an agent and what became of it: a line of
// calls.ndjson, without the bodies.
type Call struct {
	V     int       `json:"v"`
	Seq   int       `json:"seq"` // 1, 2, 3, … in the order of arrival
	Time  time.Time `json:"time"`
	Step  string    `json:"step,omitempty"`  // of a multi-step task
	Phase string    `json:"phase,omitempty"` // "agent"; later "judge"

	Method   string        `json:"method"`
	Path     string        `json:"path"` // as the agent asked, without its session
	Dialect  model.Dialect `json:"dialect,omitempty"`
	Upstream model.Dialect `json:"upstream_dialect,omitempty"` // other than Dialect: translated
	Model    string        `json:"model,omitempty"`            // that the agent asked for
	Sent     string        `json:"sent_model,omitempty"`       // that the provider was asked for
	Host     string        `json:"host,omitempty"`             // of the provider, with its port, or [InProcess]; empty: nothing was sent
	Client   string        `json:"user_agent,omitempty"`
	Session  string        `json:"client_session,omitempty"` // the agent's own id of the conversation, from its headers
	Stream   bool          `json:"stream,omitempty"`

	Request  string `json:"request_digest,omitempty"` // sha256:… of the body as the agent sent it
	Bytes    int64  `json:"request_bytes"`
	Answered int64  `json:"response_bytes"`

	Status    int          `json:"status"`                    // that the agent got; 0: none, it was gone
	First     *float64     `json:"first_byte_ms"`             // from arrival; null: none came
	Millis    float64      `json:"ms"`                        // from arrival to the last byte
	Waited    float64      `json:"waited_ms,omitempty"`       // of it, for a rate limit or overload to pass
	Tries     int          `json:"tries,omitempty"`           // of the gateway itself, when more than one
	RetryOf   int          `json:"retry_of,omitempty"`        // an earlier call with the same body
	Side      string       `json:"side,omitempty"`            // "title", "commit-message", "probe", "count", "models", …; empty: part of the work
	Stop      model.Stop   `json:"stop,omitempty"`            // why the model ended
	Usage     *model.Usage `json:"usage,omitempty"`           // nil: unknown
	CostUSD   *float64     `json:"cost_usd,omitempty"`        // nil: unknown
	Err       *model.Error `json:"error,omitempty"`           // nil: an answer came, whole
	Aborted   bool         `json:"aborted,omitempty"`         // the agent went away first
	Withheld  []string     `json:"withheld,omitempty"`        // provider-side tools that were taken out
	Pinned    []string     `json:"pinned,omitempty"`          // parameters that were set by the job
	Losses    []model.Loss `json:"losses,omitempty"`          // of translation
	Events    int          `json:"events,omitempty"`          // of a stream
	Malformed int          `json:"malformed_calls,omitempty"` // tool calls whose arguments are not a JSON object
	Unknown   []string     `json:"unknown_tools,omitempty"`   // called and not among the request's
}

// Exchange is a call with what was said, as far as it could be read.
type Exchange struct {
	Call
	Asked  *model.Request  // nil: not one of a model, or not readable
	Answer *model.Response // nil: none came; Stop tells a cut one
}
