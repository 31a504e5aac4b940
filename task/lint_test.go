package task

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// found gives the findings of a task as "file:line:column rule", without the
// advice that every small task draws.
func found(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, f := range Lint(dir) {
		switch f.Rule {
		case "root-agent", "shared-verifier", "unpinned-image", "no-solution":
			continue
		}
		rel, err := filepath.Rel(dir, f.File)
		if err != nil {
			t.Fatal(err)
		}
		if f.Line > 0 {
			rel += fmt.Sprintf(":%d:%d", f.Line, f.Column)
		}
		if f.Message == "" || (f.Remedy == "" && f.Severity != Error) {
			t.Errorf("%v has no message or no remedy", f)
		}
		out = append(out, rel+" "+f.Rule)
	}
	return out
}

func TestLintPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing": {},
		"unknown keys in every table": {
			map[string]string{"task.toml": `colour = 1
[task]
name = "a/b"
licence = "MIT"
authors = [{ name = "x", mail = "y" }]
[agent]
timeout = 1
[verifier]
tiemout_sec = 1
[verifier.env]
free = "x"
[verifier.environment]
memry_mb = 1
docker_image = "x"
[[verifier.collect]]
command = "x"
when = "now"
[environment]
cpu = 1
[environment.healthcheck]
command = "x"
tries = 1
[[environment.mcp_servers]]
name = "x"
url = "x"
port = 1
[solution]
script = "x"
[metadata]
free = 1
[metadata.assay]
free = 1
`},
			[]string{
				"task.toml:1:1 unknown-config-field", "task.toml:4:1 unknown-config-field", "task.toml:5:26 unknown-config-field",
				"task.toml:7:1 unknown-config-field", "task.toml:9:1 unknown-config-field", "task.toml:13:1 unknown-config-field",
				"task.toml:17:1 unknown-config-field", "task.toml:19:1 unknown-config-field", "task.toml:22:1 unknown-config-field",
				"task.toml:26:1 unknown-config-field", "task.toml:28:1 unknown-config-field",
			},
		},
		"unknown keys in steps": {
			map[string]string{"task.toml": "[[steps]]\nname = \"a\"\n[[steps]]\nname = \"b\"\n[steps.agent]\nlimit = 3\n  [steps.verifier.environment]\n  x.y = 1\n  docker_image = \"i\"\n",
				"!instruction.md": "", "steps/a/instruction.md": "x", "steps/b/instruction.md": "x"},
			[]string{"task.toml:6:1 unknown-config-field", "task.toml:8:3 unknown-config-field"},
		},
		"unknown inline":   {map[string]string{"task.toml": `agent = { timeout_sec = 1, "odd key" = 2 }`}, []string{"task.toml:1:28 unknown-config-field"}},
		"syntax":           {map[string]string{"task.toml": "a = 1\nb = [1,\n  2"}, []string{"task.toml:3:3 invalid-task-config"}},
		"faults, each one": {map[string]string{"task.toml": "[agent]\ntimeout_sec = \"x\"\nuser = []\n[environment]\ncpus = \"many\"\n"}, []string{"task.toml:2:1 invalid-task-config", "task.toml:3:1 invalid-task-config", "task.toml:5:1 invalid-task-config"}},
		"bare memory":      {map[string]string{"task.toml": "[environment]\nmemory = 2048\nstorage = 10.5\n"}, []string{"task.toml:2:1 memory-number-dropped", "task.toml:3:1 memory-number-dropped"}},
		"legacy":           {map[string]string{"task.toml": "version = \"1\"\n[environment]\nmemory = \"2G\"\nallow_internet = true\n"}, []string{"task.toml:1:1 legacy-field", "task.toml:3:1 legacy-field", "task.toml:4:1 legacy-field"}},
		"disarmed":         {map[string]string{"task.toml": "[environment]\nallowed_hosts = []\nallow_internet = false\n"}, []string{"task.toml:3:1 allow-internet-disarmed"}},
		"disarmed by mode": {map[string]string{"task.toml": "[environment]\nnetwork_mode = \"public\"\nallow_internet = false\n"}, []string{"task.toml:3:1 allow-internet-disarmed"}},
		"armed":            {map[string]string{"task.toml": "[environment]\nnetwork_mode = \"no-network\"\nallow_internet = false\n"}, []string{"task.toml:3:1 legacy-field"}},
		"lax types":        {map[string]string{"task.toml": "[agent]\ntimeout_sec = \"60\"\n[environment]\nmemory_mb = 2048.0\n"}, []string{"task.toml:2:1 lax-type", "task.toml:4:1 lax-type"}},
		"step limit": {
			map[string]string{"task.toml": "[verifier]\ntimeout_sec = 30\n[[steps]]\nname = \"a\"\n[[steps]]\nname = \"b\"\n[steps.verifier]\ntimeout_sec = 5\n", "!instruction.md": "", "steps/a/instruction.md": "x", "steps/b/instruction.md": "x"},
			[]string{"task.toml:3:3 step-verifier-timeout"},
		},
		"steps on disk": {
			map[string]string{"task.toml": "[[steps]]\nname = \"a\"\n", "steps/a/instruction.md": "# canary\n\n", "steps/old/instruction.md": "x"},
			[]string{"instruction.md unused-instruction", "steps/a/instruction.md:1:1 instruction-empty", "steps/old step-directory-unused"},
		},
		"strategy":   {map[string]string{"task.toml": "multi_step_reward_strategy = \"mean\"\n"}, []string{"task.toml:1:1 strategy-without-steps"}},
		"live":       {map[string]string{"task.toml": "[verifier]\nenvironment_mode = \"shared\"\n"}, []string{"task.toml:1:2 live-verifier"}},
		"online":     {map[string]string{"task.toml": "[verifier]\nenvironment_mode = \"separate\"\n"}, []string{"task.toml:1:2 verifier-online"}},
		"not online": {map[string]string{"task.toml": "[verifier]\nenvironment_mode = \"separate\"\nnetwork_mode = \"no-network\"\n"}, nil},
		"artifacts": {
			map[string]string{"task.toml": "artifacts = [\n  \"/logs/agent/x\",\n  \"/a\",\n  \"/a/b\",\n  { source = \"/c\", destination = \"a\" },\n  \"/logs/artifacts\",\n  { source = \"/d\", service = \"db\" },\n]\n"},
			[]string{"task.toml:2:3 artifact-log-overlap", "task.toml:5:3 overlapping-artifacts", "task.toml:7:20 sidecar-without-compose"},
		},
		"hooks":    {map[string]string{"task.toml": "[[verifier.collect]]\ncommand = \"x\"\nservice = \"db\"\n"}, []string{"task.toml:3:1 sidecar-without-compose"}},
		"env":      {map[string]string{"task.toml": "[environment.env]\nA = \"x${B}\"\nC = \"${D}\"\nE = \"${F:-g}\"\n"}, []string{"task.toml:2:1 env-not-replaced", "task.toml:3:1 env-host-variable"}},
		"timeouts": {map[string]string{"task.toml": "[agent]\ntimeout_sec = 0\n[verifier]\ntimeout_sec = inf\n"}, []string{"task.toml:2:1 odd-timeout", "task.toml:4:1 odd-timeout"}},
		"scripts": {
			map[string]string{"tests/test.sh": "echo reward\n", "solution/solve.sh": "#!/bin/sh\necho a\r\n"},
			[]string{"solution/solve.sh:2:7 script-crlf", "tests/test.sh:1:1 script-no-shebang"},
		},
		"byte order mark": {map[string]string{"tests/test.sh": "\ufeff#!/bin/sh\necho reward\n"}, []string{"tests/test.sh:1:1 script-byte-order-mark"}},
		"no reward":       {map[string]string{"tests/test.sh": "#!/bin/sh\ntrue\n"}, []string{"tests/test.sh reward-not-written"}},
		"verifier installs": {
			map[string]string{"tests/test.sh": "#!/bin/bash\n# pip install x\necho 'pip install y' # reward\napt-get update && apt-get install -y curl\ncurl -LsSf https://astral.sh/uv/install.sh | sh\nif uvx \\\n  --with pytest==8.4.1 --with requests \\\n  pytest /tests/test_outputs.py; then echo 1; fi\n  A=1 pip install 'numpy>=2' pandas==2.0 -r reqs.txt ./local.whl\ncat <<END\npip install z\nEND\ngit clone https://github.com/x/y\ncurl -s http://127.0.0.1:80/\ncurl http://localhost/\npip install --no-index q==1\n"},
			[]string{
				"tests/test.sh:4:19 verifier-runtime-install", "tests/test.sh:5:1 verifier-network-download", "tests/test.sh:6:4 unpinned-python-dependency", "tests/test.sh:6:4 verifier-runtime-install",
				"tests/test.sh:9:3 unpinned-python-dependency", "tests/test.sh:9:3 verifier-runtime-install", "tests/test.sh:13:1 verifier-network-download",
			},
		},
		"leaks": {
			map[string]string{"environment/Dockerfile": "FROM a@sha256:x AS build\n# COPY tests /t\nCOPY app /app\nCOPY --chown=1 \\\n  tests/ /tests/\nADD [\"solution/solve.sh\", \"/s\"]\nFROM build\nCOPY --from=build tests /t\nRUN <<EOF\nCOPY tests /t\nEOF\nRUN pip install requests\n  COPY tests/data /data\n"},
			[]string{"environment/Dockerfile:4:1 agent-image-test-leak", "environment/Dockerfile:6:1 agent-image-test-leak", "environment/Dockerfile:12:1 unpinned-python-dependency"},
		},
		"verifier image may hold tests": {map[string]string{"task.toml": "[verifier]\nenvironment_mode = \"separate\"\nnetwork_mode = \"no-network\"\n", "tests/Dockerfile": "FROM x@sha256:y\nCOPY tests/test.sh /tests/\n"}, nil},
		"no image":                      {map[string]string{"!environment/Dockerfile": "", "environment/data": "x"}, []string{"environment no-image"}},
		"compose": {
			map[string]string{"environment/docker-compose.yaml": "services:\n  main:\n    privileged: true\n    cap_add: [SYS_ADMIN]\n    volumes:\n      - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}\n      - /etc:/etc\n      - ../x:/x\n      - data:/data\n      - type: bind\n        source: /y\n        target: /y\n"},
			[]string{
				"environment/docker-compose.yaml:3:5 compose-privileged", "environment/docker-compose.yaml:4:5 compose-additional-capabilities", "environment/docker-compose.yaml:6:9 compose-log-mount",
				"environment/docker-compose.yaml:7:9 compose-external-bind-mount", "environment/docker-compose.yaml:8:9 compose-external-bind-mount", "environment/docker-compose.yaml:10:9 compose-external-bind-mount",
			},
		},
		"harborignore in a wrong place": {map[string]string{"environment/.harborignore": "*\n", ".harborignore": ""}, []string{".harborignore harborignore-out-of-place", "environment/.harborignore harborignore-out-of-place"}},
		"left out on request":           {map[string]string{"task.toml": "colour = 1\n[metadata.harbor.lint]\nignore = [\"unknown-config-field\"]\n"}, nil},
		"digest":                        {map[string]string{".gitignore": "!\n"}, []string{". digest"}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, found(t, files(t, minimal(c.files)))); d != "" {
				t.Errorf("(-want +found):\n%s", d)
			}
		})
	}
}

