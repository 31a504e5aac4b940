package cli

import (
	"fmt"

	"assay/internal/importer"
	"assay/internal/importer/humaneval"
	"assay/internal/importer/programs"
	"assay/internal/importer/terminalbench"
)

// importers is the table of all data sets assay can import.
func importers() []importer.Importer {
	return []importer.Importer{humaneval.New(), programs.MBPP{}, programs.EvalPlus{}, terminalbench.New()}
}

type importCmd struct {
	Format   string `arg:"" enum:"humaneval,mbpp,evalplus,swebench,swe-smith,terminal-bench,registry" help:"humaneval, mbpp, evalplus, swebench, swe-smith, terminal-bench (version 1; 2 runs as it is) or registry."`
	Source   string `arg:"" help:"The data set's file, e.g. HumanEval.jsonl.gz or verified.parquet; of SWE-bench 5 also a task repository; of a registry NAME@VERSION."`
	Out      string `short:"o" required:"" placeholder:"DIR" help:"Directory of task directories to make."`
	Force    bool   `help:"Replace task directories that differ."`
	Registry string `placeholder:"FILE|URL" help:"registry: the registry, in Harbor's form. Default: Harbor's own."`
	swebenchImport
}

func (importCmd) Help() string {
	return `Each record becomes a task directory with a gold solution, hidden tests and a Dockerfile.

Example:
  assay import humaneval HumanEval.jsonl.gz -o tasks/humaneval
  assay run -p tasks/humaneval -a oracle -n 2
  assay import mbpp sanitized-mbpp.json -o tasks/mbpp
  assay import evalplus HumanEvalPlus.jsonl.gz -o tasks/humaneval+
  assay import swebench verified.jsonl -o tasks/verified
  assay import swebench rows.jsonl -o tasks/mine --repos clones --base python:3.12

Exit status: 0, 1 a record is malformed (nothing half-written is left), 2 usage.`
}

func (c *importCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	if c.Format == "registry" {
		s, err := a.importDataset(ctx, g, c.Source, c.Registry, c.Out, importer.Options{Force: c.Force})
		if err != nil {
			return err
		}
		return c.done(a, g, s)
	}
	for _, im := range append(importers(), c.swebenchImport.importers()...) {
		if im.Name() != c.Format {
			continue
		}
		s, err := im.Import(ctx, c.Source, c.Out, importer.Options{Force: c.Force})
		if err != nil {
			return err
		}
		if err := c.swebenchImport.tell(a); err != nil {
			return err
		}
		return c.done(a, g, s)
	}
	return usagef("no importer is named %q", c.Format)
}

func (c *importCmd) done(a *app, g *grammar, s importer.Summary) error {
	if g.JSON {
		return a.emit("import", s)
	}
	fmt.Fprintf(a.Stdout, "%d tasks in %s (%d written, %d replaced, %d already there)\n", s.Tasks, c.Out, s.Written, s.Replaced, s.Unchanged)
	return nil
}
