package job

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
)

// kwargs are what Harbor's job configuration has no key for. They stand under
// environment.kwargs, which Harbor leaves to the environment.
type kwargs struct {
	Path       string            `json:"path,omitempty"` // of the task or set, absolute
	Image      string            `json:"image,omitempty"`
	Verifier   task.VerifierMode `json:"verifier,omitempty"`
	AgentLimit float64           `json:"agent_timeout_sec,omitempty"`
	Retries    int               `json:"retries,omitempty"`
	DiskBytes  int64             `json:"disk_bytes,omitempty"`
	UID        sandbox.UIDMode   `json:"uid_mode,omitempty"`
	Network    sandbox.Network   `json:"network,omitempty"` // the job's cap
	AllowHosts []string          `json:"allow_hosts,omitempty"`
	MinFree    int64             `json:"min_free_bytes,omitempty"`
	Budget     *Budget           `json:"budget,omitempty"`
	JobBudget  *Budget           `json:"job_budget,omitempty"`
	Tools      []string          `json:"tools,omitempty"` // of the host
}

// config is the job's config.json: Harbor's schema, enough for Load to begin
// where this run ends.
func (r *run) config() store.JobConfig {
	c := r.cfg
	jc := store.JobConfig{
		JobName: filepath.Base(c.Dir), JobsDir: filepath.Dir(c.Dir), Attempts: max(1, c.Attempts), Concurrent: c.Concurrent,
		TimeoutMultiplier: c.TimeoutMult, Retry: store.RetryConfig{MaxRetries: max(0, c.Retries)},
	}
	jc.Environment = store.EnvironmentConfig{ImportPath: "assay:" + r.can.Name}
	k := kwargs{Path: c.Path, Image: c.Image, Verifier: c.Verifier, AgentLimit: c.AgentLimit.Seconds(), Retries: c.Retries, DiskBytes: c.Limits.DiskBytes}
	if c.Source != "" {
		n := len(c.Tasks)
		d := store.DatasetConfig{Path: c.Path, NTasks: &n}
		for _, t := range c.Tasks { // by name: the set may grow
			d.TaskNames = append(d.TaskNames, t.Name)
		}
		jc.Datasets = []store.DatasetConfig{d}
	} else {
		for _, t := range c.Tasks {
			jc.Tasks = append(jc.Tasks, store.TaskConfig{Path: t.Dir})
		}
	}
	k.UID = c.UID
	k.Network, k.AllowHosts, k.MinFree = c.Network, c.AllowHosts, c.MinFree
	k.Budget, k.JobBudget = c.Budget.said(), c.JobBudget.said()
	k.Tools = c.Tools
	if err := json.Unmarshal(raw(k), &jc.Environment.Kwargs); err != nil {
		jc.Environment.Kwargs = nil // a struct of plain values always decodes into a map
	}
	for _, arm := range c.Arms {
		jc.Agents = append(jc.Agents, armConfig(arm))
	}
	return jc
}

// Load reads a job's own configuration, so that it can be run on. parse makes
// an arm from what the configuration says of it.
func Load(dir string, parse func(ArmConfig) (Arm, error)) (Config, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Config{}, err
	}
	if !store.Exists(abs) {
		return Config{}, fmt.Errorf("%s: %w", dir, store.ErrNoJob)
	}
	jc, err := store.ReadConfig(abs)
	if err != nil {
		return Config{}, err
	}
	if !strings.HasPrefix(jc.Environment.ImportPath, "assay:") {
		return Config{}, fmt.Errorf("%s: %w; run its tasks again with assay run", dir, store.ErrForeign)
	}
	var k kwargs
	if err := json.Unmarshal(raw(jc.Environment.Kwargs), &k); err != nil {
		return Config{}, fmt.Errorf("%s: environment.kwargs of config.json: %w", dir, err)
	}
	cfg := Config{
		Dir: abs, Path: k.Path, Attempts: jc.Attempts, Concurrent: jc.Concurrent, Retries: k.Retries, Image: k.Image,
		Verifier: k.Verifier, AgentLimit: time.Duration(k.AgentLimit * float64(time.Second)), TimeoutMult: jc.TimeoutMultiplier,
	}
	cfg.Limits.DiskBytes = k.DiskBytes
	cfg.UID = k.UID
	cfg.Network, cfg.AllowHosts = k.Network, k.AllowHosts
	cfg.Backend = strings.TrimPrefix(jc.Environment.ImportPath, "assay:")
	cfg.MinFree = k.MinFree
	cfg.Budget, cfg.JobBudget = k.Budget.or(), k.JobBudget.or()
	cfg.Tools = k.Tools
	if err := cfg.loadTasks(jc); err != nil {
		return Config{}, err
	}
	for _, a := range jc.Agents {
		c, err := readArm(a)
		if err != nil {
			return Config{}, fmt.Errorf("%s: %w", dir, err)
		}
		arm, err := parse(c)
		if err != nil {
			return Config{}, err
		}
		cfg.Arms = append(cfg.Arms, arm)
	}
	return cfg, nil
}

