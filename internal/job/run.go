package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/stats"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

const (
	defaultConcurrent = 4
	defaultRetries    = 2
	// retryWait is how long a slot waits before it repeats a trial that
	// infrastructure lost; it doubles each time.
	retryWait = 200 * time.Millisecond
)

// run is one execution of a job.
type run struct {
	cfg    Config
	deps   Deps
	job    *store.Job
	images *images
	can    sandbox.Capabilities // asked once
	uids   map[string]uidChoice // by task
	began  time.Time
	room   room
	ending sync.WaitGroup // what is freed in the background
	arms   arms
	ledger ledger

	shaped    sync.Once
	jobConfig store.JobConfig // once shaped

	mu      sync.Mutex // guards all below
	kept    map[image.ID]bool
	summary Summary
	broken  error // the first failure to record something; it ends the job
	stop    context.CancelCauseFunc
}

// Run executes what is missing of a job and leaves its directory complete or
// resumable. A trial's own failure is a result; an error means that the job
// could not be run or recorded. When ctx ends, running trials are cancelled
// and dropped, and Run returns what was done, without an error.
func Run(ctx context.Context, cfg Config, deps Deps) (Summary, error) {
	if cfg.Concurrent < 1 {
		cfg.Concurrent = defaultConcurrent
	}
	if cfg.Retries == 0 {
		cfg.Retries = defaultRetries
	}
	r := &run{cfg: cfg, deps: deps, images: &images{deps: deps, override: cfg.Image}}
	r.images.moved = func(m trial.ImageMark) { r.emit("", 0, trial.ImageMoved, m) }
	r.summary.Counts = map[trial.Outcome]int{}
	r.began = time.Now()
	digests, err := digestAll(cfg.Tasks)
	if err != nil {
		return r.summary, err
	}
	all, err := expand(cfg, digests)
	if err != nil {
		return r.summary, err
	}
	r.can = deps.Backend.Capabilities()
	if err := r.chooseUIDs(digests); err != nil {
		return r.summary, err
	}
	if err := r.open(); err != nil {
		return r.summary, err
	}
	defer r.job.Close()
	todo, fresh, err := match(all, r.known(), r.job.NewName)
	if err != nil {
		return r.summary, err
	}
	if todo, err = r.setAside(all, todo); err != nil {
		return r.summary, err
	}
	r.summary.Planned, r.summary.Skipped = len(all), len(all)-len(todo)
	if err := r.announce(all, fresh); err != nil {
		return r.summary, err
	}
	r.ledger.path = filepath.Join(cfg.Dir, store.StatesDir, "spent.ndjson")
	defer r.ledger.close()
	r.arms.budget = cfg.JobBudget
	err = r.ledger.before(func(e entry) {
		if why := r.arms.spend(e.Usage, e.Estimate); why != "" {
			r.summary.Exhausted = why
		}
	})
	if err != nil {
		return r.summary, err
	}
	if r.summary.Exhausted == "" || len(todo) == 0 {
		err = r.all(ctx, todo)
	}
	r.summary.Paused = r.arms.paused()
	if err != nil && !errors.Is(err, ErrBudget) {
		return r.summary, err
	}
	return r.summary, r.close(ctx)
}

func digestAll(tasks []*task.Task) (map[string]string, error) {
	digests := map[string]string{}
	for _, t := range tasks {
		d, err := task.Digest(t.Dir)
		if err != nil {
			return nil, fmt.Errorf("digest of task %s: %w", t.Name, err)
		}
		digests[t.Name] = d
	}
	return digests, nil
}

// all prepares the images and runs the trials. The first failure to record
// anything ends the job, since results that cannot be kept are worth nothing.
func (r *run) all(ctx context.Context, todo []*planned) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	r.stop = stop
	r.mu.Unlock()
	defer r.ending.Wait()
	todo, err := r.prepare(ctx, todo)
	if err != nil {
		return err
	}
	return r.pool(ctx, todo)
}

// later does in the background what a trial need not wait for.
func (r *run) later(f func()) { r.ending.Go(f) }

// pool gives out slots.
func (r *run) pool(ctx context.Context, todo []*planned) error {
	g := errgroup.Group{}
	g.SetLimit(r.cfg.Concurrent)
	for _, p := range todo {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			err := r.wait(ctx, 0)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil && r.arms.skip(p.arm) {
				return nil
			}
			if err == nil {
				err = r.trial(ctx, p)
			}
			if err != nil {
				r.fail(err)
			}
			return nil
		})
	}
	g.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
	}
	if r.stop != nil {
		r.stop(err)
	}
}

// trial runs one planned trial to a committed result: again, a few times, when
// infrastructure lost it.
func (r *run) trial(ctx context.Context, p *planned) error {
	wait := retryWait
	for try := 0; ; try++ {
		a, err := r.begin(p)
		if err != nil {
			return err
		}
		a.run(ctx)
		if ctx.Err() != nil && a.rec.Outcome != trial.Pass && a.rec.Outcome != trial.Fail {
			return r.job.Drop(p.name, p.attempt, "interrupted")
		}
		e, err := a.rec.Cause.Ending()
		if err != nil {
			return err
		}
		if a.rec.Cause == trial.CauseHostDisk && r.low() && ctx.Err() == nil {
			// No trial fails for want of room: this one begins anew when there is some.
			if err := r.wait(ctx, 0); err != nil {
				return err
			}
			if err := r.again(p, a); err != nil {
				return err
			}
			try--
			continue
		}
		if e.Retried && try < r.cfg.Retries && ctx.Err() == nil {
			if err := r.again(p, a); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(max(wait, a.retryAfter())):
			}
			wait *= 2
			continue
		}
		if mark := r.arms.ended(p.arm, a.rec); mark != nil {
			r.emit("", 0, trial.ArmPaused, mark)
		}
		return r.commitWithRoom(ctx, a)
	}
}

// commitWithRoom commits a result; if the disk is full, once it is not.
func (r *run) commitWithRoom(ctx context.Context, a *attempt) error {
	for {
		err := r.commit(a)
		if !full(err) || !r.low() || ctx.Err() != nil {
			return err
		}
		if err := r.wait(ctx, 0); err != nil {
			return err
		}
	}
}

// begin makes the attempt's directory and says that it has started.
func (r *run) begin(p *planned) (*attempt, error) {
	dir, err := r.job.Begin(p.name, p.attempt, p.info())
	if err != nil {
		return nil, fmt.Errorf("begin trial %q: %w", p.name, err)
	}
	a := &attempt{r: r, p: p, dir: dir}
	a.clk = newClock(func(k trial.Kind, m trial.PhaseMark) { r.emit(p.name, p.attempt, k, m) })
	a.rec = &trial.Record{V: trial.RecordVersion, Attempt: p.attempt, Rep: p.rep, Task: p.digest}
	a.rec.Modes = trial.Modes{
		Backend: r.can.Name, UID: string(a.uid()), Network: string(a.network()),
		VerifierNetwork: string(sandbox.NetNone), Grade: string(p.task.Key(0).Grade),
		Verifier: string(a.verifierMode(p.task.Key(0))),
	}
	if err := r.job.WriteTrial(p.name, r.trialConfig(p), r.trialLock(p)); err != nil {
		return nil, err
	}
	a.res, err = r.blank(p, dir)
	return a, err
}

// again sets a lost attempt aside, with its result, and makes room for the
// next one.
func (r *run) again(p *planned, a *attempt) error {
	if err := a.res.SetAssay(*a.rec); err != nil {
		return err
	}
	if err := r.job.Replace(p.name, p.attempt, a.res, trial.Replaced{Cause: a.rec.Cause, Why: "retry"}); err != nil {
		return fmt.Errorf("keep the lost attempt of %q: %w", p.name, err)
	}
	p.attempt++
	return nil
}

