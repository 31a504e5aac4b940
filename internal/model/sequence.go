package model

import (
	"encoding/json"
	"maps"
	"strings"
)

// Sequencer puts the deltas of any stream into the one order that every
// encoder can write: a start; part after part, each begun, filled and ended
// before the next; then usage, stop and done together. Parallel calls whose
// pieces come interleaved are held until it is their turn. A whole part is
// taken apart, unless it is opaque or media. Indexes are counted anew. Calls
// are those of the request's own tools; see [Request.Restore].
type Sequencer struct {
	Asked Request

	tools   toolIndex
	started bool
	over    bool
	next    int       // index of the next part that begins
	open    *openPart // what may be written to
	waiting []int     // indexes, as they came, of held parts
	held    map[int][]Delta
	closed  map[int]PartKind
	usage   *Usage
	stop    Stop
	extra   map[Dialect]map[string]json.RawMessage // fields of parts that are not known
}

type openPart struct {
	asked    *Request
	tools    toolIndex
	from, to int // index as it came, and as it goes out
	kind     PartKind
	begun    bool
	sent     int // bytes of text or arguments
	signed   int
	wrapped  *strings.Builder // arguments that stand for free text; nil: they do not
}

// Next returns what d becomes.
func (s *Sequencer) Next(d Delta) []Delta {
	if s.over {
		return nil
	}
	switch d.Kind {
	case DeltaStart:
		if s.started {
			return nil
		}
		s.started = true
		return []Delta{d}
	case DeltaUsage:
		s.usage = d.Usage
		return s.begin(nil)
	case DeltaStop:
		s.stop = d.Stop
		return s.begin(nil)
	case DeltaTokens:
		return s.begin([]Delta{d})
	case DeltaError:
		s.over = true
		return append(s.begin(nil), d)
	case DeltaDone:
		return s.finish()
	}
	out := s.part(d)
	for s.open == nil && len(s.waiting) > 0 {
		out = append(out, s.turn()...)
	}
	return s.begin(out)
}

// Losses are the unknown fields of parts, which no encoder for to can write.
func (s *Sequencer) Losses(to Dialect) []Loss {
	var l Losses
	for from, fields := range s.extra {
		if from != to {
			l.Unknown("messages[].", from, fields)
		}
	}
	return l.All()
}

func (s *Sequencer) begin(out []Delta) []Delta {
	if s.started {
		return out
	}
	s.started = true
	return append([]Delta{{Kind: DeltaStart}}, out...)
}

func (s *Sequencer) finish() []Delta {
	out := s.begin(nil)
	out = append(out, s.end()...)
	for len(s.waiting) > 0 {
		out = append(out, s.turn()...)
		out = append(out, s.end()...)
	}
	if s.usage != nil {
		out = append(out, Delta{Kind: DeltaUsage, Usage: s.usage})
	}
	s.over = true
	return append(out, Delta{Kind: DeltaStop, Stop: s.stop}, Delta{Kind: DeltaDone})
}

// part handles a delta of a part.
func (s *Sequencer) part(d Delta) []Delta {
	if s.open != nil && s.open.from == d.Index {
		return s.fill(d)
	}
	if _, ok := s.held[d.Index]; ok {
		s.held[d.Index] = append(s.held[d.Index], d)
		return nil
	}
	if s.late(d) {
		return nil
	}
	if s.open != nil && s.open.kind == PartCall {
		if s.held == nil {
			s.held = map[int][]Delta{}
		}
		s.held[d.Index] = []Delta{d}
		s.waiting = append(s.waiting, d.Index)
		return nil
	}
	return append(s.end(), s.fill(d)...)
}

// late reports whether d adds nothing to a part that was closed already. More
// text after a close begins a part of its own.
func (s *Sequencer) late(d Delta) bool {
	if _, ok := s.closed[d.Index]; !ok {
		return false
	}
	switch d.Kind {
	case DeltaText, DeltaReasoning, DeltaRefusal:
		return d.Text == ""
	}
	return true
}

