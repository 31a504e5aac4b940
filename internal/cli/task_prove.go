package cli

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"assay/internal/agent/command"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/grade/checks"
	"assay/internal/grade/exploit"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/proof"
	"assay/internal/sandbox"
	"assay/task"
)

type taskProveCmd struct {
	Paths      []string `arg:"" name:"path" help:"Task directories, or directories of them."`
	Level      string   `enum:"quick,full" default:"quick" help:"quick, for every task; full also tries the whole battery of cheats (see 'assay task attack') on a sample of each class of verifiers."`
	Sample     int      `placeholder:"N" help:"At the full level: tasks of each class that are attacked. Default: one in twenty, at least one."`
	Chains     int      `default:"20" placeholder:"N" help:"At the full level: chains of two or three cheats besides."`
	Seed       uint64   `default:"1" placeholder:"S" help:"Of the sample and the chains."`
	Quarantine bool     `help:"Put checks that gold passes only sometimes into tests/quarantine.txt, and prove again."`
	Gold       int      `placeholder:"N" help:"Runs of the gold solution. Default: 2, or 5 at the full level."`
	NoLeaks    bool     `help:"Do not look for the solution in the image."`
	Concurrent int      `short:"n" default:"2" placeholder:"N" help:"Trials at once."`
	Image      string   `placeholder:"NAME" help:"Prove on this image instead of the task's own."`
	UID        string   `name:"uid" enum:",single,subid,root" default:"" help:"User ids in sandboxes; the proof says which, and the task runs in the same. Default: single."`
	Yes        bool     `short:"y" help:"Let tasks read the host variables they name."`
	registryFlags
}

func (taskProveCmd) Help() string {
	return `Gold must pass every time, doing nothing and an empty diff must fail (where the machine's state is graded, an
edit of the sources that means nothing, too), each in a fresh copy without a network. Checks that gold passes only
sometimes are named; tests/quarantine.txt takes them out of a plan's lists.
Gold may take at most half of the verifier's time and 80 % of the memory. Its lines must stand nowhere in the image's
layers, in git's objects, archives or byte code. proof.json is written beside task.toml; it is no part of the task's
digest. What is graded live or with network is never proved; a proof on the image "host" is a local one.

At the full level gold runs more often, and tasks of each verifier class (runners, shape of the plan, image, user ids)
are attacked; a class that no cheat passes is "proved (full)". A task without a check plan never is.

Examples:
  assay task prove tasks
  assay task prove tasks --level full --sample 2

Exit status: 0 all proved, 1 broke, 2 usage, 3 lost to infrastructure, 4 at least one is not sound.`
}

