package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"assay/internal/repo"
	"assay/internal/sandbox"
)

type repoSuiteCmd struct {
	Dir      string        `arg:"" help:"Directory with an environment.json."`
	Runs     int           `short:"k" default:"3" placeholder:"N" help:"Runs that stability rests on."`
	Limit    time.Duration `default:"10m" placeholder:"DURATION" help:"End of one run of one command."`
	Budget   time.Duration `default:"30m" placeholder:"DURATION" help:"End of everything: what is not done by then is said."`
	Seed     uint64        `placeholder:"N" help:"Of the orders of tests and of hashes."`
	Coverage bool          `default:"true" negatable:"" help:"Find out what each test covers."`
	Variants bool          `default:"true" negatable:"" help:"Try what might cure tests that fail: another user, time zone, locale, home directory, a display."`
	Write    bool          `help:"Put the result into environment.json in place of the suite that it has."`
}

func (repoSuiteCmd) Help() string {
	return `Runs the suite of an environment again: several times, each time in a fresh copy of the healthy image and without network, in
another order where the runner can. Prints which tests are stable, what is wrong with the others, and what the tests cover.

Examples:
  assay repo suite forge-shop
  assay repo suite forge-shop -k 10 --budget 2h --write
  assay --json repo suite forge-shop --no-coverage

Exit status: 0, 1 no test passes in every run, 2 usage, 130 interrupted.`
}

func (c *repoSuiteCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	if c.Runs < 1 || c.Limit <= 0 || c.Budget <= 0 {
		return usagef("--runs is at least 1, --limit and --budget are more than nothing")
	}
	env, err := repo.ReadEnvironment(c.Dir)
	if err != nil {
		return usage(err)
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	s, err := c.again(ctx, a, r, env)
	var none *repo.SuiteError
	if err != nil && !errors.As(err, &none) {
		return err
	}
	again, ferr := suiteAgain(env.Suite, s)
	if ferr != nil {
		return fmt.Errorf("%s: %w", filepath.Join(c.Dir, repo.EnvironmentFile), ferr)
	}
	env.Suite = again
	if c.Write && none == nil {
		if err := repo.WriteEnvironment(c.Dir, env); err != nil {
			return err
		}
	}
	return errors.Join(a.showSuite(g, env, "repo.suite"), err)
}

// again runs the suite of an environment whose image is in the store.
func (c *repoSuiteCmd) again(ctx context.Context, a *app, r *rooms, env *repo.Environment) (repo.Suite, error) {
	name := env.Image
	im, err := r.resolve(ctx, name)
	if err != nil {
		return repo.Suite{}, err
	}
	cfg := repo.SuiteConfig{Backend: r.backend, Image: im, Workdir: env.Workdir, Commands: env.Suite.Commands, Runs: c.Runs, Seed: c.Seed, Limit: c.Limit,
		Budget: c.Budget, UID: sandbox.UIDMode(env.UIDMode), User: env.User, NoCoverage: !c.Coverage, NoVariants: !c.Variants, Say: a.say}
	return repo.RunSuite(ctx, cfg)
}

// suiteAgain keeps what people may have written into a suite.
func suiteAgain(before, now repo.Suite) (_ repo.Suite, err error) {
	if len(before.TestFiles) > 0 {
		now.TestFiles, err = now.WithTests(before.TestFiles)
	}
	return now, err
}

type repoShowCmd struct {
	Dir   string `arg:"" help:"Directory with an environment.json."`
	Tests bool   `help:"One line a test: its stability, time, how many files it covers, its id."`
}

func (repoShowCmd) Help() string {
	return `Shows an environment that assay repo setup made: its source, its healthy image, its suite and what is wrong with it.

Examples:
  assay repo show forge-shop
  assay repo show forge-shop --tests
  assay --json repo show forge-shop

Exit status: 0, 2 usage: no environment is there, or it is not right.`
}

func (c *repoShowCmd) Run(a *app, g *grammar) error {
	env, err := repo.ReadEnvironment(c.Dir)
	if err != nil {
		return usage(err)
	}
	if !g.JSON {
		w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "environment\t%s\nimage\t%s\nworking directory\t%s\nlanguages\t%v\nbuild system\t%s\n", env.Name, env.Image, path.Join(env.Workdir, env.Subdir), env.Languages, env.System)
		if env.Source.Commit != "" {
			fmt.Fprintf(w, "commit\t%s\n", env.Source.Commit)
		}
		if env.Source.Licence != "" {
			fmt.Fprintf(w, "licence\t%s\n", env.Source.Licence)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if err := a.showSuite(g, env, "repo.environment"); err != nil || !c.Tests || g.JSON {
		return err
	}
	return showTests(a.Stdout, env.Suite)
}

// showSuite prints a row for each command and the findings.
func (a *app) showSuite(g *grammar, env *repo.Environment, kind string) error {
	s := env.Suite
	if g.JSON {
		return a.emit(kind, env)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "command\treport\tstable\tflaky\tfailing\tskipped\tcovered\twith its build\t")
	for _, c := range s.Commands {
		n := map[repo.Stability]int{}
		covered := 0
		for _, t := range s.Tests {
			if t.Command != c.Name {
				continue
			}
			n[t.Stability]++
			if t.Stability == repo.Stable && t.Covers != nil {
				covered++
			}
		}
		report := string(c.Report)
		if report == "" {
			report = "(exit status)"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f s\t\n", c.Name, report, n[repo.Stable], n[repo.Flaky], n[repo.Failing], n[repo.Skipped], covered, c.BaselineMillis/1000)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%d runs, %.1f s a run; tests cover %d files\n", s.Runs, s.Millis/1000, len(s.Files))
	for _, f := range s.Findings {
		fmt.Fprintln(a.Stdout, f)
		for _, id := range f.Tests {
			fmt.Fprintln(a.Stdout, "    "+id)
		}
		if more := f.Count - len(f.Tests); more > 0 && len(f.Tests) > 0 {
			fmt.Fprintf(a.Stdout, "    and %d more\n", more)
		}
	}
	return nil
}

func showTests(out io.Writer, s repo.Suite) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	tests := slices.Clone(s.Tests)
	slices.SortStableFunc(tests, func(a, b repo.Test) int { return int(b.Millis*1000) - int(a.Millis*1000) })
	for _, t := range tests {
		covers := "?"
		if t.Covers != nil {
			covers = fmt.Sprint(len(t.Covers))
		}
		fmt.Fprintf(w, "%s\t%.1f ms\t%s files\t%s\n", t.Stability, t.Millis, covers, t.Global())
	}
	return w.Flush()
}
