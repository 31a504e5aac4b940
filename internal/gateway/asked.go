package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"assay/internal/model"
)

// maxRefusals is how many requests that were turned away a session records;
// the others are counted.
const maxRefusals = 1000

// asked is one request of an agent on its way.
type asked struct {
	s     *Session
	w     http.ResponseWriter
	r     *http.Request
	route route
	codec model.Codec // of the agent's dialect; nil: not at hand
	call  Call
	start time.Time

	body    []byte
	members []member // nil: the body is not an object
	digest  digest
	ans     *answer  // nil: nothing was asked of the provider
	held    int64    // bytes of its bodies that count for the session
	missing []string // types and names of tools that were taken out
	abort   bool     // the answer cannot be ended properly
	turned  bool     // it had no right to an answer
	calls   int      // tool calls of the answer
}

// serveHTTP answers one request of the session's agent.
func (s *Session) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		refuse(w, nil, guessDialect(r.Header), &model.Error{Kind: model.ErrForbidden, Message: errClosed.Error()})
		return
	}
	defer s.live.Done()
	id, rest, _ := sessionPath(r.URL.Path)
	a := &asked{s: s, w: w, r: r, start: time.Now(), route: routeOf(r.Method, rest, r.Header)}
	a.codec = s.g.conf.Codecs[a.route.dialect]
	a.call = Call{
		V: CallVersion, Time: a.start.UTC(), Method: clip(r.Method, 16), Path: clip(rest, 512), Dialect: a.route.dialect,
		Client: clip(r.UserAgent(), 200), Session: clientSession(r.Header), Side: a.route.side,
	}
	if id != s.id || !holds(r, s.key) {
		a.turnAway(forbidden())
		return
	}
	if a.route.unknown {
		a.turnAway(&model.Error{Kind: model.ErrUnknownModel, Status: http.StatusNotFound, Message: fmt.Sprintf("%s %s is not served here", a.call.Method, a.call.Path)})
		return
	}
	a.serve()
	if a.abort {
		panic(http.ErrAbortHandler)
	}
}

// enter counts a request, unless the session is closed. Close waits for it.
func (s *Session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.closed {
		return false
	}
	s.live.Add(1)
	return true
}

// own are the secrets that may not be in the record of a session.
func (s *Session) own() secrets { return newSecrets(s.key, s.up.secret()) }

func (a *asked) serve() {
	if a.route.side == SideProbe || a.route.side == SideModels {
		a.number()
		a.probe()
		return
	}
	if e := a.read(); e != nil {
		a.number()
		a.fail(e)
		return
	}
	a.s.settle() // what calls before this one used must be known
	if e := a.s.stopped(); e != nil {
		a.turnAway(e)
		return
	}
	if !a.number() {
		a.fail(&model.Error{Kind: model.ErrBusy, RetryAfter: time.Second, Message: fmt.Sprintf("more than %d requests of this trial at once", a.s.g.conf.Limits.InFlight)})
		return
	}
	if a.route.side == SideCount && a.s.up.speaks(a.route.dialect) != a.route.dialect {
		a.estimate()
		return
	}
	a.store()
	if e := a.ask(); e != nil {
		a.fail(e)
	}
}

// turnAway refuses a request that has no right to an answer.
func (a *asked) turnAway(e *model.Error) {
	a.s.mu.Lock()
	a.s.state.refused++
	keep := a.s.state.refused <= maxRefusals
	if keep {
		a.s.state.seq++
		a.call.Seq = a.s.state.seq
	}
	a.s.mu.Unlock()
	a.turned = true
	a.w.Header().Set("Connection", "close") // its body is not read
	a.reply(e)
	if keep {
		a.over()
	}
}

// number gives the call its place; false: there are too many at once.
func (a *asked) number() bool {
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.seq++
	a.call.Seq, a.call.Step, a.call.Phase = s.state.seq, s.state.step, s.state.phase
	if a.body != nil {
		a.call.RetryOf = s.repeats(a.digest, a.call.Seq, a.r.Header.Get("X-Stainless-Retry-Count"))
	}
	return s.state.open < s.g.conf.Limits.InFlight
}

// repeats says which earlier call, one without a whole answer, sent the same
// body; 0: none. The same body after a good answer is another sample.
func (s *Session) repeats(d digest, seq int, count string) int {
	p, known := s.state.earlier[d]
	if known && ((p.over && p.bad) || (count != "" && count != "0")) {
		return p.seq
	}
	s.state.earlier[d] = past{seq: seq}
	return 0
}

