package dockerfile

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"assay/internal/image"
)

// Record says what an image was made of.
type Record struct {
	Dockerfile string       `json:"dockerfile"`
	Image      image.ID     `json:"image"`
	Network    string       `json:"network"`
	UID        string       `json:"uid_mode"`
	Steps      []RecordStep `json:"steps"`
	// Inherited is what RUN had of this machine's settings.
	Inherited []Inherited `json:"inherited,omitempty"`
	// Allowed and Reached are the caller's to fill: the rules of the network, and
	// what the build did with them.
	Allowed  []string  `json:"allowed,omitempty"`
	Reached  []Reached `json:"reached,omitempty"`
	Secrets  []string  `json:"secrets,omitempty"` // ids alone
	Warnings []string  `json:"warnings,omitempty"`
}

// Reached is one target of a build's network.
type Reached struct {
	Host        string `json:"host"`
	Port        uint16 `json:"port,omitempty"`
	Connections int64  `json:"connections,omitempty"`
	Refused     int64  `json:"refused,omitempty"`
	Why         string `json:"why,omitempty"` // of the first refusal
	Sent        int64  `json:"sent,omitempty"`
	Received    int64  `json:"received,omitempty"`
}

// RecordStep is one instruction of a Record.
type RecordStep struct {
	Stage   string        `json:"stage"`
	Line    int           `json:"line"`
	Code    string        `json:"code"`
	Layer   image.LayerID `json:"layer,omitempty"` // empty: it changed nothing
	Key     string        `json:"key,omitempty"`   // empty: it concerns the configuration alone
	Cached  bool          `json:"cached"`
	Seconds float64       `json:"seconds"`
}

// Event is a moment of a build.
type Event struct {
	Kind    EventKind     `json:"event"`
	Stage   string        `json:"stage"` // its name, or "stage-N"
	Step    int           `json:"step"`  // of the stage, from 1
	Steps   int           `json:"steps"` // that the stage has
	Line    int           `json:"line"`  // of the Dockerfile
	Code    string        `json:"code,omitempty"`
	Text    string        `json:"text,omitempty"` // of EventOutput: a line, without its end
	Layer   image.LayerID `json:"layer,omitempty"`
	Cached  bool          `json:"cached,omitempty"`
	Seconds float64       `json:"seconds,omitempty"`
	Error   string        `json:"error,omitempty"` // of a step that failed
}

// EventKind is what an Event tells.
type EventKind string

const (
	EventStarted EventKind = "started"
	EventOutput  EventKind = "output"
	EventEnded   EventKind = "ended"
)

// report tells of a build's progress. Stages report side by side.
type report struct {
	mu   sync.Mutex
	w    io.Writer
	tell func(Event)
	rec  *Record
	now  map[*execution]*RecordStep
}

func newReport(o Options, p *program) *report {
	r := &report{w: o.Progress, tell: o.Events, rec: o.Record, now: map[*execution]*RecordStep{}}
	if r.tell == nil {
		r.tell = func(Event) {}
	}
	if r.rec == nil {
		r.rec = &Record{}
	}
	network := string(o.Network)
	if network == "" {
		network = "none"
	}
	*r.rec = Record{Dockerfile: p.file, Network: network, UID: string(o.UID), Inherited: o.Inherited, Warnings: p.warnings}
	for id := range o.Secrets {
		r.rec.Secrets = append(r.rec.Secrets, id)
	}
	slices.Sort(r.rec.Secrets)
	for _, w := range p.warnings {
		fmt.Fprintln(r.w, "warning:", w)
	}
	return r
}

// label is a stage's name in the progress.
func (x *execution) label() string {
	if x.s.name != "" {
		return x.s.name
	}
	return fmt.Sprintf("stage-%d", x.s.index)
}

// step begins a step; the function it returns ends it.
func (r *report) step(x *execution, i int, s step) func(*execution, error) {
	began := time.Now()
	now := &RecordStep{Stage: x.label(), Line: s.line, Code: s.code}
	e := Event{Stage: now.Stage, Step: i + 1, Steps: len(x.steps), Line: s.line, Code: s.code}
	r.mu.Lock()
	r.now[x] = now
	fmt.Fprintf(r.w, "%sstep %d/%d: %s\n", x.prefix(), i+1, len(x.steps), s.code)
	e.Kind = EventStarted
	r.tell(e)
	r.mu.Unlock()
	x.out = &output{r: r, x: x, at: e}
	return func(x *execution, err error) {
		x.out.flush()
		r.mu.Lock()
		defer r.mu.Unlock()
		now.Seconds = time.Since(began).Seconds()
		e.Kind, e.Seconds, e.Layer, e.Cached = EventEnded, now.Seconds, now.Layer, now.Cached
		if err != nil {
			e.Error = err.Error()
		}
		r.tell(e)
		if err == nil {
			r.rec.Steps = append(r.rec.Steps, *now)
		}
		delete(r.now, x)
	}
}

func (r *report) layer(x *execution, key string, id image.LayerID, cached bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now[x]; now != nil {
		now.Key, now.Layer, now.Cached = key, id, cached
	}
	if cached {
		fmt.Fprintln(r.w, x.prefix()+"  cached")
	}
}

func (r *report) finish(im image.Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Image = im.ID
}

// prefix tells stages apart where there are several.
func (x *execution) prefix() string {
	if len(x.b.stages) > 1 {
		return x.label() + " "
	}
	return ""
}

// output passes what a step's command writes on, a line at a time, so that
// stages do not tear each other's lines apart.
type output struct {
	r    *report
	x    *execution
	at   Event
	line []byte // not ended yet
}

// maxLine is how long a line may be, in bytes, before it is passed on without
// its end.
const maxLine = 64 << 10

// Write takes everything.
func (o *output) Write(b []byte) (int, error) {
	rest := append(o.line, b...)
	for {
		i := bytes.IndexByte(rest, '\n')
		switch {
		case i >= 0:
			o.pass(rest[:i])
			rest = rest[i+1:]
		case len(rest) >= maxLine:
			o.pass(rest)
			rest = nil
		default:
			o.line = append([]byte(nil), rest...)
			return len(b), nil
		}
	}
}

func (o *output) flush() {
	if len(o.line) > 0 {
		o.pass(o.line)
		o.line = nil
	}
}

func (o *output) pass(line []byte) {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	fmt.Fprintf(o.r.w, "%s%s\n", o.x.prefix(), line)
	e := o.at
	e.Kind, e.Code, e.Text = EventOutput, "", string(line)
	o.r.tell(e)
}
