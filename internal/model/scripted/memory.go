package scripted

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// Memory serves a handler to clients of the same process over pipes instead of
// a network: real HTTP, cut connections included, and nothing to listen on.
type Memory struct {
	server    http.Server
	transport http.Transport
	conns     chan net.Conn
	closed    chan struct{}
	once      sync.Once
	done      sync.WaitGroup
}

// NewMemory starts to serve h. Close ends it.
func NewMemory(h http.Handler) *Memory {
	m := &Memory{conns: make(chan net.Conn), closed: make(chan struct{})}
	m.server.Handler = h
	m.transport.DialContext = m.dial
	m.transport.MaxIdleConnsPerHost = 64
	m.done.Go(func() { _ = m.server.Serve(m) })
	return m
}

// Transport reaches the handler under every URL of scheme http.
func (m *Memory) Transport() http.RoundTripper { return &m.transport }

// Close ends all connections and waits for the handlers of none.
func (m *Memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	m.transport.CloseIdleConnections()
	err := m.server.Close()
	m.done.Wait()
	return err
}

func (m *Memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.closed:
		return nil, errors.New("dial a scripted model: it is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept is for the HTTP server.
func (m *Memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Addr is for the HTTP server.
func (m *Memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }
