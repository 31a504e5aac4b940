package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"assay/trial"
)

// Read reads a job, assay's or Harbor's, as it stands. It takes no lock: a job
// that is being written reads as it was at some moment. An error means that
// dir is no job; everything else that is wrong is a Finding.
func Read(dir string) (*View, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	if info, err := os.Stat(abs); err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	} else if !info.IsDir() || !isJob(abs) {
		return nil, fmt.Errorf("read job %q: %w", dir, ErrNoJob)
	}
	tr, err := openTree(abs)
	if err != nil {
		return nil, fmt.Errorf("read job %q: %w", dir, err)
	}
	defer tr.close()
	v := &View{Dir: abs, Name: filepath.Base(abs)}
	if v.Config, err = tr.read(ConfigFile, maxSmall); err != nil {
		v.finding(ConfigFile, "%v", err)
	}
	r := &reader{view: v, tree: tr, led: newLedger()}
	if err := r.events(); err != nil {
		return nil, fmt.Errorf("read job %q: %w", dir, err)
	}
	if err := r.trials(); err != nil {
		return nil, fmt.Errorf("read job %q: %w", dir, err)
	}
	if v.Foreign {
		r.foreign()
	} else {
		r.own()
	}
	r.count()
	return v, nil
}

type reader struct {
	view *View
	tree tree
	led  *ledger
}

// events reads and folds events.ndjson; a job without one is foreign.
func (r *reader) events() error {
	f, err := openEvents(r.view.Dir, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		r.view.Foreign = true
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := parseEvents(f)
	if err != nil {
		r.view.finding(EventsFile, "%v", err)
	}
	if t.bad > 0 {
		r.view.finding(EventsFile, "%d unreadable lines were skipped", t.bad)
	}
	if t.twice > 0 {
		r.view.finding(EventsFile, "%d repeated events were skipped", t.twice)
	}
	r.view.Events = t.events
	for _, e := range t.events {
		r.led.fold(e)
	}
	return nil
}

// trials reads every trial's directory, several at a time, and joins them with
// what the events say.
func (r *reader) trials() error {
	entries, err := r.tree.list(".")
	if entries == nil {
		return err
	}
	if err != nil {
		r.view.finding("", "%v", err)
	}
	live := locked(r.view.Dir)
	r.view.State = r.led.state(live)
	names := slices.Clone(r.led.order)
	for _, e := range entries {
		if name := e.Name(); r.looksLikeTrial(e) && r.led.trials[name] == nil {
			names = append(names, name)
		}
	}
	r.view.Trials = make([]*Trial, len(names))
	var g errgroup.Group
	g.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	for i, name := range names {
		g.Go(func() error {
			r.view.Trials[i] = r.trial(name, live)
			return nil
		})
	}
	return g.Wait()
}

// looksLikeTrial tells a trial from what else lies in a job: a directory
// without a leading dot that holds a trial's file.
func (r *reader) looksLikeTrial(e fs.DirEntry) bool {
	name := e.Name()
	if strings.HasPrefix(name, ".") || e.Type().IsRegular() {
		return false
	}
	if slices.Contains([]string{EventsFile, ConfigFile, LockFile, ResultFile, LogFile}, name) {
		return false // whoever reads it tells
	}
	if !e.IsDir() {
		r.view.finding(name, "neither a file nor a directory; it is ignored")
		return false
	}
	for _, f := range []string{ResultFile, ConfigFile, TrialLogFile} {
		if _, err := r.tree.root.Lstat(name + "/" + f); err == nil {
			return true
		}
	}
	return false
}

// trial reads one trial. It runs beside others and touches only its own.
func (r *reader) trial(name string, live bool) *Trial {
	t := &Trial{Name: name, Dir: filepath.Join(r.view.Dir, name), Status: TrialPlanned}
	state := r.led.trials[name]
	if state != nil {
		p := state.Planned
		t.Task, t.Digest, t.Agent, t.Model, t.Rep = p.Task, p.Digest, p.Agent, p.Model, p.Rep
		t.Attempt, t.Replaced = state.Attempt, state.Replaced
		switch {
		case state.Finished != nil:
			t.Status = TrialUnreadable // until the result is read
		case state.Running && live:
			t.Status = TrialRunning
		case state.Running:
			t.Status = TrialCutOff
		}
	}
	if err := goodTrialName(name); err != nil {
		t.finding(name, "%v", err)
	}
	if !filepath.IsLocal(name) || strings.ContainsRune(name, '/') {
		return t
	}
	if state == nil || state.Running || state.Finished != nil {
		t.load(r.tree, name, state)
	}
	return t
}

// load fills t from the directory name of tr. Without a state, the result
// alone says what it is.
func (t *Trial) load(tr tree, name string, state *TrialState) {
	b, err := tr.read(name+"/"+ResultFile, maxResult)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (state == nil || state.Finished == nil):
		if state == nil {
			t.Status = TrialCutOff
			t.describe(tr, name)
		}
		t.files(tr, name, nil)
		return
	case err != nil:
		t.Status = TrialUnreadable
		t.finding(name+"/"+ResultFile, "%v", err)
		t.files(tr, name, nil)
		return
	}
	if state != nil && state.Finished == nil {
		return // no event tells of it yet: a writer's next line, or a resume, will
	}
	t.resultDigest = Digest(b)
	if state != nil && t.resultDigest != state.Finished.Digest {
		t.Status = TrialUnreadable
		t.finding(name+"/"+ResultFile, "its digest is %s and its event says %s: it was changed; resume runs it again", t.resultDigest, state.Finished.Digest)
		return
	}
	if err := t.take(b); err != nil {
		t.Status = TrialUnreadable
		t.finding(name+"/"+ResultFile, "%v", err)
	}
	if t.Digest == "" {
		t.Digest = lockedDigest(tr, name)
	}
	t.files(tr, name, t.Result)
}

