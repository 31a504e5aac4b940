package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// keepAlive is how often a silent stream says that it is still there; proxies
// and browsers give up on silence after a minute or two.
const keepAlive = 20 * time.Second

// events streams a job's events as server-sent events: event "trial" with the
// event's line as data and its seq as id, event "end" when no more will come.
// Last-Event-ID or since says what is known already; trial picks one trial's.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	dir, err := h.jobDir(r.PathValue("job"))
	if err != nil {
		fail(w, err)
		return
	}
	since, err := sinceOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rc := http.NewResponseController(w)
	// A stream lives as long as its page, longer than the server's deadline.
	if err := rc.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	fmt.Fprint(w, "retry: 2000\n\n")
	if err := rc.Flush(); err != nil {
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	lines := make(chan trial.Event)
	ended := make(chan error, 1)
	go func() {
		defer close(lines)
		ended <- h.src.follow(ctx, dir, since, func(e trial.Event) error {
			select {
			case lines <- e:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	pump(ctx, w, rc, lines, r.URL.Query().Get("trial"))
	stop()
	for range lines { // the follower is done when lines is closed
	}
	if err := <-ended; err == nil && r.Context().Err() == nil {
		// Without this a browser would ask again every two seconds.
		fmt.Fprint(w, "event: end\ndata: {}\n\n")
	}
}

func sinceOf(r *http.Request) (uint64, error) {
	s := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("since"), "0")
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("since is not the number of an event: %q", line(s, 40))
	}
	return n, nil
}

// pump writes events until lines is closed, ctx ends or the browser is gone.
func pump(ctx context.Context, w http.ResponseWriter, rc *http.ResponseController, lines <-chan trial.Event, only string) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil {
				return
			}
		case e, ok := <-lines:
			if !ok {
				return
			}
			if only != "" && e.Trial != only && e.Trial != "" {
				continue
			}
			b, err := json.Marshal(e)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %d\nevent: trial\ndata: %s\n\n", e.Seq, b); err != nil {
				return
			}
		}
		if err := rc.Flush(); err != nil {
			return
		}
	}
}

// cache keeps the last reading of each job for as long as its event file is
// the same, and reads a busy job at most a tenth of the time: the machine
// belongs to the trials.
type cache struct {
	mu   sync.Mutex // guards jobs
	jobs map[string]*cached
}

type cached struct {
	mu    sync.Mutex // guards the rest; held while the job is read
	job   *Job
	stamp stamp
	read  time.Time
	took  time.Duration
}

// stamp tells two states of a job apart without reading it.
type stamp struct {
	size int64
	mod  time.Time
	dir  time.Time
}

// maxAge is how long a job whose stamp has not changed is taken for unchanged;
// a job without an event file of its own changes without one.
const maxAge = 5 * time.Second

const maxPause = 2 * time.Second

func newCache() *cache { return &cache{jobs: map[string]*cached{}} }

func (c *cache) read(dir string, read func(string) (*Job, error)) (*Job, error) {
	c.mu.Lock()
	e := c.jobs[dir]
	if e == nil {
		e = &cached{}
		c.jobs[dir] = e
	}
	c.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := stampOf(dir)
	if e.job != nil && e.stamp == now && time.Since(e.read) < maxAge {
		return e.job, nil
	}
	// Waiting, rather than answering what is old: the page that asks after a
	// job's last event will not ask again.
	time.Sleep(min(maxPause, 10*e.took-time.Since(e.read)))
	now = stampOf(dir)
	begin := time.Now()
	j, err := read(dir)
	if err != nil {
		return nil, err
	}
	e.job, e.stamp, e.read, e.took = j, now, time.Now(), time.Since(begin)
	return j, nil
}

func stampOf(dir string) stamp {
	var s stamp
	if info, err := os.Lstat(dir); err == nil {
		s.dir = info.ModTime()
	}
	if info, err := os.Lstat(filepath.Join(dir, store.EventsFile)); err == nil {
		s.size, s.mod = info.Size(), info.ModTime()
	}
	return s
}

// trial finds a trial by name.
func (j *Job) trial(name string) *Trial {
	for _, t := range j.Trials {
		if t.Name == name {
			return t
		}
	}
	return nil
}
