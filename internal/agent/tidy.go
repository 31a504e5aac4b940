package agent

import "context"

// Tidier is implemented by agents that leave things of their own in a sandbox:
// logs that are worth keeping, and files that are no work.
type Tidier interface {
	// Tidy is called once after Run, however that ended, when no process of the
	// agent lives any more (a verifier of mode live lets them). It copies the
	// agent's logs into s.Logs and removes what is not work from the tree. The
	// tree is hostile: what of it could not be had is a note, and an error is a
	// fault of the harness.
	Tidy(ctx context.Context, s Session) (notes []string, err error)
}
