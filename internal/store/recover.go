package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/trial"
)

// Recovery says what Open found and put right.
type Recovery struct {
	CutBytes    int64     `json:"cut_bytes,omitempty"`   // torn end of events.ndjson
	BadLines    int       `json:"bad_lines,omitempty"`   // unreadable lines inside it, left alone
	Repeated    int       `json:"repeated,omitempty"`    // events with a seq that was there already
	Reannounced []string  `json:"reannounced,omitempty"` // results without an event
	Dropped     []SetBack `json:"dropped,omitempty"`     // attempts without a result
	Corrupt     []SetBack `json:"corrupt,omitempty"`     // results that are not what their event says
	Temporary   int       `json:"temporary,omitempty"`   // files that were never renamed, removed
}

// SetBack is an attempt that was set aside; its trial must run again.
type SetBack struct {
	Trial   string `json:"trial"`
	Attempt int    `json:"attempt"`
	Kept    string `json:"kept,omitempty"` // relative to the job
	Why     string `json:"why"`
}

// Clean reports that there was nothing to put right.
func (r Recovery) Clean() bool { return len(r.Lines()) == 0 }

// Lines tells people what happened, one line each.
func (r Recovery) Lines() []string {
	var all []string
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(r.CutBytes, "cut %d bytes of a torn last line from %s", r.CutBytes, EventsFile)
	add(int64(r.BadLines), "%d unreadable lines in %s", r.BadLines, EventsFile)
	add(int64(r.Repeated), "%d repeated events in %s", r.Repeated, EventsFile)
	add(int64(r.Temporary), "removed %d unfinished files", r.Temporary)
	for _, name := range r.Reannounced {
		all = append(all, fmt.Sprintf("%s: its result had no event; announced again", name))
	}
	for _, s := range slices.Concat(r.Dropped, r.Corrupt) {
		all = append(all, fmt.Sprintf("%s: attempt %d set aside (%s)", s.Trial, s.Attempt, s.Why))
	}
	return all
}

