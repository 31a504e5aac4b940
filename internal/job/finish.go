package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/internal/agent"
	"assay/internal/grade"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trajectory"
	"assay/trial"
)

// collect copies what the agent left for people, and for a separate verifier,
// to look at: its logs and the declared artifacts.
func (a *attempt) collect(ctx context.Context, step string, key task.Key, f frozen) error {
	var from grade.Place = a.sb
	if a.sb == nil { // it has ended with its tree
		from = grade.Frozen(a.r.deps.Images, f.layer)
	}
	notes, err := grade.Collect(ctx, grade.CollectRequest{
		Sandbox: from, Key: key, Env: a.env, Workdir: a.workdir(),
		Logs:      image.HostPath(a.stepDir(step, "agent")),
		Artifacts: image.HostPath(a.stepDir(step, "artifacts")),
		Beside:    a.neighbour,
	})
	err = errors.Join(err, a.serviceLogs(step))
	if err != nil {
		return fmt.Errorf("collect from %q: %w", a.p.name, err)
	}
	for _, n := range notes {
		a.note(n)
	}
	return nil
}

// diff writes the agent's work as a diff, for people and as a prediction.
func (a *attempt) diff(step string, f frozen) error {
	if f.layer == "" {
		return nil
	}
	diff, _, err := grade.WorkspaceDiff(a.r.deps.Images, a.image, f.layer, a.workdir(), a.givenToAgent(), grade.DiffCaps{})
	if err != nil {
		return fmt.Errorf("diff of %q: %w", a.p.name, err)
	}
	return os.WriteFile(filepath.Join(a.stepDir(step, "agent"), "workspace.diff"), diff, 0o644)
}

// request is what the grader is told of a step before its work is known.
func (a *attempt) request(step string, key task.Key) grade.Request {
	req := grade.Request{
		Key: key, Backend: a.r.deps.Backend, Store: a.r.deps.Images, Image: a.image,
		Inputs: a.p.task.Inputs, Workdir: a.workdir(),
		Mode: a.verifierMode(key), Limits: a.limits(), UID: a.uid(),
		Out:       image.HostPath(a.stepDir(step, "verifier")),
		Artifacts: image.HostPath(a.stepDir(step, "artifacts")),
		Later:     a.r.later,
		Trial:     a.res.ID,
		Given:     a.given,
		Cache:     image.HostPath(filepath.Join(a.r.cfg.Dir, store.StatesDir, "references")),
	}
	if a.set != nil {
		req.Beside = a.sb
	}
	if a.seal != nil {
		req.Seal = a.seal.Layers
	}
	req.Plain = a.r.cfg.Repeats && (a.p.rep > 1 || a.p.arm.Spec != a.r.cfg.Arms[0].Spec)
	req.Every = a.r.cfg.Every
	if a.r.cfg.Shuffle {
		req.Order = uint64(a.p.rep - 1) // the first attempt has the runners' own order
	}
	return req
}

// ahead begins to make the verifier's sandbox while the agent's is frozen.
func (a *attempt) ahead(ctx context.Context, step string, key task.Key) *grade.Ahead {
	if n, _, _ := a.verifierReach(key); n != sandbox.NetNone {
		return nil
	}
	return grade.MakeAhead(ctx, a.request(step, key))
}

// grade asks the grader about one frozen step.
func (a *attempt) grade(ctx context.Context, step string, key task.Key, f frozen, last, acted bool) (grade.Verdict, error) {
	a.phase = trial.PhaseGrade
	env, err := task.ResolveEnv(key.VerifierEnv, a.r.deps.Env)
	if err != nil {
		return grade.Verdict{}, &endError{trial.CauseTaskMalformed, fmt.Errorf("[verifier].env: %w", err)}
	}
	req := a.request(step, key)
	req.End = grade.EndState{Snapshot: f.snapshot, Layer: f.layer}
	req.Env = append(append([]string{}, a.env...), env...)
	if a.seal != nil {
		req.Env = append(req.Env, a.sealEnv()...)
	}
	req.Ahead, req.Attempted = f.ahead, acted
	if f.live {
		req.Live, req.KeepAlive = a.sb, !last
	}
	if req.Mode == task.VerifierSeparate {
		if req.VerifierImage, err = a.verifierImage(ctx, key); err != nil {
			return grade.Verdict{}, err
		}
	}
	if !f.live { // a live verifier has the agent's sandbox, whose gate is shut by now
		n, gate, err := a.verifierGate(key, filepath.Join(a.stepDir(step, "verifier"), "egress.ndjson"))
		if err != nil {
			return grade.Verdict{}, err
		}
		if gate != nil {
			defer gate.Close()
			req.Network, req.Egress, a.rec.Modes.VerifierNetwork = n, gate, string(n)
		}
	}
	begin := time.Now()
	a.clk.emit(trial.PhaseStarted, trial.PhaseMark{Phase: trial.PhaseGrade, Step: step})
	v, err := grade.Grade(ctx, req)
	a.clk.add(trial.PhaseTests, step, begin, v.TestsTime, nil)
	a.clk.add(trial.PhaseGrade, step, begin, time.Since(begin)-v.TestsTime, err)
	if err != nil {
		return v, fmt.Errorf("grade %q: %w", a.p.name, err)
	}
	for _, n := range v.Notes {
		a.note(n)
	}
	a.hintOffline(step, key, v)
	a.rec.TestExit, a.rec.Evidence = v.TestExit, weaker(a.rec.Evidence, v.Evidence)
	a.rec.Checks = addChecks(a.rec.Checks, key.Step, v.Checks)
	a.rec.Modes.Grade, a.rec.Modes.Verifier = string(key.Grade), string(req.Mode)
	return v, nil
}

