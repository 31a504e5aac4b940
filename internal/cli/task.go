package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"assay/task"
)

type taskCmd struct {
	Lint   taskLintCmd   `cmd:"" help:"Check task directories strictly: file, line, column and remedy for each finding."`
	Show   taskShowCmd   `cmd:"" help:"Print what assay reads in a task, and its digest."`
	New    taskNewCmd    `cmd:"" help:"Scaffold a task directory that passes its own proof."`
	Checks taskChecksCmd `cmd:"" help:"Check plans: show, lint, and make Harbor's test.sh of them."`
	Prove  taskProveCmd  `cmd:"" help:"Show that a task is sound: gold passes, doing nothing fails, the solution lies nowhere; write proof.json."`
	Adapt  taskAdaptCmd  `cmd:"" help:"Find the strictest modes in which a foreign gold solution passes, and pin them."`
	Attack taskAttackCmd `cmd:"" help:"Run a battery of cheats on tasks: none of them may pass."`
	Fault  taskFaultCmd  `cmd:"" help:"Replay what breaks a task's environment, or what mends it."`
	Seal   taskSealCmd   `cmd:"" help:"Seal what a verifier installs into a layer, and grade offline from then on."`
}

type taskLintCmd struct {
	Paths   []string `arg:"" name:"path" help:"Task directories, or directories of them."`
	Warning bool     `name:"warnings-fail" help:"Exit 4 for warnings too."`
}

func (taskLintCmd) Help() string {
	return `Reading is lenient, as Harbor's is; lint is strict: unknown keys, skipped directories, hidden traps.

Example:
  assay task lint tasks --json | jq -r .rule | sort | uniq -c

Exit status: 0 no errors, 2 nothing to lint, 4 errors (or warnings, with --warnings-fail).`
}

func (c *taskLintCmd) Run(a *app, g *grammar) error {
	errs, warns := 0, 0
	for _, p := range c.Paths {
		if _, err := os.Stat(p); err != nil {
			return usage(err)
		}
		found := task.Lint(p)
		if _, more, err := lintPlans(p); err == nil { // what is no task, Lint has said
			found = append(found, more...)
		}
		e, w, err := a.printFindings(g, found)
		if err != nil {
			return err
		}
		errs, warns = errs+e, warns+w
	}
	if !g.JSON {
		a.say("%d errors, %d warnings", errs, warns)
	}
	if errs > 0 || c.Warning && warns > 0 {
		return gate(nil)
	}
	return nil
}

type taskShowCmd struct {
	Path string `arg:"" help:"Task directory."`
}

func (taskShowCmd) Help() string {
	return `Example:
  assay task show tasks/fix-csv --json | jq -r .digest

Exit status: 0, 2 when the directory is no task.`
}

func (c *taskShowCmd) Run(a *app, g *grammar) error {
	t, err := task.Load(c.Path)
	if err != nil {
		return usage(err)
	}
	s, err := t.Show()
	if err != nil {
		return usage(err)
	}
	if g.JSON {
		return a.emit("task", s)
	}
	return printTask(a.Stdout, s)
}

type taskNewCmd struct {
	Path  string   `arg:"" help:"Directory to make."`
	Name  string   `placeholder:"ORG/NAME" help:"The task's name. Default: local/ and the directory's."`
	State bool     `help:"Judge the whole frozen tree instead of the workspace's diff."`
	Image string   `placeholder:"NAME" help:"FROM of the Dockerfile. Default: debian:bookworm-slim."`
	Step  []string `placeholder:"NAME" help:"Name of a step; repeatable. Default: single-step."`
}

func (taskNewCmd) Help() string {
	return `Example:
  assay task new tasks/fix-csv && assay task prove tasks/fix-csv

Exit status: 0, 2 when the directory exists.`
}

func (c *taskNewCmd) Run(a *app, g *grammar) error {
	o := task.Scaffold{Name: c.Name, Image: c.Image, Steps: c.Step, Grade: task.GradePatch}
	if c.State {
		o.Grade = task.GradeState
	}
	if err := task.New(c.Path, o); err != nil {
		return usage(err)
	}
	if g.JSON {
		return a.emit("task.new", map[string]string{"path": c.Path})
	}
	a.say("made %s; edit instruction.md, tests/test.sh and solution/solve.sh, then:\n  assay task lint %[1]s\n  assay task prove %[1]s", c.Path)
	return nil
}

// printTask prints a task for people; --json has everything.
func printTask(w io.Writer, s task.Show) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(k, format string, args ...any) { fmt.Fprintf(tw, "%s\t%s\n", k, fmt.Sprintf(format, args...)) }
	row("task", "%s", s.Name)
	row("digest", "%s", s.Digest)
	row("format", "%s, schema %s", s.Format, s.Schema)
	row("grade", "%s", s.Grade)
	row("image", "%s", imageWords(s.Image))
	for _, st := range s.Steps {
		if st.Name != "" {
			row("step", "%s", st.Name)
		}
		row("agent limit", "%s", limitWords(st.AgentTimeout))
		row("verifier limit", "%s", limitWords(st.VerifierTimeout))
		row("solution", "%t", st.Solution)
		first, _, _ := strings.Cut(strings.TrimSpace(st.Instruction), "\n")
		row("instruction", "%s", first)
	}
	if len(s.HostEnv) > 0 {
		row("reads host variables", "%s", strings.Join(s.HostEnv, " "))
	}
	return tw.Flush()
}

func limitWords(sec *float64) string {
	if sec == nil {
		return "none"
	}
	return round(*sec).String()
}

func imageWords(i task.ShowImage) string {
	words := i.Docker
	if words == "" {
		words = "built from " + i.BuiltIn
	}
	if i.Fallback != "" {
		words += ", else " + i.Fallback
	}
	return words
}
