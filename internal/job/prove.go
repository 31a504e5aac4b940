package job

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// goldRuns is how often the gold solution must pass in the basic proof.
const goldRuns = 3

// ProofArms are the two agents of a proof.
type ProofArms struct{ Gold, Idle Arm }

// ProveConfig asks for the basic proof of some tasks.
type ProveConfig struct {
	Dir        string // of the job that runs the proof; the caller removes it
	Tasks      []*task.Task
	Image      string
	UID        sandbox.UIDMode // zero: the backend's first, whatever an older proof says
	Concurrent int
	Gold       ProofArms
}

// Proof is proof.json: what was shown of a task, and under which conditions.
// It stands beside task.toml and is no part of the task's digest.
type Proof struct {
	V        int         `json:"v"`
	Level    string      `json:"level"` // "basic"
	Task     string      `json:"task"`
	Digest   string      `json:"task_digest"`
	Image    string      `json:"image"`
	Modes    trial.Modes `json:"modes"`
	Proved   bool        `json:"proved"`
	Lost     bool        `json:"lost,omitempty"` // no verdict, because infrastructure failed
	Reasons  []string    `json:"reasons,omitempty"`
	Runs     []ProofRun  `json:"runs"`
	ProvedAt time.Time   `json:"proved_at"`
	By       string      `json:"by"` // assay's version
}

// ProofRun is one of the runs a proof rests on.
type ProofRun struct {
	Agent   string        `json:"agent"`
	Outcome trial.Outcome `json:"outcome"`
	Cause   trial.Cause   `json:"cause"`
	Millis  float64       `json:"ms"`
}

// Prove shows, for each task, that the gold solution passes three times and
// that doing nothing fails, each time in a fresh copy. A proved task gets its
// proof.json; one that is not loses a stale one.
func Prove(ctx context.Context, cfg ProveConfig, deps Deps) ([]Proof, error) {
	base := Config{Tasks: cfg.Tasks, Image: cfg.Image, UID: cfg.UID, Concurrent: cfg.Concurrent}
	if m := deps.Backend.Capabilities().UIDModes; base.UID == "" && len(m) > 0 {
		base.UID = m[0]
	}
	gold, idle := base, base
	gold.Dir, gold.Arms, gold.Attempts = filepath.Join(cfg.Dir, "gold"), []Arm{cfg.Gold.Gold}, goldRuns
	idle.Dir, idle.Arms, idle.Attempts = filepath.Join(cfg.Dir, "nop"), []Arm{cfg.Gold.Idle}, 1
	views := map[string]*store.View{}
	for _, c := range []Config{gold, idle} {
		defer deps.Images.Release(imagePath(c.Dir))
		if _, err := Run(ctx, c, deps); err != nil {
			return nil, fmt.Errorf("prove: %w", err)
		}
		if ctx.Err() != nil { // half a proof is none, and says nothing about an older one
			return nil, fmt.Errorf("prove: %w", context.Cause(ctx))
		}
		v, err := store.Read(c.Dir)
		if err != nil {
			return nil, fmt.Errorf("prove: %w", err)
		}
		views[c.Arms[0].Spec] = v
	}
	var proofs []Proof
	for _, t := range cfg.Tasks {
		p, err := judge(t, views[cfg.Gold.Gold.Spec], views[cfg.Gold.Idle.Spec], deps.Version)
		if err != nil {
			return proofs, err
		}
		if err := p.save(t.Dir); err != nil {
			return proofs, err
		}
		proofs = append(proofs, p)
	}
	return proofs, nil
}

// judge reads a task's runs and says whether they prove it.
func judge(t *task.Task, gold, idle *store.View, version string) (Proof, error) {
	digest, err := task.Digest(t.Dir)
	if err != nil {
		return Proof{}, err
	}
	p := Proof{V: 1, Level: "basic", Task: t.Name, Digest: digest, ProvedAt: time.Now().UTC(), By: version}
	passed := 0
	for _, v := range []*store.View{gold, idle} {
		for _, tr := range v.Trials {
			if tr.Task != t.Name {
				continue
			}
			if tr.Digest != digest {
				p.Reasons = append(p.Reasons, "the task changed while it was being proved")
			}
			r := tr.Record
			p.Runs = append(p.Runs, ProofRun{Agent: tr.Agent, Outcome: r.Outcome, Cause: r.Cause, Millis: tr.Millis()})
			switch {
			case r.Outcome == trial.Infra:
				p.Lost = true
				p.Reasons = append(p.Reasons, fmt.Sprintf("%s: %s: %s", tr.Agent, r.Cause, r.Detail))
			case v == gold && r.Outcome == trial.Pass:
				passed++
				p.Image, p.Modes = r.Image.ID, r.Modes
			case v == gold:
				p.Reasons = append(p.Reasons, fmt.Sprintf("gold ended %s (%s) %s", r.Outcome, r.Cause, r.Detail))
			case r.Outcome != trial.Fail:
				p.Reasons = append(p.Reasons, fmt.Sprintf("doing nothing ended %s (%s) instead of fail", r.Outcome, r.Cause))
			}
			if r.Modes.Verifier == string(task.VerifierLive) || r.Modes.Network != "none" || r.Modes.VerifierNetwork != "none" {
				p.Reasons = append(p.Reasons, "graded live or with network: cannot be proved")
			}
			if r.Modes.Services != "" {
				p.Reasons = append(p.Reasons, "graded beside services that the agent had used: cannot be proved")
			}
		}
	}
	if len(p.Runs) != goldRuns+1 && len(p.Reasons) == 0 {
		p.Reasons = append(p.Reasons, fmt.Sprintf("only %d of %d runs ended", len(p.Runs), goldRuns+1))
	}
	slices.Sort(p.Reasons)
	p.Reasons = slices.Compact(p.Reasons)
	p.Proved = passed == goldRuns && len(p.Reasons) == 0
	return p, nil
}

// save writes proof.json atomically, or removes it when the task is not
// proved: a proof that no longer holds must not stay.
func (p Proof) save(dir string) error {
	file := filepath.Join(dir, "proof.json")
	if p.Lost {
		return nil
	}
	if !p.Proved {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove the stale proof: %w", err)
		}
		return nil
	}
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".proof-*")
	if err != nil {
		return fmt.Errorf("write proof: %w", err)
	}
	defer os.Remove(tmp.Name()) // gone after the rename
	_, err = tmp.Write(append(b, '\n'))
	if e := tmp.Sync(); err == nil {
		err = e
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write proof: %w", err)
	}
	if err := os.Chmod(tmp.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
