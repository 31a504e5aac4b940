package atif

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"assay/internal/gateway"
	"assay/internal/model"
	"assay/trajectory"
)

// Missing compares a document with the traffic that it was made of and says
// what is not right, nothing when all is: every answer stands in the document
// exactly once, in its words, with its reasoning and calls, and in order; every
// failed call is named once; every result and text of a request is there; and
// no step claims a call that nobody made. It shares no code with what writes
// the document but the caps' marker and how JSON is compared.
func Missing(exchanges []gateway.Exchange, doc *trajectory.Trajectory) (wrong []string) {
	c := &comparison{places: map[int][]place{}, found: map[string]bool{}}
	c.collect("main", doc)
	for i := range doc.Subagents {
		c.collect(doc.Subagents[i].TrajectoryID, &doc.Subagents[i])
	}
	c.beside(doc)
	known := map[int]bool{}
	for _, x := range exchanges {
		known[x.Seq] = true
		if x.Asked != nil {
			c.exchange(x)
		}
	}
	for seq := range c.places {
		if !known[seq] {
			c.add("call %d: in the document, and not in the traffic", seq)
		}
	}
	slices.Sort(c.wrong)
	return c.wrong
}

type comparison struct {
	places map[int][]place
	texts  []string        // all that the document says
	found  map[string]bool // texts of requests that it says; every request repeats them
	wrong  []string
}

// place is where the document tells of a call.
type place struct {
	where, message, reasoning string
	calls                     []string
}

