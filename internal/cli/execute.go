package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"assay/internal/compare"
	"assay/internal/job"
	"assay/internal/store"
	"assay/internal/web"
	"assay/trial"
)

// execution is how a job is run and told about.
type execution struct {
	quiet  bool
	report bool
	next   string // what to try next; printed after the table

	registries registryFlags
	gates      []compare.Gate
}

// deps wires the rooms of a job, whose records of builds are kept below dir.
func (a *app) deps(g *grammar, r *rooms, dir string) (job.Deps, error) {
	b, err := a.builder(g, r, "", nil)
	if err != nil {
		return job.Deps{}, err
	}
	if dir != "" {
		b.records = filepath.Join(dir, store.StatesDir)
	}
	return job.Deps{
		Images: r.images, Backend: r.backend, Resolve: r.resolve, Build: b.job, Env: a.Env, Version: version, Egress: a.openGate, Tools: openToolbox,
		Boundary: a.crashPoint(),
	}, nil
}

// execute runs a job and prints its result table.
func (a *app) execute(ctx *boundCtx, g *grammar, cfg job.Config, e execution) error {
	if g.Offline {
		if err := a.allHere(ctx, g, cfg); err != nil {
			return err
		}
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	return a.executeOn(ctx, g, r, cfg, e)
}

func (a *app) executeOn(ctx *boundCtx, g *grammar, r *rooms, cfg job.Config, e execution) error {
	deps, err := a.deps(g, r, cfg.Dir)
	if err != nil {
		return err
	}
	a.collectLess()
	if deps.Fetch, err = a.fetcher(g, r.images, e.registries); err != nil {
		return err
	}
	p := a.progress(e.quiet)
	deps.OnEvent = func(ev trial.Event) {
		p.event(ev)
		if g.JSON && ev.Kind == trial.TrialFinished {
			_ = a.emit("event", ev) // a closed stdout must not stop the job; the table's write reports it
		}
	}
	sum, err := job.Run(ctx, cfg, deps)
	p.done()
	if errors.Is(err, job.ErrChanged) || errors.Is(err, store.ErrLocked) {
		return usage(err)
	}
	if err != nil {
		return fmt.Errorf("job %s: %w", cfg.Dir, err)
	}
	if ctx.Err() != nil {
		a.say("the job can be resumed: assay job resume %s", short(cfg.Dir))
		return context.Cause(ctx)
	}
	if err := a.showJob(g, cfg.Dir); err != nil {
		return err
	}
	if err := a.stateEgress(cfg.Dir); err != nil {
		a.say("egress: it cannot be stated: %v", err) // the trials stand
	}
	if e.report {
		file, err := a.writeReport(ctx, cfg.Dir, "", false)
		if err != nil {
			return err
		}
		a.say("\nreport: %s", file)
	}
	if e.next != "" {
		a.say("%s", e.next)
	}
	if err := a.holdJob(g, cfg.Dir, e.gates); err != nil {
		return err // a gate that is not met says of a partial job that it is one
	}
	if err := a.unfinished(cfg, sum); err != nil {
		return err
	}
	if n := sum.Counts[trial.Infra]; n > 0 {
		return partial(fmt.Errorf("%d trials were lost to infrastructure; 'assay job resume --rerun infra %s' repeats them", n, short(cfg.Dir)))
	}
	return nil
}

// collectLess is for what makes many sandboxes: little is alive in it, and
// collecting that took a tenth of its time.
func (a *app) collectLess() {
	if _, said := a.Env("GOGC"); !said {
		debug.SetGCPercent(400)
	}
}

// unfinished says why trials were left pending on purpose; nil: none were.
func (a *app) unfinished(cfg job.Config, sum job.Summary) error {
	pending := 0
	for _, p := range sum.Paused {
		a.say("arm %s with %s is paused for %s: %s", shown(p.Agent), p.Model, p.Cause, shown(p.Detail))
		pending += p.Pending
	}
	switch {
	case sum.Exhausted != "":
		return partial(fmt.Errorf("the job's budget is used up: %s; 'assay job resume --max-job-tokens N %s' (or --max-job-cost USD) goes on with more", sum.Exhausted, short(cfg.Dir)))
	case pending > 0:
		return partial(fmt.Errorf("%d trials of paused arms are pending; when the cause is gone, 'assay job resume %s' goes on", pending, short(cfg.Dir)))
	}
	return nil
}

// short is a path as the user would type it.
func short(dir string) string {
	wd, err := filepath.Abs(".")
	if err != nil {
		return dir
	}
	if rel, err := filepath.Rel(wd, dir); err == nil && len(rel) < len(dir) {
		return rel
	}
	return dir
}

// showJob prints a job's result table, or its JSON summary.
func (a *app) showJob(g *grammar, dir string) error {
	v, err := store.Read(dir)
	if err != nil {
		return usage(err)
	}
	if g.JSON {
		return a.emit("job", summaryOf(v))
	}
	return web.Table(a.Stdout, web.FromView(v))
}

func round(sec float64) time.Duration {
	d := time.Duration(sec * float64(time.Second))
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(100 * time.Millisecond)
}
