package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/remove"
	"assay/trial"
)

// listDepth is how many levels below a folder List looks for jobs.
const listDepth = 4

// Summary is one job in a list.
type Summary struct {
	Dir      string                `json:"dir"`
	Name     string                `json:"name"`
	State    JobState              `json:"state"`
	Foreign  bool                  `json:"foreign"` // written by another harness
	Started  time.Time             `json:"started"`
	Updated  time.Time             `json:"updated"`
	Planned  int                   `json:"planned"`
	Finished int                   `json:"finished"` // trials with a result
	Outcomes map[trial.Outcome]int `json:"outcomes,omitempty"`
	Problem  string                `json:"problem,omitempty"` // why it could not be read whole
}

// List finds all jobs at or below a folder, newest first. It follows no links
// and looks into no dot directories, nor into jobs.
func List(dir string) ([]Summary, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("list jobs: %q is not a directory", dir)
	}
	var all []Summary
	walkJobs(dir, listDepth, func(job string) { all = append(all, summarize(job)) })
	slices.SortFunc(all, func(a, b Summary) int {
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return strings.Compare(a.Dir, b.Dir)
	})
	return all, nil
}

func walkJobs(dir string, depth int, found func(job string)) {
	if isJob(dir) {
		found(dir)
		return
	}
	if depth == 0 {
		return
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return // a folder that this user may not read holds none of their jobs
	}
	for _, e := range all {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			walkJobs(filepath.Join(dir, e.Name()), depth-1, found)
		}
	}
}

// isJob tells a job's directory from a trial's, a task's and any other: assay's
// has events, Harbor's a log or a result that counts trials.
func isJob(dir string) bool {
	if regular(filepath.Join(dir, EventsFile)) && regular(filepath.Join(dir, ConfigFile)) {
		return true
	}
	if !regular(filepath.Join(dir, ConfigFile)) {
		return false
	}
	if regular(filepath.Join(dir, LogFile)) {
		return true
	}
	n, err := readJobResult(dir)
	return err == nil && n.Total != nil
}

func regular(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

func summarize(dir string) Summary {
	s := Summary{Dir: dir, Name: filepath.Base(dir)}
	f, err := openEvents(dir, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return summarizeForeign(s)
	}
	if err != nil {
		s.Problem = err.Error()
		return s
	}
	defer f.Close()
	t, err := parseEvents(f)
	if err != nil {
		s.Problem = err.Error()
	}
	l := newLedger()
	for _, e := range t.events {
		l.fold(e)
	}
	if n := len(t.events); n > 0 {
		s.Started, s.Updated = t.events[0].Time, t.events[n-1].Time
	}
	s.Outcomes = map[trial.Outcome]int{}
	for _, tr := range l.trials {
		if tr.Finished != nil {
			s.Finished++
			s.Outcomes[tr.Finished.Outcome]++
		}
	}
	s.Planned = max(l.info.Trials, len(l.trials))
	s.State = l.state(locked(dir))
	return s
}

func summarizeForeign(s Summary) Summary {
	s.Foreign = true
	n, err := readJobResult(s.Dir)
	if err != nil {
		s.Problem = err.Error()
		s.State = Stopped
		return s
	}
	s.Started, s.Updated = n.StartedAt.Time, n.UpdatedAt.Time
	s.Planned = n.total()
	if done, err := n.Stats.Completed.Int64(); err == nil {
		s.Finished = int(done)
	}
	s.State = n.state()
	return s
}

// JobState says where a job stands.
type JobState string

const (
	Running   JobState = "running"
	Done      JobState = "finished"
	Cancelled JobState = "cancelled"
	// Stopped: nobody writes the job and it did not say that it ended.
	Stopped JobState = "unfinished"
)

func (l *ledger) state(live bool) JobState {
	switch {
	case live:
		return Running
	case l.kind == trial.JobFinished:
		return Done
	case l.kind == trial.JobCancelled:
		return Cancelled
	}
	return Stopped
}

// state of a foreign job; nothing tells whether somebody is still at it.
func (n jobNumbers) state() JobState {
	if n.FinishedAt.IsZero() {
		return Stopped
	}
	return Done
}

// Remove deletes a job. It refuses a directory that holds no job and one that
// is being written. End states in the layer store are the caller's to free.
func Remove(dir string) error {
	if info, err := os.Lstat(dir); err != nil {
		return fmt.Errorf("remove job: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("remove job %q: not a directory", dir)
	}
	if !isJob(dir) {
		return fmt.Errorf("remove job %q: %w", dir, ErrNoJob)
	}
	lock, err := takeLock(dir)
	if err != nil {
		return fmt.Errorf("remove job: %w", err)
	}
	defer freeLock(lock)
	dir = filepath.Clean(dir)
	// Renamed first, so that a removal cut off leaves no half of a job behind
	// under the job's name.
	doomed := filepath.Join(filepath.Dir(dir), ".removed-"+filepath.Base(dir)+"-"+randomText(4))
	if err := os.Rename(dir, doomed); err != nil {
		return fmt.Errorf("remove job: %w", err)
	}
	if err := remove.Tree(doomed); err != nil {
		return fmt.Errorf("remove job %q: %w", dir, err)
	}
	return nil
}
