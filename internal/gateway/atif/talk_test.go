package atif

import (
	"strings"
	"testing"
	"time"

	"assay/internal/gateway"
	"assay/internal/model"
	"assay/trajectory"
	"assay/trial"
)

const brief = "Create hello.txt with exactly Hello, world!"

// talk is a record made by hand, one call after another.
type talk struct {
	xs  []gateway.Exchange
	now time.Time
}

func ptr[T any](v T) *T { return &v }

// call appends one exchange and returns it for changes.
func (k *talk) call(tools []model.Tool, messages []model.Message, answer *model.Response) *gateway.Exchange {
	if k.now.IsZero() {
		k.now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	}
	k.now = k.now.Add(time.Second)
	x := gateway.Exchange{
		Call: gateway.Call{V: 1, Seq: len(k.xs) + 1, Time: k.now, Model: "m", Millis: 100, Status: 200},
	}
	x.Asked = &model.Request{Model: "m", Messages: append([]model.Message(nil), messages...), Tools: tools}
	x.Answer = answer
	k.xs = append(k.xs, x)
	return &k.xs[len(k.xs)-1]
}

// fail appends a call that brought an error.
func (k *talk) fail(tools []model.Tool, messages []model.Message, e model.Error) *gateway.Exchange {
	x := k.call(tools, messages, nil)
	x.Err, x.Status = &e, e.Status
	return x
}

func say(role model.Role, texts ...string) model.Message {
	m := model.Message{Role: role}
	for _, t := range texts {
		m.Parts = append(m.Parts, model.Part{Kind: model.PartText, Text: t})
	}
	return m
}

func result(id, text string) model.Message {
	return model.Message{Role: model.RoleTool, Parts: []model.Part{{Kind: model.PartResult,
		Result: &model.Result{CallID: id, Parts: []model.Part{{Kind: model.PartText, Text: text}}}}}}
}

// answers are parts of an answer: plain text, "think: …" or "call ID NAME ARGS".
func answers(parts ...string) *model.Response {
	r := &model.Response{ID: "r", Model: "m", Stop: model.StopEnd, Usage: &model.Usage{Input: ptr(int64(100)), Output: ptr(int64(10))},
		Message: model.Message{Role: model.RoleAssistant}}
	for _, p := range parts {
		part := model.Part{Kind: model.PartText, Text: p}
		if t, ok := strings.CutPrefix(p, "think: "); ok {
			part = model.Part{Kind: model.PartReasoning, Text: t}
		} else if t, ok := strings.CutPrefix(p, "call "); ok {
			f := strings.SplitN(t, " ", 3)
			part = model.Part{Kind: model.PartCall, Call: &model.Call{ID: f[0], Name: f[1], Arguments: f[2]}}
			r.Stop = model.StopCalls
		}
		r.Message.Parts = append(r.Message.Parts, part)
	}
	return r
}

func tools(names ...string) (all []model.Tool) {
	for _, n := range names {
		all = append(all, model.Tool{Name: n, Schema: []byte(`{"type":"object"}`)})
	}
	return all
}

// build makes the document and demands that it is valid and says all.
func build(t *testing.T, k *talk) *trajectory.Trajectory {
	t.Helper()
	doc, err := Build(trial.AgentInfo{Name: "a", Version: "1"}, brief, k.xs, Options{Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return checked(t, k, doc)
}

// checked demands that a document is valid, reads back as it was written, and
// says all that the traffic says.
func checked(t testing.TB, k *talk, doc *trajectory.Trajectory) *trajectory.Trajectory {
	t.Helper()
	b, err := trajectory.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range trajectory.Validate(b) {
		t.Errorf("not valid: %s", f)
	}
	back, err := trajectory.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Missing(k.xs, back) {
		t.Error(m)
	}
	if t.Failed() {
		t.Logf("%s", head(string(b), 20_000))
	}
	return back
}

// shape is a document in short: one letter a step (s, u, a; c for copied), with
// the number of calls and results of each.
func shape(d *trajectory.Trajectory) string {
	var b strings.Builder
	for _, s := range d.Steps {
		letter := string(s.Source)[:1]
		if s.CopiedContext != nil && *s.CopiedContext {
			letter = "c"
		}
		b.WriteString(letter)
		if n := len(s.ToolCalls); n > 0 {
			b.WriteString(strings.Repeat("!", n))
		}
		if s.Observation != nil {
			for _, r := range s.Observation.Results {
				if r.Content != nil {
					b.WriteByte('.')
				}
				if len(r.Subagents) > 0 {
					b.WriteByte('>')
				}
			}
		}
	}
	return b.String()
}

func wantShape(t *testing.T, d *trajectory.Trajectory, want string) {
	t.Helper()
	if got := shape(d); got != want {
		t.Errorf("%s has the shape %s, want %s", d.TrajectoryID, got, want)
	}
}
