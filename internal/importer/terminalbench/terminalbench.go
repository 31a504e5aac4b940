// Package terminalbench turns task directories of Terminal-Bench 1 (task.yaml,
// docker-compose.yaml, run-tests.sh, solution.sh) into Harbor's form, as
// Harbor's own mapper does: those of Terminal-Bench 2 are in it already.
//
// It writes down what a task says and changes nothing of its tests: their
// script runs as it is, and its exit status is the reward. Links, and files
// outside of the task, are errors. It never runs anything.
package terminalbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/importer"
	"assay/task"
)

// Importer implements [importer.Importer].
type Importer struct{}

// New returns the importer.
func New() Importer { return Importer{} }

// Name returns "terminal-bench".
func (Importer) Name() string { return "terminal-bench" }

const (
	maxFile = 512 << 20
	maxAll  = 4 << 30
)

// Import writes a task for src, or for each directory in it that holds a
// task.yaml, below out.
func (Importer) Import(ctx context.Context, src, out string, opts importer.Options) (importer.Summary, error) {
	fail := func(err error) (importer.Summary, error) {
		return importer.Summary{Dir: out}, fmt.Errorf("import terminal-bench: %w", err)
	}
	abs, err := filepath.Abs(src)
	if err != nil {
		return fail(err)
	}
	var from []string
	if _, err := os.Stat(filepath.Join(abs, "task.yaml")); err == nil {
		from = []string{abs}
	} else {
		entries, err := os.ReadDir(abs)
		if err != nil {
			return fail(err)
		}
		for _, e := range entries {
			if _, err := os.Stat(filepath.Join(abs, e.Name(), "task.yaml")); err == nil && e.IsDir() {
				from = append(from, filepath.Join(abs, e.Name()))
			}
		}
	}
	if len(from) == 0 {
		return fail(fmt.Errorf("%s: no task of Terminal-Bench 1 here (a directory with task.yaml); tasks of Terminal-Bench 2 run as they are", src))
	}
	var dirs []importer.Dir
	for _, dir := range from {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		d, err := convert(dir)
		if err != nil {
			return fail(fmt.Errorf("%s: %w", dir, err))
		}
		dirs = append(dirs, d)
	}
	return importer.WriteAll(ctx, out, dirs, opts)
}

// config is task.yaml, as far as it says anything that counts here.
type config struct {
	Instruction string   `yaml:"instruction"`
	AuthorName  string   `yaml:"author_name"`
	AuthorEmail string   `yaml:"author_email"`
	Difficulty  string   `yaml:"difficulty"`
	Category    string   `yaml:"category"`
	Tags        []string `yaml:"tags"`
	Agent       *float64 `yaml:"max_agent_timeout_sec"`
	Test        *float64 `yaml:"max_test_timeout_sec"`
	Expert      *float64 `yaml:"expert_time_estimate_min"`
	Junior      *float64 `yaml:"junior_time_estimate_min"`
}

// reward is put to the end of the tests' script.
const reward = `
_EXIT_CODE=$?
mkdir -p /logs/verifier
if [ $_EXIT_CODE -eq 0 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
exit $_EXIT_CODE
`

// own are the files that are not part of the environment.
var own = []string{"task.yaml", "solution.sh", "solution.yaml", "run-tests.sh", "docker-compose.yaml"}

func convert(dir string) (importer.Dir, error) {
	d := importer.Dir{Name: filepath.Base(dir)}
	all, err := files(dir)
	if err != nil {
		return d, err
	}
	var c config
	if err := yaml.Unmarshal(all["task.yaml"].Data, &c); err != nil {
		return d, fmt.Errorf("task.yaml: %w", err)
	}
	switch {
	case strings.TrimSpace(c.Instruction) == "":
		return d, errors.New("task.yaml: instruction is missing")
	case all["run-tests.sh"].Data == nil:
		return d, errors.New("run-tests.sh is missing")
	case all["solution.yaml"].Data != nil && all["solution.sh"].Data == nil:
		return d, errors.New("its solution is a list of commands (solution.yaml), which is not supported: write solution.sh")
	}
	put := func(name string, data []byte, exec bool) {
		d.Files = append(d.Files, importer.File{Path: name, Data: data, Exec: exec})
	}
	toml, err := c.task()
	if err != nil {
		return d, err
	}
	put("task.toml", toml, false)
	put("instruction.md", []byte(strings.TrimRight(c.Instruction, "\n")+"\n"), false)
	if s := all["solution.sh"]; s.Data != nil {
		put("solution/solve.sh", s.Data, true)
	}
	script := bytes.ReplaceAll(bytes.ReplaceAll(all["run-tests.sh"].Data, []byte("${TEST_DIR}"), []byte("/tests")), []byte("$TEST_DIR"), []byte("/tests"))
	put("tests/test.sh", append(append(bytes.TrimRight(script, "\n"), '\n'), reward...), true)
	s, compose, err := environment(all["docker-compose.yaml"].Data)
	if err != nil {
		return d, err
	}
	if compose != nil {
		put("environment/docker-compose.yaml", compose, false)
	}
	for _, name := range names(all) {
		f := all[name]
		if below, ok := strings.CutPrefix(name, "tests/"); ok {
			if below == "test.sh" {
				return d, errors.New("tests/test.sh is in the way of the script that Harbor runs")
			}
			put("tests/"+below, f.Data, f.Exec)
			if !s.copies("tests", all) {
				continue
			}
		}
		if slices.Contains(own, name) && !(name == "solution.sh" && s.copies("solution.sh", all)) {
			continue
		}
		to := name
		if s.context != "." {
			if rel, ok := strings.CutPrefix(name, s.context+"/"); ok {
				to = rel
			}
		}
		if to == "Dockerfile" {
			f.Data = append(append(bytes.TrimRight(f.Data, "\n"), '\n'), s.dockerfile...)
		}
		put("environment/"+to, f.Data, f.Exec)
	}
	return d, nil
}

func names(all map[string]importer.File) []string {
	var out []string
	for name := range all {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (c config) task() ([]byte, error) {
	agent, test := 360.0, 60.0 // Terminal-Bench's own
	if c.Agent != nil {
		agent = *c.Agent
	}
	if c.Test != nil {
		test = *c.Test
	}
	rest := map[string]any{"dataset": "terminal-bench"}
	for key, v := range map[string]string{"author_name": c.AuthorName, "author_email": c.AuthorEmail, "difficulty": c.Difficulty, "category": c.Category} {
		if v != "" {
			rest[key] = v
		}
	}
	if len(c.Tags) > 0 {
		rest["tags"] = c.Tags
	}
	for key, v := range map[string]*float64{"expert_time_estimate_min": c.Expert, "junior_time_estimate_min": c.Junior} {
		if v != nil {
			rest[key] = *v
		}
	}
	return task.Config{
		Metadata: task.Metadata{Rest: rest}, Agent: task.AgentConfig{TimeoutSec: &agent}, Verifier: task.VerifierConfig{TimeoutSec: &test},
	}.Encode()
}

// files reads a task's plain files.
func files(dir string) (map[string]importer.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	all := map[string]importer.File{}
	left := int64(maxAll)
	err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := root.Stat(p) // a link that leaves the task is an error
		if err != nil {
			return err
		}
		if left -= info.Size(); !info.Mode().IsRegular() || info.Size() > maxFile || left < 0 {
			return fmt.Errorf("%s is no plain file, or the task is too large", p)
		}
		b, err := root.ReadFile(p)
		all[path.Clean(p)] = importer.File{Data: b, Exec: info.Mode()&0o100 != 0}
		return err
	})
	return all, err
}
