package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"assay/internal/audit"
	"assay/internal/store"
)

type jobParityCmd struct {
	Job    string   `arg:"" help:"Job directory."`
	Arms   []string `arg:"" optional:"" name:"arm" help:"Two arms: \"AGENT with MODEL\", or an agent or model that names one arm alone. Default: every arm beside the first."`
	Gate   bool     `help:"Exit with 4 when the conditions are not equal."`
	Except []string `placeholder:"NAME" help:"A difference that is meant, by its name; repeatable. The gate lets it pass."`
}

func (jobParityCmd) Help() string {
	return `Compares what was recorded of the arms' trials, task by task: task digest, image, backend, uid mode, limits held, network,
clock, added instructions, verifier, how the model was asked (dialect, translation and its losses, sampling, pinned
parameters, withheld tools) and every other key of the trials' configurations. Agent, version and model are what is
compared: they are named, and are no inequality.

Examples:
  assay job parity jobs/grid
  assay job parity jobs/grid codex claude-code --gate
  assay job parity jobs/grid "react with small" "react with large" --gate --except "dialect"

Exit status: 0, 2 when the directory is no job or has no such arms, 4 with --gate when conditions differ.`
}

func (c *jobParityCmd) Run(a *app, g *grammar) error {
	v, err := store.Read(c.Job)
	if err != nil {
		return usage(err)
	}
	pairs, err := c.pairs(audit.Arms(v))
	if err != nil {
		return usage(err)
	}
	unequal := 0
	for _, pair := range pairs {
		p, err := audit.Compare(v, pair[0], pair[1])
		if err != nil {
			return err
		}
		unequal += len(p.Unequal(c.Except))
		if g.JSON {
			err = a.emit("parity", p)
		} else {
			err = a.printParity(p)
		}
		if err != nil {
			return err
		}
	}
	if unequal > 0 && c.Gate {
		return gate(fmt.Errorf("%d conditions differ", unequal))
	}
	return nil
}

func (c *jobParityCmd) pairs(arms []audit.Arm) (all [][2]audit.Arm, err error) {
	switch {
	case len(c.Arms) != 0 && len(c.Arms) != 2:
		return nil, fmt.Errorf("two arms are compared, not %d", len(c.Arms))
	case len(c.Arms) == 0 && len(arms) < 2:
		return nil, fmt.Errorf("job %s has %d arms: there is nothing to compare", c.Job, len(arms))
	case len(c.Arms) == 0:
		for _, b := range arms[1:] {
			all = append(all, [2]audit.Arm{arms[0], b})
		}
		return all, nil
	}
	var pair [2]audit.Arm
	for i, name := range c.Arms {
		if pair[i], err = audit.FindArm(arms, name); err != nil {
			return nil, err
		}
	}
	if pair[0] == pair[1] {
		return nil, fmt.Errorf("both names are the arm %q", pair[0])
	}
	return append(all, pair), nil
}

func (a *app) printParity(p audit.Parity) error {
	fmt.Fprintf(a.Stdout, "%s  ↔  %s: %d conditions on %d tasks\n", shown(p.A.String()), shown(p.B.String()), p.Conditions, p.Tasks)
	for _, n := range p.Notes {
		a.say("%s", shown(n))
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	for _, d := range p.Differences {
		tasks := fmt.Sprintf("%d tasks", len(d.Tasks))
		if len(d.Tasks) == 1 {
			tasks = d.Tasks[0]
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\n", d.Group, shown(d.Name), value(d.A), value(d.B), shown(tasks))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(p.Unequal(nil)) == 0 {
		fmt.Fprintln(a.Stdout, "  the conditions are equal")
	}
	return nil
}

// value is one side of a difference, cut for a line.
func value(all []string) string {
	s := shown(audit.Words(all))
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
