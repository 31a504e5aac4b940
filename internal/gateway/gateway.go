package gateway

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"assay/internal/model"

	"github.com/klauspost/compress/zstd"
)

// Limits bound what one session may use. Zero means the default in brackets.
type Limits struct {
	Conns    int           // connections at once [256]
	InFlight int           // requests at once [256]
	Request  int64         // bytes of a request's body [64 MiB]
	Response int64         // bytes of a response's body [64 MiB]
	Held     int64         // bytes of bodies in memory, of all requests together [512 MiB]
	Header   time.Duration // for a request's head to arrive [10 s]
	Body     time.Duration // for a request's body to arrive [2 min]
	Idle     time.Duration // a connection between two requests [5 min]
	Stall    time.Duration // between two bytes of a provider, and before its first [10 min]
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def64 := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	dur := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.Conns, 256)
	def(&l.InFlight, 256)
	def64(&l.Request, 64<<20)
	def64(&l.Response, 64<<20)
	def64(&l.Held, 512<<20)
	dur(&l.Header, 10*time.Second)
	dur(&l.Body, 2*time.Minute)
	dur(&l.Idle, 5*time.Minute)
	dur(&l.Stall, 10*time.Minute)
	return l
}

// Config is that of a gateway.
type Config struct {
	Codecs model.Codecs // without one, a dialect is relayed and recorded, not understood
	Limits Limits       // of every session
}

// Gateway holds the sessions of a job, and what they share: connections to
// providers, and those providers' rate limits.
type Gateway struct {
	conf Config
	enc  *zstd.Encoder
	// reading holds back the understanding of answers that are over, so that it
	// does not slow down those that are under way.
	reading chan struct{}

	mu        sync.Mutex
	sessions  map[string]*Session // by id
	upstreams map[*Upstream]*upstream
	closed    bool
}

// New returns a gateway. Close it.
func New(c Config) (*Gateway, error) {
	c.Limits = c.Limits.withDefaults()
	enc, err := newEncoder()
	if err != nil {
		return nil, fmt.Errorf("new gateway: %w", err)
	}
	return &Gateway{conf: c, enc: enc, reading: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), sessions: map[string]*Session{}, upstreams: map[*Upstream]*upstream{}}, nil
}

// upstream returns what sessions with the same Upstream share.
func (g *Gateway) upstream(u *Upstream) (*upstream, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if up := g.upstreams[u]; up != nil {
		return up, nil
	}
	up, err := newUpstream(u)
	if err != nil {
		return nil, err
	}
	g.upstreams[u] = up
	return up, nil
}

func (g *Gateway) session(id string) *Session {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sessions[id]
}

// Close closes all sessions.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	var open []*Session
	for _, s := range g.sessions {
		open = append(open, s)
	}
	g.mu.Unlock()
	var errs []error
	for _, s := range open {
		_, err := s.Close()
		errs = append(errs, err)
	}
	g.mu.Lock()
	for _, u := range g.upstreams {
		u.close()
	}
	g.mu.Unlock()
	return errors.Join(append(errs, g.enc.Close())...)
}
