package job

import (
	"context"
	"sync"
	"time"

	"assay/internal/agent"
)

// deadline ends an agent's context when its time is up. The clock can stand
// still: time that the agent waits for a provider is not its own.
type deadline struct {
	end context.CancelCauseFunc

	mu     sync.Mutex
	last   func()      // called before the context ends for want of time; may be nil
	timer  *time.Timer // nil: there is no limit
	left   time.Duration
	since  time.Time // the clock runs since then; zero: it stands still
	stood  time.Time // the clock stands still since then
	waited time.Duration
	holds  int // waits under way
	over   bool
}

// clocked returns a context that ends after limit of running time; 0: never by
// itself.
func clocked(ctx context.Context, limit time.Duration) (context.Context, *deadline) {
	ctx, end := context.WithCancelCause(ctx)
	d := &deadline{end: end, left: limit, since: time.Now()}
	if limit > 0 {
		d.mu.Lock() // a limit can be over before the timer has a name
		defer d.mu.Unlock()
		d.timer = time.AfterFunc(limit, func() { d.stop(agent.ErrDeadline) })
	}
	return ctx, d
}

// hold stops the clock, or lets it go on; holds nest.
func (d *deadline) hold(waiting bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if waiting {
		if d.holds++; d.holds > 1 || d.over {
			return
		}
		if d.timer != nil && !d.timer.Stop() {
			return // it is too late to stop it
		}
		d.left -= now.Sub(d.since)
		d.stood = now
		return
	}
	if d.holds--; d.holds > 0 || d.stood.IsZero() {
		return
	}
	d.waited += now.Sub(d.stood)
	d.since, d.stood = now, time.Time{}
	if d.timer != nil && !d.over {
		d.timer.Reset(max(0, d.left))
	}
}

// stop ends the context for a reason; the first one counts.
func (d *deadline) stop(why error) {
	d.mu.Lock()
	d.over = true
	if d.timer != nil {
		d.timer.Stop()
	}
	last := d.last
	d.mu.Unlock()
	if last != nil && why == agent.ErrDeadline {
		last()
	}
	d.end(why)
}

// before has f called when time is up, before anybody learns of it.
func (d *deadline) before(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = f
}

// stoodStill is how long the clock did.
func (d *deadline) stoodStill() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stood.IsZero() {
		return d.waited
	}
	return d.waited + time.Since(d.stood)
}
