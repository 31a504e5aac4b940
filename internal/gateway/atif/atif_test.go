package atif

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"assay/internal/model"
	"assay/trajectory"
)

func TestNoCalls(t *testing.T) {
	wantShape(t, build(t, &talk{}), "u")
}

func TestToolCalls(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	m := []model.Message{say(model.RoleSystem, "You are an agent."), say(model.RoleUser, brief)}
	first := answers("think: let me see", "I will write it.", `call c1 bash {"command":"echo"}`, `call c2 bash {"command": "ls"}`)
	first.Usage = &model.Usage{Input: ptr(int64(50)), Cached: ptr(int64(40)), Output: ptr(int64(7)), Reasoning: ptr(int64(3))}
	first.Tokens = &model.Tokens{Prompt: []int64{1, 2}, Completion: []int64{3}, Logprobs: []float64{-0.5}}
	x := k.call(sh, m, first)
	x.CostUSD = ptr(0.25)
	// The client spells the arguments anew, drops the reasoning and answers out of order.
	m = append(m, answers("I will write it.", `call c1 bash {"command": "echo"}`, `call c2 bash {"command":"ls"}`).Message, result("c2", "listing"), result("c1", "echoed"))
	k.call(sh, m, answers("Done."))
	d := build(t, k)
	wantShape(t, d, "sua!!..a")
	s := d.Steps[2]
	if *s.ReasoningContent != "let me see" || s.Observation.Results[0].CallID != "c2" || s.Observation.Results[1].Content.Text != "echoed" {
		t.Errorf("step 3: %+v", s)
	}
	if x := s.Metrics; *x.PromptTokens != 50 || *x.CachedTokens != 40 || *x.CompletionTokens != 7 || *x.CostUSD != 0.25 || len(x.PromptTokenIDs) != 2 || x.Logprobs[0] != -0.5 {
		t.Errorf("metrics %+v", x)
	}
	if string(s.ToolCalls[1].Arguments) != `{"command":"ls"}` || len(d.Agent.ToolDefinitions) != 1 {
		t.Errorf("%s, tools %s", s.ToolCalls[1].Arguments, d.Agent.ToolDefinitions)
	}
	if f := d.FinalMetrics; *f.PromptTokens != 150 || *f.CostUSD != 0.25 || !strings.Contains(string(f.Extra["assay"]), "partial") {
		t.Errorf("final %+v %s", f, f.Extra)
	}
}

// Claude's way: a system text that differs in every call, results and texts in
// one user message, calls that are joined with what follows.
func TestChangingSystem(t *testing.T) {
	k := &talk{}
	sh := tools("Bash")
	user := say(model.RoleUser, "<reminder>x</reminder>", brief)
	k.call(sh, []model.Message{say(model.RoleSystem, "bill 1", "You are"), user}, answers(`call t1 Bash {"command":"ls"}`))
	both := result("t1", "out")
	both.Role = model.RoleUser
	both.Parts = append(both.Parts, model.Part{Kind: model.PartText, Text: "<reminder>y</reminder>"})
	k.call(sh, []model.Message{say(model.RoleSystem, "bill 2", "You are"), user, answers(`call t1 Bash {"command":"ls"}`).Message, both}, answers("Done."))
	d := build(t, k)
	wantShape(t, d, "sua!.ua")
	if !strings.Contains(string(d.Steps[4].Extra["assay"]), `"system_changed":true`) {
		t.Errorf("extra %s", d.Steps[4].Extra["assay"])
	}
}

func TestRetries(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	k.fail(sh, m, model.Error{Kind: model.ErrRate, Status: 429, Message: "slow down"})
	cut := answers("think: half", "I wi")
	cut.Stop = model.StopCut
	k.call(sh, m, cut).Err = &model.Error{Kind: model.ErrCutStream, Message: "cut"}
	k.call(sh, m, answers("I will.", `call c1 bash {"command":"x"}`))
	m = append(m, answers("I will.", `call c1 bash {"command":"x"}`).Message, result("c1", "ok"))
	k.fail(sh, m, model.Error{Kind: model.ErrServer, Status: 500, Message: "oops"})
	k.fail(sh, m, model.Error{Kind: model.ErrServer, Status: 500, Message: "oops"})
	d := build(t, k)
	wantShape(t, d, "ua!.s")
	var n turnNote
	if err := json.Unmarshal(d.Steps[1].Extra["assay"], &n); err != nil {
		t.Fatal(err)
	}
	if len(n.Retries) != 2 || n.Retries[1].Message != "I wi" || *d.Steps[1].LLMCalls != 3 {
		t.Errorf("%+v", n)
	}
	if got := d.Steps[2].Message.Text; !strings.Contains(got, "oops") || !strings.Contains(string(d.Steps[2].Extra["assay"]), `"retries":[{"seq":4`) {
		t.Errorf("%q %s", got, d.Steps[2].Extra["assay"])
	}
}