// fill writes d to the open part, which it opens first if need be.
func (s *Sequencer) fill(d Delta) []Delta {
	if d.Kind == DeltaEnd {
		if s.open == nil {
			return nil // of a part that never began
		}
		return s.end()
	}
	if s.open == nil {
		if s.tools == nil {
			s.tools = s.Asked.toolIndex()
		}
		s.open = &openPart{asked: &s.Asked, tools: s.tools, from: d.Index, to: s.next, kind: kindOfDelta(d)}
		s.next++
	}
	o := s.open
	switch d.Kind {
	case DeltaPart:
		if d.Part.Kind != o.kind {
			return nil
		}
		if o.kind == PartOpaque || o.kind == PartMedia {
			d.Index = o.to
			return []Delta{d}
		}
		s.unknown(d.Part)
		return o.known(d.Part)
	case DeltaSignature:
		return o.write(DeltaSignature, d.Text)
	case DeltaCall:
		if o.kind != PartCall || o.begun {
			return nil
		}
		return o.call(*d.Call)
	}
	return o.write(d.Kind, d.Text)
}

func (s *Sequencer) unknown(p *Part) {
	if p.Extra == nil {
		return
	}
	if s.extra == nil {
		s.extra = map[Dialect]map[string]json.RawMessage{}
	}
	if s.extra[p.Dialect] == nil {
		s.extra[p.Dialect] = map[string]json.RawMessage{}
	}
	maps.Copy(s.extra[p.Dialect], p.Extra)
}

// write gives the part more text. A call whose name never came has none.
func (o *openPart) write(kind DeltaKind, text string) []Delta {
	var out []Delta
	if kind == DeltaArguments && !o.begun {
		out = o.call(Call{})
	}
	if text == "" && o.begun {
		return out
	}
	o.begun = true
	if kind == DeltaSignature {
		o.signed += len(text)
	} else {
		o.sent += len(text)
	}
	if kind == DeltaArguments && o.wrapped != nil {
		o.wrapped.WriteString(text)
		return out
	}
	return append(out, Delta{Kind: kind, Index: o.to, Text: text})
}

func (o *openPart) call(c Call) []Delta {
	o.begun = true
	arguments := c.Arguments
	c.Arguments = ""
	own := o.tools.restore(c)
	if own.Custom && !c.Custom {
		o.wrapped = &strings.Builder{}
		own.Arguments = ""
	}
	if own.ID == "" {
		own.ID = o.asked.callID(o.to)
	}
	out := []Delta{{Kind: DeltaCall, Index: o.to, Call: &own}}
	if arguments != "" {
		out = append(out, o.write(DeltaArguments, arguments)...)
	}
	return out
}

// known writes what a whole part has beyond the pieces that came before it.
func (o *openPart) known(p *Part) []Delta {
	var out []Delta
	switch p.Kind {
	case PartText:
		out = o.write(DeltaText, beyond(p.Text, o.sent))
	case PartRefusal:
		out = o.write(DeltaRefusal, beyond(p.Text, o.sent))
	case PartReasoning:
		out = o.write(DeltaReasoning, beyond(p.Text, o.sent))
	case PartCall:
		if !o.begun {
			out = o.call(*p.Call)
		} else {
			out = o.write(DeltaArguments, beyond(p.Call.Arguments, o.sent))
		}
	}
	if sign := beyond(p.Signature, o.signed); sign != "" {
		out = append(out, o.write(DeltaSignature, sign)...)
	}
	return out
}

// end closes the open part.
func (s *Sequencer) end() []Delta {
	if s.open == nil {
		return nil
	}
	if s.closed == nil {
		s.closed = map[int]PartKind{}
	}
	s.closed[s.open.from] = s.open.kind
	var out []Delta
	if o := s.open; o.wrapped != nil {
		out = append(out, Delta{Kind: DeltaArguments, Index: o.to, Text: freeText(o.wrapped.String())})
	}
	out = append(out, Delta{Kind: DeltaEnd, Index: s.open.to})
	s.open = nil
	return out
}

// turn gives the held part that came first its turn.
func (s *Sequencer) turn() []Delta {
	first := s.waiting[0]
	s.waiting = s.waiting[1:]
	held := s.held[first]
	delete(s.held, first)
	var out []Delta
	for _, d := range held {
		out = append(out, s.part(d)...)
	}
	return out
}

func beyond(text string, sent int) string {
	if sent >= len(text) {
		return ""
	}
	return text[sent:]
}

func kindOfDelta(d Delta) PartKind {
	switch d.Kind {
	case DeltaReasoning, DeltaSignature:
		return PartReasoning
	case DeltaRefusal:
		return PartRefusal
	case DeltaCall, DeltaArguments:
		return PartCall
	case DeltaPart:
		return d.Part.Kind
	}
	return PartText
}
