package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/model"
	"assay/trajectory"
	"assay/trial"
)

// A wrong first try, a check that says so, the repair, and the end.
func TestReactRepairsItsWork(t *testing.T) {
	s := sessionIn(t, opener(t)(), "Write 42 into `/app/n`.", nil)
	used := int64(100)
	p := plays(
		calls("plan", `{"plan":"- [ ] write"}`),
		calls("bash", `{"command":"echo 41 >n"}`),
		calls("submit", `{"check":"grep -x 42 n"}`),
		func(q model.Request) (model.Response, error) {
			last := q.Messages[len(q.Messages)-1]
			if last.Role != model.RoleTool || !strings.Contains(last.Parts[0].Result.Parts[0].Text, "The check failed") || !last.Parts[0].Result.Error {
				t.Errorf("the model was told %+v", last)
			}
			a, _ := calls("edit", `{"path":"n","old":"41","new":"42"}`, "submit", `{"check":"grep -x 42 n","summary":"done"}`)(q)
			a.Usage = &model.Usage{Input: &used, Output: &used}
			return a, nil
		},
	)
	report := react(t, s, "", p)
	if content(t, s, "/app/n") != "42\n" {
		t.Errorf("the file holds %q", content(t, s, "/app/n"))
	}
	m := report.Metadata
	if report.Cause != "" || m["ending"] != "submitted" || m["repairs"] != 1 || m["check"] != "passed" || m["turns"] != 4 || report.CPU == nil || report.Exit != nil {
		t.Errorf("%+v", report)
	}
	if report.Usage.InputTokens == nil || *report.Usage.InputTokens != 100 {
		t.Errorf("usage %+v", report.Usage)
	}
	doc := steps(t, s)
	var tools []string
	for _, st := range doc.Steps {
		for _, c := range st.ToolCalls {
			tools = append(tools, c.Function)
		}
		if st.Source == trajectory.Agents && (st.LLMCalls == nil || *st.LLMCalls != 1 || len(st.Observation.Results) != len(st.ToolCalls)) {
			t.Errorf("step %d: %+v", st.ID, st)
		}
	}
	if got := strings.Join(tools, " "); got != "plan bash submit edit submit" {
		t.Errorf("tools %s", got)
	}
	q := p.asked[0]
	if len(q.Tools) != 8 || q.Messages[0].Role != model.RoleSystem || !strings.Contains(q.Messages[1].Text(), "Write 42 into") || q.Model != "tiny" {
		t.Errorf("first request %+v", q)
	}
	for _, tool := range q.Tools {
		var schema struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
			Required   []string
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema.Type != "object" || len(schema.Properties) == 0 || tool.Description == "" {
			t.Errorf("tool %s: %s", tool.Name, tool.Schema)
		}
	}
	if log := transcriptOf(s); !strings.Contains(log, "── submit") || !strings.Contains(log, "[check: exit status 1]") {
		t.Errorf("transcript:\n%s", log)
	}
}

