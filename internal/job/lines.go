package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/internal/agent"
	"assay/internal/model"
	"assay/task"
	"assay/trial"
)

// grace is what an agent has to end by itself after its calls are refused. No
// answer of a server stops every agent, so then its processes are killed.
const grace = time.Second

// lines are an attempt's ways to its model, one a step; the sandbox has one
// port for all of them.
type lines struct {
	mu     sync.Mutex
	now    Line      // nil: nobody answers
	clock  *deadline // of the agent that runs
	began  time.Time
	wall   time.Duration
	waited time.Duration
	keys   []string // of all steps' lines; worthless by the end
	spent  Budget   // in all steps
	heard  bool     // a call of a step was answered
}

// rest is what is left of the trial's budget. One that is used up leaves the
// least that there is, for no budget is no bound.
func (l *lines) rest(b Budget) Budget {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Tokens > 0 {
		b.Tokens = max(1, b.Tokens-l.spent.Tokens)
	}
	if b.USD > 0 {
		b.USD = max(1e-9, b.USD-l.spent.USD)
	}
	return b
}

// serve answers a connection of the sandbox, while there is a line.
func (l *lines) serve(ctx context.Context, c net.Conn) {
	l.mu.Lock()
	now := l.now
	l.mu.Unlock()
	if now == nil {
		c.Close()
		return
	}
	now.Serve(ctx, c)
}

// stand books the time of an agent that has ended.
func (l *lines) stand(clock *deadline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		l.wall, l.waited = time.Since(l.began), clock.stoodStill()
	}
	l.clock = nil
}

// dial opens the line of a step, where the arm has a model and the agent a use
// for it.
func (a *attempt) dial(ctx context.Context, i int, step string) error {
	m, speaks := a.p.arm.Model, a.needs[i].Dialect
	if m == nil || speaks == "" {
		return nil
	}
	r := LineRequest{
		Trial: a.p.name, Dir: filepath.Join(a.stepDir(step, "agent"), "model"), Budget: a.lines.rest(a.r.cfg.Budget),
		OnWait: a.lines.wait, OnUse: a.spend, OnStop: a.limited,
	}
	for d := range strings.SplitSeq(speaks, ",") {
		r.Speaks = append(r.Speaks, model.Dialect(strings.TrimSpace(d)))
	}
	line, err := m.Open(ctx, r)
	if err != nil {
		return &endError{trial.CauseModelSetup, fmt.Errorf("model %s: %w", m.Name, err)}
	}
	a.lines.mu.Lock()
	defer a.lines.mu.Unlock()
	a.lines.now = line
	a.lines.keys = append(a.lines.keys, line.Endpoint().Key)
	return nil
}

// call tells the agent of the line, and ends its context some time after the
// line refuses it. When the context ends, so does the line.
func (a *attempt) call(ctx context.Context, clock *deadline) *agent.Endpoint {
	a.lines.mu.Lock()
	defer a.lines.mu.Unlock()
	line := a.lines.now
	if line == nil {
		return nil
	}
	a.lines.clock, a.lines.began = clock, time.Now()
	stop := func() { line.Stop(model.ErrDeadline) }
	clock.before(stop) // an agent of this process would hang up first, and hide that its model was silent
	context.AfterFunc(ctx, stop)
	e := line.Endpoint()
	return &e
}

// wait holds the agent's clock.
func (l *lines) wait(waiting bool) {
	l.mu.Lock()
	clock := l.clock
	l.mu.Unlock()
	if clock != nil {
		clock.hold(waiting)
	}
}

// limited is told that the line refuses the agent from now on.
func (a *attempt) limited(why trial.Cause, detail string) {
	mark := trial.LimitMark{Cause: why, Detail: detail}
	a.lines.mu.Lock()
	clock := a.lines.clock
	a.lines.mu.Unlock()
	a.r.emit(a.p.name, a.p.attempt, trial.LimitMet, mark)
	if clock != nil {
		time.AfterFunc(grace, func() { clock.stop(agent.ErrStopped) })
	}
}

// listen ends the line of a step, and writes down what was said on it. The
// trajectory is the traffic's; where there was none, the recorder's.
func (a *attempt) listen(brief task.Brief, rec *agent.Recorder) (*Said, error) {
	doc := rec.Document()
	line := a.lines.now
	if line == nil {
		return nil, a.saveTrajectory(brief.Step, doc)
	}
	line.Stop(model.ErrDeadline)
	if err := line.Close(); err != nil {
		return nil, fmt.Errorf("record of the model's calls: %w", err)
	}
	said, err := line.Said()
	if err != nil {
		return nil, fmt.Errorf("record of the model's calls: %w", err)
	}
	a.lines.heard = a.lines.heard || said.Answered
	said.Answered = a.lines.heard
	told, err := line.Trajectory(a.p.arm.info(), brief.Instruction)
	if err != nil {
		a.note("no trajectory could be made of the model's calls, this one is the agent's own: " + err.Error())
	} else if told != nil {
		doc = told
	}
	a.times(said)
	return &said, a.saveTrajectory(brief.Step, doc)
}

// times adds one step's.
func (a *attempt) times(said Said) {
	l := &a.lines
	if a.rec.Times == nil {
		a.rec.Times, a.rec.Calls = &trial.Times{}, new(int)
	}
	*a.rec.Calls += said.Calls
	t := a.rec.Times
	t.Wall += millis(l.wall)
	t.Waiting += millis(l.waited)
	t.Working += millis(l.wall - l.waited)
	t.Model += millis(said.Asked)
}

// hangUp ends a line that a step leaves behind, however it ended.
func (a *attempt) hangUp() {
	a.lines.mu.Lock()
	line := a.lines.now
	a.lines.now = nil
	a.lines.mu.Unlock()
	if line == nil {
		return
	}
	line.Stop(model.ErrDeadline)
	if err := line.Close(); err != nil {
		a.note("record of the model's calls: " + err.Error())
	}
}

// retryAfter is how long the provider asked to be left alone.
func (a *attempt) retryAfter() time.Duration {
	const most = time.Minute
	if len(a.ended) == 0 {
		return 0
	}
	said := a.ended[len(a.ended)-1].agent.said
	if said == nil || said.Failed == nil {
		return 0
	}
	return min(said.Failed.RetryAfter, most)
}

// graded are files of a trial that stay as they are: what an agent's work was,
// to the byte.
var graded = []string{"workspace.diff", "artifacts"}

// scrub removes the trial's keys from what is kept of it. They are worthless,
// and yet nobody should have to know that when one is found.
func (a *attempt) scrub() error {
	if len(a.lines.keys) == 0 {
		return nil
	}
	return filepath.WalkDir(a.dir, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(graded, d.Name()) && d.IsDir():
			return fs.SkipDir
		case d.IsDir():
			return allow(at, d, 0o700)
		case !d.Type().IsRegular() || slices.Contains(graded, d.Name()):
			return nil
		}
		f, err := os.OpenFile(at, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrPermission) { // an agent's own log has the mode that it was left with
			if err = allow(at, d, 0o600); err == nil {
				f, err = os.OpenFile(at, os.O_RDWR|syscall.O_NOFOLLOW, 0)
			}
		}
		if err != nil {
			return err
		}
		defer f.Close()
		for _, key := range a.lines.keys {
			if err := agent.ScrubFile(f, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// allow gives a file's owner the permissions that it lacks.
func allow(at string, d fs.DirEntry, perm fs.FileMode) error {
	info, err := d.Info()
	if err != nil || info.Mode().Perm()&perm == perm {
		return err
	}
	return os.Chmod(at, info.Mode().Perm()|perm)
}