// Every finding's rule is registered, and every registered rule is reached by
// some test or corpus task.
func TestLintRules(t *testing.T) {
	rules := Rules()
	if !slices.IsSortedFunc(rules, func(a, b Rule) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("rules are not in order")
	}
	for _, dir := range corpus(t) {
		for _, f := range Lint(dir) {
			if !slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == f.Rule && r.Severity == f.Severity }) {
				t.Errorf("%v: its rule is not registered", f)
			}
		}
	}
	text, err := os.ReadFile("lint_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if !strings.Contains(string(text), r.Name) {
			t.Errorf("no test in this file speaks of rule %s", r.Name)
		}
	}
}

func TestLintSet(t *testing.T) {
	dir := t.TempDir()
	if err := New(filepath.Join(dir, "good"), Scaffold{}); err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(filepath.Join(dir, "bad"), 0o755)
	os.WriteFile(filepath.Join(dir, "bad/task.toml"), []byte("[agent\n"), 0o644)
	os.MkdirAll(filepath.Join(dir, "notes"), 0o755)
	var errs []string
	for _, f := range Lint(dir) {
		if f.Severity != Note {
			errs = append(errs, strings.SplitN(f.String(), "\n", 2)[0])
		}
	}
	want := []string{
		dir + "/bad: warning: is skipped: task.toml:1:7: expected ']' to close table name [skipped-directory]; repair it, or move it out of the set",
		dir + "/bad/task.toml:1:7: error: expected ']' to close table name [invalid-task-config]",
		dir + "/notes: warning: is skipped: no task.toml [skipped-directory]; repair it, or move it out of the set",
	}
	if d := cmp.Diff(want, errs); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{filepath.Join(dir, "gone"), filepath.Join(dir, "notes")} {
		if f := Lint(bad); len(f) != 1 || f[0].Rule != "invalid-task-files" || f[0].Severity != Error {
			t.Errorf("%s: %v", bad, f)
		}
	}
	f := Lint(filepath.Join(dir, "bad"))
	if len(f) != 1 || !strings.Contains(f[0].Excerpt, "1| [agent\n |       ~") {
		t.Errorf("no excerpt of the source: %+v", f)
	}
}

