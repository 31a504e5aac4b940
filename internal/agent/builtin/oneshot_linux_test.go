package builtin

import (
	"strings"
	"testing"

	"assay/internal/agent"
	"assay/internal/model"
	"assay/trial"
)

const pyBrief = "Complete `f` in `/app/s.py`."

func TestOneshot(t *testing.T) {
	open := opener(t)
	before := map[string]string{"/app/s.py": "def f():\n    \"\"\"```doc```\"\"\"\n"}
	for _, c := range []struct {
		name   string
		files  map[string]string
		turn   func(model.Request) (model.Response, error)
		ending string
		cause  trial.Cause
		want   string // the file afterwards
		prompt string
	}{
		{"answers", before, says("```python\ndef f():\n    return 1\n```", model.StopEnd), "answered", "", "def f():\n    return 1\n",
			"The file `/app/s.py` now holds:\n\n````\ndef f():\n    \"\"\"```doc```\"\"\"\n````\n\nYou cannot run anything. Answer with the whole new content of `/app/s.py` in one fenced block."},
		{"completes", before, says("    return 1", model.StopEnd), "answered", "", before["/app/s.py"] + "    return 1\n", ""},
		{"makes it", nil, says("```\nx\n```", model.StopEnd), "answered", "", "x\n", "does not exist yet"},
		{"is cut off", before, says("```python\nx = 1\n", model.StopLength), "cut", trial.CauseContextLimit, "x = 1\n", ""},
		{"says nothing", before, says("", model.StopEnd), "no answer", trial.CauseNoSubmission, before["/app/s.py"], ""},
		{"declines", before, says("No.", model.StopRefusal), "refused", trial.CauseAgentRefused, before["/app/s.py"], ""},
		{"fails", before, fails(model.Error{Kind: model.ErrServer, Status: 500, Message: "oops"}), "model_error", "", before["/app/s.py"], ""},
		{"no text before", map[string]string{"/app/s.py": "\x00\xff"}, says("    x", model.StopEnd), "answered", "", "    x\n", "cannot be shown"},
		{"no place for it", map[string]string{"/app/s.py/x": ""}, says("y", model.StopEnd), "not written", trial.CauseNoSubmission, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessionIn(t, open(), pyBrief, c.files)
			prompt := ""
			p := plays(func(q model.Request) (model.Response, error) {
				if len(q.Messages) != 1 || len(q.Tools) != 0 {
					t.Errorf("asked %+v", q)
				}
				prompt = q.Messages[0].Text()
				return c.turn(q)
			})
			a := NewOneshot(p.connect)
			if n, err := a.Needs(s.Brief); err != nil || n.Dialect == "" {
				t.Errorf("%+v, %v", n, err)
			}
			r, err := a.Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if r.Metadata["ending"] != c.ending || r.Cause != c.cause || content(t, s, "/app/s.py") != c.want || r.Exit != nil {
				t.Errorf("%+v; the file holds %q", r, content(t, s, "/app/s.py"))
			}
			if !strings.HasPrefix(prompt, pyBrief+"\n") || !strings.Contains(prompt, c.prompt) {
				t.Errorf("prompt:\n%s", prompt)
			}
			steps(t, s)
		})
	}
}

func TestOneshotRefuses(t *testing.T) {
	s := sessionIn(t, opener(t)(), "Do it.", nil)
	if _, err := NewOneshot(nil).Needs(s.Brief); err == nil {
		t.Error("it took a task without an answer file")
	}
	s.Brief.Instruction, s.Model = pyBrief, nil
	if _, err := NewOneshot(nil).Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no model") {
		t.Errorf("without a model: %v", err)
	}
	if _, err := (React{connect: func(agent.Endpoint) (Completer, error) { return nil, nil }}).Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no model") {
		t.Errorf("without a model: %v", err)
	}
}
