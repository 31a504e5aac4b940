package trajectory

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

func valid(t testing.TB, doc *Trajectory) []byte {
	t.Helper()
	b, err := Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if found := Validate(b); len(found) > 0 {
		t.Fatalf("%v\n%s", found, b)
	}
	return b
}

func begun() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// The document is valid before the first step and after each one.
func TestBuilderIsValidAtAnyMoment(t *testing.T) {
	b := NewBuilder(Agent{Name: "scripted", ModelName: "m"}, "run-1", "Write 42.\n", begun())
	valid(t, b.Trajectory())
	at := begun()
	next := func() time.Time { at = at.Add(time.Second); return at }
	steps := []func() (int64, error){
		func() (int64, error) { return b.AddSystem(next(), Text("you are offline")) },
		func() (int64, error) {
			return b.AddAgent(next(), AgentStep{
				Message: "looking", Reasoning: "where is it?",
				Calls:   []ToolCall{{ID: "c1", Function: "bash", Arguments: json.RawMessage(`{"command":"ls <&>"}`)}, {ID: "c2", Function: "bash"}},
				Results: []ObservationResult{{CallID: "c1", Content: ptr(Text("answer\n"))}},
				Metrics: &Metrics{PromptTokens: ptr[int64](10), CompletionTokens: ptr[int64](2)},
			})
		},
		func() (int64, error) { return b.AddAgent(next(), AgentStep{LLMCalls: ptr[int64](0)}) },
		func() (int64, error) {
			return b.AddUser(next(), Content{Parts: []Part{{Type: PartText, Text: ptr("")}}})
		},
		func() (int64, error) { return b.AddAgent(time.Time{}, AgentStep{Message: "bad bytes \xff\x00 end"}) },
	}
	for i, add := range steps {
		id, err := add()
		if err != nil || id != int64(i+2) {
			t.Fatalf("step %d: id %d, %v", i+2, id, err)
		}
		valid(t, b.Trajectory())
	}
	if err := b.Observe(3, ObservationResult{CallID: "c2", Content: ptr(Text("late"))}); err != nil {
		t.Fatal(err)
	}
	b.Note("one turn")
	doc := b.Trajectory()
	valid(t, doc)
	if n := len(doc.Steps[2].Observation.Results); n != 2 {
		t.Errorf("%d results", n)
	}
	if f := doc.FinalMetrics; *f.Steps != 6 || *f.PromptTokens != 10 || f.CostUSD != nil {
		t.Errorf("final metrics %+v", f)
	}
}

// A step that would break the document is refused and leaves no trace.
func TestBuilderRefuses(t *testing.T) {
	b := NewBuilder(Agent{Name: "a", Version: "1"}, "", "brief", begun())
	for name, s := range map[string]AgentStep{
		"call-reference": {Results: []ObservationResult{{CallID: "nobody"}}},
		"no-model":       {LLMCalls: ptr[int64](0), Metrics: &Metrics{}},
		"type":           {Calls: []ToolCall{{ID: "c", Function: "f", Arguments: json.RawMessage(`[1]`)}}},
		"negative":       {LLMCalls: ptr[int64](-1)},
		"RawMessage":     {Calls: []ToolCall{{ID: "c", Function: "f", Arguments: json.RawMessage(`{`)}}},
	} {
		if _, err := b.AddAgent(begun(), s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.Observe(1, ObservationResult{CallID: "x"}); err == nil {
		t.Error("an observation of no call was taken")
	}
	if err := b.Observe(9); err == nil {
		t.Error("a step that is not there was observed")
	}
	if b.Steps() != 1 {
		t.Errorf("%d steps after refusals", b.Steps())
	}
	valid(t, b.Trajectory())
}

// What Trajectory returned does not change when the agent goes on.
func TestBuilderSnapshotsStand(t *testing.T) {
	b := NewBuilder(Agent{Name: "a", Version: "1"}, "", "brief", begun())
	if _, err := b.AddAgent(begun(), AgentStep{Calls: []ToolCall{{ID: "c", Function: "f"}}}); err != nil {
		t.Fatal(err)
	}
	snapshot := b.Trajectory()
	before := valid(t, snapshot)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := b.AddAgent(begun(), AgentStep{Message: "more"}); err != nil {
					t.Error(err)
				}
				if err := b.Observe(2, ObservationResult{CallID: "c"}); err != nil {
					t.Error(err)
				}
				b.Trajectory()
			}
		})
	}
	wg.Wait()
	if d := cmp.Diff(string(before), string(valid(t, snapshot))); d != "" {
		t.Error(d)
	}
	if b.Steps() != 162 {
		t.Errorf("%d steps", b.Steps())
	}
	valid(t, b.Trajectory())
}
