package cli

import (
	"fmt"
	"text/tabwriter"
	"time"

	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/store"
	"assay/internal/web"
)

type jobCmd struct {
	List    jobListCmd    `cmd:"" help:"List the jobs below a folder."`
	Show    jobShowCmd    `cmd:"" help:"Print a job's result table, timing or events."`
	Resume  jobResumeCmd  `cmd:"" help:"Run what is missing, or repeat chosen trials."`
	Regrade jobRegradeCmd `cmd:"" help:"Grade the end states of its trials again, without any agent."`
	Parity  jobParityCmd  `cmd:"" help:"Compare the recorded conditions of two arms."`
	Egress  jobEgressCmd  `cmd:"" help:"Say what left the machine for a job."`
	Rm      jobRmCmd      `cmd:"" help:"Remove jobs and free their end states."`
}

type jobListCmd struct {
	Dir string `arg:"" optional:"" default:"${jobs}" help:"Folder of jobs."`
}

func (jobListCmd) Help() string {
	return `Example:
  assay job list jobs --json

Exit status: 0, 2 when the folder does not exist.`
}

func (c *jobListCmd) Run(a *app, g *grammar) error {
	jobs, err := store.List(c.Dir)
	if err != nil {
		return usage(err)
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	if !g.JSON {
		fmt.Fprintln(tw, "JOB\tBEGUN\tENDED\tTRIALS\tSTATE")
	}
	for _, j := range jobs {
		if g.JSON {
			if err := a.emit("job", j); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\n", j.Name, j.Started.Local().Format("2006-01-02 15:04"), j.Finished, j.Planned, j.State)
	}
	return tw.Flush()
}

type jobShowCmd struct {
	Job    string `arg:"" help:"Job directory, of assay or of Harbor."`
	Timing bool   `help:"Per phase p50 and p95, and the harness's own overhead per trial: its wall time, the commit to disk included, less the agent's and the tests' own."`
	Trials bool   `help:"One line a trial."`
	gateFlags
}

func (jobShowCmd) Help() string {
	return `Examples:
  assay job show jobs/demo
  assay job show jobs/demo --timing
  assay job show jobs/demo --trials --json | jq -r 'select(.outcome=="fail").name'
  assay job show jobs/demo --gate 'resolved >= 0.5 and cost_per_solved < $2'

` + gateHelp + `

Exit status: 0, 2 when the directory is no job, 4 when a gate is not met.`
}

func (c *jobShowCmd) Run(a *app, g *grammar) error {
	gates, err := c.gates(false)
	if err != nil {
		return usage(err)
	}
	if err := c.show(a, g); err != nil {
		return err
	}
	return a.holdJob(g, c.Job, gates)
}

func (c *jobShowCmd) show(a *app, g *grammar) error {
	v, err := store.Read(c.Job)
	if err != nil {
		return usage(err)
	}
	for _, f := range v.Findings {
		a.say("%s", f)
	}
	switch {
	case c.Timing:
		t := web.TimingOf(web.FromView(v).Trials)
		if g.JSON {
			return a.emit("timing", t)
		}
		return web.TimingTable(a.Stdout, t)
	case c.Trials:
		return a.printTrials(g, v)
	}
	if g.JSON {
		return a.emit("job", summaryOf(v))
	}
	return web.Table(a.Stdout, web.FromView(v))
}

func (a *app) printTrials(g *grammar, v *store.View) error {
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	for _, t := range v.Trials {
		if g.JSON {
			if err := a.emit("trial", t); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t#%d\t%s\t%s\t%s\t%s\t%.0f ms\n", t.Name, t.Task, t.Agent, t.Rep, t.Record.Outcome, t.Record.Cause, t.Record.Evidence,
			web.ChecksLabel(t.Record.Checks), t.Millis())
	}
	return tw.Flush()
}

type jobResumeCmd struct {
	Job        string     `arg:"" help:"Job directory."`
	Rerun      []string   `placeholder:"WORD" help:"Repeat trials of this fault, cause or trial name; repeatable. Replaced attempts are kept."`
	Concurrent int        `short:"n" placeholder:"N" help:"Trials at once; default: as before."`
	Quiet      bool       `short:"q" help:"No progress."`
	Yes        bool       `short:"y" help:"Let tasks read the host variables they name."`
	MinFree    *bytesFlag `name:"min-free" placeholder:"SIZE" help:"Pause while the disk has less room; default: as before."`

	MaxJobTokens *int64   `name:"max-job-tokens" placeholder:"N" help:"Tokens that the job may use, what it used before included; 0: no limit. Default: as before."`
	MaxJobCost   *float64 `name:"max-job-cost" placeholder:"USD" help:"US dollars that the job may cost, what it cost before included; 0: no limit. Default: as before."`
	modelFlags
	registryFlags
	gateFlags
}

func (jobResumeCmd) Help() string {
	return `Runs what has no result, with the tasks, agents and options the job was begun with, and on its backend.
Tasks that the set has got since are left out: 'assay run' takes them in. A job does not record the gates that
it was begun with: name them again, and they are held against the whole job.

Examples:
  assay job resume jobs/try1
  assay job resume jobs/try1 --rerun infra --rerun agent_timeout
  assay job resume jobs/try1 --gate 'resolved >= 50%'

` + gateHelp + `

Exit status: as of 'assay run'.`
}

func (c *jobResumeCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	gates, err := c.gates(false)
	if err != nil {
		return usage(err)
	}
	m, err := a.armory(g, c.modelFlags)
	if err != nil {
		return err
	}
	defer m.Close()
	cfg, err := job.Load(c.Job, m.again)
	if err != nil {
		return usage(err)
	}
	if c.MaxJobTokens != nil {
		cfg.JobBudget.Tokens = *c.MaxJobTokens
	}
	if c.MaxJobCost != nil {
		cfg.JobBudget.USD = *c.MaxJobCost
	}
	if cfg.Budget.USD > 0 || cfg.JobBudget.USD > 0 {
		if err := priced(cfg.Arms, m.catalog, "a limit of money"); err != nil {
			return usage(err)
		}
	}
	if c.Concurrent > 0 {
		cfg.Concurrent = c.Concurrent
	}
	cfg.Rerun = c.Rerun
	if c.MinFree != nil {
		cfg.MinFree = int64(*c.MinFree)
	}
	if g.Env == "" {
		g.Env = cfg.Backend
	}
	if err := a.allowHostEnv(cfg.Tasks, c.Yes); err != nil {
		return err
	}
	return a.execute(ctx, g, cfg, execution{quiet: c.Quiet, report: true, registries: c.registryFlags, gates: gates})
}

// buildCacheKept is how long build steps outlive their last use when a job is
// removed: the next job may want the same images.
const buildCacheKept = 7 * 24 * time.Hour

type jobRmCmd struct {
	Jobs []string `arg:"" name:"job" help:"Job directories."`
}

func (jobRmCmd) Help() string {
	return `Only a directory that holds a job is removed. Its end states are freed by the next 'assay image gc'.

Example:
  assay job rm jobs/try1

Exit status: 0, 2 when a directory is no job or is running.`
}

func (c *jobRmCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	images, err := a.openStore(g)
	if err != nil {
		return err
	}
	for _, dir := range c.Jobs {
		if err := store.Remove(dir); err != nil {
			return usage(err)
		}
		if err := images.Release(image.HostPath(dir)); err != nil {
			return err
		}
		if g.JSON {
			if err := a.emit("job.removed", map[string]string{"path": dir}); err != nil {
				return err
			}
		}
	}
	_, err = images.GC(ctx, image.GCOptions{Young: buildCacheKept})
	return err
}