func (c *Config) loadTasks(jc store.JobConfig) error {
	for _, d := range jc.Datasets {
		tasks, _, err := task.LoadSet(d.Path)
		if err != nil {
			return fmt.Errorf("tasks of the job: %w", err)
		}
		if tasks, err = named(tasks, d); err != nil {
			return fmt.Errorf("tasks of the job: %w", err)
		}
		c.Source = filepath.Base(d.Path)
		c.Tasks = append(c.Tasks, tasks...)
	}
	for _, tc := range jc.Tasks {
		t, err := task.Load(tc.Path)
		if err != nil {
			return fmt.Errorf("tasks of the job: %w", err)
		}
		c.Tasks = append(c.Tasks, t)
	}
	return nil
}

// named picks the tasks that a job was begun with: by their names, or in a
// job of an earlier version, which wrote none, the first so many.
func named(set []*task.Task, d store.DatasetConfig) ([]*task.Task, error) {
	if d.TaskNames == nil {
		if d.NTasks != nil && *d.NTasks > 0 && len(set) > *d.NTasks {
			set = set[:*d.NTasks]
		}
		return set, nil
	}
	by := map[string]*task.Task{}
	for _, t := range set {
		by[t.Name] = t
	}
	var all []*task.Task
	for _, name := range d.TaskNames {
		t, ok := by[name]
		if !ok {
			return nil, fmt.Errorf("%s has no task %q any more; put it back, or start another job", d.Path, name)
		}
		all = append(all, t)
	}
	return all, nil
}

// shape is the job's configuration, made once: every trial's is a copy of it.
func (r *run) shape() store.JobConfig {
	r.shaped.Do(func() { r.jobConfig = r.config() })
	return r.jobConfig
}

// trialConfig is one trial's config.json and the same in full for its result.
func (r *run) trialConfig(p *planned) store.TrialConfig {
	return r.shape().Trial(p.name, p.task.Dir, r.cfg.Source, r.job.ID(), armConfig(p.arm))
}

func (r *run) trialLock(p *planned) store.TrialLock {
	l := store.TaskLock{Name: p.task.Name, Digest: p.digest, Source: r.cfg.Source, Path: p.task.Dir}
	mode := "separate"
	if p.task.MultiStep() {
		mode = ""
	}
	return r.trialConfig(p).Lock(l, mode)
}

// lock writes the job's lock.json.
func (r *run) lock(all []*planned) error {
	l := store.JobLock{CreatedAt: time.Now(), Version: "assay-" + r.deps.Version, Concurrent: r.cfg.Concurrent, Retry: store.RetryConfig{MaxRetries: max(0, r.cfg.Retries)}}
	for _, p := range all {
		l.Trials = append(l.Trials, r.trialLock(p))
	}
	return r.job.WriteLock(l)
}

// writeState keeps a file of the job's own below .states/, atomically.
func writeState(dir, name string, b []byte) error {
	states := filepath.Join(dir, store.StatesDir)
	if err := os.MkdirAll(states, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(states, "."+name)
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(states, name))
}
