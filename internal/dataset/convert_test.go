package dataset

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"assay/trajectory"
)

// anyDoc draws a document; rich ones hold what the formats cannot.
func anyDoc(r *rapid.T) *trajectory.Trajectory {
	text := rapid.SampledFrom([]string{"", "a", "two\nlines", "<tool_call>\n{}\n</tool_call>", "\n\nx ", "<think>\nt", `{"a":1}`})
	rich := rapid.Bool().Draw(r, "rich")
	odd := func(what string) bool { return rich && rapid.IntRange(0, 4).Draw(r, what) == 0 }
	t := &trajectory.Trajectory{SchemaVersion: trajectory.Version, Agent: trajectory.Agent{Name: "a", Version: "1"}}
	if rapid.Bool().Draw(r, "tools") {
		t.Agent.ToolDefinitions = []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"t","description":"<x>"}}`)}
	}
	if odd("session") {
		t.SessionID = "s"
	}
	for i := range rapid.IntRange(1, 8).Draw(r, "steps") {
		s := trajectory.Step{ID: int64(i + 1), Source: rapid.SampledFrom([]trajectory.Source{trajectory.User, trajectory.Agents, trajectory.System}).Draw(r, "source"),
			Message: trajectory.Text(text.Draw(r, "message"))}
		if odd("time") {
			s.Timestamp = "2026-01-01T00:00:00Z"
		}
		if s.Source != trajectory.Agents {
			if odd("seen") {
				c := trajectory.Text("seen")
				s.Observation = &trajectory.Observation{Results: []trajectory.ObservationResult{{Content: &c}}}
			}
			t.Steps = append(t.Steps, s)
			continue
		}
		if rapid.Bool().Draw(r, "thinks") {
			think := text.Draw(r, "thought")
			s.ReasoningContent = &think
		}
		if odd("metrics") {
			s.Metrics = &trajectory.Metrics{}
		}
		for j := range rapid.IntRange(0, 2).Draw(r, "calls") {
			id := "c" + strconv.Itoa(i) + "-" + strconv.Itoa(j)
			call := trajectory.ToolCall{ID: id, Function: "t", Arguments: json.RawMessage(`{"q":"<&>","n":1.50}`)}
			switch rapid.IntRange(0, 5).Draw(r, "form") {
			case 0:
				call = formed(id, "t", formCustom, "input", text.Draw(r, "input"))
			case 1:
				call = formed(id, "t", formMalformed, "text", "{half")
			case 2:
				if rich {
					call = formed(id, "sh", formText, "command", "ls")
				}
			}
			s.ToolCalls = append(s.ToolCalls, call)
			if rapid.Bool().Draw(r, "answered") {
				c := trajectory.Text(text.Draw(r, "output"))
				res := trajectory.ObservationResult{CallID: id, Content: &c}
				if odd("loose") {
					res.CallID = ""
				}
				if odd("empty") {
					res.Content = nil
				}
				if s.Observation == nil {
					s.Observation = &trajectory.Observation{}
				}
				s.Observation.Results = append(s.Observation.Results, res)
			}
		}
		t.Steps = append(t.Steps, s)
	}
	return t
}

// renumbered gives calls the ids that FromShareGPT gives.
func renumbered(t *trajectory.Trajectory) *trajectory.Trajectory {
	c := *t
	c.Steps = slices.Clone(t.Steps)
	n := 0
	for i := range c.Steps {
		s := &c.Steps[i]
		s.ToolCalls = slices.Clone(s.ToolCalls)
		ids := map[string]string{}
		for j := range s.ToolCalls {
			n++
			ids[s.ToolCalls[j].ID] = "call_" + strconv.Itoa(n)
			s.ToolCalls[j].ID = ids[s.ToolCalls[j].ID]
		}
		if s.Observation != nil {
			o := *s.Observation
			o.Results = slices.Clone(o.Results)
			for j := range o.Results {
				o.Results[j].CallID = ids[o.Results[j].CallID]
			}
			s.Observation = &o
		}
	}
	return &c
}

// same compares documents; JSON by meaning.
func same(x, y *trajectory.Trajectory) string {
	read := func(t *trajectory.Trajectory) (v any) {
		b, err := trajectory.Marshal(t)
		if err == nil {
			err = json.Unmarshal(b, &v)
		}
		if err != nil {
			return err.Error()
		}
		return v
	}
	return cmp.Diff(read(x), read(y))
}

// A conversation comes back as it was, or the row says what was lost; and it
// says so only then.
func TestChatRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		doc := anyDoc(r)
		chat, lost := ToChat(doc)
		var read Chat
		through(r, chat, &read)
		back := FromChat(read, trajectory.Agent{Name: "a", Version: "1"})
		if diff := same(doc, back); (diff != "") != (len(lost) > 0) {
			r.Errorf("lost %v\n%s", lost, diff)
		}
		again, _ := ToChat(back)
		if diff := cmp.Diff(chat, again, cmpopts.EquateEmpty()); diff != "" {
			r.Errorf("not the same a second time: %s", diff)
		}
	})
}

func TestShareGPTRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		doc := anyDoc(r)
		g, lost := ToShareGPT(doc)
		if len(g.Turns)%2 != 0 {
			r.Errorf("%d turns", len(g.Turns))
		}
		for i, turn := range g.Turns {
			if (turn.From == "gpt") != (i%2 == 1) {
				r.Errorf("turn %d is of %s", i+1, turn.From)
			}
		}
		delete(lost, "tool_call_id") // told for every call; here ids are numbered alike
		var read ShareGPT
		through(r, g, &read)
		back := FromShareGPT(read, trajectory.Agent{Name: "a", Version: "1"})
		if diff := same(renumbered(doc), back); diff != "" && len(lost) == 0 {
			r.Errorf("nothing said to be lost, and it differs: %s\n%s", diff, oneLine(g))
		}
	})
}

// Without anything odd nothing but ids is lost.
func TestShareGPTPlain(t *testing.T) {
	doc := &trajectory.Trajectory{SchemaVersion: trajectory.Version, Agent: trajectory.Agent{Name: "a", Version: "1"}}
	think, out := "hm", trajectory.Text("files")
	doc.Steps = []trajectory.Step{
		{ID: 1, Source: trajectory.System, Message: trajectory.Text("You are.")},
		{ID: 2, Source: trajectory.User, Message: trajectory.Text("Do.")},
		{ID: 3, Source: trajectory.Agents, Message: trajectory.Text("I do."), ReasoningContent: &think,
			ToolCalls:   []trajectory.ToolCall{{ID: "x", Function: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}},
			Observation: &trajectory.Observation{Results: []trajectory.ObservationResult{{CallID: "x", Content: &out}}}},
		{ID: 4, Source: trajectory.Agents, Message: trajectory.Text("Done.")},
	}
	g, lost := ToShareGPT(doc)
	want := ShareGPT{System: "You are.", Turns: []ShareGPTTurn{{"human", "Do."},
		{"gpt", "<think>\nhm\n</think>\n\nI do.\n<tool_call>\n{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}\n</tool_call>"},
		{"observation", "<tool_response>\nfiles\n</tool_response>"}, {"gpt", "Done."}}}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Error(diff)
	}
	if got := slices.Sorted(maps.Keys(lost)); !slices.Equal(got, []string{"tool_call_id"}) {
		t.Errorf("lost %v", got)
	}
	if diff := same(renumbered(doc), FromShareGPT(g, doc.Agent)); diff != "" {
		t.Error(diff)
	}
}

func through(r *rapid.T, from, to any) {
	if err := json.Unmarshal([]byte(oneLine(from)), to); err != nil {
		r.Fatal(err)
	}
}

func TestWhere(t *testing.T) {
	one := 1.0
	row := &Row{Agent: "react", Task: "demo/hard-one", Reward: &one, Trainable: true, Turns: 7, Outcome: "pass"}
	for text, want := range map[string]bool{
		"": true, `reward >= 1 && agent == "react"`: true, `reward > 1`: false, `reward != null && cost_usd == null`: true,
		`cost_usd < 1 || cost_usd >= 0`: false, `!(task ~ "hard")`: false, `task ~ "hard" && !!trainable`: true, `trainable == false`: false,
		`turns <= 7 && turns >= 7 && turns != 8`: true, `agent < "s" && outcome != "fail"`: true, `turns == -1 || turns == 7e0`: true,
	} {
		w, err := ParseWhere("--where", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if w.Holds(row) != want {
			t.Errorf("%s is not %v", text, want)
		}
	}
	for text, want := range map[string]string{
		`rewrd > 1`: `--where:1:1: "rewrd" is no field; fields are id`, `reward > "1"`: `--where:1:10: reward is number`,
		`agent == react`: `:1:10: agent is text`, "turns > 1 &&\n  agent": `--where:2:8: after agent stands the end`, `turns = 1`: `1:7: after turns stands "="`,
		`(turns > 1`: `1:11: a ) is missing before the end`, `turns > 1)`: `1:10: ")" is one too many`, `agent == "x`: `no closing quote`,
		`turns ~ 1`: `turns is number: ~ does not compare that`, `&& turns > 1`: `1:1: a condition is missing`, `turns > 1..2`: `is no number`,
		`reward > null`: `reward is number`, strings.Repeat("(", 200): `nested deeper`,
	} {
		if _, err := ParseWhere("--where", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzWhere(f *testing.F) {
	f.Add(`reward >= 1 && !(agent ~ "x" || trainable)`)
	f.Fuzz(func(t *testing.T, text string) {
		if w, err := ParseWhere("x", text); err == nil {
			w.Holds(&Row{})
		}
	})
}

func FuzzFromShareGPT(f *testing.F) {
	f.Add("<think>\na\n</think>\n\nb\n<tool_call>\n{\"name\":\"x\",\"arguments\":{}}\n</tool_call>", "<tool_response>\nx\n</tool_response>")
	f.Fuzz(func(t *testing.T, said, seen string) {
		FromShareGPT(ShareGPT{Turns: []ShareGPTTurn{{"gpt", said}, {"observation", seen}}}, trajectory.Agent{})
	})
}
