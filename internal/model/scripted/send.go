package scripted

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// sender writes one answer, with its timing and its fault.
type sender struct {
	w       http.ResponseWriter
	ctx     context.Context
	rec     *entry
	fault   *Fault
	latency time.Duration
	pace    time.Duration

	status int
	events int
	gone   bool // the client left, or a write failed
	broke  bool // the connection is to be broken off
}

const page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><h1>Sign in to the network</h1></body></html>\n"

func (s *sender) is(k Kind) bool { return s.fault != nil && s.fault.Kind == k }

// say answers; it reports whether all of it was said and none of it spoiled.
func (s *sender) say(w wire, a *ask, ans *answer) bool {
	if !s.wait(s.latency) {
		return false
	}
	switch {
	case s.is(Reset):
		s.breakOff()
	case s.is(HTML):
		s.header(http.StatusOK, "text/html; charset=utf-8")
		s.write([]byte(page))
	case a.stream:
		s.stream(w, a, ans)
	default:
		s.whole(w, a, ans)
	}
	return s.fault == nil && !s.gone
}

// wait pauses, unless the client leaves.
func (s *sender) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		s.gone = true
		return false
	}
}

func (s *sender) header(status int, contentType string) {
	s.status = status
	h := s.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Request-Id", "req_scripted")
	h.Set("Request-Id", "req_scripted")
	s.w.WriteHeader(status)
}

func (s *sender) json(status int, v object) {
	s.header(status, "application/json")
	s.write(append(encode(v), '\n'))
}

func (s *sender) flush() {
	if s.gone {
		return
	}
	if err := http.NewResponseController(s.w).Flush(); err != nil && s.ctx.Err() != nil {
		s.gone = true
	}
}

// write writes b, with the filler of a fault as long as it asks for.
func (s *sender) write(b []byte) bool {
	before, after, found := bytes.Cut(b, []byte(filler))
	if found && s.is(Huge) {
		return s.write(before) && s.fill() && s.write(after)
	}
	if s.gone {
		return false
	}
	n, err := s.w.Write(b)
	s.rec.sent.Add(int64(n))
	if err != nil {
		s.gone = true
	}
	return !s.gone
}

func (s *sender) fill() bool {
	left := s.fault.Bytes
	if left == 0 {
		left = 1 << 30
	}
	piece := bytes.Repeat([]byte("a"), fillPiece)
	for left > 0 && !s.gone && s.ctx.Err() == nil {
		n := min(left, fillPiece)
		s.write(piece[:n])
		left -= n
	}
	return !s.gone
}

// whole sends an unstreamed answer.
func (s *sender) whole(w wire, a *ask, ans *answer) {
	if s.is(Endless) {
		s.header(http.StatusOK, "application/json")
		s.endless(func() bool { return s.write([]byte(strings.Repeat(" \n", 32))) })
		return
	}
	b := append(encode(w.whole(a, ans)), '\n')
	switch {
	case s.is(HalfJSON), s.is(End):
		s.header(http.StatusOK, "application/json")
		s.write(b[:len(b)/2])
	case s.is(Cut), s.is(InStream):
		s.w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		s.header(http.StatusOK, "application/json")
		s.write(b[:len(b)/2])
		s.flush()
		s.breakOff()
	case s.is(Stall):
		s.stall()
		if !s.gone {
			s.header(http.StatusOK, "application/json")
			s.write(b)
		}
	default:
		s.header(http.StatusOK, "application/json")
		s.write(b)
	}
}

// stream sends events.
func (s *sender) stream(w wire, a *ask, ans *answer) {
	s.w.Header().Set("Cache-Control", "no-cache")
	s.header(http.StatusOK, "text/event-stream")
	s.flush()
	for e := range w.events(a, ans) {
		if s.events > 0 && !s.wait(s.pace) {
			return
		}
		if s.strike(w, a, e) {
			return
		}
		if !s.event(e) {
			return
		}
	}
}

// strike does what the fault does before event e; true: it was the last word.
func (s *sender) strike(w wire, a *ask, e event) bool {
	if s.fault == nil {
		return false
	}
	if s.fault.Kind == Endless {
		if !bytes.Contains(e.data, []byte(onAndOn)) {
			return false
		}
		s.endless(func() bool { return s.event(e) && s.wait(s.pace) })
		return true
	}
	if s.events != s.fault.events() {
		return false
	}
	switch s.fault.Kind {
	case Cut:
		s.breakOff()
		return true
	case End:
		return true
	case Stall:
		s.stall()
		return s.gone
	case InStream:
		s.event(w.within(*s.fault.failure(a), s.events))
		return true
	case HalfJSON:
		s.write(fmt.Appendf(nil, "data: %s", e.data[:len(e.data)/2]))
		return true
	}
	return false
}

func (s *sender) event(e event) bool {
	var b []byte
	if e.name != "" {
		b = fmt.Appendf(b, "event: %s\n", e.name)
	}
	b = append(b, "data: "...)
	b = append(b, e.data...)
	s.write(append(b, "\n\n"...))
	s.flush()
	s.events++
	return !s.gone && s.ctx.Err() == nil
}

// endless repeats until the client leaves or the fault's bytes are sent.
func (s *sender) endless(again func() bool) {
	for s.ctx.Err() == nil && again() {
		if s.fault.Bytes > 0 && s.rec.sent.Load() >= s.fault.Bytes {
			return
		}
	}
}

func (s *sender) stall() {
	if s.fault.For > 0 {
		s.wait(s.fault.For)
		return
	}
	<-s.ctx.Done()
	s.gone = true
}

// breakOff breaks the connection once the log has its entry.
func (s *sender) breakOff() { s.broke = true }
