package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"assay/internal/label"
	"assay/task"
)

type libraryCmd struct {
	Audit libraryAuditCmd `cmd:"" help:"Say how a set's tasks are spread: scope, specification, environment, work; and what the set lacks."`
}

type libraryAuditCmd struct {
	Path  string `arg:"" help:"Directory of tasks, or one task."`
	Tasks bool   `help:"Print each task's labels before the summary."`
	Gate  bool   `help:"Exit 4 when there is a warning."`
}

func (libraryAuditCmd) Help() string {
	return `Labels are computed from the task directories alone, so sets of anybody have them: docs/labels.md has the formulas.
With --json one object a task (with --tasks), then the audit.

Examples:
  assay library audit tasks
  assay library audit tasks --tasks --json | jq -r 'select(.type == "task") | [.name, .labels.process.tier] | @tsv'

Exit status: 0 (warnings too), 1 a directory cannot be read, 2 usage, 4 warnings with --gate.`
}

func (c *libraryAuditCmd) Run(a *app, g *grammar) error {
	if _, err := os.Stat(c.Path); err != nil {
		return usage(err)
	}
	tasks, skipped, err := task.LoadSet(c.Path)
	if err != nil {
		return err
	}
	for _, s := range skipped {
		a.say("%s: left out: %v", s.Dir, s.Reason)
	}
	var rows []label.Row
	for _, t := range tasks {
		r, err := label.Label(t)
		if err != nil {
			return err
		}
		if rows = append(rows, r); c.Tasks {
			if err := a.printLabels(g, r); err != nil {
				return err
			}
		}
	}
	sum := label.Summarize(rows, len(skipped))
	if g.JSON {
		err = a.emit("audit", sum)
	} else {
		err = a.printAudit(sum)
	}
	if err == nil && c.Gate && len(sum.Warnings) > 0 {
		return gate(nil)
	}
	return err
}

func (a *app) printLabels(g *grammar, r label.Row) error {
	if g.JSON {
		return a.emit("task", r)
	}
	l := r.Labels
	_, err := fmt.Fprintf(a.Stdout, "%s: %d lines, %d files, %d modules; %s; %d faults, depth %d; %d steps, %s\n", r.Name, l.Scope.Lines, l.Scope.Files,
		l.Scope.Modules, l.Specification.Level, l.Environment.Faults, l.Environment.Depth, l.Process.Steps, l.Process.Tier)
	return err
}

func (a *app) printAudit(s label.Audit) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "tasks\t%d\n", s.Tasks)
	fmt.Fprintf(w, "generators\t%s\n", counts(s.Generators, s.Tasks, "foreign"))
	fmt.Fprintf(w, "languages\t%s\n", counts(s.Languages, s.Tasks, "not told"))
	fmt.Fprintf(w, "lines\t%s\n", spreadText(s.Lines))
	fmt.Fprintf(w, "files\t%s; several in %.0f %%\n", spreadText(s.Files), 100*s.MultiFile)
	fmt.Fprintf(w, "layers\t%s\n", counts(s.Layers, s.Tasks, ""))
	fmt.Fprintf(w, "specification\t%s; ambiguous %.0f %%\n", counts(s.Levels, s.Tasks, ""), 100*s.Ambiguous)
	fmt.Fprintf(w, "faults\t%s\n", counts(s.Faults, s.Tasks, ""))
	fmt.Fprintf(w, "work\t%s\n", counts(s.Tiers, s.Tasks, ""))
	fmt.Fprintf(w, "minutes\t%s\n", spreadText(s.Minutes))
	fmt.Fprintf(w, "bytes a task\t%s\n", spreadText(s.Bytes))
	for _, x := range s.Warnings {
		fmt.Fprintf(w, "warning\t%s\n", x)
	}
	return w.Flush()
}

func spreadText(s label.Spread) string {
	return fmt.Sprintf("median %.0f, 90 %% at most %.0f, all %.0f to %.0f", s.Median, s.P90, s.Min, s.Max)
}

// counts lists what there is most of first, with shares of all tasks.
func counts[K cmp.Ordered](n map[K]int, of int, nameless string) string {
	keys := slices.SortedFunc(maps.Keys(n), func(a, b K) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
	var parts []string
	for _, k := range keys {
		name := fmt.Sprint(k)
		if name == "" {
			name = nameless
		}
		parts = append(parts, fmt.Sprintf("%s %d (%.0f %%)", name, n[k], 100*float64(n[k])/float64(max(of, 1))))
	}
	return strings.Join(parts, ", ")
}
