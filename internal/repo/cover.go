package repo

import "context"

func (r *suiteRun) cover(ctx context.Context) error { return nil }
