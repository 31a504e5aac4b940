package model

import (
	"maps"
	"slices"
	"strings"
)

// Collect makes an answer of the deltas of its stream.
func Collect(deltas []Delta) Response {
	var c Collector
	for _, d := range deltas {
		c.Add(d)
	}
	return c.Response()
}

// Collector puts the deltas of one stream together as they come. The zero
// value is ready.
type Collector struct {
	parts map[int]*growing
	resp  Response
	done  bool
}

// growing is a part whose text comes in pieces.
type growing struct {
	part Part
	text strings.Builder // of text, reasoning, refusal or arguments
	sign strings.Builder
}

// Add takes one delta.
func (c *Collector) Add(d Delta) {
	switch d.Kind {
	case DeltaStart:
		c.resp.ID, c.resp.Model = d.ID, d.Model
		if d.Usage != nil {
			c.resp.Usage = d.Usage
		}
	case DeltaText:
		c.at(d, PartText).text.WriteString(d.Text)
	case DeltaReasoning:
		c.at(d, PartReasoning).text.WriteString(d.Text)
	case DeltaSignature:
		c.at(d, PartReasoning).sign.WriteString(d.Text)
	case DeltaRefusal:
		c.at(d, PartRefusal).text.WriteString(d.Text)
	case DeltaCall:
		g := c.at(d, PartCall)
		call := *d.Call
		g.text.WriteString(call.Arguments)
		call.Arguments = ""
		g.part.Call = &call
	case DeltaArguments:
		g := c.at(d, PartCall)
		if g.part.Call == nil {
			g.part.Call = &Call{}
		}
		g.text.WriteString(d.Text)
	case DeltaPart:
		c.whole(d)
	case DeltaUsage:
		c.resp.Usage = d.Usage
	case DeltaTokens:
		c.tokens(d.Tokens)
	case DeltaStop:
		c.resp.Stop = d.Stop
	case DeltaError:
		c.resp.Err = d.Err
	case DeltaDone:
		c.done = true
	}
}

// Whole reports whether the stream has said that it is complete, or why it
// ended: what follows may be lost without harm.
func (c *Collector) Whole() bool { return c.done || c.resp.Stop != StopUnknown || c.resp.Err != nil }

// Usage is what is known so far; nil: nothing.
func (c *Collector) Usage() *Usage { return c.resp.Usage }

// Response is what the stream has said so far. If it ended here, without its
// end mark, it is [StopCut].
func (c *Collector) Response() Response {
	r := c.resp
	r.Message = Message{Role: RoleAssistant}
	for _, i := range slices.Sorted(maps.Keys(c.parts)) {
		r.Message.Parts = append(r.Message.Parts, c.parts[i].Part())
	}
	switch {
	case r.Err != nil:
		r.Stop = StopError
	case !c.Whole():
		r.Stop = StopCut
	}
	return r
}

// at returns the part of d, which begins as kind if it is new.
func (c *Collector) at(d Delta, kind PartKind) *growing {
	if c.parts == nil {
		c.parts = map[int]*growing{}
	}
	g := c.parts[d.Index]
	if g == nil {
		g = &growing{part: Part{Kind: kind}}
		c.parts[d.Index] = g
	}
	return g
}

func (c *Collector) whole(d Delta) {
	g := c.at(d, d.Part.Kind)
	g.text.Reset()
	g.sign.Reset()
	g.part = *d.Part
	g.sign.WriteString(d.Part.Signature)
	if d.Part.Call != nil {
		call := *d.Part.Call
		g.text.WriteString(call.Arguments)
		call.Arguments = ""
		g.part.Call = &call
		return
	}
	g.text.WriteString(d.Part.Text)
}

// Part is what has come of it.
func (g *growing) Part() Part {
	p := g.part
	p.Signature = g.sign.String()
	if p.Call != nil {
		call := *p.Call
		call.Arguments = g.text.String()
		p.Call = &call
		return p
	}
	p.Text = g.text.String()
	return p
}

func (c *Collector) tokens(t *Tokens) {
	if c.resp.Tokens == nil {
		c.resp.Tokens = &Tokens{}
	}
	all := c.resp.Tokens
	all.Prompt = append(all.Prompt, t.Prompt...)
	all.Completion = append(all.Completion, t.Completion...)
	all.Logprobs = append(all.Logprobs, t.Logprobs...)
}

// Deltas is a whole answer as a stream of one piece for each part.
func (r *Response) Deltas() []Delta {
	out := []Delta{{Kind: DeltaStart, ID: r.ID, Model: r.Model}}
	for i, p := range r.Message.Parts {
		out = append(out, Delta{Kind: DeltaPart, Index: i, Part: &p}, Delta{Kind: DeltaEnd, Index: i})
	}
	if r.Tokens != nil {
		out = append(out, Delta{Kind: DeltaTokens, Tokens: r.Tokens})
	}
	if r.Usage != nil {
		out = append(out, Delta{Kind: DeltaUsage, Usage: r.Usage})
	}
	if r.Err != nil {
		return append(out, Delta{Kind: DeltaError, Err: r.Err})
	}
	return append(out, Delta{Kind: DeltaStop, Stop: r.Stop}, Delta{Kind: DeltaDone})
}
