package builtin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/model"
)

func TestBlocks(t *testing.T) {
	got := blocks("Intro\n\n```py a.py\nx = 1\n```\n text\n~~~~\n```\nin\n```\n~~~~\n    ```\nnot one\n```bash\r\nls\r\n```\r\nthe `end` ```x``` \n````md\nopen\n```\n")
	want := []block{
		{"Intro", "py a.py", "x = 1\n", true},
		{"text", "", "```\nin\n```\n", true},
		{"not one", "bash", "ls\n", true},
		{"the `end` ```x```", "md", "open\n```\n", false},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(block{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func ofText(t *testing.T, text string) []action {
	t.Helper()
	st, err := ParseStrategy("", nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := st.tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, all := plain{}.actions(1, model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Kind: model.PartText, Text: text}}}, tools)
	for _, a := range all { // what the protocol makes is what the tools read
		for _, tool := range tools {
			if tool.Name == a.name && a.problem == "" {
				if _, err := tool.parse(a.arguments); err != nil && !strings.Contains(err.Error(), "missing") && !strings.Contains(err.Error(), "whole number") {
					t.Errorf("%q: %v", a.arguments, err)
				}
			}
		}
	}
	return all
}

func TestPlainActions(t *testing.T) {
	for text, want := range map[string]action{
		"```bash\nls -l\n\npwd\n```":                                     {name: "bash", arguments: `{"command":"ls -l\n\npwd"}`},
		"```bash timeout=9\nls\n```":                                     {name: "bash", arguments: `{"command":"ls","timeout":"9"}`},
		"```bash 9\nls\n```":                                             {name: "bash", arguments: `{"command":"ls","timeout":"9"}`},
		"```read \"a b.txt\" from=3\n```":                                {name: "read", arguments: `{"from":"3","path":"a b.txt"}`},
		"```read\na.txt\n```":                                            {name: "read", arguments: `{"path":"a.txt"}`},
		"```write x/y.py\nif a=b:\n\tpass\n\n```":                        {name: "write", arguments: `{"content":"if a=b:\n\tpass\n\n","path":"x/y.py"}`},
		"```write empty\n```":                                            {name: "write", arguments: `{"content":"","path":"empty"}`},
		"```edit f\n<<<<<<< OLD\na\n=======\n>>>>>>> NEW\n```":           {name: "edit", arguments: `{"new":"","old":"a","path":"f"}`},
		"```edit f\n<<<<<<< OLD\n a\nb\n=======\n c\n\n>>>>>>> NEW\n```": {name: "edit", arguments: `{"new":" c\n","old":" a\nb","path":"f"}`},
		"```edit f\nreplace a by b\n```":                                 {name: "edit", arguments: "{}", problem: errEdit.Error()},
		"```search src\nfoo=bar\n```":                                    {name: "search", arguments: `{"path":"src","pattern":"foo=bar"}`},
		"```list\n```":                                                   {name: "list", arguments: `{}`},
		"```plan now\nx\n```":                                            {name: "plan", arguments: "{}", problem: `nothing but name=value may stand after "plan"`},
		"```submit\nmake test\n```":                                      {name: "submit", arguments: `{"check":"make test"}`},
		"```submit summary=all done\nmake test\n```":                     {name: "submit", arguments: `{"check":"make test","summary":"all done"}`},
		"```bash\nrm -rf /":                                              {name: "bash", arguments: "{}", problem: "the block is not closed, so it may not be whole. Nothing was done."},
	} {
		want.id = "call-1-1"
		got := ofText(t, "First:\n"+text)
		if len(got) != 1 || got[0] != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	if got := ofText(t, "```python\nx\n```\n```\nls\n```\nbash: ls"); len(got) != 0 {
		t.Errorf("no tool was named: %+v", got)
	}
}

// Every tool can be written in plain text the way its usage shows.
func TestUsageIsUsable(t *testing.T) {
	for _, tool := range ownTools() {
		got := ofText(t, tool.Usage())
		if len(got) != 1 || got[0].name != tool.Name || got[0].problem != "" {
			t.Errorf("%s\n%+v", tool.Usage(), got)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("```bash\nls\n```")
	f.Add("~~~edit a b=c\n<<<<<<< OLD\n=======\n>>>>>>> NEW\n~~~")
	f.Add("````write x\n```\n````\n```read\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range ofText(t, text) {
			if a.problem == "" && !object(a.arguments) && len(a.arguments) <= maxArguments {
				t.Errorf("%q: arguments %q", text, a.arguments)
			}
		}
		whole := 0
		for _, b := range blocks(text) {
			whole += len(b.text)
		}
		if whole > len(text)+1 {
			t.Errorf("blocks of %d bytes in a text of %d", whole, len(text))
		}
	})
}

func FuzzArguments(f *testing.F) {
	f.Add(`{"path":"x","from":1.0,"lines":"3"}`)
	f.Add(`{"command":"a","timeout":1e99}`)
	f.Fuzz(func(t *testing.T, raw string) {
		for _, tool := range ownTools() {
			a, err := tool.parse(raw)
			if err == nil && !object(raw) && strings.TrimSpace(raw) != "" {
				t.Errorf("%s took %q", tool.Name, raw)
			}
			for _, p := range tool.params {
				if _, ok := a.text[p.name]; err == nil && p.required && p.kind == "string" && !ok {
					t.Errorf("%s took %q without %s", tool.Name, raw, p.name)
				}
			}
		}
	})
}
