package job

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/task"
	"assay/trial"
)

// preparing is how many images are fetched or built at once: fetches wait for
// the network, RUNs are held back by the executor.
const preparing = 4

// wanted is one image that trials need.
type wanted struct {
	env   environment
	tasks int
}

// prepare fetches and builds each image of the trials that are to run, once,
// before a slot is given out. Trials whose image cannot be had end here; those
// left to run are returned.
func (r *run) prepare(ctx context.Context, todo []*planned) ([]*planned, error) {
	all := r.wanted(todo)
	var g errgroup.Group
	g.SetLimit(preparing)
	for _, w := range all {
		g.Go(func() error { return r.makeReady(ctx, w, len(all)) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var rest []*planned
	for _, p := range todo {
		if ctx.Err() != nil || !r.hopeless(ctx, p) {
			rest = append(rest, p)
			continue
		}
		if err := r.wait(ctx, 0); err != nil {
			return nil, err
		}
		if err := r.trial(ctx, p); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// wanted lists the distinct images, in the order in which trials need them.
func (r *run) wanted(todo []*planned) []wanted {
	var all []wanted
	at, seen := map[string]int{}, map[string]bool{}
	for _, p := range todo {
		if seen[p.task.Name] {
			continue
		}
		seen[p.task.Name] = true
		for _, env := range r.environments(p.task) {
			k := r.images.key(env)
			i, ok := at[k]
			if !ok {
				i = len(all)
				at[k] = i
				all = append(all, wanted{env: env})
			}
			all[i].tasks++
		}
	}
	return all
}

// environments are those of a task's trials: the agent's, then the verifiers'
// own. A task that is refused anyway has none.
func (r *run) environments(t *task.Task) []environment {
	if r.images.alone(t) != nil {
		return nil
	}
	all := append([]environment{agentEnvironment(t)}, r.images.beside(t)...)
	for i := range t.Steps {
		if env, ok := r.cfg.verifierEnvironment(t, t.Key(i)); ok {
			all = append(all, env)
		}
	}
	for i := range all {
		all[i].uid = r.uids[t.Name].mode
	}
	return all
}

// makeReady has one image made or fetched, and says so. That it cannot be had is
// its trials' matter and no error of the job.
func (r *run) makeReady(ctx context.Context, w wanted, of int) error {
	if ctx.Err() != nil {
		return nil
	}
	if err := r.wait(ctx, 0); err != nil {
		return err
	}
	name := r.images.name(w.env)
	r.emit("", 0, trial.ImageStarted, trial.ImageMark{Name: name, Of: of, Tasks: w.tasks})
	begin := time.Now()
	got, err := r.enough(ctx, w.env)
	if ctx.Err() != nil {
		return nil
	}
	m := trial.ImageMark{Name: name, Used: got.used, Note: got.note, Millis: millis(time.Since(begin))}
	if err == nil {
		err = r.keepImage(got.image)
	}
	if err != nil {
		m.Error, m.Cause = cut(err.Error(), 2000), blame(err, trial.PhaseImage)
	}
	r.emit("", 0, trial.ImageReady, m)
	return nil
}

// enough gets an image; where the disk is too full for it, once there is more
// room than there was.
func (r *run) enough(ctx context.Context, env environment) (resolved, error) {
	for {
		before, err := r.tightest()
		if err != nil {
			return resolved{}, err
		}
		got, err := r.images.get(ctx, env)
		var none *noRoomError
		if r.cfg.MinFree <= 0 || ctx.Err() != nil || !errors.As(err, &none) && !(full(err) && r.low()) {
			return got, err
		}
		r.images.forget(env)
		if err := r.wait(ctx, before.Free+moreRoom); err != nil {
			return resolved{}, err
		}
	}
}

// moreRoom is what must become free before an image that did not fit is tried
// again, in bytes.
const moreRoom = 16 << 20

// hopeless reports whether a trial's image is known not to be had.
func (r *run) hopeless(ctx context.Context, p *planned) bool {
	for _, env := range r.environments(p.task) {
		if err := r.images.known(env); err != nil && !passing(err) {
			return true
		}
	}
	return false
}