func TestShellCommands(t *testing.T) {
	for text, want := range map[string][]string{
		"a b; c && d || e | f & g":        {"1:1 a b", "1:6 c", "1:11 d", "1:16 e >f", "1:20 f", "1:24 g"},
		"  if ! a; then b; fi":            {"1:8 a", "1:16 b"},
		"a \\\n  b\nc":                    {"1:1 a b", "3:1 c"},
		"a 'b ; c' \"d $(e; f)\" g\\ h":   {"1:1 a b ; c d $(e; f) g h"},
		"a # b ; c\nd#e":                  {"1:1 a", "2:1 d#e"},
		"a <<'X' >y\nb\nX\nc":             {"1:1 a >y", "4:1 c"},
		"a << X\nb\nX\nc":                 {"1:1 a X", "4:1 c"},
		"(a; b)\n{ c; }\nd {e,f} ${g}":    {"1:2 a", "1:5 b", "2:3 c", "3:1 d {e,f} ${g}"},
		"a 2>&1 | b\nX=1 Y=2 c":           {"1:1 a 2>&1 >b", "1:10 b", "2:1 X=1 Y=2 c"},
		"a 'unclosed\nb":                  {"1:1 a unclosed\nb"},
		"f() { a; }":                      {"1:1 f", "1:7 a"},
		"while read x; do sudo a; done b": {"1:7 read x", "1:23 a", "1:31 b"},
	} {
		var got []string
		for _, c := range commands(text) {
			s := fmt.Sprintf("%d:%d %s", c.Line, c.Column, strings.Join(c.words, " "))
			if c.piped != "" {
				s += " >" + c.piped
			}
			got = append(got, s)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestResolveEnv(t *testing.T) {
	host := map[string]string{"SET": "value", "EMPTY": ""}
	lookup := func(k string) (string, bool) { v, ok := host[k]; return v, ok }
	got, err := ResolveEnv(map[string]string{"B": "${SET}", "A": "plain", "C": "${NONE:-x:y}", "D": "${EMPTY:-x}", "E": "x${SET}", "F": "${NONE:-}"}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"A=plain", "B=value", "C=x:y", "D=", "E=x${SET}", "F="}, got); d != "" {
		t.Error(d)
	}
	for _, env := range []map[string]string{{"A": "${NONE}"}, {"": "x"}, {"A=B": "x"}, {"A": "x\x00"}, {"A\x00": "x"}} {
		if _, err := ResolveEnv(env, lookup); err == nil {
			t.Errorf("%v resolves", env)
		}
	}
	if d := cmp.Diff([]HostVariable{{"X", true}, {"Y", false}}, HostVariables(map[string]string{"A": "${X}", "B": "${Y:-1}", "C": "a${Z}"})); d != "" {
		t.Error(d)
	}
}
