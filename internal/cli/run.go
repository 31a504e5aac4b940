package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/egress"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/task"
)

type runCmd struct {
	Path       string        `short:"p" required:"" placeholder:"PATH" help:"A task directory, or a directory of them (one level; dot names ignored)."`
	Agent      []string      `short:"a" sep:"none" placeholder:"AGENT" help:"oracle, nop, script:FILE or command:'PROGRAM …'; repeatable. Default: oracle."`
	Attempts   int           `short:"k" default:"1" placeholder:"N" help:"Attempts of each agent at each task."`
	Concurrent int           `short:"n" default:"4" placeholder:"N" help:"Trials at once."`
	Tasks      int           `short:"l" placeholder:"N" help:"Only the first N tasks."`
	Out        string        `short:"o" default:"${jobs}" placeholder:"DIR" help:"Folder of jobs."`
	JobName    string        `name:"job-name" placeholder:"NAME" help:"The job is DIR/NAME. Default: the time."`
	Image      string        `placeholder:"NAME" help:"Run every task on this image: its Dockerfile is applied to it, and docker_image replaced."`
	Verifier   string        `enum:",sealed,separate,live" default:"" help:"Verifier mode for every task (sealed, separate, live) instead of its own."`
	AgentLimit time.Duration `name:"agent-timeout" placeholder:"DUR" help:"Cap every agent's time, e.g. 5m."`
	Timeouts   float64       `name:"timeout-multiplier" default:"1" placeholder:"X" help:"Multiply the tasks' agent time limits."`
	Retries    int           `default:"2" placeholder:"N" help:"Retries of a trial lost to infrastructure."`
	Disk       int64         `name:"disk-mb" placeholder:"MB" help:"Disk a sandbox may dirty, where the task says nothing."`
	Network    string        `enum:"none,allowlist,full" default:"none" help:"The most network that a task gets of what it asks for: none, an allow-list (the task's own hosts and --allow-host), or full (every public address)."`
	AllowHost  []string      `name:"allow-host" placeholder:"HOST" help:"Let sandboxes reach a host besides those of their task: NAME, *.SUFFIX, ADDRESS or CIDR, with an optional :PORT; NAME@private may resolve to a private address. Repeatable; without --network it means --network allowlist."`
	UID        string        `name:"uid" enum:",single,subid,root" default:"" help:"User ids in sandboxes: single, one id and faked owners; subid or root, all ids and real owners (see docs/uid-modes.md). Default: the mode the task was proved in, else single."`
	Plan       bool          `help:"Print trials, expected time, the images with what must be fetched, free disk, and the smallest difference this sample can show; run nothing."`
	MinFree    bytesFlag     `name:"min-free" default:"1G" placeholder:"SIZE" help:"Begin nothing while the disk of the store or of the job has less room: the job pauses, and goes on by itself. 0: never pause."`
	Yes        bool          `short:"y" help:"Let tasks read the host variables they name with $${VAR}."`
	Quiet      bool          `short:"q" help:"No progress."`
	Report     bool          `negatable:"" default:"true" help:"Write the HTML report at the end."`
	toolFlags
	registryFlags
}

func (runCmd) Help() string {
	return `Runs every agent k times on every task and grades each trial in a fresh sandbox. The job directory
is Harbor's, plus events.ndjson. Run it again with a larger -k, more tasks or more agents: only what is
missing is executed.

Images are fetched and built before the first trial, each once; a trial whose image cannot be had ends at
once and alone. Tasks with a fallback image use that, aloud, instead of fetching. With --offline nothing is
fetched, and a job whose images are not all here is refused before it begins.

Examples:
  assay run -p tasks -a oracle -a nop
  assay run -p tasks/fix-csv -a command:'./my-agent --yes' -k 5 --job-name try1
  assay run -p tasks -a oracle -k 10 --plan
  assay run -p tasks -a command:./my-agent --network full
  assay run -p tasks -a oracle --min-free 20G --mirror https://mirror.example
  assay run -p tasks -a command:'pip install requests && ./agent' --allow-host pypi.org --allow-host '*.pythonhosted.org'

Exit status: 0 every trial has a verdict (whatever it is), 1 the job broke, or --offline and images are
missing, 2 usage, 3 some trials were lost to infrastructure, 130 interrupted (run it again, or 'assay job resume').`
}

