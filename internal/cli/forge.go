package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/forge"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/label"
	"assay/internal/repo"
	"assay/internal/repo/setup"
	"assay/task"
)

type forgeCmd struct {
	All     forgeAllCmd     `cmd:"" help:"Set a repository up and make a set of every kind of task, by a mix."`
	History forgeHistoryCmd `cmd:"" help:"Tasks of commits of the past: fixes that were really made."`
	Mutate  forgeMutateCmd  `cmd:"" help:"Tasks of bugs put into the code, as people make them."`
	Invert  forgeInvertCmd  `cmd:"" help:"Tasks of faults put into the environment."`
}

// forgeFlags are those of every forge.
type forgeFlags struct {
	Repo       string        `arg:"" name:"repo" help:"A repository (directory or URL), which is set up first, or a directory with environment.json that 'assay repo setup' made."`
	Out        string        `short:"o" required:"" placeholder:"DIR" help:"The set: task directories lie directly in it, all else in DIR/.forge. Run it again with the same DIR to go on."`
	Limit      int           `placeholder:"N" help:"Tasks in all at most, those of earlier runs included."`
	For        time.Duration `placeholder:"DURATION" help:"After this time (90s, 2h) nothing new is begun; what is under way is finished."`
	Seed       uint64        `default:"1" placeholder:"S" help:"Equal seeds propose equal candidates."`
	TestBudget int           `default:"30" placeholder:"N" help:"Tests of a task's runs: those that fail, those that cover the change, and a sample. 0: the whole suite."`
	Canaries   int           `default:"8" placeholder:"N" help:"Runs of the suite, once, with changed expectations in its tests, so that tasks have canaries. 0: none."`
	Hints      int           `placeholder:"N" help:"Hints in each statement, from vague to plain."`
	Concurrent int           `short:"n" default:"2" placeholder:"N" help:"Trials at once."`
	Git        string        `placeholder:"DIR" help:"A clone with the history. Default: the repository itself, or a clone of the URL."`
	Plan       bool          `help:"Try a few candidates of each generator, then print the yields and when it would end. What was tried counts."`
	Probe      int           `default:"6" placeholder:"N" help:"With --plan: candidates of each generator."`
	Images     bool          `default:"true" negatable:"" help:"Write the healthy image once below DIR/.forge/images, so that another machine runs the set."`
	Push       string        `placeholder:"NAME" help:"Send the healthy image to a registry under this name, too."`
	Branch     string        `placeholder:"NAME" help:"Branch or tag of a URL."`
	Subdir     string        `placeholder:"DIR" help:"Of a monorepo: the part that is built and tested."`
	registryFlags
}

const forgeExit = `
Exit status: 0 done, 1 broke, 2 usage, 3 some candidates were lost to infrastructure, 4 fewer tasks than asked for, 130
interrupted (run it again).`

type forgeAllCmd struct {
	forgeFlags
	Mix    map[string]int `default:"history=20,mutate=40,invert=40" mapsep:"," placeholder:"NAME=N,…" help:"Admitted tasks wanted of each generator."`
	Issues string         `placeholder:"FILE" help:"An export of issues (GitHub, GitLab, Jira; JSON), for statements of history."`
	Since  string         `placeholder:"DATE" help:"Commits of before do not count: 2026-01-31."`

	HideTests bool `help:"Of bugs: keep the files of the tests that fail from the agent; they come at grading. Tasks are larger by these files."`
}

func (forgeAllCmd) Help() string {
	return `From a repository to a proved set, without a model: sets the repository up, lets all generators propose side by side, looks
at what each candidate breaks, and admits what is proved (as 'assay task prove' does, leaks included). Everything is kept
by content in DIR/.forge: run it again, also after it was killed, and nothing is proved twice. The funnel is in
DIR/.forge/forge.json.

Examples:
  assay forge all ../my-project -o tasks/my-project
  assay forge all https://git.example/team/project.git -o tasks/p --mix history=20,mutate=40,invert=40 --limit 100
  assay forge all ../my-project -o tasks/my-project --plan
  assay run -p tasks/my-project -a oracle -a nop
` + forgeExit
}

func (c *forgeAllCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	want, err := shares(c.Mix, c.Limit)
	if err != nil {
		return usage(err)
	}
	return c.forge(ctx, a, g, want, forgeOptions{issues: c.Issues, since: c.Since, mix: c.Mix, hideTests: c.HideTests})
}