// take fills t from the bytes of a result.
func (t *Trial) take(b []byte) error {
	res, err := trial.Parse(b)
	if err != nil {
		return err
	}
	if res.TrialName == "" {
		return errors.New("it names no trial: not a trial's result")
	}
	rec, derived, err := record(res)
	if err != nil {
		return err
	}
	t.Result, t.Record, t.Derived, t.Status = res, rec, derived, TrialFinished
	t.Outcome, t.Fault, t.Cause, t.Evidence = rec.Outcome, rec.Fault, rec.Cause, rec.Evidence
	t.Usage = res.TotalUsage()
	if t.Task == "" {
		t.Task, t.Agent = res.TaskName, res.AgentInfo.Name
		if m := res.AgentInfo.Model; m != nil {
			t.Model = m.Name
		}
	}
	if t.Rep == 0 {
		t.Rep = rec.Rep
	}
	t.Attempt = max(t.Attempt, rec.Attempt)
	if t.Digest == "" {
		t.Digest = rec.Task
	}
	if v := res.VerifierResult; v != nil {
		t.Rewards, t.Reward = v.Rewards, trial.Main(v.Rewards)
	}
	if res.StartedAt != nil {
		t.Started = *res.StartedAt
	}
	if res.FinishedAt != nil {
		t.Finished = *res.FinishedAt
	}
	return nil
}

// own sets what only assay's events tell.
func (r *reader) own() {
	v := r.view
	v.Info, v.ID = r.led.info, r.led.info.ID
	if n := len(v.Events); n > 0 {
		v.Started, v.Updated = v.Events[0].Time, v.Events[n-1].Time
	}
	for i := len(v.Events) - 1; i >= 0 && v.State == Done; i-- {
		if v.Events[i].Kind == trial.JobFinished {
			v.Finished = v.Events[i].Time
			break
		}
	}
}

func (r *reader) count() {
	v := r.view
	for _, t := range v.Trials {
		if t.Status != TrialFinished {
			continue
		}
		v.Ended++
		if e, err := t.Cause.Ending(); err == nil && e.Counted {
			v.Graded++
		}
	}
	v.Planned = max(v.Planned, v.Info.Trials, len(v.Trials))
}

// ReadTrial reads one trial by its directory, without its job's events.
func ReadTrial(dir string) (*Trial, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("read trial: %w", err)
	}
	parent, name := filepath.Split(abs)
	tr, err := openTree(parent)
	if err != nil {
		return nil, fmt.Errorf("read trial: %w", err)
	}
	defer tr.close()
	if _, err := tr.stat(name); err != nil {
		return nil, fmt.Errorf("read trial %q: %w", dir, err)
	}
	t := &Trial{Name: name, Dir: abs}
	t.load(tr, name, nil)
	if t.Status != TrialFinished {
		why := "it has no result"
		if len(t.Findings) > 0 {
			why = t.Findings[0].String()
		}
		return nil, fmt.Errorf("read trial %q: %s", dir, why)
	}
	return t, nil
}
