package scripted

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIntentions(t *testing.T) {
	f, err := Parse("s", []byte(`turns: [{calls: [{bash: ls}, {write: {path: f, content: "it's"}}, {read: f}, {edit: {path: f, old: a, new: b}}, {submit: done}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	s, all := serve(f), f.Scripts[0].Turns[0].Calls
	for name, c := range map[string]struct {
		tools string // JSON: name → schema
		said  string
		want  []string // "name arguments" or text, of each intention; "!": an error
	}{
		"claude": {`{"Bash":{"properties":{"command":{"type":"string"},"description":{"type":"string"},"timeout":{"type":"number"}},"required":["command","description"]},
			"Write":{"properties":{"file_path":{},"content":{}}},"Read":{"properties":{"file_path":{},"limit":{}}},"Edit":{"properties":{"file_path":{},"old_string":{},"new_string":{},"replace_all":{}}}}`,
			"Working directory: /srv/x\n",
			[]string{`Bash {"command":"ls","description":"as the task asks"}`, `Write {"content":"it's","file_path":"/srv/x/f"}`, `Read {"file_path":"/srv/x/f"}`,
				`Edit {"file_path":"/srv/x/f","new_string":"b","old_string":"a"}`, "done"}},
		"cline": {`{"run_commands":{"properties":{"commands":{"type":"array","items":{"type":"string"}},"safe":{"type":"boolean"}},"required":["commands","safe"]},"attempt_completion":{"properties":{"result":{"type":"string"}}}}`, "",
			[]string{`run_commands {"commands":["ls"],"safe":false}`, `run_commands {"commands":["printf %s 'it'\\''s' > 'f'"],"safe":false}`, `run_commands {"commands":["cat 'f'"],"safe":false}`, "!", `attempt_completion {"result":"done"}`}},
		"argument vector": {`{"shell":{"properties":{"command":{"type":"array"},"n":{"type":"integer","minimum":3},"k":{"enum":["x","y"]}},"required":["command","n","k"]}}`, "",
			[]string{`shell {"command":["bash","-lc","ls"],"k":"x","n":3}`, `shell {"command":["bash","-lc","printf %s 'it'\\''s' > 'f'"],"k":"x","n":3}`, `shell {"command":["bash","-lc","cat 'f'"],"k":"x","n":3}`, "!", "done"}},
		"mini": {`{"bash":{"properties":{"command":{"type":"string"}}}}`, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT when done",
			[]string{`bash {"command":"ls"}`, `bash {"command":"printf %s 'it'\\''s' > 'f'"}`, `bash {"command":"cat 'f'"}`, "!", `bash {"command":"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}`}},
		"fenced": {`{}`, "use ```mswea_bash_command\nx\n``` COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
			[]string{"```mswea_bash_command\nls\n```", "```mswea_bash_command\nprintf %s 'it'\\''s' > 'f'\n```", "```mswea_bash_command\ncat 'f'\n```", "!", "```mswea_bash_command\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"}},
		"listing":  {`{}`, "return a *file listing*", []string{"```bash\nls\n```", "f\n```\nit's\n```", "```bash\ncat 'f'\n```", "!", "done"}},
		"no shell": {`{"weather":{}}`, "", []string{"!", "!", "!", "!", "done"}},
		"gemini": {`{"run_shell_command":{"type":"OBJECT","properties":{"command":{"type":"STRING"},"is_background":{"type":"BOOLEAN"}},"required":["command","is_background"]}}`, "",
			[]string{`run_shell_command {"command":"ls","is_background":false}`, `run_shell_command {"command":"printf %s 'it'\\''s' > 'f'","is_background":false}`, `run_shell_command {"command":"cat 'f'","is_background":false}`, "!", "done"}},
	} {
		var schemas map[string]schema
		if err := json.Unmarshal([]byte(c.tools), &schemas); err != nil {
			t.Fatal(err)
		}
		a := &ask{msgs: []message{{role: user, text: c.said}}}
		for n, sc := range schemas {
			a.tools = append(a.tools, tool{name: n, schema: sc})
		}
		o := s.offer(a)
		var got []string
		for _, in := range all {
			switch call, text, err := o.one(in); {
			case err != nil:
				got = append(got, "!")
			case call != nil:
				got = append(got, call.name+" "+call.args)
			default:
				got = append(got, text)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
