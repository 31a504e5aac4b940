package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/draft"
	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/job"
	"assay/task"
)

// draftFlags are those of commands that run gold to write a plan.
type draftFlags struct {
	Step       string `placeholder:"NAME" help:"The step, of a task of several."`
	Image      string `placeholder:"NAME" help:"Run on this image instead of the task's own."`
	Concurrent int    `short:"n" default:"2" placeholder:"N" help:"Trials at once."`
	Yes        bool   `short:"y" help:"Let the task read the host variables it names."`
	registryFlags
}

// drafting opens what runs of gold take; done closes it.
func (a *app) drafting(ctx *boundCtx, g *grammar, t *task.Task, f draftFlags) (c draft.Config, deps job.Deps, done func(), err error) {
	if err := a.allowHostEnv([]*task.Task{t}, f.Yes); err != nil {
		return c, deps, nil, err
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return c, deps, nil, err
	}
	tmp, err := r.images.Private()
	if err != nil {
		return c, deps, nil, errors.Join(err, r.Close())
	}
	done = func() { tmp.Close(); r.Close() }
	if deps, err = a.deps(g, r, ""); err != nil {
		done()
		return c, deps, nil, err
	}
	if deps.Fetch, err = a.fetcher(g, r.images, f.registryFlags); err != nil {
		done()
		return c, deps, nil, err
	}
	arms := proofAgents()
	return draft.Config{
		Dir: string(tmp.Path("draft")), Step: f.Step, Image: f.Image, Concurrent: f.Concurrent, Gold: arms.Gold, Idle: arms.Idle, Said: a.say,
	}, deps, done, nil
}

type checksInitCmd struct {
	Path    string            `arg:"" help:"Task directory."`
	Line    string            `name:"run" required:"" placeholder:"LINE" help:"The shell's line that runs the tests."`
	Report  string            `required:"" placeholder:"FORMAT" help:"The format of their report (docs/test-reports.md)."`
	Files   []string          `placeholder:"PATTERN" help:"Where the report lies; repeatable. Formats that are printed need none."`
	Place   map[string]string `placeholder:"DIR=TO" help:"Lay a directory below tests/ over one of the sandbox; repeatable."`
	Name    string            `default:"unit" placeholder:"NAME" help:"The command's name in the plan."`
	Timeout float64           `placeholder:"SEC" help:"The command's own limit."`
	Gold    int               `default:"3" placeholder:"N" help:"Runs of the gold solution."`
	Idle    int               `default:"2" placeholder:"N" help:"Runs with nothing done."`
	Force   bool              `short:"f" help:"Replace a plan that is there, and a test.sh that was not made of one."`
	draftFlags
}

func (checksInitCmd) Help() string {
	return `Runs the tests on the gold solution and on the untouched state, each several times in fresh copies, and writes
tests/checks.toml with what passes with gold alone (fail-to-pass) and what passes always (pass-to-pass). Tests that pass
sometimes are left out and named. test.sh is made of the plan, unless somebody wrote one.

Example:
  assay task checks init tasks/fix-csv --place repo=. --report pytest --files /tmp/report.xml \
    --run 'python3 -m pytest -o junit_family=xunit1 --junitxml=/tmp/report.xml tests'

Exit status: 0, 1 broke, 2 usage, 4 when no test fails before the work and passes after it.`
}

// inlined is how many ids of a list stand in the plan itself.
const inlined = 50

func (c *checksInitCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	tests := filepath.Join(c.Path, "tests")
	if c.Step != "" {
		tests = filepath.Join(c.Path, "steps", c.Step, "tests")
	}
	at := filepath.Join(tests, checks.File)
	if _, err := os.Stat(at); err == nil && !c.Force {
		return usagef("%s is there; --force replaces it", at)
	}
	if c.Gold < 1 || c.Idle < 1 {
		return usagef("--gold %d --idle %d: both run at least once", c.Gold, c.Idle)
	}
	t, err := loadScriptless(c.Path, tests)
	if err != nil {
		return err
	}
	p := &checks.Plan{Version: 1, Place: c.Place, Commands: []checks.Command{{
		Name: c.Name, Run: c.Line, Report: report.Format(c.Report), Files: c.Files, TimeoutSec: c.Timeout, FailToPass: []string{"x"},
	}}}
	if b, err := p.Encode(); err != nil {
		return err
	} else if _, err := checks.Decode(b, os.DirFS(tests)); err != nil {
		return usage(err)
	}
	cfg, deps, done, err := a.drafting(ctx, g, t, c.draftFlags)
	if err != nil {
		return err
	}
	defer done()
	lists, err := draft.FillLists(ctx, t, p, c.Gold, c.Idle, cfg, deps)
	if err != nil {
		return err
	}
	l := lists[0]
	if len(l.FailToPass) == 0 {
		return gate(fmt.Errorf("no test fails before the work and passes with gold (%d always pass, %d never, %d sometimes)", len(l.PassToPass), len(l.Never), len(l.Unstable)))
	}
	if err := c.write(a, tests, p); err != nil {
		return err
	}
	if g.JSON {
		return a.emit("checks.init", map[string]any{"file": at, "fail_to_pass": l.FailToPass, "pass_to_pass": l.PassToPass, "unstable": l.Unstable, "never": l.Never})
	}
	a.say("made %s: %d fail-to-pass, %d pass-to-pass", at, len(l.FailToPass), len(l.PassToPass))
	for _, id := range l.Unstable {
		a.say("left out, it passes sometimes: %s", shown(id))
	}
	if n := len(l.Never); n > 0 {
		a.say("left out, %d that do not pass with gold, %s first", n, shown(l.Never[0]))
	}
	return nil
}

