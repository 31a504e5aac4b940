package agent

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"assay/task"
	"assay/trajectory"
	"assay/trial"
)

func newRecorder(onStep func(trial.StepMark)) *Recorder {
	return NewRecorder(trial.AgentInfo{Name: "a", Version: "1", Model: &trial.ModelInfo{Name: "m"}}, task.Brief{Instruction: "do it"}, onStep)
}

func check(t testing.TB, r *Recorder) (*trajectory.Trajectory, []byte) {
	t.Helper()
	doc := r.Document()
	b, err := trajectory.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if found := trajectory.Validate(b); len(found) > 0 {
		t.Fatalf("%v", found)
	}
	return doc, b
}

func TestRecorder(t *testing.T) {
	var marks []trial.StepMark
	r := newRecorder(func(m trial.StepMark) { marks = append(marks, m) })
	check(t, r)
	r.System("offline")
	r.Say("thinking")
	c := r.Call("bash", map[string]string{"command": "ls"})
	check(t, r) // a call that never returns is valid too
	c.Done("a\nb\n")
	c.Done("more")
	one := int64(1)
	r.Turn(trajectory.AgentStep{Message: "done", LLMCalls: &one, Metrics: &trajectory.Metrics{PromptTokens: &one}})
	two := trajectory.ToolCall{ID: "t", Function: "read", Arguments: json.RawMessage(`{}`)}
	id := r.Turn(trajectory.AgentStep{Message: "look", Calls: []trajectory.ToolCall{two}, LLMCalls: &one})
	check(t, r)
	long := trajectory.Text(strings.Repeat("x", maxText+1))
	r.Observe(id, trajectory.ObservationResult{CallID: "t", Content: &long})
	r.Observe(0, trajectory.ObservationResult{CallID: "of a step that was refused"})
	doc, _ := check(t, r)
	if got := doc.Steps[5].Observation.Results[0].Content.Text; !strings.HasSuffix(got, "[1 bytes cut]") {
		t.Errorf("a late observation of %d bytes is not cut", len(got))
	}
	if len(doc.Steps) != 6 || doc.Steps[0].Message.Text != "do it" || doc.Agent.ModelName != "m" {
		t.Errorf("%+v", doc)
	}
	if got := doc.Steps[3].Observation.Results; len(got) != 2 || got[0].Content.Text != "a\nb\n" || got[0].CallID != doc.Steps[3].ToolCalls[0].ID {
		t.Errorf("observation %+v", got)
	}
	want := []trial.StepMark{{StepID: 2, Source: "system", Text: "offline"}, {StepID: 3, Source: "agent", Text: "thinking"},
		{StepID: 4, Source: "agent", Text: "ls", Tool: "bash"}, {StepID: 5, Source: "agent", Text: "done"},
		{StepID: 6, Source: "agent", Text: "look", Tool: "read"}}
	if !reflect.DeepEqual(marks, want) {
		t.Errorf("marks %+v", marks)
	}
}

// Texts are cut, at a character, with a marker; events get far less.
func TestRecorderCuts(t *testing.T) {
	var mark trial.StepMark
	r := newRecorder(func(m trial.StepMark) { mark = m })
	r.Say(strings.Repeat("ä", 1<<20))
	doc, _ := check(t, r)
	text := doc.Steps[1].Message.Text
	if len(text) > maxText+100 || !utf8.ValidString(text) || !strings.HasSuffix(text, "\n[1048576 bytes cut]") {
		t.Errorf("%d bytes, ending %q", len(text), text[len(text)-40:])
	}
	if len(mark.Text) > maxMark || !utf8.ValidString(mark.Text) {
		t.Errorf("mark of %d bytes", len(mark.Text))
	}
	r.limit = 2 << 20
	for range 50 {
		r.Call("bash", map[string]string{"command": "yes"}).Done(strings.Repeat("y\n", 1<<19))
	}
	if _, b := check(t, r); len(b) > 6<<20 {
		t.Errorf("a document of %d bytes", len(b))
	}
}

// What no document can hold is noted, and the document stays valid.
func TestRecorderRefuses(t *testing.T) {
	calls := 0
	r := newRecorder(func(trial.StepMark) { calls++ })
	if id := r.Turn(trajectory.AgentStep{Results: []trajectory.ObservationResult{{CallID: "nobody"}}}); id != 0 {
		t.Errorf("a step that cannot be has id %d", id)
	}
	r.Turn(trajectory.AgentStep{Calls: []trajectory.ToolCall{{ID: "c", Function: "f", Arguments: json.RawMessage("{")}}})
	doc, _ := check(t, r)
	if len(doc.Steps) != 1 || !strings.Contains(doc.Notes, "could not be recorded") || calls != 0 {
		t.Errorf("%d steps, notes %q, %d marks", len(doc.Steps), doc.Notes, calls)
	}
	r.Say("bad bytes \xff\xfe\x00")
	check(t, r)
}

func TestRecorderConcurrently(t *testing.T) {
	last := 0
	r := newRecorder(func(m trial.StepMark) {
		if m.StepID != last+1 && last != 0 {
			t.Errorf("step %d after %d", m.StepID, last)
		}
		last = m.StepID
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				r.Call("bash", map[string]string{"command": "x"}).Done("y")
				r.Document()
			}
		})
	}
	wg.Wait()
	doc, _ := check(t, r)
	ids := map[string]bool{}
	for _, s := range doc.Steps[1:] {
		ids[s.ToolCalls[0].ID] = true
		if len(s.Observation.Results) != 1 {
			t.Errorf("step %d: %+v", s.ID, s.Observation)
		}
	}
	if len(ids) != 200 || last != 201 {
		t.Errorf("%d calls, last step %d", len(ids), last)
	}
}

// No agent can reach the key: nothing that it is given, or gives, holds one.
func TestNoKeyInReach(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(ty reflect.Type, path string)
	walk = func(ty reflect.Type, path string) {
		if seen[ty] {
			return
		}
		seen[ty] = true
		for _, forbidden := range []reflect.Type{reflect.TypeFor[task.Key](), reflect.TypeFor[task.Task]()} {
			if ty == forbidden {
				t.Errorf("%s leads to a %s", path, ty)
			}
		}
		switch ty.Kind() {
		case reflect.Struct:
			for i := range ty.NumField() {
				walk(ty.Field(i).Type, path+"."+ty.Field(i).Name)
			}
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			walk(ty.Elem(), path)
		case reflect.Map:
			walk(ty.Key(), path)
			walk(ty.Elem(), path)
		case reflect.Interface, reflect.Func:
			for i := range ty.NumMethod() {
				walk(ty.Method(i).Type, path+"."+ty.Method(i).Name)
			}
			if ty.Kind() == reflect.Func {
				for i := range ty.NumIn() {
					walk(ty.In(i), path)
				}
				for i := range ty.NumOut() {
					walk(ty.Out(i), path)
				}
			}
		}
	}
	walk(reflect.TypeFor[Session](), "Session")
	walk(reflect.TypeFor[Needs](), "Needs")
	walk(reflect.TypeFor[Agent](), "Agent")
	if len(seen) < 30 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

func TestReportAdds(t *testing.T) {
	var r Report
	r.Add(Ran{CPU: 3, MaxRSS: 10})
	r.Add(Ran{CPU: 4, MaxRSS: 7, TimedOut: true})
	if *r.CPU != 7 || *r.MaxRSS != 10 || !r.TimedOut {
		t.Errorf("%+v", r)
	}
}