// Each way in which a model gets nowhere has one end.
func TestReactEnds(t *testing.T) {
	open := opener(t)
	ls := calls("bash", `{"command":"echo same"}`)
	for _, c := range []struct {
		name, strategy string
		script         *script
		ending         string
		cause          trial.Cause
		turns          int
	}{
		{"submits", "repair=off", plays(calls("submit", `{}`)), "submitted", "", 1},
		{"never calls", "", plays(says("I think.", model.StopEnd)), "idle", trial.CauseNoSubmission, 3},
		{"says nothing", "idle=2", plays(says("", model.StopEnd)), "idle", trial.CauseNoSubmission, 2},
		{"is cut off", "", plays(says("long", model.StopLength)), "cut", trial.CauseContextLimit, 3},
		{"declines", "", plays(says("I cannot help.", model.StopRefusal)), "refused", trial.CauseAgentRefused, 1},
		{"repeats itself", "", plays(ls), "loop", trial.CauseLoop, 6},
		{"goes round in circles", "stuck=4,nudge=2", plays(ls, calls("list", `{}`), ls, calls("list", `{}`), ls, calls("list", `{}`), ls), "loop", trial.CauseLoop, 7},
		{"meets one error", "", plays(
			calls("read", `{"path":"x"}`), calls("read", `{"path":"./x"}`), calls("read", `{"path":"x","from":2}`), calls("read", `{"path":"x","from":3}`),
			calls("read", `{"path":"x","from":4}`), calls("read", `{"path":"x","from":5}`), calls("read", `{"path":"x","from":6}`)), "loop", trial.CauseLoop, 7},
		{"calls what is not there", "", plays(calls("web_search", `{"q":"x"}`)), "malformed", trial.CauseMalformedCall, 3},
		{"cannot write JSON", "", plays(calls("bash", `{"command": "ls`)), "malformed", trial.CauseMalformedCall, 3},
		{"a gigabyte of arguments", "idle=2", plays(calls("bash", `{"command": "`+strings.Repeat("x", 5<<20)+`"}`)), "malformed", trial.CauseMalformedCall, 2},
		{"works on", "turns=4", plays(calls("bash", `{"command":"date +%N"}`)), "turns", trial.CauseNoSubmission, 4},
		{"has no key", "", plays(fails(model.Error{Kind: model.ErrAuth, Status: 401, Message: "no"})), "model_error", "", 0},
		{"has no money", "", plays(ls, fails(model.Error{Kind: model.ErrBudget, Status: 400})), "model_error", trial.CauseBudget, 1},
		{"fails within the stream", "", plays(func(model.Request) (model.Response, error) {
			return model.Response{Stop: model.StopError, Err: &model.Error{Kind: model.ErrOverload, Message: "busy"}}, nil
		}), "model_error", "", 0},
		{"is too long for the model", "", plays(fails(model.Error{Kind: model.ErrContext, Status: 400})), "model_error", trial.CauseContextLimit, 0},
		{"pauses for ever", "turns=5", plays(says("…", model.StopPause)), "turns", trial.CauseNoSubmission, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessionIn(t, open(), "x", nil)
			report := react(t, s, c.strategy, c.script)
			if report.Metadata["ending"] != c.ending || report.Cause != c.cause || report.Metadata["turns"] != c.turns {
				t.Errorf("ending %v, cause %q (%s), %v turns", report.Metadata["ending"], report.Cause, report.Detail, report.Metadata["turns"])
			}
			steps(t, s)
			for _, q := range c.script.asked {
				wellFormed(t, q)
			}
		})
	}
}

