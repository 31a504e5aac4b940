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
	Path       string        `short:"p" once:"" placeholder:"PATH" help:"A task directory, or a directory of them (one level; dot names ignored)."`
	Dataset    string        `short:"d" placeholder:"NAME@VERSION" help:"A data set of a registry, instead of -p: its tasks are fetched once, by git. Without a version: head, else the highest."`
	Registry   string        `name:"registry" placeholder:"FILE|URL" help:"The registry of -d, in Harbor's form. Default: Harbor's own."`
	Config     string        `short:"c" placeholder:"FILE" help:"A job as a file: arms that differ in more than agent and model (see docs/job-files.md), or Harbor's job configuration (.yaml). Flags win over it."`
	Agent      []string      `short:"a" sep:"none" placeholder:"AGENT" help:"oracle, nop, script:FILE, command:'PROGRAM …', a name of 'assay agent list', or a recipe FILE.toml; repeatable. Default: oracle."`
	Model      []string      `short:"m" sep:"none" placeholder:"MODEL" help:"A name of the models file, scripted:FILE, replay:TRIAL-DIR or NAME@URL; repeatable. Every agent that asks a model runs with each."`
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
	Unmet      string        `enum:"refuse,skip,run" default:"refuse" help:"What becomes of tasks that declare a network or a live verifier which this job does not give: refuse the job, skip them aloud, or run them all the same."`
	Plan       bool          `help:"Print trials, expected time, the images with what must be fetched, free disk, and the smallest difference this sample can show; run nothing."`
	Pilot      int           `placeholder:"N" help:"Run only one attempt of each agent at the first N tasks, then print what the rest would take. The same command without --pilot goes on."`
	MinFree    bytesFlag     `name:"min-free" default:"1G" placeholder:"SIZE" help:"Begin nothing while the disk of the store or of the job has less room: the job pauses, and goes on by itself. 0: never pause."`
	Yes        bool          `short:"y" help:"Let tasks read the host variables they name with $${VAR}."`
	Quiet      bool          `short:"q" help:"No progress."`
	Report     bool          `negatable:"" default:"true" help:"Write the HTML report at the end."`
	modelFlags
	talkFlags
	toolFlags
	registryFlags
	gateFlags
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
  assay run -p tasks -a codex -a claude-code -m gpt -m qwen@http://127.0.0.1:8000/v1 -k 3
  assay run -p tasks -a codex -m gpt --max-job-cost 20 --patience 10m
  assay run -p tasks -c job.toml
  assay run -d terminal-bench@2.0 -a command:./my-agent --verifier separate
  assay run -p tasks -a oracle --min-free 20G --mirror https://mirror.example
  assay run -p tasks -a command:'pip install requests && ./agent' --allow-host pypi.org --allow-host '*.pythonhosted.org'
  assay run -p tasks -a command:./my-agent -k 3 --gate 'lower(resolved) >= 50%'

` + gateHelp + `

