package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"assay/examples"
	"assay/internal/job"
	"assay/internal/proof"
)

type demoCmd struct {
	Out        string `short:"o" default:"${jobs}" placeholder:"DIR" help:"Folder of jobs; the demo's tasks are put beside its job."`
	Concurrent int    `short:"n" default:"4" placeholder:"N" help:"Trials at once."`
}

func (demoCmd) Help() string {
	return `Needs nothing but this program: the tasks are built in and run on this machine's own POSIX shell, in
sandboxes without network. It proves the tasks, runs three agents on them (the gold solution, doing
nothing, and a scripted solver that manages some), prints the table and writes a report.

Example:
  assay demo && assay view jobs

Exit status: 0, 1 something broke, 3 lost to infrastructure, 4 a demo task is not sound here.`
}

func (c *demoCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	name := "demo-" + time.Now().Format("20060102-150405")
	dir, err := filepath.Abs(filepath.Join(c.Out, name))
	if err != nil {
		return err
	}
	home := filepath.Join(filepath.Dir(dir), ".demo", name)
	if err := unpack(examples.Demo(), home); err != nil {
		return fmt.Errorf("unpack the demo's tasks: %w", err)
	}
	tasks, source, err := a.loadTasks(filepath.Join(home, "demo"), 0)
	if err != nil {
		return err
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()

	a.say("1. proving %d tasks: gold passes three times, doing nothing fails, each in a fresh copy", len(tasks))
	proofs, err := a.prove(ctx, r, tasks, proveOptions{config: proof.Config{Concurrent: c.Concurrent, Leaks: true}, grammar: g})
	if err != nil {
		return err
	}
	if err := a.printProofs(g, proofs); err != nil {
		return err
	}
	arms, err := (&armory{a: a}).grid([]string{"oracle", "nop", "script:" + filepath.Join(home, "demo", "partial.sh")}, nil, armOptions{})
	if err != nil {
		return err
	}
	a.say("\n2. running %d agents on them, %d trials at once", len(arms), c.Concurrent)
	cfg := job.Config{Dir: dir, Source: source, Path: filepath.Join(home, "demo"), Tasks: tasks, Arms: arms, Attempts: 1, Concurrent: c.Concurrent}
	return a.executeOn(ctx, g, r, cfg, execution{report: true, next: fmt.Sprintf(`
try next:
  assay view %[1]s                      all jobs in the browser, live
  assay job show %[2]s --timing         where the time went
  assay run -p %[3]s -a command:'sh my-agent.sh' -k 3
  assay task new tasks/mine             a task of your own`,
		short(filepath.Dir(dir)), short(dir), short(filepath.Join(home, "demo")))})
}

// unpack writes an embedded tree; scripts are executable.
func unpack(src fs.FS, dst string) error {
	return fs.WalkDir(src, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dst, filepath.FromSlash(p))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := fs.ReadFile(src, p)
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if filepath.Ext(p) == ".sh" {
			mode = 0o755
		}
		return os.WriteFile(to, b, mode)
	})
}
