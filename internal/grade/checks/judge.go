package checks

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/internal/grade/report"
	"assay/trial"
)

// maxOthers bounds what a verdict lists of unexpected failures, and of flags.
const maxOthers = 1000

// Judge says what an observation is worth by the plan. It is pure, and what it
// makes of the same two is the same, byte for byte; the order of the
// observation's parts does not matter.
//
// A check passes if its report says passed and nothing else. A command that
// leaves no report and ends with another status than 0 has missed every check;
// a report that contradicts itself, its command's status or the canaries makes
// the whole void, unless the grader itself ended the command: then its time or
// its memory says why.
func Judge(p *Plan, o Observation) Verdict {
	j := &judge{plan: p, seen: o, checks: p.Expected(), results: map[string]result{}, expected: map[string]bool{}}
	j.v = Verdict{V: 1, Plan: p.Digest(), Tampered: sorted(o.Tampered), OthersFailed: []string{}, Commands: []CommandVerdict{}}
	for _, c := range j.checks {
		j.expected[c.ID] = true
	}
	j.collect()
	j.lists()
	j.v.Forbidden = j.forbidden()
	j.void()
	j.flags()
	j.resolve()
	j.v.Evidence = j.evidence()
	j.v.Milestones, j.v.Spec, j.v.EdgeCases = j.groups()
	j.v.Cause = j.cause()
	j.v.Outcome = outcome(j.v.Cause)
	return j.v
}

// result is what became of one check.
type result struct {
	status report.Status
	kind   report.Kind
}

type judge struct {
	plan     *Plan
	seen     Observation
	v        Verdict
	checks   []Check
	expected map[string]bool   // global ids
	results  map[string]result // of all that was reported, by global id
	others   int               // unexpected failures
	ended    bool              // the grader ended a command: nothing is resolved
	whyVoid  []string
}

// ran finds a command's run. Of two with one name the observation is broken,
// and there is none.
func ran(all []Ran, name string) (Ran, bool) {
	i := slices.IndexFunc(all, func(r Ran) bool { return r.Name == name })
	if i < 0 || slices.ContainsFunc(all[i+1:], func(r Ran) bool { return r.Name == name }) {
		return Ran{Name: name, NotStarted: "it was not tried"}, false
	}
	return all[i], true
}

// outside says how a command was ended that did not end by itself.
func (r Ran) outside() string {
	switch {
	case r.NotStarted != "":
		return "not started"
	case r.TimedOut:
		return "timeout"
	case r.Signal != 0 && r.OutOfMemory:
		return "memory"
	case r.Signal != 0:
		return fmt.Sprintf("signal %d", int(r.Signal))
	}
	return ""
}

// excused reports whether the grader knows why the report may be broken off or
// at odds with the status: the time or the memory was at its end. Such a
// command resolves nothing.
func (r Ran) excused() bool {
	return r.TimedOut || r.OutOfMemory && (r.Signal != 0 || r.Exit != 0)
}

// collect notes what was reported of every test, and how the commands ended.
func (j *judge) collect() {
	for _, c := range j.plan.Commands {
		r, _ := ran(j.seen.Commands, c.Name)
		cv := CommandVerdict{Name: c.Name, Report: c.Report, Ended: r.outside()}
		if cv.Ended == "" {
			cv.Exit = &r.Exit
		}
		switch {
		case c.Report == "":
			if r.NotStarted == "" {
				j.note(c.Name, report.Test{ID: c.Name, Status: statusOf(r), Kind: kindOf(r)})
				cv.Tests = 1
			}
		case r.Report != nil:
			for _, t := range r.Report.Tests {
				j.note(c.Name, t)
			}
			cv.Tests = len(r.Report.Tests)
		}
		if r.TimedOut || r.excused() && c.Report != "" && (r.Report == nil || r.Report.Void() != "") {
			j.ended = true
		}
		j.v.Tests += cv.Tests
		j.v.Commands = append(j.v.Commands, cv)
	}
	for _, c := range j.plan.Cases {
		for _, got := range j.seen.Cases {
			if got.Name != c.Name || got.Err != "" {
				continue
			}
			for _, t := range got.Tests {
				j.note(c.Name, t)
			}
			j.v.Tests += len(got.Tests)
		}
	}
	for _, s := range j.seen.State {
		t := report.Test{ID: s.Name, Status: report.Failed, Kind: report.KindAssertion}
		if s.Held {
			t = report.Test{ID: s.Name, Status: report.Passed}
		}
		j.note(StateName, t)
	}
}

// note takes a result over. Of two for one id any that is no pass stays.
func (j *judge) note(in string, t report.Test) {
	id := Global(in, t.ID)
	if before, again := j.results[id]; again && before.status != report.Passed {
		return
	}
	j.results[id] = result{t.Status, t.Kind}
}

// statusOf is the result of a command without a report.
func statusOf(r Ran) report.Status {
	switch {
	case r.outside() == "" && r.Exit == 0:
		return report.Passed
	case r.outside() != "":
		return report.Errored
	}
	return report.Failed
}

func kindOf(r Ran) report.Kind {
	switch {
	case r.TimedOut:
		return report.KindTimeout
	case r.Signal != 0:
		return report.KindException
	case r.Exit != 0:
		return report.KindAssertion
	}
	return report.KindNone
}

