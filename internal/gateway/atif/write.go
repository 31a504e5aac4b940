package atif

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"assay/internal/model"
	"assay/trajectory"
)

// writer makes documents of roots.
type writer struct {
	a     *Assembly
	pen   *pen
	steps int            // of all documents
	at    map[*node]spot // where a turn stands
	said  map[key]bool   // every atom of every answer
}

// spot is a step of one of the documents.
type spot struct{ doc, step int }

// summary is what the main document's extra says under "assay".
type summary struct {
	Calls     int            `json:"calls"`
	Roots     []rootNote     `json:"roots,omitempty"`
	Side      []sideNote     `json:"side,omitempty"`
	Other     []otherCall    `json:"other,omitempty"`
	OtherN    int            `json:"other_calls,omitempty"`
	Dropped   int            `json:"dropped_calls,omitempty"` // beyond the number that a document holds
	CutSteps  bool           `json:"cut_steps,omitempty"`
	Sampling  model.Sampling `json:"sampling"`
	Withheld  []string       `json:"withheld,omitempty"`
	Pinned    []string       `json:"pinned,omitempty"`
	Losses    []model.Loss   `json:"losses,omitempty"`
	Unknown   bool           `json:"partial,omitempty"` // some calls do not say what they took
	TokensOut bool           `json:"tokens_dropped,omitempty"`
}

// rootNote names one document.
type rootNote struct {
	ID    string `json:"trajectory_id"`
	Kind  Kind   `json:"kind"`
	Of    string `json:"of,omitempty"` // the document that it belongs to
	Step  int    `json:"step,omitempty"`
	Calls int    `json:"calls"`
	First int    `json:"first_seq"`
}

func (w *writer) document(roots []*root, side []*node) (*trajectory.Trajectory, error) {
	if len(roots) == 0 {
		t := w.empty()
		t.Extra = note(w.summarize(nil, side))
		return t, nil
	}
	w.at, w.said = map[*node]spot{}, map[key]bool{}
	for _, n := range w.a.nodes {
		for _, x := range n.said {
			w.said[x.key] = true
		}
	}
	docs := make([]trajectory.Trajectory, len(roots))
	for i, r := range roots {
		r.id = "main"
		if i > 0 {
			r.id = fmt.Sprintf("root-%d", i+1)
		}
		docs[i] = w.root(i, r)
	}
	notes := w.refer(docs, roots)
	for i := range docs {
		number(&docs[i])
	}
	s := w.summarize(roots, side)
	s.Roots = notes
	t := docs[0]
	t.Subagents = docs[1:]
	if len(t.Subagents) == 0 {
		t.Subagents = nil
	}
	t.SessionID = w.a.o.Session
	t.Extra = note(s)
	t.FinalMetrics = w.totals(int64(len(t.Steps)), &s)
	return &t, nil
}

func number(t *trajectory.Trajectory) {
	for i := range t.Steps {
		t.Steps[i].ID = int64(i + 1)
	}
}

func (w *writer) agent(first *node) trajectory.Agent {
	g := trajectory.Agent{Name: clean(w.a.info.Name), Version: clean(w.a.info.Version)}
	if g.Version == "" {
		g.Version = "unknown"
	}
	switch {
	case w.a.info.Model != nil:
		g.ModelName = clean(w.a.info.Model.Name)
	case first != nil:
		g.ModelName = clean(first.call.Model)
	}
	return g
}

// root writes one document.
func (w *writer) root(doc int, r *root) trajectory.Trajectory {
	t := trajectory.Trajectory{SchemaVersion: trajectory.Version, TrajectoryID: r.id, Agent: w.agent(r.nodes[0])}
	t.Agent.ToolDefinitions = w.tools(r.nodes)
	b := &steps{w: w, doc: doc, open: map[string][]*waiting{}}
	if s := r.nodes[0].system; s != "" {
		b.add(trajectory.Step{Source: trajectory.System, Timestamp: stamp(r.nodes[0].call.Time), Message: trajectory.Text(w.pen.cut(s))})
	}
	for i, n := range r.nodes {
		var next *node
		if i+1 < len(r.nodes) {
			next = r.nodes[i+1]
		}
		b.turn(n, next, i > 0 && n.system != r.nodes[i-1].system)
	}
	if len(b.all) == 0 {
		b.all = append(b.all, trajectory.Step{Source: trajectory.User, Message: trajectory.Text("")})
	}
	t.Steps = b.all
	if doc > 0 {
		t.Extra = note(rootNote{ID: r.id, Kind: r.kind, Calls: len(r.nodes), First: r.nodes[0].first()})
	}
	return t
}

// tools are all that a conversation's requests offered, each as first defined.
func (w *writer) tools(nodes []*node) (all []json.RawMessage) {
	seen := map[string]bool{}
	for _, n := range nodes {
		for _, t := range n.tools {
			id := t.Namespace + "\x00" + t.Name + "\x00" + t.Hosted
			if seen[id] {
				continue
			}
			seen[id] = true
			if d, ok := definition(t); ok && w.pen.room(len(d)) {
				all = append(all, d)
			}
		}
	}
	return all
}

// refer says in the documents where the others belong.
func (w *writer) refer(docs []trajectory.Trajectory, roots []*root) []rootNote {
	all := make([]rootNote, 0, len(roots))
	for _, r := range roots {
		n := rootNote{ID: r.id, Kind: r.kind, Calls: len(r.nodes), First: r.nodes[0].first()}
		at, ok := w.at[r.of]
		if r.of != nil && ok {
			n.Of, n.Step = roots[at.doc].id, at.step+1
			ref := trajectory.SubagentRef{TrajectoryID: r.id, SessionID: w.a.o.Session, Extra: note(map[string]string{"kind": string(r.kind)})}
			switch r.kind {
			case SubAgent:
				delegate(&docs[at.doc].Steps[at.step], r.nodes[0].spawnedBy, ref)
			case Continuation:
				docs[at.doc].Steps = append(docs[at.doc].Steps, compaction(r.nodes[0].call.Time, ref))
			}
		}
		all = append(all, n)
	}
	if len(all) == 1 {
		return nil
	}
	return all
}

// delegate puts a reference beside the answer to the call that began a
// sub-agent.
func delegate(s *trajectory.Step, call string, ref trajectory.SubagentRef) {
	if s.Observation == nil {
		s.Observation = &trajectory.Observation{}
	}
	call = clean(call)
	for i := range s.Observation.Results {
		if r := &s.Observation.Results[i]; r.CallID == call {
			r.Subagents = append(r.Subagents, ref)
			return
		}
	}
	result := trajectory.ObservationResult{Subagents: []trajectory.SubagentRef{ref}}
	if slices.ContainsFunc(s.ToolCalls, func(c trajectory.ToolCall) bool { return c.ID == call }) {
		result.CallID = call
	}
	s.Observation.Results = append(s.Observation.Results, result)
}

// compaction ends a document that another goes on from, marked as Harbor's own
// agents do.
func compaction(at time.Time, ref trajectory.SubagentRef) trajectory.Step {
	return trajectory.Step{
		Source: trajectory.System, Timestamp: stamp(at),
		Message:     trajectory.Text("The context was compacted; the conversation goes on in " + ref.TrajectoryID + "."),
		Observation: &trajectory.Observation{Results: []trajectory.ObservationResult{{Subagents: []trajectory.SubagentRef{ref}}}},
		Extra:       map[string]json.RawMessage{"context_management": json.RawMessage(`{"type":"compaction","boundary":"replace"}`)},
	}
}

// summarize collects what is said of the whole run.
func (w *writer) summarize(roots []*root, side []*node) summary {
	s := summary{Calls: len(w.a.nodes) + len(w.a.other) + w.a.dropped, OtherN: len(w.a.other), Dropped: w.a.dropped, CutSteps: w.steps > maxSteps}
	s.Other = w.a.other[:min(len(w.a.other), maxOther)]
	for i := range s.Other {
		s.Other[i].Path, s.Other[i].Error = w.pen.cut(head(s.Other[i].Path, maxLate)), w.pen.cut(head(s.Other[i].Error, maxLate))
	}
	if len(roots) > 0 {
		s.Sampling = roots[0].nodes[0].sampling
		s.Sampling.Effort = clean(s.Sampling.Effort)
		for i := range s.Sampling.Stop {
			s.Sampling.Stop = slices.Clone(s.Sampling.Stop)
			s.Sampling.Stop[i] = clean(s.Sampling.Stop[i])
		}
	}
	for _, n := range side {
		s.Side = append(s.Side, w.side(n))
	}
	losses, withheld, pinned := map[model.Loss]bool{}, map[string]bool{}, map[string]bool{}
	for _, n := range w.a.nodes {
		s.Calls += len(n.tries)
		for _, l := range n.call.Losses {
			losses[model.Loss{Field: clean(l.Field), Why: clean(l.Why)}] = len(losses) < maxOther
		}
		for _, x := range n.call.Withheld {
			withheld[clean(x)] = len(withheld) < maxOther
		}
		for _, x := range n.call.Pinned {
			pinned[clean(x)] = len(pinned) < maxOther
		}
	}
	s.Withheld, s.Pinned = slices.Sorted(maps.Keys(withheld)), slices.Sorted(maps.Keys(pinned))
	s.Losses = slices.SortedFunc(maps.Keys(losses), func(x, y model.Loss) int {
		return cmp.Or(cmp.Compare(x.Field, y.Field), cmp.Compare(x.Why, y.Why))
	})
	s.TokensOut = w.pen.tokens
	return s
}

// totals are those of every call to a model, side calls and tries included.
func (w *writer) totals(steps int64, s *summary) *trajectory.FinalMetrics {
	f := &trajectory.FinalMetrics{Steps: &steps}
	for _, n := range w.a.nodes {
		u := usageOf(n)
		add(&f.PromptTokens, u.Input)
		add(&f.CachedTokens, u.Cached)
		add(&f.CompletionTokens, u.Output)
		addMoney(&f.CostUSD, n.call.CostUSD)
		if n.answer != nil && (u.Input == nil || u.Output == nil || n.call.CostUSD == nil) {
			s.Unknown = true
		}
	}
	if s.Unknown {
		f.Extra = note(map[string]bool{"partial": true})
	}
	return f
}

func usageOf(n *node) model.Usage {
	switch {
	case n.call.Usage != nil:
		return *n.call.Usage
	case n.answer != nil && n.answer.Usage != nil:
		return *n.answer.Usage
	}
	return model.Usage{}
}

func add(total **int64, n *int64) {
	if n == nil {
		return
	}
	if *total == nil {
		*total = new(int64)
	}
	**total += *n
}

func addMoney(total **float64, n *float64) {
	if n == nil || !isFinite(*n) {
		return
	}
	if *total == nil {
		*total = new(float64)
	}
	**total += *n
}

// stamp writes a time as ATIF's producers do; none for a time that it cannot
// hold.
func stamp(t time.Time) string {
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}
