package model_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/model"
	"assay/internal/model/anthropic"
	"assay/internal/model/gemini"
	"assay/internal/model/modeltest"
	"assay/internal/model/openai"
)

var update = flag.Bool("update", false, "write the tables of docs/dialects.md")

func codecs() model.Codecs {
	return model.Codecs{
		model.Chat: openai.Chat{}, model.Responses: openai.Responses{},
		model.Messages: anthropic.Messages{}, model.Gemini: gemini.Gemini{},
	}
}

// pairs calls f for each agent's dialect and each other one of a provider.
func pairs(t *testing.T, f func(t *testing.T, agent, provider model.Codec)) {
	for _, a := range model.Dialects() {
		for _, p := range model.Dialects() {
			if a != p {
				t.Run(string(a)+" by "+string(p), func(t *testing.T) { f(t, codecs()[a], codecs()[p]) })
			}
		}
	}
}

func sink(t *testing.T, d model.Dialect, what string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/sink", string(d)+"."+what+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// everything is a request that says all that an agent of the dialect may say.
func everything(t *testing.T, c model.Codec) model.Request {
	t.Helper()
	r, err := c.ParseRequest("/v1beta/models/m:streamGenerateContent", sink(t, c.Dialect(), "request"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// said is what must not change on the way, in words that each dialect has.
type said struct {
	Model, Choice     string
	Words             []string // of system and user, in order
	Model2            []string // the model's own words
	Calls, Results    []string
	Tools             []string
	Sampling          map[string]any
	Parallel, Format  string
	Stream, HasSystem bool
}

func digest(r model.Request) said {
	s := said{Model: r.Model, Choice: string(r.Choice), Stream: r.Stream}
	number := map[string]int{}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch {
			case p.Kind == model.PartCall:
				c := p.Call.Flat()
				number[p.Call.ID] = len(number)
				s.Calls = append(s.Calls, c.Name+compact(c.Arguments))
			case p.Kind == model.PartResult:
				var text []string
				for _, in := range p.Result.Parts {
					if in.Kind == model.PartText {
						text = append(text, in.Text)
					}
				}
				n := number[p.Result.CallID]
				s.Results = append(s.Results, fmt.Sprint(n, " ", strings.Join(text, "|")))
			case p.Kind == model.PartText && m.Role == model.RoleAssistant:
				s.Model2 = append(s.Model2, p.Text)
			case p.Kind == model.PartText:
				for w := range strings.SplitSeq(p.Text, "\n\n") {
					s.Words = append(s.Words, w)
				}
			}
		}
		s.HasSystem = s.HasSystem || m.Role == model.RoleSystem
	}
	for _, t := range r.Tools {
		if t.Hosted == "" {
			s.Tools = append(s.Tools, model.FlatName(t.Namespace, t.Name)+": "+t.Description)
		}
	}
	b, _ := json.Marshal(r.Sampling)
	_ = json.Unmarshal(b, &s.Sampling)
	if r.Parallel != nil {
		s.Parallel = fmt.Sprint(*r.Parallel)
	}
	if r.Format != nil {
		s.Format = "json " + compact(string(r.Format.Schema))
	}
	return s
}

func compact(s string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(s)) != nil {
		return s
	}
	return b.String()
}

// What a request says arrives in any other dialect, or is listed as lost.
func TestRequestsTranslated(t *testing.T) {
	pairs(t, func(t *testing.T, agent, provider model.Codec) {
		r := everything(t, agent)
		path, body, losses, err := provider.FormatRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := provider.ParseRequest(path, body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		want, got := digest(r), digest(back)
		for _, l := range losses {
			delete(want.Sampling, l.Field)
			switch l.Field {
			case "parallel_tool_calls":
				want.Parallel = ""
			case "stop", "seed", "top_k":
				delete(want.Sampling, l.Field)
			}
		}
		slices.Sort(want.Words) // what a result shows may be said after it
		slices.Sort(got.Words)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-said +arrived):\n%s\n%s\nlosses: %v", d, body, losses)
		}
	})
}

