package job

import (
	"encoding/json"
	"errors"
	"fmt"

	"assay/internal/agent"
	"assay/task"
	"assay/trial"
)

// Given is one answer that was made elsewhere: what a trial is about instead of
// an attempt of the arm's agent.
type Given struct {
	Digest string      // tells it from any other answer to the task
	Agent  agent.Agent // lays it on the tree
	Record []byte      // kept as agent/prediction.json
	// Empty: there is nothing to lay. Such a trial fails without being run, even
	// where doing nothing would solve the task.
	Empty bool
}

// trials is how many a job has in all.
func (c Config) trials() int {
	n := 0
	for _, arm := range c.Arms {
		for _, t := range c.Tasks {
			switch {
			case !arm.meant(t):
			case arm.Given == nil:
				n += max(1, c.Attempts)
			default:
				n += len(arm.Given(t))
			}
		}
	}
	return n
}

// reps is the highest number of trials that an arm has of one task.
func (c Config) reps() int {
	n := max(1, c.Attempts)
	for _, arm := range c.Arms {
		if arm.Given == nil {
			continue
		}
		for _, t := range c.Tasks {
			n = max(n, len(arm.Given(t)))
		}
	}
	return n
}

// cells are one arm's trials of a task at one rep: one, or none.
func (c Config) cells(arm Arm, t *task.Task, digest string, rep int) []*planned {
	p := &planned{task: t, digest: digest, arm: arm, rep: rep}
	if arm.Given == nil {
		if rep > max(1, c.Attempts) {
			return nil
		}
		return []*planned{p}
	}
	all := arm.Given(t)
	if rep > len(all) {
		return nil
	}
	p.given = &all[rep-1]
	p.arm.Agent = p.given.Agent
	return []*planned{p}
}

// sameAnswer refuses to go on with a trial whose answer is another one now: the
// results of two patches must not stand in one cell.
func (p *planned) sameAnswer(was string) error {
	if is := p.answer(); was != is {
		return fmt.Errorf("task %s: the prediction of %s has %w: it was %s and is %s; start another job with --job-name",
			p.task.Name, p.arm.Spec, ErrChanged, short(was), short(is))
	}
	return nil
}

// answer is the digest of what was given; empty: an agent works.
func (p *planned) answer() string {
	if p.given == nil {
		return ""
	}
	return p.given.Digest
}

// keepGiven writes the record of what was given beside the trial's result.
func (a *attempt) keepGiven() error {
	if a.p.given == nil || a.p.given.Record == nil {
		return nil
	}
	return a.writeFile("agent/prediction.json", a.p.given.Record)
}

// neverLaid reports whether a trial ended because its answer was not laid.
func neverLaid(rec trial.Record) bool {
	return len(rec.EndState) == 0 && (rec.Cause == trial.CausePatchFailed || rec.Cause == trial.CauseEmptyPatch)
}

// unlaid ends a trial whose answer cannot be laid on the tree: there is nothing
// to be graded, and the reward is 0.
func (a *attempt) unlaid(cause trial.Cause, detail string) error {
	a.res.VerifierResult = &trial.VerifierResult{Rewards: map[string]json.Number{"reward": "0"}}
	return &endError{cause, errors.New(detail)}
}
