package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/model/replay"
)

const replayScript = `
faults: [{kind: rate-limit, retry_after: 10ms, each: 1, first: 2}]
turns:
  - {reasoning: It should say hello., text: First try., calls: [{bash: 'echo wrong > answer.txt; date; cat /proc/self/status | grep ^Name'}]}
  - calls: [{bash: 'test "$(cat answer.txt)" = hello || { echo not yet; exit 1; }'}, {read: answer.txt}]
  - calls: [{write: {path: answer.txt, content: "hello\n"}}]
  - calls: [{submit: It says hello.}]
`

// A trial that is run again from its own record leaves the same trajectory,
// once what differs from run to run is made equal; and a task that changed
// since is told as the first difference.
func TestReplay(t *testing.T) {
	needSandbox(t)
	dir := scratch(t)
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("script.yaml", replayScript)
	write("task/task.toml", "[metadata.assay]\nfallback_image = \"host\"\n")
	write("task/instruction.md", "Make answer.txt say hello.\n")
	write("task/environment/Dockerfile", "FROM nowhere/at-all:1\nWORKDIR /app\n")
	write("task/tests/test.sh", "#!/bin/sh\n[ \"$(cat /app/answer.txt)\" = hello ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n")

	run := func(job, model string, want int) (trial, said string) {
		t.Helper()
		var out bytes.Buffer
		env := func(k string) (string, bool) {
			if k == "ASSAY_STORE" {
				return filepath.Join(dir, "store"), true
			}
			return os.LookupEnv(k)
		}
		args := []string{"assay", "run", "-q", "-p", filepath.Join(dir, "task"), "-a", "react", "-m", model, "-o", filepath.Join(dir, "jobs"), "--job-name", job, "--no-report"}
		if code := Main(args, World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Env: env}); code != want {
			t.Fatalf("%s: exit status %d\n%s", job, code, out.String())
		}
		found, err := filepath.Glob(filepath.Join(dir, "jobs", job, "task__*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v %v\n%s", job, found, err, out.String())
		}
		return found[0], out.String()
	}
	document := func(trial string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(trial, "agent/trajectory.json"))
		if err != nil {
			t.Fatal(err)
		}
		b, err = replay.Document(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}

	first, _ := run("first", "scripted:"+filepath.Join(dir, "script.yaml"), 0)
	second, _ := run("second", "replay:"+first, 0)
	if d := cmp.Diff(document(first), document(second)); d != "" {
		t.Errorf("the replay of a trial differs (-first +second):\n%s", d)
	}
	if doc := document(second); !strings.Contains(doc, "not yet") || !strings.Contains(doc, "It says hello.") {
		t.Errorf("the trajectory lacks the work:\n%s", doc)
	}
	third, _ := run("third", "replay:"+second, 0)
	if d := cmp.Diff(document(second), document(third)); d != "" {
		t.Errorf("the replay of a replay differs (-second +third):\n%s", d)
	}

	write("task/instruction.md", "Make answer.txt say good day.\n")
	_, said := run("changed", "replay:"+first, 3)
	if !strings.Contains(said, `"Make answer.txt say good day.", recorded is "Make answer.txt say hello."`) {
		t.Errorf("the difference is not named: %s", said)
	}
}