// loadScriptless loads a task that may lack the test.sh which the plan is to
// make.
func loadScriptless(path, tests string) (*task.Task, error) {
	script := filepath.Join(tests, checks.ScriptName)
	if _, err := os.Stat(script); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(script, []byte("#!/bin/sh\nexit 1 # "+checks.File+" is not there yet\n"), 0o755); err != nil {
			return nil, usage(err)
		}
		defer os.Remove(script)
	}
	t, err := task.Load(path)
	if err != nil {
		return nil, usage(err)
	}
	return t, nil
}

// write writes the plan, long lists as files of their own, and test.sh.
func (c *checksInitCmd) write(a *app, tests string, p *checks.Plan) error {
	k := &p.Commands[0]
	for _, l := range []struct {
		ids  *[]string
		file *string
		name string
	}{{&k.FailToPass, &k.FailToPassFile, ".fail-to-pass.txt"}, {&k.PassToPass, &k.PassToPassFile, ".pass-to-pass.txt"}} {
		if len(*l.ids) <= inlined {
			continue
		}
		*l.file = k.Name + l.name
		if err := os.WriteFile(filepath.Join(tests, *l.file), []byte(strings.Join(*l.ids, "\n")+"\n"), 0o644); err != nil {
			return err
		}
		*l.ids = nil
	}
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tests, checks.File), b, 0o644); err != nil {
		return err
	}
	return a.remakeScript(tests, c.Force)
}

// remakeScript makes test.sh of the plan in a tests directory, unless somebody
// wrote one.
func (a *app) remakeScript(tests string, force bool) error {
	p, err := checks.Load(tests)
	if err != nil {
		return err
	}
	at := filepath.Join(tests, checks.ScriptName)
	if old, err := os.ReadFile(at); err == nil && !checks.IsScript(old) && !force {
		a.say("note: %s was not made of the plan and stays; 'assay task checks script --write --force' replaces it", at)
		return nil
	}
	b, err := p.Script()
	if err != nil {
		a.say("note: Harbor cannot grade this as assay does: %v", err)
		return nil
	}
	if err := os.WriteFile(at, b, 0o755); err != nil {
		return err
	}
	return os.Chmod(at, 0o755)
}

type checksCanariesCmd struct {
	Path  string `arg:"" help:"Task directory."`
	Seed  int64  `default:"1" placeholder:"N" help:"Of the order in which candidates are tried."`
	Each  int    `default:"3" placeholder:"N" help:"Canaries wanted of each command; each test file and fail-to-pass test gets one at least."`
	Tries int    `default:"60" placeholder:"N" help:"Runs with candidates at most; four times as many while a command has no canary."`
	draftFlags
}

func (checksCanariesCmd) Help() string {
	return `Changes literals in the assertions of the test files (numbers, texts, truth values), in all fail-to-pass tests at the same
time, then one at a time, and runs them with the gold solution in a fresh copy. Kept are those with which some of the expected tests fail and no other test changes; they
are written into the plan. Test files may be of Python, JavaScript, TypeScript, Go, Rust, Java, Kotlin, C, C++, shell or
Perl. Canaries that the plan has stay.

Example:
  assay task checks canaries tasks/fix-csv

Exit status: 0, 1 broke, 2 usage, 4 when a command has fewer than it wants and a test file has none.`
}

func (c *checksCanariesCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := planOf(c.Path, c.Step)
	if err != nil {
		return err
	}
	t, err := loadScriptless(c.Path, s.dir)
	if err != nil {
		return err
	}
	cfg, deps, done, err := a.drafting(ctx, g, t, c.draftFlags)
	if err != nil {
		return err
	}
	defer done()
	cfg.Step = s.step
	caught, tried, err := draft.Canaries(ctx, t, s.plan, draft.Hunt{Seed: c.Seed, PerCommand: c.Each, Tries: c.Tries, Spread: true}, cfg, deps)
	if err != nil {
		return err
	}
	add := map[string][]checks.Canary{}
	for _, k := range caught {
		add[k.Command] = k.Canaries
	}
	at := filepath.Join(s.dir, checks.File)
	text, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	if text, err = checks.WithCanaries(text, add, os.DirFS(s.dir)); err != nil {
		return err
	}
	if err := os.WriteFile(at, text, 0o644); err != nil {
		return err
	}
	if err := a.remakeScript(s.dir, false); err != nil {
		return err
	}
	return c.tell(a, g, caught, tried)
}

func (c *checksCanariesCmd) tell(a *app, g *grammar, caught []draft.Caught, tried int) error {
	few := false
	for _, k := range caught {
		few = few || len(k.Canaries) == 0 || len(k.Canaries) < c.Each && len(k.Files) > 0
		if g.JSON {
			if err := a.emit("checks.canaries", map[string]any{"command": k.Command, "canaries": len(k.Canaries), "files_without": k.Files, "tests_without": k.Tests, "tried": tried}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.Stdout, "%s: %d canaries, after %d runs with candidates\n", k.Command, len(k.Canaries), tried)
		for _, f := range k.Files {
			fmt.Fprintf(a.Stdout, "  none in tests/%s\n", shown(f))
		}
		for _, id := range k.Tests {
			fmt.Fprintf(a.Stdout, "  none of %s, which work may forge unseen\n", shown(id))
		}
	}
	if few {
		return gate(nil)
	}
	return nil
}
