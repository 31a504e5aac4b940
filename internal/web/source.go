package web

import (
	"context"

	"assay/trial"
)

// source is where jobs come from.
type source struct {
	list   func(root string) ([]string, error)                                                  // directories of the jobs below root, root itself included
	read   func(dir string) (*Job, error)                                                       // one job
	follow func(ctx context.Context, dir string, since uint64, f func(trial.Event) error) error // events after since, as they come
}
