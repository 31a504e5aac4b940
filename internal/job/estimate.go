package job

import (
	"context"
	"path/filepath"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// Plan says what a run of a job would do. Nil numbers are unknown.
type Plan struct {
	Trials   int      // in all
	Done     int      // that have a result already
	Measured int      // earlier trials the expectation rests on
	Expected *float64 // seconds of wall time, at the configured concurrency
	Longest  *float64 // seconds if every agent and verifier uses its whole limit
}

// Estimate plans without running: expectations come from earlier trials of the
// same tasks and agents in the same folder of jobs.
func Estimate(ctx context.Context, cfg Config) (Plan, error) {
	digests, err := digestAll(cfg.Tasks)
	if err != nil {
		return Plan{}, err
	}
	all, err := expand(cfg, digests)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Trials: len(all)}
	done := map[cell]bool{}
	past := map[cell][]float64{}
	jobs, err := store.List(filepath.Dir(cfg.Dir))
	if err != nil {
		jobs = nil // no folder of jobs yet
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			return p, context.Cause(ctx)
		}
		v, err := store.Read(j.Dir)
		if err != nil {
			continue // a broken job is no evidence
		}
		for _, t := range v.Trials {
			if t.Record.Outcome == "" || t.Record.Outcome == trial.Infra {
				continue
			}
			past[column(t.Task, t.Agent, t.Model)] = append(past[column(t.Task, t.Agent, t.Model)], t.Millis())
			if filepath.Clean(j.Dir) == filepath.Clean(cfg.Dir) {
				done[cell{t.Task, t.Agent, t.Model, t.Rep}] = true
			}
		}
	}
	p.fill(cfg, all, done, past)
	return p, nil
}

// column is all attempts of one arm at one task.
func column(task, agent, model string) cell { return cell{task: task, agent: agent, model: model} }

// endless is a verifier's limit that is none: an infinite one is a hundred
// years.
const endless = 10 * 365 * 24 * time.Hour

// fill sums times over what is still to do.
func (p *Plan) fill(cfg Config, all []*planned, done map[cell]bool, past map[cell][]float64) {
	expected, longest, known, bounded := 0.0, 0.0, true, true
	for _, c := range all {
		if done[c.cell()] {
			p.Done++
			continue
		}
		ms := past[column(c.task.Name, c.arm.Spec, c.arm.model())]
		p.Measured += len(ms)
		if len(ms) == 0 {
			known = false
		} else {
			expected += mean(ms) / 1000
		}
		for i := range c.task.Steps {
			agent, verifier := cfg.agentLimit(c.task.Brief(i)), c.task.Key(i).Timeout
			if agent == 0 || verifier > endless {
				bounded = false
			}
			longest += agent.Seconds() + verifier.Seconds()
		}
	}
	slots := cfg.Concurrent
	if slots < 1 {
		slots = defaultConcurrent
	}
	at := float64(max(1, min(slots, p.Trials-p.Done)))
	if known {
		expected /= at
		p.Expected = &expected
	}
	if bounded {
		longest /= at
		p.Longest = &longest
	}
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
