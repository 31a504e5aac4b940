package atif

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/internal/model"
	"assay/trajectory"
	"assay/trial"
)

func info() trial.AgentInfo { return trial.AgentInfo{Name: "a", Version: "1"} }

// Missing sees every way in which a document can differ from its traffic.
func TestMissing(t *testing.T) {
	k := &talk{}
	sh := tools("bash")
	m := []model.Message{say(model.RoleUser, brief)}
	k.call(sh, m, answers("think: hm", "I will.", `call c1 bash {"command":"x"}`))
	m = append(m, answers("I will.", `call c1 bash {"command":"x"}`).Message, result("c1", "ok"))
	k.call(sh, m, answers("Done."))
	for name, change := range map[string]func(d *trajectory.Trajectory){
		"nothing":          func(d *trajectory.Trajectory) {},
		"an answer less":   func(d *trajectory.Trajectory) { d.Steps = d.Steps[:2] },
		"an answer twice":  func(d *trajectory.Trajectory) { d.Steps = append(d.Steps, d.Steps[2]) },
		"another order":    func(d *trajectory.Trajectory) { d.Steps[1], d.Steps[2] = d.Steps[2], d.Steps[1] },
		"other words":      func(d *trajectory.Trajectory) { d.Steps[2].Message.Text = "Done!" },
		"more words":       func(d *trajectory.Trajectory) { d.Steps[2].Message.Text = "Done. And more" },
		"other thoughts":   func(d *trajectory.Trajectory) { d.Steps[1].ReasoningContent = nil },
		"another call":     func(d *trajectory.Trajectory) { d.Steps[1].ToolCalls[0].Arguments = []byte(`{"command":"y"}`) },
		"a call less":      func(d *trajectory.Trajectory) { d.Steps[1].ToolCalls = nil },
		"another tool":     func(d *trajectory.Trajectory) { d.Steps[1].ToolCalls[0].Function = "sh" },
		"an output less":   func(d *trajectory.Trajectory) { d.Steps[1].Observation = nil },
		"the brief less":   func(d *trajectory.Trajectory) { d.Steps[0].Message.Text = "" },
		"an invented step": func(d *trajectory.Trajectory) { d.Steps[2].Extra = nil },
		"an invented call": func(d *trajectory.Trajectory) { d.Steps[2].Extra = note(turnNote{Seq: 9}) },
	} {
		d, err := Build(info(), brief, k.xs, Options{})
		if err != nil {
			t.Fatal(err)
		}
		change(d)
		if got := Missing(k.xs, d); (len(got) == 0) != (name == "nothing") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Any traffic at all makes a valid document that says each answer once.
func TestAnyTraffic(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		k := &talk{}
		words := rapid.SampledFrom([]string{"", "a", "b", brief, "a longer text that could be a summary", "```bash\nls\n```", "```x_bash\nls\n```", "\xff"})
		ids := rapid.SampledFrom([]string{"", "c1", "c2"})
		args := rapid.SampledFrom([]string{"", "{}", `{"a": 1}`, `{"b":"a longer text that could be a summary"}`, "[", "x"})
		histories := [][]model.Message{nil}
		n := rapid.IntRange(0, 12).Draw(r, "calls")
		for range n {
			i := rapid.IntRange(0, len(histories)-1).Draw(r, "history")
			m := append([]model.Message(nil), histories[i]...)
			if len(m) > 2 && rapid.IntRange(0, 5).Draw(r, "drop") == 0 {
				m = m[rapid.IntRange(1, len(m)-1).Draw(r, "from"):]
			}
			for range rapid.IntRange(0, 2).Draw(r, "more") {
				if rapid.Bool().Draw(r, "result") {
					m = append(m, result(ids.Draw(r, "id"), words.Draw(r, "text")))
				} else {
					role := rapid.SampledFrom([]model.Role{model.RoleUser, model.RoleSystem, model.RoleAssistant}).Draw(r, "role")
					m = append(m, say(role, words.Draw(r, "text")))
				}
			}
			var a *model.Response
			if rapid.IntRange(0, 3).Draw(r, "answered") > 0 {
				a = answers()
				for range rapid.IntRange(0, 3).Draw(r, "parts") {
					switch rapid.IntRange(0, 2).Draw(r, "kind") {
					case 0:
						a.Message.Parts = append(a.Message.Parts, model.Part{Kind: model.PartText, Text: words.Draw(r, "said")})
					case 1:
						a.Message.Parts = append(a.Message.Parts, model.Part{Kind: model.PartReasoning, Text: words.Draw(r, "thought")})
					case 2:
						a.Message.Parts = append(a.Message.Parts, model.Part{Kind: model.PartCall, Call: &model.Call{ID: ids.Draw(r, "id"), Name: "t", Arguments: args.Draw(r, "args")}})
					}
				}
				a.Stop = rapid.SampledFrom([]model.Stop{model.StopEnd, model.StopCut}).Draw(r, "stop")
			}
			var offered []model.Tool
			if rapid.Bool().Draw(r, "tools") {
				offered = tools("t")
			}
			x := k.call(offered, m, a)
			x.Side = rapid.SampledFrom([]string{"", "", "", "title"}).Draw(r, "side")
			if a == nil {
				x.Err = &model.Error{Kind: model.ErrServer, Status: 500, Message: "no"}
			} else {
				histories = append(histories, append(append([]model.Message(nil), m...), a.Message))
			}
			histories = append(histories, m)
		}
		d, err := Build(info(), brief, k.xs, Options{})
		if err != nil {
			r.Fatal(err)
		}
		b, err := trajectory.Marshal(d)
		if err != nil {
			r.Fatal(err)
		}
		for _, f := range trajectory.Validate(b) {
			r.Errorf("%s", f)
		}
		for _, m := range Missing(k.xs, d) {
			// A request's text may be gone where its client rewrote history.
			if !strings.Contains(m, "its request says") {
				r.Errorf("%s", m)
			}
		}
		if r.Failed() {
			r.Log(fmt.Sprintf("%.8000s", b))
		}
	})
}
