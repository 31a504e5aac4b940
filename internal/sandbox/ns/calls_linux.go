package ns

import (
	"context"
	"fmt"
	"sync"

	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// calls matches replies to questions.
type calls struct {
	mu      sync.Mutex
	next    uint32
	pending map[uint32]chan answer
}

type answer struct {
	r   reply
	fds []int
}

func (c *calls) add() (uint32, chan answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	ch := make(chan answer, 1)
	c.pending[c.next] = ch
	return c.next, ch
}

// take returns the channel of a question, once.
func (c *calls) take(id uint32) chan answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.pending[id]
	delete(c.pending, id)
	return ch
}

// read hands the keeper's answers out until its socket ends.
func (b *Backend) read() {
	defer close(b.done)
	r := pid1.Receiver{P: b.sock}
	for {
		m, fds, err := r.Recv()
		if err != nil {
			return
		}
		a := answer{fds: fds}
		if err := unpack(m, kindReply, &a.r); err != nil {
			a.r = replyError(err)
		}
		if ch := b.calls.take(m.ID); ch != nil {
			ch <- a
		} else {
			closeFDs(fds) // nobody waits any more
		}
	}
}

// call asks the keeper. The descriptors that come back are the caller's.
func (b *Backend) call(ctx context.Context, q request, fds ...int) (reply, []int, error) {
	id, ch := b.calls.add()
	if err := send(b.sock, kindRequest, id, q, fds...); err != nil {
		b.calls.take(id)
		return reply{}, nil, fmt.Errorf("%s: %w", q.Op, b.lost())
	}
	return b.wait(ctx, q, id, ch)
}

func (b *Backend) wait(ctx context.Context, q request, id uint32, ch chan answer) (reply, []int, error) {
	select {
	case a := <-ch:
		return a.r, a.fds, a.r.err()
	case <-b.done:
	case <-ctx.Done():
		if b.calls.take(id) == nil { // it came at this very moment
			a := <-ch
			return a.r, a.fds, a.r.err()
		}
		return reply{}, nil, context.Cause(ctx)
	}
	select {
	case a := <-ch:
		return a.r, a.fds, a.r.err()
	default:
		return reply{}, nil, fmt.Errorf("%s: %w", q.Op, b.lost())
	}
}

// lost says why the keeper does not answer.
func (b *Backend) lost() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return sandbox.ErrClosed
	}
	if s := b.noise.String(); s != "" {
		return fmt.Errorf("%w: the keeper ended: %s", sandbox.ErrLost, s)
	}
	return fmt.Errorf("%w: the keeper ended", sandbox.ErrLost)
}