// recover brings events and directories together again.
func (j *Job) recover() (Recovery, error) {
	var rec Recovery
	if err := j.openLog(&rec); err != nil {
		return rec, err
	}
	rec.Temporary = j.removeTemporary(j.dir)
	all, err := os.ReadDir(j.dir)
	if err != nil {
		return rec, err
	}
	there := map[string]bool{}
	for _, e := range all {
		if name := e.Name(); e.IsDir() && !strings.HasPrefix(name, ".") && j.isTrial(name) {
			there[name] = true
			rec.Temporary += j.removeTemporary(j.TrialDir(name))
			if err := j.recoverDir(name, &rec); err != nil {
				return rec, err
			}
		}
	}
	for _, t := range j.Trials() {
		if !there[t.Name] && (t.Running || t.Finished != nil) {
			if err := j.recoverGone(t, &rec); err != nil {
				return rec, err
			}
		}
	}
	for _, t := range j.Trials() {
		if err := j.recoverRegraded(t, &rec); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// recoverRegraded puts a result back that was set aside for a new verdict which
// was not committed: what was found by then, and the agent's work, stand.
func (j *Job) recoverRegraded(t TrialState, rec *Recovery) error {
	if t.Finished != nil || t.Running {
		return nil
	}
	was, ok := t.regraded()
	if !ok {
		return nil
	}
	kept := filepath.Join(j.dir, was.Kept)
	if _, err := readRegular(filepath.Join(kept, ResultFile), maxResult); err != nil {
		return nil // it left no result to put back
	}
	if err := os.Rename(kept, j.TrialDir(t.Name)); err != nil {
		return fmt.Errorf("put the result of trial %q back: %w", t.Name, err)
	}
	if err := errors.Join(j.disk.syncDir(filepath.Join(j.dir, AttemptsDir)), j.disk.syncDir(j.dir)); err != nil {
		return err
	}
	return j.recoverDir(t.Name, rec)
}

// openLog reads the events, cuts a torn end and opens the log for appending.
func (j *Job) openLog(rec *Recovery) error {
	f, err := openEvents(j.dir, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	j.log.f = f
	t, err := parseEvents(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", EventsFile, err)
	}
	if t.good < t.total {
		if err := errors.Join(f.Truncate(t.good), j.disk.fsync(f)); err != nil {
			return fmt.Errorf("cut the torn end of %s: %w", EventsFile, err)
		}
	}
	rec.CutBytes, rec.BadLines, rec.Repeated = t.total-t.good, t.bad, t.twice
	for _, e := range t.events {
		j.led.fold(e)
		j.log.seq = e.Seq
	}
	j.log.size = t.good
	return nil
}

// isTrial tells a trial's directory from a foreign one: the events name it, or
// it holds what a trial holds.
func (j *Job) isTrial(name string) bool {
	if _, known := j.State(name); known {
		return true
	}
	for _, f := range []string{ResultFile, ConfigFile, TrialLogFile} {
		if _, err := os.Lstat(filepath.Join(j.TrialDir(name), f)); err == nil {
			return true
		}
	}
	return false
}

func (j *Job) removeTemporary(dir string) (n int) {
	for _, name := range []string{ConfigFile, LockFile, ResultFile} {
		if os.Remove(filepath.Join(dir, tempPrefix+name)) == nil {
			n++
		}
	}
	return n
}

// recoverDir looks at one trial directory that is there.
func (j *Job) recoverDir(name string, rec *Recovery) error {
	t, _ := j.State(name)
	b, err := readRegular(filepath.Join(j.TrialDir(name), ResultFile), maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		why := "it left no result"
		if t.Finished != nil {
			return j.setAside(t, "its result is gone", &rec.Corrupt)
		}
		return j.setAside(t, why, &rec.Dropped)
	}
	if err != nil {
		return j.setAside(t, fmt.Sprintf("its result cannot be read: %v", err), &rec.Corrupt)
	}
	digest := Digest(b)
	if t.Finished != nil {
		if t.Finished.Digest == digest {
			return nil
		}
		return j.setAside(t, fmt.Sprintf("its result has digest %s and its event says %s", digest, t.Finished.Digest), &rec.Corrupt)
	}
	res, err := trial.Parse(b)
	if err != nil {
		return j.setAside(t, fmt.Sprintf("its result is broken: %v", err), &rec.Corrupt)
	}
	r, _, err := record(res)
	if err != nil {
		return j.setAside(t, fmt.Sprintf("its result is broken: %v", err), &rec.Corrupt)
	}
	if !t.Running { // no trial.started either: the end of the log was lost
		t.Attempt = max(t.Attempt+1, r.Attempt)
	}
	rec.Reannounced = append(rec.Reannounced, name)
	return j.Announce(trial.TrialFinished, name, t.Attempt, finished(res, r, digest))
}

// setAside moves a trial's directory away and says so.
func (j *Job) setAside(t TrialState, why string, to *[]SetBack) error {
	attempt := t.Attempt
	if !t.Running && t.Finished == nil {
		attempt++ // its trial.started was lost
	}
	kept, err := j.moveAside(t.Name, attempt)
	if err != nil {
		return fmt.Errorf("set trial %q aside: %w", t.Name, err)
	}
	*to = append(*to, SetBack{t.Name, attempt, kept, why})
	return j.Announce(trial.TrialDropped, t.Name, attempt, trial.Dropped{Why: why, Kept: kept})
}

// recoverGone looks at a trial that the events call running or finished and
// that has no directory: the crash came between moving it and saying so.
func (j *Job) recoverGone(t TrialState, rec *Recovery) error {
	kept := filepath.Join(AttemptsDir, attemptName(t.Name, t.Attempt))
	if info, err := os.Lstat(filepath.Join(j.dir, kept)); err != nil || !info.IsDir() {
		kept = ""
	} else {
		rec.Temporary += j.removeTemporary(filepath.Join(j.dir, kept))
	}
	if t.Finished != nil && kept != "" {
		return j.Announce(trial.TrialRetried, t.Name, t.Attempt, trial.Replaced{Kept: kept, Cause: t.Finished.Cause, Why: "rerun"})
	}
	s := SetBack{t.Name, t.Attempt, kept, "its directory is gone"}
	if kept != "" {
		s.Why = "it was being set aside"
	}
	if t.Finished != nil {
		rec.Corrupt = append(rec.Corrupt, s)
	} else {
		rec.Dropped = append(rec.Dropped, s)
	}
	return j.Announce(trial.TrialDropped, t.Name, t.Attempt, trial.Dropped{Why: s.Why, Kept: kept})
}
