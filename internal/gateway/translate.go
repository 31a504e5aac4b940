package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"assay/internal/model"
)

// translated makes the provider's request where the provider does not speak
// the agent's dialect. What is lost on the way stands in the call's line.
func (a *asked) translated(d model.Dialect) (*outgoing, *model.Error) {
	to := a.s.g.conf.Codecs[d]
	if a.codec == nil || to == nil {
		return nil, &model.Error{Kind: model.ErrUnknownModel, Message: fmt.Sprintf("the model speaks %s, and %s cannot be translated here", d, a.route.dialect)}
	}
	req, err := a.codec.ParseRequest(a.route.path, a.body)
	if err != nil {
		return nil, badRequest(err)
	}
	asked := req
	asked.Model, req.Model = a.call.Model, a.call.Sent
	a.withholdTools(&req)
	a.pinned(&req.Sampling)
	req.Usage = req.Stream
	req.Logprobs = req.Logprobs || a.s.conf.CaptureTokens
	path, body, losses, err := to.FormatRequest(req)
	if err != nil {
		return nil, badRequest(err)
	}
	a.call.Upstream, a.call.Stream = d, req.Stream
	a.call.Losses = losses
	return &outgoing{dialect: d, path: path, body: body, asked: &asked, from: to, to: a.codec}, nil
}

func badRequest(err error) *model.Error {
	var e *model.Error
	if errors.As(err, &e) {
		return e
	}
	return &model.Error{Kind: model.ErrBadRequest, Status: http.StatusBadRequest, Message: clip(err.Error(), 500)}
}

// transform chooses how an answer reaches the agent; nil: as it is.
func (o *outgoing) transform(a *asked, res *http.Response) transform {
	switch {
	case res.StatusCode >= http.StatusBadRequest:
		return nil
	case o.to == nil:
		return o.filter(isStream(res))
	case isStream(res) && a.call.Stream:
		return &streamed{a: a, t: model.Translator{From: o.from.Decode(), To: o.to.Encode(*o.asked)}}
	}
	return &whole{a: a, out: o, stream: isStream(res)}
}

// answers is the media type of an answer that was transformed.
func (o *outgoing) answers(wanted, came bool) string {
	if o.to == nil && came || o.to != nil && wanted {
		return "text/event-stream"
	}
	return "application/json"
}

// streamed translates a stream event by event.
type streamed struct {
	a    *asked
	scan model.EventScanner
	t    model.Translator
	buf  []byte
	bad  error
}

func (s *streamed) next(piece []byte) []byte {
	s.buf = s.buf[:0]
	if err := s.scan.Feed(piece, s.take); err != nil && s.bad == nil {
		s.bad = err
	}
	return s.buf
}

func (s *streamed) take(e model.Event) error {
	b, err := s.t.Next(e)
	if err != nil && s.bad == nil {
		s.bad = err // those after it may be readable
	}
	s.buf = append(s.buf, b...)
	return nil
}

func (s *streamed) end() ([]byte, *model.Error) {
	s.buf = s.buf[:0]
	_ = s.scan.End(s.take) // its error was noted before
	rest, ok := s.t.End()
	s.a.call.Losses = append(s.a.call.Losses, s.t.To.Losses()...)
	s.buf = append(s.buf, rest...)
	switch {
	case ok:
		return s.buf, nil
	case s.bad != nil:
		return s.buf, &model.Error{Kind: model.ErrMalformed, Status: http.StatusOK, Message: clip(s.bad.Error(), 500)}
	}
	return s.buf, &model.Error{Kind: model.ErrCutStream, Status: http.StatusOK, Message: "the stream ended without its end"}
}

// whole translates an answer once all of it is there: an unstreamed one, or
// one in the form that was not asked for.
type whole struct {
	a      *asked
	out    *outgoing
	stream bool // the provider streamed
	b      []byte
}

func (w *whole) next(piece []byte) []byte {
	w.b = append(w.b, piece...)
	return nil
}

func (w *whole) end() ([]byte, *model.Error) {
	answer, said := w.read()
	if said != nil {
		return nil, said
	}
	answer.Model = w.out.asked.Model
	if !w.a.call.Stream {
		b, losses := w.out.to.FormatResponse(*w.out.asked, *answer)
		w.a.call.Losses = append(w.a.call.Losses, losses...)
		return b, nil
	}
	enc := w.out.to.Encode(*w.out.asked)
	var b []byte
	for _, d := range deltas(answer) {
		b = append(b, enc.Next(d)...)
	}
	w.a.call.Losses = append(w.a.call.Losses, enc.Losses()...)
	return b, nil
}

func (w *whole) read() (*model.Response, *model.Error) {
	if w.stream {
		s := streamReader{from: w.out.from.Decode()}
		s.feed(w.b)
		r, said := s.end()
		return r, said.err
	}
	r, err := w.out.from.ParseResponse(w.b)
	if err != nil {
		e := &model.Error{Kind: model.ErrMalformed, Message: clip(err.Error(), 500)}
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			e.Message = "the model server's answer is not JSON: " + e.Message
		}
		return nil, e
	}
	return &r, nil
}

// deltas are the stream that an answer would have come as.
func deltas(r *model.Response) []model.Delta {
	all := []model.Delta{{Kind: model.DeltaStart, ID: r.ID, Model: r.Model, Usage: r.Usage}}
	for i := range r.Message.Parts {
		all = append(all, model.Delta{Kind: model.DeltaPart, Index: i, Part: &r.Message.Parts[i]}, model.Delta{Kind: model.DeltaEnd, Index: i})
	}
	if r.Usage != nil {
		all = append(all, model.Delta{Kind: model.DeltaUsage, Usage: r.Usage})
	}
	return append(all, model.Delta{Kind: model.DeltaStop, Stop: r.Stop}, model.Delta{Kind: model.DeltaDone})
}
