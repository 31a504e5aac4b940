package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
)

// JobConfig is Harbor's job config.json. What Harbor has no key for stands in
// the kwargs of environment, verifier and agents, which Harbor leaves to
// whoever they are for. Source: harbor/models/job/config.py.
type JobConfig struct {
	JobName           string            `json:"job_name"`
	JobsDir           string            `json:"jobs_dir"`   // empty is "jobs"
	Attempts          int               `json:"n_attempts"` // 0 is 1
	TimeoutMultiplier float64           `json:"timeout_multiplier"`
	Concurrent        int               `json:"n_concurrent_trials"` // 0 is 4
	Quiet             bool              `json:"quiet"`
	Retry             RetryConfig       `json:"retry"`
	Environment       EnvironmentConfig `json:"environment"`
	Verifier          VerifierConfig    `json:"verifier"`
	Agents            []AgentConfig     `json:"agents"`
	Datasets          []DatasetConfig   `json:"datasets"`
	Tasks             []TaskConfig      `json:"tasks"`
}

func (c *JobConfig) keys() []key {
	attempts, concurrent := or(c.Attempts, 1), or(c.Concurrent, 4)
	dir, mult := or(c.JobsDir, "jobs"), seconds(or(c.TimeoutMultiplier, 1))
	agents, oracle := c.Agents, []AgentConfig{{}}
	if len(agents) == 0 {
		agents = oracle
	}
	return []key{
		{"job_name", &c.JobName, "", false}, {"jobs_dir", &dir, "jobs", false}, {"n_attempts", &attempts, 1, false},
		{"install_only", false, false, false}, {"skip_credential_checks", false, false, false},
		{"timeout_multiplier", &mult, seconds(1), false}, {"agent_timeout_multiplier", nil, nil, false},
		{"verifier_timeout_multiplier", nil, nil, false}, {"agent_setup_timeout_multiplier", nil, nil, false},
		{"environment_build_timeout_multiplier", nil, nil, false}, {"debug", false, false, false},
		{"n_concurrent_trials", &concurrent, 4, false}, {"quiet", &c.Quiet, false, false},
		{"retry", &c.Retry, &RetryConfig{}, false},
		{"environment", &c.Environment, &EnvironmentConfig{}, false}, {"verifier", &c.Verifier, &VerifierConfig{}, false},
		{"metrics", none, none, false}, {"agents", agents, oracle, false}, {"user_agent", nil, nil, false},
		{"datasets", &c.Datasets, none, false}, {"tasks", &c.Tasks, none, false}, {"artifacts", none, none, false},
		{"extra_instruction_paths", none, none, false}, {"extra_instructions", none, none, false}, {"source_jobs", none, none, false},
	}
}

// none is an empty list.
const none = emptyList("")

type emptyList string

func (emptyList) MarshalJSON() ([]byte, error) { return []byte("[]"), nil }

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// RetryConfig is Harbor's. The names that Harbor never retries are written out
// as Harbor's own set; assay's rule, which stands in trial.Endings, is narrower.
type RetryConfig struct {
	MaxRetries int `json:"max_retries"`
}

func (c *RetryConfig) keys() []key {
	return []key{
		{"max_retries", &c.MaxRetries, 0, false}, {"include_exceptions", nil, nil, false},
		{"exclude_exceptions", neverRetried(), neverRetried(), false},
		{"wait_multiplier", seconds(1), seconds(1), false}, {"min_wait_sec", seconds(1), seconds(1), false},
		{"max_wait_sec", seconds(60), seconds(60), false},
	}
}

func neverRetried() []string {
	return []string{"AgentAuthenticationError", "AgentSafetyRefusalError", "AgentTimeoutError", "ApiUsageLimitError", "ModelNotFoundError",
		"RewardFileEmptyError", "RewardFileNotFoundError", "UnsupportedModelParametersError", "VerifierOutputParseError", "VerifierTimeoutError"}
}

// AgentConfig names an agent; Kwargs are its own. One without a name is
// Harbor's default, the oracle.
type AgentConfig struct {
	Name               string            `json:"name"`
	ImportPath         string            `json:"import_path"`
	ModelName          string            `json:"model_name"`
	OverrideTimeoutSec *float64          `json:"override_timeout_sec"`
	MaxTimeoutSec      *float64          `json:"max_timeout_sec"`
	Kwargs             map[string]any    `json:"kwargs"`
	Env                map[string]string `json:"env"` // no secrets: they are written as they are
}

