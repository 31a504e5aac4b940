package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"
)

// Client asks one provider in one dialect. What may pass is tried again; what
// the provider says against a request is a *[Error].
type Client struct {
	Codec     Codec
	Base      string            // see URL
	Key       string            // sent as the dialect's clients send it; empty: not at all
	Header    http.Header       // sent with every request
	Transport http.RoundTripper // nil: the machine's network. Redirects are never followed

	Tries   int           // in all; 0: 5
	MaxWait time.Duration // longest wait before another try; a server that asks for more is given up. 0: a minute
	Idle    time.Duration // without a byte, after which an answer counts as stalled; 0: ten minutes
	MaxBody int64         // bytes of an answer; 0: 64 MiB

	// Sleep waits before another try; nil: by the clock. Tests set it.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Complete asks, and returns the whole answer. If it fails, the answer is as
// far as it came.
func (c *Client) Complete(ctx context.Context, r Request) (Response, error) {
	return c.ask(ctx, r, nil)
}

// Stream asks for a stream and calls on with each step of it. Once on was
// called there are no further tries.
func (c *Client) Stream(ctx context.Context, r Request, on func(Delta)) (Response, error) {
	r.Stream = true
	return c.ask(ctx, r, on)
}

// Authorize puts a credential where clients of the dialect put it.
func Authorize(h http.Header, d Dialect, key string) {
	switch d {
	case Messages:
		h.Set("X-Api-Key", key)
	case Gemini:
		h.Set("X-Goog-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}

func (c *Client) ask(ctx context.Context, r Request, on func(Delta)) (Response, error) {
	path, body, _, err := c.Codec.FormatRequest(r)
	if err != nil {
		return Response{}, err
	}
	tries := c.Tries
	if tries <= 0 {
		tries = 5
	}
	for n := 1; ; n++ {
		told := false
		resp, err := c.try(ctx, r.Stream, path, body, func(d Delta) {
			if on != nil {
				told = true
				on(d)
			}
		})
		if ctx.Err() != nil && err != nil {
			return resp, fmt.Errorf("ask %s: %w", r.Model, context.Cause(ctx))
		}
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.Passing() || told || n >= tries {
			return resp, err
		}
		wait, ok := c.backoff(n, e)
		if !ok {
			return resp, err
		}
		if err := c.sleep(ctx, wait); err != nil {
			return resp, fmt.Errorf("ask %s: %w", r.Model, err)
		}
	}
}

// backoff is how long to wait after the nth failure: as long as the server
// says, else half a second and twice as long each time, by a quarter more or
// less, so that many clients do not come back at once.
func (c *Client) backoff(n int, e *Error) (time.Duration, bool) {
	most := c.MaxWait
	if most <= 0 {
		most = time.Minute
	}
	if e.RetryAfter > 0 {
		return e.RetryAfter, e.RetryAfter <= most
	}
	wait := min(500*time.Millisecond<<min(n-1, 16), 30*time.Second)
	wait = time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
	return min(wait, most), true
}

func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	if c.Sleep != nil {
		return c.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errStalled is the cause that ends a request in which nothing moves.
var errStalled = errors.New("nothing came for too long")

// try asks once.
func (c *Client) try(ctx context.Context, stream bool, path string, body []byte, on func(Delta)) (Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := c.Idle
	if idle <= 0 {
		idle = 10 * time.Minute
	}
	timer := time.AfterFunc(idle, func() { cancel(errStalled) })
	defer timer.Stop()

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, URL(c.Base, path), bytes.NewReader(body))
	if err != nil {
		return Response{}, c.failed(ctx, ErrBadRequest, 0, err)
	}
	c.header(req.Header)
	client := http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return Response{}, c.failed(ctx, ErrUnreachable, 0, err)
	}
	defer res.Body.Close()
	limit := c.MaxBody
	if limit <= 0 {
		limit = 64 << 20
	}
	in := &watched{r: io.LimitReader(res.Body, limit+1), left: limit, tick: func() { timer.Reset(idle) }}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if stream && res.StatusCode == http.StatusOK && kind != "application/json" {
		return c.stream(ctx, in, on)
	}
	text, err := io.ReadAll(in)
	if res.StatusCode != http.StatusOK {
		return Response{}, c.Codec.ParseError(res.StatusCode, res.Header, text)
	}
	if err != nil {
		return Response{}, c.failed(ctx, ErrCutStream, res.StatusCode, err)
	}
	return c.whole(stream, res.StatusCode, text, on)
}

// whole reads an answer that came in one piece, asked for as a stream or not.
func (c *Client) whole(stream bool, status int, text []byte, on func(Delta)) (Response, error) {
	r, err := c.Codec.ParseResponse(text)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		e = Unreadable(status, nil, text)
		e.Kind = ErrMalformed
		err = e
	}
	if err == nil && r.Err != nil {
		err = r.Err
	}
	if err == nil && stream {
		for _, d := range r.Deltas() {
			on(d)
		}
	}
	return r, err
}

func (c *Client) header(h http.Header) {
	for k, v := range c.Header {
		h[k] = v
	}
	h.Set("Content-Type", "application/json")
	if c.Codec.Dialect() == Messages && h.Get("Anthropic-Version") == "" {
		h.Set("Anthropic-Version", "2023-06-01")
	}
	if c.Key != "" {
		Authorize(h, c.Codec.Dialect(), c.Key)
	}
}

// stream reads a stream. An event that cannot be read ends it: what it held is
// missing from the answer.
func (c *Client) stream(ctx context.Context, in io.Reader, on func(Delta)) (Response, error) {
	events := NewEventReader(in, 0)
	dec := c.Codec.Decode()
	var all Collector
	n := 0
	for {
		e, err := events.Next()
		if err != nil {
			return c.streamEnd(ctx, &all, n, err)
		}
		n++
		deltas, err := dec.Next(e)
		for _, d := range deltas {
			all.Add(d)
			on(d)
		}
		if err != nil {
			return all.Response(), &Error{Kind: ErrMalformed, Status: http.StatusOK, Message: err.Error()}
		}
	}
}

func (c *Client) streamEnd(ctx context.Context, all *Collector, events int, err error) (Response, error) {
	r := all.Response()
	switch {
	case r.Err != nil:
		return r, r.Err
	case all.Whole(): // whatever comes after its end
		return r, nil
	case err == io.EOF && events == 0:
		return r, &Error{Kind: ErrMalformed, Status: http.StatusOK, Message: "no event of a stream came"}
	case err == io.EOF:
		return r, &Error{Kind: ErrCutStream, Status: http.StatusOK, Message: "the stream ended before the answer did"}
	}
	return r, c.failed(ctx, ErrCutStream, http.StatusOK, err)
}

// failed makes an Error of what went wrong below HTTP. The URL stays out of
// it: a base may hold a password.
func (c *Client) failed(ctx context.Context, kind ErrorKind, status int, err error) *Error {
	switch {
	case context.Cause(ctx) == errStalled:
		kind, err = ErrStalled, errStalled
	case ctx.Err() != nil:
		kind = ErrAborted
	case errors.Is(err, errTooLarge), errors.Is(err, ErrEventSize):
		kind = ErrMalformed
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &Error{Kind: kind, Status: status, Message: err.Error()}
}

var errTooLarge = errors.New("the answer is too large")

// watched notes each byte that comes, and refuses more than it may be.
type watched struct {
	r    io.Reader
	left int64
	tick func()
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	w.left -= int64(n)
	if n > 0 {
		w.tick()
	}
	if w.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
