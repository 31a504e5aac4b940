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
	case p == trial.PhaseFreeze && errors.Is(err, sandbox.ErrTooLarge):
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
	timedOut bool
	memory   bool // processes of it ended for the memory limit
}

// merge combines the grader's word with the agent's end. A verdict is never
// changed by how the agent ended: only an unsolved task gets the more telling
// cause.
func merge(graded trial.Cause, detail string, end agentEnd) (trial.Cause, string) {
	if graded != trial.CauseUnsolved {
		return graded, detail
	}
	switch {
	case end.timedOut:
		return trial.CauseAgentTimeout, "the agent was stopped at its deadline"
	case end.exit != nil && *end.exit != 0 && end.memory:
		return trial.CauseMemoryLimit, fmt.Sprintf("the sandbox was out of memory, and the agent's program ended with status %d", *end.exit)
	case end.exit != nil && *end.exit != 0:
		return trial.CauseAgentExit, fmt.Sprintf("the agent's program ended with status %d", *end.exit)
	}
	return graded, detail
}
