package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/agent/oracle"
	"assay/internal/agent/script"
	"assay/internal/grade/checks"
	"assay/internal/grade/exploit"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
)

type taskAttackCmd struct {
	Paths      []string `arg:"" optional:"" name:"path" help:"Task directories, or directories of them."`
	Attacks    []string `placeholder:"GLOB" help:"Only the cheats of these names; repeatable."`
	Classes    []string `placeholder:"CLASS" help:"Only the cheats of these classes (see --list); repeatable."`
	Chains     int      `placeholder:"N" help:"Also so many chains of two or three cheats, drawn with the seed."`
	Sample     int      `placeholder:"N" help:"Draw so many of all pairs of cheat and task. 0: all."`
	Seed       uint64   `default:"1" placeholder:"S" help:"Of the sample and the chains."`
	Ecosystem  string   `enum:",python,javascript,go,rust,java,c,shell" default:"" placeholder:"NAME" help:"What the tasks are made with, where neither their keywords nor their plans tell."`
	List       bool     `help:"Print the cheats, and what they mean for the tasks if some are named; run nothing."`
	Attempts   int      `short:"k" default:"1" placeholder:"N" help:"Attempts of each cheat at each task, to measure how often one passes."`
	Concurrent int      `short:"n" default:"2" placeholder:"N" help:"Trials at once."`
	Image      string   `placeholder:"NAME" help:"Attack on this image instead of the tasks' own."`
	UID        string   `name:"uid" enum:",single,subid,root" default:"" help:"User ids in sandboxes. Default: the mode the task was proved in, else single."`
	Out        string   `short:"o" default:"${jobs}" placeholder:"DIR" help:"Folder of jobs."`
	JobName    string   `name:"job-name" placeholder:"NAME" help:"The job is DIR/NAME. Default: attack- and the time."`
	Yes        bool     `short:"y" help:"Let tasks read the host variables they name."`
	registryFlags
}

func (taskAttackCmd) Help() string {
	return `Each cheat is an agent that tries to be graded as solved without solving anything: it deletes tests, leaves
processes behind, forges reports, plants files that runners load, patches the runner from within the product,
and so on (docs/attacks.md). It knows the plan of the checks, but neither the hidden tests nor the solution.
The gold solution runs beside them. What is left is an ordinary job.

A cheat that passes is a hole, unless it is on the list of those that nothing can stop, which is printed.

Examples:
  assay task attack --list
  assay task attack tasks/fix-csv
  assay task attack tasks --classes V7 --attacks 'tell-*'
  assay task attack tasks --chains 50 --sample 100 --seed 7 --json

Exit status: 0 no cheat passed, 1 at least one did, 2 usage, 3 lost to infrastructure, 4 the gold solution
does not pass, 130 interrupted (run it again with the same --job-name).`
}

func (c *taskAttackCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	var classes []exploit.Class
	for _, w := range c.Classes {
		classes = append(classes, exploit.Class(w))
	}
	battery, err := exploit.Select(exploit.Battery(), c.Attacks, classes)
	if err != nil {
		return usage(fmt.Errorf("%w; --list names them", err))
	}
	battery = append(battery, exploit.Chains(battery, c.Chains, c.Seed)...)
	var tasks []*task.Task
	for _, p := range c.Paths {
		got, _, err := a.loadTasks(p, 0)
		if err != nil {
			return err
		}
		tasks = append(tasks, got...)
	}
	targets, err := c.targets(tasks)
	if err != nil {
		return usage(err)
	}
	if c.List {
		return a.listAttacks(g, battery, targets)
	}
	if len(tasks) == 0 {
		return usagef("which tasks? Name task directories, or --list")
	}
	if err := a.allowHostEnv(tasks, c.Yes); err != nil {
		return err
	}
	pairs := exploit.Sample(exploit.Pairs(battery, targets), c.Sample, c.Seed)
	return c.attack(ctx, a, g, tasks, pairs)
}

// targets says what an attacker knows of each task.
func (c *taskAttackCmd) targets(tasks []*task.Task) ([]exploit.Target, error) {
	var all []exploit.Target
	for _, t := range tasks {
		key := t.Key(0)
		plan, _, err := checks.Find(key.Tests)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
		if plan == nil {
			plan = &checks.Plan{}
		}
		var names []string
		for _, dir := range key.Tests {
			more, err := t.Inputs(dir)
			if err != nil {
				return nil, fmt.Errorf("task %s: %w", t.Name, err)
			}
			for _, n := range more {
				if fi, err := os.Lstat(filepath.Join(dir, n)); err == nil && fi.Mode().IsRegular() && n != checks.File && n != key.Script {
					names = append(names, filepath.ToSlash(n))
				}
			}
		}
		slices.Sort(names)
		made := exploit.Ecosystem(c.Ecosystem)
		if made == "" && t.Config.Task != nil {
			made = exploit.Spoken(t.Config.Task.Keywords)
		}
		target := exploit.NewTarget(t.Name, workdirOf(t), key.Grade == task.GradeState, made, plan, slices.Compact(names))
		target.Protected = append(target.Protected, key.Protected...)
		all = append(all, target)
	}
	return all, nil
}