// wellFormed checks what every server wants of a conversation: each call has one
// result right after it, and its arguments are an object.
func wellFormed(t *testing.T, q model.Request) {
	t.Helper()
	for i, m := range q.Messages {
		var want, got []string
		if len(m.Parts) == 0 || len(m.Parts) == 1 && m.Parts[0].Kind == model.PartText && m.Parts[0].Text == "" {
			t.Errorf("message %d of the %s says nothing", i, m.Role)
		}
		for _, p := range m.Parts {
			if p.Kind == model.PartCall {
				want = append(want, p.Call.ID)
				if !object(p.Call.Arguments) {
					t.Errorf("message %d sends back arguments %.50q", i, p.Call.Arguments)
				}
			}
		}
		if len(want) == 0 {
			continue
		}
		if i+1 < len(q.Messages) {
			for _, p := range q.Messages[i+1].Parts {
				got = append(got, p.Result.CallID)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("message %d: calls %v, results %v", i, want, got)
		}
	}
}

// The harness says so before it gives up on a model that repeats itself.
func TestReactIntervenes(t *testing.T) {
	s := sessionIn(t, opener(t)(), "x", nil)
	same := calls("bash", `{"command":"echo same"}`)
	p := plays(same, same, same, func(q model.Request) (model.Response, error) {
		text := q.Messages[len(q.Messages)-1].Parts[0].Result.Parts[0].Text
		if !strings.HasPrefix(text, "same\n\nYou did the same and saw the same 3 times") || !strings.Contains(text, "After 3 more times") {
			t.Errorf("the model was told %q", text)
		}
		return calls("submit", `{"check":"true"}`)(q)
	})
	if r := react(t, s, "", p); r.Metadata["ending"] != "submitted" {
		t.Errorf("%+v", r.Metadata)
	}
	found := false
	for _, st := range steps(t, s).Steps {
		found = found || st.Source == trajectory.System && strings.Contains(st.Message.Text, "saw the same 3 times")
	}
	if !found {
		t.Error("the trajectory does not show the intervention")
	}
}

// Calls in parallel run in order, as many as the strategy allows, and none
// after the work was handed in; each has an answer, under an id of its own.
func TestReactParallelCalls(t *testing.T) {
	s := sessionIn(t, opener(t)(), "x", nil)
	two := func(q model.Request) (model.Response, error) {
		a, err := calls("bash", `{"command":"echo a >>/app/o"}`, "bash", `{"command":"echo b >>/app/o"}`, "bash", `{"command":"echo c >>/app/o"}`)(q)
		a.Message.Parts[2].Call.ID = ""
		return a, err
	}
	p := plays(two, calls("submit", `{"check":"true"}`, "bash", `{"command":"echo late >>/app/o"}`))
	react(t, s, "calls=2", p)
	if got := content(t, s, "/app/o"); got != "a\nb\n" {
		t.Errorf("it ran %q", got)
	}
	wellFormed(t, p.asked[1])
	var seen []string
	for _, r := range p.asked[1].Messages[3].Parts {
		seen = append(seen, r.Result.Parts[0].Text)
	}
	if len(seen) != 3 || !strings.Contains(seen[2], "not run: more than 2 calls") {
		t.Errorf("results %q", seen)
	}
}

// The conversation is made anew before it is too long, with the plan, the
// summary and the task, and nothing of it is needed before.
func TestReactCompacts(t *testing.T) {
	open := opener(t)
	big := int64(90_000)
	done := false
	p := plays(func(q model.Request) (model.Response, error) {
		if done {
			return calls("submit", `{"check":"true"}`)(q)
		}
		return calls("plan", `{"plan":"- [x] remember the number 17"}`)(q)
	}, func(q model.Request) (model.Response, error) {
		a, err := calls("bash", `{"command":"echo x"}`)(q)
		a.Usage = &model.Usage{Input: &big, Output: &big}
		return a, err
	}, func(q model.Request) (model.Response, error) {
		if q.Choice != model.ChoiceNone || len(q.Tools) == 0 || !strings.Contains(q.Messages[len(q.Messages)-1].Text(), "too long") {
			t.Errorf("it was not asked for a summary: %+v", q)
		}
		done = true
		return says("I looked at everything.", model.StopEnd)(q)
	})
	s := sessionIn(t, open(), "The task itself.", nil)
	r := react(t, s, "context=100000", p)
	if r.Metadata["ending"] != "submitted" || r.Metadata["compactions"] != 1 {
		t.Fatalf("%+v\n%s", r.Metadata, transcriptOf(s))
	}
	last := p.asked[len(p.asked)-1]
	root := last.Messages[1].Text()
	if len(last.Messages) != 2 || !strings.Contains(root, "The task itself.") || !strings.Contains(root, "the number 17") || !strings.Contains(root, "I looked at everything.") || strings.Contains(root, "last actions") {
		t.Errorf("the new root of %d messages:\n%s", len(last.Messages), root)
	}
	for _, q := range p.asked {
		wellFormed(t, q)
	}

	// Without a summary the last actions remain; the server itself may ask for it.
	full := 0
	p = plays(calls("bash", `{"command":"echo first"}`), func(q model.Request) (model.Response, error) {
		full++
		return model.Response{}, &model.Error{Kind: model.ErrContext, Status: 400}
	})
	p.turns[0] = func(q model.Request) (model.Response, error) {
		if full == 0 {
			return calls("bash", `{"command":"echo first"}`)(q)
		}
		return calls("submit", `{"check":"true"}`)(q)
	}
	s = sessionIn(t, open(), "The task itself.", nil)
	r = react(t, s, "", p)
	last = p.asked[len(p.asked)-1]
	if root = last.Messages[1].Text(); r.Metadata["ending"] != "submitted" || full != 1 || !strings.Contains(root, `- bash {"command":"echo first"} → first`) {
		t.Errorf("%+v\n%s", r.Metadata, root)
	}
}

// A model without tool calls works in plain text: by its entry, by the
// strategy, or because its server says so.
func TestReactInPlainText(t *testing.T) {
	open := opener(t)
	turns := []func(model.Request) (model.Response, error){
		says("I write it.\n```write n.txt\n41\n```\nand look:\n```bash\ncat n.txt\n```", model.StopEnd),
		says("Wrong!\n````edit n.txt\n<<<<<<< OLD\n41\n=======\n42\n>>>>>>> NEW\n````", model.StopEnd),
		says("```python\nprint('not a tool')\n```", model.StopEnd),
		says("```submit\ngrep -x 42 n.txt\n```\n", model.StopEnd),
	}
	refuses := func(q model.Request) (model.Response, error) {
		if len(q.Tools) > 0 {
			return model.Response{}, &model.Error{Kind: model.ErrBadRequest, Status: 400, Message: "tools are not supported"}
		}
		return turns[0](q)
	}
	for name, how := range map[string]func(s *agent.Session) (string, *script){
		"by the strategy": func(*agent.Session) (string, *script) { return "text", plays(turns...) },
		"by its entry": func(s *agent.Session) (string, *script) {
			s.Model.NoTools = true
			return "", plays(turns...)
		},
		"by its server": func(*agent.Session) (string, *script) {
			return "", plays(append([]func(model.Request) (model.Response, error){refuses}, turns[1:]...)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessionIn(t, open(), "Write 42 into n.txt.", nil)
			strategy, p := how(&s)
			r := react(t, s, strategy, p)
			if r.Metadata["ending"] != "submitted" || content(t, s, "/app/n.txt") != "42\n" {
				t.Errorf("%+v: %q", r.Metadata, content(t, s, "/app/n.txt"))
			}
			last := p.asked[len(p.asked)-1]
			if len(last.Tools) != 0 || !strings.Contains(last.Messages[0].Text(), "```edit PATH\n<<<<<<< OLD") {
				t.Errorf("%d tools; system prompt:\n%s", len(last.Tools), last.Messages[0].Text())
			}
			if got := last.Messages[3].Text(); got != "[write]\n[3 bytes written to n.txt]\n\n[bash]\n41" {
				t.Errorf("observation %q", got)
			}
			steps(t, s)
		})
	}
}

// Tools of the host are offered beside react's own.
func TestReactHostTools(t *testing.T) {
	open := opener(t)
	tool := agent.Tool{Name: "clock", Description: "Tells the time.", Schema: json.RawMessage(`{"type":"object"}`),
		Call: func(_ context.Context, a json.RawMessage) (string, error) {
			if string(a) != "{}" {
				return "", errors.New("no arguments, please: " + string(a))
			}
			return "noon", nil
		}}
	p := plays(calls("clock", ""), calls("clock", `{"x":1}`), calls("submit", `{"check":"true"}`))
	s := sessionIn(t, open(), "x", nil)
	s.Tools = []agent.Tool{tool}
	react(t, s, "", p)
	doc := steps(t, s)
	if got := doc.Steps[1].Observation.Results[0].Content.Text + "|" + doc.Steps[2].Observation.Results[0].Content.Text; got != `noon|no arguments, please: {"x":1}` {
		t.Errorf("observations %s", got)
	}
	tool.Name = "bash"
	s.Tools = []agent.Tool{tool}
	st, _ := ParseStrategy("", nil)
	a, err := NewReact(st, p.connect)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), `tool "bash" of its own`) {
		t.Errorf("two tools of one name: %v", err)
	}
}

// A limit is a report, a cancellation is not; either way what runs is told.
func TestReactIsCutOff(t *testing.T) {
	open := opener(t)
	for cause, want := range map[error]string{agent.ErrDeadline: "[ended at the deadline]", agent.ErrStopped: "[ended by a limit]", os.ErrClosed: "[interrupted]"} {
		s := sessionIn(t, open(), "x", nil)
		st, err := ParseStrategy("", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := NewReact(st, plays(calls("bash", `{"command":"echo before; sleep 1000"}`)).connect)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(400*time.Millisecond, func() { cancel(cause) })
		r, err := a.Run(ctx, s)
		if cause == os.ErrClosed && !errors.Is(err, cause) || cause != os.ErrClosed && err != nil ||
			r.TimedOut != (cause == agent.ErrDeadline) || r.Stopped != (cause == agent.ErrStopped) {
			t.Errorf("%v: %+v, %v", cause, r, err)
		}
		doc := steps(t, s)
		if got := doc.Steps[1].Observation.Results[0].Content.Text; !strings.Contains(got, "before") || !strings.Contains(got, want) {
			t.Errorf("%v: observation %q", cause, got)
		}
	}
}
