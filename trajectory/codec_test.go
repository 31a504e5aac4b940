package trajectory

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite goldens")

// full has every key of the format set.
func full() *Trajectory {
	n, f := ptr[int64], ptr[float64]
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	extra := map[string]json.RawMessage{"b": raw(`[1,{"x":"<&>"}]`), "a": raw(`null`)}
	step := Step{
		ID: 2, Timestamp: "2026-01-02T03:04:05.000001Z", Source: Agents, ModelName: "m-2", ReasoningEffort: raw(`"high"`),
		Message: Content{Parts: []Part{
			{Type: PartText, Text: ptr("see\n\"this\"")},
			{Type: PartImage, Media: &Media{MediaType: "image/png", Path: "https://example.com/a.png"}},
			{Type: PartAudio, Media: &Media{MediaType: "audio/wav", Path: "s3://bucket/a.wav", Duration: f(1.5)}},
		}},
		ReasoningContent: ptr("because"),
		ToolCalls:        []ToolCall{{ID: "c1", Function: "bash", Arguments: raw(`{"command":"ls","n":1.0}`), Extra: extra}},
		Observation: &Observation{Results: []ObservationResult{
			{CallID: "c1", Content: ptr(Text("a.txt\n")), Extra: extra},
			{Content: &Content{Parts: []Part{}}, Subagents: []SubagentRef{{TrajectoryID: "sub", SessionID: "s", Extra: extra}, {TrajectoryPath: "sub.json"}}},
		}},
		Metrics: &Metrics{PromptTokens: n(10), CompletionTokens: n(0), CachedTokens: n(4), CostUSD: f(0.25), PromptTokenIDs: []int64{1, 2},
			CompletionTokenIDs: []int64{}, Logprobs: []float64{-0.5, 0}, Extra: extra},
		CopiedContext: ptr(false), LLMCalls: n(2), Extra: extra,
	}
	first := Step{ID: 1, Source: User, Message: Text("Write 42 – ünïcode.")}
	return &Trajectory{
		SchemaVersion: Version, SessionID: "run-1", TrajectoryID: "t-1",
		Agent: Agent{Name: "scripted", Version: "1.2", ModelName: "m-1", ToolDefinitions: []json.RawMessage{raw(`{"type":"function"}`)}, Extra: extra},
		Steps: []Step{first, step}, Notes: "two steps",
		FinalMetrics: &FinalMetrics{PromptTokens: n(10), CompletionTokens: n(0), CachedTokens: n(4), CostUSD: f(0.25), Steps: n(2), Extra: extra},
		ContinuedRef: "next.json", Extra: extra,
		Subagents: []Trajectory{{SchemaVersion: "ATIF-v1.7", TrajectoryID: "sub", Agent: Agent{Name: "s", Version: "1"}, Steps: []Step{first}}},
	}
}