// read takes the body.
func (a *asked) read() *model.Error {
	if enc := a.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return &model.Error{Kind: model.ErrBadRequest, Status: http.StatusUnsupportedMediaType, Message: "send the body without content-encoding"}
	}
	rc := http.NewResponseController(a.w)
	_ = rc.SetReadDeadline(time.Now().Add(a.s.g.conf.Limits.Body)) // a client in this process has none
	limit := a.s.g.conf.Limits.Request
	if n := a.r.ContentLength; !a.hold(min(max(n, 0), limit)) || n < 0 && !a.hold(limit) {
		return &model.Error{Kind: model.ErrBusy, RetryAfter: time.Second, Message: "the requests of this trial are too large together"}
	}
	into := bytes.NewBuffer(make([]byte, 0, min(max(a.r.ContentLength, 0), 1<<20)+bytes.MinRead))
	_, err := into.ReadFrom(http.MaxBytesReader(a.w, a.r.Body, limit))
	body := into.Bytes()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &model.Error{Kind: model.ErrBadRequest, Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the body is larger than %d bytes", limit)}
	case err != nil:
		return &model.Error{Kind: model.ErrAborted, Status: http.StatusBadRequest, Message: "the body did not arrive whole"}
	}
	_ = rc.SetReadDeadline(time.Time{})
	a.body, a.digest = body, sha256.Sum256(body)
	a.call.Bytes, a.call.Request = int64(len(body)), "sha256:"+hex.EncodeToString(a.digest[:])
	return nil
}

// hold counts n bytes that are kept in memory; false: there are too many.
func (a *asked) hold(n int64) bool {
	a.held += n
	return a.s.held.Add(n) <= a.s.g.conf.Limits.Held
}

// store records the request before anything is made of it.
func (a *asked) store() {
	all, err := object(a.body)
	if err == nil && (a.route.dialect != model.Gemini || camels(all)) {
		a.members = all
	}
	a.s.rec.request(a.call.Seq, a.s.own().mask(a.body), all, arrayOf(a.route.dialect))
	a.ans = a.s.rec.answer(a.call.Seq)
}

// arrayOf names the member of a request that holds its messages.
func arrayOf(d model.Dialect) string {
	switch d {
	case model.Responses:
		return "input"
	case model.Gemini:
		return "contents"
	}
	return "messages"
}

// fail ends the call with an error of the gateway's own.
func (a *asked) fail(e *model.Error) {
	a.reply(e)
	a.over()
}

func (a *asked) reply(e *model.Error) {
	a.call.Err = e
	if a.r.Context().Err() != nil {
		a.call.Status, a.call.Aborted = 0, true
		return
	}
	a.first()
	a.call.Status = refuse(a.w, a.codec, a.route.dialect, e)
}

// first notes when the agent gets its first byte.
func (a *asked) first() {
	if a.call.First == nil {
		ms := millis(time.Since(a.start))
		a.call.First = &ms
	}
}

// over notes that the call is, and has it understood beside what follows.
func (a *asked) over() {
	a.call.Millis = millis(time.Since(a.start))
	s := a.s
	s.mu.Lock()
	s.state.settling++
	s.mu.Unlock()
	s.live.Go(func() {
		s.account(a)
		s.held.Add(-a.held)
		s.mu.Lock()
		s.state.settling--
		s.state.settled.Broadcast()
		s.mu.Unlock()
	})
}

// settle waits until every call that is over is understood.
func (s *Session) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.state.settling > 0 {
		s.state.settled.Wait()
	}
}

// ask sends the request on and relays the answer; an error is one that the
// agent has not been told yet.
func (a *asked) ask() *model.Error {
	ctx, end := context.WithCancelCause(context.WithoutCancel(a.r.Context()))
	defer end(nil)
	stall := &watchdog{after: a.s.g.conf.Limits.Stall, end: end, silence: silence{began: a.s.firstAsked()}}
	defer context.AfterFunc(a.s.ctx, func() { end(stall.silence.blame(a.s.ctx)) })()
	defer context.AfterFunc(a.r.Context(), func() {
		if a.s.ctx.Err() != nil { // an agent of this process leaves at the same moment
			end(stall.silence.blame(a.s.ctx))
			return
		}
		end(a.r.Context().Err())
	})()
	a.s.flow(1, 0)
	defer a.s.flow(-1, 0)
	out, e := a.shape()
	if e != nil {
		return e
	}
	defer stall.stop()
	res, e := a.send(ctx, stall, out)
	if e != nil {
		return e
	}
	defer res.Body.Close()
	defer a.s.up.rates.leave()
	return a.relay(ctx, stall, out, res)
}

// watchdog ends a request whose provider says nothing for too long.
type watchdog struct {
	after   time.Duration
	end     context.CancelCauseFunc
	timer   *time.Timer
	silence silence
}

func (d *watchdog) feed() {
	d.silence.broken()
	if d.timer == nil {
		d.timer = time.AfterFunc(d.after, func() {
			d.end(&model.Error{Kind: model.ErrStalled, Message: fmt.Sprintf("the model server said nothing for %v", d.after)})
		})
		return
	}
	d.timer.Reset(d.after)
}

func (d *watchdog) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
