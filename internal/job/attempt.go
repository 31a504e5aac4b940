package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"assay/internal/agent"
	"assay/internal/grade"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// attempt is one run of one planned trial. It belongs to one goroutine.
type attempt struct {
	r     *run
	p     *planned
	dir   string // the trial's directory on the host
	clk   *clock
	phase trial.Phase
	res   *trial.Result
	rec   *trial.Record

	image image.Image
	needs []agent.Needs // by step
	env   []string      // resolved [environment].env
	sb    sandbox.Sandbox
	gate  Gate               // of sb; nil: no network
	set   *sandbox.Set       // services beside it; nil: none
	main  *task.Service      // what the Compose file says of the agent's own; nil without services
	snaps []sandbox.Snapshot // taken of sb
	ended []stepEnd
	given []string // directories of the host that were put into the workdir

	silent   bool     // it is graded again: nothing is told on the way
	shielded []string // protected paths of all steps, as tasks and plans write them

	session agent.Session // of the step under way
	lines   lines         // to the model
	bench   bench         // tools of the host
	seal    *Seal         // what the verifier has installed; nil: nothing is sealed
}

// stepEnd is what one step came to.
type stepEnd struct {
	step    string
	agent   agentEnd
	usage   trial.Usage
	models  map[string]trial.Usage // by model; nil: it had none
	meta    map[string]any
	verdict *grade.Verdict // nil when it was not graded
	err     error
	spanA   *trial.Span
	spanV   *trial.Span
}

// run executes the attempt to a result. It never returns an error of the
// trial itself: that is in the result. A cancelled ctx gives cause cancelled,
// which the caller does not commit.
func (a *attempt) run(ctx context.Context) {
	begin := time.Now().UTC()
	a.res.StartedAt = &begin
	err := a.guarded(ctx)
	a.leave()
	if err != nil && a.rec.Cause == "" {
		a.stop(err)
	}
	if e := a.record(); e != nil && a.rec.Fault != trial.FaultInfra {
		a.phase = trial.PhaseRecord
		a.stop(e)
	}
	a.finish()
}

// leave ends the agent's sandbox and frees the trees that were frozen of it:
// what outlives the attempt are layers.
func (a *attempt) leave() {
	if a.sb != nil {
		a.sb.Close()
	}
	if a.gate != nil {
		if err := a.gate.Close(); err != nil {
			a.note(err.Error())
		}
	}
	if d, ok := a.r.deps.Backend.(sandbox.Dropper); ok {
		a.r.later(func() {
			for _, s := range a.snaps {
				_ = d.Drop(s) // it goes with the backend at the latest
			}
		})
	}
}

// guarded turns a panic in one trial into that trial's infrastructure fault:
// the other trials go on.
func (a *attempt) guarded(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &endError{trial.CauseHarness, fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
		}
	}()
	return a.work(ctx)
}

func (a *attempt) work(ctx context.Context) error {
	if err := a.keepGiven(); err != nil {
		return err
	}
	if g := a.p.given; g != nil && g.Empty {
		return a.unlaid(trial.CauseEmptyPatch, "the prediction is empty: there is nothing to be graded")
	}
	if err := a.do(trial.PhaseImage, "", func() error { return a.resolve(ctx) }); err != nil {
		return err
	}
	if err := a.do(trial.PhaseSetup, "", func() error { return a.setUp(ctx) }); err != nil {
		return err
	}
	for i := range a.p.task.Steps {
		goOn, err := a.step(ctx, i)
		if err != nil {
			return err
		}
		if !goOn {
			break
		}
	}
	return a.conclude()
}

// do runs f as a phase and remembers which one the trial is in.
func (a *attempt) do(p trial.Phase, step string, f func() error) error {
	a.phase = p
	return a.clk.do(p, step, f)
}

