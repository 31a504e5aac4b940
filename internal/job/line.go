package job

import (
	"context"
	"net"
	"time"

	"assay/internal/agent"
	"assay/internal/model"
	"assay/trajectory"
	"assay/trial"
)

// ModelPort is where the agent's sandbox finds its model, on its loopback.
const ModelPort = 4180

// LineMaker makes the way of one step of a trial to a model.
type LineMaker func(ctx context.Context, r LineRequest) (Line, error)

// LineRequest asks for one.
type LineRequest struct {
	Trial  string
	Dir    string          // where its traffic is recorded
	Speaks []model.Dialect // of the agent, the one it prefers first
	Budget Budget
	// OnWait tells when the line begins and ceases to wait for a provider that
	// is short of room: the agent's clock stands still in between.
	OnWait func(waiting bool)
	// OnUse tells what one more call used, as soon as that is known; estimate is
	// its tokens by their bytes, where the provider does not say.
	OnUse func(u trial.Usage, estimate int64)
	// OnStop tells that the line refuses every further call, once.
	OnStop func(why trial.Cause, detail string)
}

// Budget bounds what models may be asked for. Zero is no bound.
type Budget struct {
	Tokens int64   `json:"tokens,omitempty"` // in and out together
	USD    float64 `json:"usd,omitempty"`    // needs a price
}

// Line is the way of one step of a trial to its model. Every call on it is
// recorded.
type Line interface {
	// Endpoint is what the agent is told; its URL holds in the sandbox, and
	// with its Transport on the host.
	Endpoint() agent.Endpoint
	// Serve answers one connection of the sandbox. It owns c.
	Serve(ctx context.Context, c net.Conn)
	// Stop makes the endpoint worthless and cuts off what is under way; why is
	// what callers are told. It may be repeated.
	Stop(why model.ErrorKind)
	// Said is what came of the calls.
	Said() (Said, error)
	// Trajectory is what the calls tell; nil: none was part of the work.
	Trajectory(info trial.AgentInfo, brief string) (*trajectory.Trajectory, error)
	// Close ends the record. It may be repeated.
	Close() error
}

// Said is what came of calls to a model.
type Said struct {
	Calls   int // answered or not
	Usage   trial.Usage
	ByModel map[string]trial.Usage
	Asked   time.Duration // that models took to answer, waiting not included
	Waited  time.Duration // for a rate limit or overload to pass
	// Failed is the provider's last failure, if no call was answered after it.
	Failed *model.Error
	// Answered: a call of the trial was answered, in this step or one before.
	Answered bool
	// Stopped is why the line refused calls before its trial was over; empty:
	// it did not.
	Stopped trial.Cause
	Detail  string     // of Stopped
	Last    model.Stop // why the model's last answer ended
	// Malformed: the last answer had tool calls, and none could be read.
	Malformed bool
}

// faulted maps a provider's failure to a cause; empty: it says nothing about
// how the trial ended.
func faulted(e *model.Error) trial.Cause {
	switch e.Kind {
	case model.ErrAuth:
		return trial.CauseModelAuth
	case model.ErrUnknownModel, model.ErrBadRequest:
		return trial.CauseModelSetup
	case model.ErrContext:
		return trial.CauseContextLimit
	case model.ErrRefused:
		return trial.CauseAgentRefused
	case model.ErrRate:
		return trial.CauseRateLimit
	case model.ErrQuota:
		return trial.CauseQuota
	case model.ErrOverload:
		return trial.CauseOverload
	case model.ErrCutStream:
		return trial.CauseTruncated
	case model.ErrServer, model.ErrMalformed, model.ErrStalled, model.ErrUnreachable:
		return trial.CauseModel
	}
	return "" // the agent's own doing, or a stop of ours
}

// failed is the cause that the provider's last failure gives an agent which
// got no further; empty: there was none.
func (s *Said) failed() (trial.Cause, string) {
	if s == nil || s.Failed == nil {
		return "", ""
	}
	if k := s.Failed.Kind; s.Answered && (k == model.ErrBadRequest || k == model.ErrUnknownModel) {
		// Model and parameters were right: whoever has the line's key can send
		// nonsense at the end, and would so choose which trials count.
		return "", ""
	}
	return faulted(s.Failed), "the model's last answer was an error: " + s.Failed.Error()
}

// stopped is the limit that the line held the agent to; empty: none.
func (s *Said) stopped() (trial.Cause, string) {
	if s == nil {
		return "", ""
	}
	return s.Stopped, s.Detail
}

// hint is what the model's last answer tells of an agent that ended by itself.
func (s *Said) hint() (trial.Cause, string) {
	switch {
	case s == nil:
	case s.Last == model.StopRefusal:
		return trial.CauseAgentRefused, "the model's last answer declined the task"
	case s.Last == model.StopLength:
		return trial.CauseContextLimit, "the model's last answer met its limit of tokens"
	case s.Malformed:
		return trial.CauseMalformedCall, "the arguments of the model's last tool calls are no JSON object"
	}
	return "", ""
}

// add books a call. What nobody knows counts as estimated: a limit that a
// provider could outlast by saying nothing would be none.
func (b *Budget) add(u trial.Usage, estimate int64) {
	if u.InputTokens == nil && u.OutputTokens == nil {
		b.Tokens += estimate
	}
	b.Tokens += number(u.InputTokens) + number(u.OutputTokens)
	b.USD += number(u.CostUSD)
}

func number[N int64 | float64](n *N) N {
	if n == nil {
		return 0
	}
	return *n
}

// said is b as a configuration keeps it.
func (b Budget) said() *Budget {
	if b == (Budget{}) {
		return nil
	}
	return &b
}

func (b *Budget) or() Budget {
	if b == nil {
		return Budget{}
	}
	return *b
}
