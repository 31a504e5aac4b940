package gateway

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"assay/internal/model"
)

// transform makes what the agent reads of what the provider writes.
type transform interface {
	// next takes a piece and returns what can be written already.
	next(piece []byte) []byte
	// end returns the rest. An error is told to the agent if nothing was written
	// yet; else its answer ends like a stream that was cut.
	end() ([]byte, *model.Error)
}

// relay passes an answer on as it comes: each piece is recorded, then written,
// then flushed.
func (a *asked) relay(ctx context.Context, stall *watchdog, out *outgoing, res *http.Response) *model.Error {
	if e := strange(res); e != nil {
		a.drain(res.Body)
		return e
	}
	if res.StatusCode >= http.StatusBadRequest && out.dialect != a.route.dialect {
		return a.understood(out.dialect, res, a.drain(res.Body))
	}
	backHeader(a.w.Header(), res.Header, newSecrets(a.s.up.secret()))
	a.call.Status = res.StatusCode
	p := &passage{a: a, out: masked{s: newSecrets(a.s.up.secret())}, kept: masked{s: a.s.own()}, rc: http.NewResponseController(a.w)}
	switch p.via = out.transform(a, res); {
	case p.via != nil:
		a.w.Header().Set("Content-Type", out.answers(a.call.Stream, isStream(res)))
	case res.ContentLength >= 0:
		a.w.Header().Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	e := p.all(ctx, stall, res)
	if e == nil {
		e = p.end()
	}
	if e == nil {
		if !p.headed {
			a.w.WriteHeader(res.StatusCode)
		}
		a.over()
		return nil
	}
	if p.keep(); !p.headed && e.Kind != model.ErrAborted {
		return e // in words: nothing was sent yet
	}
	a.call.Err, a.call.Aborted, a.abort = e, e.Kind == model.ErrAborted, true
	a.over()
	return nil
}

// passage is an answer on its way to the agent and into the record.
type passage struct {
	a         *asked
	via       transform // nil: it passes as it is
	out, kept masked
	rc        *http.ResponseController
	headed    bool
	gone      bool // whoever asked does not take it
	until     time.Time
}

// all passes the whole answer, or says why it could not.
func (p *passage) all(ctx context.Context, stall *watchdog, res *http.Response) *model.Error {
	limit := p.a.s.g.conf.Limits.Response
	buf := make([]byte, 16<<10) // as much as a transport reads at once
	for {
		n, err := res.Body.Read(buf)
		stall.feed()
		if n > 0 {
			p.piece(buf[:n])
		}
		switch {
		case n > 0 && p.via != nil && !p.a.hold(int64(n)):
			return &model.Error{Kind: model.ErrMalformed, Status: res.StatusCode, Message: "the answers to this trial are too large together"}
		case p.a.call.Answered > limit:
			return &model.Error{Kind: model.ErrMalformed, Status: res.StatusCode, Message: fmt.Sprintf("the answer is larger than %d bytes", limit)}
		case err == io.EOF && res.ContentLength < 0 && p.a.s.ctx.Err() != nil:
			return cause(ctx) // a provider in this process ends its answer when it is cut off
		case !p.gone && (err == io.EOF || n > 0 && p.a.call.Answered == res.ContentLength):
			return nil
		case ctx.Err() != nil || p.gone:
			return cause(ctx)
		case err != nil:
			return &model.Error{Kind: model.ErrCutStream, Status: res.StatusCode, Message: "the model server ended its answer early: " + plain(err)}
		}
	}
}

func (p *passage) piece(b []byte) {
	p.a.call.Answered += int64(len(b))
	p.a.ans.add(p.kept.next(b))
	if p.via != nil {
		b = p.via.next(b)
	}
	p.write(p.out.next(b))
}

func (p *passage) write(b []byte) {
	if len(b) == 0 || p.gone {
		return
	}
	if !p.headed {
		p.headed = true
		p.a.w.WriteHeader(p.a.call.Status)
	}
	p.a.first()
	if now := time.Now(); p.until.Sub(now) < p.a.s.g.conf.Limits.Body/2 {
		p.until = now.Add(p.a.s.g.conf.Limits.Body)
		_ = p.rc.SetWriteDeadline(p.until) // a client in this process has none
	}
	if _, err := p.a.w.Write(b); err != nil {
		p.gone = true
		return
	}
	_ = p.rc.Flush() // every writer here can
}

// end passes what was held back until the provider was done.
func (p *passage) end() *model.Error {
	if p.via != nil {
		rest, e := p.via.end()
		if e == nil || p.headed {
			p.write(p.out.next(rest))
		}
		if e != nil {
			return e
		}
	}
	p.write(p.out.rest())
	p.keep()
	return nil
}

// keep records what of the answer was held back.
func (p *passage) keep() {
	p.a.ans.add(p.kept.rest())
	p.a.ans.flush()
}

func isStream(res *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return kind == "text/event-stream"
}

// strange says what is wrong with an answer that no agent can read: a page, or
// a redirection. Errors pass, whatever their form.
func strange(res *http.Response) *model.Error {
	e := &model.Error{Kind: model.ErrMalformed, Status: http.StatusBadGateway}
	switch kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); {
	case res.StatusCode >= http.StatusBadRequest:
		return nil
	case res.StatusCode != http.StatusOK:
		e.Message = fmt.Sprintf("the model server answered HTTP %d", res.StatusCode)
	case kind == "text/html" || kind == "text/plain" && res.ContentLength > 0:
		e.Message = fmt.Sprintf("the model server answered with %s instead of JSON or events; is its URL right?", kind)
	default:
		return nil
	}
	return e
}

// drain records the beginning of an answer that is not passed on.
func (a *asked) drain(r io.Reader) []byte {
	b, _ := io.ReadAll(io.LimitReader(r, maxErrorBody)) // what came is enough
	a.call.Answered = int64(len(b))
	a.ans.add(a.s.own().mask(b))
	a.ans.flush()
	return b
}
