package setup

import (
	"context"
	"time"

	"assay/internal/image"
	"assay/internal/repo"
)

// measure runs the suite as often as the recipe says.
func (w *work) measure(ctx context.Context, im image.Image, r *Recipe) (repo.Suite, error) {
	return repo.RunSuite(ctx, repo.SuiteConfig{Backend: w.o.Backend, Image: im, Workdir: workdir, Commands: r.commands(), Runs: r.Suite.Runs,
		Limit: time.Duration(r.Suite.TimeoutSec * float64(time.Second)), Budget: w.o.Budget, UID: w.o.UID, Limits: w.o.Limits, NoCoverage: !w.o.Cover, Say: w.o.Say})
}