// An answer that was cut, and with which the agent goes on, is a step.
func TestAborted(t *testing.T) {
	k := &talk{}
	m := []model.Message{say(model.RoleUser, brief)}
	cut := answers("Half an ans")
	cut.Stop = model.StopCut
	k.call(nil, m, cut).Aborted = true
	k.call(nil, append(m, cut.Message, say(model.RoleUser, "Go on.")), answers("wer."))
	d := build(t, k)
	wantShape(t, d, "uaua")
	if !strings.Contains(string(d.Steps[1].Extra["assay"]), `"aborted":true,"cut":true`) {
		t.Errorf("%s", d.Steps[1].Extra["assay"])
	}
}

func TestSubAgent(t *testing.T) {
	k := &talk{}
	all, few := tools("bash", "task"), tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	const prompt = "Look at every file and say what it does"
	spawn := answers(`call t1 task {"prompt":"`+prompt+`","kind":"x"}`, `call t2 bash {"command":"ls"}`)
	k.call(all, m, spawn)
	sub := []model.Message{say(model.RoleSystem, "You help."), say(model.RoleUser, prompt)}
	k.call(few, sub, answers(`call s1 bash {"command":"cat"}`))
	sub = append(sub, answers(`call s1 bash {"command":"cat"}`).Message, result("s1", "text"))
	k.call(few, sub, answers("It does nothing at all, I am afraid."))
	m = append(m, spawn.Message, result("t1", "It does nothing at all, I am afraid."), result("t2", "a"))
	k.call(all, m, answers("So be it."))
	d := build(t, k)
	wantShape(t, d, "ua!!.>.a")
	if len(d.Subagents) != 1 {
		t.Fatalf("%d sub-agents", len(d.Subagents))
	}
	wantShape(t, &d.Subagents[0], "sua!.a")
	r := d.Steps[1].Observation.Results[0]
	if r.CallID != "t1" || r.Subagents[0].TrajectoryID != d.Subagents[0].TrajectoryID {
		t.Errorf("%+v", r)
	}
	wantRoots(t, d, Main, SubAgent)
}

func wantRoots(t *testing.T, d *trajectory.Trajectory, kinds ...Kind) {
	t.Helper()
	var s summary
	if err := json.Unmarshal(d.Extra["assay"], &s); err != nil {
		t.Fatal(err)
	}
	var got []Kind
	for _, r := range s.Roots {
		got = append(got, r.Kind)
	}
	if len(got) != len(kinds) {
		t.Fatalf("roots %v, want %v", got, kinds)
	}
	for i := range got {
		if got[i] != kinds[i] {
			t.Errorf("roots %v, want %v", got, kinds)
		}
	}
}

// An agent in the background begins when the conversation that began it has
// gone on already.
func TestBackgroundAgent(t *testing.T) {
	k := &talk{}
	all := tools("bash", "task")
	m := []model.Message{say(model.RoleUser, brief)}
	const prompt = "Look at every file and say what it does"
	spawn := answers(`call t1 task {"prompt":"` + prompt + `"}`)
	k.call(all, m, spawn)
	m = append(m, spawn.Message, result("t1", "begun"))
	next := answers(`call t2 bash {"command":"ls -l /some/directory/or/other"}`)
	k.call(all, m, next)
	k.call(tools("bash"), []model.Message{say(model.RoleUser, "Reminder. "+prompt)}, answers("Nothing."))
	k.call(all, append(m, next.Message, result("t2", "ok")), answers("Done."))
	d := build(t, k)
	wantShape(t, d, "ua!.>a!.a")
	wantRoots(t, d, Main, SubAgent)
}

