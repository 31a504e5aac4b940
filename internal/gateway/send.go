package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"assay/internal/model"
)

// maxErrorBody is what is read of a provider's error to understand it.
const maxErrorBody = 64 << 10

// send asks the provider until it answers, refuses for good, or patience is at
// its end. The caller closes the body and leaves the limiter; on an error
// neither is needed.
func (a *asked) send(ctx context.Context, stall *watchdog, out *outgoing) (*http.Response, *model.Error) {
	refreshed := false
	for try := 1; ; try++ {
		if try > 1 {
			a.call.Tries = try
		}
		if err := a.s.up.rates.enter(ctx, a.waits()); err != nil {
			return nil, cause(ctx)
		}
		stall.feed()
		res, e := a.once(ctx, out, refreshed)
		if e != nil {
			a.s.up.rates.leave()
			return nil, e
		}
		if res.StatusCode < 400 {
			return res, nil
		}
		head, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what came is enough
		res.Body = prepended(head, res.Body)
		switch {
		case res.StatusCode == http.StatusUnauthorized && !refreshed && a.s.up.Credential != nil:
			refreshed = true
		case a.waitOut(ctx, stall, a.understood(out.dialect, res, head), try):
			if ctx.Err() != nil {
				res.Body.Close()
				return nil, cause(ctx)
			}
			continue // waitOut has left the limiter
		default:
			return res, nil
		}
		res.Body.Close()
		a.s.up.rates.leave()
	}
}

// once sends the request one time.
func (a *asked) once(ctx context.Context, out *outgoing, refresh bool) (*http.Response, *model.Error) {
	u, err := a.s.up.url(out.dialect, out.path, out.query)
	if err != nil {
		return nil, &model.Error{Kind: model.ErrUnknownModel, Message: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(out.body))
	if err != nil {
		return nil, &model.Error{Kind: model.ErrUnreachable, Message: "the model's address is malformed"}
	}
	req.Header = outHeader(a.r.Header)
	req.Header.Set("Content-Type", "application/json")
	if out.dialect == model.Messages && req.Header.Get("Anthropic-Version") == "" {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	for name, v := range a.s.up.Header {
		req.Header[http.CanonicalHeaderKey(name)] = v
	}
	if err := a.s.up.authorize(req, out.dialect, refresh); err != nil {
		return nil, &model.Error{Kind: model.ErrAuth, Message: a.s.own().maskString(err.Error())}
	}
	a.call.Host = a.s.up.host(req)
	res, err := a.s.up.rt.RoundTrip(req)
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return nil, cause(ctx)
	}
	return nil, &model.Error{Kind: model.ErrUnreachable, Message: a.s.own().maskString("the model server cannot be reached: " + plain(err))}
}

// plain is err without the URL, which may hold a credential.
func plain(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

type joined struct {
	io.Reader
	io.Closer
}

func prepended(head []byte, rest io.ReadCloser) io.ReadCloser {
	return joined{io.MultiReader(bytes.NewReader(head), rest), rest}
}

// waits tells the session's clock of waiting.
func (a *asked) waits() func(bool) {
	var since time.Time
	return func(begins bool) {
		if begins {
			since = time.Now()
			a.s.flow(0, 1)
			return
		}
		a.call.Waited += millis(time.Since(since))
		a.s.flow(0, -1)
	}
}

// understood reads a provider's error.
func (a *asked) understood(d model.Dialect, res *http.Response, body []byte) *model.Error {
	if codec := a.s.g.conf.Codecs[d]; codec != nil {
		return codec.ParseError(res.StatusCode, res.Header, body)
	}
	return plainKind(res.StatusCode)
}

// Waits grow from firstWait to longestWait, twice as long each time, with a
// tenth of chance so that trials do not all come back at once. A provider's
// own word (retry-after) is taken as it is.
const (
	firstWait   = time.Second
	longestWait = time.Minute
)

// waitOut waits for a rate limit or overload to pass, if the session has the
// patience left; false: it has not, or the error is another one.
func (a *asked) waitOut(ctx context.Context, stall *watchdog, e *model.Error, try int) bool {
	if e.Kind != model.ErrRate && e.Kind != model.ErrOverload {
		return false
	}
	d := e.RetryAfter
	if d <= 0 {
		d = min(firstWait<<min(try-1, 10), longestWait)
		d += time.Duration(rand.Int64N(int64(d)/10 + 1))
	}
	if !a.s.patient(d) {
		return false
	}
	a.s.up.rates.leave() // others may have its place
	stall.stop()
	wait := a.waits()
	wait(true)
	_ = sleep(ctx, d) // the caller looks at ctx
	wait(false)
	return true
}
