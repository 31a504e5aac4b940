package cli

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"assay/internal/agent/nop"
	"assay/internal/job"
	"assay/internal/store"
	"assay/trial"
)

type jobRegradeCmd struct {
	Job        string   `arg:"" help:"Job directory."`
	Trials     []string `placeholder:"NAME" help:"Only these trials. Default: all that have an end state."`
	Concurrent int      `short:"n" placeholder:"N" help:"Trials at once; default: as before."`
	Yes        bool     `short:"y" help:"Let tasks read the host variables they name."`
	Report     bool     `negatable:"" default:"true" help:"Write the HTML report at the end."`
	registryFlags
}

func (jobRegradeCmd) Help() string {
	return `Grades the kept end state of every trial again, with the tasks' tests as they are now. No agent runs and no
model is asked. The result and the verdict before are kept below .attempts/ of the job, as those of a repeated
trial are. Grading the same work by the same check plan gives the same verifier/verdict.json, byte for byte.

A task that has changed since is regraded whole or not at all. What cannot be regraded says why and stays: trials
without an end state (lost to infrastructure), with end states that another store holds (--store), verified live,
or with services beside the agent.

Examples:
  assay job regrade jobs/try1
  assay job regrade jobs/try1 --trials fix-csv__3fWqk2P --json

Exit status: 0 all were regraded, 2 usage, 3 some could not be, 130 interrupted (repeat it).`
}

func (c *jobRegradeCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	cfg, err := job.Load(c.Job, func(arm job.ArmConfig) (job.Arm, error) {
		return job.Arm{Spec: arm.Spec, Agent: nop.New()}, nil // it never runs
	})
	if err != nil {
		return usage(err)
	}
	if c.Concurrent > 0 {
		cfg.Concurrent = c.Concurrent
	}
	if g.Env == "" {
		g.Env = cfg.Backend
	}
	if err := a.allowHostEnv(cfg.Tasks, c.Yes); err != nil {
		return err
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	deps, err := a.deps(g, r, cfg.Dir)
	if err != nil {
		return err
	}
	a.collectLess()
	if deps.Fetch, err = a.fetcher(g, r.images, c.registryFlags); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	all, err := job.Regrade(ctx, cfg, c.Trials, deps, func(t job.Regraded) {
		if g.JSON {
			_ = a.emit("regraded", t) // a closed stdout must not stop the job
			return
		}
		fmt.Fprintf(tw, "%s\t%s\n", t.Trial, regradedLine(t))
	})
	err = errors.Join(err, tw.Flush())
	if errors.Is(err, job.ErrChanged) || errors.Is(err, store.ErrLocked) || errors.Is(err, job.ErrNoTrial) {
		return usage(err)
	}
	if err != nil {
		return fmt.Errorf("job %s: %w", cfg.Dir, err)
	}
	return a.regraded(ctx, c, all)
}

// regraded sums up and writes the report anew.
func (a *app) regraded(ctx *boundCtx, c *jobRegradeCmd, all []job.Regraded) error {
	changed, skipped := 0, 0
	for _, t := range all {
		switch {
		case t.Skipped != "":
			skipped++
		case t.Is != t.Was:
			changed++
		}
	}
	a.say("%d trials regraded, %d with another outcome", len(all)-skipped, changed)
	if c.Report {
		file, err := a.writeReport(ctx, c.Job, "", false)
		if err != nil {
			return err
		}
		a.say("report: %s", file)
	}
	if skipped > 0 {
		return partial(fmt.Errorf("%d trials could not be regraded", skipped))
	}
	return nil
}

func regradedLine(t job.Regraded) string {
	word := func(o trial.Outcome, c trial.Cause) string { return fmt.Sprintf("%s (%s)", o, c) }
	switch {
	case t.Skipped != "":
		return "not regraded: " + t.Skipped
	case t.Is == t.Was && t.Cause == t.Before:
		return word(t.Is, t.Cause) + "\tas before"
	}
	return word(t.Is, t.Cause) + "\tbefore: " + word(t.Was, t.Before)
}
