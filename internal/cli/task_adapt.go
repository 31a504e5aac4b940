package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/egress"
	"assay/internal/foreign"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/task"
)

type adaptFlags struct {
	Network   string   `enum:"none,allowlist,full" default:"none" help:"The most network that is tried: none, an allow-list (the task's own hosts and --allow-host), or full."`
	AllowHost []string `name:"allow-host" placeholder:"HOST" help:"Let gold, the verifier and its installation reach a host, as in 'assay run'; repeatable. Without --network it means --network allowlist."`
	Image     string   `placeholder:"NAME" help:"Run on this image instead of the task's own."`
	UID       string   `name:"uid" enum:",single,subid,root" default:"" help:"User ids in sandboxes. Default: single."`
	Yes       bool     `short:"y" help:"Let tasks read the host variables they name."`
	registryFlags
}

type taskAdaptCmd struct {
	Paths  []string `arg:"" name:"path" help:"Task directories, or directories of them."`
	DryRun bool     `name:"dry-run" help:"Say what would be pinned; change nothing."`
	NoSeal bool     `name:"no-seal" help:"Do not seal what a verifier installs; pin the network instead."`
	adaptFlags
}

func (taskAdaptCmd) Help() string {
	return `For tasks that were written for weaker rules. Gold runs in the strictest modes first: a sealed copy offline,
then with a network for the verifier, for both, and at last a live verifier; the first pair in which gold passes twice and
doing nothing fails is pinned in task.toml, which is the only thing that changes there (its digest with it). Where only
what the verifier installs needs the network, that is sealed into a layer (as 'assay task seal' does) and the task stays
offline.

Examples:
  assay task adapt foreign-tasks --network full
  assay task adapt foreign-tasks/build-nginx --allow-host deb.example.org --dry-run --json

Exit status: 0 all adapted, 1 broke, 2 usage, 4 gold passes in no mode that was tried.`
}

type taskSealCmd struct {
	Paths []string `arg:"" name:"path" help:"Task directories, or directories of them."`
	adaptFlags
}

func (taskSealCmd) Help() string {
	return `Runs a verifier once with a network where nothing has been solved, keeps what it installed as a layer of the
store, and grades offline with that layer from then on: downloads and package managers say again what they said, and
install what is there already. Then gold must pass and doing nothing must fail, offline. seal.json is written beside
task.toml and is no part of the task's digest.

The installation reaches this machine's package mirrors, as RUN of a Dockerfile does, and --allow-host; --network full
lets it reach everything public.

Example:
  assay task seal foreign-tasks/build-nginx --allow-host astral.sh --allow-host github.com

Exit status: 0 sealed, or nothing to seal, 1 broke, 2 usage, 4 not gradable offline even so.`
}

func (c *taskAdaptCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	return a.adapt(ctx, g, c.Paths, c.adaptFlags, func(ctx context.Context, cfg foreign.Config, deps job.Deps) (foreign.Adapted, error) {
		cfg.Write = !c.DryRun
		if c.NoSeal || c.DryRun {
			cfg.Seal = nil
		}
		return foreign.Adapt(ctx, cfg, deps)
	})
}

func (c *taskSealCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	return a.adapt(ctx, g, c.Paths, c.adaptFlags, foreign.SealTask)
}

type adapter func(ctx context.Context, cfg foreign.Config, deps job.Deps) (foreign.Adapted, error)

// adapt does one thing with each task, tells of it, and fails as a gate does
// where gold does not pass.
func (a *app) adapt(ctx *boundCtx, g *grammar, paths []string, f adaptFlags, do adapter) error {
	var tasks []*task.Task
	for _, p := range paths {
		got, _, err := a.loadTasks(p, 0)
		if err != nil {
			return err
		}
		tasks = append(tasks, got...)
	}
	if err := a.allowHostEnv(tasks, f.Yes); err != nil {
		return err
	}
	network := sandbox.Network(f.Network)
	if len(f.AllowHost) > 0 && network == sandbox.NetNone {
		network = sandbox.NetAllowlist
	}
	if _, err := egress.ParseRules(f.AllowHost, true); err != nil {
		return usage(err)
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	tmp, err := r.images.Private()
	if err != nil {
		return err
	}
	defer tmp.Close()
	deps, err := a.deps(g, r, "")
	if err != nil {
		return err
	}
	if deps.Fetch, err = a.fetcher(g, r.images, f.registryFlags); err != nil {
		return err
	}
	buildNetwork := ""
	if network == sandbox.NetFull {
		buildNetwork = f.Network
	}
	b, err := a.builder(g, r, buildNetwork, f.AllowHost)
	if err != nil {
		return err
	}
	failed := 0
	for i, t := range tasks {
		dir := string(tmp.Path(fmt.Sprintf("adapt-%d", i)))
		cfg := foreign.Config{
			Task: t, Dir: dir, Image: f.Image, UID: sandbox.UIDMode(f.UID), Network: network, AllowHosts: f.AllowHost,
			Gold: job.Arm{Spec: "oracle", Agent: oracle.New()}, Idle: job.Arm{Spec: "nop", Agent: nop.New()},
			Tell: func(x foreign.Tried) { a.say("%s: %s: gold %s %s", t.Name, x.Pair, x.Gold, x.Why) },
			Seal: func(ctx context.Context, im image.Image) error {
				context := filepath.Join(dir, "seal")
				if err := os.MkdirAll(context, 0o755); err != nil {
					return err
				}
				_, err := foreign.MakeSeal(ctx, foreign.SealConfig{Task: t, Image: im, Store: r.images, Build: b.job, Env: deps.Env, Dir: image.HostPath(context), By: deps.Version})
				return err
			},
		}
		out, err := do(ctx, cfg, deps)
		if err != nil {
			return err
		}
		if out.Pinned == nil {
			failed++
		}
		if g.JSON {
			if err := a.emit("adapted", out); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(a.Stdout, adaptedWords(out))
	}
	if failed > 0 {
		return gate(nil)
	}
	return nil
}

func adaptedWords(o foreign.Adapted) string {
	s := o.Task + ": "
	switch {
	case o.Pinned == nil:
		s += "gold passes in none of the modes that were tried"
	case o.Sealed:
		s += o.Pinned.String() + ", what its verifier installs is sealed"
	default:
		s += o.Pinned.String()
	}
	if o.Wrote {
		s += "; written into task.toml"
	}
	for _, n := range o.Notes {
		s += "\n  " + shown(n)
	}
	return s
}
