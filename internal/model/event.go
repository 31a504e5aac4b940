package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Event is one server-sent event: its data lines joined by newlines. Source:
// WHATWG HTML, 9.2 Server-sent events; ids and reconnection times mean nothing
// to a model's answer and are skipped.
type Event struct {
	Name string // of the event: line; empty without one
	Data []byte
}

// MaxEvent is the size in bytes beyond which an event is refused unless a
// reader says otherwise. The largest honest one repeats a whole answer.
const MaxEvent = 32 << 20

// ErrEventSize says that an event, or a line of one, is larger than allowed.
var ErrEventSize = errors.New("the event is too large")

// Append adds the event to dst as it goes on the wire.
func (e Event) Append(dst []byte) []byte {
	if e.Name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, e.Name...)
		dst = append(dst, '\n')
	}
	for line := range bytes.SplitSeq(e.Data, []byte("\n")) {
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}

// EventScanner cuts a stream into events as its bytes come. The zero value is
// ready, with a limit of [MaxEvent].
type EventScanner struct {
	Max int // bytes of an event; 0: MaxEvent

	line   []byte // an unfinished line
	name   string
	data   []byte
	has    bool // a data line was seen
	skipLF bool // the last line ended with CR: an LF that follows belongs to it
	begun  bool
	err    error
}

// Feed takes the next bytes and yields each event that they complete. An error
// is for good. Data of an event is the callee's to keep.
func (s *EventScanner) Feed(b []byte, yield func(Event) error) error {
	for len(b) > 0 && s.err == nil {
		if s.skipLF {
			s.skipLF = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			s.err = s.hold(b)
			return s.err
		}
		s.skipLF = b[i] == '\r'
		line := b[:i]
		if len(s.line) > 0 {
			if s.err = s.hold(line); s.err != nil {
				return s.err
			}
			line = s.line
		}
		s.err = s.take(line, yield)
		s.line = s.line[:0]
		b = b[i+1:]
	}
	return s.err
}

// End yields an event whose last line was complete but which no empty line
// followed: servers that end their stream so exist. A line that was cut in the
// middle is dropped.
func (s *EventScanner) End(yield func(Event) error) error {
	if s.err != nil {
		return s.err
	}
	return s.take(nil, yield)
}

func (s *EventScanner) max() int {
	if s.Max > 0 {
		return s.Max
	}
	return MaxEvent
}

func (s *EventScanner) hold(b []byte) error {
	if len(s.line)+len(b)+len(s.data) > s.max() {
		return fmt.Errorf("%w: more than %d bytes", ErrEventSize, s.max())
	}
	s.line = append(s.line, b...)
	return nil
}

func (s *EventScanner) take(line []byte, yield func(Event) error) error {
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) == 0 {
		return s.dispatch(yield)
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) { // a comment's field is empty
	case "event":
		s.name = string(value)
	case "data":
		if len(s.data)+len(value) > s.max() {
			return fmt.Errorf("%w: more than %d bytes", ErrEventSize, s.max())
		}
		if s.has {
			s.data = append(s.data, '\n')
		}
		s.has = true
		s.data = append(s.data, value...)
	}
	return nil
}

func (s *EventScanner) dispatch(yield func(Event) error) error {
	e := Event{Name: s.name, Data: s.data}
	has := s.has
	s.name, s.data, s.has = "", nil, false
	if !has {
		return nil // a name alone is no event
	}
	return yield(e)
}

// EventReader reads the events of a stream one at a time.
type EventReader struct {
	r     io.Reader
	scan  EventScanner
	buf   []byte
	queue []Event
	err   error
}

// NewEventReader reads from r. Events above max bytes are refused; 0: MaxEvent.
func NewEventReader(r io.Reader, max int) *EventReader {
	return &EventReader{r: r, scan: EventScanner{Max: max}, buf: make([]byte, 32<<10)}
}

// Next returns the next event, as soon as it is complete, or io.EOF.
func (r *EventReader) Next() (Event, error) {
	for len(r.queue) == 0 {
		if r.err != nil {
			return Event{}, r.err
		}
		n, err := r.r.Read(r.buf)
		r.err = r.scan.Feed(r.buf[:n], r.keep)
		if r.err != nil || err == nil {
			continue
		}
		if err == io.EOF {
			if end := r.scan.End(r.keep); end != nil {
				err = end
			}
		}
		r.err = err
	}
	e := r.queue[0]
	r.queue = r.queue[1:]
	return e, nil
}

func (r *EventReader) keep(e Event) error {
	r.queue = append(r.queue, e)
	return nil
}
