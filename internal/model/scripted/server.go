package scripted

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/model"
)

// maxBody is the largest request that is read.
const maxBody = 64 << 20

// Server answers as its file says. It may be asked from many goroutines.
type Server struct {
	file  *File
	wires map[model.Dialect]wire

	ids, fence, cwd *regexp.Regexp

	mu       sync.Mutex
	struck   map[*Fault]*strikes
	answered map[[32]byte]int // how often a conversation was answered whole
	asked    int64
	log      log
}

// Open makes a server of a file's script.
func Open(path string) (*Server, error) {
	f, err := Read(path)
	if err != nil {
		return nil, err
	}
	return serve(f), nil
}

// New makes a server of a script that a program wrote. The server keeps f.
func New(f *File) (*Server, error) {
	if where, err := f.prepare(); err != nil {
		return nil, fmt.Errorf("script of a model: %s: %w", where, err)
	}
	return serve(f), nil
}

func serve(f *File) *Server {
	return &Server{
		file: f, wires: wires(), ids: idPlace(), fence: fencePattern(), cwd: cwdPattern(),
		struck: map[*Fault]*strikes{}, answered: map[[32]byte]int{},
		log: log{keep: defaultKeep},
	}
}

// ServeHTTP answers one request. A fault that breaks the connection panics
// with [http.ErrAbortHandler], as the HTTP server asks for.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, ep := route(r)
	rec := s.log.begin(r, d)
	out := &sender{w: w, ctx: r.Context(), rec: rec}
	defer s.log.end(rec, out)

	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	s.log.body(rec, body)
	switch {
	case err != nil: // the client broke off
		return
	case len(body) > maxBody:
		s.refuse(out, d, failure{status: 413, message: "Request body is too large."})
		return
	case len(s.file.Dialects) > 0 && !slices.Contains(s.file.Dialects, d) && ep != epProbe && ep != epModels:
		ep = epNone
	}
	if s.file.Key != "" && key(r) != s.file.Key && ep != epProbe {
		s.refuse(out, d, failure{status: 401, kind: Unauthorized, message: words(Unauthorized, d, "")})
		return
	}
	switch ep {
	case epAnswer, epCount:
		a, err := s.wires[d].read(r.URL.Path, body)
		if err == nil && !s.file.Lenient {
			err = a.check()
		}
		if err != nil {
			s.refuse(out, d, failure{status: 400, message: err.Error()})
			return
		}
		if ep == epCount {
			s.count(out, d, a)
			return
		}
		s.answer(out, r, a)
	case epModels:
		s.models(out, d, r.URL.Path)
	case epProbe:
		out.json(http.StatusOK, object{})
	default:
		s.refuse(out, d, failure{status: 404, message: fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path)})
	}
}

func (s *Server) refuse(out *sender, d model.Dialect, f failure) {
	if f.retry > 0 {
		secs := (f.retry + time.Second - 1) / time.Second // the header has whole seconds
		out.w.Header().Set("Retry-After", fmt.Sprint(int64(secs)))
		if d != model.Gemini {
			out.w.Header().Set("Retry-After-Ms", fmt.Sprint(f.retry.Milliseconds()))
		}
	}
	out.rec.err = f.message
	out.json(f.status, s.wires[d].fail(f))
}

func (s *Server) count(out *sender, d model.Dialect, a *ask) {
	if d == model.Gemini {
		out.json(http.StatusOK, object{"totalTokens": estimate(a.size)})
		return
	}
	out.json(http.StatusOK, object{"input_tokens": estimate(a.size)})
}

// answer says the turn that is due.
func (s *Server) answer(out *sender, r *http.Request, a *ask) {
	out.rec.model = a.model
	if len(s.file.Models) > 0 && !slices.Contains(s.file.Models, a.model) {
		s.refuse(out, a.dialect, failure{status: 404, kind: NoModel, message: words(NoModel, a.dialect, a.model)})
		return
	}
	p := s.choose(a)
	out.rec.script, out.rec.turn, out.rec.side = p.name, p.turn, p.side
	if p.err != nil {
		s.refuse(out, a.dialect, failure{status: 400, message: p.err.Error()})
		return
	}
	o := s.offer(a)
	ans, err := s.compose(o, p)
	if err != nil {
		s.refuse(out, a.dialect, failure{status: 400, message: "the script cannot be followed: " + err.Error()})
		return
	}
	if f := s.fault(p, a); f != nil {
		out.rec.fault, out.fault = f.Kind, f
		if e := f.failure(a); e != nil && f.Kind != InStream {
			s.refuse(out, a.dialect, *e)
			return
		}
		f.spoil(o, ans)
	}
	out.latency, out.pace = s.file.Latency, s.file.Pace
	if p.say.Latency != nil {
		out.latency = *p.say.Latency
	}
	if p.say.Pace != nil {
		out.pace = *p.say.Pace
	}
	if out.say(s.wires[a.dialect], a, ans) && p.sample {
		s.mu.Lock()
		s.answered[a.digest()]++
		s.mu.Unlock()
	}
}

