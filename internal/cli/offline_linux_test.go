package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A whole job needs no network: the agent comes from an archive, works, is
// graded and reported in a network namespace that has loopback alone, and the
// egress statement says that nothing left. With ASSAY_AGENTS the agent is
// codex, else a shell script of the test's own.
func TestOfflineJob(t *testing.T) {
	needSandbox(t)
	dir := scratch(t)
	write := func(name, text string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("task/task.toml", "schema_version = \"1.1\"\n[environment]\ndocker_image = \"host\"\n")
	write("task/instruction.md", "Create hello.txt with exactly: Hello, world!\n")
	write("task/tests/test.sh", "#!/bin/sh\nif [ \"$(cat hello.txt)\" = 'Hello, world!' ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n")
	script := write("model.yaml", "turns:\n  - calls: [{bash: \"printf 'Hello, world!' >hello.txt\"}]\n  - calls: [{submit: done}]\n")
	write("my-agent.sh", "#!/bin/sh\nexec python3 - \"$1\" \"$KEY\" <<'END'\nimport json, sys, urllib.request as u\nask = lambda m: json.load(u.urlopen(u.Request(sys.argv[1], json.dumps({'model': 'm', 'messages': m, 'tools': [{'type': 'function', 'function': {'name': 'bash', 'parameters': {'type': 'object', 'properties': {'command': {'type': 'string'}}}}}]}).encode(), {'Authorization': 'Bearer ' + sys.argv[2], 'Content-Type': 'application/json'})))\ncall = ask([{'role': 'user', 'content': 'hello'}])['choices'][0]['message']['tool_calls'][0]['function']\nimport subprocess\nsubprocess.run(['sh', '-c', json.loads(call['arguments'])['command']], check=True)\nEND\n")
	agent := write("my.toml", "name = \"my\"\nversion = \"1\"\ndialects = [\"chat\"]\n[install]\nruntime = \"none\"\ncopy = [\"my-agent.sh\"]\nprograms = { mine = \"my-agent.sh\" }\n"+
		"[run]\ncommand = [\"mine\", \"{{base}}/v1/chat/completions\"]\nenv = { KEY = \"{{key}}\" }\n")

	from := filepath.Join(dir, "first")
	if agents := os.Getenv("ASSAY_AGENTS"); agents != "" {
		from, agent = agents, "codex"
	} else {
		assay(t, nil, "--store", from, "agent", "install", "--progress", "quiet", agent)
	}
	archive := filepath.Join(dir, "agent.tar")
	assay(t, nil, "--store", from, "agent", "export", agent, "-o", archive)

	alone := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		alone.Cloneflags |= syscall.CLONE_NEWUSER
		alone.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		alone.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	routes := exec.Command("cat", "/proc/self/net/route", "/proc/self/net/dev")
	routes.SysProcAttr = alone
	if out, err := routes.CombinedOutput(); err != nil || strings.Contains(string(out), "eth") || !strings.Contains(string(out), "lo:") {
		t.Fatalf("no network namespace with loopback alone: %v\n%s", err, out)
	}
	store := filepath.Join(dir, "second")
	assay(t, alone, "--store", store, "agent", "install", "--offline", "--from", archive)
	out := assay(t, alone, "--store", store, "run", "--offline", "-q", "-p", filepath.Join(dir, "task"), "-a", agent, "-m", "scripted:"+script,
		"-o", dir, "--job-name", "job")
	if !strings.Contains(out, "egress: none") || !strings.Contains(out, "1 pass") {
		t.Errorf("the job says\n%s", out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "job", ".report", "index.html"))
	if err != nil || !bytes.Contains(page, []byte("task")) {
		t.Errorf("report: %v", err)
	}
}

// assay runs the program, in namespaces of its own if asked to.
func assay(t *testing.T, in *syscall.SysProcAttr, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "assay", args...)
	cmd.SysProcAttr = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("assay %q: %v\n%s", args, err, out)
	}
	return string(out)
}
