package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"assay/internal/grade/checks"
	"assay/task"
	"assay/trial"
)

type taskChecksCmd struct {
	Show     checksShowCmd     `cmd:"" help:"Print what a task's check plan checks, how, and by what evidence."`
	Lint     checksLintCmd     `cmd:"" help:"Check plans strictly: file, line, column and remedy for each finding."`
	Init     checksInitCmd     `cmd:"" help:"Write a plan from what passes with gold and with nothing done."`
	Canaries checksCanariesCmd `cmd:"" help:"Find canaries: changed expectations with which tests fail, and write them into the plan."`
	Support  checksSupportCmd  `cmd:"" help:"Print the file that makes a runner write its report, for a task's tests/."`
	Script   checksScriptCmd   `cmd:"" help:"Print the test.sh that grades by the plan in Harbor, or write it."`
}

func (taskChecksCmd) Help() string {
	return `A task whose tests/ hold a checks.toml is graded by it: commands, their test reports, closed lists of the checks
that must pass, canaries, cases, assertions. docs/check-plans.md has its form.`
}

// stepPlan is a check plan of a task: of a step, or of all steps that have none
// of their own.
type stepPlan struct {
	task string // its directory
	step string // empty: the task's
	dir  string // the tests directory that holds it
	plan *checks.Plan
	err  error // it cannot be read; plan is nil
}

// plansOf finds the plans of a task directory. The task itself may be faulty:
// its test.sh is often what is to be made of the plan.
func plansOf(path string) []stepPlan {
	dirs := []stepPlan{{dir: filepath.Join(path, "tests")}}
	steps, _ := os.ReadDir(filepath.Join(path, "steps")) // none: there are no steps
	for _, s := range steps {
		dirs = append(dirs, stepPlan{step: s.Name(), dir: filepath.Join(path, "steps", s.Name(), "tests")})
	}
	var all []stepPlan
	for _, s := range dirs {
		if _, err := os.Lstat(filepath.Join(s.dir, checks.File)); err != nil {
			continue
		}
		s.task = path
		s.plan, s.err = checks.Load(s.dir)
		all = append(all, s)
	}
	return all
}

// planOf finds the plan of a task and step that a command line names.
func planOf(path, step string) (stepPlan, error) {
	if _, err := os.Stat(path); err != nil {
		return stepPlan{}, usage(err)
	}
	all := plansOf(path)
	if step != "" {
		all = slices.DeleteFunc(all, func(s stepPlan) bool { return s.step != step })
	}
	switch {
	case len(all) == 0:
		return stepPlan{}, usagef("%s has no check plan: write tests/%s (docs/check-plans.md)", path, checks.File)
	case len(all) > 1:
		return stepPlan{}, usagef("%s has %d check plans: choose with --step, one of %q", path, len(all), stepNames(all))
	}
	if all[0].err != nil {
		return stepPlan{}, usage(all[0].err)
	}
	return all[0], nil
}

func stepNames(all []stepPlan) (names []string) {
	for _, s := range all {
		names = append(names, s.step)
	}
	return names
}

type checksShowCmd struct {
	Path string `arg:"" help:"Task directory."`
	Step string `placeholder:"NAME" help:"The step, of a task of several."`
}

func (checksShowCmd) Help() string {
	return `Evidence is what a verdict will rest on: separate (the assertions are in another process than the work), canaried
(changed copies of the tests must fail), self-reported (neither).

Examples:
  assay task checks show tasks/fix-csv
  assay task checks show tasks/fix-csv --json | jq -r '.checks[].id'

Exit status: 0, 2 when there is no task or no plan that can be read.`
}

// shownPlan is a plan as --json has it.
type shownPlan struct {
	Task      string             `json:"task"`
	Step      string             `json:"step,omitempty"`
	File      string             `json:"file"`
	Digest    string             `json:"digest"`
	Evidence  string             `json:"evidence"` // the weakest of all
	Commands  []shownCommand     `json:"commands"`
	Checks    []shownCheck       `json:"checks"`
	Protected []string           `json:"protected,omitempty"`
	Forbidden []string           `json:"forbidden,omitempty"`
	Place     map[string]string  `json:"place,omitempty"`
	Groups    map[string][]group `json:"groups,omitempty"` // milestones, spec, edge_cases
	Out       []string           `json:"quarantine,omitempty"`
}

type shownCommand struct {
	Name       string  `json:"name"`
	Kind       string  `json:"kind"` // command, cases, state
	Runs       string  `json:"runs"`
	Report     string  `json:"report,omitempty"`
	TimeoutSec float64 `json:"timeout_sec,omitempty"`
	Evidence   string  `json:"evidence"`
	Canaries   int     `json:"canaries"`
	FailToPass int     `json:"fail_to_pass"`
	PassToPass int     `json:"pass_to_pass"`
}

type shownCheck struct {
	ID   string `json:"id"`
	List string `json:"list"` // fail_to_pass or pass_to_pass
}

type group struct {
	Name   string   `json:"name"`
	Checks []string `json:"checks"`
}