// An answer arrives in any other dialect, whole and streamed alike, with the
// same losses.
func TestAnswersTranslated(t *testing.T) {
	pairs(t, func(t *testing.T, agent, provider model.Codec) {
		asked := everything(t, agent)
		r, err := provider.ParseResponse(sink(t, provider.Dialect(), "answer"))
		if err != nil {
			t.Fatal(err)
		}
		body, losses := agent.FormatResponse(asked, r)
		whole, err := agent.ParseResponse(body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		asked.Usage = true
		enc := agent.Encode(asked)
		var out []byte
		for _, d := range r.Deltas() {
			out = append(out, enc.Next(d)...)
		}
		streamed, err := modeltest.Decode(agent, modeltest.Events(t, out))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if d := modeltest.Same(bare(whole), bare(streamed)); d != "" {
			t.Errorf("(-whole +streamed):\n%s\n%s", d, out)
		}
		if len(whole.Calls()) != 1 || compact(whole.Calls()[0].Arguments) != `{"command":"ls"}` ||
			whole.Message.Text() != "I look." || whole.Stop != model.StopCalls || *whole.Usage.Input != 10 || *whole.Usage.Output != 5 {
			t.Errorf("%+v", whole)
		}
		if a, b := fields(losses), fields(enc.Losses()); !slices.Equal(a, b) {
			t.Errorf("losses of the whole answer %v, of its stream %v", a, b)
		}
	})
}

// bare is what an answer says, without the fields of its wire.
func bare(r model.Response) model.Response {
	r.Extra, r.Message.Extra, r.Dialect, r.Tokens = nil, nil, "", nil
	if u := r.Usage; u != nil { // what is demanded and unknown is 0
		for _, n := range []**int64{&u.Cached, &u.CacheWrite, &u.Reasoning} {
			if *n != nil && **n == 0 {
				*n = nil
			}
		}
	}
	for i := range r.Message.Parts {
		p := &r.Message.Parts[i]
		p.Extra, p.Raw, p.Dialect = nil, nil, ""
		if p.Call != nil {
			p.Call.Arguments = compact(p.Call.Arguments)
		}
	}
	return r
}

func fields(losses []model.Loss) []string {
	var all []string
	for _, l := range losses {
		all = append(all, l.Field)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Tools of namespaces and free-form ones come back as the agent knows them,
// although the provider has neither.
func TestCallsAreRestored(t *testing.T) {
	agent, provider := openai.Responses{}, openai.Chat{}
	asked := everything(t, agent)
	call := func(id, name, args string) model.Part {
		return model.Part{Kind: model.PartCall, Call: &model.Call{ID: id, Name: name, Arguments: args}}
	}
	answer := model.Response{ID: "a", Model: "m", Stop: model.StopCalls, Message: model.Message{Parts: []model.Part{
		call("c1", "agents__spawn", `{"n":1}`), call("c2", "patch", `{"input":"*** Begin \"x\""}`), call("c3", "patch", "not JSON"),
		call("", "nobody", "{}"),
	}}}
	want := []model.Call{
		{ID: "c1", Name: "spawn", Namespace: "agents", Arguments: `{"n":1}`},
		{ID: "c2", Name: "patch", Custom: true, Arguments: `*** Begin "x"`},
		{ID: "c3", Name: "patch", Custom: true, Arguments: "not JSON"},
		{ID: fmt.Sprintf("call_%d_3", len(asked.Messages)), Name: "nobody", Arguments: "{}"},
	}
	body, _ := agent.FormatResponse(asked, answer)
	whole, err := agent.ParseResponse(body)
	if d := cmp.Diff(want, whole.Calls()); d != "" || err != nil {
		t.Errorf("whole: %v\n%s", err, d)
	}
	tr := model.Translator{From: provider.Decode(), To: agent.Encode(asked)}
	var out []byte
	for _, e := range modeltest.Events(t, modeltest.Encode(provider, model.Request{}, modeltest.Deltas(answer, 2))) {
		b, err := tr.Next(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	streamed, err := modeltest.Decode(agent, modeltest.Events(t, out))
	if d := cmp.Diff(want[:3], streamed.Calls()[:3]); d != "" || err != nil {
		t.Errorf("streamed: %v\n%s\n%s", err, d, out)
	}
	if text := string(out); !strings.Contains(text, "response.custom_tool_call_input.done") {
		t.Errorf("no custom call in\n%s", text)
	}
}

// The grammar of a free-form tool has another form in each of OpenAI's formats.
func TestGrammarsAreTranslated(t *testing.T) {
	_, body, _, err := openai.Responses{}.FormatRequest(everything(t, openai.Chat{}))
	const want = `"format":{"definition":"start: x","syntax":"lark","type":"grammar"}`
	if err != nil || !strings.Contains(string(body), want) {
		t.Errorf("%v\n%s\nwant %s", err, body, want)
	}
}

// A stream that is cut is cut for the agent too.
func TestCutStreamsStayCut(t *testing.T) {
	pairs(t, func(t *testing.T, agent, provider model.Codec) {
		events := modeltest.Events(t, modeltest.Encode(provider, model.Request{}, modeltest.Deltas(modeltest.Responses()["all"], 3)))
		tr := model.Translator{From: provider.Decode(), To: agent.Encode(model.Request{})}
		var out []byte
		for _, e := range events[:len(events)/2] {
			b, _ := tr.Next(e)
			out = append(out, b...)
		}
		end, ok := tr.End()
		got, err := modeltest.Decode(agent, modeltest.Events(t, append(out, end...)))
		if ok || err != nil || got.Stop != model.StopCut {
			t.Errorf("whole %v, stop %q, %v", ok, got.Stop, err)
		}
	})
}

// The tables of docs/dialects.md are what the code loses.
func TestLossTables(t *testing.T) {
	const path = "../../docs/dialects.md"
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- tables: written by go test ./internal/model -run TestLossTables -update -->\n", "<!-- end of tables -->\n"
	head, rest, ok1 := strings.Cut(string(old), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the tables", path)
	}
	want := head + begin + tables(t) + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(old), want); d != "" {
		t.Errorf("%s differs from the code; run go test ./internal/model -run TestLossTables -update\n%s", path, d)
	}
}

// tables are those of requests by the agent's dialect, and of answers by the
// provider's.
func tables(t *testing.T) string {
	var b strings.Builder
	for _, from := range model.Dialects() {
		rows := map[model.Loss][]string{}
		for _, to := range model.Dialects() {
			if to == from {
				continue
			}
			_, _, losses, err := codecs()[to].FormatRequest(everything(t, codecs()[from]))
			if err != nil {
				t.Fatal(err)
			}
			add(rows, losses, to)
		}
		fmt.Fprintf(&b, "\n### A request in %s\n\n", from)
		table(&b, "cannot be said in", rows)
	}
	for _, from := range model.Dialects() {
		r, err := codecs()[from].ParseResponse(sink(t, from, "answer"))
		if err != nil {
			t.Fatal(err)
		}
		rows := map[model.Loss][]string{}
		for _, to := range model.Dialects() {
			if to != from {
				_, losses := codecs()[to].FormatResponse(everything(t, codecs()[to]), r)
				add(rows, losses, to)
			}
		}
		fmt.Fprintf(&b, "\n### An answer in %s\n\n", from)
		table(&b, "is lost for agents of", rows)
	}
	b.WriteString("\n")
	return b.String()
}

func add(rows map[model.Loss][]string, losses []model.Loss, to model.Dialect) {
	for _, l := range losses {
		rows[l] = append(rows[l], string(to))
	}
}

func table(b *strings.Builder, title string, rows map[model.Loss][]string) {
	fmt.Fprintf(b, "| what | %s | why |\n|---|---|---|\n", title)
	keys := slices.SortedFunc(maps.Keys(rows), func(x, y model.Loss) int {
		return strings.Compare(x.Field+x.Why, y.Field+y.Why)
	})
	for _, l := range keys {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", l.Field, strings.Join(rows[l], ", "), l.Why)
	}
}

// A request of anybody, translated, is one that the other dialect's servers can
// read.
func FuzzTranslate(f *testing.F) {
	for i, d := range model.Dialects() {
		b, err := os.ReadFile(filepath.Join("testdata/sink", string(d)+".request.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, b)
	}
	f.Fuzz(func(t *testing.T, n int, b []byte) {
		all := model.Dialects()
		from := all[uint(n)%uint(len(all))]
		r, err := codecs()[from].ParseRequest("/v1beta/models/m:generateContent", b)
		if err != nil {
			return
		}
		for _, to := range all {
			path, body, _, err := codecs()[to].FormatRequest(r)
			if err != nil {
				continue // of a server's own state
			}
			if _, err := codecs()[to].ParseRequest(path, body); err != nil {
				t.Errorf("%s, written as %s: %v\n%s", from, to, err, body)
			}
		}
	})
}
