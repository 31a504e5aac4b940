package cli

import (
	"fmt"

	"assay/internal/grade/report"
)

type checksSupportCmd struct {
	Format string `arg:"" help:"A report format (docs/test-reports.md)."`
}

func (checksSupportCmd) Help() string {
	return `Runners that write no report of their own, or a poor one, are given a small file of assay's: a plan keeps it below
tests/ and names it in its command.

Example:
  assay task checks support pytest-log >tests/assay_pytest.py

Exit status: 0, 2 when there is no such format, or it needs no file.`
}

func (c *checksSupportCmd) Run(a *app, g *grammar) error {
	if _, err := report.ReaderOf(report.Format(c.Format)); err != nil {
		return usage(err)
	}
	name, data, ok := report.Support(report.Format(c.Format))
	if !ok {
		return usagef("the runner of format %s needs no file of ours", c.Format)
	}
	if g.JSON {
		return a.emit("support", map[string]string{"name": name, "text": string(data)})
	}
	_, err := fmt.Fprint(a.Stdout, string(data))
	return err
}