func TestCompaction(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	k.call(sh, m, answers(`call c1 bash {"command":"x"}`))
	m = append(m, answers(`call c1 bash {"command":"x"}`).Message, result("c1", "ok"), say(model.RoleUser, "Summarise."))
	const summary = "We have run x and it said ok; nothing else was done."
	k.call(sh, m, answers(summary))
	after := []model.Message{say(model.RoleUser, "What came before: "+summary+" Go on.")}
	k.call(sh, after, answers("Going on."))
	d := build(t, k)
	wantShape(t, d, "ua!.uas>")
	wantShape(t, &d.Subagents[0], "ua")
	wantRoots(t, d, Main, Continuation)
	if string(d.Steps[4].Extra["context_management"]) != `{"type":"compaction","boundary":"replace"}` {
		t.Errorf("%s", d.Steps[4].Extra)
	}
}

// A client that puts its own notes in place of what was said goes on too.
func TestOwnNotes(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	k.call(sh, m, answers(`call c1 bash {"command":"x"}`))
	m = append(m, answers(`call c1 bash {"command":"x"}`).Message, result("c1", "ok"))
	k.fail(sh, m, model.Error{Kind: model.ErrContext, Status: 400, Message: "too long"})
	k.call(sh, []model.Message{say(model.RoleUser, brief+"\n\nSo far you ran x.")}, answers("Done."))
	for _, x := range k.xs { // as codecs do, each request has tools of its own
		x.Asked.Tools = tools("bash")
	}
	d := build(t, k)
	wantShape(t, d, "ua!.ss>")
	wantRoots(t, d, Main, Continuation)
}

// A client that drops all but the latest turns begins a new document, in which
// what it kept is marked as copied.
func TestDroppedHistory(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	for _, c := range []string{"a", "b", "c", "d"} {
		k.call(sh, m, answers("call "+c+` bash {"command":"`+c+`"}`))
		m = append(m, answers("call "+c+` bash {"command":"`+c+`"}`).Message, result(c, "did "+c))
	}
	kept := append([]model.Message{m[0]}, m[len(m)-2:]...)
	k.call(sh, kept, answers("Done."))
	d := build(t, k)
	wantShape(t, d, "ua!.a!.a!.a!s>")
	wantShape(t, &d.Subagents[0], "uc!.a")
	wantRoots(t, d, Main, Continuation)
}

