package gateway

import (
	"context"
	"sync"
	"time"
)

// limiter holds requests back until a provider's limits allow them. Minutes
// are sliding: what was asked or answered within the last 60 s counts.
type limiter struct {
	rate Rate
	slot chan struct{} // nil: any number at once

	mu       sync.Mutex
	requests window
	tokens   window
}

type window []struct {
	at time.Time
	n  int64
}

func newLimiter(r Rate) *limiter {
	l := &limiter{rate: r}
	if r.Concurrent > 0 {
		l.slot = make(chan struct{}, r.Concurrent)
	}
	return l
}

// enter waits for a place; wait is called with true if there is none at once,
// and with false once there is one.
func (l *limiter) enter(ctx context.Context, wait func(bool)) error {
	waiting := false
	defer func() {
		if waiting {
			wait(false)
		}
	}()
	pause := func() {
		if !waiting {
			waiting = true
			wait(true)
		}
	}
	if l.slot != nil {
		select {
		case l.slot <- struct{}{}:
		default:
			pause()
			select {
			case l.slot <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	for {
		d := l.reserve(time.Now())
		if d <= 0 {
			return nil
		}
		pause()
		if err := sleep(ctx, d); err != nil {
			l.leave()
			return err
		}
	}
}

// reserve counts a request, or says how long to wait before asking again.
func (l *limiter) reserve(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := max(l.requests.full(now, l.rate.Requests), l.tokens.full(now, l.rate.Tokens))
	if d <= 0 && l.rate.Requests > 0 {
		l.requests.add(now, 1)
	}
	return d
}

// leave gives the place back.
func (l *limiter) leave() {
	if l.slot != nil {
		<-l.slot
	}
}

// used counts the tokens of an answer.
func (l *limiter) used(tokens int64) {
	if l.rate.Tokens > 0 && tokens > 0 {
		l.mu.Lock()
		l.tokens.add(time.Now(), tokens)
		l.mu.Unlock()
	}
}

func (w *window) add(now time.Time, n int64) {
	*w = append(*w, struct {
		at time.Time
		n  int64
	}{now, n})
}

// full is the time until the sum of the last minute is below limit.
func (w *window) full(now time.Time, limit int64) time.Duration {
	if limit <= 0 {
		return 0
	}
	for len(*w) > 0 && now.Sub((*w)[0].at) >= time.Minute {
		*w = (*w)[1:]
	}
	var sum int64
	for _, e := range *w {
		sum += e.n
	}
	for _, e := range *w {
		if sum < limit {
			break
		}
		if sum -= e.n; sum < limit {
			return max(time.Minute-now.Sub(e.at), time.Millisecond)
		}
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
