package scripted

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// offer is what a request lets the model do: tools, or a form of text.
type offer struct {
	a     *ask
	fence string // of commands in text, when no tool is offered
	files bool   // whole files as text listings
	cwd   string // as the prompt tells it; may be empty
}

// submitWords is what an agent without a tool for it waits for in the output
// of a command (mini-swe-agent).
const submitWords = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

func (s *Server) offer(a *ask) offer {
	o := offer{a: a}
	all := a.system + "\n" + a.said()
	if m := s.cwd.FindStringSubmatch(all); m != nil {
		o.cwd = strings.TrimRight(m[1], ".,;:")
	}
	if len(a.tools) > 0 {
		return o
	}
	if m := s.fence.FindStringSubmatch(all); m != nil {
		o.fence = m[1]
	}
	o.files = strings.Contains(all, "*file listing*") // aider's whole-file form
	return o
}

func fencePattern() *regexp.Regexp { return regexp.MustCompile("```(\\w*bash\\w*|sh|shell)\\b") }

func cwdPattern() *regexp.Regexp {
	return regexp.MustCompile("(?i)(?:working directory|working in the directory|cwd)[^/\n]{0,24}(/[^\\s<>\"'`)]+)")
}

// do maps intentions onto the offer: calls, and what has to be said as text.
func (o offer) do(all []Intention) (calls []call, text string, err error) {
	var said []string
	for _, in := range all {
		c, s, err := o.one(in)
		if err != nil {
			return nil, "", err
		}
		if c != nil {
			calls = append(calls, *c)
		}
		if s != "" {
			said = append(said, s)
		}
	}
	return calls, strings.Join(said, "\n\n"), nil
}

func (o offer) one(in Intention) (c *call, text string, err error) {
	switch {
	case in.Tool != "":
		return o.literal(in)
	case in.Submit != nil:
		return o.submit(*in.Submit)
	case in.Bash != nil:
		return o.bash(*in.Bash)
	case in.Read != nil:
		if c := o.call(readers(), map[string]any{"path": o.absolute(*in.Read)}); c != nil {
			return c, "", nil
		}
		return o.bash("cat " + quote(*in.Read))
	case in.Edit != nil:
		e := in.Edit
		if c := o.call(editors(), map[string]any{"path": o.absolute(e.Path), "old": e.Old, "new": e.New}); c != nil {
			return c, "", nil
		}
		return nil, "", fmt.Errorf("edit: no tool that edits is offered, only %v", o.names())
	default:
		return o.write(*in.Write)
	}
}

func (o offer) literal(in Intention) (*call, string, error) {
	args := "{}"
	if in.Arguments != nil {
		args = *in.Arguments
	} else if in.Args != nil {
		args = string(encode(in.Args))
	}
	c := &call{name: in.Tool, args: args}
	for _, t := range o.a.tools {
		if t.name == in.Tool {
			c.namespace, c.custom = t.namespace, t.custom
			break
		}
	}
	return c, "", nil
}

func (o offer) submit(words string) (*call, string, error) {
	if c := o.call(submitters(), map[string]any{"result": words}); c != nil {
		return c, "", nil
	}
	if strings.Contains(o.a.system+o.a.said(), submitWords) {
		return o.bash("echo " + submitWords)
	}
	return nil, words, nil
}

func (o offer) bash(command string) (*call, string, error) {
	if len(o.a.tools) == 0 {
		fence := o.fence
		if fence == "" {
			fence = "bash"
		}
		return nil, "```" + fence + "\n" + strings.TrimRight(command, "\n") + "\n```", nil
	}
	if c := o.call(shells(), map[string]any{"command": command}); c != nil {
		return c, "", nil
	}
	return nil, "", fmt.Errorf("bash: no tool that runs commands is offered, only %v", o.names())
}

func (o offer) write(w Write) (*call, string, error) {
	if o.files {
		return nil, w.Path + "\n```\n" + strings.TrimRight(w.Content, "\n") + "\n```", nil
	}
	if c := o.call(writers(), map[string]any{"path": o.absolute(w.Path), "content": w.Content}); c != nil {
		return c, "", nil
	}
	return o.bash("printf %s " + quote(w.Content) + " > " + quote(w.Path))
}

func (o offer) absolute(p string) string {
	if path.IsAbs(p) || o.cwd == "" {
		return p
	}
	return path.Join(o.cwd, p)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (o offer) names() (all []string) {
	for _, t := range o.a.tools {
		all = append(all, t.name)
	}
	return all
}

// spelling is how agents call a tool and its arguments, the likeliest first.
// Names are compared without case, "_" and "-".
type spelling struct {
	tools []string
	args  map[string][]string // of each value that must find a place
}

func shells() spelling {
	return spelling{
		[]string{"bash", "shell", "exec_command", "run_shell_command", "shell_command", "run_commands", "execute_command",
			"run_command", "run_terminal_command", "run_in_terminal", "local_shell", "terminal", "execute_bash", "exec"},
		map[string][]string{"command": {"command", "cmd", "commands", "script", "input", "code"}},
	}
}

func writers() spelling {
	return spelling{
		[]string{"write", "write_file", "create_file", "write_to_file", "create"},
		map[string][]string{"path": paths(), "content": {"content", "file_text", "contents", "text", "new_content"}},
	}
}

func readers() spelling {
	return spelling{
		[]string{"read", "read_file", "view", "view_file", "cat", "open"},
		map[string][]string{"path": paths()},
	}
}

func editors() spelling {
	return spelling{
		[]string{"edit", "edit_file", "str_replace", "replace", "replace_in_file", "str_replace_editor"},
		map[string][]string{
			"path": paths(),
			"old":  {"old", "old_string", "old_str", "oldString", "old_text", "oldText"},
			"new":  {"new", "new_string", "new_str", "newString", "new_text", "newText"},
		},
	}
}

func submitters() spelling {
	return spelling{
		[]string{"submit", "attempt_completion", "submit_and_exit", "finish", "task_complete", "complete_task"},
		map[string][]string{"result": {"result", "summary", "message", "answer", "output", "text", ""}},
	}
}

func paths() []string {
	return []string{"path", "file_path", "filePath", "absolute_path", "filename", "target_file", "file", "relative_path"}
}

// call finds an offered tool of that spelling and fills in its arguments; nil
// when there is none.
func (o offer) call(sp spelling, values map[string]any) *call {
	for _, name := range sp.tools {
		for _, t := range o.a.tools {
			if plain(t.name) != plain(name) {
				continue
			}
			if args, ok := fill(t, sp, values); ok {
				return &call{name: t.name, namespace: t.namespace, custom: t.custom, args: args}
			}
		}
	}
	return nil
}

func plain(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s)) }

// fill writes a tool's arguments: values where their spelling says, and
// something harmless for whatever else is required.
func fill(t tool, sp spelling, values map[string]any) (string, bool) {
	if t.custom {
		for _, v := range values {
			return fmt.Sprint(v), len(values) == 1
		}
	}
	args := map[string]any{}
	for key, v := range values {
		at, ok := property(t.schema, sp.args[key])
		if !ok {
			return "", false
		}
		if at != "" {
			args[at] = as(at, t.schema.Properties[at], v)
		}
	}
	for _, r := range t.schema.Required {
		if _, ok := args[r]; !ok {
			args[r] = harmless(t.schema.Properties[r])
		}
	}
	return string(encode(args)), true
}

// property finds the one of names that a schema has; a tool without a schema
// takes the first. "" among the names means: it may be left out.
func property(s schema, names []string) (string, bool) {
	if len(s.Properties) == 0 && !slices.Contains(names, "") {
		return names[0], true
	}
	for _, n := range names {
		if _, ok := s.Properties[n]; ok || n == "" {
			return n, true
		}
	}
	return "", false
}

// as gives a text the type that a schema wants: lists are of whole commands
// (cline's commands), but a list called command is an argument vector.
func as(name string, s schema, v any) any {
	text, ok := v.(string)
	if !ok || !s.is("array") || s.is("string") {
		return v
	}
	if name == "command" || name == "cmd" {
		return []string{"bash", "-lc", text}
	}
	if s.Items != nil && s.Items.is("object") {
		return []any{map[string]any{"command": text}}
	}
	return []string{text}
}

func harmless(s schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.is("boolean"):
		return false
	case s.is("integer"), s.is("number"):
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 0
	case s.is("array"):
		return []any{}
	case s.is("object"):
		return map[string]any{}
	default:
		return "as the task asks"
	}
}
