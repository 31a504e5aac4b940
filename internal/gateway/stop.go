package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"assay/internal/model"
)

// Stop is why a session refuses every further call.
type Stop struct {
	Kind    model.ErrorKind `json:"kind"` // ErrBudget, ErrDeadline, ErrLoop, or ErrForbidden: it was closed
	Message string          `json:"message"`
}

// StopError is the cause of the end of requests that a stop cut off.
type StopError struct{ Stop }

func (e *StopError) Error() string { return fmt.Sprintf("%s: %s", e.Kind, e.Message) }

// Stop makes the session refuse every further call and cuts off those under
// way. The first reason stays. Connections stay open, so that agents read
// why; [Session.Close] ends them.
func (s *Session) Stop(why Stop) {
	s.mu.Lock()
	first := s.state.stop == nil && !s.state.closed
	if first {
		s.state.stop = &why
	}
	s.mu.Unlock()
	if !first {
		return
	}
	s.end(&StopError{why})
	if s.conf.OnStop != nil {
		s.conf.OnStop(why) // without the lock: whoever is told of a call may stop the session
	}
}

// stopped is the session's stop as an error for the agent; nil: it goes on.
func (s *Session) stopped() *model.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state.stop != nil:
		return &model.Error{Kind: s.state.stop.Kind, Message: s.state.stop.Message}
	case s.state.closed:
		return &model.Error{Kind: model.ErrForbidden, Message: errClosed.Error()}
	}
	return nil
}

// Budget bounds what a session may use. Zero means no bound. What a call used
// is known when it is over, so that the last one may go beyond.
type Budget struct {
	Tokens int64   // in and out
	USD    float64 // needs a price
}

// Purse is a budget that sessions share.
type Purse struct {
	Budget Budget

	mu sync.Mutex
	spent
}

// spent is what counts against a budget. A provider that does not say what a
// call used is held to an estimate, a token for four bytes in either
// direction: a limit that such a server could outlast would be none. The
// estimate counts here alone; records say that usage is unknown.
type spent struct {
	tokens int64
	usd    float64
}

func (a *spent) add(b spent) { a.tokens, a.usd = a.tokens+b.tokens, a.usd+b.usd }

// beyond says which bound of b is reached; empty: none.
func (a spent) beyond(b Budget, whose string) string {
	switch {
	case b.Tokens > 0 && a.tokens >= b.Tokens:
		return fmt.Sprintf("%s limit of %d tokens is used up", whose, b.Tokens)
	case b.USD > 0 && a.usd >= b.USD:
		return fmt.Sprintf("%s limit of %.2f US dollars is used up", whose, b.USD)
	}
	return ""
}

func (p *Purse) spend(x spent) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(x)
}

// Spent is what the purse's sessions used, estimates included.
func (p *Purse) Spent() (tokens int64, usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens, p.usd
}

func (p *Purse) empty() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beyond(p.Budget, "the job's")
}

// overspent stops the session if it, or the job, has used up its budget.
func (s *Session) overspent() {
	s.mu.Lock()
	why := s.state.spent.beyond(s.conf.Budget, "this trial's")
	s.mu.Unlock()
	if why == "" {
		why = s.conf.Purse.empty()
	}
	if why != "" {
		s.Stop(Stop{Kind: model.ErrBudget, Message: why})
	}
}

// clock is a timer that can stand still.
type clock struct {
	mu    sync.Mutex
	timer *time.Timer // nil: no limit
	left  time.Duration
	since time.Time // zero: it stands still
}

func (c *clock) start(d time.Duration, over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d > 0 {
		c.left, c.since = d, time.Now()
		c.timer = time.AfterFunc(d, over)
	}
}

func (c *clock) hold(still bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timer == nil || still == c.since.IsZero():
	case still:
		if c.timer.Stop() {
			c.left -= time.Since(c.since)
			c.since = time.Time{}
		}
	default:
		c.since = time.Now()
		c.timer.Reset(max(0, c.left))
	}
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// busy sums the time in which a session asked its provider or waited for it.
type busy struct {
	last          time.Time
	waited, asked time.Duration
}

// tick counts the time since the last change; open and waiting are what was
// true until now. The session waits when whoever is open waits: an agent that
// has another answer coming is at work.
func (b *busy) tick(now time.Time, open, waiting int) {
	if !b.last.IsZero() {
		switch d := now.Sub(b.last); {
		case open > 0 && waiting >= open:
			b.waited += d
		case open > 0:
			b.asked += d
		}
	}
	b.last = now
}

func (b busy) times(now time.Time, open, waiting int) (waited, asked float64) {
	b.tick(now, open, waiting)
	return millis(b.waited), millis(b.asked)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// flow notes that a request began or ended (open) or began or ceased to wait
// (waiting), and tells of the agent's clock if that changes it.
func (s *Session) flow(open, waiting int) {
	s.callback.Lock() // tells in the order of what happened
	defer s.callback.Unlock()
	s.mu.Lock()
	st := &s.state
	before := st.open > 0 && st.waiting >= st.open
	st.busy.tick(time.Now(), st.open, st.waiting)
	st.open += open
	st.waiting += waiting
	after := st.open > 0 && st.waiting >= st.open
	s.mu.Unlock()
	if before == after {
		return
	}
	s.clock.hold(after)
	if s.conf.OnWait != nil {
		s.conf.OnWait(after)
	}
}

// patient takes a wait of d from the session's patience.
func (s *Session) patient(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d > s.state.patience {
		return false
	}
	s.state.patience -= d
	return true
}

// cause is why ctx ended, as an error of a call.
func cause(ctx context.Context) *model.Error {
	switch err := context.Cause(ctx).(type) {
	case *StopError:
		return &model.Error{Kind: err.Kind, Message: err.Message}
	case *model.Error:
		return err
	}
	return &model.Error{Kind: model.ErrAborted, Message: "whoever asked went away"}
}