func (c *taskProveCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	var tasks []*task.Task
	for _, p := range c.Paths {
		got, _, err := a.loadTasks(p, 0)
		if err != nil {
			return err
		}
		tasks = append(tasks, got...)
	}
	if c.Gold < 0 {
		return usage(fmt.Errorf("--gold %d: a number of runs", c.Gold))
	}
	if err := a.allowHostEnv(tasks, c.Yes); err != nil {
		return err
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	o := proveOptions{
		config: proof.Config{Gold: c.Gold, Image: c.Image, UID: sandbox.UIDMode(c.UID), Concurrent: c.Concurrent, Leaks: !c.NoLeaks,
			Level: proof.Level(c.Level), Battery: c.battery(a, r)},
		grammar: g, registries: c.registryFlags,
	}
	proofs, err := a.prove(ctx, r, tasks, o)
	if err == nil && c.Quarantine {
		proofs, err = a.quarantine(ctx, r, tasks, proofs, o)
	}
	if err != nil {
		return err
	}
	if err := a.printProofs(g, proofs); err != nil {
		return err
	}
	for _, p := range proofs {
		if p.Level != proof.Level(c.Level) {
			return gate(nil) // sound as far as it goes, which is less than was asked for
		}
	}
	return nil
}

// battery is what the full level tries: every cheat that means something for a
// task, and chains.
func (c *taskProveCmd) battery(a *app, r *rooms) proof.Battery {
	all := exploit.Battery()
	all = append(all, exploit.Chains(all, c.Chains, c.Seed)...)
	byID := map[string]exploit.Attack{}
	for _, k := range all {
		byID[k.ID] = k
	}
	target := func(t *task.Task) (exploit.Target, error) {
		got, err := (&taskAttackCmd{}).targets([]*task.Task{t})
		if err != nil {
			return exploit.Target{}, err
		}
		return got[0], nil
	}
	return proof.Battery{
		Seed: c.Seed, Sample: c.Sample,
		Arms: func(dir string, t *task.Task) ([]job.Arm, error) {
			x, err := target(t)
			if err != nil {
				return nil, err
			}
			return attackArms(dir, exploit.Sample(exploit.Pairs(all, []exploit.Target{x}), 0, 0)) // those that mean something
		},
		Residual: func(id string, t *task.Task) string {
			x, err := target(t)
			if err != nil {
				return ""
			}
			known, _ := exploit.Known(byID[id], x)
			return known.Why
		},
		Limit: attackLimit,
	}
}

// quarantine takes unstable checks out of their tasks' lists and proves those
// tasks again, with more runs: what is left must be stable.
func (a *app) quarantine(ctx *boundCtx, r *rooms, tasks []*task.Task, proofs []proof.Proof, o proveOptions) ([]proof.Proof, error) {
	var again []*task.Task
	var at []int
	for i, p := range proofs {
		if len(p.Unstable) == 0 {
			continue
		}
		n, err := proof.Quarantine(tasks[i], p.Unstable)
		if err != nil {
			return proofs, err
		}
		a.say("note: %s: %d checks are in tests/%s", p.Task, n, checks.QuarantineFile)
		t, err := task.Load(tasks[i].Dir)
		if err != nil {
			return proofs, err
		}
		again, at = append(again, t), append(at, i)
	}
	if len(again) == 0 {
		return proofs, nil
	}
	o.config.Gold = max(o.config.Gold, 4)
	more, err := a.prove(ctx, r, again, o)
	for k, p := range more {
		proofs[at[k]] = p
	}
	return proofs, err
}

type proveOptions struct {
	config     proof.Config
	grammar    *grammar
	registries registryFlags
}

// prove runs the proof and writes proof.json beside each sound task.
func (a *app) prove(ctx *boundCtx, r *rooms, tasks []*task.Task, o proveOptions) ([]proof.Proof, error) {
	// What a killed process leaves there goes when the store is opened next,
	// and with it what the proof's jobs lease.
	tmp, err := r.images.Private()
	if err != nil {
		return nil, err
	}
	defer tmp.Close()
	deps, err := a.deps(o.grammar, r, "")
	if err != nil {
		return nil, err
	}
	if deps.Fetch, err = a.fetcher(o.grammar, r.images, o.registries); err != nil {
		return nil, err
	}
	p := a.progress(false)
	deps.OnEvent = p.event
	defer p.done()
	cfg := o.config
	cfg.Dir, cfg.Tasks, cfg.Arms = string(tmp.Path("prove")), tasks, proofAgents()
	cfg.Git, _ = exec.LookPath("git") // without it, notes say what was not looked at
	cfg.Cache = image.HostPath(filepath.Join(string(r.images.Root()), "lines"))
	return proof.Prove(ctx, cfg, deps)
}

// emptyDiff works and leaves everything as it was.
const emptyDiff = `touch .assay-empty-diff 2>/dev/null; rm -f .assay-empty-diff; ls -la`

// harmlessEdit adds an empty line to every source file that it may write.
const harmlessEdit = `find . \( -name .git -o -name node_modules \) -prune -o -type f \( -name '*.[chs]' -o -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' \
 -o -name '*.hh' -o -name '*.hpp' -o -name '*.go' -o -name '*.rs' -o -name '*.java' -o -name '*.py' -o -name '*.js' -o -name '*.ts' \) \
 -exec sh -c 'for f; do [ ! -w "$f" ] || echo >>"$f"; done' sh {} + 2>/dev/null; true`

// proofAgents are the arms of a proof.
func proofAgents() proof.Arms {
	return proof.Arms{
		Gold:     job.Arm{Spec: "oracle", Agent: oracle.New()},
		Idle:     job.Arm{Spec: "nop", Agent: nop.New()},
		Empty:    job.Arm{Spec: "empty-diff", From: "command:" + emptyDiff, Agent: command.New(emptyDiff)},
		Harmless: job.Arm{Spec: "harmless-edit", From: "command:" + harmlessEdit, Agent: command.New(harmlessEdit)},
	}
}

func (a *app) printProofs(g *grammar, proofs []proof.Proof) error {
	bad, lost := 0, 0
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	for _, p := range proofs {
		switch {
		case p.Lost:
			lost++
		case !p.Proved:
			bad++
		}
		if g.JSON {
			if err := a.emit("proof", p); err != nil {
				return err
			}
			continue
		}
		word := p.Words()
		if !p.Proved {
			word = "NOT PROVED"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", p.Task, word, shown(strings.Join(append(p.Reasons, p.Notes...), "; ")))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	switch {
	case lost > 0:
		return partial(nil)
	case bad > 0:
		return gate(nil)
	}
	return nil
}