// commit makes the attempt's result the trial's.
func (r *run) commit(a *attempt) error {
	if err := a.res.SetAssay(*a.rec); err != nil {
		return err
	}
	if err := r.job.CommitResult(a.p.name, a.p.attempt, a.res); err != nil {
		return fmt.Errorf("commit trial %q: %w", a.p.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Ran++
	r.summary.Counts[a.rec.Outcome]++
	return nil
}

// emit appends an event. A job whose events cannot be written is broken.
func (r *run) emit(name string, attempt int, kind trial.Kind, data any) {
	err := r.job.Announce(kind, name, attempt, data)
	if err != nil && !(full(err) && r.low()) { // what is told on the way may be lost to a full disk
		r.fail(err)
	}
}

func imagePath(dir string) image.HostPath { return image.HostPath(dir) }

// blank is a result with all that is known before the trial begins.
func (r *run) blank(p *planned, dir string) (*trial.Result, error) {
	full, err := r.trialConfig(p).Full()
	if err != nil {
		return nil, err
	}
	res := &trial.Result{
		ID: store.NewID(), TaskName: p.task.Name, TrialName: p.name, TrialURI: store.FileURI(dir),
		TaskID:       raw(map[string]string{"path": p.task.Dir}),
		TaskChecksum: p.digest, AgentInfo: p.arm.info(), Config: full,
	}
	if r.cfg.Source != "" {
		res.Source = &r.cfg.Source
	}
	return res, nil
}

// setAside moves the results that the user wants repeated out of the way and
// adds their trials to what must run.
func (r *run) setAside(all, todo []*planned) ([]*planned, error) {
	if len(r.cfg.Rerun) == 0 {
		return todo, nil
	}
	type chosen struct {
		p   *planned
		res *trial.Result
		rec trial.Record
	}
	var again []chosen
	used := map[string]bool{}
	for _, p := range all {
		res, err := r.job.Result(p.name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rec, _, err := res.Assay()
		if err != nil {
			return nil, err
		}
		hit := false
		for _, w := range r.cfg.Rerun {
			if w == string(rec.Fault) || w == string(rec.Cause) || w == string(rec.Outcome) || w == p.name {
				used[w], hit = true, true
			}
		}
		if hit {
			again = append(again, chosen{p, res, rec})
		}
	}
	for _, w := range r.cfg.Rerun { // before anything is moved
		if !used[w] {
			return nil, fmt.Errorf("--rerun %s: no trial of %s has this fault, cause, outcome or name", w, filepath.Base(r.cfg.Dir))
		}
	}
	for _, c := range again {
		if err := r.job.Replace(c.p.name, c.rec.Attempt, c.res, trial.Replaced{Cause: c.rec.Cause, Why: "rerun"}); err != nil {
			return nil, fmt.Errorf("set %q aside: %w", c.p.name, err)
		}
		c.p.attempt = c.rec.Attempt + 1
		todo = append(todo, c.p)
	}
	return todo, nil
}

// open takes the job's directory, and puts right what a crash left in it.
func (r *run) open() error {
	opts := store.Options{Boundary: r.deps.Boundary, OnEvent: r.deps.OnEvent}
	info := r.info()
	if !store.Exists(r.cfg.Dir) {
		j, err := store.Create(r.cfg.Dir, store.Meta{Info: info, Config: r.config()}, opts)
		if !errors.Is(err, store.ErrExists) {
			r.job = j
			return err
		}
	}
	j, rec, err := store.Open(r.cfg.Dir, opts)
	if err != nil {
		return err
	}
	r.job, r.summary.Recovery = j, rec
	return r.sameBackend()
}

// sameBackend refuses to go on with a job on another backend than its own: two
// kinds of walls must not stand in one table.
func (r *run) sameBackend() error {
	jc, err := store.ReadConfig(r.cfg.Dir)
	if err == nil {
		was, is := strings.TrimPrefix(jc.Environment.ImportPath, "assay:"), r.can.Name
		if was != "" && was != is {
			err = fmt.Errorf("backend: %w: it was %s and is %s; go on with -e %[2]s, or start another job with --job-name", ErrChanged, was, is)
		}
	}
	if err != nil {
		return errors.Join(err, r.job.Close())
	}
	return nil
}

func (r *run) info() trial.JobInfo {
	return trial.JobInfo{
		Name: filepath.Base(r.cfg.Dir), Concurrent: r.cfg.Concurrent, Version: r.deps.Version,
		Trials: r.cfg.trials(),
	}
}

// known is what the directory says of earlier runs of this job.
func (r *run) known() []known {
	var have []known
	for _, t := range r.job.Trials() {
		have = append(have, known{name: t.Name, planned: t.Planned, attempt: t.Attempt, finished: t.Finished != nil})
	}
	return have
}

// announce says what will run, and keeps the configuration for a resume.
func (r *run) announce(all, fresh []*planned) error {
	if len(r.job.Trials()) > 0 || !r.summary.Recovery.Clean() {
		if err := r.job.WriteConfig(r.config()); err != nil {
			return err
		}
		if err := r.job.Announce(trial.JobResumed, "", 0, r.info()); err != nil {
			return err
		}
	}
	for _, p := range fresh {
		if err := r.job.Announce(trial.TrialPlanned, p.name, 0, p.info()); err != nil {
			return err
		}
	}
	return r.lock(all)
}

// close writes the job's own result and says how it ended.
func (r *run) close(ctx context.Context) error {
	if err := r.job.WriteSummary(r.began, 0, ctx.Err() == nil && !r.summary.unfinished(), passAtK); err != nil {
		return err
	}
	kind := trial.JobFinished
	if ctx.Err() != nil || r.summary.unfinished() {
		kind = trial.JobCancelled
	}
	return r.job.Announce(kind, "", 0, struct{}{})
}

// unfinished reports whether trials were left pending on purpose.
func (s Summary) unfinished() bool {
	left := s.Exhausted != ""
	for _, p := range s.Paused {
		left = left || p.Pending > 0
	}
	return left
}

// passAtK is Harbor's table of one group: only where every trial has one
// reward of 0 or 1, by task, for k in powers of two and multiples of five up to
// the smallest number of attempts.
func passAtK(group []*trial.Result) map[int]float64 {
	counts := map[string]*stats.Count{}
	for _, res := range group {
		c := counts[res.TaskName]
		if c == nil {
			c = &stats.Count{}
			counts[res.TaskName] = c
		}
		c.Graded++
		if v := res.VerifierResult; v != nil && len(v.Rewards) > 0 {
			reward := trial.Main(v.Rewards)
			if len(v.Rewards) > 1 || reward == nil || *reward != 0 && *reward != 1 {
				return nil
			}
			c.Passed += int(*reward)
		}
	}
	var all []stats.Count
	least := 0
	for _, c := range counts {
		all = append(all, *c)
		if least == 0 || c.Graded < least {
			least = c.Graded
		}
	}
	table := map[int]float64{}
	for k := 2; k <= least; k++ {
		if k&(k-1) != 0 && k%5 != 0 {
			continue
		}
		if at, ok := stats.PassAtKOver(all, k); ok {
			table[k] = at.Mean.Value
		}
	}
	return table
}