Exit status: 0 every trial has a verdict (whatever it is), 1 the job broke, or --offline and images are
missing, 2 usage, 3 some trials were lost to infrastructure, 4 a gate is not met, 130 interrupted (run it again, or 'assay job resume').`
}

func (c *runCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	gates, err := c.gates(false)
	if err != nil {
		return usage(err)
	}
	file := &jobFile{}
	if c.Config != "" {
		var err error
		if file, err = readJobFile(c.Config); err != nil {
			return usage(err)
		}
		c.fill(file)
		for _, n := range file.noticed {
			a.say("%s", n)
		}
	}
	if err := c.fetch(ctx, a, g); err != nil {
		return err
	}
	tasks, source, err := a.loadTasks(c.Path, c.Tasks)
	if err != nil {
		return err
	}
	options, err := c.talkFlags.options()
	if err != nil {
		return usage(err)
	}
	m, err := a.armory(g, c.modelFlags)
	if err != nil {
		return err
	}
	defer m.Close()
	arms, err := m.grid(c.Agent, c.Model, options)
	if len(file.Arms) > 0 {
		if len(c.Agent)+len(c.Model) > 0 {
			return usagef("-a and -m are for a grid, and %s names the arms: leave one of them out", c.Config)
		}
		arms, err = m.listed(file)
	}
	if err != nil {
		return usage(err)
	}
	if c.MaxCost > 0 || c.MaxJobCost > 0 {
		if err := priced(arms, m.catalog, "a limit of money"); err != nil {
			return usage(err)
		}
	}
	if c.Attempts < 1 || c.Concurrent < 1 {
		return usagef("-k and -n must be at least 1")
	}
	if err := a.allowHostEnv(tasks, c.Yes); err != nil {
		return err
	}
	dir, err := c.dir()
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
		Budget:  job.Budget{Tokens: c.MaxTokens, USD: c.MaxCost}, JobBudget: job.Budget{Tokens: c.MaxJobTokens, USD: c.MaxJobCost},
	}
	if err := cfg.Impossible(); err != nil {
		return usage(err)
	}
	if err := a.unmet(&cfg, c.Unmet); err != nil {
		return err
	}
	tasks = cfg.Tasks
	if c.Pilot > 0 && !c.Plan {
		if c.JobName == "" {
			return usagef("--pilot needs --job-name: the same command without --pilot goes on with that job")
		}
		first := cfg
		first.Attempts, first.Tasks = 1, tasks[:min(c.Pilot, len(tasks))]
		if err := a.execute(ctx, g, first, execution{quiet: c.Quiet, registries: c.registryFlags}); err != nil {
			return err
		}
		a.say("\nwhat the rest would take:")
	}
	if c.Plan || c.Pilot > 0 {
		return a.plan(ctx, g, cfg, c.registryFlags)
	}
	return a.execute(ctx, g, cfg, execution{quiet: c.Quiet, report: c.Report, registries: c.registryFlags, gates: gates})
}

// fetch brings the data set that is asked for, and makes sure that there are
// tasks.
func (c *runCmd) fetch(ctx *boundCtx, a *app, g *grammar) (err error) {
	if c.Dataset != "" {
		if c.Path != "" {
			return usagef("-p and -d both name tasks: leave one of them out")
		}
		if c.Path, err = a.dataset(ctx, g, c.Dataset, c.Registry); err != nil {
			return err
		}
	}
	if c.Path == "" {
		return usagef("which tasks? Name a task directory, or a directory of them, with -p")
	}
	return nil
}

// dir is the job's directory, absolute.
func (c *runCmd) dir() (string, error) {
	name := c.JobName
	if name == "" {
		name = time.Now().Format("2006-01-02__15-04-05")
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return "", usagef("--job-name %q: must be one name without a leading dot", name)
	}
	return filepath.Abs(filepath.Join(c.Out, name))
}

// fill takes from a job file what no flag says.
func (c *runCmd) fill(j *jobFile) {
	set := func(flag *string, said string) {
		if *flag == "" {
			*flag = said
		}
	}
	set(&c.Path, j.Path)
	set(&c.JobName, j.Name)
	set(&c.Image, j.Image)
	if j.Out != "" && c.Out == "jobs" {
		c.Out = j.Out
	}
	if j.Network != "" && c.Network == "none" {
		c.Network = j.Network
	}
	c.AllowHost = append(c.AllowHost, j.AllowHosts...)
	if j.Attempts > 0 && c.Attempts == 1 {
		c.Attempts = j.Attempts
	}
	if j.Concurrent > 0 && c.Concurrent == 4 {
		c.Concurrent = j.Concurrent
	}
	if j.Multiplier > 0 && c.Timeouts == 1 {
		c.Timeouts = j.Multiplier
	}
	if j.Retries != nil && c.Retries == 2 {
		c.Retries = *j.Retries
	}
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
