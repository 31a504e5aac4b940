package job

import (
	"context"
	"encoding/json"
	"fmt"

	"assay/internal/grade"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// spoiltError says that a step cannot be set up for what was done in the steps
// before it.
type spoiltError struct{ err error }

func (e *spoiltError) Error() string { return e.err.Error() }
func (e *spoiltError) Unwrap() error { return e.err }

// spoiltBy asks whose fault it is that step i could not be set up: the work's,
// where the same goes well in a sandbox in which nobody has worked. Blamed on
// the task, spoiling its next step would be a way out of being judged. A step
// whose setup needs what an earlier one was to make stays the task's fault.
func (a *attempt) spoiltBy(ctx context.Context, i int, err error) error {
	if i == 0 || ctx.Err() != nil || sandbox.Ended(err) || a.unspoilt(ctx, i) != nil {
		return err
	}
	return &spoiltError{err}
}

// unspoilt sets all steps up to i up, one after the other, in a sandbox without
// anybody's work, and without network or services.
func (a *attempt) unspoilt(ctx context.Context, i int) error {
	sb, err := a.r.deps.Backend.Create(ctx, a.spec(a.image))
	if err != nil {
		return err
	}
	defer sb.Close()
	own, given := a.sb, a.given
	defer func() { a.sb, a.given = own, given }()
	a.sb = sb
	if err := a.furnish(ctx); err != nil {
		return err
	}
	for n := range i + 1 {
		if err := a.furnishStep(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// spoil ends the run at a step that the work before it has spoilt: it counts as
// one that was not solved.
func (a *attempt) spoil(step, why string) {
	if why != "" {
		a.note(fmt.Sprintf("step %s cannot be set up on what the steps before it left, and can be without: %s", step, cut(why, 300)))
	}
	v := grade.Verdict{
		Cause: trial.CauseUnsolved, Detail: "it could not be set up", Mode: task.VerifierSealed,
		Rewards: map[string]json.Number{"reward": "0"}, Evidence: a.rec.Evidence,
	}
	a.ended = append(a.ended, stepEnd{step: step, verdict: &v})
}
