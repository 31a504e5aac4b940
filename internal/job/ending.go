package job

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/trial"
)

// endError is an error that knows its cause.
type endError struct {
	cause trial.Cause
	err   error
}

func (e *endError) Error() string { return e.err.Error() }
func (e *endError) Unwrap() error { return e.err }

// blame finds the cause of an error that ended a trial in phase p. What has no
// better name is blamed on the phase: before the agent it is the place, after
// it the harness, and never the agent.
func blame(err error, p trial.Phase) trial.Cause {
	var known *endError
	var missing *image.MissingError
	switch {
	case errors.Is(err, sandbox.ErrOutOfMemory):
		return trial.CauseMemoryLimit
	case errors.Is(err, sandbox.ErrLost): // whatever was being done with it
		return trial.CauseSandboxLost
	case errors.As(err, &known):
		return known.cause
	case errors.Is(err, context.Canceled):
		return trial.CauseCancelled
	case errors.As(err, &missing):
		return trial.CauseImageMissing
	case errors.Is(err, sandbox.ErrUnsupported):
		return trial.CauseUnsupported
	case p == trial.PhaseFreeze && (errors.Is(err, sandbox.ErrTooLarge) || errors.Is(err, image.ErrCap)):
		// A tree that no layer can hold is the agent's doing; blamed on the place
		// it would be a way out of being judged.
		return trial.CauseDiskLimit
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return trial.CauseHostDisk
	case p == trial.PhaseImage:
		return trial.CauseImageBuild
	case p == trial.PhaseSetup:
		return trial.CauseSandboxStart
	}
	return trial.CauseHarness
}

// conclude writes cause, with the outcome and fault that the table gives it,
// into rec.
func conclude(rec *trial.Record, cause trial.Cause, detail string) error {
	e, err := cause.Ending()
	if err != nil {
		return fmt.Errorf("conclude trial: %w", err)
	}
	rec.Outcome, rec.Fault, rec.Cause, rec.Detail = e.Outcome, e.Fault, cause, cut(detail, 1000)
	return nil
}

// agentEnd is how the agent's own run ended, apart from what the grader says.
type agentEnd struct {
	exit     *int
	signal   syscall.Signal
	timedOut bool
	memory   bool        // processes of it ended for the memory limit
	cause    trial.Cause // why the agent says that it stopped; empty: it does not
	detail   string      // of cause
	said     *Said
	acted    bool // it did anything at all, as far as its record knows
}

// merge combines the grader's word with the agent's end. A verdict is never
// changed by how the agent ended: only an unsolved task gets the more telling
// cause. Where a provider's failure kept the agent from its work, there is no
// verdict on the agent, unless it had solved the task by then.
func merge(graded trial.Cause, detail string, end agentEnd) (trial.Cause, string) {
	failed, why := end.said.failed()
	if failed != "" && graded != trial.CauseSolved {
		was, err := graded.Ending()
		is, err2 := failed.Ending()
		if errors.Join(err, err2) == nil && was.Counted && is.Fault == trial.FaultInfra {
			return failed, why
		}
	}
	if !refined(graded) {
		return graded, detail
	}
	if failed != "" {
		return failed, why
	}
	if c, why := end.said.stopped(); c != "" {
		return c, why
	}
	if end.timedOut {
		return trial.CauseAgentTimeout, "the agent was stopped at its deadline"
	}
	if c, why := end.said.hint(); c != "" {
		return c, why
	}
	return end.program(graded, detail)
}

// program is the cause that the end of the agent's program gives, else the
// grader's.
func (end agentEnd) program(graded trial.Cause, detail string) (trial.Cause, string) {
	switch {
	case end.exit != nil && *end.exit != 0 && end.memory:
		return trial.CauseMemoryLimit, fmt.Sprintf("the sandbox was out of memory, and the agent's program ended with status %d", *end.exit)
	case end.signal != 0:
		return trial.CauseAgentCrash, fmt.Sprintf("signal %d (%v) ended the agent's program", int(end.signal), end.signal)
	case end.exit != nil && *end.exit != 0:
		return trial.CauseAgentExit, fmt.Sprintf("the agent's program ended with status %d", *end.exit)
	}
	if e, err := end.cause.Ending(); err == nil && e.Outcome == trial.Fail {
		return end.cause, end.detail // its own word may explain a failure, and do nothing else
	}
	return graded, detail
}
