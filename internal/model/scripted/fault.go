package scripted

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Kind is a way to fail.
type Kind string

// Kinds of faults. Those with a status answer an error in the dialect's own
// shape.
const (
	Unauthorized Kind = "unauthorized" // 401
	Forbidden    Kind = "forbidden"    // 403
	NoModel      Kind = "no-model"     // 404
	RateLimit    Kind = "rate-limit"   // 429
	Quota        Kind = "quota"        // 429: no money left
	ServerError  Kind = "server-error" // 500
	Unavailable  Kind = "unavailable"  // 503
	Overloaded   Kind = "overloaded"   // 529
	Context      Kind = "context"      // 400: the prompt is too long
	Filter       Kind = "filter"       // 400: a content filter
	Status       Kind = "status"       // any other: Status and Message

	Refusal   Kind = "refusal"             // the model declines, with status 200
	Empty     Kind = "empty"               // status 200 and nothing said
	Malformed Kind = "malformed-arguments" // of a call: half their JSON
	NoTool    Kind = "unknown-tool"        // a call of a tool that was not offered
	Huge      Kind = "huge-arguments"      // Bytes of them; 0: 1 GiB
	Endless   Kind = "endless"             // text until the client leaves, or Bytes of it

	Cut      Kind = "cut"       // the connection breaks after Events
	End      Kind = "end"       // the stream ends after Events as if all was said
	Stall    Kind = "stall"     // nothing comes after Events for For; 0: until the client leaves
	InStream Kind = "in-stream" // an error event after Events
	HTML     Kind = "html"      // a page with status 200
	HalfJSON Kind = "half-json" // an answer whose JSON breaks off
	Reset    Kind = "reset"     // the connection breaks before anything is said
)

// statuses of the kinds that have one.
func statuses() map[Kind]int {
	return map[Kind]int{
		Unauthorized: 401, Forbidden: 403, NoModel: 404, RateLimit: 429, Quota: 429, ServerError: 500,
		Unavailable: 503, Overloaded: 529, Context: 400, Filter: 400,
	}
}

// Kinds lists all kinds in the order of their documentation.
func Kinds() []Kind {
	return []Kind{Unauthorized, Forbidden, NoModel, RateLimit, Quota, ServerError, Unavailable, Overloaded, Context, Filter, Status,
		Refusal, Empty, Malformed, NoTool, Huge, Endless, Cut, End, Stall, InStream, HTML, HalfJSON, Reset}
}

// Fault makes requests fail. Without Skip, First and Each it makes all of
// them fail.
type Fault struct {
	Kind  Kind `yaml:"kind"`
	When  When `yaml:"when"`
	Skip  int  `yaml:"skip"`  // lets so many requests pass before it begins
	First int  `yaml:"first"` // fails so many requests, then lets all pass
	Each  int  `yaml:"each"`  // fails so many requests of each conversation as it stands: a retry after them succeeds

	Status     int           `yaml:"status"`
	Message    string        `yaml:"message"`
	RetryAfter time.Duration `yaml:"retry_after"`
	Events     *int          `yaml:"events"` // nil: 3
	For        time.Duration `yaml:"for"`
	Bytes      int64         `yaml:"bytes"`
}

func (f *Fault) prepare() error {
	if f.Kind == "" && f.Status != 0 {
		f.Kind = Status
	}
	switch {
	case !slices.Contains(Kinds(), f.Kind):
		return fmt.Errorf("no fault %q: they are %v", f.Kind, Kinds())
	case f.Kind == Status && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("status %d: the fault is one of 400 to 599", f.Status)
	case f.Kind != Status && f.Status != 0:
		return fmt.Errorf("a status beside kind %s: leave the kind out", f.Kind)
	case f.Skip < 0, f.First < 0, f.Each < 0, f.RetryAfter < 0, f.For < 0, f.Bytes < 0, f.Events != nil && *f.Events < 0:
		return errors.New("numbers of a fault are not negative")
	}
	return f.When.compile()
}

func (f *Fault) events() int {
	if f.Events == nil {
		return 3
	}
	return *f.Events
}

// failure is the error that the fault answers; nil: it is of another sort.
func (f *Fault) failure(a *ask) *failure {
	status, ok := statuses()[f.Kind]
	if f.Kind == Status {
		status, ok = f.Status, true
	}
	if f.Kind == InStream {
		status, ok = 529, true
	}
	if !ok {
		return nil
	}
	out := &failure{status: status, kind: f.Kind, message: f.Message, retry: f.RetryAfter}
	if f.Kind == InStream {
		out.kind = Overloaded
	}
	if out.message == "" {
		out.message = words(out.kind, a.dialect, a.model)
	}
	return out
}

// onAndOn is what an endless answer repeats.
const onAndOn = "on and on "

// spoil changes what is said.
func (f *Fault) spoil(o offer, ans *answer) {
	one := func() *call {
		if len(ans.calls) == 0 {
			ans.calls = []call{{id: callID(0, maxTurns-1, 0, 0), name: "bash", args: `{"command":"true"}`}}
			if c := o.call(shells(), map[string]any{"command": "true"}); c != nil {
				c.id = ans.calls[0].id
				ans.calls[0] = *c
			}
		}
		return &ans.calls[len(ans.calls)-1]
	}
	switch f.Kind {
	case Refusal:
		*ans = answer{id: ans.id, model: ans.model, created: ans.created, usage: ans.usage, chunk: ans.chunk, refusal: "I cannot help with that."}
	case Endless:
		ans.text, ans.calls, ans.reasoning = onAndOn, nil, ""
	case Empty:
		ans.empty = true
		ans.calls, ans.text, ans.reasoning = nil, "", ""
	case Malformed:
		c := one()
		c.args = c.args[:len(c.args)/2]
	case NoTool:
		c := one()
		c.name, c.namespace, c.custom, c.args = "no_such_tool", "", false, `{"x":1}`
	case Huge:
		c := one()
		c.args = `{"command":"` + filler + `"}`
	}
}

// due reports whether the fault is to strike, and counts.
func (s *Server) due(f *Fault, a *ask) bool {
	if !f.When.matches(a) {
		return false
	}
	var d [32]byte
	if f.Each > 0 {
		d = a.digest() // not under the lock: conversations are long
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.struck[f]
	if st == nil {
		st = &strikes{each: map[[32]byte]int{}}
		s.struck[f] = st
	}
	st.seen++
	if st.seen <= f.Skip || (f.First > 0 && st.seen > f.Skip+f.First) {
		return false
	}
	if f.Each > 0 {
		if st.each[d] >= f.Each {
			return false
		}
		st.each[d]++
	}
	return true
}

// strikes counts what a fault has met.
type strikes struct {
	seen int
	each map[[32]byte]int
}
