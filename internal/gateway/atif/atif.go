// Package atif makes trajectories of what went over the wire between an agent
// and its models.
//
// Calls are put together by what they say, not by their order: a request that
// repeats an earlier request and its answer continues that conversation.
// Conversations that no other continues into are documents of their own: the
// main one is the document, sub-agents, what follows a compaction, samples and
// abandoned branches are embedded in it, each with the step that it belongs to.
// Calls beside the work (titles, commit messages, probes) stand in the
// document's extra. A retry is joined with what it repeats.
//
// Invariants:
//   - The document is valid whatever agents and servers sent, and its size is
//     bounded.
//   - Every answer stands in it exactly once; [Missing] proves it.
//   - Nothing is made up: an unknown number is absent, an action that was read
//     out of a text says so.
//
// The package reads no files; [gateway.Read] gives it its exchanges.
package atif

import (
	"encoding/json"
	"strings"

	"assay/internal/gateway"
	"assay/internal/model"
	"assay/trajectory"
	"assay/trial"
)

// Options are what the caller knows of a run.
type Options struct {
	Session string // of the run: the document's session_id
	MaxText int    // bytes kept of one text; 0: 1 MiB
	Max     int64  // bytes of all texts together, after which each keeps 2 KiB; 0: 64 MiB
}

const (
	maxText  = 1 << 20
	maxTotal = 64 << 20
	maxLate  = 2 << 10
	maxNodes = 20_000 // calls that become steps; later ones are counted
	maxSteps = 60_000 // of all documents together
)

// Build makes a document of a trial's exchanges, given in the order of their
// Seq. It is valid even when there are none.
func Build(info trial.AgentInfo, brief string, exchanges []gateway.Exchange, o Options) (*trajectory.Trajectory, error) {
	a := New(info, brief, o)
	for _, x := range exchanges {
		a.Add(x)
	}
	return a.Document()
}

// Assembly takes exchanges one at a time, so that a long record need not be in
// memory at once: it keeps what is new in each. It is used by one goroutine.
type Assembly struct {
	info  trial.AgentInfo
	brief string
	o     Options

	nodes   []*node
	states  map[key]*node // by the hash of request and answer: what a later call continues
	asked   map[key]*node // by the hash of the request: what a later call repeats
	answers map[key]*node // by the last thing said in an answer
	ids     map[string]*node
	calls   map[string]*node // by the id of a call of an answer
	spelled speller
	texts   map[key]string
	tools   map[key][]model.Tool

	other   []otherCall // calls that asked no model
	dropped int
}

// New begins an assembly.
func New(info trial.AgentInfo, brief string, o Options) *Assembly {
	if o.MaxText <= 0 {
		o.MaxText = maxText
	}
	if o.Max <= 0 {
		o.Max = maxTotal
	}
	return &Assembly{info: info, brief: brief, o: o,
		states: map[key]*node{}, asked: map[key]*node{}, answers: map[key]*node{}, ids: map[string]*node{}, calls: map[string]*node{},
		spelled: speller{}, texts: map[key]string{}, tools: map[key][]model.Tool{}}
}

// otherCall is a call without a question to a model that could be read.
type otherCall struct {
	Seq    int    `json:"seq"`
	Side   string `json:"side,omitempty"`
	Path   string `json:"path,omitempty"`
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"`
}

// maxOther bounds the list of other calls; all of them are counted.
const maxOther = 200

// Add takes the next exchange.
func (a *Assembly) Add(x gateway.Exchange) {
	if x.Asked == nil {
		o := otherCall{Seq: x.Seq, Side: x.Side, Path: x.Path, Status: x.Status}
		if x.Err != nil {
			o.Error = x.Err.Error()
		}
		a.other = append(a.other, o)
		return
	}
	if len(a.nodes) >= maxNodes {
		a.dropped++
		return
	}
	a.link(x)
}

// Document is the trajectory of all exchanges so far.
func (a *Assembly) Document() (*trajectory.Trajectory, error) {
	w := &writer{a: a, pen: &pen{one: a.o.MaxText, max: a.o.Max}}
	return w.document(a.roots())
}

// empty is the document of a run that asked no model.
func (w *writer) empty() *trajectory.Trajectory {
	t := &trajectory.Trajectory{SchemaVersion: trajectory.Version, SessionID: w.a.o.Session, Agent: w.agent(nil)}
	t.Steps = []trajectory.Step{{ID: 1, Source: trajectory.User, Message: trajectory.Text(w.pen.cut(w.a.brief))}}
	return t
}

// note puts v under "assay" in an extra.
func note(v any) map[string]json.RawMessage {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil // times and numbers that JSON cannot hold
	}
	raw := strings.TrimSpace(b.String())
	if raw == "{}" {
		return nil
	}
	return map[string]json.RawMessage{"assay": json.RawMessage(raw)}
}
