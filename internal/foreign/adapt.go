package foreign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// Pair is a verifier mode with what network there is.
type Pair struct {
	Verifier task.VerifierMode `json:"verifier"`
	Network  Network           `json:"network"`
}

// Network says who of a trial has the network that the operator allows.
type Network string

const (
	Nobody   Network = "none"
	Verifier Network = "verifier"
	Both     Network = "agent and verifier"
)

func (p Pair) String() string { return string(p.Verifier) + ", network " + string(p.Network) }

// pairs lists what is tried for a task, the strictest first. What can be forged
// is worse than what drifts: a live verifier comes after every network.
func pairs(t *task.Task, networks bool) (all []Pair) {
	copies := []task.VerifierMode{task.VerifierSealed}
	for i := range t.Steps {
		k := t.Key(i)
		if k.Mode == task.VerifierSeparate || k.Image != "" || k.ImageDir != "" {
			copies = []task.VerifierMode{task.VerifierSeparate, task.VerifierSealed} // it was written for what crosses as artifacts
		}
	}
	levels := []Network{Nobody}
	if networks {
		levels = append(levels, Verifier, Both)
	}
	for _, n := range levels {
		for _, v := range copies {
			all = append(all, Pair{v, n})
		}
	}
	for _, n := range levels {
		all = append(all, Pair{task.VerifierLive, n})
	}
	return all
}

// Tried is what a pair came to.
type Tried struct {
	Pair   Pair          `json:"pair"`
	Gold   trial.Outcome `json:"gold"`
	Idle   trial.Outcome `json:"idle,omitempty"` // of doing nothing; empty: not tried, since gold did not pass
	Why    string        `json:"why,omitempty"`
	Sealed bool          `json:"sealed,omitempty"` // with what its verifier installs sealed
	Millis float64       `json:"ms"`
}

// Adapted is what became of a task.
type Adapted struct {
	Task   string   `json:"task"`
	Dir    string   `json:"dir"`
	Pinned *Pair    `json:"pinned"` // null: gold passes in none
	Sealed bool     `json:"sealed,omitempty"`
	Tried  []Tried  `json:"tried"`
	Wrote  bool     `json:"wrote"` // task.toml was changed
	Notes  []string `json:"notes,omitempty"`
}

// Config asks for the adaption of one task.
type Config struct {
	Task       *task.Task
	Dir        string // of the jobs that are run; the caller removes it
	Image      string
	UID        sandbox.UIDMode
	Network    sandbox.Network // the most that is tried: none, an allow-list, full
	AllowHosts []string
	Gold, Idle job.Arm
	Runs       int // of gold, in the pair that is pinned; zero: 2
	// Seal makes the task's seal, and is asked for only where the verifier needs
	// a network; nil: nothing is sealed.
	Seal  func(ctx context.Context, im image.Image) error
	Write bool // pin: change task.toml
	Tell  func(Tried)
}

// Adapt runs the gold solution from the strictest verifier and network to the
// loosest, and pins the first pair in which it passes and doing nothing fails.
func Adapt(ctx context.Context, c Config, deps job.Deps) (Adapted, error) {
	out := Adapted{Task: c.Task.Name, Dir: c.Task.Dir}
	networks := c.Network != "" && c.Network != sandbox.NetNone
	for i := 0; ; i++ {
		all := pairs(c.Task, networks)
		if i == len(all) {
			return out, nil
		}
		tried, im, err := c.try(ctx, deps, all[i], fmt.Sprintf("pair-%d", i))
		if err != nil {
			return out, fmt.Errorf("adapt %s: %w", c.Task.Name, err)
		}
		ok := out.add(c, tried)
		if ok && all[i].Network == Verifier && all[i].Verifier == task.VerifierSealed && c.Seal != nil {
			if again, err := c.sealed(ctx, deps, all[i], im, &out); err != nil {
				return out, fmt.Errorf("adapt %s: %w", c.Task.Name, err)
			} else if again {
				return out, c.pin(&out, Pair{all[i].Verifier, Nobody})
			}
		}
		if ok {
			return out, c.pin(&out, all[i])
		}
	}
}