func (a *attempt) resolve(ctx context.Context) error {
	t := a.p.task
	env, err := task.ResolveEnv(t.Config.Environment.Env, a.r.deps.Env)
	if err != nil {
		return &endError{trial.CauseTaskMalformed, fmt.Errorf("%s: [environment].env: %w", t.Name, err)}
	}
	a.env = env
	for i := range t.Steps {
		n, err := a.p.arm.Agent.Needs(a.p.arm.brief(t.Brief(i)))
		if err != nil {
			return &endError{trial.CauseUnsupported, fmt.Errorf("agent %s: %w", a.p.arm.Spec, err)}
		}
		if n.Dialect != "" && !n.Optional && a.p.arm.Model == nil {
			return &endError{trial.CauseUnsupported, fmt.Errorf("agent %s needs a model (%s) and none is given; name one with -m", a.p.arm.Spec, n.Dialect)}
		}
		if n.Network != "" && n.Network != sandbox.NetNone {
			return &endError{trial.CauseUnsupported, fmt.Errorf("agent %s needs network %q; this backend gives none", a.p.arm.Spec, n.Network)}
		}
		a.needs = append(a.needs, n)
	}
	a.capped()
	if note := a.r.uids[t.Name].note; note != "" {
		a.note(note)
	}
	got, err := a.r.images.task(ctx, t, a.uid())
	if err != nil {
		return err
	}
	if got.note != "" {
		a.note(got.note)
	}
	a.image, a.rec.Image = got.image, got.used
	a.findSeal()
	if err := a.r.keepImage(a.image); err != nil {
		return err
	}
	for i := range t.Steps { // better now than when the agent has worked
		if env, own := a.r.cfg.verifierEnvironment(t, t.Key(i)); own {
			env.uid = a.uid()
			if _, err := a.r.images.get(ctx, env); err != nil {
				return fmt.Errorf("image of the verifier: %w", err)
			}
		}
	}
	return a.compose(ctx)
}

// uid is the mode of every sandbox of the trial.
func (a *attempt) uid() sandbox.UIDMode { return a.r.uids[a.p.task.Name].mode }

// note says something aloud: in the result and in the events.
func (a *attempt) note(text string) {
	if a.silent && slices.Contains(a.rec.Notes, text) {
		return // it was said the first time
	}
	a.rec.Notes = append(a.rec.Notes, text)
	if !a.silent {
		a.r.emit(a.p.name, a.p.attempt, trial.Noted, map[string]string{"text": text})
	}
}

// workdir is where the work is: the task's word, else the image's.
func (a *attempt) workdir() image.Path {
	if w := a.p.task.Config.Environment.Workdir; w != "" {
		return image.Path(w)
	}
	if a.main != nil && a.main.Workdir != "" {
		return image.Path(a.main.Workdir)
	}
	if a.image.Config.Workdir != "" {
		return a.image.Config.Workdir
	}
	return "/"
}

