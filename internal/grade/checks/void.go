package checks

import (
	"fmt"
	"slices"

	"assay/internal/grade/report"
)

// void looks for what makes the observation one that cannot be trusted; the
// first reason in the plan's order is told. Reasons hold no text of a report,
// so that they are the same in every grading of the same work.
func (j *judge) void() {
	if n := len(j.v.Tampered); n > 0 {
		j.doubt("%d files of the tests were changed while they ran, %s first", n, j.v.Tampered[0])
	}
	for i, c := range j.plan.Commands {
		r, tried := ran(j.seen.Commands, c.Name)
		if tried {
			j.distrust(c, r, "")
		}
		if r, tried := ran(j.seen.Canary, c.Name); tried && (len(j.planted(c)) > 0 || j.seen.Spared[c.Name]) {
			j.v.Commands[i].Planted = len(j.planted(c))
			j.canary(c, r, &j.v.Commands[i])
			j.distrust(c, r, "canary")
		}
	}
	if len(j.whyVoid) > 0 {
		j.v.Void = j.whyVoid[0]
	}
}

func (j *judge) doubt(format string, args ...any) {
	j.whyVoid = append(j.whyVoid, fmt.Sprintf(format, args...))
}

// distrust voids a run whose report cannot be read, contradicts itself or its
// command's status, or is missing although the status says that all went well.
// One in which no test passes, of a command that says so, too, earns nothing
// whatever it hides: the runner could not begin, and that is a failure.
func (j *judge) distrust(c Command, r Ran, run string) {
	if c.Report == "" || r.NotStarted != "" || r.excused() {
		return
	}
	who := "the report of " + c.Name
	if run != "" {
		who = "the " + run + " run's report of " + c.Name
	}
	switch {
	case r.Report == nil && r.ReportErr != "":
		j.doubt("%s cannot be read", who)
	case r.Report == nil && r.Exit == 0 && r.Signal == 0:
		j.doubt("%s is not there, although the command ended with status 0", who)
	case r.Report != nil && (r.Exit != 0 || r.Signal != 0) && !slices.ContainsFunc(r.Report.Tests, func(t report.Test) bool { return t.Status == report.Passed }):
	case r.Report != nil:
		told := false
		for _, kind := range []report.FlagKind{report.FlagStray, report.FlagCut, report.FlagCounts, report.FlagExit} {
			if !slices.ContainsFunc(r.Report.Flags, func(f report.Flag) bool { return f.Kind == kind }) {
				continue
			}
			if run != "" {
				j.v.Flags = append(j.v.Flags, Flag{Command: c.Name, Run: run, Kind: kind})
			}
			if !told {
				told = true
				j.doubt("%s cannot be trusted: %s", who, voidWords(kind))
			}
		}
		if !told && r.Report.Void() != "" {
			j.doubt("%s cannot be trusted", who)
		}
	}
}

func voidWords(k report.FlagKind) string {
	switch k {
	case report.FlagStray:
		return "it holds what its runner does not write"
	case report.FlagCut:
		return "it breaks off"
	case report.FlagCounts:
		return "its sums are not those of its tests"
	}
	return "the command's status is not one for it"
}

// canary holds the run with canaries against the other. An id that a planted
// canary breaks, and that passed in the other run, must have failed; one that
// passed in neither says nothing, as the work is not resolved either way. An
// expected id that none breaks must be the same in both: else code that forges
// one of the runs and is honest in the other, where everything fails anyway,
// would be right every second time, whatever the number of canaries. Of a
// command that was spared in this run this holds of every id.
func (j *judge) canary(c Command, r Ran, cv *CommandVerdict) {
	breaks := map[string]bool{}
	for _, i := range j.planted(c) {
		for _, id := range c.Canaries[i].Breaks {
			breaks[id] = !j.plan.out[Global(c.Name, id)]
		}
	}
	here := map[string]report.Status{}
	switch {
	case c.Report == "" && r.NotStarted == "":
		here[c.Name] = statusOf(r)
	case r.Report != nil:
		for _, t := range r.Report.Tests {
			if before, again := here[t.ID]; !again || before == report.Passed {
				here[t.ID] = t.Status
			}
		}
	}
	claimed := len(breaks) == 0 && j.seen.Spared[c.Name]
	for id, must := range breaks {
		if !must || j.results[Global(c.Name, id)].status != report.Passed {
			continue
		}
		claimed = true
		if s := here[id]; s != report.Failed && s != report.Errored {
			cv.Broken = append(cv.Broken, id)
		}
	}
	slices.Sort(cv.Broken)
	switch {
	case claimed && r.excused():
		cv.Broken = nil
		j.doubt("the canary run of %s was stopped for its time or its memory: what its tests would have said is not known", c.Name)
		return
	case len(cv.Broken) > 0 && !slices.ContainsFunc(cv.Broken, func(id string) bool { return here[id] != "" }):
		j.doubt("%d tests of %s did not run when their expectations were changed, %.200q first: does the runner stop at the first failure?", len(cv.Broken), c.Name, cv.Broken[0])
	case len(cv.Broken) > 0:
		j.doubt("%d tests of %s did not fail when their expectations were changed, %.200q first", len(cv.Broken), c.Name, cv.Broken[0])
	case claimed && len(breaks) > 0 && r.outside() == "" && r.Exit == 0:
		j.doubt("%s ended with status 0 although expectations of its tests were changed", c.Name)
	}
	if claimed {
		j.contradicted(c, breaks, here)
	}
	for id, s := range here {
		if breaks[id] {
			continue
		}
		if was := j.results[Global(c.Name, id)].status; (was == report.Passed) != (s == report.Passed) {
			j.v.Flags = append(j.v.Flags, Flag{Command: c.Name, Run: "canary", Kind: FlagCanary, ID: id})
		}
	}
}

// contradicted doubts tests that passed, and did not when only others were
// changed: code that sees that expectations were changed, and is honest then,
// shows itself here. Gold's expected tests pass in both runs.
func (j *judge) contradicted(c Command, breaks map[string]bool, here map[string]report.Status) {
	var ids []string
	gone := true
	for _, k := range j.checks {
		if k.In != c.Name || breaks[k.Local] || j.results[k.ID].status != report.Passed {
			continue
		}
		if s, told := here[k.Local]; s != report.Passed {
			ids = append(ids, k.Local)
			gone = gone && !told
		}
	}
	slices.Sort(ids)
	switch {
	case len(ids) > 0 && gone:
		j.doubt("%d tests of %s passed, and did not run when only other tests were changed, %.200q first: does the runner stop at the first failure?", len(ids), c.Name, ids[0])
	case len(ids) > 0:
		j.doubt("%d tests of %s passed, and failed when only other tests were changed, %.200q first", len(ids), c.Name, ids[0])
	}
}
