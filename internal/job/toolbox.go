package job

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"assay/internal/agent"
	"assay/trial"
)

// ToolPort is where the agent's sandbox finds the tools of the host, on its
// loopback.
const ToolPort = 4181

// ToolRequest asks for the host's tools for one step of a trial.
type ToolRequest struct {
	Names    []string
	Dir      string          // where their use is written down
	Recorder *agent.Recorder // gets the calls of agents in the sandbox as steps
	Left     func() Left
}

// Left is what an agent has left of its time and budget. Nil is no limit.
type Left struct {
	Time   *time.Duration
	Tokens *int64
	USD    *float64
}

// Toolbox is what the host does for the agent of one step.
type Toolbox interface {
	Tools() []agent.Tool // for an agent on the host
	URL() string         // for one in the sandbox
	// Serve answers one connection of the sandbox. It owns c.
	Serve(ctx context.Context, c net.Conn)
	// Close ends every call. It may be repeated.
	Close() error
}

// bench holds the toolbox of the step that runs; the sandbox has one port for
// all of them.
type bench struct {
	mu  sync.Mutex
	now Toolbox // nil: nobody answers
}

func (b *bench) serve(ctx context.Context, c net.Conn) {
	b.mu.Lock()
	now := b.now
	b.mu.Unlock()
	if now == nil {
		c.Close()
		return
	}
	now.Serve(ctx, c)
}

// unpack gives the agent the tools that the job offers, until put is called.
func (a *attempt) unpack(s *agent.Session, clock *deadline) (put func(), err error) {
	if len(a.r.cfg.Tools) == 0 {
		return func() {}, nil
	}
	if a.r.deps.Tools == nil {
		return nil, &endError{trial.CauseUnsupported, fmt.Errorf("there are no tools of the host here; asked for: %v", a.r.cfg.Tools)}
	}
	box, err := a.r.deps.Tools(ToolRequest{
		Names: a.r.cfg.Tools, Dir: a.stepDir(s.Brief.Step, "agent"), Recorder: s.Recorder, Left: func() Left { return a.left(clock) },
	})
	if err != nil {
		return nil, fmt.Errorf("tools of the host: %w", err)
	}
	a.bench.mu.Lock()
	a.bench.now = box
	a.bench.mu.Unlock()
	s.Tools, s.MCP = box.Tools(), box.URL()
	return func() {
		a.bench.mu.Lock()
		a.bench.now = nil
		a.bench.mu.Unlock()
		if err := box.Close(); err != nil {
			a.note("tools of the host: " + err.Error())
		}
	}, nil
}

// left is what the agent that runs has left.
func (a *attempt) left(clock *deadline) Left {
	l := Left{Time: clock.remaining()}
	b, rest := a.r.cfg.Budget, a.lines.rest(a.r.cfg.Budget)
	if b.Tokens > 0 {
		l.Tokens = &rest.Tokens
	}
	if b.USD > 0 {
		l.USD = &rest.USD
	}
	return l
}

// spend books what one call of the trial's model used.
func (a *attempt) spend(u trial.Usage, estimate int64) {
	a.lines.mu.Lock()
	a.lines.spent.add(u, estimate)
	a.lines.mu.Unlock()
	a.r.spend(u, estimate)
}

// remaining is the time that is left; nil: there is no limit.
func (d *deadline) remaining() *time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer == nil {
		return nil
	}
	left := d.left
	if d.stood.IsZero() {
		left -= time.Since(d.since)
	}
	left = max(0, left)
	return &left
}