func (c *checksShowCmd) Run(a *app, g *grammar) error {
	s, err := planOf(c.Path, c.Step)
	if err != nil {
		return err
	}
	v := showPlan(s)
	if g.JSON {
		return a.emit("checks", v)
	}
	return printPlan(a.Stdout, v)
}

func showPlan(s stepPlan) shownPlan {
	p := s.plan
	v := shownPlan{
		Task: s.task, Step: s.step, File: filepath.Join(s.dir, checks.File), Digest: p.Digest(), Evidence: string(p.Evidence()),
		Protected: p.Protected, Forbidden: p.Forbidden, Place: p.Place, Groups: map[string][]group{}, Out: p.Quarantine(),
	}
	count := map[string]*[2]int{}
	for _, k := range p.Expected() {
		if count[k.In] == nil {
			count[k.In] = &[2]int{}
		}
		list, n := "fail_to_pass", 0
		if k.PassToPass {
			list, n = "pass_to_pass", 1
		}
		count[k.In][n]++
		v.Checks = append(v.Checks, shownCheck{k.ID, list})
	}
	add := func(c shownCommand) {
		if n := count[c.Name]; n != nil {
			c.FailToPass, c.PassToPass = n[0], n[1]
		}
		v.Commands = append(v.Commands, c)
	}
	for i, c := range p.Commands {
		add(shownCommand{Name: c.Name, Kind: "command", Runs: cmp.Or(c.Run, fmt.Sprintf("%q", c.Args)), Report: string(c.Report),
			TimeoutSec: c.TimeoutSec, Evidence: string(p.CommandEvidence(i)), Canaries: len(c.Canaries)})
	}
	for _, c := range p.Cases {
		runs := fmt.Sprintf("%q", c.Run)
		if c.Call != "" {
			runs = "functions of " + c.Source + " (" + c.Call + ")"
		}
		add(shownCommand{Name: c.Name, Kind: "cases", Runs: runs, Evidence: "separate"})
	}
	if len(p.State) > 0 {
		weakest := trial.Separate
		for _, s := range p.State {
			if s.Evidence() == trial.SelfReported {
				weakest = trial.SelfReported
			}
		}
		add(shownCommand{Name: checks.StateName, Kind: "state", Runs: fmt.Sprintf("%d assertions on the end state", len(p.State)), Evidence: string(weakest)})
	}
	for _, m := range p.Milestones {
		v.Groups["milestones"] = append(v.Groups["milestones"], group{m.Name, m.Checks})
	}
	for _, m := range p.Spec {
		v.Groups["spec"] = append(v.Groups["spec"], group{m.ID, m.Checks})
	}
	for _, m := range p.EdgeCases {
		v.Groups["edge_cases"] = append(v.Groups["edge_cases"], group{m.Name, m.Checks})
	}
	return v
}

func printPlan(w io.Writer, v shownPlan) error {
	fmt.Fprintf(w, "%s\n%s\nevidence %s\n\n", v.File, v.Digest, v.Evidence)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tFAIL-TO-PASS\tPASS-TO-PASS\tREPORT\tCANARIES\tEVIDENCE\tRUNS")
	for _, c := range v.Commands {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%d\t%s\t%s\n", c.Name, c.FailToPass, c.PassToPass, cmp.Or(c.Report, "-"), c.Canaries, c.Evidence, shown(c.Runs))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, list := range []struct {
		what  string
		paths []string
	}{{"protected", v.Protected}, {"forbidden", v.Forbidden}, {"quarantined", v.Out}} {
		for _, p := range list.paths {
			fmt.Fprintf(w, "%s  %s\n", list.what, shown(p))
		}
	}
	for _, kind := range []string{"milestones", "spec", "edge_cases"} {
		for _, g := range v.Groups[kind] {
			fmt.Fprintf(w, "%s  %s: %d checks\n", kind, shown(g.Name), len(g.Checks))
		}
	}
	return nil
}

type checksLintCmd struct {
	Paths   []string `arg:"" name:"path" help:"Task directories, or directories of them."`
	Warning bool     `name:"warnings-fail" help:"Exit 4 for warnings too."`
}

func (checksLintCmd) Help() string {
	return `'assay task lint' does this as well, for tasks that have plans.

Example:
  assay task checks lint tasks --json | jq -r .message

Exit status: 0 no errors, 2 no task or no plan at all, 4 errors (or warnings, with --warnings-fail).`
}

func (c *checksLintCmd) Run(a *app, g *grammar) error {
	var found []task.Finding
	plans := 0
	for _, path := range c.Paths {
		n, f, err := lintPlans(path)
		if err != nil {
			return usage(err)
		}
		plans += n
		found = append(found, f...)
	}
	if plans == 0 {
		return usagef("no check plan there: tests/%s of a task is one", checks.File)
	}
	errs, warns, err := a.printFindings(g, found)
	if err != nil {
		return err
	}
	if !g.JSON {
		a.say("%d plans, %d errors, %d warnings", plans, errs, warns)
	}
	if errs > 0 || c.Warning && warns > 0 {
		return gate(nil)
	}
	return nil
}

