package trajectory

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ActionKind says what a tool call does, as far as its name and arguments tell.
type ActionKind string

const (
	ActionShell  ActionKind = "shell"
	ActionRead   ActionKind = "read"
	ActionWrite  ActionKind = "write" // creates or edits
	ActionSearch ActionKind = "search"
	ActionList   ActionKind = "list"
	ActionPlan   ActionKind = "plan"
	ActionWeb    ActionKind = "web"
	ActionAgent  ActionKind = "agent" // hands work to a sub-agent
	ActionSubmit ActionKind = "submit"
	ActionOther  ActionKind = "other"
)

// Action is one tool call as it is counted and shown.
type Action struct {
	Step    int64
	Tool    string
	Kind    ActionKind
	Text    string   // the command, or the arguments in short
	Seen    []string // files that it reads, as it names them
	Changed []string // files that it writes
	Test    bool     // it runs tests
	Output  string   // all results of the call
}

// Actions are the tool calls of the document's own steps, copied ones left out.
// What a call does is read from the tool's name and, for a shell, from the
// words of its command: a file counts where its name is written out. Names in
// variables, globs and what programs open by themselves are not seen.
func (t *Trajectory) Actions() (all []Action) {
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.copied() {
			continue
		}
		for j := range s.ToolCalls {
			a := action(&s.ToolCalls[j])
			a.Step, a.Output = s.ID, s.output(s.ToolCalls, j)
			all = append(all, a)
		}
	}
	return all
}

// output is what came back for a call; of several calls with one id the
// results are taken in their order.
func (s *Step) output(calls []ToolCall, at int) string {
	if s.Observation == nil {
		return ""
	}
	id, same, nth := calls[at].ID, 0, 0
	for j := range calls {
		if calls[j].ID == id {
			if j == at {
				nth = same
			}
			same++
		}
	}
	var texts []string
	for _, r := range s.Observation.Results {
		if r.CallID != id && (r.CallID != "" || len(calls) > 1) || r.Content == nil {
			continue
		}
		if same == 1 || nth == 0 {
			texts = append(texts, r.Content.String())
		}
		if same > 1 {
			nth--
		}
	}
	return strings.Join(texts, "\n")
}

func action(c *ToolCall) Action {
	var args map[string]any
	_ = json.Unmarshal(c.Arguments, &args) // no object: no arguments
	a := Action{Tool: c.Function, Kind: toolKind(c.Function)}
	file := firstString(args, "path", "file_path", "filepath", "filePath", "absolute_path", "file", "filename", "target_file", "notebook_path")
	command := words(args, "command", "cmd", "commands", "script", "input")
	if strings.HasPrefix(c.Function, "str_replace_") { // one tool for all, told apart by its command
		a.Kind = ActionWrite
		if command == "view" {
			a.Kind = ActionRead
		}
	}
	switch {
	case a.Kind == ActionShell:
		a.Text = command
		a.Seen, a.Changed = shellFiles(command)
		a.Test = testRun.MatchString(command)
	case strings.Contains(command, "*** "): // a patch
		a.Kind = ActionWrite
		a.Changed = patchFiles(command)
	case a.Kind == ActionRead && file != "":
		a.Seen = []string{path.Clean(file)}
	case a.Kind == ActionWrite && file != "":
		a.Changed = []string{path.Clean(file)}
	}
	if a.Kind == ActionWrite && len(a.Changed) == 0 {
		a.Changed = patchFiles(firstString(args, "patch", "patchText", "diff"))
	}
	if a.Text == "" {
		a.Text = string(c.Arguments)
	}
	return a
}

func toolKind(name string) ActionKind {
	n := strings.ToLower(name)
	n = n[strings.LastIndexAny(n, ".:/")+1:]
	if i := strings.LastIndex(n, "__"); i >= 0 { // mcp__server__tool
		n = n[i+2:]
	}
	for _, k := range []struct {
		kind  ActionKind
		names string
	}{
		{ActionShell, "bash shell sh exec exec_command run_shell_command execute_command run_command run_commands local_shell local_shell_call terminal execute_bash bash_command run_terminal_cmd write_stdin"},
		{ActionRead, "read read_file read_files read_many_files view view_file open cat open_file"},
		{ActionWrite, "write write_file create create_file edit edit_file multiedit multi_edit apply_patch replace str_replace replace_in_file write_to_file patch notebookedit insert"},
		{ActionSearch, "grep glob search search_files search_file_content find ripgrep rg codebase_search grep_search file_search"},
		{ActionList, "ls list list_directory list_dir list_files"},
		{ActionPlan, "todowrite todo_write todo plan update_plan todoread write_todos"},
		{ActionWeb, "web_search websearch web_fetch webfetch fetch google_web_search"},
		{ActionAgent, "task agent dispatch_agent spawn_agent new_task"},
		{ActionSubmit, "submit finish attempt_completion complete_task done"},
	} {
		if slices.Contains(strings.Fields(k.names), n) {
			return k.kind
		}
	}
	if strings.HasSuffix(n, "_bash_command") {
		return ActionShell
	}
	return ActionOther
}

func firstString(args map[string]any, keys ...string) string {
	for _, k := range keys {
		if s, ok := args[k].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// words is a command given as a string or a list of strings; of a list that
// begins with a shell and -c, what the shell is to run.
func words(args map[string]any, keys ...string) string {
	for _, k := range keys {
		switch v := args[k].(type) {
		case string:
			return v
		case []any:
			var all []string
			for _, x := range v {
				switch x := x.(type) {
				case string:
					all = append(all, x)
				case map[string]any:
					all = append(all, firstString(x, "command", "cmd"))
				}
			}
			if len(all) == 3 && strings.HasSuffix(all[0], "sh") && strings.HasPrefix(all[1], "-") {
				return all[2]
			}
			if k == "commands" {
				return strings.Join(all, "\n")
			}
			return strings.Join(all, " ")
		}
	}
	return ""
}

// testRun finds commands that run tests, by the names of the runners.
var testRun = regexp.MustCompile(`(?m)(?:^|[\s;&|(/])(?:pytest|py\.test|tox|nox|jest|vitest|mocha|ctest|rspec|phpunit|bats|nosetests|` +
	`python[0-9.]*\s+(?:-\S+\s+)*-m\s+(?:pytest|unittest|doctest)|(?:\S*/)?manage\.py\s+test|go\s+(?:-\S+\s+)*test|cargo\s+(?:test|nextest)|` +
	`(?:npm|yarn|pnpm|bun)\s+(?:run\s+)?test\S*|npx\s+(?:jest|vitest|mocha)|mvn\s[^;&|\n]*\b(?:test|verify)|gradlew?\s[^;&|\n]*\btest|` +
	`make\s+(?:-\S+\s+)*(?:test|check)\S*|dotnet\s+test|mix\s+test|swift\s+test|zig\s+(?:build\s+)?test|(?:ba)?sh\s+\S*(?:run_)?tests?\.sh|\./(?:run_)?tests?\.sh)(?:$|[\s;&|)])`)

var patchHeader = regexp.MustCompile(`(?m)^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?)([^\t\n]+)`)

func patchFiles(text string) (files []string) {
	for _, m := range patchHeader.FindAllStringSubmatch(text, 200) {
		if f := strings.TrimSpace(m[1]); f != "/dev/null" {
			files = append(files, path.Clean(f))
		}
	}
	return files
}