// lists fills the closed lists, and what else failed.
func (j *judge) lists() {
	f2p, p2p := List{Passed: []string{}, Failed: map[string]string{}}, List{Passed: []string{}, Failed: map[string]string{}}
	for _, c := range j.checks {
		l := &f2p
		if c.PassToPass {
			l = &p2p
		}
		switch r, ok := j.results[c.ID]; {
		case !ok:
			l.Failed[c.ID] = string(report.Missing)
		case r.status == report.Passed:
			l.Passed = append(l.Passed, c.ID)
		default:
			l.Failed[c.ID] = string(r.status)
		}
	}
	slices.Sort(f2p.Passed)
	slices.Sort(p2p.Passed)
	j.v.FailToPass, j.v.PassToPass = f2p, p2p
	for id, r := range j.results {
		if j.expected[id] || r.status == report.Passed || r.status == report.Skipped || r.status == report.XFailed || r.status == report.XPassed {
			continue
		}
		j.others++
		j.v.OthersFailed = append(j.v.OthersFailed, id)
	}
	slices.Sort(j.v.OthersFailed)
	j.v.OthersFailed = j.v.OthersFailed[:min(len(j.v.OthersFailed), maxOthers)]
}

func (j *judge) forbidden() []string {
	var all []string
	for _, p := range j.plan.Forbidden {
		for _, name := range j.seen.Changed {
			if Matches(p, j.seen.Workdir, name) {
				all = append(all, name)
			}
		}
	}
	return sorted(all)
}

// resolve sums up.
func (j *judge) resolve() {
	v := &j.v
	bad := v.Void != "" || len(v.Forbidden) > 0
	v.Resolved = !bad && !j.ended && len(j.checks) > 0 && len(v.FailToPass.Failed)+len(v.PassToPass.Failed) == 0
	v.Strict = v.Resolved && j.others == 0
	for _, c := range v.Commands {
		if c.Exit == nil || *c.Exit != 0 {
			v.Strict = false
		}
	}
	if !bad {
		v.Partial = math.Round(v.FailToPass.Rate()*v.PassToPass.Rate()*1e6) / 1e6
	}
	if v.Partial == 1 && !v.Resolved {
		v.Partial = 0 // a command was ended: what it claims is not all there was
	}
}

// evidence is the weakest of what the expected checks rest on.
func (j *judge) evidence() trial.Evidence {
	weakest := trial.Separate
	for i, c := range j.plan.Commands {
		f2p, p2p := c.Expected()
		rd, err := report.ReaderOf(c.Report)
		switch {
		case err == nil && rd.Parity && len(f2p)+len(p2p) > 0:
			return trial.SelfReported // a log, which anything that prints can forge
		case len(f2p)+len(p2p) == 0, j.plan.apart(i) && !j.seen.OneUser:
		case j.canaried(c):
			if weakest == trial.Separate {
				weakest = trial.Canaried
			}
		default:
			return trial.SelfReported
		}
	}
	for _, s := range j.plan.State {
		if s.Evidence() == trial.SelfReported {
			return trial.SelfReported
		}
	}
	return weakest
}

// canaried reports whether there was a canary run with a canary of the command,
// of its fail-to-pass tests where it has such. It tells nothing to a work whose
// runs talk to each other.
func (j *judge) canaried(c Command) bool {
	_, ok := ran(j.seen.Canary, c.Name)
	return ok && (len(j.planted(c)) > 0 || j.seen.Spared[c.Name]) && c.guarded() && !j.seen.Linked
}

// planted are the indices of the canaries that were in place, sorted, once each.
func (j *judge) planted(c Command) []int {
	all := slices.Clone(j.seen.Planted[c.Name])
	all = slices.DeleteFunc(all, func(i int) bool { return i < 0 || i >= len(c.Canaries) })
	slices.Sort(all)
	return slices.Compact(all)
}

// groups says how far milestones, spec items and edge cases came. Where the
// whole is void or forbidden nothing is reached.
func (j *judge) groups() (milestones, spec, edges []Group) {
	bad := j.v.Void != "" || len(j.v.Forbidden) > 0
	group := func(name string, checks []string) Group {
		g := Group{Name: name}
		for _, id := range checks {
			if j.plan.out[id] {
				continue
			}
			g.Total++
			if j.results[id].status == report.Passed {
				g.Passed++
			}
		}
		g.Reached = !bad && g.Total > 0 && g.Passed == g.Total
		return g
	}
	before := true
	for _, m := range j.plan.Milestones {
		g := group(m.Name, m.Checks)
		before = before && g.Reached
		g.Reached, g.Weight = before, cmp.Or(m.Weight, 1)
		milestones = append(milestones, g)
	}
	for _, s := range j.plan.Spec {
		spec = append(spec, group(s.ID, s.Checks))
	}
	for _, e := range j.plan.EdgeCases {
		edges = append(edges, group(e.Name, e.Checks))
	}
	return milestones, spec, edges
}

func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

func outcome(c trial.Cause) trial.Outcome {
	e, err := c.Ending()
	if err != nil {
		panic(err) // every cause that is named here is registered
	}
	return e.Outcome
}

// flags takes the reports' flags over, without their words, in an order of
// their own.
func (j *judge) flags() {
	all := map[Flag]bool{}
	for _, f := range j.v.Flags {
		all[f] = true
	}
	for _, c := range j.plan.Commands {
		if r, _ := ran(j.seen.Commands, c.Name); r.Report != nil {
			for _, f := range r.Report.Flags {
				all[Flag{Command: c.Name, Kind: f.Kind, ID: f.ID}] = true
			}
		}
	}
	j.v.Flags = slices.SortedFunc(maps.Keys(all), func(a, b Flag) int {
		return cmp.Or(cmp.Compare(a.Command, b.Command), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	j.v.Flags = j.v.Flags[:min(len(j.v.Flags), maxOthers)]
}