func TestGolden(t *testing.T) {
	got := valid(t, full())
	name := filepath.Join("testdata", "full.golden.json")
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	back, err := Read(strings.NewReader(string(got)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(full(), back); d != "" {
		t.Errorf("-wrote +read:\n%s", d)
	}
}

// A foreign document keeps what the format does not know, in every object,
// and values of the wrong type, under their keys.
func TestLenientReadingLosesNothing(t *testing.T) {
	in := `{"schema_version":"ATIF-v2.0","future":[1.50],"agent":{"name":"a","version":2,"mood":"good"},` +
		`"steps":[{"step_id":"1","source":"tool","message":{"text":"x"},"metrics":{"prompt_tokens":"many","cost_usd":"0.5","extra":7}},` +
		`{"step_id":2.0,"source":"agent","message":[{"type":"video","frames":3}],"is_copied_context":"yes","tool_calls":[{"tool_call_id":1,"arguments":{}}]}],` +
		`"final_metrics":[],"notes":null}`
	doc, err := Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	s := doc.Steps
	if doc.SchemaVersion != "ATIF-v2.0" || doc.Agent.Name != "a" || doc.Agent.Version != "" || len(s) != 2 || s[0].ID != 1 || s[1].ID != 2 {
		t.Fatalf("%+v", doc)
	}
	if *s[0].Metrics.CostUSD != 0.5 || s[0].Metrics.PromptTokens != nil || !s[1].copied() || s[1].Message.Parts[0].Type != "video" {
		t.Errorf("%+v", s)
	}
	out, err := Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{`"future": [`, `1.50`, `"version": 2`, `"mood": "good"`, `"prompt_tokens": "many"`, `"extra": 7`, `"frames": 3`, `"tool_call_id": 1`, `"final_metrics": []`, `"message": {`} {
		if !strings.Contains(string(out), kept) {
			t.Errorf("%s was lost:\n%s", kept, out)
		}
	}
	if n := strings.Count(string(out), `"version"`); n != 1 {
		t.Errorf("version stands %d times", n)
	}
	again, err := Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(doc, again); d != "" {
		t.Errorf("-first +second reading:\n%s", d)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, bad := range []string{``, `null`, `[]`, `7`, `{"steps":[}`, `{} {}`, "\ufeff{}", strings.Repeat(`{"extra":`, 20000)} {
		if doc, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%.20q was read as %+v", bad, doc)
		}
	}
	if _, err := Read(endless{}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestContentAsText(t *testing.T) {
	if got := full().Steps[1].Message.String(); got != "see\n\"this\"\n[image: https://example.com/a.png]\n[audio: s3://bucket/a.wav]" {
		t.Errorf("%q", got)
	}
	if Text("x").String() != "x" || CanonicalAudio(" Audio/X-WAV ") != "audio/wav" || CanonicalAudio("audio/opus") != "audio/opus" {
		t.Error("text or audio types")
	}
}

func TestRoundTripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := draw(t)
		b, err := Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if d := cmp.Diff(doc, back); d != "" {
			t.Fatalf("-wrote +read:\n%s", d)
		}
		if found := Validate(b); len(found) > 0 {
			t.Fatalf("%v\n%s", found, b)
		}
	})
}

// draw makes a valid document.
func draw(t *rapid.T) *Trajectory {
	word := rapid.StringN(0, 10, -1)
	count := rapid.Ptr(rapid.Int64Range(0, 1<<40), true)
	doc := &Trajectory{
		SchemaVersion: rapid.SampledFrom(Versions()).Draw(t, "version"), SessionID: word.Draw(t, "session"), Notes: word.Draw(t, "notes"),
		Agent: Agent{Name: word.Draw(t, "name"), Version: word.Draw(t, "agent version"), ModelName: word.Draw(t, "model")},
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
		s := Step{ID: int64(i + 1), Source: rapid.SampledFrom([]Source{System, User, Agents}).Draw(t, "source"), Message: drawContent(t)}
		if rapid.Bool().Draw(t, "timed") {
			s.Timestamp = stamp(time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "at")))
		}
		var ids []string
		if s.Source == Agents {
			for range rapid.IntRange(0, 2).Draw(t, "calls") {
				ids = append(ids, rapid.StringN(1, 5, -1).Draw(t, "call"))
				s.ToolCalls = append(s.ToolCalls, ToolCall{ID: ids[len(ids)-1], Function: word.Draw(t, "function"), Arguments: json.RawMessage(`{"a":[1,null]}`)})
			}
			if rapid.Bool().Draw(t, "metered") {
				s.Metrics = &Metrics{PromptTokens: count.Draw(t, "prompt"), CostUSD: rapid.Ptr(rapid.Float64Range(0, 100), true).Draw(t, "cost")}
			}
			s.ReasoningContent = rapid.Ptr(word, true).Draw(t, "reasoning")
		}
		if rapid.Bool().Draw(t, "observed") {
			s.Observation = &Observation{Results: []ObservationResult{{Content: ptr(drawContent(t))}}}
			for _, id := range ids {
				s.Observation.Results = append(s.Observation.Results, ObservationResult{CallID: id})
			}
		}
		doc.Steps = append(doc.Steps, s)
	}
	if rapid.Bool().Draw(t, "final") {
		doc.FinalMetrics = &FinalMetrics{Steps: count.Draw(t, "total")}
	}
	return doc
}

func drawContent(t *rapid.T) Content {
	if rapid.Bool().Draw(t, "plain") {
		return Text(rapid.StringN(0, 20, -1).Draw(t, "text"))
	}
	parts := []Part{}
	for range rapid.IntRange(0, 2).Draw(t, "parts") {
		if rapid.Bool().Draw(t, "media") {
			parts = append(parts, Part{Type: PartImage, Media: &Media{MediaType: rapid.SampledFrom(imageTypes()).Draw(t, "type"), Path: "x://y"}})
		} else {
			parts = append(parts, Part{Type: PartText, Text: ptr(rapid.String().Draw(t, "part"))})
		}
	}
	return Content{Parts: parts}
}

// What can be read can be written, reads back the same, and neither validator
// nor measures trip over it.
func FuzzParse(f *testing.F) {
	for _, d := range corpus() {
		f.Add([]byte(d.json))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found := Validate(data)
		doc, err := Parse(data)
		if err != nil {
			if len(found) == 0 {
				t.Fatalf("valid, but cannot be read: %v", err)
			}
			return
		}
		doc.Measure()
		out, err := Marshal(doc)
		if err != nil {
			t.Fatalf("read but cannot be written: %v", err)
		}
		back, err := Parse(out)
		if err != nil {
			t.Fatalf("written but cannot be read: %v\n%s", err, out)
		}
		if again, err := Marshal(back); err != nil || string(again) != string(out) {
			t.Fatalf("second writing differs (%v):\n%s\n%s", err, out, again)
		}
		if left := Validate(out); len(found) == 0 && len(left) > 0 {
			t.Fatalf("writing broke a valid document: %v\n%s", left, out)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	doc := full()
	for i := range 2000 {
		s := doc.Steps[1]
		s.ID = int64(i + 3)
		doc.Steps = append(doc.Steps, s)
	}
	data, err := Marshal(doc)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
