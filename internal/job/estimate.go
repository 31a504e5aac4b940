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
	Trials   int       // in all
	Done     int       // that have a result already
	Measured int       // earlier trials the expectation rests on
	Expected *float64  // seconds of wall time, at the configured concurrency
	Longest  *float64  // seconds if every agent and verifier uses its whole limit
	Arms     []ArmPlan // with a model
}

// ArmPlan is what the trials of an arm that are still to run are expected to
// use, by what earlier ones used: at the same task, else at any.
type ArmPlan struct {
	Agent  string   `json:"agent"`
	Model  string   `json:"model"`
	Trials int      `json:"trials"` // to run
	From   int      `json:"from"`   // earlier trials of the arm
	Tokens *float64 `json:"tokens"` // nil: unknown
	USD    *float64 `json:"cost_usd"`
}

// bill is what earlier trials used.
type bill struct{ tokens, usd []float64 }

func (b *bill) add(u trial.Usage) {
	if u.InputTokens != nil && u.OutputTokens != nil {
		b.tokens = append(b.tokens, float64(*u.InputTokens+*u.OutputTokens))
	}
	if u.CostUSD != nil {
		b.usd = append(b.usd, *u.CostUSD)
	}
}

// bills are those of columns; a cell without a task is the arm as a whole.
type bills map[cell]*bill

func (b bills) book(task, agent, model string, u trial.Usage) {
	for _, c := range []cell{column(task, agent, model), column("", agent, model)} {
		if b[c] == nil {
			b[c] = &bill{}
		}
		b[c].add(u)
	}
}

// expect is the mean of one kind of number at a task, else over all tasks.
func (b bills) expect(p *planned, kind func(*bill) []float64) (float64, bool) {
	for _, task := range []string{p.task.Name, ""} {
		if got := b[column(task, p.arm.Spec, p.arm.model())]; got != nil && len(kind(got)) > 0 {
			return mean(kind(got)), true
		}
	}
	return 0, false
}

// price fills Arms.
func (p *Plan) price(cfg Config, all []*planned, done map[cell]bool, past bills) {
	for _, arm := range cfg.Arms {
		if arm.Model == nil {
			continue
		}
		a := ArmPlan{Agent: arm.Spec, Model: arm.model()}
		if b := past[column("", arm.Spec, arm.model())]; b != nil {
			a.From = len(b.tokens)
		}
		sum := map[bool]*float64{true: new(float64), false: new(float64)} // of money: true
		for _, c := range all {
			if c.arm.label() != arm.label() || done[c.cell()] {
				continue
			}
			a.Trials++
			for money, kind := range map[bool]func(*bill) []float64{true: func(b *bill) []float64 { return b.usd }, false: func(b *bill) []float64 { return b.tokens }} {
				n, ok := past.expect(c, kind)
				switch {
				case !ok:
					sum[money] = nil
				case sum[money] != nil:
					*sum[money] += n
				}
			}
		}
		a.USD, a.Tokens = sum[true], sum[false]
		p.Arms = append(p.Arms, a)
	}
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
	spent := bills{}
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
			spent.book(t.Task, t.Agent, t.Model, t.Usage.Usage)
			past[column(t.Task, t.Agent, t.Model)] = append(past[column(t.Task, t.Agent, t.Model)], t.Millis())
			if filepath.Clean(j.Dir) == filepath.Clean(cfg.Dir) {
				done[cell{t.Task, t.Agent, t.Model, t.Rep}] = true
			}
		}
	}
	p.fill(cfg, all, done, past)
	p.price(cfg, all, done, spent)
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
