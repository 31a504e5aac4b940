package job

import (
	"fmt"
	"slices"
	"strings"

	"assay/task"
	"assay/trial"
)

// planned is one cell of the grid: one of the k attempts of one arm at one
// task.
type planned struct {
	name    string // of the trial and its directory
	task    *task.Task
	digest  string // Harbor's content digest of the task
	arm     Arm
	rep     int    // 1..k
	given   *Given // what the trial is about instead of an attempt; nil: an agent works
	attempt int    // 1, +1 for each retry or rerun

	was trial.Planned // of a trial that is graded again: what its events say
	end agentEnd      // of it: how its agent ended, as far as they say
}

// cell identifies a planned trial across runs of a job.
type cell struct {
	task, agent, model string
	rep                int
}

func (p *planned) cell() cell { return cell{p.task.Name, p.arm.Spec, p.arm.model(), p.rep} }

func (p *planned) info() trial.Planned {
	return trial.Planned{Task: p.task.Name, Digest: p.digest, Agent: p.arm.Spec, Model: p.arm.model(), Rep: p.rep, Given: p.answer()}
}

// known is what a job directory already says about a trial.
type known struct {
	name     string
	planned  trial.Planned
	attempt  int // highest one begun
	finished bool
}

// expand lists every cell of the grid, attempt by attempt, then task by task,
// then arm by arm, as Harbor does: a job cut off early has touched every task.
func expand(cfg Config, digests map[string]string) ([]*planned, error) {
	seen := map[string]bool{}
	for _, t := range cfg.Tasks {
		if seen[t.Name] {
			return nil, fmt.Errorf("two tasks are named %q: trials could not be told apart", t.Name)
		}
		seen[t.Name] = true
	}
	for i, arm := range cfg.Arms {
		if slices.ContainsFunc(cfg.Arms[:i], func(o Arm) bool { return o.label() == arm.label() }) {
			return nil, fmt.Errorf("two agents are called %q: results could not be told apart (for more attempts use -k)", arm.label())
		}
	}
	var all []*planned
	for rep := 1; rep <= cfg.reps(); rep++ {
		for _, t := range cfg.Tasks {
			for _, arm := range cfg.Arms {
				if arm.meant(t) {
					all = append(all, cfg.cells(arm, t, digests[t.Name], rep)...)
				}
			}
		}
	}
	return all, nil
}

// match gives every planned trial the name it already has in the job, or a new
// one, and returns those that still must run. A task that changed since is an
// error: its old and new results must not stand in one table.
func match(all []*planned, have []known, name func(task string) string) (run, fresh []*planned, err error) {
	by := map[cell]known{}
	for _, k := range have {
		by[cell{k.planned.Task, k.planned.Agent, k.planned.Model, k.planned.Rep}] = k
	}
	for _, p := range all {
		k, ok := by[p.cell()]
		if !ok {
			p.name, p.attempt = name(p.task.Name), 1
			fresh = append(fresh, p)
			run = append(run, p)
			continue
		}
		if k.planned.Digest != "" && k.planned.Digest != p.digest {
			return nil, nil, fmt.Errorf("task %s: %w: it was %s and is %s; start another job with --job-name, or remove this one",
				p.task.Name, ErrChanged, short(k.planned.Digest), short(p.digest))
		}
		if err := p.sameAnswer(k.planned.Given); err != nil {
			return nil, nil, err
		}
		p.name, p.attempt = k.name, k.attempt+1
		if !k.finished {
			run = append(run, p)
		}
	}
	return run, fresh, nil
}

func short(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(12, len(hex))]
}
