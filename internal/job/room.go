package job

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/trial"
)

// room holds a job still while the disk is nearly full: a trial that is not
// begun cannot fail for it.
type room struct {
	one sync.Mutex // one waits and tells, the others wait for it
}

// roomPoll is how often a paused job looks whether there is space again.
const roomPoll = time.Second

// Free is the space that an ordinary user may still fill, in bytes, on the file
// system of dir or, where that does not exist yet, of what is above it.
func Free(dir image.HostPath) (int64, error) {
	var st unix.Statfs_t
	p := string(dir)
	for {
		switch err := unix.Statfs(p, &st); {
		case err == nil:
			return int64(st.Bavail) * int64(st.Bsize), nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOENT) && p != filepath.Dir(p):
			p = filepath.Dir(p)
		default:
			return 0, fmt.Errorf("free space of %s: %w", dir, err)
		}
	}
}

// tightest is the file system of the job with the least room.
func (r *run) tightest() (trial.Pause, error) {
	least := trial.Pause{Free: -1}
	for _, dir := range []image.HostPath{r.deps.Images.Root(), imagePath(r.cfg.Dir)} {
		free, err := Free(dir)
		if err != nil {
			return least, err
		}
		if least.Free < 0 || free < least.Free {
			least = trial.Pause{Path: string(dir), Free: free}
		}
	}
	return least, nil
}

// wait returns when both file systems have the room that the job wants, and
// never less than need; at once where nobody asked for any.
func (r *run) wait(ctx context.Context, need int64) error {
	if r.cfg.MinFree <= 0 {
		return nil
	}
	need = max(need, r.cfg.MinFree)
	r.room.one.Lock()
	defer r.room.one.Unlock()
	paused := false
	for ctx.Err() == nil {
		at, err := r.tightest()
		if err != nil {
			return err
		}
		at.Min = need
		switch {
		case at.Free >= need && paused:
			return r.tellPause(trial.JobContinued, at)
		case at.Free >= need:
			return nil
		case !paused:
			if err := r.tellPause(trial.JobPaused, at); err != nil {
				return err
			}
			paused = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(roomPoll):
		}
	}
	return nil
}

// tellPause says it, unless the disk is too full for even that.
func (r *run) tellPause(kind trial.Kind, at trial.Pause) error {
	err := r.job.Announce(kind, "", 0, at)
	if full(err) {
		return nil
	}
	return err
}

// low reports whether there is less room than the job wants. An error that says
// "no space" alone does not: a sandbox's own limit gives the same one.
func (r *run) low() bool {
	if r.cfg.MinFree <= 0 {
		return false
	}
	at, err := r.tightest()
	return err == nil && at.Free < r.cfg.MinFree
}

func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