// shares are the tasks wanted of each generator: the mix, made smaller in
// proportion where it comes to more than the limit.
func shares(mix map[string]int, limit int) (map[string]int, error) {
	sum := 0
	for name, n := range mix {
		if n < 0 {
			return nil, fmt.Errorf("--mix %s=%d: a number of tasks", name, n)
		}
		sum += n
	}
	if sum == 0 {
		return nil, errors.New("--mix asks for no task")
	}
	if limit <= 0 || sum <= limit {
		return mix, nil
	}
	want, left := map[string]int{}, limit
	names := slices.Sorted(maps.Keys(mix))
	for _, name := range names {
		want[name] = mix[name] * limit / sum
		left -= want[name]
	}
	// What rounding took most of gets what is left over.
	slices.SortStableFunc(names, func(a, b string) int { return mix[b]*limit%sum - mix[a]*limit%sum })
	for _, name := range names[:left] {
		want[name]++
	}
	return want, nil
}

type forgeHistoryCmd struct {
	forgeFlags
	Issues string `placeholder:"FILE" help:"An export of issues (GitHub, GitLab, Jira; JSON), for statements."`
	Since  string `placeholder:"DATE" help:"Commits of before do not count, against contamination: 2026-01-31."`
}

func (forgeHistoryCmd) Help() string {
	return `Mines commits and merges that change code and tests: the tests of the commit must fail without its code and pass with it.

Example:
  assay forge history ../my-project -o tasks/h --limit 20 --since 2026-01-01 --issues issues.json
` + forgeExit
}

func (c *forgeHistoryCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	return c.forge(ctx, a, g, map[string]int{"history": c.Limit}, forgeOptions{issues: c.Issues, since: c.Since})
}

type forgeInvertCmd struct {
	forgeFlags
}

func (forgeInvertCmd) Help() string {
	return `Breaks the environment on purpose, with an exact inverse: dependencies, configuration, files, tools, sessions.

Example:
  assay forge invert ../my-project -o tasks/i --limit 40 --hints 1
` + forgeExit
}

func (c *forgeInvertCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	return c.forge(ctx, a, g, map[string]int{"invert": c.Limit}, forgeOptions{})
}

// forge sets up what is missing, runs the generators and tells what came of it.
func (c *forgeFlags) forge(ctx *boundCtx, a *app, g *grammar, want map[string]int, o forgeOptions) error {
	if c.Concurrent < 1 || c.TestBudget < 0 || c.Limit < 0 || c.Probe < 1 || c.For < 0 {
		return usagef("-n and --probe are at least 1; --limit, --for and --test-budget are not negative")
	}
	out, err := filepath.Abs(c.Out)
	if err != nil {
		return err
	}
	env, err := c.environment(ctx, a, g, out)
	if err != nil {
		return err
	}
	clone := ""
	if _, ok := want["history"]; ok {
		if clone, err = c.clone(ctx, a, out, env); err != nil {
			return err
		}
		if clone == "" && len(o.mix) > 1 { // the others make what it cannot
			rest := maps.Clone(o.mix)
			delete(rest, "history")
			if want, err = shares(rest, c.Limit); err != nil {
				return usage(err)
			}
		}
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	deps, err := a.deps(g, r, "")
	if err != nil {
		return err
	}
	o.concurrent = c.Concurrent
	gens, done, err := a.generators(ctx, g, r, env, want, o)
	if err != nil {
		return err
	}
	defer done()
	cfg := forge.Config{Dir: out, Env: env, Git: clone, Generators: gens, Want: want, Seed: c.Seed, TestBudget: c.TestBudget, Canaries: c.Canaries, Hints: c.Hints, HideTests: o.hideTests,
		Concurrent: c.Concurrent, For: c.For, Deps: deps, Arms: proofAgents(), Lines: image.HostPath(filepath.Join(string(r.images.Root()), "lines")), Say: a.say}
	cfg.GitProgram, _ = exec.LookPath("git") // without it, notes say what was not looked at
	if c.Plan {
		cfg.Probe = c.Probe
	}
	cfg.Label = func(t *task.Task) (map[string]any, error) {
		l, err := label.OfTask(t)
		return l.Table(), err
	}
	begin := time.Now()
	cfg.OnRecord = func(rec forge.Record) { a.forged(g, rec, time.Since(begin)) }
	rep, err := forge.Run(ctx, cfg)
	if rep != nil {
		if perr := a.printFunnel(g, rep, c.Plan); err == nil {
			err = perr
		}
	}
	if err != nil {
		return err
	}
	if err := c.ship(ctx, a, g, r, env, out); err != nil {
		return err
	}
	return c.judge(rep, want)
}

// judge says whether what was asked for is there, and if not, why.
func (c *forgeFlags) judge(rep *forge.Report, want map[string]int) error {
	if rep.Lost > 0 {
		return partial(fmt.Errorf("%d candidates were lost to infrastructure; run it again", rep.Lost))
	}
	var short []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		f, n := rep.Generators[name], max(want[name], 1) // 0: as many as there are, at least one
		if c.Plan || f.Standing >= n {
			continue
		}
		why := "it has no more"
		if c.For > 0 && !f.Ended {
			why = fmt.Sprintf("the time of %s is over: run it again and it goes on", c.For)
		}
		short = append(short, fmt.Sprintf("%s: %d tasks, wanted %d, and %s", name, f.Standing, n, why))
	}
	if len(short) > 0 {
		return gate(errors.New(strings.Join(short, "; ")))
	}
	return nil
}

