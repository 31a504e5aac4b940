// Package modeltest is what every codec must pass. It feeds a codec samples of
// its own wire format and answers in the common form, and compares what comes
// out on each way: read and written, streamed and whole, cut and broken. It
// never talks to a model.
package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/internal/model"
)

// Samples are traffic of one dialect, as its servers and clients write it.
type Samples struct {
	Requests []Request
	Answers  []Answer
}

// Request is a body, and the path that it was posted to.
type Request struct {
	Name, Path, Body string
}

// Answer is one answer twice: whole, and as the bytes of its stream.
type Answer struct {
	Name, Whole, Stream string
	Want                model.Stop
}

// Run runs all of it.
func Run(t *testing.T, c model.Codec, s Samples) {
	for _, r := range s.Requests {
		t.Run("request/"+r.Name, func(t *testing.T) { request(t, c, r) })
	}
	for _, a := range s.Answers {
		t.Run("answer/"+a.Name, func(t *testing.T) { answer(t, c, a) })
	}
	for name, r := range Responses() {
		t.Run("write/"+name, func(t *testing.T) { write(t, c, r) })
		t.Run("stream/"+name, func(t *testing.T) { stream(t, c, r) })
	}
	t.Run("interleaved", func(t *testing.T) { interleaved(t, c) })
	t.Run("errors", func(t *testing.T) { failures(t, c) })
	t.Run("many", func(t *testing.T) { many(t, c) })
	t.Run("hostile", func(t *testing.T) { hostile(t, c) })
}

// Same compares requests or answers. Ids of items and dialects are told apart
// from what was said: they differ from wire to wire.
func Same(want, got any) string {
	filled := func(a, b json.RawMessage) bool { return len(a) > 0 || len(b) > 0 }
	asJSON := cmp.Transformer("json", func(r json.RawMessage) any {
		var v any
		if json.Unmarshal(r, &v) != nil {
			return string(r)
		}
		return v
	})
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.FilterValues(filled, asJSON), cmpopts.IgnoreFields(model.Part{}, "ID"))
}

// request: what was read, written and read again says the same, without loss.
func request(t *testing.T, c model.Codec, r Request) {
	first, err := c.ParseRequest(r.Path, []byte(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Messages) == 0 {
		t.Fatal("no messages were read")
	}
	path, body, losses, err := c.FormatRequest(first)
	if err != nil || len(losses) > 0 {
		t.Fatalf("write again: %v, losses %v", err, losses)
	}
	second, err := c.ParseRequest(path, body)
	if err != nil {
		t.Fatalf("read again: %v\n%s", err, body)
	}
	if d := Same(first, second); d != "" {
		t.Errorf("read, written and read again (-first +second):\n%s\n%s", d, body)
	}
}

// answer: the stream says what the whole answer says, and each beginning of it
// is known to be cut.
func answer(t *testing.T, c model.Codec, a Answer) {
	whole, err := c.ParseResponse([]byte(a.Whole))
	if err != nil {
		t.Fatal(err)
	}
	if whole.Stop != a.Want {
		t.Errorf("stop is %q, want %q", whole.Stop, a.Want)
	}
	events := Events(t, []byte(a.Stream))
	streamed, err := Decode(c, events)
	if err != nil {
		t.Fatal(err)
	}
	whole.Extra, whole.Message.Extra, whole.Dialect = nil, nil, ""
	if d := Same(whole, streamed); d != "" {
		t.Errorf("whole and streamed (-whole +streamed):\n%s", d)
	}
	for n := range events {
		cut, err := Decode(c, events[:n])
		if err != nil {
			t.Fatalf("cut after %d events: %v", n, err)
		}
		if cut.Stop != model.StopCut && cut.Stop != whole.Stop {
			t.Errorf("cut after %d events: stop is %q", n, cut.Stop)
		}
		if n <= len(events)/2 && cut.Stop != model.StopCut {
			t.Errorf("cut after %d of %d events it counts as %q", n, len(events), cut.Stop)
		}
	}
}

// Events cuts a stream.
func Events(t *testing.T, stream []byte) []model.Event {
	t.Helper()
	var all []model.Event
	r := model.NewEventReader(bytes.NewReader(stream), 0)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

// Decode collects what events say.
func Decode(c model.Codec, events []model.Event) (model.Response, error) {
	d := c.Decode()
	var all model.Collector
	for _, e := range events {
		deltas, err := d.Next(e)
		for _, x := range deltas {
			all.Add(x)
		}
		if err != nil {
			return all.Response(), err
		}
	}
	return all.Response(), nil
}

// failures: each kind of error that a client must tell apart survives the
// wire, with what the server said.
func failures(t *testing.T, c model.Codec) {
	kinds := []model.ErrorKind{
		model.ErrAuth, model.ErrUnknownModel, model.ErrBadRequest, model.ErrContext, model.ErrRate,
		model.ErrQuota, model.ErrOverload, model.ErrServer, model.ErrRefused,
		model.ErrBudget, model.ErrDeadline, model.ErrLoop, model.ErrForbidden, model.ErrBusy,
	}
	for _, k := range kinds {
		e := &model.Error{Kind: k, Message: "these words", RetryAfter: 3e9}
		status, header, body := c.FormatError(e)
		if status < 400 || !json.Valid(body) || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: status %d, header %v, body %s", k, status, header, body)
		}
		got := c.ParseError(status, header, body)
		if got.Kind != k || !strings.HasSuffix(got.Message, e.Message) || got.RetryAfter != e.RetryAfter || got.Status != status {
			t.Errorf("%s came back as %+v\n%s", k, got, body)
		}
		enc := c.Encode(model.Request{Model: "m", Stream: true})
		wire := enc.Next(model.Delta{Kind: model.DeltaStart, ID: "x", Model: "m"})
		wire = append(wire, enc.Next(model.Delta{Kind: model.DeltaError, Err: e})...)
		r, err := Decode(c, Events(t, wire))
		if err != nil || r.Stop != model.StopError || r.Err == nil || r.Err.Kind != k || !strings.HasSuffix(r.Err.Message, e.Message) {
			t.Errorf("%s within a stream came back as %q %+v %v\n%s", k, r.Stop, r.Err, err, wire)
		}
	}
	page := []byte("<html><head><title>502 Bad Gateway</title></head></html>")
	for status, want := range map[int]model.ErrorKind{
		200: model.ErrMalformed, 302: model.ErrMalformed, 400: model.ErrMalformed, 401: model.ErrAuth,
		429: model.ErrRate, 500: model.ErrServer, 502: model.ErrServer, 503: model.ErrOverload, 529: model.ErrOverload,
	} {
		for _, body := range [][]byte{page, nil, []byte(`{"error": {"mess`), []byte(`[]`), []byte(`{}`)} {
			if got := c.ParseError(status, http.Header{}, body); got.Kind != want || got.Message == "" {
				t.Errorf("%d %q: %+v, want %s", status, body, got, want)
			}
		}
	}
}
