package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"assay/trial"
)

// ErrExists means that the directory holds a job already.
var ErrExists = errors.New("a job is there already")

// ErrNoJob means that the directory holds no job.
var ErrNoJob = errors.New("no job")

// ErrForeign means that another harness wrote the job: it can be read, not
// continued.
var ErrForeign = errors.New("the job was not written by assay")

// Options are a writer's. The zero value works.
type Options struct {
	// Boundary is called at every boundary of [Boundaries], on the goroutine
	// that passes it.
	Boundary func(name string)
	// OnEvent sees every event after it was written. Events of several
	// goroutines may arrive out of order; Seq tells.
	OnEvent func(trial.Event)
	Now     func() time.Time // time.Now
}

// Boundaries names every point at which a crash must lose, repeat and corrupt
// nothing, in about the order of a job.
func Boundaries() []string {
	return []string{
		"event.write.before", "event.write.half", "event.write.after", "event.synced",
		"config.temp.written", "config.temp.synced", "config.renamed", "config.dir.synced",
		"trial.dir.made", "trial.started",
		"artifacts.synced",
		"result.temp.written", "result.temp.synced", "result.renamed", "result.dir.synced", "finished.appended",
		"attempt.moved", "attempt.announced",
		"summary.temp.written", "summary.temp.synced", "summary.renamed", "summary.dir.synced",
	}
}

// Job is a job directory open for writing. Its methods may be called by many
// goroutines; those of one trial by one at a time.
type Job struct {
	dir  string
	disk disk
	log  eventLog
	lock *os.File
	tell func(trial.Event)

	closing sync.Once

	mu  sync.Mutex // guards led
	led *ledger
}

// Meta is what a new job is made of.
type Meta struct {
	Info   trial.JobInfo // an empty ID is filled in
	Config JobConfig
}

// Create makes the directory, takes the lock, writes config.json and says
// job.started. It returns [ErrExists] where a job is.
func Create(dir string, m Meta, o Options) (*Job, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create job: %w", err)
	}
	j, err := lockJob(dir, o)
	if err != nil {
		return nil, fmt.Errorf("create job: %w", err)
	}
	if err := j.create(m); err != nil {
		return nil, errors.Join(fmt.Errorf("create job %q: %w", dir, err), j.Close())
	}
	return j, nil
}

func (j *Job) create(m Meta) error {
	if _, err := os.Lstat(filepath.Join(j.dir, ConfigFile)); err == nil {
		return ErrExists
	}
	if err := onlyLeftovers(j.dir); err != nil {
		return err
	}
	f, err := openEvents(j.dir, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND)
	if err != nil {
		return err
	}
	j.log.f = f
	if m.Info.ID == "" {
		m.Info.ID = NewID()
	}
	if m.Info.Name == "" {
		m.Info.Name = filepath.Base(j.dir)
	}
	if m.Config.JobName == "" {
		m.Config.JobName = m.Info.Name
	}
	if err := j.Announce(trial.JobStarted, "", 0, m.Info); err != nil {
		return err
	}
	// config.json comes last: a directory without it was never a job.
	return j.WriteConfig(m.Config)
}

// onlyLeftovers refuses a directory that holds anything but what a crashed
// Create leaves.
func onlyLeftovers(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range all {
		switch name := e.Name(); name {
		case writerFile, EventsFile, tempPrefix + ConfigFile:
		default:
			return fmt.Errorf("the directory is not empty: it holds %q; choose another name", name)
		}
	}
	return nil
}

// Open opens a job to continue it. What a crash left is put right first; the
// Recovery says what. It returns [ErrNoJob] where there is none, [ErrForeign]
// for another harness's, [ErrLocked] while somebody else writes.
func Open(dir string, o Options) (*Job, Recovery, error) {
	var rec Recovery
	if _, err := os.Lstat(filepath.Join(dir, ConfigFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNoJob
		}
		return nil, rec, fmt.Errorf("open job %q: %w", dir, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, EventsFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, rec, fmt.Errorf("open job %q: %w", dir, ErrForeign)
	}
	j, err := lockJob(dir, o)
	if err != nil {
		return nil, rec, fmt.Errorf("open job: %w", err)
	}
	if rec, err = j.recover(); err != nil {
		return nil, rec, errors.Join(fmt.Errorf("open job %q: %w", dir, err), j.Close())
	}
	return j, rec, nil
}

// Exists reports whether dir holds a job that Open or Read could take.
func Exists(dir string) bool { return isJob(dir) }

func lockJob(dir string, o Options) (*Job, error) {
	f, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := disk{boundary: o.Boundary, fsync: (*os.File).Sync}
	return &Job{
		dir: dir, disk: d, lock: f, led: newLedger(), tell: o.OnEvent,
		log: eventLog{disk: d, now: o.Now},
	}, nil
}

// Close releases the lock. Further writes fail; closing again does nothing.
func (j *Job) Close() (err error) {
	j.closing.Do(func() { err = errors.Join(j.log.close(), freeLock(j.lock)) })
	return err
}

// Dir is the job's directory.
func (j *Job) Dir() string { return j.dir }

// ID is the job's id, from its first event.
func (j *Job) ID() string { return j.Info().ID }

// Info is what the latest job.started or job.resumed said.
func (j *Job) Info() trial.JobInfo {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.led.info
}

// TrialDir is the directory of a trial.
func (j *Job) TrialDir(name string) string { return filepath.Join(j.dir, name) }

// Append writes an event, filling V, Seq and Time. The events that commit
// something (trial.finished and the job's own) are durable when it returns.
func (j *Job) Append(e trial.Event) error {
	e, err := j.log.append(e)
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.led.fold(e)
	j.mu.Unlock()
	if j.tell != nil {
		j.tell(e)
	}
	return nil
}

// Announce appends an event with data of the kind's type; see [trial.Kind].
func (j *Job) Announce(kind trial.Kind, name string, attempt int, data any) error {
	e := trial.Event{Trial: name, Attempt: attempt, Kind: kind}
	if data != nil {
		b, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("announce %s of %q: %w", kind, name, err)
		}
		e.Data = b
	}
	return j.Append(e)
}

// Trials lists what the events say of every trial, as first planned.
func (j *Job) Trials() []TrialState {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]TrialState, 0, len(j.led.order))
	for _, name := range j.led.order {
		all = append(all, *j.led.trials[name])
	}
	return all
}

// State is what the events say of one trial; false when none names it.
func (j *Job) State(name string) (TrialState, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t, ok := j.led.trials[name]; ok {
		return *t, true
	}
	return TrialState{Name: name}, false
}

// NewName makes a trial name for a task that no trial of the job has.
func (j *Job) NewName(task string) string {
	for {
		name := TrialName(task)
		_, known := j.State(name)
		if _, err := os.Lstat(j.TrialDir(name)); !known && errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
}

// WriteConfig writes the job's config.json: only what differs from Harbor's
// defaults.
func (j *Job) WriteConfig(c JobConfig) error {
	return j.writeModel(ConfigFile, "config", &c, sparse)
}

// WriteLock writes the job's lock.json, without nulls.
func (j *Job) WriteLock(l JobLock) error { return j.writeModel(LockFile, "summary", &l, noNulls) }

func (j *Job) writeModel(name, what string, m model, mode dumpMode) error {
	b, err := formatModel(m, mode)
	if err == nil {
		err = j.disk.replaceFile(filepath.Join(j.dir, name), what, b)
	}
	if err != nil {
		return fmt.Errorf("write %s of job %q: %w", name, j.dir, err)
	}
	return nil
}
