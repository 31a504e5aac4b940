package atif

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/gateway"
	"assay/internal/model"
	"assay/internal/model/anthropic"
	"assay/internal/model/gemini"
	"assay/internal/model/openai"
	"assay/internal/model/scripted"
	"assay/trajectory"
)

func codecs() model.Codecs {
	return model.Codecs{model.Chat: openai.Chat{}, model.Responses: openai.Responses{}, model.Messages: anthropic.Messages{}, model.Gemini: gemini.Gemini{}}
}

const script = `
faults:
  - {kind: rate-limit, first: 1}
turns:
  - {reasoning: First I look., text: Let me look., calls: [{bash: ls -l}, {bash: cat a.txt}]}
  - {text: Half of it, calls: [{bash: echo more}], fault: {kind: cut, each: 1, events: 1}}
  - {calls: [{tool: unheard, args: {x: 1}}]}
  - {text: Done.}
`

// A conversation through the gateway, in every dialect, streamed and not, with
// a rate limit and a cut stream in it, becomes a document that says what was
// said.
func TestRecorded(t *testing.T) {
	for d, codec := range codecs() {
		for _, stream := range []bool{false, true} {
			t.Run(string(d)+map[bool]string{true: " streamed"}[stream], func(t *testing.T) { recorded(t, codec, stream) })
		}
	}
}

func recorded(t *testing.T, codec model.Codec, stream bool) {
	k, doc := session(t, codec, stream)
	doc = checked(t, k, doc)
	wantShape(t, doc, "sua!!..a!.a!.a")
	if len(doc.Subagents) != 0 {
		t.Errorf("%d embedded documents", len(doc.Subagents))
	}
	tries := 0
	for _, s := range doc.Steps {
		var n turnNote
		if json.Unmarshal(s.Extra["assay"], &n) == nil {
			tries += len(n.Retries)
		}
	}
	if tries < 2 {
		t.Errorf("%d tries were joined, want the rate limit and the cut answer", tries)
	}
}

// session lets an agent work through a gateway, and returns what was recorded.
func session(t *testing.T, codec model.Codec, stream bool) (*talk, *trajectory.Trajectory) {
	t.Helper()
	f, err := scripted.Parse("script", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	h, err := scripted.New(f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Codecs: codecs()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dir := filepath.Join(t.TempDir(), "model")
	s, err := g.Open(gateway.SessionConfig{Trial: "t", Dir: dir, Upstream: &gateway.Upstream{Name: "scripted", Model: "m", Handler: h}})
	if err != nil {
		t.Fatal(err)
	}
	client := &model.Client{Codec: codec, Base: s.Base(), Key: s.Key(), Transport: s.Transport(), Sleep: func(context.Context, time.Duration) error { return nil }}
	work(t, client, stream)
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := gateway.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	k := &talk{}
	for _, c := range rec.Calls() {
		x, err := rec.Exchange(c.Seq, codecs())
		if err != nil {
			t.Fatal(err)
		}
		if x.Host != gateway.InProcess {
			t.Errorf("call %d went to %q", c.Seq, x.Host)
		}
		k.xs = append(k.xs, x)
	}
	doc, err := FromRecord(info(), brief, rec, codecs(), Options{Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return k, doc
}

// work is an agent: it asks until no tool is wanted.
func work(t *testing.T, c *model.Client, stream bool) {
	t.Helper()
	r := model.Request{Model: "m", Messages: []model.Message{say(model.RoleSystem, "You are an agent."), say(model.RoleUser, brief)},
		Tools: []model.Tool{{Name: "bash", Description: "Runs a command.", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}}
	for range 20 {
		var res model.Response
		var err error
		for range 5 { // a client that began to read a stream is told, and asks again itself
			if stream {
				res, err = c.Stream(t.Context(), r, func(model.Delta) {})
			} else {
				res, err = c.Complete(t.Context(), r)
			}
			var e *model.Error
			if err == nil || !errors.As(err, &e) || !e.Passing() {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Messages = append(r.Messages, res.Message)
		calls := res.Calls()
		if len(calls) == 0 {
			if !strings.Contains(res.Message.Text(), "Done.") {
				t.Errorf("ended with %q", res.Message.Text())
			}
			return
		}
		for i, call := range calls {
			m := result(call.ID, "output of "+strings.Repeat("call ", i+1)+call.Arguments)
			m.Parts[0].Result.Name = call.Name
			r.Messages = append(r.Messages, m)
		}
	}
	t.Error("it never ends")
}

// A record without a call of the work has no trajectory.
func TestRecordOfNothing(t *testing.T) {
	g, err := gateway.New(gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dir := filepath.Join(t.TempDir(), "model")
	s, err := g.Open(gateway.SessionConfig{Trial: "t", Dir: dir, Upstream: &gateway.Upstream{Name: "none", URL: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := gateway.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var doc *trajectory.Trajectory
	if doc, err = FromRecord(info(), brief, rec, nil, Options{}); doc != nil || err != nil {
		t.Errorf("%v %v", doc, err)
	}
}