func (c *AgentConfig) keys() []key {
	name := c.Name
	if name == "" && c.ImportPath == "" {
		name = "oracle"
	}
	return []key{
		{"name", text(name), nil, false}, {"import_path", text(c.ImportPath), nil, false}, {"model_name", text(c.ModelName), nil, false},
		{"base_url", nil, nil, false}, {"model_api_key_name", nil, nil, false}, {"model_api_format", nil, nil, false},
		{"skip_model_parsing", false, false, false}, {"n_concurrent", nil, nil, false}, {"concurrency_group", nil, nil, false},
		{"skills", none, none, false}, {"override_timeout_sec", (*seconds)(c.OverrideTimeoutSec), nil, false},
		{"override_setup_timeout_sec", nil, nil, false}, {"max_timeout_sec", (*seconds)(c.MaxTimeoutSec), nil, false},
		{"resume_trajectory", false, false, false}, {"load_trajectory", nil, nil, false}, {"extra_allowed_hosts", none, none, false},
		{"include_logs", none, none, true}, {"exclude_logs", none, none, true},
		{"kwargs", &c.Kwargs, map[string]any{}, false}, {"env", &c.Env, map[string]string{}, true}, {"mcp_servers", none, none, false},
	}
}

// text is a string that is null when empty.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// EnvironmentConfig names a backend. Harbor's types are a closed list, so
// assay's own backends are import paths: "assay:ns".
type EnvironmentConfig struct {
	Type       string            `json:"type"` // empty with an ImportPath, else empty is "docker"
	ImportPath string            `json:"import_path"`
	CPUs       *float64          `json:"override_cpus"`
	MemoryMB   *int              `json:"override_memory_mb"`
	StorageMB  *int              `json:"override_storage_mb"`
	Env        map[string]string `json:"env"`
	Kwargs     map[string]any    `json:"kwargs"`
}

func (c *EnvironmentConfig) keys() []key {
	kind := c.Type
	if kind == "" && c.ImportPath == "" {
		kind = "docker"
	}
	return []key{
		{"type", text(kind), nil, false}, {"import_path", text(c.ImportPath), nil, false}, {"force_build", false, false, false},
		{"delete", true, true, false}, {"stream", false, false, false}, {"cpu_enforcement_policy", "auto", "auto", false},
		{"memory_enforcement_policy", "auto", "auto", false}, {"override_cpus", c.CPUs, nil, false},
		{"override_memory_mb", c.MemoryMB, nil, false}, {"override_storage_mb", c.StorageMB, nil, false},
		{"override_gpus", nil, nil, false}, {"override_tpu", nil, nil, false}, {"mounts", nil, nil, false},
		{"extra_docker_compose", none, none, false}, {"env", &c.Env, map[string]string{}, true},
		{"kwargs", &c.Kwargs, map[string]any{}, false}, {"extra_allowed_hosts", none, none, false},
	}
}

// VerifierConfig is Harbor's. A verifier mode that Harbor does not know is an
// import path: "assay:sealed".
type VerifierConfig struct {
	OverrideTimeoutSec *float64          `json:"override_timeout_sec"`
	MaxTimeoutSec      *float64          `json:"max_timeout_sec"`
	Env                map[string]string `json:"env"`
	ImportPath         string            `json:"import_path"`
	Kwargs             map[string]any    `json:"kwargs"`
	Disable            bool              `json:"disable"`
}

func (c *VerifierConfig) keys() []key {
	return []key{
		{"override_timeout_sec", (*seconds)(c.OverrideTimeoutSec), nil, false}, {"max_timeout_sec", (*seconds)(c.MaxTimeoutSec), nil, false},
		{"include_logs", none, none, true}, {"exclude_logs", none, none, true}, {"env", &c.Env, map[string]string{}, true},
		{"import_path", text(c.ImportPath), nil, true}, {"kwargs", &c.Kwargs, map[string]any{}, true},
		{"disable", &c.Disable, false, false}, {"extra_allowed_hosts", none, none, true},
	}
}

// DatasetConfig is a directory of task directories.
type DatasetConfig struct {
	Path      string   `json:"path"`
	TaskNames []string `json:"task_names"`
	NTasks    *int     `json:"n_tasks"`
}

