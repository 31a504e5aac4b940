package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// inProcess is a transport that calls a handler instead of a network. Bodies
// stream: what the handler flushes, the caller can read.
type inProcess struct{ h http.Handler }

func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr, in.Host = r.URL.RequestURI(), "127.0.0.1:0", r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	body, pipe := io.Pipe()
	w := &pipeWriter{header: http.Header{}, pipe: pipe, ready: make(chan struct{})}
	go w.serve(t.h, in)
	select {
	case <-w.ready:
	case <-r.Context().Done():
		body.CloseWithError(r.Context().Err()) // ends the handler's writes
		return nil, r.Context().Err()
	}
	if w.failed != nil {
		return nil, w.failed
	}
	res := &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		res.ContentLength = n
	}
	return res, nil
}

type pipeWriter struct {
	header http.Header
	pipe   *io.PipeWriter

	once   sync.Once
	ready  chan struct{} // closed once status and sent, or failed, are set
	status int
	sent   http.Header
	failed error
}

// serve runs the handler. A panic of it is a connection that broke.
func (w *pipeWriter) serve(h http.Handler, r *http.Request) {
	err := errors.New("the handler ended its connection")
	defer func() {
		_ = recover()
		w.once.Do(func() { w.failed = err; close(w.ready) })
		w.pipe.CloseWithError(err)
	}()
	h.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
	err = nil
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.ready)
	})
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(b)
}

// Flush implements http.Flusher; a pipe has no buffer.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }
