package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/repo"
	"assay/internal/store"
	"assay/task"
)

// nothing is an id that no report has: what a plan expects before anything is
// known.
const nothing = "assay: nothing is expected yet"

// sight is what one run of the suite in the grader's hands showed.
type sight struct {
	passed  map[string]bool    // by global id
	failed  map[string]Failure // that the reports tell of
	mute    bool               // no command left a report with a test in it
	hung    bool               // a command was ended for its time
	output  string             // of the first command that did not end well
	millis  float64            // of all commands
	lost    string             // infrastructure failed: nothing was seen
	refused string             // the task could not be graded at all
}

// evidence is the part of a trial's evidence.json that is looked at.
type evidence struct {
	Commands []struct {
		Name       string   `json:"name"`
		Exit       int      `json:"exit"`
		TimedOut   bool     `json:"timed_out"`
		Seconds    float64  `json:"seconds"`
		Tests      int      `json:"tests"`
		Passed     []string `json:"passed"`
		NotStarted string   `json:"not_started"`
		NotPassed  []struct {
			ID      string `json:"id"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"not_passed"`
	} `json:"commands"`
}

// look runs one arm on tasks and reads what their tests did, by task.
func (f *forge) look(ctx context.Context, arm job.Arm, tasks []*task.Task) (map[string]sight, error) {
	dir, err := os.MkdirTemp(f.tmp, "job-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "bite")
	defer f.cfg.Deps.Images.Release(image.HostPath(dir))
	cfg := job.Config{Dir: dir, Tasks: tasks, Arms: []job.Arm{arm}, Attempts: 1, Concurrent: f.cfg.Concurrent, UID: f.uid()}
	if _, err := job.Run(ctx, cfg, f.cfg.Deps); err != nil {
		return nil, fmt.Errorf("run the suite: %w", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	v, err := store.Read(dir)
	if err != nil {
		return nil, fmt.Errorf("run the suite: %w", err)
	}
	out := map[string]sight{}
	for _, tr := range v.Trials {
		s, err := read(tr, f.cfg.Env.Suite)
		if err != nil {
			return nil, err
		}
		out[tr.Task] = s
	}
	return out, nil
}

// read takes a trial's evidence.
func read(tr *store.Trial, suite repo.Suite) (sight, error) {
	s := sight{passed: map[string]bool{}, failed: map[string]Failure{}, mute: true}
	b, err := os.ReadFile(filepath.Join(tr.Dir, "verifier", "evidence.json"))
	if errors.Is(err, os.ErrNotExist) {
		why := fmt.Sprintf("%s: %s", tr.Cause, strings.TrimSpace(tr.Record.Detail))
		if tr.Outcome == "infra" {
			s.lost = why
		} else {
			s.refused = why
		}
		return s, nil
	}
	var ev evidence
	if err == nil {
		err = json.Unmarshal(b, &ev)
	}
	if err != nil {
		return s, fmt.Errorf("evidence of %s: %w", tr.Name, err)
	}
	for _, c := range ev.Commands {
		s.millis += 1000 * c.Seconds
		s.hung = s.hung || c.TimedOut
		s.mute = s.mute && c.Tests == 0
		for _, id := range c.Passed {
			s.passed[checks.Global(c.Name, id)] = true
		}
		for _, t := range c.NotPassed {
			g := checks.Global(c.Name, t.ID)
			delete(s.passed, g) // of two results the worse one
			s.failed[g] = Failure{ID: g, Status: t.Status, Message: t.Message}
		}
		if k := commandOf(suite, c.Name); k != nil && k.Report == "" { // its status is its only test
			s.mute = false
			if g := checks.Global(c.Name, c.Name); c.Exit == 0 && !c.TimedOut && c.NotStarted == "" {
				s.passed[g] = true
			} else {
				s.failed[g] = Failure{ID: g, Status: "failed"}
			}
		}
		if s.output == "" && (c.Exit != 0 || c.NotStarted != "") {
			s.output = cmpText(c.NotStarted, tail(filepath.Join(tr.Dir, "verifier", c.Name+".log"), maxOutput))
		}
	}
	return s, nil
}

func cmpText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func commandOf(s repo.Suite, name string) *repo.Command {
	i := slices.IndexFunc(s.Commands, func(c repo.Command) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Commands[i]
}

// maxOutput is what of a command's output is kept, in bytes.
const maxOutput = 8 << 10

// tail is the end of a file.
func tail(name string, n int64) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Size() > n {
		if _, err := f.Seek(-n, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, n))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(b), "�")
}

// open is the plan under which a suite is looked at: whole commands, nothing
// expected.
func (f *forge) openPlan(protected []string) (*checks.Plan, map[string][]byte) {
	l := lists{failToPass: map[string][]string{}}
	for _, c := range f.cfg.Env.Suite.Commands {
		l.failToPass[c.Name] = []string{nothing}
	}
	p, files := planOf(&f.cfg.Env.Suite, l, nil, protected)
	for i := range p.Commands {
		k := &p.Commands[i]
		k.TimeoutSec = f.limit(k.Name)
	}
	return p, files
}

// limit is a command's time, in seconds: from its uncached baseline, with a
// floor, so that a loop without an end costs a bounded time.
func (f *forge) limit(name string) float64 {
	c := commandOf(f.cfg.Env.Suite, name)
	if c == nil {
		return 60
	}
	limit := max(30, 5*c.BaselineMillis/1000)
	if c.TimeoutSec > 0 {
		limit = min(limit, c.TimeoutSec)
	}
	return limit
}