func (c *DatasetConfig) keys() []key {
	names := any(nil)
	if c.TaskNames != nil {
		names = c.TaskNames
	}
	return []key{
		{"path", text(c.Path), nil, false}, {"name", nil, nil, false}, {"version", nil, nil, false}, {"ref", nil, nil, false},
		{"registry_url", nil, nil, false}, {"registry_path", nil, nil, false}, {"repo", nil, nil, false}, {"overwrite", false, false, false},
		{"download_dir", nil, nil, false}, {"task_names", names, nil, false}, {"exclude_task_names", nil, nil, false},
		{"n_tasks", c.NTasks, nil, false},
	}
}

// TaskConfig is one task directory; Source names the set it came from.
type TaskConfig struct {
	Path   string `json:"path"`
	Source string `json:"source"`
}

func (c *TaskConfig) keys() []key {
	return []key{
		{"path", text(c.Path), nil, false}, {"git_url", nil, nil, false}, {"git_commit_id", nil, nil, false}, {"name", nil, nil, false},
		{"ref", nil, nil, false}, {"overwrite", false, false, false}, {"download_dir", nil, nil, false}, {"source", text(c.Source), nil, false},
	}
}

// TrialConfig is Harbor's trial config.json. Source: harbor/models/trial/config.py.
type TrialConfig struct {
	Task              TaskConfig        `json:"task"`
	TrialName         string            `json:"trial_name"`
	TrialsDir         string            `json:"trials_dir"` // empty is "trials"
	TimeoutMultiplier float64           `json:"timeout_multiplier"`
	Agent             AgentConfig       `json:"agent"`
	Environment       EnvironmentConfig `json:"environment"`
	Verifier          VerifierConfig    `json:"verifier"`
	JobID             string            `json:"job_id"`
}

func (c *TrialConfig) keys() []key {
	dir, mult := or(c.TrialsDir, "trials"), seconds(or(c.TimeoutMultiplier, 1))
	return []key{
		{"task", &c.Task, nil, false}, {"trial_name", &c.TrialName, "", false}, {"trials_dir", &dir, "trials", false},
		{"install_only", false, false, false}, {"timeout_multiplier", &mult, seconds(1), false},
		{"agent_timeout_multiplier", nil, nil, false}, {"verifier_timeout_multiplier", nil, nil, false},
		{"agent_setup_timeout_multiplier", nil, nil, false}, {"environment_build_timeout_multiplier", nil, nil, false},
		{"agent", &c.Agent, &AgentConfig{}, false}, {"user_agent", nil, nil, false}, {"environment", &c.Environment, &EnvironmentConfig{}, false},
		{"verifier", &c.Verifier, &VerifierConfig{}, false}, {"artifacts", none, none, false},
		{"extra_instruction_paths", none, none, false}, {"extra_instructions", none, none, false},
		{"job_id", text(c.JobID), nil, false}, {"source_trial", nil, nil, false},
	}
}

// Full is the complete config that stands in the trial's result.json.
func (c TrialConfig) Full() (json.RawMessage, error) { return dump(&c, full) }

// Trial is the config of one trial: what all trials of the job share, and its
// own task and agent.
func (c JobConfig) Trial(name, taskPath, source, jobID string, a AgentConfig) TrialConfig {
	a.Kwargs, a.Env = maps.Clone(a.Kwargs), maps.Clone(a.Env)
	return TrialConfig{
		Task: TaskConfig{Path: taskPath, Source: source}, TrialName: name, TrialsDir: filepath.Join(or(c.JobsDir, "jobs"), c.JobName),
		TimeoutMultiplier: c.TimeoutMultiplier, Agent: a, Environment: c.Environment, Verifier: c.Verifier, JobID: jobID,
	}
}

// ReadConfig reads a job's config.json, assay's or Harbor's, with Harbor's
// defaults filled in.
func ReadConfig(dir string) (JobConfig, error) {
	c := JobConfig{JobsDir: "jobs", Attempts: 1, Concurrent: 4, TimeoutMultiplier: 1}
	b, err := readRegular(filepath.Join(dir, ConfigFile), maxSmall)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read config.json of job %q: %w", dir, err)
	}
	if len(c.Agents) == 0 {
		c.Agents = []AgentConfig{{Name: "oracle"}}
	}
	c.JobName = or(c.JobName, filepath.Base(filepath.Clean(dir))) // Harbor leaves a default name out
	return c, nil
}

// maxSmall bounds config.json, lock.json and a job's result.json.
const maxSmall = 64 << 20
