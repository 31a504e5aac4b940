package gateway

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/model"
)

// RelayPort is the port of a sandbox's loopback that leads to its session.
const RelayPort = 4180

// SessionConfig is that of one trial.
type SessionConfig struct {
	Trial    string // for messages
	Dir      string // of the record; must hold none yet
	Upstream *Upstream
	Model    string // the name that the agent is told; empty: the upstream's

	Budget   Budget
	Purse    *Purse        // shared with other sessions; nil: none
	Time     time.Duration // from Open until the session stops by itself, waiting not counted; 0: never
	Loop     *LoopRules    // nil: loops are not looked for
	Patience time.Duration // that rate limits and overload of the provider are waited out, in all; 0: never

	Pin           Pin
	Grant         []string // provider-side tools that may be used, by name; "*": all
	CaptureTokens bool     // ask for token ids and logprobs, and keep them from the agent

	// OnStop is called once, when the session begins to refuse. OnWait is called
	// when every request that is open begins to wait for the provider's limits,
	// and when that is over: the agent's clock stands between. OnCall is called
	// after each call; these two are called one at a time. None may block, or
	// call back into the session but for Stop.
	OnStop func(Stop)
	OnWait func(waiting bool)
	OnCall func(Call)
}

// Session is one trial's way to its model.
type Session struct {
	g       *Gateway
	conf    SessionConfig
	up      *upstream
	id, key string
	server  *server
	rec     *recorder

	ctx  context.Context // ends with a *StopError as its cause
	end  context.CancelCauseFunc
	live sync.WaitGroup // requests in progress, and what is made of those that are over

	held atomic.Int64 // bytes of bodies in memory

	mu       sync.Mutex
	state    state
	callback sync.Mutex
	clock    clock
}

// state is what a session knows of its calls; guarded by Session.mu.
type state struct {
	seq      int
	asked    time.Time // when the first question came; zero: none did
	open     int       // requests in progress
	waiting  int       // of them, for the provider's limits
	settling int       // over, and not yet understood
	settled  *sync.Cond
	refused  int // requests that were turned away
	step     string
	phase    string
	earlier  map[digest]past
	stop     *Stop
	closed   bool
	sum      Summary
	spent    spent
	unpriced bool          // the cost of some call is unknown
	patience time.Duration // left
	busy     busy
	loops    loops
}

// past is what became of a body that was sent before.
type past struct {
	seq  int
	over bool
	bad  bool // no whole answer came
}

// Summary is what a session came to.
type Summary struct {
	Calls     int          `json:"calls"` // of the work
	Side      int          `json:"side_calls"`
	Refused   int          `json:"refused"` // wrong key, unknown path, or after a stop
	Usage     model.Usage  `json:"usage"`   // of calls that said it
	Unknown   int          `json:"calls_of_unknown_usage"`
	CostUSD   *float64     `json:"cost_usd"`   // null: the price of some call is unknown
	LastError *model.Error `json:"last_error"` // of the last call of the work; null: it was answered
	Stop      *Stop        `json:"stop"`
	Waited    float64      `json:"waited_ms"`           // for the provider's limits, while nothing else went on
	Model     float64      `json:"model_ms"`            // with a request under way and not waiting
	Last      model.Stop   `json:"last_stop,omitempty"` // why the model's last answer ended
	Malformed bool         `json:"malformed,omitempty"` // that answer had tool calls, and none could be read
}

// Open begins a session.
func (g *Gateway) Open(c SessionConfig) (*Session, error) {
	if c.Upstream == nil {
		return nil, fmt.Errorf("open model session of %q: it has no upstream", c.Trial)
	}
	if c.Budget.USD > 0 && c.Upstream.Cost == nil {
		return nil, fmt.Errorf("open model session of %q: a limit in dollars needs a price, and %q has none; give it one in the models file, or limit tokens", c.Trial, c.Upstream.Name)
	}
	if err := CheckPin(c.Pin); err != nil {
		return nil, fmt.Errorf("open model session of %q: %w", c.Trial, err)
	}
	up, err := g.upstream(c.Upstream)
	if err != nil {
		return nil, fmt.Errorf("open model session of %q: %w", c.Trial, err)
	}
	s := &Session{g: g, conf: c, up: up, id: randomID(), key: randomKey()}
	s.state.earlier = map[digest]past{}
	s.state.settled = sync.NewCond(&s.mu)
	s.state.patience = c.Patience
	s.state.phase = "agent"
	if s.rec, err = newRecorder(c.Dir, g.enc); err != nil {
		return nil, fmt.Errorf("open model session of %q: %w", c.Trial, err)
	}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.server = newServer(s, g.conf.Limits)
	g.mu.Lock()
	closed := g.closed
	if !closed {
		g.sessions[s.id] = s
	}
	g.mu.Unlock()
	if closed {
		_, err := s.Close()
		return nil, errors.Join(errors.New("the gateway is closed"), err)
	}
	s.clock.start(c.Time, func() { s.Stop(Stop{Kind: model.ErrDeadline, Message: "the time of this trial is over"}) })
	return s, nil
}

func randomID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// randomKey is long enough to be found in a text without doubt.
func randomKey() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b) // never fails
	return "assay-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// Key is the capability of one session. It opens nothing else, and nothing
// at all once the session is stopped.
func (s *Session) Key() string { return s.key }

// ID is the session's part of its paths.
func (s *Session) ID() string { return s.id }

// Base is the URL for agents in a sandbox with a relay at [RelayPort], and for
// clients of [Session.Transport]. It ends without a slash and without /v1.
func (s *Session) Base() string { return s.BaseAt(fmt.Sprintf("127.0.0.1:%d", RelayPort)) }

// BaseAt is the URL where the gateway is reached at another host and port.
func (s *Session) BaseAt(hostport string) string { return "http://" + hostport + "/s/" + s.id }

// Serve answers one connection of the trial's sandbox and returns when it is
// closed. It owns c.
func (s *Session) Serve(ctx context.Context, c net.Conn) { s.server.serve(ctx, c) }

// Transport reaches the session without a network. Path and key are checked
// as anywhere else.
func (s *Session) Transport() http.RoundTripper { return &inProcess{http.HandlerFunc(s.serveHTTP)} }

// SetStep names the step of a multi-step task that calls belong to from now on.
func (s *Session) SetStep(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.step = name
}

// Secrets are the strings that must not be in anything that is kept of the
// trial: the session's key, and the provider's credential once it was used.
func (s *Session) Secrets() []string { return newSecrets(s.key, s.up.secret()) }

// Summary is what the session came to so far.
func (s *Session) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.state.sum
	sum.Refused, sum.Stop = s.state.refused, s.state.stop
	sum.Waited, sum.Model = s.state.busy.times(time.Now(), s.state.open, s.state.waiting)
	return sum
}

// Close ends every connection and request of the session and makes its record
// durable. Closing twice is the same as once.
func (s *Session) Close() (Summary, error) {
	s.mu.Lock()
	first := !s.state.closed
	s.state.closed = true
	s.mu.Unlock()
	if first {
		s.clock.stop()
		s.g.mu.Lock()
		delete(s.g.sessions, s.id)
		s.g.mu.Unlock()
		s.end(errClosed)
		s.server.close()
	}
	s.live.Wait()
	sum := s.Summary()
	if err := s.rec.close(); err != nil {
		return sum, fmt.Errorf("close model session of %q: %w", s.conf.Trial, err)
	}
	return sum, nil
}

var errClosed = errors.New("the session is closed")
