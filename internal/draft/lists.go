package draft

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/job"
	"assay/task"
)

// nothing is an id that no report has: what a plan expects before anything is
// known.
const nothing = "assay: nothing is expected yet"

// Lists are what the runs of one command say of its tests.
type Lists struct {
	Command    string
	FailToPass []string // passed with every gold, and with nothing done never
	PassToPass []string // passed always
	Unstable   []string // passed sometimes
	Never      []string // not passed with any gold
}

// FillLists runs gold and the untouched state and puts their closed lists into
// the plan's commands that have a report. What stood there is replaced.
func FillLists(ctx context.Context, t *task.Task, p *checks.Plan, gold, idle int, c Config, deps job.Deps) ([]Lists, error) {
	open := *p
	open.Commands = slices.Clone(p.Commands)
	open.Cases, open.State, open.Milestones, open.Spec, open.EdgeCases = nil, nil, nil, nil, nil
	for i := range open.Commands {
		k := &open.Commands[i]
		k.Canaries, k.FailToPass, k.PassToPass, k.FailToPassFile, k.PassToPassFile = nil, nil, nil, "", ""
		if k.Report != "" {
			k.FailToPass = []string{nothing}
		}
	}
	try, err := c.copyOf(t, "lists", &open)
	if err != nil {
		return nil, err
	}
	c.say("gold, %d times", gold)
	golds, err := c.run(ctx, "gold", c.Gold, gold, []*task.Task{try}, deps)
	if err != nil {
		return nil, err
	}
	c.say("nothing done, %d times", idle)
	idles, err := c.run(ctx, "idle", c.Idle, idle, []*task.Task{try}, deps)
	if err != nil {
		return nil, err
	}
	var all []Lists
	for i := range p.Commands {
		k := &p.Commands[i]
		if k.Report == "" {
			continue
		}
		l, err := sortTests(k.Name, golds[try.Name], idles[try.Name])
		if err != nil {
			return nil, err
		}
		k.FailToPass, k.PassToPass, k.FailToPassFile, k.PassToPassFile = l.FailToPass, l.PassToPass, "", ""
		all = append(all, l)
	}
	return all, nil
}

// sortTests files every test of a command by when it passed.
func sortTests(command string, gold, idle []evidence) (Lists, error) {
	l := Lists{Command: command}
	withGold, seen, err := count(command, gold)
	if err != nil {
		return l, err
	}
	if seen == 0 {
		return l, fmt.Errorf("command %q: gold left no report (%s)", command, strings.Join(whyNone(command, gold), "; "))
	}
	without, _, err := count(command, idle)
	if err != nil {
		return l, err
	}
	for _, id := range slices.Sorted(maps.Keys(withGold)) {
		switch g, n := withGold[id], without[id]; {
		case g == 0:
			l.Never = append(l.Never, id)
		case g < len(gold) || n > 0 && n < len(idle):
			l.Unstable = append(l.Unstable, id)
		case n == 0:
			l.FailToPass = append(l.FailToPass, id)
		default:
			l.PassToPass = append(l.PassToPass, id)
		}
	}
	return l, nil
}

// count is in how many runs each test passed; seen is how many runs have a
// report.
func count(command string, runs []evidence) (passed map[string]int, seen int, err error) {
	passed = map[string]int{}
	for _, e := range runs {
		r, ok := of(e.Commands, command)
		if !ok || r.Tests == 0 {
			continue
		}
		if !r.whole() {
			return nil, 0, fmt.Errorf("command %q: %d tests, and the evidence has %d: too many of them do not pass", command, r.Tests, len(r.Passed)+len(r.NotPassed))
		}
		seen++
		for _, id := range r.Passed {
			passed[id]++
		}
		for _, t := range r.NotPassed {
			passed[t.ID] += 0
		}
	}
	return passed, seen, nil
}

func whyNone(command string, runs []evidence) []string {
	var all []string
	for _, e := range runs {
		r, _ := of(e.Commands, command)
		why := fmt.Sprintf("status %d", r.Exit)
		for _, s := range []string{r.ReportErr, r.NotStarted} {
			if s != "" {
				why = s
			}
		}
		all = append(all, why)
	}
	return slices.Compact(all)
}
