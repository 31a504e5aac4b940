// Package inlet lets servers that expect a listener answer connections that
// came in another way, such as those of a sandbox's relay: an [Inlet] is a
// listener without a socket. It decides nothing about who may connect, and
// bounds nothing.
package inlet

import (
	"net"
	"sync"
)

// Inlet is a net.Listener whose connections are handed to it.
type Inlet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// New returns an open inlet.
func New() *Inlet { return &Inlet{conns: make(chan net.Conn), done: make(chan struct{})} }

// Hand gives c to whoever accepts; false: nobody will any more, and c is still
// the caller's.
func (l *Inlet) Hand(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	}
}

// Accept implements net.Listener.
func (l *Inlet) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It may be repeated.
func (l *Inlet) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener; there is no address.
func (l *Inlet) Addr() net.Addr { return &net.TCPAddr{} }

// Conn tells when somebody has closed it.
type Conn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Watch returns c as one that tells.
func Watch(c net.Conn) *Conn { return &Conn{Conn: c, closed: make(chan struct{})} }

// Closed is closed once c is.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Close implements net.Conn. It may be repeated.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}
