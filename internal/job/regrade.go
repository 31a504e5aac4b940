package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/internal/grade"
	"assay/internal/image"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// Regraded is what became of one trial that was to be graded again.
type Regraded struct {
	Trial   string        `json:"trial"`
	Skipped string        `json:"skipped,omitempty"` // why it was not; empty: it was
	Was     trial.Outcome `json:"was"`
	Is      trial.Outcome `json:"is"`
	Before  trial.Cause   `json:"cause_before"`
	Cause   trial.Cause   `json:"cause"`
	Kept    string        `json:"kept,omitempty"` // the earlier verdict's directory, relative to the job
}

// ErrNoTrial means that a job has no trial of a name.
var ErrNoTrial = errors.New("no trial is called so in")

// Regrade grades the end states of a job's trials once more, with the tasks as
// they are now and without any agent. The earlier result and verdict of each
// are set aside as those of an attempt before are. Only names, if there are
// any; a task that has changed is regraded whole, or not at all. Trials that
// cannot be regraded say why and stay as they are. tell is called for each, one
// at a time.
func Regrade(ctx context.Context, cfg Config, names []string, deps Deps, tell func(Regraded)) ([]Regraded, error) {
	if cfg.Concurrent < 1 {
		cfg.Concurrent = defaultConcurrent
	}
	r := &run{cfg: cfg, deps: deps, images: &images{deps: deps, override: cfg.Image}, can: deps.Backend.Capabilities()}
	r.summary.Counts = map[trial.Outcome]int{}
	r.began = time.Now()
	r.images.moved = func(m trial.ImageMark) {}
	view, err := store.Read(cfg.Dir)
	if err != nil {
		return nil, err
	}
	digests, err := digestAll(cfg.Tasks)
	if err != nil {
		return nil, err
	}
	if err := r.chooseUIDs(digests); err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer r.job.Close()
	defer r.ending.Wait()
	todo, err := r.toRegrade(names, digests, toldEnds(view.Events))
	if err != nil {
		return nil, err
	}
	if err := r.job.Announce(trial.JobResumed, "", 0, r.job.Info()); err != nil {
		return nil, err
	}
	all := make([]Regraded, len(todo))
	var mu sync.Mutex
	g := errgroup.Group{}
	g.SetLimit(cfg.Concurrent)
	for i, p := range todo {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			got, err := r.regrade(ctx, p)
			if err != nil {
				return fmt.Errorf("regrade %q: %w", p.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if all[i] = got; tell != nil {
				tell(got)
			}
			return nil
		})
	}
	err = g.Wait()
	all = slices.DeleteFunc(all, func(g Regraded) bool { return g.Trial == "" })
	return all, errors.Join(err, r.closeRegraded())
}

// closeRegraded sums the job up. One that had trials pending has them still.
func (r *run) closeRegraded() error {
	kind := trial.JobFinished
	for _, st := range r.job.Trials() {
		if st.Finished == nil {
			kind = trial.JobCancelled
		}
	}
	if err := r.job.WriteSummary(r.began, 0, kind == trial.JobFinished, passAtK); err != nil {
		return err
	}
	return r.job.Announce(kind, "", 0, struct{}{})
}

// toRegrade lists the finished trials that are meant.
func (r *run) toRegrade(names []string, digests map[string]string, ends map[string]agentEnd) ([]*planned, error) {
	tasks := map[string]*task.Task{}
	for _, t := range r.cfg.Tasks {
		tasks[t.Name] = t
	}
	var todo []*planned
	left := map[string]bool{} // tasks of which a trial is not meant
	known := map[string]bool{}
	for _, st := range r.job.Trials() {
		known[st.Name] = true
		t := tasks[st.Planned.Task]
		if st.Finished == nil || t == nil {
			continue
		}
		if len(names) > 0 && !slices.Contains(names, st.Name) {
			left[t.Name] = true
			continue
		}
		p := &planned{name: st.Name, task: t, digest: digests[t.Name], rep: st.Planned.Rep, attempt: st.Attempt, was: st.Planned, end: ends[st.Name]}
		p.arm.Spec = st.Planned.Agent
		todo = append(todo, p)
	}
	for _, n := range names {
		if !known[n] {
			return nil, fmt.Errorf("--trials %s: %w %s", n, ErrNoTrial, filepath.Base(r.cfg.Dir))
		}
	}
	for _, p := range todo {
		if d := p.was.Digest; left[p.task.Name] && d != "" && d != p.digest {
			return nil, fmt.Errorf("task %s: %w: it was %s and is %s; old and new verdicts must not stand in one table, so regrade all its trials",
				p.task.Name, ErrChanged, short(d), short(p.digest))
		}
	}
	return todo, nil
}

// regrade grades one trial again, and makes that its result.
func (r *run) regrade(ctx context.Context, p *planned) (Regraded, error) {
	out := Regraded{Trial: p.name}
	res, err := r.job.Result(p.name)
	if err != nil {
		return out, err
	}
	rec, ours, err := res.Assay()
	if err != nil {
		return out, err
	}
	out.Was, out.Is, out.Before, out.Cause = rec.Outcome, rec.Outcome, rec.Cause, rec.Cause
	if neverLaid(rec) {
		return out, nil // no tests decided it, and none can
	}
	if out.Skipped = r.noRegrade(p, rec, ours); out.Skipped != "" {
		return out, nil
	}
	dir, err := os.MkdirTemp(filepath.Join(r.cfg.Dir, store.StatesDir), "regrade-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	a := r.onceMore(p, dir, res, rec)
	if err := a.gradeAgain(ctx); err != nil {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		var gone *goneError
		if errors.As(err, &gone) {
			out.Skipped = gone.Error()
			return out, nil
		}
		return out, err
	}
	if out.Kept, err = r.replace(p, a, rec); err != nil {
		return out, err
	}
	out.Is, out.Cause = a.rec.Outcome, a.rec.Cause
	return out, nil
}

// noRegrade says why a trial cannot be graded again; empty: it can.
func (r *run) noRegrade(p *planned, rec trial.Record, ours bool) string {
	again := "; run it again: assay job resume --rerun " + p.name
	switch {
	case !ours:
		return "assay did not run it"
	case rec.Fault == trial.FaultInfra || rec.Fault == trial.FaultCancelled:
		return "it was lost to infrastructure" + again
	case len(rec.EndState) == 0:
		return "no end state of it was kept" + again
	case rec.Modes.Verifier == string(task.VerifierLive):
		return "it was verified live, and the agent's processes are gone" + again
	case rec.Modes.Services != "":
		return "its services, which were part of what was judged, are gone" + again
	case rec.Modes.UID != "" && rec.Modes.UID != string(r.uids[p.task.Name].mode):
		return fmt.Sprintf("it ran in uid mode %s; regrade with that of the whole job", rec.Modes.UID)
	case len(rec.EndState) > len(p.task.Steps):
		return "its task has fewer steps now" + again
	}
	for _, e := range rec.EndState {
		if e.Layer != "" && !r.deps.Images.Has(image.LayerID(e.Layer)) {
			return fmt.Sprintf("its end state, layer %s, is not in this store: name the store it ran with (--store), or run it again: assay job resume --rerun %s",
				image.LayerID(e.Layer).Short(), p.name)
		}
	}
	return ""
}

// goneError says what a second grading would need and does not have.
type goneError struct{ what string }

func (e *goneError) Error() string { return e.what }

// onceMore is an attempt that has no agent: what it left is there already.
func (r *run) onceMore(p *planned, dir string, res *trial.Result, rec trial.Record) *attempt {
	a := &attempt{r: r, p: p, dir: dir, res: res, silent: true}
	a.clk = newClock(func(trial.Kind, trial.PhaseMark) {})
	again := rec
	again.Notes = slices.Clone(rec.Notes)
	again.Checks, again.Evidence, again.Task = nil, "", p.digest
	a.rec = &again
	return a
}

// gradeAgain grades every step's end state.
func (a *attempt) gradeAgain(ctx context.Context) error {
	t := a.p.task
	var err error
	if a.env, err = task.ResolveEnv(t.Config.Environment.Env, a.r.deps.Env); err != nil {
		return &goneError{err.Error()}
	}
	if err := a.sameImage(ctx); err != nil {
		return err
	}
	a.findSeal()
	a.given = givenDirs(t)
	old := a.r.job.TrialDir(a.p.name)
	goOn := true
	for i, state := range a.rec.EndState {
		key := t.Key(i)
		for _, d := range []string{"verifier", "artifacts"} {
			if err := os.MkdirAll(a.stepDir(key.Step, d), 0o755); err != nil {
				return err
			}
		}
		if err := linkTree(stepPath(old, key.Step, "artifacts"), a.stepDir(key.Step, "artifacts")); err != nil {
			return err
		}
		end := a.endOf(i, stepPath(old, key.Step, "verifier"))
		begin := time.Now()
		v, err := a.grade(ctx, key.Step, key, frozen{layer: image.LayerID(state.Layer)}, i == len(t.Steps)-1, end.acted)
		if err != nil {
			return err
		}
		a.ended = append(a.ended, stepEnd{step: key.Step, agent: end, verdict: &v, spanV: between(begin, time.Now())})
		if goOn = a.goOn(key, v); !goOn {
			break
		}
	}
	if next := len(a.rec.EndState); goOn && next < len(t.Steps) {
		if a.rec.Fault == trial.FaultTask {
			return &goneError{fmt.Sprintf("step %s could not be set up; run it again: assay job resume --rerun %s", t.Key(next).Step, a.p.name)}
		}
		a.spoil(t.Key(next).Step, "")
	}
	return a.conclude()
}

// sameImage finds the image on which the end state lies.
func (a *attempt) sameImage(ctx context.Context) error {
	want := image.ID(a.rec.Image.ID)
	if im, err := a.r.deps.Images.Resolve(string(want)); err == nil {
		a.image = im
		return nil
	}
	got, err := a.r.images.task(ctx, a.p.task, a.uid())
	if err != nil {
		return &goneError{fmt.Sprintf("its image %s cannot be had: %v", want, err)}
	}
	if got.image.ID != want {
		return &goneError{fmt.Sprintf("it ran on the image %s, which is not in this store; its task's image is %s now", want, got.image.ID)}
	}
	a.image = got.image
	return nil
}

// endOf is what is known of how the agent's step ended.
func (a *attempt) endOf(step int, verifier string) agentEnd {
	end := agentEnd{acted: a.rec.AgentExit != nil || a.rec.Calls != nil && *a.rec.Calls > 0}
	var ev struct {
		Attempted *bool `json:"attempted"`
	}
	if b, err := os.ReadFile(filepath.Join(verifier, grade.EvidenceFile)); err == nil && json.Unmarshal(b, &ev) == nil && ev.Attempted != nil {
		end.acted = *ev.Attempted
	}
	if step < len(a.rec.EndState)-1 {
		return end // only the last step's end explains a trial's
	}
	told := a.p.end
	end.exit, end.timedOut, end.cause, end.detail = a.rec.AgentExit, told.timedOut, told.cause, told.detail
	if end.cause == "" && !graders(a.rec.Cause) {
		end.cause, end.detail = a.rec.Cause, a.rec.Detail
	}
	return end
}

// toldEnds is what events tell of how agents ended, by trial: of the attempt
// that stands, which a regrade before took over.
func toldEnds(events []trial.Event) map[string]agentEnd {
	ends := map[string]agentEnd{}
	for _, e := range events {
		end := ends[e.Trial]
		switch e.Kind {
		case trial.DeadlineMet:
			end.timedOut = true
		case trial.LimitMet:
			var m trial.LimitMark
			if json.Unmarshal(e.Data, &m) == nil {
				end.cause, end.detail = m.Cause, m.Detail
			}
		case trial.TrialRetried, trial.TrialDropped:
			var m trial.Replaced
			if json.Unmarshal(e.Data, &m) != nil || m.Why != store.WhyRegrade {
				end = agentEnd{}
			}
		default:
			continue
		}
		ends[e.Trial] = end
	}
	return ends
}

// graders reports whether a cause is one that a grader gives by itself.
func graders(c trial.Cause) bool {
	e, err := c.Ending()
	return err != nil || e.Outcome != trial.Fail || refined(c) || c == trial.CauseForbiddenChange || c == trial.CauseDiskLimit
}

// replace sets the earlier result aside and commits the new one.
func (r *run) replace(p *planned, a *attempt, was trial.Record) (kept string, err error) {
	a.rec.Attempt = was.Attempt + 1
	a.note(fmt.Sprintf("regraded; before it was %s (%s)", was.Outcome, was.Cause))
	a.rejudge()
	if err := r.job.Replace(p.name, p.attempt, nil, trial.Replaced{Cause: was.Cause, Why: store.WhyRegrade}); err != nil {
		return "", err
	}
	st, _ := r.job.State(p.name)
	kept = st.Replaced[len(st.Replaced)-1].Kept
	info := p.was
	info.Digest = p.digest
	dir, err := r.job.Begin(p.name, p.attempt+1, info)
	if err != nil {
		return kept, err
	}
	if err := carryOver(filepath.Join(r.cfg.Dir, kept), a.dir, dir); err != nil {
		return kept, err
	}
	if err := a.res.SetAssay(*a.rec); err != nil {
		return kept, err
	}
	return kept, r.job.CommitResult(p.name, p.attempt+1, a.res)
}

// rejudge writes the new verdict into the result, and leaves all that is about
// the agent.
func (a *attempt) rejudge() {
	a.res.TaskChecksum = a.p.digest
	last := a.ended[len(a.ended)-1]
	if !a.p.task.MultiStep() {
		a.res.VerifierResult, a.res.Verifier = verifierResult(last.verdict), last.spanV
		mode := harborMode(last.verdict)
		a.res.VerifierEnvironmentMode = &mode
	}
	for i := range a.res.StepResults {
		a.res.StepResults[i].VerifierResult = nil
		if i < len(a.ended) {
			a.res.StepResults[i].VerifierResult, a.res.StepResults[i].Verifier = verifierResult(a.ended[i].verdict), a.ended[i].spanV
		}
	}
	a.res.Exception = nil
	if e, err := a.rec.Cause.Ending(); err == nil && e.Harbor != "" && a.res.FinishedAt != nil {
		a.res.Exception = &trial.Exception{Type: e.Harbor, Message: a.rec.Detail, At: *a.res.FinishedAt}
	}
}

// carryOver fills a trial's new directory: what the grader wrote now, and all
// else of the attempt before.
func carryOver(old, graded, dir string) error {
	err := filepath.WalkDir(old, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(old, p)
		if err != nil {
			return err
		}
		if rel == store.ResultFile {
			return nil
		}
		if d.IsDir() && d.Name() == store.VerifierDir && (filepath.Dir(rel) == "." || filepath.Dir(filepath.Dir(rel)) == "steps") {
			return fs.SkipDir
		}
		return linkOne(p, d, filepath.Join(dir, rel))
	})
	if err != nil {
		return fmt.Errorf("carry the attempt over: %w", err)
	}
	return linkTree(graded, dir)
}

// linkTree gives the files of a tree second names; what is there already stays.
func linkTree(from, to string) error {
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		return linkOne(p, d, filepath.Join(to, rel))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func linkOne(p string, d fs.DirEntry, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	switch {
	case d.IsDir():
		return os.MkdirAll(to, 0o755)
	case d.Type() == fs.ModeSymlink:
		target, err := os.Readlink(p)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	return os.Link(p, to)
}

// givenDirs are the directories of a task that set-up puts into the workdir.
func givenDirs(t *task.Task) []string {
	var dirs []string
	env := filepath.Join(t.Dir, "environment")
	if t.Config.Environment.DockerImage != "" && !exists(filepath.Join(env, "Dockerfile")) && exists(env) {
		dirs = append(dirs, env)
	}
	for i := range t.Steps {
		if t.MultiStep() && t.StepWorkdir(i) != "" {
			dirs = append(dirs, t.StepWorkdir(i))
		}
	}
	return dirs
}
