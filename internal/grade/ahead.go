package grade

import (
	"context"
	"slices"

	"assay/internal/sandbox"
	"assay/task"
)

// Ahead is a verifier's sandbox in the making: pristine, without the work and
// without the tests, which come when every process of the agent is dead.
type Ahead struct {
	ready chan struct{} // closed when sb and err are set
	sb    sandbox.Sandbox
	err   error
	taken bool
}

// MakeAhead begins to make the sandbox of a grading whose work is not known
// yet. It is nil where the sandbox may depend on the work, or on a network. The
// caller closes it at the end, whether it was used or not.
func MakeAhead(ctx context.Context, r Request) *Ahead {
	r = r.orDefaults()
	if r.Key.Grade != task.GradePatch || r.Mode != task.VerifierSealed || r.Network != sandbox.NetNone || r.Beside != nil {
		return nil
	}
	if p, err := Plan(r.Key); err != nil || p != nil { // its tests are a layer of the sandbox's
		return nil
	}
	if foul, err := foulDirs(r.Store, r.Image.Layers, nil, []string{verifierDir}); err != nil || len(foul) > 0 {
		return nil
	}
	a := &Ahead{ready: make(chan struct{})}
	go func() {
		defer close(a.ready)
		a.sb, a.err = r.Backend.Create(ctx, r.pristine())
	}()
	return a
}

// Close ends the sandbox unless a grading took it. The nil Ahead is fine.
func (a *Ahead) Close() {
	if a == nil {
		return
	}
	if <-a.ready; a.sb != nil && !a.taken {
		a.sb.Close()
	}
}

// pristine is the image as it is.
func (r Request) pristine() sandbox.Spec {
	return sandbox.Spec{Image: r.Image, Extra: r.Seal, Limits: r.Limits, UID: r.UID, Network: r.Network, Egress: r.Egress}
}

// create makes a sandbox with the seal above all else, or takes the one that was
// made ahead if it is what the spec asks for.
func (r Request) create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if r.Ahead != nil && len(spec.Extra) == 0 && spec.Beside == nil {
		select {
		case <-r.Ahead.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if r.Ahead.err == nil {
			r.Ahead.taken = true
			return r.Ahead.sb, nil
		}
	}
	spec.Extra = slices.Concat(spec.Extra, r.Seal)
	return r.Backend.Create(ctx, spec)
}

func (r Request) later(f func()) {
	if r.Later == nil {
		f()
		return
	}
	r.Later(f)
}