func (c *comparison) add(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

func (c *comparison) collect(name string, t *trajectory.Trajectory) {
	last := 0
	for i := range t.Steps {
		s := &t.Steps[i]
		c.texts = append(c.texts, s.Message.String())
		if s.Observation != nil {
			for _, r := range s.Observation.Results {
				if r.Content != nil {
					c.texts = append(c.texts, r.Content.String())
				}
			}
		}
		var n struct {
			Seq     int
			Retries []try
		}
		json.Unmarshal(s.Extra["assay"], &n)
		for _, t := range n.Retries {
			c.places[t.Seq] = append(c.places[t.Seq], place{"retries", t.Message, t.Reasoning, t.Calls})
		}
		if n.Seq == 0 {
			if s.Source == trajectory.Agents && (s.CopiedContext == nil || !*s.CopiedContext) && (s.LLMCalls == nil || *s.LLMCalls > 0) {
				c.add("%s step %d: an answer of no call", name, i+1)
			}
			continue
		}
		if n.Seq <= last {
			c.add("call %d: after call %d in %s", n.Seq, last, name)
		}
		last = n.Seq
		p := place{where: fmt.Sprintf("%s step %d", name, i+1)}
		if s.Source == trajectory.Agents {
			p.message = s.Message.String()
			if s.ReasoningContent != nil {
				p.reasoning = *s.ReasoningContent
			}
			for _, call := range s.ToolCalls {
				if text, ok := spelled(call); ok {
					p.calls = append(p.calls, text)
				}
			}
		}
		c.places[n.Seq] = append(c.places[n.Seq], p)
	}
}

// spelled is a call as it was on the wire, false for one read out of a text.
func spelled(c trajectory.ToolCall) (string, bool) {
	var n struct{ Form string }
	json.Unmarshal(c.Extra["assay"], &n)
	if n.Form == "text" {
		return "", false
	}
	if n.Form == "" {
		return c.Function + " " + string(c.Arguments), true
	}
	var f struct{ Input, Text string }
	json.Unmarshal(c.Arguments, &f)
	return c.Function + " " + f.Input + f.Text, true
}

// beside collects what the document's extra tells.
func (c *comparison) beside(doc *trajectory.Trajectory) {
	var s struct {
		Side []sideNote
	}
	json.Unmarshal(doc.Extra["assay"], &s)
	for _, n := range s.Side {
		c.places[n.Seq] = append(c.places[n.Seq], place{"side", n.Message, n.Reasoning, n.Calls})
		for _, t := range n.Retries {
			c.places[t.Seq] = append(c.places[t.Seq], place{"side retries", t.Message, t.Reasoning, t.Calls})
		}
	}
}

func (c *comparison) exchange(x gateway.Exchange) {
	found := c.places[x.Seq]
	if len(found) != 1 {
		c.add("call %d: told %d times, not once", x.Seq, len(found))
		return
	}
	p := found[0]
	if x.Answer != nil {
		var message, reasoning, want []string
		for _, part := range x.Answer.Message.Parts {
			switch part.Kind {
			case model.PartText, model.PartRefusal:
				message = append(message, part.Text)
			case model.PartReasoning:
				reasoning = append(reasoning, part.Text)
			case model.PartCall:
				want = append(want, part.Call.Name+" "+part.Call.Arguments)
			}
		}
		c.parts(x.Seq, p.where, "message", message, p.message)
		c.parts(x.Seq, p.where, "reasoning", reasoning, p.reasoning)
		if len(want) != len(p.calls) {
			c.add("call %d: %d tool calls in %s, %d in the traffic", x.Seq, len(p.calls), p.where, len(want))
			return
		}
		for i := range want {
			if !sameCall(want[i], p.calls[i]) {
				c.add("call %d: tool call %d in %s is %.80q, not %.80q", x.Seq, i+1, p.where, p.calls[i], want[i])
			}
		}
	}
	if strings.HasPrefix(p.where, "side") {
		return
	}
	for _, m := range x.Asked.Messages {
		for _, part := range m.Parts {
			text := part.Text
			if part.Kind == model.PartResult && part.Result != nil {
				text = ""
				for _, r := range part.Result.Parts {
					if r.Kind == model.PartText {
						text = r.Text // the last; one of them is enough to find it
					}
				}
			}
			switch part.Kind {
			case model.PartText, model.PartResult:
				if m.Role != model.RoleAssistant && m.Role != model.RoleSystem && !c.says(text) {
					c.add("call %d: its request says %.80q, the document does not", x.Seq, text)
				}
			}
		}
	}
}

// parts checks that texts stand in got in their order and nothing else does.
func (c *comparison) parts(seq int, where, what string, texts []string, got string) {
	rest := got
	for _, t := range texts {
		t = strings.ToValidUTF8(t, "\ufffd")
		if after, ok := strings.CutPrefix(rest, t); ok {
			rest = strings.TrimPrefix(after, "\n\n")
			continue
		}
		if strings.HasSuffix(got, " bytes cut]") {
			return // a cut text is compared as far as it goes
		}
		c.add("call %d: %s in %s is %.80q, not %.80q", seq, what, where, rest, t)
		return
	}
	if strings.TrimSpace(rest) != "" {
		c.add("call %d: %s in %s says more: %.80q", seq, what, where, rest)
	}
}

func sameCall(want, got string) bool {
	wantName, wantArgs, _ := strings.Cut(want, " ")
	gotName, gotArgs, _ := strings.Cut(got, " ")
	if strings.HasSuffix(got, " bytes cut]") {
		return strings.HasPrefix(wantName, head(gotName, len(wantName)))
	}
	if strings.TrimSpace(wantArgs) == "" {
		wantArgs = "{}"
	}
	if strings.TrimSpace(gotArgs) == "" {
		gotArgs = "{}"
	}
	return wantName == gotName && sameArguments(wantArgs) == sameArguments(gotArgs)
}

// says looks for a text of a request.
func (c *comparison) says(text string) bool {
	if c.found[text] {
		return true
	}
	asked := text
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\ufffd"))
	for _, t := range c.texts {
		if strings.Contains(t, text) || strings.HasSuffix(t, " bytes cut]") && strings.HasPrefix(text, t[:min(len(t), 1000)]) {
			c.found[asked] = true
			return true
		}
	}
	return false
}
