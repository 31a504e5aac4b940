package scripted

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/model"
)

// defaultKeep is how many bytes of bodies and headers the log holds; older ones
// are let go, for a server may run as long as a large job.
const (
	defaultKeep = 64 << 20
	headerBytes = 1 << 10 // about what the header of a request takes
)

// Request is what a server was asked and what became of it.
type Request struct {
	Time    time.Time
	Method  string
	Path    string      // with the query
	Header  http.Header // nil once the log let it go
	Key     string      // the credential, wherever it stood
	Body    []byte      // nil once the log let it go
	Dialect model.Dialect
	Model   string
	Script  string // its name
	Turn    int    // from 0
	Side    string // "title", "commit-message": no part of the work
	Fault   Kind   // that it met
	Err     string // the error that was answered

	Status int   // 0: none was sent
	Events int   // of a stream
	Sent   int64 // bytes of the body
	Gone   bool  // the client left before the end
	Done   bool  // the handler has returned
}

// log holds the requests of a server in the order of their arrival.
type log struct {
	mu   sync.Mutex
	all  []*entry
	held int64
	keep int64
	let  int // bodies and headers before this entry were let go
}

// entry is a request in progress. Its fields belong to the handler until done.
type entry struct {
	r      Request
	sent   atomic.Int64
	model  string
	script string
	turn   int
	side   string
	fault  Kind
	err    string
}

func (l *log) begin(r *http.Request, d model.Dialect) *entry {
	e := &entry{r: Request{Time: time.Now(), Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(), Key: key(r), Dialect: d}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
	return e
}

func (l *log) body(e *entry, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.r.Body = body
	l.held += int64(len(body)) + headerBytes
	for ; l.held > l.keep && l.let < len(l.all)-1; l.let++ {
		old := &l.all[l.let].r
		l.held -= int64(len(old.Body)) + headerBytes
		old.Body, old.Header = nil, nil
	}
}

// end completes an entry, and breaks the connection if that is due.
func (l *log) end(e *entry, s *sender) {
	l.mu.Lock()
	e.r.Model, e.r.Script, e.r.Turn, e.r.Side, e.r.Fault, e.r.Err = e.model, e.script, e.turn, e.side, e.fault, e.err
	e.r.Status, e.r.Events, e.r.Gone, e.r.Done = s.status, s.events, s.gone || s.ctx.Err() != nil, true
	l.mu.Unlock()
	if s.broke {
		panic(http.ErrAbortHandler)
	}
}

// Requests are all requests so far, in the order of their arrival. Bodies and
// headers are not to be changed.
func (s *Server) Requests() []Request {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	out := make([]Request, len(s.log.all))
	for i, e := range s.log.all {
		out[i] = e.r
		out[i].Sent = e.sent.Load()
	}
	return out
}

// Forget empties the log.
func (s *Server) Forget() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.all, s.log.held, s.log.let = nil, 0, 0
}
