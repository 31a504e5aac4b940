package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/job"
	"assay/internal/strict"
)

// maxJobFile is what a job file may be large, in bytes.
const maxJobFile = 1 << 20

// jobFile is a job as a file: what the flags of run say, and arms that differ
// in more than agent and model.
type jobFile struct {
	Path        string    `toml:"path"` // of a task or a set, relative to the file
	Name        string    `toml:"job_name"`
	Out         string    `toml:"jobs_dir"`
	Attempts    int       `toml:"attempts"`
	Concurrent  int       `toml:"concurrent"`
	Image       string    `toml:"image"`
	Network     string    `toml:"network"`
	AllowHosts  []string  `toml:"allow_hosts"`
	Multiplier  float64   `toml:"timeout_multiplier"`
	Retries     *int      `toml:"retries"`
	Arms        []armFile `toml:"arms"`
	noticed     []string  // what another harness's file says that means nothing here
	instruction string
}

// armFile is one arm of a job file.
type armFile struct {
	Name         string            `toml:"name"` // empty: the agent's
	Agent        string            `toml:"agent"`
	Model        string            `toml:"model"`
	Instructions string            `toml:"instructions"` // added to every brief
	Env          map[string]string `toml:"env"`          // of the agent; no secrets
	armOptions
}

// readJobFile reads assay's form (.toml), or Harbor's job configuration (.yaml,
// .yml, .json).
func readJobFile(path string) (*jobFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxJobFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxJobFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxJobFile)
	}
	j := &jobFile{}
	switch filepath.Ext(path) {
	case ".toml":
		err = j.readTOML(path, b)
	case ".yaml", ".yml", ".json":
		err = j.readHarbor(path, b)
	default:
		err = fmt.Errorf("%s: a job file is assay's own .toml, or Harbor's .yaml or .json", path)
	}
	if err != nil {
		return nil, err
	}
	if len(j.Arms) == 0 {
		return nil, fmt.Errorf("%s: it names no agent", path)
	}
	for i, a := range j.Arms {
		if a.Agent == "" {
			return nil, fmt.Errorf("%s: arm %d names no agent", path, i+1)
		}
	}
	j.beside(filepath.Dir(path))
	return j, nil
}

// beside makes what the file names relative to its directory.
func (j *jobFile) beside(dir string) {
	at := func(spec *string, prefix string) {
		file, ok := strings.CutPrefix(*spec, prefix)
		if ok && file != "" && !filepath.IsAbs(file) {
			*spec = prefix + filepath.Join(dir, file)
		}
	}
	at(&j.Path, "")
	for i := range j.Arms {
		arm := &j.Arms[i]
		at(&arm.Model, "scripted:")
		at(&arm.Model, "replay:")
		at(&arm.Agent, "script:")
		if isRecipeFile(arm.Agent) {
			at(&arm.Agent, "")
		}
	}
}

func (j *jobFile) readTOML(path string, b []byte) error {
	return strict.Errors(path, strict.TOML(b, j), "a job has no key %q")
}

// harborJob is what of Harbor's job configuration means something here.
// Source: harbor/models/job/config.py of 0.25.
type harborJob struct {
	JobName    string  `yaml:"job_name"`
	JobsDir    string  `yaml:"jobs_dir"`
	Attempts   int     `yaml:"n_attempts"`
	Concurrent int     `yaml:"n_concurrent_trials"`
	Multiplier float64 `yaml:"timeout_multiplier"`
	Retry      *struct {
		Max *int `yaml:"max_retries"`
	} `yaml:"retry"`
	Orchestrator *struct { // of earlier versions
		Concurrent int `yaml:"n_concurrent_trials"`
	} `yaml:"orchestrator"`
	Instructions []string `yaml:"extra_instructions"`
	Agents       []struct {
		Name    string            `yaml:"name"`
		Import  string            `yaml:"import_path"`
		Model   string            `yaml:"model_name"`
		BaseURL string            `yaml:"base_url"`
		KeyName string            `yaml:"model_api_key_name"`
		Env     map[string]string `yaml:"env"`
		MCP     []any             `yaml:"mcp_servers"`
		Kwargs  map[string]any    `yaml:"kwargs"`
	} `yaml:"agents"`
	Datasets []struct {
		Path string `yaml:"path"`
	} `yaml:"datasets"`
	Tasks []struct {
		Path string `yaml:"path"`
	} `yaml:"tasks"`
}

