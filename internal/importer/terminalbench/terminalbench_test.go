package terminalbench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/importer"
	"assay/task"
)

const yamlText = `instruction: |-
  Write hello into out.txt.
  Twice.
author_name: A
difficulty: easy
category: files
tags: [a, b]
parser_name: pytest
max_agent_timeout_sec: 90.5
max_test_timeout_sec: 30
`

const plainCompose = `services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
      - MODE=fast
    working_dir: /app
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
`

// write makes a task of Terminal-Bench 1.
func write(t *testing.T, dir string, change map[string]string) {
	t.Helper()
	all := map[string]string{
		"task.yaml": yamlText, "docker-compose.yaml": plainCompose, "Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY data.txt .\n", "data.txt": "data\n",
		"run-tests.sh": "#!/bin/bash\npytest $TEST_DIR/test_outputs.py -rA\n", "solution.sh": "#!/bin/bash\necho hello >out.txt\n", "tests/test_outputs.py": "def test(): pass\n",
	}
	for name, text := range change {
		all[name] = text
	}
	for name, text := range all {
		if text == "" {
			continue
		}
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var services = strings.Replace(plainCompose, "    working_dir: /app\n", "    working_dir: /app\n    depends_on: [db]\n", 1) + "  db:\n    build: ./db\n    container_name: ${T_BENCH_TASK_DOCKER_NAME_PREFIX}-db\n"

// Two tasks, as Terminal-Bench 1 has them: with a Dockerfile alone, and with a
// service beside the agent's container.
func source(t *testing.T) string {
	src := t.TempDir()
	write(t, filepath.Join(src, "hello"), nil)
	write(t, filepath.Join(src, "with-db"), map[string]string{"docker-compose.yaml": services, "db/Dockerfile": "FROM debian:bookworm-slim\n"})
	return src
}

func TestImport(t *testing.T) {
	out := t.TempDir()
	if _, err := New().Import(t.Context(), source(t), out, importer.Options{}); err != nil {
		t.Fatal(err)
	}
	tasks, skipped, err := task.LoadSet(out)
	if err != nil || len(tasks) != 2 || len(skipped) > 0 {
		t.Fatalf("%d tasks, %v, %v", len(tasks), skipped, err)
	}
	hello := tasks[0]
	if b := hello.Brief(0); b.Instruction != "Write hello into out.txt.\nTwice.\n" && b.Instruction != "Write hello into out.txt.\nTwice." || b.Timeout.Seconds() != 90.5 {
		t.Errorf("%+v", b)
	}
	if k := hello.Key(0); k.Timeout.Seconds() != 30 {
		t.Errorf("verifier's time %v", k.Timeout)
	}
	at := func(name string) string { return filepath.Join(out, name) }
	if got := read(t, at("hello/tests/test.sh")); !strings.HasPrefix(got, "#!/bin/bash\npytest /tests/test_outputs.py -rA\n") || !strings.Contains(got, "reward.txt") {
		t.Errorf("test.sh:\n%s", got)
	}
	if got := read(t, at("hello/environment/Dockerfile")); got != "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY data.txt .\n\n# Of docker-compose.yaml\nENV TEST_DIR=/tests\nENV MODE=fast\nWORKDIR /app\n" {
		t.Errorf("Dockerfile:\n%s", got)
	}
	for _, hidden := range []string{"hello/environment/tests", "hello/environment/solution.sh", "hello/environment/docker-compose.yaml", "hello/environment/task.yaml"} {
		if _, err := os.Stat(at(hidden)); err == nil {
			t.Errorf("%s is there", hidden)
		}
	}
	compose := read(t, at("with-db/environment/docker-compose.yaml"))
	for _, want := range []string{"main:", "${MAIN_IMAGE_NAME}", "depends_on:", "hb-db"} {
		if !strings.Contains(compose, want) {
			t.Errorf("docker-compose.yaml has no %q:\n%s", want, compose)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"no instruction":  {map[string]string{"task.yaml": "tags: []\n"}, "instruction is missing"},
		"no tests":        {map[string]string{"run-tests.sh": ""}, "run-tests.sh is missing"},
		"commands":        {map[string]string{"solution.sh": "", "solution.yaml": "- command: ls\n"}, "solution.yaml"},
		"outside":         {map[string]string{"docker-compose.yaml": "services: {client: {build: {context: ../x}}}\n"}, "outside of the task"},
		"broken":          {map[string]string{"task.yaml": "instruction: [\n"}, "task.yaml: "},
		"broken services": {map[string]string{"docker-compose.yaml": "services: [\n"}, "docker-compose.yaml: "},
	} {
		src := filepath.Join(t.TempDir(), "x")
		write(t, src, c.change)
		out := t.TempDir()
		if _, err := New().Import(t.Context(), src, out, importer.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	src := filepath.Join(t.TempDir(), "x")
	write(t, src, nil)
	if err := os.Symlink("/etc/passwd", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := New().Import(t.Context(), src, t.TempDir(), importer.Options{}); err == nil {
		t.Error("a link out of the task was followed")
	}
}

// Harbor's own mapper makes the same files, but for the words of the comment
// and how YAML and TOML are laid out.
func TestHarborsMapper(t *testing.T) {
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Skip("HARBOR_PYTHON names no Python with Harbor")
	}
	src, ours, theirs := source(t), t.TempDir(), t.TempDir()
	if _, err := New().Import(t.Context(), src, ours, importer.Options{}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", "import sys; from pathlib import Path; from harbor.mappers.terminal_bench import TerminalBenchMapper as M; r = M().map(Path(sys.argv[1]), Path(sys.argv[2])); assert not r.failed, r.failed", src, theirs)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	list := func(dir string) map[string]string {
		all := map[string]string{}
		err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			rel, err := filepath.Rel(dir, p)
			all[rel] = read(t, p)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	a, b := list(ours), list(theirs)
	for name, want := range b {
		got, ok := a[name]
		switch {
		case !ok:
			t.Errorf("%s is missing", name)
		case strings.HasSuffix(name, ".toml"), strings.HasSuffix(name, ".yaml"):
		case strings.HasSuffix(name, "Dockerfile"):
			want = strings.Replace(want, "# Mapped from docker-compose.yaml", "# Of docker-compose.yaml", 1)
			fallthrough
		default:
			if strings.TrimSpace(strings.Replace(got, "mkdir -p /logs/verifier\n", "", 1)) != strings.TrimSpace(want) {
				t.Errorf("%s:\n%s\nHarbor's:\n%s", name, got, want)
			}
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			t.Errorf("%s is too much", name)
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add([]byte(plainCompose))
	f.Add([]byte(services))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _, err := environment(b)
		if err == nil && (strings.HasPrefix(s.context, "/") || strings.HasPrefix(s.context, "..")) {
			t.Errorf("context %q", s.context)
		}
	})
}
