package model_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/model"
	"assay/internal/model/anthropic"
	"assay/internal/model/modeltest"
	"assay/internal/model/openai"
)

// serves answers each request with the next of the handlers, the last one for
// good, and says how many there were and how long the client wanted to wait.
func serves(t *testing.T, c *model.Client, answers ...http.HandlerFunc) (count *atomic.Int32, waits *[]time.Duration) {
	t.Helper()
	count, waits = &atomic.Int32{}, &[]time.Duration{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(count.Add(1))
		answers[min(n, len(answers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	c.Base, c.Key = s.URL, "real-key-of-the-user"
	c.Sleep = func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
	return count, waits
}

func fails(status int, head, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if k, v, ok := strings.Cut(head, ": "); ok {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

var answer = modeltest.Responses()["all"]

// says answers rightly, streamed or not, in the codec's dialect.
func says(c model.Codec) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked := model.Request{Model: "m", Usage: true}
		if r.Header.Get("X-Want") == "stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(modeltest.Encode(c, asked, modeltest.Deltas(answer, 4)))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		body, _ := c.FormatResponse(asked, answer)
		_, _ = w.Write(body)
	}
}

func question() model.Request {
	return model.Request{Model: "m", Messages: []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Kind: model.PartText, Text: "go"}}}}}
}

func TestClient(t *testing.T) {
	for _, codec := range []model.Codec{openai.Chat{}, openai.Responses{}, anthropic.Messages{}} {
		c := &model.Client{Codec: codec}
		serves(t, c, says(codec))
		r, err := c.Complete(t.Context(), question())
		if err != nil || r.Message.Text() != "I write two files." || len(r.Calls()) != 2 || r.Stop != model.StopCalls || *r.Usage.Output != 9 {
			t.Errorf("%s: %+v %v", codec.Dialect(), r, err)
		}
		c.Header = http.Header{"X-Want": {"stream"}}
		var text string
		r, err = c.Stream(t.Context(), question(), func(d model.Delta) {
			if d.Kind == model.DeltaText {
				text += d.Text
			}
		})
		if err != nil || text != "I write two files." || len(r.Calls()) != 2 || r.Stop != model.StopCalls || *r.Usage.Input != 120 {
			t.Errorf("%s streamed: %q %+v %v", codec.Dialect(), text, r, err)
		}
	}
}

// A server that ignores that a stream was asked for is understood.
func TestClientTakesAWholeAnswerForAStream(t *testing.T) {
	c := &model.Client{Codec: openai.Chat{}}
	serves(t, c, says(openai.Chat{}))
	var got []model.Delta
	r, err := c.Stream(t.Context(), question(), func(d model.Delta) { got = append(got, d) })
	if err != nil || modeltest.Same(r.Message, model.Collect(got).Message) != "" || len(r.Calls()) != 2 {
		t.Errorf("%+v %v %+v", r, err, got)
	}
}

func TestClientTriesAgain(t *testing.T) {
	good := says(openai.Chat{})
	limited := `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`
	for name, x := range map[string]struct {
		first http.HandlerFunc
		wait  time.Duration // 0: some
	}{
		"rate limit":               {fails(429, "Retry-After: 7", limited), 7 * time.Second},
		"in milliseconds":          {fails(429, "Retry-After-Ms: 1500", limited), 1500 * time.Millisecond},
		"until the reset":          {fails(429, "X-Ratelimit-Remaining-Tokens: 5", limited), 0},
		"overload":                 {fails(503, "", "<html>busy</html>"), 0},
		"error of the server":      {fails(500, "", `{"error":{"message":"oops"}}`), 0},
		"a page":                   {fails(200, "Content-Type: text/html", "<html><title>Log in</title>"), 0},
		"half a JSON":              {fails(200, "Content-Type: application/json", `{"id":"x","choi`), 0},
		"nothing":                  {fails(200, "", ""), 0},
		"a connection that is cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
	} {
		c := &model.Client{Codec: openai.Chat{}}
		count, waits := serves(t, c, x.first, good)
		r, err := c.Complete(t.Context(), question())
		if err != nil || len(r.Calls()) != 2 || count.Load() != 2 || len(*waits) != 1 {
			t.Errorf("%s: %v, %d requests, waits %v", name, err, count.Load(), *waits)
			continue
		}
		if w := (*waits)[0]; w != x.wait && x.wait != 0 || w < 300*time.Millisecond {
			t.Errorf("%s: waited %v", name, w)
		}
	}
}

