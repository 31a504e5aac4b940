package trajectory

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShellFiles(t *testing.T) {
	for command, want := range map[string][2]string{
		"cat a.py b/c.txt":                       {"a.py b/c.txt", ""},
		"head -n 20 main.go | grep -n foo":       {"main.go", ""},
		"grep -rn foo src/a.c src/b.c":           {"src/a.c src/b.c", ""},
		"sed -n '1,20p' x.go":                    {"x.go", ""},
		"sed -i 's/a/b/' x.go && go test ./...":  {"", "x.go"},
		"cat > new.txt <<'EOF'\ncat no.txt\nEOF": {"", "new.txt"},
		"echo hi >> log 2>&1":                    {"", "log"},
		"echo hi 2>/dev/null >out.txt":           {"", "out.txt"},
		"cp 'a file' b":                          {"a file", "b"},
		"mv old new":                             {"old", "new old"},
		"python3 run.py --x 1":                   {"run.py", ""},
		"python3 -c 'open(\"x\")'":               {"", ""},
		"cat $FILE *.py":                         {"", ""},
		"FOO=1 timeout cat x":                    {"x", ""},
		"apply_patch <<'E'\n*** Update File: a/b.py\n*** Add File: c\nE": {"", "a/b.py c"},
		"cat '":  {"", ""},
		"rm -rf": {"", ""},
	} {
		seen, changed := shellFiles(command)
		got := [2]string{strings.Join(fill(seen), " "), strings.Join(fill(changed), " ")}
		if got != want {
			t.Errorf("%q: seen and changed %q, want %q", command, got, want)
		}
	}
}

func fill(files []string) (all []string) {
	for _, f := range files {
		if f != "" {
			all = append(all, f)
		}
	}
	return all
}

func TestTestRuns(t *testing.T) {
	for command, want := range map[string]bool{
		"pytest -q": true, "cd x && python -m pytest tests": true, "go test ./...": true, "go build ./...": false,
		"npm test": true, "npm run test:unit": true, "npm install": false, "cat pytest.ini": false, "make check": true, "make": false,
		"bash tests/run_tests.sh": true, "./test.sh": true, "echo testing": false, "cargo test --all": true, "mvn -q test": true, "python3 manage.py test": true,
	} {
		if got := testRun.MatchString(command); got != want {
			t.Errorf("%q: %v", command, got)
		}
	}
}

func toolStep(tool, args, output string) Step {
	c := Text(output)
	return Step{Source: Agents, ToolCalls: []ToolCall{{ID: "1", Function: tool, Arguments: json.RawMessage(args)}},
		Observation: &Observation{Results: []ObservationResult{{CallID: "1", Content: &c}}}}
}

func TestBehave(t *testing.T) {
	d := &Trajectory{Steps: []Step{
		{Source: User, Message: Text("brief")},
		toolStep("bash", `{"command":"cat a.py"}`, "x"), toolStep("exec_command", `{"cmd":["bash","-lc","pytest"]}`, "failed"),
		toolStep("exec_command", `{"cmd":["bash","-lc","pytest  "]}`, "failed"), toolStep("exec_command", `{"cmd":["bash","-lc","pytest"]}`, "failed"),
		toolStep("exec_command", `{"cmd":["bash","-lc","pytest"]}`, "passed"), toolStep("Edit", `{"file_path":"./a.py"}`, ""),
		toolStep("str_replace_editor", `{"command":"view","path":"b.py"}`, "y"), toolStep("mcp__docs__search", `{"q":"x"}`, ""),
		toolStep("run_commands", `{"commands":["cat c","cat d"]}`, ""), toolStep("unheard", `[`, ""),
	}}
	got := d.Behave()
	want := Behaviour{Turns: 10, Messages: 21, Actions: map[ActionKind]int{ActionShell: 6, ActionWrite: 1, ActionRead: 1, ActionSearch: 1, ActionOther: 1},
		Seen: []string{"a.py", "b.py", "c", "d"}, Changed: []string{"a.py"}, SeenN: 4, ChangedN: 1, TestRuns: 4, Repeated: 2, Looping: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzShellFiles(f *testing.F) {
	f.Add("cat a > b && sed -i s/x/y/ c <<E\nx\nE")
	f.Fuzz(func(t *testing.T, s string) { shellFiles(s) })
}
