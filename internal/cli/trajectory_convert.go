package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"assay/internal/dataset"
	"assay/internal/store"
)

type trajectoryConvertCmd struct {
	Jobs  []string `arg:"" name:"job" help:"Job directories, of assay or of Harbor."`
	To    string   `enum:"openai,sharegpt" required:"" placeholder:"FORM" help:"openai: messages and tools; sharegpt: turns of human, gpt and observation, calls as text."`
	Where string   `placeholder:"EXPR" help:"Only rows that meet a condition, e.g. 'reward >= 1 && trainable'. @FILE reads it from a file."`
	Roots bool     `help:"Rows of embedded documents too: sub-agents, and what follows a compaction."`
	Out   string   `short:"o" placeholder:"FILE" default:"-" help:"Where rows go, one JSON object a line; - is stdout."`
}

func (trajectoryConvertCmd) Help() string {
	return `One row a trial (of a multi-step task: a step) with its messages, reward, outcome, cause, evidence, level of the
task's proof, termination class, and whether it is trainable, with the reason where it is not. What the form cannot hold
is counted in the row under "lost" and summed up on stderr.

A condition compares fields with texts in "quotes", numbers, true, false and null:
  == != < <= > >=   and, for texts, ~ (contains);   join with && || ! and ( )
Fields: ` + strings.Join(dataset.Fields(), ", ") + `

Examples:
  assay trajectory convert jobs/a jobs/b --to openai --where 'trainable && reward >= 1' -o train.jsonl
  assay trajectory convert jobs/a --to sharegpt --where 'agent == "react" && turns < 40' -o sft.jsonl

Exit status: 0, 1 when the file cannot be written, 2 when a directory is no job or the condition is wrong, 3 when a trial's
files could not be read.`
}

// chatRow and shareGPTRow are the lines of the output.
type chatRow struct {
	*dataset.Row
	dataset.Chat
	Lost dataset.Lost `json:"lost"`
}

type shareGPTRow struct {
	*dataset.Row
	dataset.ShareGPT
	Lost dataset.Lost `json:"lost"`
}

// conversion sums up what was written.
type conversion struct {
	Out     string       `json:"path"`
	Form    string       `json:"form"`
	Rows    int          `json:"rows"`
	Left    int          `json:"left_out"` // by the condition
	Skipped int          `json:"skipped"`  // trials without a trajectory
	Lost    dataset.Lost `json:"lost"`
	broken  int
}

func (c *trajectoryConvertCmd) Run(a *app, g *grammar) error {
	where, err := c.condition()
	if err != nil {
		return usage(err)
	}
	views, err := readJobs(c.Jobs)
	if err != nil {
		return usage(err)
	}
	sum := conversion{Out: c.Out, Form: c.To, Lost: dataset.Lost{}}
	err = c.into(a.Stdout, func(w io.Writer) error {
		for _, v := range views {
			if err := c.convert(a, w, v, where, &sum); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.told(a, g, sum)
}

// maxCondition bounds a condition's file.
const maxCondition = 1 << 20

func (c *trajectoryConvertCmd) condition() (*dataset.Where, error) {
	name, ok := strings.CutPrefix(c.Where, "@")
	if !ok {
		return dataset.ParseWhere("--where", c.Where)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCondition))
	if err != nil {
		return nil, err
	}
	return dataset.ParseWhere(name, string(text))
}

// into lets write fill the output. A file appears only when it is whole.
func (c *trajectoryConvertCmd) into(stdout io.Writer, write func(io.Writer) error) error {
	if c.Out == "-" {
		b := bufio.NewWriter(stdout)
		if err := write(b); err != nil {
			return err
		}
		return b.Flush()
	}
	_, err := writeWhole(c.Out, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		if err := write(b); err != nil {
			return err
		}
		return b.Flush()
	})
	if err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

func (c *trajectoryConvertCmd) convert(a *app, w io.Writer, v *store.View, where *dataset.Where, sum *conversion) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return dataset.Rows(v, dataset.Options{Roots: c.Roots}, func(r *dataset.Row) error {
		if !where.Holds(r) {
			sum.Left++
			return nil
		}
		row, lost := c.row(r)
		for k, n := range lost {
			sum.Lost[k] += n
		}
		sum.Rows++
		return e.Encode(row)
	}, func(name, why string, broken bool) {
		sum.Skipped++
		if broken {
			sum.broken++
		}
		a.say("%s: %s", name, why)
	})
}

func (c *trajectoryConvertCmd) row(r *dataset.Row) (any, dataset.Lost) {
	if c.To == "openai" {
		chat, lost := dataset.ToChat(r.Doc)
		return chatRow{r, chat, lost}, lost
	}
	turns, lost := dataset.ToShareGPT(r.Doc)
	return shareGPTRow{r, turns, lost}, lost
}

func (c *trajectoryConvertCmd) told(a *app, g *grammar, sum conversion) error {
	a.say("%d rows, %d left out by the condition, %d trials without a trajectory", sum.Rows, sum.Left, sum.Skipped)
	for _, k := range slices.Sorted(maps.Keys(sum.Lost)) {
		a.say("  %s cannot hold %s: %d", c.To, k, sum.Lost[k])
	}
	if g.JSON && c.Out != "-" {
		if err := a.emit("converted", sum); err != nil {
			return err
		}
	}
	if sum.broken > 0 {
		return partial(fmt.Errorf("%d trials could not be read", sum.broken))
	}
	return nil
}
