package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"assay/internal/dataset"
	"assay/internal/store"
)

type trajectoryStatsCmd struct {
	Paths []string `arg:"" name:"path" help:"Job directories, trial directories or trajectory files."`
}

func (trajectoryStatsCmd) Help() string {
	return `One block an arm of each job, then one over everything where there are several. Files, tests and repeats are read
from what the tool calls say: a file counts where a call names it. Unknown tokens are unknown, never zero.

Examples:
  assay trajectory stats jobs/demo
  assay trajectory stats jobs/a jobs/b --json | jq '{arm, count, average_turns, success_share}'

Exit status: 0, 1 when a trajectory cannot be read, 2 when there is none, 3 when some trials of a job left none.`
}

// armFigures are the figures of one arm.
type armFigures struct {
	Arm string `json:"arm"`
	dataset.Figures
}

func (c *trajectoryStatsCmd) Run(a *app, g *grammar) error {
	arms, all := map[string]*dataset.Counter{}, dataset.NewCounter()
	counter := func(arm string) *dataset.Counter {
		if arms[arm] == nil {
			arms[arm] = dataset.NewCounter()
		}
		return arms[arm]
	}
	missing := 0
	for _, path := range c.Paths {
		v, err := store.Read(path)
		if errors.Is(err, store.ErrNoJob) || notDirectory(path) {
			files, err := trajectoryFiles([]string{path})
			if err != nil {
				return err
			}
			for _, f := range files {
				t, err := readTrajectory(f)
				if err != nil {
					return err
				}
				counter(armName(t.Agent.Name, t.Agent.ModelName)).Add(t, nil)
				all.Add(t, nil)
			}
			continue
		}
		if err != nil {
			return usage(err)
		}
		err = dataset.Rows(v, dataset.Options{}, func(r *dataset.Row) error {
			counter(armName(r.Agent, r.Model)).Add(r.Doc, r)
			all.Add(r.Doc, r)
			return nil
		}, func(name, why string, _ bool) { missing++; a.say("%s: %s", name, why) })
		if err != nil {
			return err
		}
	}
	if len(arms) == 0 {
		return usagef("%s: no trajectory", strings.Join(c.Paths, " "))
	}
	if err := a.printFigures(g, arms, all); err != nil {
		return err
	}
	if missing > 0 {
		return partial(fmt.Errorf("%d trials left no trajectory", missing))
	}
	return nil
}

func notDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

func armName(agent, model string) string {
	if model == "" {
		return agent
	}
	return agent + " · " + model
}

func (a *app) printFigures(g *grammar, arms map[string]*dataset.Counter, all *dataset.Counter) error {
	var list []armFigures
	for _, name := range slices.Sorted(maps.Keys(arms)) {
		list = append(list, armFigures{name, arms[name].Figures()})
	}
	if len(list) > 1 {
		list = append(list, armFigures{"all", all.Figures()})
	}
	for i, f := range list {
		if g.JSON {
			if err := a.emit("stats", f); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		fmt.Fprintln(a.Stdout, shown(f.Arm))
		if err := a.printArm(f); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printArm(f armFigures) error {
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("trajectories", "%d", f.Count)
	row("turns, average", "%.1f", f.Turns)
	if f.AssistantTokens == nil {
		row("assistant tokens, average", "unknown")
	} else {
		row("assistant tokens, average", "%.0f%s", *f.AssistantTokens, ofKnown(f.TokensKnown, f.Count))
	}
	row("tool calls, average", "%.1f", f.Tools)
	row("messages, average", "%.1f", f.Messages)
	if f.Success == nil {
		row("success", "no verdict")
	} else {
		row("success", "%.1f %% of %d graded", 100**f.Success, f.Graded)
	}
	least := ""
	if f.Partial {
		least = " (lower bounds: some are unknown)"
	}
	row("tokens", "%s%s", tokensWord(f.PromptTokens, f.CompletionTokens, f.CostUSD), least)
	row("tools", "%s", sharesWord(f.ToolShares))
	row("actions", "%s", sharesWord(f.ActionShares))
	row("files, average", "%.1f seen, %.1f written", f.FilesSeen, f.FilesChanged)
	row("test runs, average", "%.1f", f.TestRuns)
	row("repeated actions", "%d, of which %d in loops", f.Repeated, f.Looping)
	if f.Subagents > 0 {
		row("embedded documents", "%d", f.Subagents)
	}
	var ends []string
	for _, k := range slices.Sorted(maps.Keys(f.Terminations)) {
		ends = append(ends, fmt.Sprintf("%s %d", k, f.Terminations[k]))
	}
	if len(ends) > 0 {
		row("ended", "%s", strings.Join(ends, ", "))
	}
	return tw.Flush()
}

func ofKnown(known, all int) string {
	if known == all {
		return ""
	}
	return fmt.Sprintf(" (known of %d)", known)
}

// maxShares bounds a line of shares.
const maxShares = 12

func sharesWord(all []dataset.Share) string {
	if len(all) == 0 {
		return "none"
	}
	var words []string
	for i, s := range all {
		if i == maxShares {
			words = append(words, fmt.Sprintf("%d others", len(all)-i))
			break
		}
		words = append(words, fmt.Sprintf("%s %d (%.0f %%)", shown(s.Name), s.Count, 100*s.Share))
	}
	return strings.Join(words, ", ")
}
