package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"assay/trial"
)

// Begin makes the directory of an attempt, with agent/, verifier/ and
// artifacts/ in it, and says trial.started. The attempt is one above the
// highest one begun.
func (j *Job) Begin(name string, attempt int, p trial.Planned) (dir string, err error) {
	if err := goodTrialName(name); err != nil {
		return "", fmt.Errorf("begin: %w", err)
	}
	t, _ := j.State(name)
	switch {
	case t.Finished != nil:
		return "", fmt.Errorf("begin trial %q: it has a result; replace that first", name)
	case t.Running:
		return "", fmt.Errorf("begin trial %q: attempt %d is running", name, t.Attempt)
	case attempt != t.Attempt+1:
		return "", fmt.Errorf("begin trial %q: attempt %d after %d", name, attempt, t.Attempt)
	}
	dir = j.TrialDir(name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("begin trial %q: %w", name, err)
	}
	for _, sub := range []string{AgentDir, VerifierDir, ArtifactsDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return "", fmt.Errorf("begin trial %q: %w", name, err)
		}
	}
	j.disk.at("trial.dir.made")
	if err := j.Announce(trial.TrialStarted, name, attempt, p); err != nil {
		return "", err
	}
	j.disk.at("trial.started")
	return dir, nil
}

// CommitResult makes res the trial's. The order is a promise: what the attempt
// left is made durable, then result.json (temporary file, fsync, rename, fsync
// of the directory), then trial.finished with the digest of its bytes.
func (j *Job) CommitResult(name string, attempt int, res *trial.Result) error {
	t, _ := j.State(name)
	if !t.Running || t.Attempt != attempt {
		return fmt.Errorf("commit trial %q: attempt %d is not running", name, attempt)
	}
	finished, b, err := finish(res)
	if err != nil {
		return fmt.Errorf("commit trial %q: %w", name, err)
	}
	dir := j.TrialDir(name)
	if err := j.disk.syncTree(dir); err != nil {
		return fmt.Errorf("commit trial %q: %w", name, err)
	}
	if err := j.disk.syncDir(j.dir); err != nil {
		return fmt.Errorf("commit trial %q: %w", name, err)
	}
	j.disk.at("artifacts.synced")
	if err := j.disk.replaceFile(filepath.Join(dir, ResultFile), "result", b); err != nil {
		return fmt.Errorf("commit trial %q: %w", name, err)
	}
	if err := j.Announce(trial.TrialFinished, name, attempt, finished); err != nil {
		return err
	}
	j.disk.at("finished.appended")
	return nil
}

// finish is what the event says of a result, and the result's bytes.
func finish(res *trial.Result) (trial.Finished, []byte, error) {
	b, err := res.Format()
	if err != nil {
		return trial.Finished{}, nil, err
	}
	rec, _, err := record(res)
	if err != nil {
		return trial.Finished{}, nil, err
	}
	return finished(res, rec, Digest(b)), b, nil
}

func finished(res *trial.Result, rec trial.Record, digest string) trial.Finished {
	f := trial.Finished{Digest: digest, Outcome: rec.Outcome, Fault: rec.Fault, Cause: rec.Cause}
	if v := res.VerifierResult; v != nil {
		f.Reward = trial.Main(v.Rewards)
	}
	if res.StartedAt != nil && res.FinishedAt != nil {
		f.Millis = float64(res.FinishedAt.Sub(*res.StartedAt).Microseconds()) / 1000
	}
	return f
}

// record is assay's record of a result, or one derived for a foreign result.
func record(res *trial.Result) (rec trial.Record, derived bool, err error) {
	rec, ours, err := res.Assay()
	if err != nil || ours {
		return rec, false, err
	}
	return trial.Derive(res), true, nil
}

// Replace sets an attempt aside so that another can be begun: a retry, or a
// rerun that the user asked for. What the attempt left is moved below
// [AttemptsDir]; a result that was not committed is written there. The Kept
// field of r is filled in.
func (j *Job) Replace(name string, attempt int, res *trial.Result, r trial.Replaced) error {
	t, _ := j.State(name)
	if t.Attempt != attempt || !t.Running && t.Finished == nil {
		return fmt.Errorf("replace trial %q: attempt %d has not been begun or is set aside already", name, attempt)
	}
	kept, err := j.moveAside(name, attempt)
	if err != nil {
		return fmt.Errorf("replace trial %q: %w", name, err)
	}
	r.Kept = kept
	if res != nil && t.Finished == nil {
		b, err := res.Format()
		if err == nil {
			err = j.disk.replaceFile(filepath.Join(j.dir, kept, ResultFile), "result", b)
		}
		if err != nil {
			return fmt.Errorf("replace trial %q: %w", name, err)
		}
	}
	if err := j.Announce(trial.TrialRetried, name, attempt, r); err != nil {
		return err
	}
	j.disk.at("attempt.announced")
	return nil
}

// Drop sets a running attempt aside that will have no result: it was
// interrupted. The trial counts as not run.
func (j *Job) Drop(name string, attempt int, why string) error {
	kept, err := j.moveAside(name, attempt)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop trial %q: %w", name, err)
	}
	if err := j.Announce(trial.TrialDropped, name, attempt, trial.Dropped{Why: why, Kept: kept}); err != nil {
		return err
	}
	j.disk.at("attempt.announced")
	return nil
}

// moveAside moves a trial's directory below [AttemptsDir] and returns its new
// place, relative to the job.
func (j *Job) moveAside(name string, attempt int) (string, error) {
	if err := os.Mkdir(filepath.Join(j.dir, AttemptsDir), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	kept := filepath.Join(AttemptsDir, attemptName(name, attempt))
	for n := 2; ; n++ {
		if _, err := os.Lstat(filepath.Join(j.dir, kept)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
		kept = filepath.Join(AttemptsDir, fmt.Sprintf("%s-%d", attemptName(name, attempt), n))
	}
	if err := os.Rename(j.TrialDir(name), filepath.Join(j.dir, kept)); err != nil {
		return "", err
	}
	if err := errors.Join(j.disk.syncDir(filepath.Join(j.dir, AttemptsDir)), j.disk.syncDir(j.dir)); err != nil {
		return "", err
	}
	j.disk.at("attempt.moved")
	return kept, nil
}

// Result reads the committed result of a trial; the error wraps
// fs.ErrNotExist when there is none.
func (j *Job) Result(name string) (*trial.Result, error) {
	t, _ := j.State(name)
	if t.Finished == nil {
		return nil, fmt.Errorf("result of trial %q: %w", name, fs.ErrNotExist)
	}
	b, err := readRegular(filepath.Join(j.TrialDir(name), ResultFile), maxResult)
	if err != nil {
		return nil, fmt.Errorf("result of trial %q: %w", name, err)
	}
	return trial.Parse(b)
}

// maxResult bounds the result.json that is read: token ids of a long rollout
// take tens of megabytes.
const maxResult = 128 << 20

var errTooLarge = errors.New("too large")

// readRegular reads a regular file of at most max bytes; it neither follows a
// link at its end nor waits for a pipe.
func readRegular(name string, max int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f, max)
}

func readOpen(f *os.File, max int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", info.Name())
	}
	if info.Size() > max {
		return nil, fmt.Errorf("%s has %d bytes, more than %d: %w", info.Name(), info.Size(), max, errTooLarge)
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	return b, nil
}
