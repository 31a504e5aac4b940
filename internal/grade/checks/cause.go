package checks

import (
	"slices"

	"assay/internal/grade/report"
	"assay/trial"
)

// cause says why, by the most telling of several reasons: what the work did is
// before what it did not do, what kept checks from running before what they
// said, and the task's own checks before what worked already.
func (j *judge) cause() trial.Cause {
	v := &j.v
	switch {
	case len(v.Forbidden) > 0:
		return trial.CauseForbiddenChange
	case v.Void != "":
		return trial.CauseVoid
	case v.Resolved:
		return trial.CauseSolved
	case len(v.FailToPass.Passed) == 0 && !j.seen.Attempted:
		return trial.CauseNoAttempt
	case len(v.FailToPass.Passed) == 0 && j.seen.Untouched:
		return trial.CauseEmptyPatch
	}
	found := j.reasons()
	for _, c := range []trial.Cause{trial.CauseBuildError, trial.CauseCheckTimeout, trial.CauseMemoryLimit, trial.CauseMissingTest,
		trial.CauseRuntimeError, trial.CauseWrongAnswer, trial.CauseTestMismatch, trial.CauseRegression} {
		if found[c] {
			return c
		}
	}
	return trial.CauseUnsolved // of a plan that expects nothing
}

// reasons collects every cause that something unpassed speaks for.
func (j *judge) reasons() map[trial.Cause]bool {
	found := map[trial.Cause]bool{}
	runs := map[string]Ran{}
	for _, c := range j.plan.Commands {
		r, _ := ran(j.seen.Commands, c.Name)
		runs[c.Name] = r
		found[trial.CauseCheckTimeout] = found[trial.CauseCheckTimeout] || r.TimedOut
		found[trial.CauseMemoryLimit] = found[trial.CauseMemoryLimit] || r.OutOfMemory
	}
	for _, c := range j.checks {
		r, ok := j.results[c.ID]
		if r.status == report.Passed {
			continue
		}
		if !ok {
			r.status = report.Missing
		}
		found[reason(c, r, runs[c.In])] = true
	}
	return found
}

// reason is what one check that did not pass speaks for.
func reason(c Check, r result, in Ran) trial.Cause {
	switch {
	case r.kind == report.KindBuild, r.status == report.Missing && builds(in.Report):
		return trial.CauseBuildError
	case r.kind == report.KindTimeout:
		return trial.CauseCheckTimeout
	case r.status == report.Missing && in.Signal != 0 && !in.TimedOut:
		return trial.CauseRuntimeError // the runner crashed before it could say
	case r.status == report.Missing, r.status == report.Skipped:
		return trial.CauseMissingTest
	case c.PassToPass:
		return trial.CauseRegression
	case r.kind == report.KindException, r.kind == report.KindNone && r.status == report.Errored, r.status == report.Unknown:
		return trial.CauseRuntimeError
	case c.source == ofCases:
		return trial.CauseWrongAnswer
	}
	return trial.CauseTestMismatch
}

// builds reports whether a report says that something did not build.
func builds(r *report.Report) bool {
	return r != nil && slices.ContainsFunc(r.Flags, func(f report.Flag) bool { return f.Kind == report.FlagBuild })
}
