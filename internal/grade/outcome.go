package grade

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"assay/internal/grade/checks"
	"assay/task"
	"assay/trial"
)

// verdict is the judge's word as the job takes it.
func (o *observer) verdict(v checks.Verdict, ev *evidence) Verdict {
	reward := json.Number("0")
	if v.Resolved {
		reward = "1"
	}
	out := Verdict{
		Cause: v.Cause, Detail: detail(v), Evidence: v.Evidence, Notes: o.notes,
		Rewards: map[string]json.Number{"reward": reward}, TestExit: exitOf(v),
		Checks: &trial.Checks{
			FailToPass: shareOf(v.FailToPass), PassToPass: shareOf(v.PassToPass),
			Resolved: v.Resolved, Strict: v.Strict, Void: v.Void,
		},
	}
	if o.Mode == task.VerifierSealed {
		out.Checks.WorkDigest = workDigest(o.work)
	}
	for _, m := range v.Milestones {
		out.Checks.Milestones = append(out.Checks.Milestones, trial.Milestone{Name: m.Name, Passed: m.Passed, Total: m.Total, Reached: m.Reached, Weight: m.Weight})
	}
	out.TestsTime = o.casesTime
	var cpu time.Duration
	var rss int64
	for _, c := range slices.Concat(ev.real, ev.canary) {
		out.TestsTime += c.wall
		cpu += c.cpu
		rss = max(rss, c.rss)
	}
	out.CPU, out.MaxRSS = &cpu, &rss
	return out
}

func shareOf(l checks.List) trial.Share {
	return trial.Share{Passed: len(l.Passed), Total: len(l.Passed) + len(l.Failed)}
}

// exitOf is the first status that is not 0, else 0; nil where a command did
// not end by itself.
func exitOf(v checks.Verdict) *int {
	exit := 0
	for _, c := range v.Commands {
		if c.Exit == nil {
			return nil
		}
		if exit == 0 {
			exit = *c.Exit
		}
	}
	return &exit
}

// detail says in one line what a verdict rests on.
func detail(v checks.Verdict) string {
	switch {
	case v.Resolved:
		return ""
	case len(v.Forbidden) > 0:
		return fmt.Sprintf("%d forbidden changes, e.g. %s", len(v.Forbidden), clip(v.Forbidden[0]))
	case v.Void != "":
		return v.Void
	}
	f, p := shareOf(v.FailToPass), shareOf(v.PassToPass)
	s := fmt.Sprintf("%d of %d fail-to-pass and %d of %d pass-to-pass passed", f.Passed, f.Total, p.Passed, p.Total)
	for _, l := range []checks.List{v.FailToPass, v.PassToPass} {
		if len(l.Failed) > 0 {
			id := sortedKeys(l.Failed)[0]
			return s + "; " + clip(id) + ": " + l.Failed[id]
		}
	}
	return s
}