// SealTask seals what the task's verifier installs, and shows that gold passes
// and doing nothing fails offline with it. A seal that does not is removed.
func SealTask(ctx context.Context, c Config, deps job.Deps) (Adapted, error) {
	out := Adapted{Task: c.Task.Name, Dir: c.Task.Dir}
	p := Pair{task.VerifierSealed, Nobody}
	if err := os.Remove(filepath.Join(c.Task.Dir, job.SealFile)); err != nil && !os.IsNotExist(err) {
		return out, fmt.Errorf("seal %s: %w", c.Task.Name, err)
	}
	tried, im, err := c.try(ctx, deps, p, "before")
	if err != nil {
		return out, fmt.Errorf("seal %s: %w", c.Task.Name, err)
	}
	if out.add(c, tried) {
		out.Pinned = &p
		out.Notes = append(out.Notes, "gold passes sealed and offline as it is: there is nothing to seal")
		return out, nil
	}
	ok, err := c.sealed(ctx, deps, p, im, &out)
	if err != nil {
		return out, fmt.Errorf("seal %s: %w", c.Task.Name, err)
	}
	if ok {
		out.Pinned = &p
	}
	return out, nil
}

// add books what was tried, and says whether it is good.
func (a *Adapted) add(c Config, t Tried) bool {
	a.Tried = append(a.Tried, t)
	if c.Tell != nil {
		c.Tell(t)
	}
	return t.Gold == trial.Pass && t.Idle == trial.Fail
}

// sealed seals what the verifier installs and tries the pair without a network.
func (c Config) sealed(ctx context.Context, deps job.Deps, p Pair, im image.Image, out *Adapted) (bool, error) {
	if err := c.Seal(ctx, im); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		out.Notes = append(out.Notes, "not sealed: "+err.Error())
		return false, nil
	}
	tried, _, err := c.try(ctx, deps, Pair{p.Verifier, Nobody}, "sealed")
	if err != nil {
		return false, err
	}
	tried.Sealed = true
	if out.Sealed = out.add(c, tried); !out.Sealed {
		out.Notes = append(out.Notes, "its verifier asks for the network even when what it installs is sealed")
		return false, os.Remove(filepath.Join(c.Task.Dir, job.SealFile))
	}
	return true, nil
}

// try runs gold, and where it passes doing nothing, in one pair of modes.
func (c Config) try(ctx context.Context, deps job.Deps, p Pair, name string) (Tried, image.Image, error) {
	begin := time.Now()
	out := Tried{Pair: p}
	var im image.Image
	runs := c.Runs
	if runs == 0 {
		runs = 2
	}
	cfg := job.Config{
		Dir: filepath.Join(c.Dir, name, "gold"), Tasks: []*task.Task{with(c.Task, p.Network)}, Arms: []job.Arm{c.Gold}, Attempts: runs, Concurrent: 1,
		Image: c.Image, UID: c.UID, Verifier: p.Verifier, Retries: -1,
	}
	if p.Network != Nobody {
		cfg.Network, cfg.AllowHosts = c.Network, c.AllowHosts
	}
	outcome, tr, err := run(ctx, cfg, deps)
	out.Millis = float64(time.Since(begin).Milliseconds())
	if err != nil {
		return out, im, err
	}
	out.Gold, out.Why = outcome, why("gold", tr)
	if tr.Record.Image.ID != "" {
		if im, err = job.ImageOf(cfg.Dir, image.ID(tr.Record.Image.ID)); err != nil {
			return out, im, err
		}
	}
	if outcome != trial.Pass {
		return out, im, nil
	}
	cfg.Dir, cfg.Arms, cfg.Attempts = filepath.Join(c.Dir, name, "nop"), []job.Arm{c.Idle}, 1
	outcome, tr, err = run(ctx, cfg, deps)
	out.Millis = float64(time.Since(begin).Milliseconds())
	if err != nil {
		return out, im, err
	}
	if out.Idle = outcome; outcome != trial.Fail {
		out.Why = why("doing nothing", tr)
	}
	return out, im, nil
}