// meaningful are the keys of harborJob, and those that change nothing here.
var meaningful = []string{
	"job_name", "jobs_dir", "n_attempts", "n_concurrent_trials", "timeout_multiplier", "retry", "orchestrator", "extra_instructions",
	"agents", "datasets", "tasks", "quiet", "debug", "metrics",
}

func (j *jobFile) readHarbor(path string, b []byte) error {
	var h harborJob
	if err := yaml.Unmarshal(b, &h); err != nil {
		return fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, true))
	}
	var keys map[string]any
	if err := yaml.Unmarshal(b, &keys); err != nil {
		return fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, true))
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(meaningful, k) {
			j.noticed = append(j.noticed, fmt.Sprintf("%s: %s is left aside: it means nothing here", path, k))
		}
	}
	j.Name, j.Out, j.Attempts, j.Concurrent, j.Multiplier = h.JobName, h.JobsDir, h.Attempts, h.Concurrent, h.Multiplier
	if h.Orchestrator != nil && j.Concurrent == 0 {
		j.Concurrent = h.Orchestrator.Concurrent
	}
	if h.Retry != nil {
		j.Retries = h.Retry.Max
	}
	j.instruction = strings.Join(h.Instructions, "\n\n")
	var paths []string
	for _, d := range h.Datasets {
		paths = append(paths, d.Path)
	}
	for _, t := range h.Tasks {
		paths = append(paths, t.Path)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return p == "" })
	if len(paths) > 1 {
		return fmt.Errorf("%s: it names %d task paths and assay runs one directory of tasks a job: put them into one directory, or name one with -p", path, len(paths))
	}
	if len(paths) == 1 {
		j.Path = paths[0]
	}
	for i, a := range h.Agents {
		switch {
		case a.Import != "":
			return fmt.Errorf("%s: agent %d: import_path names Python code, which only Harbor can load; run the program with command: or a recipe file", path, i+1)
		case len(a.MCP) > 0:
			return fmt.Errorf("%s: agent %s: mcp_servers are not passed on; add them to a recipe file ('assay agent show %s')", path, a.Name, a.Name)
		}
		for _, k := range slices.Sorted(maps.Keys(a.Kwargs)) {
			j.noticed = append(j.noticed, fmt.Sprintf("%s: agent %s: kwargs.%s is left aside: it means nothing here", path, a.Name, k))
		}
		j.Arms = append(j.Arms, armFile{
			Agent: a.Name, Model: a.Model, Env: a.Env, Instructions: j.instruction, armOptions: armOptions{URL: a.BaseURL, KeyEnv: a.KeyName},
		})
	}
	return nil
}

// listed makes the arms of a job file.
func (m *armory) listed(j *jobFile) ([]job.Arm, error) {
	var arms []job.Arm
	for _, a := range j.Arms {
		arm, err := m.arm(armSpec{agent: a.Agent, model: a.Model, name: a.Name, instructions: a.Instructions, env: a.Env, options: a.armOptions})
		if err != nil {
			return nil, err
		}
		n, err := needs(arm)
		if err != nil {
			return nil, fmt.Errorf("agent %q: %w", a.Agent, err)
		}
		if n.Dialect != "" && !n.Optional && a.Model == "" {
			return nil, fmt.Errorf("agent %q needs a model", a.Agent)
		}
		arms = append(arms, arm)
	}
	return arms, nil
}
