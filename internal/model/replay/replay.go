package replay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"assay/internal/gateway"
	"assay/internal/model"
)

// maxBody is the largest request that is read.
const maxBody = 64 << 20

// Server answers from one record. It may be asked from many goroutines, and
// by several trials: what the record has once, it gives to each that asks.
type Server struct {
	recs   []*gateway.Record // of a trial in steps several
	codecs model.Codecs
	plain  *normaliser
	calls  []recorded

	mu    sync.Mutex
	known map[[32]byte][]int // calls of a conversation, in order
	given map[[32]byte]int   // how often it was asked for
}

// recorded is a call that a provider was asked for.
type recorded struct {
	gateway.Call
	rec     *gateway.Record
	dialect model.Dialect // of its answer
	asked   said
}

// Open reads the record of a trial: dir is the trial's directory, or the
// record's own. Close it.
func Open(dir string, codecs model.Codecs) (*Server, error) {
	s := &Server{codecs: codecs, plain: newNormaliser(), known: map[[32]byte][]int{}, given: map[[32]byte]int{}}
	if err := s.read(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("replay %s: %w (it is the directory of a trial whose agent asked a model)", dir, err), s.Close())
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("replay %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// read opens the record of a trial, or those of all of its steps.
func (s *Server) read(dir string) error {
	places := []string{filepath.Join(dir, "agent", "model"), dir}
	steps, err := os.ReadDir(filepath.Join(dir, "steps"))
	for _, step := range steps {
		places = append(places, filepath.Join(dir, "steps", step.Name(), "agent", "model"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var missing error
	for _, at := range places {
		rec, err := gateway.Read(at)
		switch {
		case err == nil:
			s.recs = append(s.recs, rec)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case missing == nil:
			missing = err
		}
	}
	if len(s.recs) == 0 {
		return missing
	}
	return nil
}

// Close releases the record.
func (s *Server) Close() error {
	var err error
	for _, rec := range s.recs {
		err = errors.Join(err, rec.Close())
	}
	return err
}

// Dialects are those in which the recorded provider was asked. An agent that
// speaks another is translated, as it was then.
func (s *Server) Dialects() []model.Dialect {
	all := map[model.Dialect]bool{}
	for _, c := range s.calls {
		all[c.dialect] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (s *Server) load() error {
	s.plain.memo = map[string]string{} // every request repeats those before it
	defer func() { s.plain.memo = nil }()
	for _, rec := range s.recs {
		if err := s.loadOne(rec); err != nil {
			return err
		}
	}
	if len(s.calls) == 0 {
		return errors.New("no provider answered any call of it")
	}
	return nil
}

func (s *Server) loadOne(rec *gateway.Record) error {
	for _, c := range rec.Calls() {
		if c.Request == "" || c.Host == "" || ours(c.Err) {
			continue // nobody but the gateway answered it
		}
		r := recorded{Call: c, rec: rec, dialect: c.Dialect}
		if c.Upstream != "" {
			r.dialect = c.Upstream
		}
		request, _, err := rec.Raw(c.Seq)
		if err != nil {
			return err
		}
		r.asked = s.understand(c.Dialect, c.Path, request)
		d := r.asked.digest()
		s.known[d] = append(s.known[d], len(s.calls))
		s.calls = append(s.calls, r)
	}
	return nil
}

// ours reports whether the gateway spoke, and not the provider.
func ours(e *model.Error) bool {
	if e == nil {
		return false
	}
	switch e.Kind {
	case model.ErrBudget, model.ErrDeadline, model.ErrLoop, model.ErrForbidden, model.ErrBusy:
		return true
	}
	return false
}

func (s *Server) understand(d model.Dialect, path string, body []byte) said {
	if codec := s.codecs[d]; codec != nil && !strings.Contains(path, "count") {
		if r, err := codec.ParseRequest(path, body); err == nil {
			return s.plain.conversation(&r)
		}
	}
	return s.plain.body(last(path), body)
}

// last is what a path asks for, without what providers and gateways put
// before it.
func last(path string) string {
	path = strings.TrimRight(path, "/")
	for _, end := range []string{"/messages/count_tokens", "/chat/completions", "/responses", "/messages"} {
		if strings.HasSuffix(path, end) {
			return end
		}
	}
	return path[strings.LastIndexAny(path, "/:")+1:]
}

func dialect(path string) (model.Dialect, bool) {
	switch end := last(path); {
	case end == "/chat/completions":
		return model.Chat, true
	case end == "/responses":
		return model.Responses, true
	case end == "/messages", end == "/messages/count_tokens":
		return model.Messages, true
	case strings.Contains(path, "/models/") && strings.Contains(path, ":"):
		return model.Gemini, true
	}
	return model.Chat, false
}

// ServeHTTP answers one request. A stream that was cut then is cut again: it
// panics with [http.ErrAbortHandler], as the HTTP server asks for.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, ok := dialect(r.URL.Path)
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil: // whoever asked is gone
		return
	case len(body) > maxBody:
		s.refuse(w, d, fmt.Errorf("the request is larger than %d bytes", maxBody))
		return
	case !ok:
		s.refuse(w, d, fmt.Errorf("%s %s was not recorded", r.Method, r.URL.Path))
		return
	}
	c, err := s.find(d, s.understand(d, r.URL.Path, body))
	if err != nil {
		s.refuse(w, d, err)
		return
	}
	_, answer, err := c.rec.Raw(c.Seq)
	if err != nil {
		s.refuse(w, d, err)
		return
	}
	s.give(w, r, c, answer)
}

// find returns the call of a conversation: the first time it is asked for the
// first that was recorded, and so on, from the beginning again when they are
// used up, since another trial may ask.
func (s *Server) find(d model.Dialect, asked said) (recorded, error) {
	key := asked.digest()
	s.mu.Lock()
	all := s.known[key]
	n := s.given[key]
	s.given[key]++
	s.mu.Unlock()
	for i := range all {
		if c := s.calls[all[(n+i)%len(all)]]; c.dialect == d {
			return c, nil
		}
	}
	best, most := 0, -1
	for i, c := range s.calls {
		if n := c.asked.common(asked); n > most {
			best, most = i, n
		}
	}
	c := s.calls[best]
	if len(all) > 0 {
		return c, fmt.Errorf("call %d was recorded in the dialect %s, and this request is in %s", c.Seq, s.calls[all[0]].dialect, d)
	}
	return c, fmt.Errorf("the conversation differs from every recorded one; from call %d, the nearest, first in this: %s", c.Seq, difference(asked, c.asked))
}

func (s *Server) refuse(w http.ResponseWriter, d model.Dialect, why error) {
	e := &model.Error{Kind: model.ErrBadRequest, Status: http.StatusBadRequest, Message: "replay: " + why.Error()}
	status, header, body := http.StatusBadRequest, http.Header{}, fmt.Appendf(nil, `{"error":{"message":%q,"type":"invalid_request_error"}}`, e.Message)
	if codec := s.codecs[d]; codec != nil {
		status, header, body = codec.FormatError(e)
	}
	maps.Copy(w.Header(), header)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever asked may be gone
}

// give sends what was recorded, and ends as it ended.
func (s *Server) give(w http.ResponseWriter, r *http.Request, c recorded, answer []byte) {
	if c.Err != nil && c.Err.Kind == model.ErrUnreachable || c.Status == 0 && len(answer) == 0 {
		panic(http.ErrAbortHandler)
	}
	status := c.Status
	if c.Err != nil && c.Err.Status != 0 {
		status = c.Err.Status // of the provider; the agent may have got another
	}
	if status == 0 || c.Err != nil && c.Err.Kind == model.ErrMalformed {
		status = http.StatusOK // the gateway had to say what the provider did not
	}
	if c.Err != nil && c.Err.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int64(c.Err.RetryAfter.Seconds()+0.5)))
	}
	w.Header().Set("Content-Type", contentType(answer))
	w.WriteHeader(status)
	_, _ = w.Write(answer)
	_ = http.NewResponseController(w).Flush() // where it cannot, the end of the answer does
	switch {
	case c.Err != nil && c.Err.Kind == model.ErrStalled:
		<-r.Context().Done()
	case c.Aborted, c.Err != nil && c.Err.Kind == model.ErrCutStream:
		panic(http.ErrAbortHandler)
	}
}

func contentType(b []byte) string {
	text := strings.TrimLeft(string(b[:min(len(b), 64)]), " \r\n\t")
	switch {
	case strings.HasPrefix(text, "data:"), strings.HasPrefix(text, "event:"), strings.HasPrefix(text, ":"), strings.HasPrefix(text, "id:"), strings.HasPrefix(text, "retry:"):
		return "text/event-stream"
	case strings.HasPrefix(text, "<"):
		return "text/html"
	default:
		return "application/json"
	}
}