// printFindings prints findings and counts errors and warnings.
func (a *app) printFindings(g *grammar, found []task.Finding) (errs, warns int, err error) {
	for _, f := range found {
		switch f.Severity {
		case task.Error:
			errs++
		case task.Warning:
			warns++
		}
		if g.JSON {
			if err := a.emit("finding", f); err != nil {
				return errs, warns, err
			}
			continue
		}
		fmt.Fprintln(a.Stdout, f.String())
	}
	return errs, warns, nil
}

// lintPlans checks the plans of a task directory, or of a directory of them.
func lintPlans(path string) (plans int, found []task.Finding, err error) {
	all := plansOf(path)
	if len(all) == 0 {
		below, err := os.ReadDir(path)
		if err != nil {
			return 0, nil, err
		}
		for _, e := range below {
			if e.IsDir() {
				all = append(all, plansOf(filepath.Join(path, e.Name()))...)
			}
		}
	}
	for _, s := range all {
		found = append(found, lintPlan(s)...)
	}
	return len(all), found, nil
}

// lintPlan makes findings of a plan's faults, and of what a plan that can be
// used leaves to be wished.
func lintPlan(s stepPlan) (found []task.Finding) {
	file := filepath.Join(s.dir, checks.File)
	var bad *checks.Error
	switch {
	case errors.As(s.err, &bad):
		for _, f := range bad.Faults {
			message := fmt.Sprintf("a check plan has no key %q", strings.Join(f.Key, "."))
			if !f.Unknown {
				message = f.Err.Error()
			}
			found = append(found, task.Finding{Rule: "check-plan", Severity: task.Error, File: file, Message: message, Position: task.Position{Line: f.Line, Column: f.Column}, Remedy: "docs/check-plans.md has the form"})
		}
		return found
	case s.err != nil:
		return []task.Finding{{Rule: "check-plan", Severity: task.Error, File: file, Message: s.err.Error()}}
	}
	for _, w := range s.plan.Wishes() {
		found = append(found, task.Finding{Rule: w.Rule, Severity: task.Note, File: file, Position: task.Position{Line: w.Line, Column: w.Column}, Message: w.Message, Remedy: w.Remedy})
	}
	return append(found, lintScript(s)...)
}

// lintScript holds the task's test.sh against what the plan makes.
func lintScript(s stepPlan) []task.Finding {
	at := filepath.Join(s.dir, checks.ScriptName)
	warn := func(message, remedy string) []task.Finding {
		return []task.Finding{{Rule: "check-plan-script", Severity: task.Warning, File: at, Message: message, Remedy: remedy}}
	}
	want, err := s.plan.Script()
	if err != nil {
		return []task.Finding{{Rule: "check-plan-script", Severity: task.Note, File: at, Message: "Harbor cannot grade this task as assay does: " + err.Error()}}
	}
	have, err := os.ReadFile(at)
	switch {
	case err != nil:
		return warn("Harbor has nothing to run: "+err.Error(), "assay task checks script --write makes it of the plan")
	case checks.IsScript(have) && !bytes.Equal(have, want):
		return warn("it was made of another plan, or changed by hand: Harbor and assay grade differently", "make it anew: assay task checks script --write")
	case !checks.IsScript(have):
		return warn("it was not made of the plan: Harbor and assay may grade differently", "assay task checks script --write replaces it; the plan alone counts in assay")
	}
	return nil
}

type checksScriptCmd struct {
	Path  string `arg:"" help:"Task directory."`
	Step  string `placeholder:"NAME" help:"The step, of a task of several."`
	Write bool   `help:"Write it to the test.sh beside the plan."`
	Force bool   `short:"f" help:"Replace a test.sh that was not made of a plan."`
}

func (checksScriptCmd) Help() string {
	return `The script runs the plan's commands where Harbor runs it, and gives an honest run the reward that assay gives it. It has
no canaries, which take a second fresh copy of the work. assay never runs it.

Examples:
  assay task checks script tasks/fix-csv
  assay task checks script tasks/fix-csv --write

Exit status: 0, 1 when no script can do all of the plan or the file cannot be written, 2 when there is no plan.`
}

func (c *checksScriptCmd) Run(a *app, g *grammar) error {
	s, err := planOf(c.Path, c.Step)
	if err != nil {
		return err
	}
	b, err := s.plan.Script()
	if err != nil {
		return fmt.Errorf("Harbor cannot grade %s as assay does: %w", c.Path, err)
	}
	if !c.Write {
		if g.JSON {
			return a.emit("script", map[string]string{"script": string(b)})
		}
		_, err := a.Stdout.Write(b)
		return err
	}
	at := filepath.Join(s.dir, checks.ScriptName)
	if old, err := os.ReadFile(at); err == nil && !checks.IsScript(old) && !c.Force {
		return usagef("%s was not made of a plan; --force replaces it", at)
	}
	if err := os.WriteFile(at, b, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(at, 0o755); err != nil {
		return err
	}
	if g.JSON {
		return a.emit("script", map[string]string{"path": at})
	}
	a.say("made %s", at)
	return nil
}
