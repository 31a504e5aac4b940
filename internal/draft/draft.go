// Package draft writes check plans from what happens: it runs the gold solution
// and the untouched state as jobs, in sandboxes, and reads what their tests
// said. From that come closed lists, and canaries that are known to bite. It
// judges nobody's work, and a plan that it wrote is only as good as the tests.
package draft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/store"
	"assay/task"
)

// Config says how drafts are run; Dir, Gold and Idle are needed.
type Config struct {
	Dir        string // of copies of the task and of jobs; the caller removes it
	Step       string // of a task of several steps: whose plan
	Image      string // instead of the task's own
	Concurrent int
	Gold, Idle job.Arm
	Said       func(format string, args ...any) // progress for people; nil: none

	every bool // every canary of a plan is in place
}

func (c Config) say(format string, args ...any) {
	if c.Said != nil {
		c.Said(format, args...)
	}
}

// ran is what one run of a command's tests came to.
type ran struct {
	Name       string   `json:"name"`
	Exit       int      `json:"exit"`
	Tests      int      `json:"tests"`
	Passed     []string `json:"passed"`
	NotPassed  []test   `json:"not_passed"`
	NotStarted string   `json:"not_started"`
	ReportErr  string   `json:"report_error"`
}

// test is one that did not pass.
type test struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Kind   string `json:"kind"`
}

// whole reports whether every test is told of.
func (r ran) whole() bool { return r.Tests == len(r.Passed)+len(r.NotPassed) }

// evidence is the part of a trial's evidence.json that drafts are made of.
type evidence struct {
	Commands []ran `json:"commands"`
	Canary   []ran `json:"canary"`
}

// of finds a command's run.
func of(all []ran, name string) (ran, bool) {
	for _, r := range all {
		if r.Name == name {
			return r, true
		}
	}
	return ran{}, false
}

// copyOf makes a copy of a task with another plan. Its name sets it apart in a
// job.
func (c Config) copyOf(t *task.Task, name string, p *checks.Plan) (*task.Task, error) {
	dir := filepath.Join(c.Dir, "tasks", name)
	if err := os.CopyFS(dir, os.DirFS(t.Dir)); err != nil {
		return nil, err
	}
	b, err := p.Encode()
	if err != nil {
		return nil, err
	}
	tests := testsDir(dir, c.Step)
	err = errors.Join(os.MkdirAll(tests, 0o755), os.WriteFile(filepath.Join(tests, checks.File), b, 0o644))
	if err != nil {
		return nil, err
	}
	script := filepath.Join(tests, checks.ScriptName)
	if _, err := os.Stat(script); errors.Is(err, fs.ErrNotExist) { // a task needs one, and the plan's grading does not
		if err := os.WriteFile(script, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			return nil, err
		}
	}
	again, err := task.Load(dir)
	if err != nil {
		return nil, err
	}
	again.Name = name
	return again, nil
}

func testsDir(dir, step string) string {
	if step != "" {
		dir = filepath.Join(dir, "steps", step)
	}
	return filepath.Join(dir, "tests")
}

// run is a job of one arm over tasks: the evidence of every trial, by task.
func (c Config) run(ctx context.Context, name string, arm job.Arm, attempts int, tasks []*task.Task, deps job.Deps) (map[string][]evidence, error) {
	dir := filepath.Join(c.Dir, name)
	defer deps.Images.Release(image.HostPath(dir))
	cfg := job.Config{Dir: dir, Tasks: tasks, Image: c.Image, Concurrent: c.Concurrent, Arms: []job.Arm{arm}, Attempts: attempts, Every: c.every}
	if _, err := job.Run(ctx, cfg, deps); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	v, err := store.Read(dir)
	if err != nil {
		return nil, err
	}
	all := map[string][]evidence{}
	for _, tr := range v.Trials {
		e, err := c.read(tr)
		if err != nil {
			return nil, err
		}
		all[tr.Task] = append(all[tr.Task], e)
	}
	return all, nil
}

// read takes a trial's evidence. A trial that was not graded says nothing about
// tests, and nothing can be drafted of it.
func (c Config) read(tr *store.Trial) (evidence, error) {
	var e evidence
	for _, st := range tr.Steps {
		if st.Step != c.Step {
			continue
		}
		dir := tr.Dir
		if st.Step != "" {
			dir = filepath.Join(dir, "steps", st.Step)
		}
		b, err := os.ReadFile(filepath.Join(dir, "verifier", "evidence.json"))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return e, err
		}
		if err := json.Unmarshal(b, &e); err != nil {
			return e, fmt.Errorf("evidence of %s: %w", tr.Name, err)
		}
		return e, nil
	}
	return e, fmt.Errorf("the tests did not run with %s: %s (%s) %s", tr.Agent, tr.Outcome, tr.Cause, strings.TrimSpace(tr.Record.Detail))
}
