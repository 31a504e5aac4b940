package task

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Terminal-Bench 1 describes a task in task.yaml, with run-tests.sh,
// solution.sh (or solution.yaml), Dockerfile and docker-compose.yaml beside it
// and tests in tests/. Fields and defaults: terminal-bench 0.2.18,
// handlers/trial_handler.py; the mapping is that of "harbor task migrate".
const (
	legacyAgentTimeout = 360.0 // seconds
	legacyTestTimeout  = 60.0
	legacyScript       = "run-tests.sh"
	legacyCompose      = "docker-compose.yaml"
)

// legacyRunner stands for test.sh: the reward is the script's exit status.
const legacyRunner = `#!/bin/sh
export TEST_DIR=/tests
if command -v bash >/dev/null 2>&1; then bash /tests/run-tests.sh; else sh /tests/run-tests.sh; fi
code=$?
mkdir -p /logs/verifier
if [ "$code" -eq 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
exit "$code"
`

func (l *loader) loadLegacy() (*Task, error) {
	d, instruction, err := l.decodeLegacy()
	if err != nil {
		return nil, err
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	l.c = d.config
	sl, err := l.legacyLayout()
	if err != nil {
		return nil, err
	}
	return &Task{
		Dir: l.t.dir, Name: filepath.Base(l.t.dir), Config: l.c, Format: FormatTerminalBench1,
		Steps:  []Step{{Instruction: stripCanary(instruction)}},
		layout: []stepLayout{sl},
	}, nil
}

// legacyMetadata are the fields that only describe a task.
var legacyMetadata = []string{
	"author_name", "author_email", "difficulty", "category", "tags", "parser_name",
	"run_tests_in_same_shell", "disable_asciinema", "estimated_duration_sec",
	"expert_time_estimate_min", "junior_time_estimate_min",
}

func (l *loader) decodeLegacy() (*decoded, string, error) {
	text, err := l.t.readText(legacyConfigName, maxConfigFile)
	if err != nil {
		return nil, "", err
	}
	doc, err := parseYAML(legacyConfigName, text)
	if err != nil {
		return nil, "", err
	}
	d := &decoded{decoder: decoder{doc: doc}}
	t := &table{d: &d.decoder, m: doc.root}
	instruction := legacyInstruction(t)
	agent, test := legacyAgentTimeout, legacyTestTimeout
	if f := t.float("max_agent_timeout_sec"); f != nil {
		agent = *f
	}
	if f := t.float("max_test_timeout_sec"); f != nil {
		test = *f
	}
	d.config.Agent.TimeoutSec, d.config.Verifier.TimeoutSec = &agent, &test
	rest := map[string]any{}
	for _, name := range legacyMetadata {
		if v, ok := t.get(name); ok && v != nil {
			rest[name] = v
		}
	}
	for _, name := range sortedKeys(t.m) {
		if _, seen := rest[name]; !seen && !slices.Contains(t.known, name) {
			d.remark("unknown-config-field", key{name}, "remove it", "unknown field, ignored when the task runs")
		}
	}
	d.config.Metadata.Rest = rest
	l.legacyComposeFile(d)
	return d, instruction, nil
}

// legacyInstruction reads the text, also from the older list of descriptions.
func legacyInstruction(t *table) string {
	if _, ok := t.m["instruction"]; ok {
		return t.text("instruction")
	}
	text := ""
	t.list("descriptions", func(k key, v any) {
		sub, ok := t.d.table(k, v)
		if !ok {
			return
		}
		s := sub.text("description")
		if name := sub.text("key"); text == "" || name == "base" {
			text = s
		}
	})
	if text == "" {
		t.fault("instruction", "missing")
	}
	return text
}

// legacyComposeFile takes over what one container needs to know. A Compose
// file that is missing or makes no sense is no fault of the task's.
func (l *loader) legacyComposeFile(d *decoded) {
	text, err := l.t.readText(legacyCompose, maxConfigFile)
	if err != nil {
		return
	}
	doc, err := parseCompose(legacyCompose, text)
	if err != nil {
		return
	}
	main := mainLegacyService(doc.root)
	e := &d.config.Environment
	if s, ok := main["working_dir"].(string); ok && !strings.Contains(s, "${") {
		e.Workdir = s
	}
	if s, ok := main["image"].(string); ok && main["build"] == nil && !strings.Contains(s, "${") {
		e.DockerImage = s
	}
	e.Env = composeEnv(main["environment"])
	if dir := composeContext(main); filepath.IsLocal(dir) && l.t.isDir(dir) {
		l.context = dir
	}
}

func mainLegacyService(compose map[string]any) map[string]any {
	services, _ := compose["services"].(map[string]any)
	main, _ := services[legacyService(services)].(map[string]any)
	return main
}

// composeEnv reads both forms of a service's environment, without what the old
// harness itself set.
func composeEnv(v any) map[string]string {
	env := map[string]string{}
	add := func(k, v string) {
		if !strings.Contains(v, "${T_BENCH_") {
			env[k] = v
		}
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if s, ok := item.(string); ok {
				if k, val, ok := strings.Cut(s, "="); ok {
					add(k, val)
				}
			}
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			switch val := v[k].(type) {
			case string:
				add(k, val)
			case int64, float64, bool:
				add(k, fmt.Sprint(val))
			}
		}
	}
	if len(env) == 0 {
		return nil
	}
	return env
}

func (l *loader) legacyLayout() (stepLayout, error) {
	sl := stepLayout{script: "test.sh", context: cmpOr(l.context, "."), testFiles: map[string][]byte{"test.sh": []byte(legacyRunner)}}
	script, err := l.t.read(legacyScript, maxScriptFile)
	if errors.Is(err, fs.ErrNotExist) {
		return sl, &LayoutError{Path: legacyScript, Message: "missing", Remedy: "add the verifier's script"}
	}
	if err != nil {
		return sl, err
	}
	sl.testFiles[legacyScript] = newlines(script)
	if l.t.isDir("tests") {
		var first *LayoutError
		walk := inputWalk{t: l.t, report: func(e *LayoutError) bool { first = e; return false }}
		if err := walk.check("tests"); err != nil {
			return sl, err
		}
		if first != nil {
			return sl, first
		}
		sl.tests = []string{"tests"}
	}
	solve, err := l.legacySolution()
	if err != nil {
		return sl, err
	}
	if solve != nil {
		sl.solutionFiles = map[string][]byte{"solve.sh": solve}
	}
	return sl, nil
}

// legacySolution gives solution.sh, or the commands of solution.yaml as a
// script when they are plain lines. What is typed key by key is no script; such
// a task has no gold solution here.
func (l *loader) legacySolution() ([]byte, error) {
	data, err := l.t.read("solution.sh", maxScriptFile)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return newlines(data), err
	}
	text, err := l.t.readText("solution.yaml", maxConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var commands []struct {
		Command     string `yaml:"command"`
		AppendEnter *bool  `yaml:"append_enter"`
	}
	if err := yamlGuard("solution.yaml", text, func() error { return yaml.Unmarshal([]byte(text), &commands) }); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	for _, c := range commands {
		if c.AppendEnter != nil && !*c.AppendEnter {
			return nil, nil
		}
		b.WriteString(c.Command + "\n")
	}
	return []byte(b.String()), nil
}

// composeContext is a service's build directory, relative to its file.
func composeContext(service map[string]any) string {
	switch b := service["build"].(type) {
	case string:
		return path.Clean(b)
	case map[string]any:
		if s, ok := b["context"].(string); ok {
			return path.Clean(s)
		}
	}
	return "."
}
