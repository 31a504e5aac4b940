package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"assay/internal/model"
)

// relay passes an answer on as it comes: each piece is recorded, then written,
// then flushed.
func (a *asked) relay(ctx context.Context, stall *watchdog, out *outgoing, res *http.Response) *model.Error {
	if e := strange(res); e != nil {
		a.drain(res.Body)
		return e
	}
	backHeader(a.w.Header(), res.Header, newSecrets(a.s.up.secret()))
	if res.ContentLength >= 0 {
		a.w.Header().Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	a.call.Status = res.StatusCode
	p := &passage{a: a, out: masked{s: newSecrets(a.s.up.secret())}, kept: masked{s: a.s.own()}, rc: http.NewResponseController(a.w)}
	buf := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(buf)
		stall.feed()
		if n > 0 {
			p.piece(buf[:n])
		}
		switch {
		case a.call.Answered > a.s.g.conf.Limits.Response:
			a.call.Err = &model.Error{Kind: model.ErrMalformed, Status: res.StatusCode, Message: fmt.Sprintf("the answer is larger than %d bytes", a.s.g.conf.Limits.Response)}
		case !p.gone && (err == io.EOF || res.ContentLength >= 0 && a.call.Answered == res.ContentLength):
			// An agent may hang up as soon as it has all of it.
			p.end()
			if !p.headed {
				a.w.WriteHeader(res.StatusCode)
			}
			a.over()
			return nil
		case ctx.Err() != nil || p.gone:
			a.call.Err = cause(ctx)
		case err != nil:
			a.call.Err = &model.Error{Kind: model.ErrCutStream, Status: res.StatusCode, Message: "the model server ended its answer early: " + plain(err)}
		default:
			continue
		}
		break
	}
	if e := a.call.Err; !p.headed && e.Kind != model.ErrAborted {
		p.end()
		return e // in words: nothing was sent yet
	}
	p.end()
	a.call.Aborted = a.call.Err.Kind == model.ErrAborted
	a.abort = true
	a.over()
	return nil
}

// passage is an answer on its way to the agent and into the record.
type passage struct {
	a         *asked
	out, kept masked
	rc        *http.ResponseController
	headed    bool
	gone      bool // whoever asked does not take it
	until     time.Time
}

func (p *passage) piece(b []byte) {
	p.a.call.Answered += int64(len(b))
	p.a.ans.add(p.kept.next(b))
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

func (p *passage) end() {
	p.a.ans.add(p.kept.rest())
	p.a.ans.flush()
	p.write(p.out.rest())
}

// strange says what is wrong with an answer that no agent can read: a page, or
// a redirection. Errors pass, whatever their form.
func strange(res *http.Response) *model.Error {
	e := &model.Error{Kind: model.ErrMalformed, Status: http.StatusBadGateway}
	switch kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); {
	case res.StatusCode >= 400:
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
func (a *asked) drain(r io.Reader) {
	b, err := io.ReadAll(io.LimitReader(r, maxErrorBody))
	a.call.Answered = int64(len(b))
	a.ans.add(a.s.own().mask(b))
	a.ans.flush()
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return // the error of the answer says more
	}
}
