package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"assay/internal/grade/exploit"
	"assay/internal/store"
	"assay/trial"
)

// nameOption is what a job keeps of an arm that has a name of its own.
func nameOption(name string) (json.RawMessage, error) { return json.Marshal(armOptions{Name: name}) }

// listedAttack is a cheat as --list tells of it.
type listedAttack struct {
	ID    string              `json:"id"`
	Class exploit.Class       `json:"class"`
	Does  string              `json:"does"`
	Bites []exploit.Ecosystem `json:"bites"`                    // passes a grader there that believes a log
	NA    map[string]string   `json:"not_applicable,omitempty"` // task or ecosystem to reason
}

func (a *app) listAttacks(g *grammar, battery []exploit.Attack, targets []exploit.Target) error {
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	for _, k := range battery {
		l := listedAttack{ID: k.ID, Class: k.Class, Does: k.Does, Bites: k.Bites}
		for _, t := range targets {
			if _, na := k.Script(t); na != "" {
				if l.NA == nil {
					l.NA = map[string]string{}
				}
				l.NA[t.Task] = na
			}
		}
		if g.JSON {
			if err := a.emit("attack", l); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", l.ID, l.Class, l.Does)
		for _, t := range targets {
			if why := l.NA[t.Task]; why != "" {
				fmt.Fprintf(tw, "\t\t  not for %s: %s\n", t.Task, why)
			}
		}
	}
	return tw.Flush()
}

// attackResult is how one cheat fared at one task.
type attackResult struct {
	Attack    string        `json:"attack"`
	Class     exploit.Class `json:"class"`
	Task      string        `json:"task"`
	Ecosystem string        `json:"ecosystem"`
	Outcome   trial.Outcome `json:"outcome"`
	Cause     trial.Cause   `json:"cause"`
	Detail    string        `json:"detail,omitempty"`
	Trial     string        `json:"trial"`
	Residual  string        `json:"residual,omitempty"` // why a pass was to be expected
}

// printAttacks prints a line for each cheat, a column for each task, and what
// passed; gold stands below.
func (a *app) printAttacks(g *grammar, v *store.View, pairs []exploit.Pair) error {
	by := map[[2]string][]*store.Trial{}
	gold := map[string]trial.Outcome{}
	for _, t := range v.Trials {
		by[[2]string{t.Agent, t.Task}] = append(by[[2]string{t.Agent, t.Task}], t)
		if t.Agent == "oracle" && (gold[t.Task] == "" || gold[t.Task] == trial.Pass) {
			gold[t.Task] = t.Outcome // the worst of all attempts
		}
	}
	var results []attackResult
	for _, p := range pairs {
		for _, t := range by[[2]string{p.Attack.ID, p.Target.Task}] {
			r := attackResult{Attack: p.Attack.ID, Class: p.Attack.Class, Task: p.Target.Task, Ecosystem: string(p.Target.Ecosystem), Outcome: t.Outcome, Cause: t.Cause, Trial: t.Name, Detail: t.Record.Detail}
			if known, ok := exploit.Known(p.Attack, p.Target); ok && t.Outcome == trial.Pass {
				r.Residual = known.Why
			}
			results = append(results, r)
		}
	}
	if g.JSON {
		for _, r := range results {
			if err := a.emit("attack", r); err != nil {
				return err
			}
		}
	} else if err := a.attackTable(results, gold); err != nil {
		return err
	}
	return a.attackVerdict(g, results, gold)
}

// mark is one cell.
func mark(o trial.Outcome) string {
	switch o {
	case trial.Pass:
		return "PASS"
	case trial.Fail:
		return "fail"
	case trial.Inconclusive:
		return "void"
	case "":
		return "lost"
	}
	return string(o)
}

func (a *app) attackTable(results []attackResult, gold map[string]trial.Outcome) error {
	var tasks, attacks []string
	cells := map[[2]string]string{}
	classes := map[string]exploit.Class{}
	for _, r := range results {
		if _, ok := classes[r.Attack]; !ok {
			attacks = append(attacks, r.Attack)
			classes[r.Attack] = r.Class
		}
		if _, ok := cells[[2]string{"", r.Task}]; !ok {
			cells[[2]string{"", r.Task}] = ""
			tasks = append(tasks, r.Task)
		}
		at := [2]string{r.Attack, r.Task}
		if m := mark(r.Outcome); cells[at] == "" || r.Outcome == trial.Pass {
			cells[at] = m // a pass in any attempt is one
		}
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	row := func(first, class string, cell func(task string) string) {
		line := []string{first, class}
		for _, t := range tasks {
			line = append(line, cell(t))
		}
		fmt.Fprintln(tw, strings.Join(line, "\t"))
	}
	row("attack", "class", func(t string) string { return t[strings.LastIndexByte(t, '/')+1:] })
	for _, id := range attacks {
		row(id, string(classes[id]), func(t string) string {
			if c := cells[[2]string{id, t}]; c != "" {
				return c
			}
			return "-"
		})
	}
	row("gold", "", func(t string) string { return mark(gold[t]) })
	return tw.Flush()
}

// attackTotals sums a job of cheats up.
type attackTotals struct {
	Tried    int `json:"tried"`
	Failed   int `json:"failed"`
	Void     int `json:"void"`
	Passed   int `json:"passed"`
	Residual int `json:"passed_residual"` // of Passed
	Lost     int `json:"lost"`
	GoldOff  int `json:"gold_not_passed"` // tasks
}

func (a *app) attackVerdict(g *grammar, results []attackResult, gold map[string]trial.Outcome) error {
	var n attackTotals
	for _, r := range results {
		n.Tried++
		switch {
		case r.Outcome == trial.Pass:
			n.Passed++
			if r.Residual != "" {
				n.Residual++
			}
			a.say("%s passed %s (trial %s)%s", r.Attack, r.Task, r.Trial, residualWords(r.Residual))
		case r.Outcome == trial.Fail:
			n.Failed++
		case r.Outcome == trial.Inconclusive:
			n.Void++
		default:
			n.Lost++
		}
	}
	for _, o := range gold {
		if o != trial.Pass {
			n.GoldOff++
		}
	}
	if g.JSON {
		if err := a.emit("attacks", n); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.Stdout, "\n%d tried: %d failed, %d void, %d passed (%d of them residual), %d lost; gold passed %d of %d tasks\n",
			n.Tried, n.Failed, n.Void, n.Passed, n.Residual, n.Lost, len(gold)-n.GoldOff, len(gold))
	}
	switch {
	case n.Passed > n.Residual:
		return &exitError{exitFailed, nil}
	case n.Lost > 0:
		return partial(nil)
	case n.GoldOff > 0:
		return gate(nil)
	}
	return nil
}

func residualWords(why string) string {
	if why == "" {
		return ""
	}
	return ": residual, " + why
}
