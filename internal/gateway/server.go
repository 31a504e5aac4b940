package gateway

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"

	"assay/internal/inlet"
)

// maxHead bounds a request's head in bytes.
const maxHead = 64 << 10

// server answers the connections of one session. It is a server of net/http
// behind a listener without a socket, so that strictness about malformed
// requests and limits of time are that package's, and what one trial's
// connections cost ends with it.
type server struct {
	http   *http.Server
	in     *inlet.Inlet
	slots  chan struct{}
	served sync.WaitGroup
}

func newServer(s *Session, l Limits) *server {
	v := &server{in: inlet.New(), slots: make(chan struct{}, l.Conns)}
	v.http = newHTTP(http.HandlerFunc(s.serveHTTP), l)
	v.served.Go(func() { _ = v.http.Serve(v.in) }) // ends with close
	return v
}

func newHTTP(h http.Handler, l Limits) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: l.Header, IdleTimeout: l.Idle, MaxHeaderBytes: maxHead,
		ErrorLog: log.New(io.Discard, "", 0), // an agent's malformed requests are its own affair
	}
}

// serve hands c over and waits until it is closed. One connection too many is
// closed at once.
func (v *server) serve(ctx context.Context, c net.Conn) {
	select {
	case v.slots <- struct{}{}:
	default:
		c.Close()
		return
	}
	defer func() { <-v.slots }()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	w := inlet.Watch(c)
	if v.in.Hand(w) {
		<-w.Closed()
	} else {
		c.Close()
	}
}

func (v *server) close() {
	v.http.Close()
	v.served.Wait()
}

// Listen serves all sessions on l until ctx ends. The path tells them apart.
func (g *Gateway) Listen(ctx context.Context, l net.Listener) error {
	h := newHTTP(http.HandlerFunc(g.serveHTTP), g.conf.Limits)
	defer context.AfterFunc(ctx, func() { h.Close() })()
	err := h.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (g *Gateway) serveHTTP(w http.ResponseWriter, r *http.Request) {
	id, _, _ := sessionPath(r.URL.Path)
	s := g.session(id)
	if s == nil {
		refuse(w, nil, guessDialect(r.Header), forbidden())
		return
	}
	s.serveHTTP(w, r)
}
