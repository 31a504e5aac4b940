// Package wire carries many streams over one connection: the standard streams
// of a container's first process, which is all that an engine is asked for. It
// knows nothing of engines or sandboxes and starts nothing.
//
// # Frames
//
// A frame is a kind (1 byte), a stream (4) and a length or number (4), big
// endian, then that many bytes. Each stream has a window of [window] bytes per
// direction, so that a reader that stops holds nobody else up. The other side
// may be hostile: what breaks a rule ends the connection, not the process.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	kindOpen  = 1 + iota // payload: what it is for
	kindData             // payload: bytes
	kindGrant            // number: so many more bytes may be sent
	kindEnd              // no more data comes from this side
	kindReset            // both directions are over
)

const (
	window   = 256 << 10 // bytes under way per stream and direction
	maxFrame = 32 << 10  // bytes of a data frame
	// MaxOpen bounds what a stream is opened with: a command's arguments and
	// environment fit, as far as the kernel takes them.
	MaxOpen = 8 << 20
	// MaxStreams bounds the streams that the other side may have open.
	MaxStreams = 4096
)

var (
	// ErrClosed: the connection has ended.
	ErrClosed = errors.New("connection closed")
	// ErrReset: the other side gave a stream up, or this one did.
	ErrReset = errors.New("stream given up")
)

// Conn is one end. Its methods may be called concurrently.
type Conn struct {
	r      *bufio.Reader
	w      io.Writer
	accept func(*Stream, []byte)

	wmu sync.Mutex // a frame is written whole

	mu      sync.Mutex
	streams map[uint32]*Stream
	next    uint32
	theirs  int
	err     error
	done    chan struct{}
}

// New makes an end of a connection; first is true on exactly one of both.
// Accept is called by Serve for every stream the other side opens, in order;
// it must not block. Nil refuses them.
func New(r io.Reader, w io.Writer, first bool, accept func(*Stream, []byte)) *Conn {
	c := &Conn{r: bufio.NewReaderSize(r, 64<<10), w: w, accept: accept, streams: map[uint32]*Stream{}, done: make(chan struct{})}
	c.next = 2
	if first {
		c.next = 1
	}
	return c
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Stream is one of many. Reading ends with io.EOF after the other side's
// CloseWrite and with ErrReset or ErrClosed if it did not come to that.
type Stream struct {
	c    *Conn
	id   uint32
	mine bool

	mu     sync.Mutex
	cond   sync.Cond
	buf    []byte
	eof    bool
	err    error // ends reads once buf is empty, and writes
	credit int   // bytes that may still be sent
	ended  bool  // we have sent kindEnd
	owed   int   // bytes read but not yet granted again
}

func (c *Conn) stream(id uint32, mine bool) *Stream {
	s := &Stream{c: c, id: id, mine: mine, credit: window}
	s.cond.L = &s.mu
	return s
}

// Open begins a stream and says what it is for.
func (c *Conn) Open(what []byte) (*Stream, error) {
	if len(what) > MaxOpen {
		return nil, fmt.Errorf("open stream with %d bytes: more than %d", len(what), MaxOpen)
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.err
	}
	s := c.stream(c.next, true)
	c.next += 2
	c.streams[s.id] = s
	c.mu.Unlock()
	if err := c.send(kindOpen, s.id, uint32(len(what)), what); err != nil {
		return nil, err
	}
	return s, nil
}

// ID names the stream on both sides.
func (s *Stream) ID() uint32 { return s.id }

func (c *Conn) send(kind byte, id, n uint32, payload []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	b := make([]byte, 9, 9+len(payload))
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], id)
	binary.BigEndian.PutUint32(b[5:], n)
	if _, err := c.w.Write(append(b, payload...)); err != nil {
		return ErrClosed
	}
	return nil
}

// Serve reads frames until the connection ends, and says why it did; the end
// of the input between two frames is nil.
func (c *Conn) Serve() error {
	err := c.serve()
	c.mu.Lock()
	c.err = ErrClosed
	all := c.streams
	c.streams = map[uint32]*Stream{}
	c.mu.Unlock()
	for _, s := range all {
		s.fail(ErrClosed)
	}
	close(c.done)
	return err
}

