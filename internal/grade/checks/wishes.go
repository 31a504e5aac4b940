package checks

import (
	"fmt"
	"slices"

	"assay/internal/grade/report"
	"assay/trial"
)

// Wish is advice about a plan that can be used.
type Wish struct {
	Rule         string
	Line, Column int // 0: of no one place
	Message      string
	Remedy       string
}

// apart reports whether a command keeps the work apart from the assertions. One
// that runs after another which does not shares its sandbox with what the work
// did there, as the assertions' user.
func (p *Plan) apart(i int) bool {
	return !slices.ContainsFunc(p.Commands[:i+1], func(c Command) bool { return !c.Separate })
}

// CommandEvidence is what the checks of the i-th command will rest on, when its canaries
// are planted and users are real.
func (p *Plan) CommandEvidence(i int) trial.Evidence {
	c := p.Commands[i]
	rd, err := report.ReaderOf(c.Report)
	switch {
	case err == nil && rd.Parity:
		return trial.SelfReported // a log, which anything that prints can forge
	case p.apart(i):
		return trial.Separate
	case c.guarded():
		return trial.Canaried
	}
	return trial.SelfReported
}

// guarded reports whether the command has canaries, of its fail-to-pass tests
// where it has such: whoever knows these could else forge them alone.
func (c Command) guarded() bool {
	f2p, _ := c.Expected()
	return len(c.Canaries) > 0 && (len(f2p) == 0 || slices.ContainsFunc(c.Canaries, func(k Canary) bool {
		return slices.ContainsFunc(k.Breaks, func(id string) bool { return slices.Contains(f2p, id) })
	}))
}

// Evidence is what an assertion's result rests on: paths are looked at from
// outside; a command's output, and the list of processes, come from programs
// of a tree that the candidate's code ran in.
func (s State) Evidence() trial.Evidence {
	if s.Run != "" || s.NoProcess != "" {
		return trial.SelfReported
	}
	return trial.Separate
}

// Evidence is the weakest of what the plan's checks will rest on.
func (p *Plan) Evidence() trial.Evidence {
	weakest := trial.Separate
	for i := range p.Commands {
		switch p.CommandEvidence(i) {
		case trial.SelfReported:
			return trial.SelfReported
		case trial.Canaried:
			weakest = trial.Canaried
		}
	}
	for _, s := range p.State {
		if s.Evidence() == trial.SelfReported {
			return trial.SelfReported
		}
	}
	return weakest
}

// SelfReported reports whether a verdict could rest on the runner's word alone.
func (p *Plan) SelfReported() bool { return p.Evidence() == trial.SelfReported }

// Wishes lists what a plan leaves to be wished.
func (p *Plan) Wishes() []Wish {
	var all []Wish
	wish := func(rule, remedy, format string, args ...any) {
		all = append(all, Wish{Rule: rule, Message: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	f2p := false
	broken := map[string]bool{}
	for i, c := range p.Commands {
		if p.CommandEvidence(i) == trial.SelfReported {
			w := Wish{Rule: "self-reported", Message: fmt.Sprintf("the checks of %q are what the work's own process says of itself", c.Name), Remedy: "give it canaries, of its fail-to-pass tests where it has such, or run the work as another user and say separate = true, before all commands that do not"}
			all = append(all, p.at(w, c.Name))
		}
		for _, w := range c.runWishes() {
			all = append(all, p.at(w, c.Name))
		}
		if w, ok := p.configWish(c); ok {
			all = append(all, p.at(w, c.Name))
		}
		for _, k := range c.Canaries {
			for _, id := range k.Breaks {
				broken[Global(c.Name, id)] = true
			}
		}
	}
	unbroken := 0
	for _, c := range p.Expected() {
		if c.PassToPass {
			continue
		}
		f2p = true
		if c.source == ofCommand && !broken[c.ID] {
			unbroken++
		}
	}
	if !f2p {
		wish("no-fail-to-pass", "say what fails before the work and passes after it", "every check passes before any work is done, so that doing nothing passes")
	}
	if len(broken) > 0 && unbroken > 0 {
		wish("few-canaries", "canaries of the task's own checks tell most", "%d fail-to-pass checks are broken by no canary", unbroken)
	}
	return all
}

// at gives a wish the place of a command's name.
func (p *Plan) at(w Wish, name string) Wish {
	for i, c := range p.Commands {
		if c.Name == name && p.places != nil {
			f := p.places.At(nil, "commands", i, "name")
			w.Line, w.Column = f.Line, f.Column
		}
	}
	return w
}
