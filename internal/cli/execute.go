package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"assay/internal/job"
	"assay/internal/stats"
	"assay/internal/store"
	"assay/internal/web"
	"assay/trial"
)

// execution is how a job is run and told about.
type execution struct {
	quiet  bool
	report bool
	next   string // what to try next; printed after the table
}

// deps wires the rooms of a job.
func (a *app) deps(r *rooms) job.Deps {
	return job.Deps{
		Images: r.images, Backend: r.backend, Resolve: r.resolve, Build: r.build, Env: a.Env, Version: version, Egress: a.openGate,
		Boundary: a.crashPoint(),
	}
}

// execute runs a job and prints its result table.
func (a *app) execute(ctx *boundCtx, g *grammar, cfg job.Config, e execution) error {
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	return a.executeOn(ctx, g, r, cfg, e)
}

func (a *app) executeOn(ctx *boundCtx, g *grammar, r *rooms, cfg job.Config, e execution) error {
	deps := a.deps(r)
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
	if e.report {
		file, err := a.writeReport(ctx, cfg.Dir, "")
		if err != nil {
			return err
		}
		a.say("\nreport: %s", file)
	}
	if e.next != "" {
		a.say("%s", e.next)
	}
	if n := sum.Counts[trial.Infra]; n > 0 {
		return partial(fmt.Errorf("%d trials were lost to infrastructure; 'assay job resume --rerun infra %s' repeats them", n, short(cfg.Dir)))
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

// plan prints what a run would do.
func (a *app) plan(ctx context.Context, g *grammar, cfg job.Config) error {
	p, err := job.Estimate(ctx, cfg)
	if err != nil {
		return usage(err)
	}
	assume := stats.Assumptions{}
	diff, ok := stats.DetectablePaired(len(cfg.Tasks), max(1, cfg.Attempts), assume)
	out := map[string]any{
		"trials": p.Trials, "done": p.Done, "tasks": len(cfg.Tasks), "agents": len(cfg.Arms), "attempts": cfg.Attempts,
		"expected_sec": p.Expected, "measured_trials": p.Measured, "longest_sec": p.Longest,
	}
	if ok {
		out["smallest_difference"] = diff
	}
	if g.JSON {
		return a.emit("plan", out)
	}
	w := a.Stdout
	fmt.Fprintf(w, "trials     %d = %d tasks × %d agents × %d attempts", p.Trials, len(cfg.Tasks), len(cfg.Arms), cfg.Attempts)
	if p.Done > 0 {
		fmt.Fprintf(w, ", %d of them have a result already", p.Done)
	}
	fmt.Fprintln(w)
	if p.Expected != nil {
		fmt.Fprintf(w, "time       about %s at %d at once, from %d earlier trials of these tasks and agents\n", round(*p.Expected), cfg.Concurrent, p.Measured)
	} else {
		fmt.Fprintf(w, "time       unknown: no earlier trial of these tasks and agents in %s\n", short(filepath.Dir(cfg.Dir)))
	}
	if p.Longest != nil {
		fmt.Fprintf(w, "           at most %s if every agent and verifier uses its whole limit\n", round(*p.Longest))
	} else {
		fmt.Fprintln(w, "           no upper bound: at least one task sets no limit for the agent (see --agent-timeout)")
	}
	if ok {
		fmt.Fprintf(w, "difference between two agents that this sample can show (80 %% power, 5 %% level): %.0f points\n", 100*diff)
	} else {
		fmt.Fprintln(w, "difference: this sample is too small to show any")
	}
	fmt.Fprintf(w, "job        %s\n", short(cfg.Dir))
	return nil
}

func round(sec float64) time.Duration {
	d := time.Duration(sec * float64(time.Second))
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(100 * time.Millisecond)
}