// verifierImage is the separate verifier's own image; nil means the task's.
func (a *attempt) verifierImage(ctx context.Context, key task.Key) (*image.Image, error) {
	env, own := a.r.cfg.verifierEnvironment(a.p.task, key)
	if !own {
		return nil, nil
	}
	env.uid = a.uid()
	got, err := a.r.images.get(ctx, env)
	if err != nil {
		return nil, err
	}
	if got.note != "" {
		a.note("verifier: " + got.note)
	}
	return &got.image, nil
}

// goOn says whether the next step runs.
func (a *attempt) goOn(key task.Key, v grade.Verdict) bool {
	why, below := grade.Below(v.Rewards, key.MinReward)
	if below {
		a.note(fmt.Sprintf("step %s ends the run: %s", key.Step, why))
	}
	return !below
}

// conclude turns the steps' verdicts into the trial's ending.
func (a *attempt) conclude() error {
	last := a.ended[len(a.ended)-1]
	if !a.p.task.MultiStep() {
		cause, detail := merge(last.verdict.Cause, last.verdict.Detail, last.agent)
		return conclude(a.rec, cause, detail)
	}
	var steps []grade.StepVerdict
	for _, e := range a.ended {
		steps = append(steps, grade.StepVerdict{Name: e.step, Cause: e.verdict.Cause, Detail: e.verdict.Detail, Rewards: e.verdict.Rewards, Checked: e.verdict.Checks != nil})
	}
	cause, detail, rewards := grade.Conclude(grade.Strategy(a.p.task.Config.MultiStepReward), len(a.p.task.Steps), steps)
	if rewards != nil {
		a.res.VerifierResult = &trial.VerifierResult{Rewards: rewards}
	}
	cause, detail = merge(cause, detail, last.agent)
	return conclude(a.rec, cause, detail)
}

// stop ends the trial with the cause of err.
func (a *attempt) stop(err error) {
	cause := blame(err, a.phase)
	if e := conclude(a.rec, cause, err.Error()); e != nil {
		conclude(a.rec, trial.CauseHarness, e.Error()) // harness is in the table: a test holds it
	}
}

// recorder collects one step's trajectory and tells the job's events of it.
func (a *attempt) recorder(b task.Brief) *agent.Recorder {
	return agent.NewRecorder(a.p.arm.info(), b, func(m trial.StepMark) {
		a.r.emit(a.p.name, a.p.attempt, trial.StepMade, m)
	})
}

func (a *attempt) saveTrajectory(step string, doc *trajectory.Trajectory) error {
	b, err := trajectory.Marshal(doc)
	if err != nil {
		return fmt.Errorf("trajectory of %q: %w", a.p.name, err)
	}
	return os.WriteFile(filepath.Join(a.stepDir(step, "agent"), "trajectory.json"), b, 0o644)
}

// record writes what stands beside the result.
func (a *attempt) record() error {
	if err := a.scrub(); err != nil {
		return fmt.Errorf("remove the trial's key from what is kept: %w", err)
	}
	a.rec.Phases, a.rec.Overhead = a.clk.times, a.clk.overhead()
	if a.rec.Fault == trial.FaultInfra || a.rec.Fault == trial.FaultTask {
		return a.writeFile("exception.txt", []byte(a.rec.Detail+"\n"))
	}
	return nil
}

// finish fills Harbor's fields from the record.
func (a *attempt) finish() {
	end := time.Now().UTC()
	a.res.FinishedAt = &end
	a.res.EnvironmentSetup = a.clk.span(trial.PhaseSetup)
	var usages []trial.Usage
	for _, e := range a.ended {
		usages = append(usages, e.usage)
	}
	total := trial.SumUsage(usages...).Usage
	if a.p.task.MultiStep() {
		for _, e := range a.ended {
			a.res.StepResults = append(a.res.StepResults, trial.StepResult{
				StepName: e.step, AgentResult: &trial.AgentResult{Usage: e.usage, ModelUsage: e.models, Metadata: meta(e.meta)},
				VerifierResult: verifierResult(e.verdict), AgentExecution: e.spanA, Verifier: e.spanV,
			})
		}
		a.res.AgentResult = &trial.AgentResult{}
	} else {
		a.res.AgentResult = &trial.AgentResult{Usage: total}
		a.res.AgentExecution = a.clk.span(trial.PhaseAgent)
		a.res.Verifier = a.clk.span(trial.PhaseTests)
		if len(a.ended) == 1 {
			a.res.AgentResult.Metadata, a.res.AgentResult.ModelUsage = meta(a.ended[0].meta), a.ended[0].models
			a.res.VerifierResult = verifierResult(a.ended[0].verdict)
			mode := harborMode(a.ended[0].verdict)
			a.res.VerifierEnvironmentMode = &mode
		}
	}
	if e, err := a.rec.Cause.Ending(); err == nil && e.Harbor != "" {
		a.res.Exception = &trial.Exception{Type: e.Harbor, Message: a.rec.Detail, At: end}
	}
}

// harborMode is Harbor's word for where the verifier ran: its schema knows
// only two.
func harborMode(v *grade.Verdict) string {
	if v != nil && v.Mode == task.VerifierLive {
		return "shared"
	}
	return "separate"
}

func verifierResult(v *grade.Verdict) *trial.VerifierResult {
	if v == nil || v.Rewards == nil {
		return nil
	}
	return &trial.VerifierResult{Rewards: v.Rewards}
}

func meta(m map[string]any) map[string]json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	out := map[string]json.RawMessage{}
	for k, v := range m {
		out[k] = raw(v)
	}
	return out
}