func (c *runCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	tasks, source, err := a.loadTasks(c.Path, c.Tasks)
	if err != nil {
		return err
	}
	arms, err := parseAgents(c.Agent)
	if err != nil {
		return usage(err)
	}
	if c.Attempts < 1 || c.Concurrent < 1 {
		return usagef("-k and -n must be at least 1")
	}
	if err := a.allowHostEnv(tasks, c.Yes); err != nil {
		return err
	}
	name := c.JobName
	if name == "" {
		name = time.Now().Format("2006-01-02__15-04-05")
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return usagef("--job-name %q: must be one name without a leading dot", name)
	}
	dir, err := filepath.Abs(filepath.Join(c.Out, name))
	if err != nil {
		return err
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return err
	}
	if err := c.toolFlags.check(); err != nil {
		return err
	}
	network := sandbox.Network(c.Network)
	if len(c.AllowHost) > 0 {
		if network == sandbox.NetNone {
			network = sandbox.NetAllowlist
		}
		if _, err := egress.ParseRules(c.AllowHost, true); err != nil {
			return usage(err)
		}
	}
	cfg := job.Config{
		Tools:   c.Tool,
		Network: network, AllowHosts: c.AllowHost, UID: sandbox.UIDMode(c.UID),
		Dir: dir, Source: source, Path: path, Tasks: tasks, Arms: arms, Attempts: c.Attempts, Concurrent: c.Concurrent,
		Retries: retries(c.Retries), Image: c.Image, Verifier: task.VerifierMode(c.Verifier),
		AgentLimit: c.AgentLimit, TimeoutMult: c.Timeouts, Limits: sandbox.Limits{DiskBytes: c.Disk << 20},
		MinFree: int64(c.MinFree),
	}
	if c.Plan {
		return a.plan(ctx, g, cfg, c.registryFlags)
	}
	return a.execute(ctx, g, cfg, execution{quiet: c.Quiet, report: c.Report, registries: c.registryFlags})
}

// retries maps the flag's 0, "none", to the configuration's negative.
func retries(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// loadTasks reads a task or a set of them, saying aloud what was left out.
func (a *app) loadTasks(path string, limit int) (tasks []*task.Task, source string, err error) {
	tasks, skipped, err := task.LoadSet(path)
	if err != nil {
		return nil, "", usage(err)
	}
	for _, s := range skipped {
		a.say("skipped %s: %s", s.Dir, s.Reason)
	}
	if len(tasks) == 0 {
		return nil, "", usagef("%s: no task here; a task directory holds task.toml, instruction.md, environment/ and tests/test.sh ('assay task lint %s' tells more)", path, path)
	}
	if limit > 0 && len(tasks) > limit {
		tasks = tasks[:limit]
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	if tasks[0].Dir != abs {
		source = filepath.Base(abs)
	}
	return tasks, source, nil
}

// allowHostEnv asks for -y before a task may read the host's variables: a
// hostile task could name a credential.
func (a *app) allowHostEnv(tasks []*task.Task, yes bool) error {
	if yes {
		return nil
	}
	var asks []string
	for _, t := range tasks {
		for _, env := range hostEnvs(t) {
			for _, v := range task.HostVariables(env) {
				asks = append(asks, fmt.Sprintf("  %s reads %s", t.Name, v.Name))
			}
		}
	}
	if len(asks) == 0 {
		return nil
	}
	if len(asks) > 20 {
		asks = append(asks[:20], fmt.Sprintf("  … and %d more", len(asks)-20))
	}
	return usagef("these tasks read variables of this host; say -y to allow it:\n%s", strings.Join(asks, "\n"))
}

// hostEnvs are the tables of a task whose values may name host variables.
func hostEnvs(t *task.Task) []map[string]string {
	envs := []map[string]string{t.Config.Environment.Env, t.Config.Solution.Env}
	for i := range t.Steps {
		envs = append(envs, t.Key(i).VerifierEnv)
	}
	return envs
}
