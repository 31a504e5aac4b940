package sandbox

import "context"

// Ender is implemented by sandboxes that can be closed with their tree kept:
// Kill, Snapshot and Close in one, without what going on would take.
type Ender interface {
	// End ends every process and frees everything but the tree. The sandbox is
	// closed when it returns, whether it failed or not.
	End(ctx context.Context) (Snapshot, error)
}
