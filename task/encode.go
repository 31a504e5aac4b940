package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/pelletier/go-toml/v2"
)

// wire is task.toml in the order in which it is written.
type wire struct {
	SchemaVersion   string         `toml:"schema_version"`
	Source          string         `toml:"source,omitempty"`
	MultiStepReward RewardChoice   `toml:"multi_step_reward_strategy,omitempty"`
	Artifacts       []Artifact     `toml:"artifacts,omitempty"`
	Task            *Package       `toml:"task,omitempty"`
	Metadata        map[string]any `toml:"metadata,omitempty"`
	Agent           AgentConfig    `toml:"agent,omitempty"`
	Verifier        VerifierConfig `toml:"verifier,omitempty"`
	Environment     Environment    `toml:"environment,omitempty"`
	Solution        SolutionConfig `toml:"solution,omitempty"`
	Steps           []StepConfig   `toml:"steps,omitempty"`
}

// Encode writes a configuration as task.toml. Only current spellings are used
// and nothing is written that the configuration does not set. A configuration
// that Harbor would refuse is an error.
func (c Config) Encode() ([]byte, error) {
	w := wire{
		SchemaVersion: cmpOr(c.SchemaVersion, SchemaVersion), Source: c.Source,
		MultiStepReward: c.MultiStepReward, Artifacts: c.Artifacts, Task: c.Task,
		Metadata: c.Metadata.table(), Agent: c.Agent, Verifier: c.Verifier,
		Environment: c.Environment, Solution: c.Solution, Steps: c.Steps,
	}
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.SetIndentTables(false)
	if err := e.Encode(w); err != nil {
		return nil, fmt.Errorf("encode %s: %w", configName, err)
	}
	d, err := decodeTOML(configName, b.String())
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", configName, err)
	}
	if err := d.err(); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

// ParseConfig reads a task.toml by itself, as Load does.
func ParseConfig(data []byte) (Config, error) {
	d, err := decodeTOML(configName, string(data))
	if err != nil {
		return Config{}, err
	}
	return d.config, d.err()
}

// MarshalJSON gives the free table with assay's part in its place.
func (m Metadata) MarshalJSON() ([]byte, error) { return json.Marshal(jsonValue(m.table())) }

// jsonValue makes what TOML can hold fit for JSON, which has no NaN.
func jsonValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[k] = jsonValue(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = jsonValue(item)
		}
		return out
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	}
	return v
}

// File is one file of a task that is written.
type File struct {
	Path string // relative to the task directory, slash-separated
	Data []byte
	Exec bool
}

// Write makes dir a task directory of a configuration and files. An existing
// directory is replaced as a whole: the new one is made beside it and renamed,
// so that a reader sees the old task or the new one. Nothing is written when
// the result would not load, or when dir holds something else than a task.
func Write(dir string, c Config, files []File) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	data, err := c.Encode()
	if err != nil {
		return fmt.Errorf("write task %s: %w", abs, err)
	}
	if err := replaceable(abs); err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o755); err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(abs), "."+filepath.Base(abs)+".*")
	if err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := writeFiles(tmp, append([]File{{Path: configName, Data: data}}, files...)); err != nil {
		return fmt.Errorf("write task %s: %w", abs, err)
	}
	if _, err := Load(tmp); err != nil {
		return fmt.Errorf("write %s: %w", abs, err)
	}
	if err := swap(tmp, abs); err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	return nil
}

// replaceable protects directories that are no tasks.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	}
	for _, e := range entries {
		if e.Name() == configName {
			return nil
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s exists and is no task; choose another place, or empty it first", dir)
	}
	return nil
}

func writeFiles(dir string, files []File) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		name := filepath.FromSlash(f.Path)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q is no path inside of a task", f.Path)
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if f.Exec {
			mode = 0o755
		}
		if err := root.WriteFile(name, f.Data, mode); err != nil {
			return err
		}
	}
	return nil
}

// swap puts a finished directory in the place of an older one.
func swap(tmp, dir string) error {
	old := tmp + ".old"
	err := os.Rename(dir, old)
	switch {
	case os.IsNotExist(err):
		return os.Rename(tmp, dir)
	case err != nil:
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		if back := os.Rename(old, dir); back != nil {
			return fmt.Errorf("%w; the former task lies in %s", err, old)
		}
		return err
	}
	return os.RemoveAll(old)
}

// WriteConfig replaces dir's task.toml atomically.
func WriteConfig(dir string, c Config) error {
	data, err := c.Encode()
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, configName), err)
	}
	if err := renameio.WriteFile(filepath.Join(dir, configName), data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", configName, err)
	}
	return nil
}