// A client that shortens an old output goes on with the same conversation.
func TestEditedHistory(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	for _, c := range []string{"a", "b", "c"} {
		k.call(sh, m, answers("call "+c+` bash {"command":"`+c+`"}`))
		m = append(m, answers("call "+c+` bash {"command":"`+c+`"}`).Message, result(c, "did "+c))
	}
	x := k.call(sh, m, answers("Done."))
	x.Asked.Messages[2] = result("a", "[cleared]")
	d, err := Build(info(), brief, k.xs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantShape(t, d, "ua!.a!.a!.a")
	if !strings.Contains(string(d.Steps[4].Extra["assay"]), "history_edited") {
		t.Errorf("%s", d.Steps[4].Extra["assay"])
	}
	// The changed text alone is not in the document: it is no part of what happened.
	if got := Missing(k.xs, d); len(got) != 1 || !strings.Contains(got[0], "[cleared]") {
		t.Errorf("missing %q", got)
	}
}

// A client that spells a call anew goes on with the same conversation, and the
// document has the model's words.
func TestRenamedCall(t *testing.T) {
	k := &talk{}
	sh := tools("Agent")
	m := []model.Message{say(model.RoleUser, brief)}
	k.call(sh, m, answers("I delegate.", `call c1 Task {"prompt":"x"}`))
	m = append(m, answers("I delegate.", `call c1 Agent {"prompt":"x","background":true}`).Message, result("c1", "begun"))
	k.call(sh, m, answers(`call c2 Task {}`))
	m = append(m, answers(`call c2 Agent {}`).Message, result("c2", "ok"))
	k.call(sh, m, answers("Done."))
	d := build(t, k)
	wantShape(t, d, "ua!.a!.a")
	if d.Steps[1].ToolCalls[0].Function != "Task" || len(d.Subagents) != 0 {
		t.Errorf("%+v, %d embedded", d.Steps[1].ToolCalls, len(d.Subagents))
	}
}

func TestSideCalls(t *testing.T) {
	k := &talk{}
	k.call(nil, []model.Message{say(model.RoleSystem, "Make a title."), say(model.RoleUser, brief)}, answers("Hello file")).Side = "title"
	sh := tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	k.call(sh, m, answers(`call c1 bash {"command":"x"}`))
	k.call(sh, append(m, answers(`call c1 bash {"command":"x"}`).Message, result("c1", "ok")), answers("Done."))
	k.call(nil, []model.Message{say(model.RoleUser, "Write a commit message for: x")}, answers("feat: x")).Side = "commit-message"
	probe := k.call(nil, nil, nil)
	probe.Asked, probe.Side, probe.Path = nil, "models", "/v1/models"
	d := build(t, k)
	wantShape(t, d, "ua!.a")
	var s summary
	if err := json.Unmarshal(d.Extra["assay"], &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Side) != 2 || s.Side[0].Kind != "title" || s.Side[1].Message != "feat: x" || s.OtherN != 1 || s.Calls != 5 || len(d.Subagents) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSamples(t *testing.T) {
	k := &talk{}
	m := []model.Message{say(model.RoleUser, brief)}
	for _, a := range []string{"one", "two", "two"} {
		k.call(nil, m, answers(a))
	}
	d := build(t, k)
	wantShape(t, d, "ua")
	wantRoots(t, d, Main, Sample, Sample)
}

func TestTextMode(t *testing.T) {
	k := &talk{}
	m := []model.Message{say(model.RoleSystem, "Answer with one block."), say(model.RoleUser, brief)}
	one := answers("I list.\n\n```mswea_bash_command\nls -l\n```")
	k.call(nil, m, one)
	m = append(m, one.Message, say(model.RoleUser, "<output>none</output>"))
	k.call(nil, m, answers("Done.\n\n```mswea_bash_command\necho SUBMIT\n```"))
	d := build(t, k)
	wantShape(t, d, "sua!.a!")
	if c := d.Steps[2].ToolCalls[0]; string(c.Arguments) != `{"command":"ls -l"}` || !strings.Contains(d.Steps[2].Message.Text, "ls -l") {
		t.Errorf("%+v", c)
	}
	// An answer that is a program is no action.
	k = &talk{}
	k.call(nil, m[:2], answers("```bash\nls\n```"))
	wantShape(t, build(t, k), "sua")
}

func TestResultsByName(t *testing.T) {
	k := &talk{}
	sh := tools("read", "list")
	m := []model.Message{say(model.RoleUser, brief)}
	a := answers(`call _ read {"path":"a"}`, `call _ list {}`)
	for i := range a.Message.Parts {
		a.Message.Parts[i].Call.ID = ""
	}
	k.call(sh, m, a)
	back := model.Message{Role: model.RoleUser, Parts: []model.Part{
		{Kind: model.PartResult, Result: &model.Result{Name: "list", Parts: []model.Part{{Kind: model.PartText, Text: "files"}}}},
		{Kind: model.PartResult, Result: &model.Result{Name: "read", Parts: []model.Part{{Kind: model.PartText, Text: "words"}}}}}}
	k.call(sh, append(m, a.Message, back), answers("Done."))
	wantShape(t, build(t, k), "ua!!..a")
}

func TestPreviousResponse(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	a := answers(`call c1 bash {"command":"x"}`)
	a.ID = "resp_1"
	k.call(sh, []model.Message{say(model.RoleUser, brief)}, a)
	x := k.call(sh, []model.Message{result("c1", "ok")}, answers("Done."))
	x.Asked.Extra = map[string]json.RawMessage{"previous_response_id": json.RawMessage(`"resp_1"`)}
	wantShape(t, build(t, k), "ua!.a")
}

func TestBranch(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	a := answers(`call c1 bash {"command":"x"}`)
	k.call(sh, m, a)
	left := append(append([]model.Message(nil), m...), a.Message, result("c1", "left"))
	k.call(sh, left, answers(`call c2 bash {"command":"y"}`))
	k.call(sh, append(append([]model.Message(nil), m...), a.Message, result("c1", "right")), answers("Right."))
	k.call(sh, append(left, answers(`call c2 bash {"command":"y"}`).Message, result("c2", "ok")), answers("Left."))
	d := build(t, k)
	wantShape(t, d, "ua!.a!.a")
	wantRoots(t, d, Main, Branch)
}

func TestInjected(t *testing.T) {
	k := &talk{}
	m := []model.Message{say(model.RoleUser, "Example"), say(model.RoleAssistant, "Ok."), say(model.RoleUser, brief)}
	k.call(nil, m, answers("Done."))
	d := build(t, k)
	wantShape(t, d, "uaua")
	if *d.Steps[1].LLMCalls != 0 || *d.Steps[3].LLMCalls != 1 {
		t.Error("who said what")
	}
}

// hostile is traffic that no honest agent or server makes.
func hostile() *talk {
	k := &talk{}
	sh := tools("bash", "\xff")
	sh[1].Schema = []byte(`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`)
	m := []model.Message{say(model.RoleSystem, "\xff\x00"), say(model.RoleUser, brief, strings.Repeat("x", 3<<20)), result("nobody", "\xed\xa0\x80")}
	a := answers(
		"call c1 bash "+strings.Repeat("[", 20_000), `call c2 bash {"x":"\ud800"}`, `call c1 bash {"n":`+strings.Repeat("9", 9000)+`}`,
		"call \xff\xfe \xff {\"a\":\"\xff\"}", `call c5 bash "text"`, `call c6 bash {"a":1,"a":2}`, "\xff")
	a.Message.Parts[4].Call.Custom = true
	a.Model = strings.Repeat("m\xff", 4000)
	a.Tokens = &model.Tokens{Logprobs: []float64{math.Inf(-1)}}
	a.Message.Parts = append(a.Message.Parts, model.Part{Kind: model.PartOpaque, Raw: []byte(`{"half":`)}, model.Part{Kind: model.PartMedia})
	x := k.call(sh, m, a)
	x.CostUSD, x.Millis, x.First = ptr(math.NaN()), math.Inf(1), ptr(math.NaN())
	x.Err = &model.Error{Kind: "\xff", Message: "\xff" + strings.Repeat("e", 1<<20)}
	x.Asked.Sampling.Effort = "\xff"
	k.fail(sh, m, model.Error{Message: "\xff"})
	return k
}

// talks are records of many shapes.
func talks() []*talk {
	m := []model.Message{say(model.RoleSystem, "You are."), say(model.RoleUser, brief)}
	sh := tools("bash", "task")
	plainTalk := &talk{}
	a := answers("think: hm", `call c1 bash {"command":"x"}`)
	a.Tokens = &model.Tokens{Prompt: []int64{1}, Completion: []int64{2}, Logprobs: []float64{-1}}
	plainTalk.call(sh, m, a)
	plainTalk.call(sh, append(append([]model.Message(nil), m...), a.Message, result("c1", "ok")), answers("Done."))
	subs := &talk{}
	spawn := answers(`call t1 task {"prompt":"A prompt that is long enough to know"}`)
	subs.call(sh, m, spawn)
	subs.call(sh, []model.Message{say(model.RoleUser, "A prompt that is long enough to know")}, answers("A summary that is long enough to be known."))
	subs.call(sh, append(append([]model.Message(nil), m...), spawn.Message, result("t1", "x")), answers("Enough now, and on to the next."))
	subs.call(sh, []model.Message{say(model.RoleUser, "Before: Enough now, and on to the next.")}, answers("End."))
	failed := &talk{}
	failed.fail(sh, m, model.Error{Kind: model.ErrAuth, Status: 401, Message: "no"})
	text := &talk{}
	text.call(nil, m, answers("```x_bash\nls\n```"))
	return []*talk{{}, plainTalk, subs, failed, text, hostile()}
}

func TestHostile(t *testing.T) {
	k := hostile()
	d, err := Build(info(), brief, k.xs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := trajectory.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range trajectory.Validate(b) {
		t.Error(f)
	}
	if len(b) > 5<<20 {
		t.Errorf("%d bytes", len(b))
	}
}

// Whatever the traffic, a document stays within its cap.
func TestCap(t *testing.T) {
	k := &talk{}
	m := []model.Message{say(model.RoleUser, brief)}
	for range 40 {
		a := answers(strings.Repeat("\x01", 1<<19))
		a.Tokens = &model.Tokens{Prompt: make([]int64, 1<<18)}
		k.call(nil, m, a)
		m = append(m, a.Message, say(model.RoleUser, "more"))
	}
	d, err := Build(info(), brief, k.xs, Options{Max: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	b, err := trajectory.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 16<<20 {
		t.Errorf("%d bytes of a cap of 8 MiB", len(b))
	}
	if got := Missing(k.xs, d); len(got) > 0 {
		t.Errorf("%d wrong, first %.300s", len(got), got[0])
	}
	if !strings.Contains(string(d.Extra["assay"]), `"tokens_dropped":true`) {
		t.Error("tokens that found no room are not told")
	}
}
