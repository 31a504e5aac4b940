package dockerfile

import (
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

// report tells of a build's progress. Stages report side by side.
type report struct {
	mu  sync.Mutex
	w   io.Writer
	rec *Record
	now map[*execution]*RecordStep
}

func newReport(o Options, p *program) *report {
	r := &report{w: o.Progress, rec: o.Record, now: map[*execution]*RecordStep{}}
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
	where := ""
	if len(x.b.stages) > 1 {
		where = x.label() + " "
	}
	r.mu.Lock()
	r.now[x] = now
	fmt.Fprintf(r.w, "%sstep %d/%d: %s\n", where, i+1, len(x.steps), s.code)
	r.mu.Unlock()
	return func(x *execution, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		now.Seconds = time.Since(began).Seconds()
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
		fmt.Fprintln(r.w, "  cached")
	}
}

func (r *report) finish(im image.Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Image = im.ID
}

// Write passes a command's output on.
func (r *report) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.w.Write(b)
}
