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
	listener  *pipes
	done      sync.WaitGroup
}

// NewMemory starts to serve h. Close ends it.
func NewMemory(h http.Handler) *Memory {
	m := &Memory{listener: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}}
	m.server.Handler = h
	m.transport.DialContext = m.listener.dial
	m.transport.MaxIdleConnsPerHost = 64
	m.done.Go(func() { _ = m.server.Serve(m.listener) }) // it ends by Close alone
	return m
}

// Transport reaches the handler under every URL of scheme http.
func (m *Memory) Transport() http.RoundTripper { return &m.transport }

// Close breaks all connections. Handlers see that their client is gone.
func (m *Memory) Close() error {
	err := m.server.Close()
	m.transport.CloseIdleConnections()
	_ = m.listener.Close() // again: the server may not have begun to serve it
	m.done.Wait()
	return err
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, errors.New("dial a scripted model: it is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }
