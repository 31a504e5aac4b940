package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"assay/internal/agent"
	"assay/internal/model"
)

// tool is something that react can do.
type tool struct {
	Name, About string
	params      []param
	// head and body name the parameters that the text protocol takes from the
	// block's first line and from the block itself.
	head, body string
	schema     json.RawMessage // of a host's tool, instead of params
	run        func(ctx context.Context, r *run, a arguments) (observation, error)
}

// param is one argument of a tool.
type param struct {
	name, kind, about string // kind: "string", "integer"
	required          bool
}

// observation is what an action came to.
type observation struct {
	text string
	bad  bool // an error: the tool failed, or the command did
	done bool // the work is handed in
}

func failure(format string, a ...any) observation {
	return observation{text: fmt.Sprintf(format, a...), bad: true}
}

// ownTools is the table of react's tools. Files are handled by
// what filetools.go does, commands by shell.go.
func ownTools() []tool {
	path := param{"path", "string", "of the file, absolute or relative to the working directory", true}
	return []tool{
		{Name: "bash", About: "Run a command in the shell, which keeps its state.", head: "timeout", body: "command", run: bash,
			params: []param{{"command", "string", "one or more lines of shell", true}, {"timeout", "integer", "seconds that it may take", false}}},
		{Name: "read", About: "Read a text file, or some lines of it.", head: "path", run: readFile,
			params: []param{path, {"from", "integer", "first line, counted from 1", false}, {"lines", "integer", "how many; 400 unless said", false}}},
		{Name: "write", About: "Write a file, whole. Directories are made.", head: "path", body: "content", run: writeFile,
			params: []param{path, {"content", "string", "the whole new text", true}}},
		{Name: "edit", About: "Replace a piece of a file that occurs in it exactly once.", head: "path", body: "change", run: editFile,
			params: []param{path, {"old", "string", "the piece as it stands there, with its spaces and line ends; enough of it to be unique", true},
				{"new", "string", "what comes in its place", true}}},
		{Name: "search", About: "Find lines in files by an extended regular expression.", head: "path", body: "pattern", run: search,
			params: []param{{"pattern", "string", "as grep -E takes it", true}, {"path", "string", "file or directory; the working directory unless said", false}}},
		{Name: "list", About: "List a directory and what is below it.", head: "path", run: list,
			params: []param{{"path", "string", "the working directory unless said", false}, {"depth", "integer", "levels; 2 unless said", false}}},
		{Name: "plan", About: "Write down the plan, in place of the earlier one: the steps with [ ] or [x], and what must not be forgotten. It survives when older messages are dropped.",
			body: "plan", run: setPlan, params: []param{{"plan", "string", "the whole plan with its notes", true}}},
		{Name: "submit", About: "Hand the work in. Nothing can be changed afterwards.", body: "check", run: submit,
			params: []param{{"check", "string", "shell command that ends with status 0 only if the work is right", false}, {"summary", "string", "what was done", false}}},
	}
}

func toolNames() []string {
	var names []string
	for _, t := range ownTools() {
		names = append(names, t.Name)
	}
	return names
}

// tools are those of the strategy and then those of the host.
func (s *Strategy) tools(host []agent.Tool) ([]tool, error) {
	var all []tool
	for _, t := range ownTools() {
		if !slices.Contains(s.Tools, t.Name) || t.Name == "plan" && !s.Plan {
			continue
		}
		if t.Name == "submit" && !s.Repair {
			t.params, t.body = t.params[1:], "summary"
		}
		all = append(all, t)
	}
	for _, h := range host {
		if slices.ContainsFunc(all, func(t tool) bool { return t.Name == h.Name }) {
			return nil, fmt.Errorf("react has a tool %q of its own: the host's cannot be offered", h.Name)
		}
		all = append(all, tool{Name: h.Name, About: h.Description, schema: h.Schema, body: "arguments",
			run: func(ctx context.Context, _ *run, a arguments) (observation, error) {
				text, err := h.Call(ctx, a.raw)
				if ctx.Err() != nil {
					return observation{}, context.Cause(ctx)
				}
				if err != nil {
					return failure("%v", err), nil
				}
				return observation{text: text}, nil
			}})
	}
	return all, nil
}

// definition is the tool as a model's API wants it.
func (t tool) definition() model.Tool {
	d := model.Tool{Name: t.Name, Description: t.About, Schema: t.schema}
	if t.schema != nil {
		return d
	}
	type property struct {
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	schema := struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
		Closed     bool                `json:"additionalProperties"`
	}{Type: "object", Properties: map[string]property{}, Required: []string{}}
	for _, p := range t.params {
		schema.Properties[p.name] = property{p.kind, p.about}
		if p.required {
			schema.Required = append(schema.Required, p.name)
		}
	}
	raw, err := json.Marshal(schema)
	if err != nil { // only plain strings
		return d
	}
	d.Schema = raw
	return d
}

// Usage is the tool in the text protocol.
func (t tool) Usage() string {
	var b strings.Builder
	b.WriteString(t.About)
	head := ""
	for _, p := range t.params {
		switch {
		case p.name == t.body || t.body == "change" && (p.name == "old" || p.name == "new"):
		case p.name == t.head && p.required:
			head = " " + strings.ToUpper(p.name)
		default:
			b.WriteString(" You may add " + p.name + "=… (" + p.about + ") to the first line.")
		}
	}
	b.WriteString("\n```" + t.Name + head + "\n")
	switch {
	case t.schema != nil:
		b.WriteString("{…}  (a JSON object by this schema: " + string(t.schema) + ")\n")
	case t.body == "change":
		b.WriteString(editOld + "\nthe piece as it stands there\n" + editMiddle + "\nwhat comes in its place\n" + editNew + "\n")
	case t.param(t.body) != nil:
		b.WriteString(t.param(t.body).about + "\n")
	}
	b.WriteString("```\n")
	return b.String()
}

func (t tool) param(name string) *param {
	for i, p := range t.params {
		if p.name == name {
			return &t.params[i]
		}
	}
	return nil
}
