package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// TaskLock names a task by its content. Source: harbor/models/job/lock.py.
type TaskLock struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"` // Harbor's content digest: sha256:…
	Source  string `json:"source"`
	Path    string `json:"path"`
}

func (l *TaskLock) keys() []key {
	return []key{
		{"name", &l.Name, nil, false}, {"version", text(l.Version), nil, false}, {"type", "local", nil, false}, {"digest", &l.Digest, nil, false},
		{"source", text(l.Source), nil, false}, {"path", text(l.Path), nil, false}, {"git_url", nil, nil, false}, {"git_commit_id", nil, nil, false},
	}
}

// TrialLock is a trial's lock.json, schema 2: everything that decides what the
// trial measures.
type TrialLock struct {
	Task              TaskLock          `json:"task"`
	TimeoutMultiplier float64           `json:"timeout_multiplier"`
	Agent             AgentConfig       `json:"agent"`
	Environment       EnvironmentConfig `json:"environment"`
	Verifier          VerifierLock      `json:"verifier"`
}

func (l *TrialLock) keys() []key {
	mult := seconds(or(l.TimeoutMultiplier, 1))
	return []key{
		{"schema_version", 2, nil, false}, {"task", &l.Task, nil, false}, {"install_only", false, nil, false}, {"timeout_multiplier", &mult, nil, false},
		{"agent_timeout_multiplier", nil, nil, false}, {"verifier_timeout_multiplier", nil, nil, false},
		{"agent_setup_timeout_multiplier", nil, nil, false}, {"environment_build_timeout_multiplier", nil, nil, false},
		{"extra_instructions", nil, nil, false}, {"agent", &l.Agent, nil, false}, {"user_agent", nil, nil, false}, {"user_persona", nil, nil, false},
		{"user_prompt_template", nil, nil, false}, {"bridge_prompt", nil, nil, false}, {"bridge_inputs", map[string]any{}, nil, false},
		{"skills", none, nil, false}, {"environment", &l.Environment, nil, false}, {"extra_docker_compose", nil, nil, false},
		{"verifier", &l.Verifier, nil, false}, {"source_trial", nil, nil, false},
	}
}

// VerifierLock is the verifier's config and the mode it came to: "shared" or
// "separate", empty for a multi-step task.
type VerifierLock struct {
	VerifierConfig
	EnvironmentMode string `json:"environment_mode"`
}

func (l *VerifierLock) keys() []key {
	return append(l.VerifierConfig.keys(), key{"environment_mode", text(l.EnvironmentMode), nil, false})
}

// JobLock is a job's lock.json, schema 3.
type JobLock struct {
	CreatedAt  time.Time
	Version    string // of what ran the job; Harbor's key is harbor.version
	Concurrent int
	Retry      RetryConfig
	Trials     []TrialLock
}

func (l *JobLock) keys() []key {
	return []key{
		{"schema_version", 3, nil, false}, {"created_at", l.CreatedAt.UTC().Format("2006-01-02T15:04:05.000000Z"), nil, false},
		{"harbor", &harborInfo{l.Version}, nil, false}, {"n_concurrent_trials", &l.Concurrent, nil, false},
		{"retry", &l.Retry, nil, false}, {"trials", &l.Trials, nil, false},
	}
}

type harborInfo struct{ version string }

func (h *harborInfo) keys() []key {
	return []key{{"version", text(h.version), nil, false}, {"git_commit_hash", nil, nil, false}, {"is_editable", nil, nil, false}}
}

// Lock is what a trial with this config is locked to.
func (c TrialConfig) Lock(task TaskLock, verifierMode string) TrialLock {
	return TrialLock{
		Task: task, TimeoutMultiplier: c.TimeoutMultiplier, Agent: c.Agent, Environment: c.Environment,
		Verifier: VerifierLock{c.Verifier, verifierMode},
	}
}

// WriteTrial writes config.json and lock.json of a trial that was begun. They
// become durable with its result.
func (j *Job) WriteTrial(name string, c TrialConfig, l TrialLock) error {
	config, err1 := formatModel(&c, sparse)
	lock, err2 := formatModel(&l, noNulls)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("write config of trial %q: %w", name, err)
	}
	dir := j.TrialDir(name)
	for file, b := range map[string][]byte{ConfigFile: config, LockFile: lock} {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			return fmt.Errorf("write config of trial %q: %w", name, err)
		}
	}
	return nil
}