// environment is the healthy one: that of a directory, or made now.
func (c *forgeFlags) environment(ctx *boundCtx, a *app, g *grammar, out string) (*repo.Environment, error) {
	if _, err := os.Stat(filepath.Join(c.Repo, repo.EnvironmentFile)); err == nil {
		return repo.ReadEnvironment(c.Repo)
	}
	dir := filepath.Join(out, forge.Home, "repo")
	if _, err := os.Stat(filepath.Join(dir, repo.EnvironmentFile)); err == nil {
		env, err := repo.ReadEnvironment(dir)
		if err == nil && a.inStore(g, env.Image) {
			return env, nil
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := repoSetupCmd{Source: c.Repo, Out: dir, Branch: c.Branch, Subdir: c.Subdir, Runs: 3, TestTimeout: 10 * time.Minute, BuildTimeout: 20 * time.Minute,
		Budget: time.Hour, Attempts: 12, MaxFiles: 50_000, Coverage: true}
	cfg, done, err := s.config(ctx, a, g)
	if err != nil {
		return nil, err
	}
	defer done()
	a.say("set up %s", c.Repo)
	return setup.Run(ctx, cfg)
}

func (a *app) inStore(g *grammar, name string) bool {
	s, err := a.openStore(g)
	if err != nil {
		return false
	}
	defer s.Close()
	_, err = s.Resolve(name)
	return err == nil
}

// clone is a local repository with the history; empty: there is none.
func (c *forgeFlags) clone(ctx context.Context, a *app, out string, env *repo.Environment) (string, error) {
	if c.Git != "" {
		return filepath.Abs(c.Git)
	}
	url := env.Source.URL
	if _, ok := repo.Scheme(c.Repo); ok {
		url = c.Repo
	} else if _, err := os.Stat(filepath.Join(c.Repo, repo.EnvironmentFile)); err != nil {
		g, err := repo.OpenGit(ctx, c.Repo, "")
		if errors.Is(err, repo.ErrNoGit) {
			a.say("history: %s is no repository of git; --git names one", c.Repo)
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if err := g.Close(); err != nil {
			return "", err
		}
		return filepath.Abs(c.Repo)
	}
	if url == "" {
		a.say("history: %s tells of no repository; --git names a clone", c.Repo)
		return "", nil
	}
	dir := filepath.Join(out, forge.Home, "history.git")
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		return dir, nil
	}
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := repo.CloneGit(ctx, repo.CloneConfig{URL: url, Dir: tmp, Branch: c.Branch, Env: a.gitEnv()}); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// ship writes the healthy image beside the tasks, once, and sends it.
func (c *forgeFlags) ship(ctx *boundCtx, a *app, g *grammar, r *rooms, env *repo.Environment, out string) error {
	if c.Plan {
		return nil
	}
	im, err := r.images.Resolve(env.Image)
	if err != nil {
		return err
	}
	if c.Push != "" {
		client, end, err := a.registry(g, r.images, c.registryFlags, true)
		if err != nil {
			return err
		}
		p, err := client.Push(ctx, im, c.Push)
		end()
		if err != nil {
			return err
		}
		if err := job.RecordPushed(out, im, p.Ref); err != nil {
			return err
		}
		a.say("%s is %s", env.Image, p.Ref)
	}
	if !c.Images || len(im.Binds) > 0 {
		return nil
	}
	dir := filepath.Join(out, filepath.FromSlash(job.ShippedDir), job.ShippedName(env.Image))
	if _, err := os.Stat(filepath.Join(dir, job.LayersFile)); err == nil {
		return nil
	}
	a.say("write %s below %s", env.Image, filepath.Join(c.Out, filepath.FromSlash(job.ShippedDir)))
	return job.Ship(ctx, r.images, im, image.HostPath(dir))
}

// forged tells of one candidate.
func (a *app) forged(g *grammar, rec forge.Record, since time.Duration) {
	if g.JSON {
		_ = a.emit("forge.candidate", rec) // stdout that is gone is seen at the end
		return
	}
	at := strconv.FormatFloat(since.Seconds(), 'f', 0, 64) + "s"
	if rec.Stage == forge.StageAdmitted {
		a.say("%6s  %s  admitted: %d tests fail, %d keep passing, %s", at, rec.Task, rec.Fail, rec.Pass, size(rec.Bytes))
		return
	}
	a.say("%6s  %s  %s  %s: %s", at, rec.Generator, rec.Name, rec.Why, firstLine(rec.Detail))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 160 {
		s = strings.ToValidUTF8(s[:157], "") + "…"
	}
	return s
}