// step runs and grades one step. goOn is false when the run ends after it.
func (a *attempt) step(ctx context.Context, i int) (goOn bool, err error) {
	t := a.p.task
	key, brief := t.Key(i), a.p.arm.brief(t.Brief(i))
	end := stepEnd{step: brief.Step}
	if err := a.allow(i); err != nil {
		return false, err
	}
	var spoilt *spoiltError
	if err := a.do(trial.PhaseSetup, brief.Step, func() error { return a.setUpStep(ctx, i, key) }); errors.As(err, &spoilt) {
		a.spoil(brief.Step, err.Error())
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer a.hangUp()
	// The agent's time is its Run alone; killing and freezing are ours.
	rec := a.recorder(brief)
	begin := time.Now()
	report, runErr := a.runAgent(ctx, brief, rec)
	a.phase = trial.PhaseAgent
	a.clk.add(trial.PhaseAgent, brief.Step, begin, time.Since(begin), runErr)
	end.spanA = between(begin, time.Now())
	said, err := a.listen(brief, rec)
	if err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if runErr != nil {
		return false, runErr
	}
	if report.Cause == trial.CausePatchFailed {
		return false, a.unlaid(report.Cause, report.Detail)
	}
	end.agent = agentEnd{
		exit: report.Exit, signal: report.Signal, timedOut: report.TimedOut, memory: report.OutOfMemory,
		cause: report.Cause, detail: report.Detail, said: said,
	}
	end.usage, end.meta = report.Usage, report.Metadata
	if said != nil {
		end.usage, end.models = said.Usage, said.ByModel
	}
	end.agent.acted = acted(report, said, rec)
	a.rec.AgentExit = report.Exit
	a.use(report)
	if report.OutOfMemory {
		a.note("the memory limit ended processes of the agent")
	}

	live := a.verifierMode(key) == task.VerifierLive
	if err := a.cut(); err != nil {
		return false, err
	}
	if err := a.tidy(ctx, live); err != nil {
		return false, err
	}
	last := i == len(t.Steps)-1
	var ahead *grade.Ahead
	if !live {
		ahead = a.ahead(ctx, brief.Step, key)
		defer func() { a.r.later(ahead.Close) }()
	}
	frozen, err := a.freeze(ctx, brief.Step, live, last && a.tellsAll(key))
	if err != nil {
		return false, err
	}
	frozen.ahead = ahead
	if err := a.touched(brief.Step, frozen); err != nil {
		return false, err
	}
	if err := a.do(trial.PhaseCollect, brief.Step, func() error { return a.collect(ctx, brief.Step, key, frozen) }); err != nil {
		return false, err
	}
	begin = time.Now()
	v, err := a.grade(ctx, brief.Step, key, frozen, last, end.agent.acted)
	if err != nil {
		return false, err
	}
	if live && last { // what the verifier and the agent left together
		if frozen, err = a.freeze(ctx, brief.Step, false, false); err != nil {
			return false, err
		}
	}
	if err := a.do(trial.PhaseCollect, brief.Step, func() error { return a.diff(brief.Step, frozen) }); err != nil {
		return false, err
	}
	end.spanV = between(begin, time.Now())
	end.verdict = &v
	a.ended = append(a.ended, end)
	return a.goOn(key, v), nil
}

func between(from, to time.Time) *trial.Span {
	f, t := from.UTC(), to.UTC()
	return &trial.Span{StartedAt: &f, FinishedAt: &t}
}

// agentLimit is the time an agent has for a step; 0: no limit.
func (c Config) agentLimit(b task.Brief) time.Duration {
	limit := b.Timeout
	if c.TimeoutMult > 0 {
		limit = time.Duration(float64(limit) * c.TimeoutMult)
	}
	if c.AgentLimit > 0 && (limit == 0 || c.AgentLimit < limit) {
		limit = c.AgentLimit
	}
	return limit
}

// runAgent gives the agent its session and its deadline.
func (a *attempt) runAgent(ctx context.Context, brief task.Brief, rec *agent.Recorder) (agent.Report, error) {
	limit := a.r.cfg.agentLimit(brief)
	s := agent.Session{
		Brief: brief, Sandbox: a.sb, Workdir: a.workdir(), User: brief.User,
		Env: slices.Clone(a.env), Recorder: rec, Logs: image.HostPath(a.stepDir(brief.Step, "agent")),
	}
	needs := a.needs[brief.Index]
	for _, env := range []map[string]string{needs.Env, a.p.arm.Env} {
		for _, k := range slices.Sorted(maps.Keys(env)) {
			s.Env = append(s.Env, k+"="+env[k])
		}
	}
	if needs.Solution {
		env, err := task.ResolveEnv(a.p.task.Config.Solution.Env, a.r.deps.Env)
		if err != nil {
			return agent.Report{}, &endError{trial.CauseTaskMalformed, fmt.Errorf("[solution].env: %w", err)}
		}
		s.Env = append(s.Env, env...)
	}
	if limit > 0 {
		s.Deadline = time.Now().Add(limit)
	}
	run, clock := clocked(ctx, limit)
	defer clock.stop(context.Canceled)
	put, err := a.unpack(&s, clock)
	if err != nil {
		return agent.Report{}, err
	}
	defer put()
	s.Model = a.call(run, clock)
	a.session = s
	report, err := a.p.arm.Agent.Run(run, s)
	a.lines.stand(clock)
	if ctx.Err() != nil {
		return report, err
	}
	switch why := context.Cause(run); why {
	case agent.ErrDeadline:
		report.TimedOut = true
		a.r.emit(a.p.name, a.p.attempt, trial.DeadlineMet, map[string]any{"phase": "agent", "limit_sec": limit.Seconds()})
	case agent.ErrStopped:
		report.Stopped = true
	default:
		return report, err
	}
	if errors.Is(err, context.Cause(run)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return report, err
}

// use adds what the agent's programs consumed.
func (a *attempt) use(r agent.Report) {
	if r.CPU != nil {
		ms := millis(*r.CPU)
		if a.rec.Use.CPUMillis != nil {
			ms += *a.rec.Use.CPUMillis
		}
		a.rec.Use.CPUMillis = &ms
	}
	if r.MaxRSS != nil && (a.rec.Use.MaxRSSBytes == nil || *a.rec.Use.MaxRSSBytes < *r.MaxRSS) {
		a.rec.Use.MaxRSSBytes = r.MaxRSS
	}
}

// frozen is the agent's end state: a snapshot to fork, and the same as a layer
// that outlives the backend.
type frozen struct {
	snapshot sandbox.Snapshot
	layer    image.LayerID
	live     bool
	ahead    *grade.Ahead // the verifier's sandbox; nil: it is made when it is needed
}

// freeze ends every process of the agent, then freezes the tree. In live mode
// it does neither: the verifier wants the running server. Where nobody needs
// the sandbox any more, that ends, too.
func (a *attempt) freeze(ctx context.Context, step string, live, ends bool) (frozen, error) {
	if live {
		return frozen{live: true}, nil
	}
	var f frozen
	err := a.do(trial.PhaseFreeze, step, func() error {
		var err error
		if f.snapshot, err = a.still(ctx, ends); err != nil {
			return err
		}
		a.snaps = append(a.snaps, f.snapshot)
		if f.layer, err = a.r.deps.Backend.Commit(ctx, f.snapshot); err != nil {
			return fmt.Errorf("commit the agent's tree: %w", err)
		}
		return a.keep(step, f.layer)
	})
	return f, err
}

// still kills and freezes; ends: by the end of the sandbox, if that can be.
func (a *attempt) still(ctx context.Context, ends bool) (sandbox.Snapshot, error) {
	if e, can := a.sb.(sandbox.Ender); can && ends {
		a.sb = nil
		s, err := e.End(ctx)
		if err != nil {
			err = fmt.Errorf("end the agent's sandbox: %w", err)
		}
		return s, err
	}
	if err := a.sb.Kill(ctx); err != nil {
		return "", fmt.Errorf("kill the agent's processes: %w", err)
	}
	s, err := a.sb.Snapshot(ctx)
	if err != nil {
		err = fmt.Errorf("freeze the agent's tree: %w", err)
	}
	return s, err
}

// tellsAll reports whether the end state's layer alone tells what is collected
// of a step: no hook is to run, and nothing but /logs is asked for, of which
// the image has nothing.
func (a *attempt) tellsAll(key task.Key) bool {
	if len(key.Collect)+len(key.Artifacts) > 0 {
		return false
	}
	v, err := a.r.deps.Images.View(a.image.Layers)
	if err != nil {
		return false // what reads it next says what is wrong
	}
	_, err = v.Lstat("/logs")
	return errors.Is(err, fs.ErrNotExist)
}

// keep books the end state as the job's own.
func (a *attempt) keep(step string, layer image.LayerID) error {
	end := trial.EndState{Step: step, Layer: string(layer)}
	if layer != "" {
		if err := a.r.deps.Images.Lease(image.HostPath(a.r.cfg.Dir), layer); err != nil {
			return fmt.Errorf("lease the end state: %w", err)
		}
		for e, err := range a.r.deps.Images.Entries(layer) {
			if err != nil {
				return err
			}
			end.Files++
			end.Bytes += e.Size
		}
	}
	a.rec.EndState = append(a.rec.EndState, end)
	return nil
}

// stepDir is a directory of the trial, or of one of its steps.
func (a *attempt) stepDir(step, name string) string { return stepPath(a.dir, step, name) }

func stepPath(dir, step, name string) string {
	if step == "" {
		return filepath.Join(dir, name)
	}
	return filepath.Join(dir, "steps", step, name)
}

// verifierMode decides where the verifier runs: the user's word, else the
// task's where it needs more than sealed, else sealed.
func (a *attempt) verifierMode(k task.Key) task.VerifierMode { return a.r.cfg.verifierMode(k) }

func (c Config) verifierMode(k task.Key) task.VerifierMode {
	if m := c.Verifier; m != task.VerifierUnset {
		return m
	}
	if k.Mode != task.VerifierUnset {
		return k.Mode
	}
	return task.VerifierSealed
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // only plain structs of this module come here
		return json.RawMessage(`null`)
	}
	return b
}

// writeFile writes one of the trial's artifacts. They are synced together
// before the result is committed.
func (a *attempt) writeFile(rel string, b []byte) error {
	p := filepath.Join(a.dir, rel)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, b, 0o644)
}
