package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/exchange"
	"assay/internal/importer/swebench"
	"assay/internal/store"
	"assay/task"
)

type exportCmd struct {
	Format string `arg:"" enum:"predictions,swebench-summary,swebench-reports,swebench-rows,junit,csv" help:"predictions, swebench-summary, swebench-reports, swebench-rows, junit or csv."`
	From   string `arg:"" placeholder:"JOB" help:"Job directory; for swebench-rows the directory of imported tasks."`
	Out    string `short:"o" placeholder:"FILE" help:"File to write, for swebench-reports a directory; - is the standard output. Default: - (swebench-summary: MODEL.RUN.json here, as SWE-bench names it)."`
	Model  string `placeholder:"NAME" help:"Only this model_name_or_path, where a job has several."`
	Rep    int    `name:"attempt" default:"1" placeholder:"N" help:"Which attempt at each task, where there are several."`
	RunID  string `name:"run-id" placeholder:"NAME" help:"SWE-bench's name of the run. Default: the job's."`
	Tasks  string `short:"p" once:"" placeholder:"PATH" help:"The data set's tasks, so that a summary names those without a prediction."`
}

func (exportCmd) Help() string {
	return `predictions       .jsonl: a line each, as SWE-bench writes them; .json: a map, as mini-swe-agent writes preds.json
swebench-summary  SWE-bench's <model>.<run id>.json, schema version 2
swebench-reports  logs/run_evaluation/<run id>/<model>/<instance>/report.json below -o
swebench-rows     the rows that tasks were imported from, byte for byte
junit             JUnit XML for CI systems: a suite for each agent and model, a case for each trial
csv               one line a trial; unknown is empty

Examples:
  assay export predictions jobs/try1 -o preds.jsonl
  assay export swebench-summary jobs/try1 --run-id try1
  assay export junit jobs/try1 -o report.xml
  assay export swebench-rows tasks/verified -o rows.jsonl

Exit status: 0, 1 something could not be written, 2 usage (no job there, a job of several models and no --model).`
}

func (c *exportCmd) Run(a *app, g *grammar) error {
	if c.Format == "swebench-rows" {
		b, err := swebench.Rows(c.From)
		if err != nil {
			return usage(err)
		}
		return c.write(a, g, b)
	}
	v, err := store.Read(c.From)
	if err != nil {
		return usage(err)
	}
	if c.RunID == "" {
		c.RunID = v.Name
	}
	if c.RunID != filepath.Base(c.RunID) || strings.HasPrefix(c.RunID, ".") {
		return usagef("--run-id %q: must be one name without a leading dot", c.RunID)
	}
	switch c.Format {
	case "junit":
		return c.encoded(a, g, v, exchange.JUnit)
	case "csv":
		return c.encoded(a, g, v, exchange.CSV)
	}
	arms, err := c.arms(v)
	if err != nil {
		return err
	}
	switch c.Format {
	case "swebench-reports":
		return c.reports(a, g, arms)
	case "swebench-summary":
		return c.summaries(a, g, arms)
	}
	return c.predictions(a, g, arms)
}

func (c *exportCmd) encoded(a *app, g *grammar, v *store.View, encode func(*store.View) ([]byte, error)) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return c.write(a, g, b)
}

// arms are those of the attempt and model that were asked for.
func (c *exportCmd) arms(v *store.View) ([]*exchange.Arm, error) {
	all := exchange.Arms(v, c.Rep)
	if len(all) == 0 {
		return nil, usagef("%s has no attempt %d at anything", c.From, c.Rep)
	}
	if c.Model == "" {
		return all, nil
	}
	var names []string
	for _, arm := range all {
		if arm.Model == c.Model {
			return []*exchange.Arm{arm}, nil
		}
		names = append(names, arm.Model)
	}
	return nil, usagef("%s has no model %q; there are %s", c.From, c.Model, strings.Join(names, ", "))
}

func (c *exportCmd) predictions(a *app, g *grammar, arms []*exchange.Arm) error {
	var all []exchange.Prediction
	for _, arm := range arms {
		for _, t := range arm.Trials {
			if t.Status != store.TrialFinished {
				continue
			}
			p, err := exchange.OfTrial(t, arm.Model)
			if err != nil {
				return err
			}
			all = append(all, p)
		}
	}
	kind := exchange.KindLines
	if strings.HasSuffix(c.Out, ".json") {
		kind = exchange.KindMap
	}
	b, err := exchange.WritePredictions(all, kind)
	if err != nil {
		return usage(err)
	}
	return c.write(a, g, b)
}

func (c *exportCmd) summaries(a *app, g *grammar, arms []*exchange.Arm) error {
	if len(arms) > 1 && c.Out != "" {
		return usagef("%s has %d models, and a summary is of one: name it with --model, or leave -o out", c.From, len(arms))
	}
	ids, err := c.dataset(a)
	if err != nil {
		return err
	}
	for _, arm := range arms {
		s, err := arm.Summary(c.RunID, ids)
		if err != nil {
			return err
		}
		b, err := s.Marshal()
		if err != nil {
			return err
		}
		one := *c
		if one.Out == "" {
			one.Out = s.FileName()
		}
		if err := one.write(a, g, b); err != nil {
			return err
		}
	}
	return nil
}

// dataset are the ids of the tasks that -p names; nil: it names none.
func (c *exportCmd) dataset(a *app) (ids []string, err error) {
	if c.Tasks == "" {
		return nil, nil
	}
	tasks, skipped, err := task.LoadSet(c.Tasks)
	if err != nil {
		return nil, usage(err)
	}
	for _, s := range skipped {
		a.say("skipped %s: %s", s.Dir, s.Reason)
	}
	for _, t := range tasks {
		id := t.Name[strings.LastIndexByte(t.Name, '/')+1:]
		if own, ok := t.Config.Metadata.Rest["instance_id"].(string); ok {
			id = own
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (c *exportCmd) reports(a *app, g *grammar, arms []*exchange.Arm) error {
	if c.Out == "" || c.Out == "-" {
		return usagef("swebench-reports makes a directory: name it with -o")
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.Out) // names of models and instances are other people's
	if err != nil {
		return err
	}
	defer root.Close()
	n := 0
	for _, arm := range arms {
		for _, t := range arm.Trials {
			r, ok, err := exchange.Report(t, arm.Model)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			b, err := r.Marshal()
			if err != nil {
				return err
			}
			dir := filepath.Join("logs", "run_evaluation", c.RunID, arm.FileName(), r.ID)
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if err := root.WriteFile(filepath.Join(dir, "report.json"), b, 0o644); err != nil {
				return err
			}
			n++
		}
	}
	if g.JSON {
		return a.emit("export", map[string]any{"format": c.Format, "path": c.Out, "files": n})
	}
	a.say("%d reports below %s", n, c.Out)
	return nil
}

// write puts the bytes where they were asked for.
func (c *exportCmd) write(a *app, g *grammar, b []byte) error {
	if c.Out == "" || c.Out == "-" {
		_, err := a.Stdout.Write(b)
		return err
	}
	if err := os.WriteFile(c.Out, b, 0o644); err != nil {
		return fmt.Errorf("export %s: %w", c.Format, err)
	}
	if g.JSON {
		return a.emit("export", map[string]any{"format": c.Format, "path": c.Out, "bytes": len(b)})
	}
	a.say("%s", c.Out)
	return nil
}
