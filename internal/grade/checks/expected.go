package checks

import "slices"

// source is the part of a plan that a check belongs to.
type source int

const (
	_ source = iota
	ofCommand
	ofCases
	ofState
)

// StateName stands before the name of an assertion in a global id.
const StateName = "state"

// Check is one check that a plan expects to pass.
type Check struct {
	ID         string // global: "COMMAND:ID", "CASES:ID", "state:NAME"
	In         string // the command's or cases' name, or StateName
	Local      string // as the report spells it
	PassToPass bool   // else fail-to-pass

	source source
}

// Global is the id of a check in a command's report, or in a group of cases.
func Global(in, local string) string { return in + ":" + local }

// Expected lists every check of the plan, in the plan's order.
func (p *Plan) Expected() []Check {
	var all []Check
	add := func(s source, in string, p2p bool, ids ...string) {
		for _, id := range ids {
			if p.out[Global(in, id)] {
				continue
			}
			all = append(all, Check{ID: Global(in, id), In: in, Local: id, PassToPass: p2p, source: s})
		}
	}
	for _, c := range p.Commands {
		f2p, p2p := c.Expected()
		add(ofCommand, c.Name, false, f2p...)
		add(ofCommand, c.Name, true, p2p...)
	}
	for _, c := range p.Cases {
		kept := map[string]bool{}
		for _, id := range c.PassToPass {
			kept[id] = true
		}
		for _, id := range c.ids {
			add(ofCases, c.Name, kept[id], id)
		}
	}
	for _, s := range p.State {
		add(ofState, StateName, s.Baseline, s.Name)
	}
	return all
}

// Expected gives both lists of a command, with the ids of their files. A
// command without a report is one check by its own name.
func (c Command) Expected() (failToPass, passToPass []string) {
	failToPass = slices.Concat(c.FailToPass, c.more.failToPass)
	passToPass = slices.Concat(c.PassToPass, c.more.passToPass)
	if c.Report == "" && len(failToPass)+len(passToPass) == 0 {
		failToPass = []string{c.Name}
	}
	return failToPass, passToPass
}

// IDs are the ids of all cases, in their file's order; of a plan that was not
// decoded there are none.
func (c Cases) IDs() []string { return c.ids }
