package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"assay/internal/model"
)

// shortSilence is never a reason.
const shortSilence = 3 * time.Second

// silence is how long a provider has said nothing to one request.
type silence struct {
	began time.Time    // when the session's first question came
	since atomic.Int64 // nanoseconds after began; 0: nothing was asked yet
}

func (q *silence) broken() { q.since.Store(max(1, int64(time.Since(q.began)))) }

// blame is why the request ends with ctx. A trial whose time runs out while its
// provider has been silent for more than half of it, not counting what came
// before the first question, was not ended by its agent's slowness.
func (q *silence) blame(ctx context.Context) error {
	err := context.Cause(ctx)
	var stop *StopError
	since := time.Duration(q.since.Load())
	if !errors.As(err, &stop) || stop.Kind != model.ErrDeadline || since == 0 {
		return err
	}
	if all := time.Since(q.began); all-since > max(all/2, shortSilence) {
		return &model.Error{Kind: model.ErrStalled, Message: fmt.Sprintf("the model server had said nothing for %.1f s when the trial's time was over", (all - since).Seconds())}
	}
	return err
}

// ours reports whether an error is the gateway's own: it says nothing of the
// provider, whose last failure it must not hide.
func ours(k model.ErrorKind) bool {
	switch k {
	case model.ErrAborted, model.ErrBudget, model.ErrDeadline, model.ErrLoop, model.ErrForbidden, model.ErrBusy:
		return true
	}
	return false
}

// firstAsked is when the session's first question came.
func (s *Session) firstAsked() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.asked.IsZero() {
		s.state.asked = time.Now()
	}
	return s.state.asked
}