func TestClientGivesUp(t *testing.T) {
	for name, x := range map[string]struct {
		answer http.HandlerFunc
		kind   model.ErrorKind
		count  int32
	}{
		"wrong key":         {fails(401, "", `{"error":{"message":"no","code":"invalid_api_key"}}`), model.ErrAuth, 1},
		"too long":          {fails(400, "", `{"error":{"message":"This model's maximum context length is 5"}}`), model.ErrContext, 1},
		"no money":          {fails(429, "", `{"error":{"message":"no","code":"insufficient_quota"}}`), model.ErrQuota, 1},
		"our own refusal":   {fails(401, "", `{"error":{"message":"no","code":"assay_budget"}}`), model.ErrBudget, 1},
		"always overloaded": {fails(503, "", ""), model.ErrOverload, 5},
		"a wait too long":   {fails(429, "Retry-After: 3600", ""), model.ErrRate, 1},
		"a redirect":        {fails(307, "Location: http://127.0.0.1:1/", ""), model.ErrMalformed, 5},
		"a gigabyte": {func(w http.ResponseWriter, _ *http.Request) {
			block := make([]byte, 1<<16)
			for range 1 << 14 {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, model.ErrMalformed, 5},
	} {
		c := &model.Client{Codec: openai.Chat{}, MaxBody: 1 << 20}
		count, _ := serves(t, c, x.answer)
		_, err := c.Complete(t.Context(), question())
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != x.kind || count.Load() != x.count {
			t.Errorf("%s: %v after %d requests, want %s after %d", name, err, count.Load(), x.kind, x.count)
		}
	}
}

// A stream that has begun is not asked for again, and says what it said.
func TestClientStreamThatIsCut(t *testing.T) {
	c := &model.Client{Codec: openai.Chat{}, Header: http.Header{"X-Want": {"stream"}}}
	whole := modeltest.Encode(openai.Chat{}, model.Request{Usage: true}, modeltest.Deltas(answer, 4))
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(whole[:len(whole)/2])
	}
	count, _ := serves(t, c, cut)
	heard := false
	r, err := c.Stream(t.Context(), question(), func(model.Delta) { heard = true })
	var e *model.Error
	if !errors.As(err, &e) || e.Kind != model.ErrCutStream || r.Stop != model.StopCut || !heard || len(r.Message.Parts) == 0 || count.Load() != 1 {
		t.Errorf("%+v %v, %d requests", r, err, count.Load())
	}
	// Nobody has heard it: it may be asked for again.
	q := question()
	q.Stream = true
	count, _ = serves(t, c, cut, says(openai.Chat{}))
	if r, err := c.Complete(t.Context(), q); err != nil || r.Stop != model.StopCalls || count.Load() != 2 {
		t.Errorf("%+v %v, %d requests", r, err, count.Load())
	}
}

// A server that goes silent, and one that is told to stop.
func TestClientDoesNotWaitForEver(t *testing.T) {
	gone := make(chan struct{}, 2)
	silent := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": begun\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	}
	c := &model.Client{Codec: openai.Chat{}, Tries: 1, Idle: 50 * time.Millisecond}
	serves(t, c, silent)
	_, err := c.Stream(t.Context(), question(), func(model.Delta) {})
	var e *model.Error
	if !errors.As(err, &e) || e.Kind != model.ErrStalled {
		t.Errorf("silent: %v", err)
	}
	<-gone
	stop := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	c.Idle = 0
	go func() { cancel(stop) }()
	if _, err := c.Complete(ctx, question()); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
}

// No error shows where a password may stand.
func TestClientErrorsHaveNoURL(t *testing.T) {
	for base, kind := range map[string]model.ErrorKind{
		"http://user:pa55@127.0.0.1:1": model.ErrUnreachable, "http://user:pa55@[x": model.ErrBadRequest,
	} {
		c := &model.Client{Codec: openai.Chat{}, Base: base, Tries: 1}
		_, err := c.Complete(t.Context(), question())
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != kind || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%v", err)
		}
	}
}

// The credential stands where the dialect's own clients put it.
func TestClientSendsItsKey(t *testing.T) {
	for _, x := range []struct {
		codec      model.Codec
		path, head string
		want       string
	}{
		{openai.Chat{}, "/v1/chat/completions", "Authorization", "Bearer real-key-of-the-user"},
		{openai.Responses{}, "/v1/responses", "Authorization", "Bearer real-key-of-the-user"},
		{anthropic.Messages{}, "/v1/messages", "X-Api-Key", "real-key-of-the-user"},
	} {
		c := &model.Client{Codec: x.codec}
		var path, got, version string
		serves(t, c, func(w http.ResponseWriter, r *http.Request) {
			path, got, version = r.URL.Path, r.Header.Get(x.head), r.Header.Get("Anthropic-Version")
			says(x.codec)(w, r)
		})
		if _, err := c.Complete(t.Context(), question()); err != nil || path != x.path || got != x.want {
			t.Errorf("%s: %s %q %v", x.codec.Dialect(), path, got, err)
		}
		if (version != "") != (x.codec.Dialect() == model.Messages) {
			t.Errorf("%s: anthropic-version %q", x.codec.Dialect(), version)
		}
	}
}
