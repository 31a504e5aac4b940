package ns

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"assay/internal/sandbox"
)

// End closes the sandbox and keeps its tree.
func (s *Sandbox) End(ctx context.Context) (sandbox.Snapshot, error) {
	s.tree.Lock()
	defer s.tree.Unlock()
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("end: %w", context.Cause(ctx))
	}
	if !s.shut() {
		s.current().reader.Wait()
		return "", fmt.Errorf("end: %w", sandbox.ErrClosed)
	}
	s.b.mu.Lock()
	delete(s.b.boxes, s.name)
	s.b.mu.Unlock()
	id := sandbox.Snapshot(rand.Text())
	// Once it has begun it goes on to its end, as a change of the tree does.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	_, fds, err := s.b.call(ctx, request{Op: opEnd, Sandbox: s.name, Snapshot: id})
	closeFDs(fds)
	s.ended()
	s.release()
	if err != nil {
		return "", fmt.Errorf("end: %w", err)
	}
	s.b.remember(id, s.layers, s.real)
	return id, nil
}

// end ends a sandbox whose tree becomes a snapshot. When it returns, every
// process of it is gone.
func (k *keeper) end(q request) error {
	k.mu.Lock()
	b := k.boxes[q.Sandbox]
	delete(k.boxes, q.Sandbox)
	k.mu.Unlock()
	if b == nil {
		return fmt.Errorf("sandbox %s: %w", q.Sandbox, sandbox.ErrClosed)
	}
	defer k.endInit(b)()
	b.gone = true
	defer k.free(b)
	if b.vol == nil {
		return sandbox.ErrClosed
	}
	k.hold(b.on.holds()...)
	k.hold(b.vol)
	st := k.settleFlat(b, &stack{layers: b.on.layers, frozen: append(slices.Clone(b.on.frozen), b.vol), covers: b.on.covers})
	st, err := k.shallow(st, len(b.base.frozen))
	if err != nil {
		k.release(st.holds()...)
		return err
	}
	k.mu.Lock()
	k.snaps[q.Snapshot] = st
	k.mu.Unlock()
	return nil
}
