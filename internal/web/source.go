package web

import (
	"context"

	"assay/internal/store"
	"assay/trial"
)

// source is where a server's jobs come from.
type source struct {
	list   func(root string) ([]store.Summary, error) // the jobs at or below root, newest first
	read   func(dir string) (*Job, error)
	follow func(ctx context.Context, dir string, since uint64, f func(trial.Event) error) error // events after since, as they come
}

func disk() source {
	return source{
		list: store.List,
		read: func(dir string) (*Job, error) {
			v, err := store.Read(dir)
			if err != nil {
				return nil, err
			}
			return FromView(v), nil
		},
		follow: func(ctx context.Context, dir string, since uint64, f func(trial.Event) error) error {
			for e, err := range store.Follow(ctx, dir, since+1) {
				if err == nil {
					err = f(e)
				}
				if err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		},
	}
}
