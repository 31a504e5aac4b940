package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"assay/internal/model"
)

// understand fills in what a call's line says of its answer.
func (a *asked) understand() {
	c := &a.call
	if c.Side == SideProbe || c.Side == SideModels || c.Side == SideCount || a.ans == nil {
		return
	}
	a.s.g.reading <- struct{}{}
	defer func() { <-a.s.g.reading }()
	raw, err := a.ans.whole()
	if err != nil {
		raw = nil // the record says why when it is closed
	}
	answer, said := parsedAnswer(*c, raw, a.s.g.conf.Codecs)
	if c.Aborted && said.err == nil && answer != nil {
		c.Err, c.Aborted = nil, false // it had all of it, and did not wait for the connection's end
	}
	if c.Err == nil {
		c.Err = said.err
	}
	c.Events = said.events
	var req *model.Request
	if a.s.conf.Loop != nil || answer != nil && len(answer.Calls()) > 0 { // else nobody looks at it
		req = parsedRequest(*c, a.body, a.s.g.conf.Codecs)
	}
	if req != nil {
		a.look(req)
	}
	if answer == nil {
		return
	}
	c.Stop, c.Usage = answer.Stop, answer.Usage
	a.judge(req, answer)
}

// judge looks at the tool calls of an answer.
func (a *asked) judge(req *model.Request, answer *model.Response) {
	for _, call := range answer.Calls() {
		a.calls++
		var args map[string]json.RawMessage
		if !call.Custom && json.Unmarshal([]byte(call.Arguments), &args) != nil {
			a.call.Malformed++
		}
		offered := req == nil || slices.ContainsFunc(req.Tools, func(t model.Tool) bool { return t.Name == call.Name })
		if !offered && len(a.call.Unknown) < 16 && !slices.Contains(a.call.Unknown, call.Name) {
			a.call.Unknown = append(a.call.Unknown, clip(call.Name, 100))
		}
	}
}

// saying is what the reader of an answer found besides the answer.
type saying struct {
	err    *model.Error // nil: it is whole
	events int
}

// parsedRequest reads the body of a call, which is in the agent's dialect;
// nil: it cannot be read.
func parsedRequest(c Call, body []byte, codecs model.Codecs) *model.Request {
	codec := codecs[c.Dialect]
	if codec == nil || len(body) == 0 || !c.isModel() {
		return nil
	}
	r, err := codec.ParseRequest(c.Path, body)
	if err != nil {
		return nil
	}
	return &r
}

// parsedAnswer reads the answer of a call, which is in the provider's dialect,
// as far as it can be read.
func parsedAnswer(c Call, body []byte, codecs model.Codecs) (*model.Response, saying) {
	d := c.Dialect
	if c.Upstream != "" {
		d = c.Upstream
	}
	codec := codecs[d]
	switch {
	case !c.isModel():
		return nil, saying{}
	case c.Status >= http.StatusBadRequest && c.Err == nil:
		e := plainKind(c.Status)
		if codec != nil {
			e = codec.ParseError(c.Status, http.Header{}, body)
		}
		return nil, saying{err: e}
	case codec == nil || len(body) == 0 || c.Status >= http.StatusBadRequest:
		return nil, saying{}
	}
	return parseAnswer(codec, body)
}

func (c *Call) isModel() bool {
	return c.Side != SideProbe && c.Side != SideModels && c.Side != SideCount && c.Dialect != ""
}

func parseAnswer(codec model.Codec, b []byte) (*model.Response, saying) {
	switch first := bytes.TrimLeft(b, " \t\r\n"); {
	case len(first) > 0 && first[0] == '{':
		r, err := codec.ParseResponse(b)
		if err != nil {
			return nil, saying{err: &model.Error{Kind: model.ErrMalformed, Status: http.StatusOK, Message: err.Error()}}
		}
		return &r, saying{}
	case len(first) > 0 && first[0] == '[':
		return parseArray(codec, b)
	}
	var s streamReader
	s.from = codec.Decode()
	s.feed(b)
	return s.end()
}

// parseArray reads gemini's stream without alt=sse: one array of its chunks.
func parseArray(codec model.Codec, b []byte) (*model.Response, saying) {
	s := streamReader{from: codec.Decode()}
	if !json.Valid(b) {
		return nil, saying{err: &model.Error{Kind: model.ErrCutStream, Status: http.StatusOK, Message: "the array of the answer does not end"}}
	}
	els, _ := elements(b, span{0, len(b)})
	for _, e := range els {
		_ = s.take(model.Event{Data: e.of(b)}) // take never fails
	}
	return s.end()
}

// streamReader understands a stream.
type streamReader struct {
	scan   model.EventScanner
	from   model.Decoder
	all    model.Collector
	events int
	bad    error // the first event that could not be read
}

func (s *streamReader) feed(b []byte) {
	if err := s.scan.Feed(b, s.take); err != nil && s.bad == nil {
		s.bad = err
	}
}

func (s *streamReader) take(e model.Event) error {
	s.events++
	deltas, err := s.from.Next(e)
	if err != nil && s.bad == nil {
		s.bad = err
	}
	for _, d := range deltas {
		s.all.Add(d)
	}
	return nil
}

func (s *streamReader) end() (*model.Response, saying) {
	if err := s.scan.End(s.take); err != nil && s.bad == nil {
		s.bad = err
	}
	r := s.all.Response()
	said := saying{events: s.events}
	switch {
	case r.Err != nil:
		said.err = r.Err
	case r.Stop == model.StopCut && s.bad != nil:
		said.err = &model.Error{Kind: model.ErrMalformed, Status: http.StatusOK, Message: clip(s.bad.Error(), 500)}
	case r.Stop == model.StopCut:
		said.err = &model.Error{Kind: model.ErrCutStream, Status: http.StatusOK, Message: fmt.Sprintf("the stream ended after %d events without its end", s.events)}
	}
	return &r, said
}

// Exchange reads what a call said. What cannot be read is nil.
func (r *Record) Exchange(seq int, codecs model.Codecs) (Exchange, error) {
	i := slices.IndexFunc(r.calls, func(c Call) bool { return c.Seq == seq })
	if i < 0 {
		return Exchange{}, fmt.Errorf("call %d: %w", seq, ErrNoRecord)
	}
	x := Exchange{Call: r.calls[i]}
	if x.Request == "" || !x.isModel() {
		return x, nil
	}
	request, response, err := r.Raw(seq)
	if err != nil {
		return x, err
	}
	x.Asked = parsedRequest(x.Call, request, codecs)
	x.Answer, _ = parsedAnswer(x.Call, response, codecs)
	return x, nil
}
