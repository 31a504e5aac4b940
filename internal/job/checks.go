package job

import (
	"slices"

	"assay/internal/agent"
	"assay/trajectory"
	"assay/trial"
)

// acted reports whether an agent did anything at all: it ran a program, asked a
// model, or used a tool.
func acted(r agent.Report, said *Said, rec *agent.Recorder) bool {
	if r.Exit != nil || said != nil && said.Calls > 0 {
		return true
	}
	return slices.ContainsFunc(rec.Document().Steps, func(s trajectory.Step) bool { return len(s.ToolCalls) > 0 })
}

// refined reports whether the agent's own end tells more than a grader's cause:
// of work that was judged and not good enough. That it changes what is
// forbidden tells most.
func refined(c trial.Cause) bool {
	switch c {
	case trial.CauseUnsolved, trial.CauseBuildError, trial.CauseRuntimeError, trial.CauseCheckTimeout, trial.CauseMemoryLimit,
		trial.CauseWrongAnswer, trial.CauseTestMismatch, trial.CauseMissingTest, trial.CauseRegression,
		trial.CauseEmptyPatch, trial.CauseNoAttempt:
		return true
	}
	return false
}

// weaker is the weaker evidence of two steps; the empty one is of none.
func weaker(a, b trial.Evidence) trial.Evidence {
	order := []trial.Evidence{trial.SelfReported, trial.Canaried, trial.Separate}
	i, j := slices.Index(order, a), slices.Index(order, b)
	if i < 0 || j >= 0 && j < i {
		return b
	}
	return a
}

// addChecks adds a step's sums to those of the steps before. A step without a
// plan adds nothing.
func addChecks(sum *trial.Checks, step string, c *trial.Checks) *trial.Checks {
	if c == nil {
		return sum
	}
	one := *c
	one.Milestones = slices.Clone(c.Milestones)
	for i := range one.Milestones {
		if step != "" {
			one.Milestones[i].Name = step + ": " + one.Milestones[i].Name
		}
	}
	if sum == nil {
		return &one
	}
	one.FailToPass.Passed += sum.FailToPass.Passed
	one.FailToPass.Total += sum.FailToPass.Total
	one.PassToPass.Passed += sum.PassToPass.Passed
	one.PassToPass.Total += sum.PassToPass.Total
	one.Resolved, one.Strict = one.Resolved && sum.Resolved, one.Strict && sum.Strict
	if one.Void == "" {
		one.Void = sum.Void
	}
	one.Milestones = slices.Concat(sum.Milestones, one.Milestones)
	return &one // the digest is the last step's: its work holds that of the steps before
}