// workdirOf is where a task's agent will work, as far as the task's files tell.
func workdirOf(t *task.Task) string {
	if w := t.Config.Environment.Workdir; w != "" {
		return w
	}
	b, _ := os.ReadFile(filepath.Join(t.ImageDir(), "Dockerfile")) // without one the image decides
	dir := "/"
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && strings.EqualFold(f[0], "WORKDIR") {
			dir = filepath.Join(dir, f[1])
			if filepath.IsAbs(f[1]) {
				dir = f[1]
			}
		}
	}
	return dir
}

// attack runs the pairs as one job, gold beside them, and judges it.
func (c *taskAttackCmd) attack(ctx *boundCtx, a *app, g *grammar, tasks []*task.Task, pairs []exploit.Pair) error {
	name := c.JobName
	if name == "" {
		name = "attack-" + time.Now().Format("20060102-150405")
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return usagef("--job-name %q: must be one name without a leading dot", name)
	}
	dir, err := filepath.Abs(filepath.Join(c.Out, name))
	if err != nil {
		return err
	}
	arms, err := attackArms(dir, pairs)
	if err != nil {
		return err
	}
	arms = append([]job.Arm{{Spec: "oracle", Agent: oracle.New()}}, arms...)
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	cfg := job.Config{Dir: dir, Tasks: tasks, Arms: arms, Attempts: max(1, c.Attempts), Concurrent: c.Concurrent, Image: c.Image, UID: sandbox.UIDMode(c.UID), AgentLimit: attackLimit}
	if err := a.runQuietly(ctx, g, r, cfg, c.registryFlags); err != nil {
		return err
	}
	v, err := store.Read(dir)
	if err != nil {
		return err
	}
	return a.printAttacks(g, v, pairs)
}

// attackLimit bounds a cheat's own time: what it leaves behind is what counts.
const attackLimit = 60 * time.Second

// runQuietly runs a job without its table.
func (a *app) runQuietly(ctx *boundCtx, g *grammar, r *rooms, cfg job.Config, f registryFlags) error {
	deps, err := a.deps(g, r, cfg.Dir)
	if err != nil {
		return err
	}
	a.collectLess()
	if deps.Fetch, err = a.fetcher(g, r.images, f); err != nil {
		return err
	}
	p := a.progress(false)
	deps.OnEvent = p.event
	_, err = job.Run(ctx, cfg, deps)
	p.done()
	if errors.Is(err, job.ErrChanged) || errors.Is(err, store.ErrLocked) {
		return usage(err)
	}
	if err != nil {
		return fmt.Errorf("job %s: %w", cfg.Dir, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// attackArms makes an arm of each cheat that is for the tasks it was drawn for.
// Its scripts are kept beside the job, so that it can be resumed and read.
func attackArms(dir string, pairs []exploit.Pair) ([]job.Arm, error) {
	var arms []job.Arm
	at := map[string]int{}
	texts := map[string]*strings.Builder{}
	for _, p := range pairs {
		id := p.Attack.ID
		if _, ok := at[id]; !ok {
			at[id] = len(arms)
			texts[id] = &strings.Builder{}
			arms = append(arms, job.Arm{Spec: id})
		}
		arm := &arms[at[id]]
		arm.Tasks = append(arm.Tasks, p.Target.Task)
		texts[id].WriteString(attackSteps(p))
	}
	home := filepath.Join(filepath.Dir(dir), ".attacks", filepath.Base(dir))
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	for i := range arms {
		arm := &arms[i]
		text := []byte(texts[arm.Spec].String())
		file := filepath.Join(home, arm.Spec+".sh")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
		var err error
		if arm.Agent, err = script.New(file, text); err != nil {
			return nil, fmt.Errorf("cheat %s: %w", arm.Spec, err)
		}
		arm.From = "script:" + file
		if arm.Options, err = nameOption(arm.Spec); err != nil {
			return nil, err
		}
	}
	return arms, nil
}