// run runs a job of one task and one agent, and gives the first of its trials
// that did not pass, or the last one.
func run(ctx context.Context, cfg job.Config, deps job.Deps) (trial.Outcome, *store.Trial, error) {
	defer deps.Images.Release(image.HostPath(cfg.Dir))
	if _, err := job.Run(ctx, cfg, deps); err != nil {
		return "", nil, err
	}
	if ctx.Err() != nil {
		return "", nil, context.Cause(ctx)
	}
	v, err := store.Read(cfg.Dir)
	if err != nil {
		return "", nil, err
	}
	if len(v.Trials) == 0 {
		return "", nil, errors.New("the job left no trial")
	}
	for _, tr := range v.Trials {
		if tr.Record.Outcome == trial.Infra {
			return "", nil, fmt.Errorf("%s: %s", tr.Record.Cause, tr.Record.Detail)
		}
		if tr.Record.Outcome != trial.Pass {
			return tr.Record.Outcome, tr, nil
		}
	}
	return trial.Pass, v.Trials[len(v.Trials)-1], nil
}

func why(who string, tr *store.Trial) string {
	if tr.Record.Outcome == trial.Pass && who == "gold" {
		return ""
	}
	return fmt.Sprintf("%s ended %s (%s) %s", who, tr.Record.Outcome, tr.Record.Cause, tr.Record.Detail)
}

// with is the task with other declared networks; everything else is shared.
func with(t *task.Task, n Network) *task.Task {
	x := *t
	x.Config.Steps = slices.Clone(t.Config.Steps)
	agent, verifier := task.NetworkNone, task.NetworkNone
	if n != Nobody {
		verifier = task.NetworkPublic
	}
	if n == Both {
		agent = task.NetworkPublic
	}
	set := func(mode *task.NetworkMode, hosts *[]string, to task.NetworkMode) {
		if to == task.NetworkPublic && *mode == task.NetworkAllowlist {
			return // its own list is enough
		}
		*mode, *hosts = to, nil
	}
	env := &x.Config.Environment
	set(&env.NetworkMode, &env.AllowedHosts, agent)
	set(&x.Config.Agent.NetworkMode, &x.Config.Agent.AllowedHosts, agent)
	set(&x.Config.Verifier.NetworkMode, &x.Config.Verifier.AllowedHosts, verifier)
	for i := range x.Config.Steps {
		s := &x.Config.Steps[i]
		s.Agent.NetworkMode, s.Agent.AllowedHosts = task.NetworkUnset, nil
		s.Verifier.NetworkMode, s.Verifier.AllowedHosts = task.NetworkUnset, nil
	}
	return &x
}

// pin writes the pair into task.toml.
func (c Config) pin(out *Adapted, p Pair) error {
	out.Pinned = &p
	if !c.Write {
		return nil
	}
	changed, err := pinned(c.Task, p)
	if err != nil {
		return fmt.Errorf("adapt %s: %w", c.Task.Name, err)
	}
	out.Wrote = changed
	if out.Sealed && changed { // the seal is of the task as it is now
		digest, err := task.Digest(c.Task.Dir)
		if err != nil {
			return err
		}
		s := job.ReadSeal(image.HostPath(c.Task.Dir))
		if s == nil {
			return fmt.Errorf("adapt %s: %s cannot be read back", c.Task.Name, job.SealFile)
		}
		s.Digest = digest
		return write(filepath.Join(c.Task.Dir, job.SealFile), s)
	}
	return nil
}