// plan is what to say to a request.
type plan struct {
	name   string
	script int
	turn   int // from 0
	say    *Turn
	sample bool // the turn has several answers, of which this is one
	side   string
	faults []Fault
	fault  *Fault // of the turn
	err    error
}

// choose finds script and turn.
func (s *Server) choose(a *ask) plan {
	kind, text := side(a)
	for i := range s.file.Scripts {
		sc := &s.file.Scripts[i]
		if !sc.When.matches(a) || (kind != "" && sc.When.System == "" && sc.When.Tools == nil) {
			continue
		}
		p := plan{name: sc.Name, script: i, turn: s.place(i, a), faults: sc.Faults}
		if p.turn >= len(sc.Turns) {
			p.say = last()
			return p
		}
		p.say = &sc.Turns[p.turn]
		p.fault = p.say.Fault
		if n := len(p.say.Again); n > 0 {
			s.mu.Lock()
			again := s.answered[a.digest()]
			s.mu.Unlock()
			p.sample = true
			if again > 0 {
				p.say = &p.say.Again[min(again, n)-1]
			}
		}
		return p
	}
	switch {
	case kind != "":
		return plan{side: kind, say: &Turn{Text: text}}
	case len(s.file.Scripts) == 0:
		return plan{say: last()}
	default:
		return plan{err: fmt.Errorf("no script is meant for this request: %.200q", a.said())}
	}
}

// last is the turn after all turns.
func last() *Turn {
	done := "Done."
	return &Turn{Calls: []Intention{{Submit: &done}}}
}

// compose makes an answer of a turn.
func (s *Server) compose(o offer, p plan) (*answer, error) {
	s.mu.Lock()
	s.asked++
	n := s.asked
	s.mu.Unlock()
	t := p.say
	ans := &answer{
		id: requestID(n), model: o.a.model, created: time.Now().Unix(), reasoning: t.Reasoning, text: t.Text, refusal: t.Refusal, stop: t.Stop,
		chunk: 24,
	}
	for _, c := range []int{s.file.Chunk, t.Chunk} {
		if c > 0 {
			ans.chunk = c
		}
	}
	calls, text, err := o.do(t.Calls)
	if err != nil {
		return nil, err
	}
	before := o.a.answers()
	for k := range calls {
		calls[k].id = callID(p.script, p.turn, k, before)
	}
	ans.calls = calls
	if text != "" {
		ans.text = strings.TrimPrefix(ans.text+"\n\n"+text, "\n\n")
	}
	if !t.NoUsage {
		ans.usage = t.Usage
		if ans.usage == nil {
			ans.usage = &Usage{Input: estimate(o.a.size), Output: estimate(ans.outputBytes()), Reasoning: estimate(len(t.Reasoning))}
			if t.Reasoning == "" {
				ans.usage.Reasoning = 0
			}
		}
	}
	return ans, nil
}

// fault returns the first that strikes: of the file, the script, the turn.
func (s *Server) fault(p plan, a *ask) *Fault {
	for _, all := range [][]Fault{s.file.Faults, p.faults} {
		for i := range all {
			if s.due(&all[i], a) {
				return &all[i]
			}
		}
	}
	if f := p.fault; f != nil && s.due(f, a) {
		return f
	}
	return nil
}

// digest is of the conversation, not of the bytes: clients put times and ids
// of their own beside it.
func (a *ask) digest() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %q %q %+v", a.dialect, a.model, a.system, a.msgs))
}

func (s *Server) models(out *sender, d model.Dialect, path string) {
	names := s.file.Models
	if len(names) == 0 {
		names = []string{"scripted"}
	}
	one := func(n string) object {
		switch d {
		case model.Messages:
			return object{"type": "model", "id": n, "display_name": n, "created_at": "2026-01-01T00:00:00Z"}
		case model.Gemini:
			return object{"name": "models/" + n, "displayName": n, "supportedGenerationMethods": []string{"generateContent", "countTokens"}}
		default:
			return object{"id": n, "object": "model", "created": 1767225600, "owned_by": "scripted"}
		}
	}
	if _, name, ok := strings.Cut(path, "/models/"); ok && name != "" {
		if !slices.Contains(names, name) && len(s.file.Models) > 0 {
			s.refuse(out, d, failure{status: 404, kind: NoModel, message: words(NoModel, d, name)})
			return
		}
		out.json(http.StatusOK, one(name))
		return
	}
	list := []object{}
	for _, n := range names {
		list = append(list, one(n))
	}
	switch d {
	case model.Messages:
		out.json(http.StatusOK, object{"data": list, "has_more": false, "first_id": names[0], "last_id": names[len(names)-1]})
	case model.Gemini:
		out.json(http.StatusOK, object{"models": list})
	default:
		out.json(http.StatusOK, object{"object": "list", "data": list})
	}
}
