package mutate

import (
	"context"
	"iter"
	"path/filepath"
	"time"

	"assay/internal/forge"
	"assay/internal/forge/decide"
)

// hangs is the least time after which a bug is one that never ends. Such bugs
// are not proposed, and the grader has limits of its own: one that is taken for
// hanging wrongly costs a candidate, no more.
const hangs = 5 * time.Second

// Decided decides by the suite of the world's environment, a number of changes
// at a time. All covering tests run, because how many of them a bug fails says
// whether it is one that is easy to miss. What was decided is kept in the
// world's cache: a later run asks for it again at no cost.
func Decided(concurrent int) Decide {
	return func(ctx context.Context, w *forge.World, changes iter.Seq[decide.Change], yield func(decide.Verdict) error) error {
		c := decide.Config{Env: w.Env, Images: w.Images, Backend: w.Backend, Concurrent: concurrent, Policy: decide.AllCovering, Floor: hangs, Once: true, Say: w.Say}
		if w.Cache != "" {
			c.Journal = filepath.Join(w.Cache, "verdicts.ndjson")
		}
		d, err := decide.New(ctx, c)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Decide(ctx, changes, yield)
	}
}
