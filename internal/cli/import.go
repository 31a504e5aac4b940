package cli

import (
	"fmt"

	"assay/internal/importer"
	"assay/internal/importer/humaneval"
)

// importers is the table of all data sets assay can import.
func importers() []importer.Importer {
	return []importer.Importer{humaneval.New()}
}

type importCmd struct {
	Format string `arg:"" enum:"humaneval" help:"humaneval."`
	Source string `arg:"" help:"The data set's file, e.g. HumanEval.jsonl.gz."`
	Out    string `short:"o" required:"" placeholder:"DIR" help:"Directory of task directories to make."`
	Force  bool   `help:"Replace task directories that differ."`
}

func (importCmd) Help() string {
	return `Each record becomes a task directory with a gold solution, hidden tests and a Dockerfile.

Example:
  assay import humaneval HumanEval.jsonl.gz -o tasks/humaneval
  assay run -p tasks/humaneval -a oracle -n 2

Exit status: 0, 1 a record is malformed (nothing half-written is left), 2 usage.`
}

func (c *importCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	for _, im := range importers() {
		if im.Name() != c.Format {
			continue
		}
		s, err := im.Import(ctx, c.Source, c.Out, importer.Options{Force: c.Force})
		if err != nil {
			return err
		}
		if g.JSON {
			return a.emit("import", s)
		}
		fmt.Fprintf(a.Stdout, "%d tasks in %s (%d written, %d replaced, %d already there)\n", s.Tasks, c.Out, s.Written, s.Replaced, s.Unchanged)
		return nil
	}
	return usagef("no importer is named %q", c.Format)
}