func (c *Conn) serve() error {
	var head [9]byte
	for {
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		id, n := binary.BigEndian.Uint32(head[1:]), binary.BigEndian.Uint32(head[5:])
		var payload []byte
		switch head[0] {
		case kindOpen, kindData:
			limit := uint32(maxFrame)
			if head[0] == kindOpen {
				limit = MaxOpen
			}
			if n > limit {
				return fmt.Errorf("a frame of %d bytes", n)
			}
			payload = make([]byte, n)
			if _, err := io.ReadFull(c.r, payload); err != nil {
				return err
			}
		case kindGrant, kindEnd, kindReset:
		default:
			return fmt.Errorf("a frame of unknown kind %d", head[0])
		}
		if err := c.frame(head[0], id, n, payload); err != nil {
			return err
		}
	}
}

func (c *Conn) frame(kind byte, id, n uint32, payload []byte) error {
	if kind == kindOpen {
		return c.opened(id, payload)
	}
	c.mu.Lock()
	s := c.streams[id]
	c.mu.Unlock()
	if s == nil {
		return nil // it was given up here while this was under way
	}
	switch kind {
	case kindData:
		return s.push(payload)
	case kindGrant:
		s.mu.Lock()
		if s.credit += int(n); s.credit > window {
			s.mu.Unlock()
			return errors.New("more is granted than was sent")
		}
		s.cond.Broadcast()
		s.mu.Unlock()
	case kindEnd:
		s.mu.Lock()
		s.eof = true
		s.cond.Broadcast()
		s.mu.Unlock()
	case kindReset:
		s.fail(ErrReset)
		c.drop(s)
	}
	return nil
}

func (c *Conn) opened(id uint32, what []byte) error {
	c.mu.Lock()
	if id == 0 || id%2 == c.next%2 || c.streams[id] != nil {
		c.mu.Unlock()
		return fmt.Errorf("stream %d is opened against the rules", id)
	}
	if c.theirs >= MaxStreams || c.accept == nil {
		c.mu.Unlock()
		return errors.New("too many streams are opened")
	}
	c.theirs++
	s := c.stream(id, false)
	c.streams[id] = s
	c.mu.Unlock()
	c.accept(s, what)
	return nil
}

func (c *Conn) drop(s *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[s.id] == s {
		delete(c.streams, s.id)
		if !s.mine {
			c.theirs--
		}
	}
}

func (s *Stream) push(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf)+len(b)+s.owed > window || s.eof {
		return errors.New("more is sent than was granted")
	}
	s.buf = append(s.buf, b...)
	s.cond.Broadcast()
	return nil
}

func (s *Stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.cond.Broadcast()
}

func (s *Stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	s.mu.Lock()
	for len(s.buf) == 0 && !s.eof && s.err == nil {
		s.cond.Wait()
	}
	if len(s.buf) == 0 {
		defer s.mu.Unlock()
		if s.eof {
			return 0, io.EOF
		}
		return 0, s.err
	}
	n := copy(b, s.buf)
	s.buf = s.buf[n:]
	if len(s.buf) == 0 {
		s.buf = nil
	}
	s.owed += n
	grant := 0
	if s.owed >= window/4 && !s.eof {
		grant, s.owed = s.owed, 0
	}
	s.mu.Unlock()
	if grant > 0 {
		_ = s.c.send(kindGrant, s.id, uint32(grant), nil) // the next read meets what is wrong
	}
	return n, nil
}

func (s *Stream) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		s.mu.Lock()
		for s.credit == 0 && s.err == nil && !s.ended {
			s.cond.Wait()
		}
		if s.err != nil || s.ended {
			defer s.mu.Unlock()
			if s.err != nil {
				return done, s.err
			}
			return done, io.ErrClosedPipe
		}
		n := min(len(b)-done, s.credit, maxFrame)
		s.credit -= n
		s.mu.Unlock()
		if err := s.c.send(kindData, s.id, uint32(n), b[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// CloseWrite ends this side's data. It may be repeated.
func (s *Stream) CloseWrite() error {
	s.mu.Lock()
	if s.ended || s.err != nil {
		s.mu.Unlock()
		return nil
	}
	s.ended = true
	s.cond.Broadcast()
	s.mu.Unlock()
	return s.c.send(kindEnd, s.id, 0, nil)
}

// Reset gives both directions up: reads and writes of both sides fail, what
// was not read is lost. It may be repeated.
func (s *Stream) Reset() {
	s.mu.Lock()
	gone := s.err != nil
	if !gone {
		s.err = ErrReset
	}
	s.buf = nil
	s.cond.Broadcast()
	s.mu.Unlock()
	s.c.drop(s)
	if !gone {
		_ = s.c.send(kindReset, s.id, 0, nil) // a dead connection has ended it, too
	}
}
