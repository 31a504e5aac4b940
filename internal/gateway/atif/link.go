package atif

import (
	"encoding/json"
	"slices"
	"strings"

	"assay/internal/gateway"
	"assay/internal/model"
)

// node is one answer that was asked for, with all tries of it.
type node struct {
	call   gateway.Call
	tries  []try // earlier ones, that gave nothing whole
	answer *model.Response
	said   []atom // of the answer

	head     *node // of its conversation
	parent   *node
	children []*node
	delta    []atom // what the request adds to parent's answer; all of it without one
	depth    int    // atoms of the whole request
	asked    key
	state    key
	edited   bool // the client rewrote what came before

	system    string // leading system texts
	tools     []model.Tool
	sampling  model.Sampling
	continues *node // the conversation that this root is the rest of
	spawned   *node // the turn during which this root began
	spawnedBy string
}

// try is an earlier attempt at the same answer.
type try struct {
	Seq       int          `json:"seq"`
	Error     *model.Error `json:"error,omitempty"`
	Stop      model.Stop   `json:"stop,omitempty"`
	Aborted   bool         `json:"aborted,omitempty"`
	Message   string       `json:"message,omitempty"` // what had come by then
	Reasoning string       `json:"reasoning,omitempty"`
	Calls     []string     `json:"calls,omitempty"`

	answer *model.Response
}

// whole says whether an exchange brought an answer that its dialect calls
// complete.
func whole(x *gateway.Call, r *model.Response) bool {
	return r != nil && x.Err == nil && r.Stop != model.StopCut && r.Stop != model.StopError && !x.Aborted
}

// link finds what an exchange continues or repeats.
func (a *Assembly) link(x gateway.Exchange) {
	system, q := a.spelled.flatten(x.Asked.Messages)
	said := a.spelled.answer(x.Answer)
	n := &node{call: x.Call, answer: x.Answer, said: said, system: a.shareText(strings.Join(system, "\n\n")), tools: a.shareTools(x.Asked.Tools), sampling: x.Asked.Sampling}
	n.head = n
	from, base := key{}, 0
	previous := a.previous(x.Asked)
	if previous != nil {
		from, base = previous.state, previous.depth+len(previous.said)
	}
	hashes := rolling(from, q)
	n.asked, n.depth = hashes[len(q)], base+len(q)
	if old := a.asked[n.asked]; old != nil && old.repeatedBy(n) {
		old.again(n)
		n = old
	} else {
		a.place(n, q, hashes, previous)
		a.nodes = append(a.nodes, n)
		a.asked[n.asked] = n
	}
	a.index(n)
}

// repeatedBy says whether next asks again for what n did not get. Calls beside
// the work often ask the same of a user's words, with other tools.
func (n *node) repeatedBy(next *node) bool {
	if len(n.children) > 0 || whole(&n.call, n.answer) {
		return false
	}
	return next.call.RetryOf == n.call.Seq && n.call.Seq != 0 ||
		n.call.Side == next.call.Side && n.call.Model == next.call.Model && len(n.tools) == len(next.tools)
}

// index lets later calls find n by its answer.
func (a *Assembly) index(n *node) {
	if n.answer == nil {
		return
	}
	n.state = n.asked
	for _, x := range n.said {
		n.state = n.state.after(x.key)
	}
	if len(n.said) > 0 {
		a.states[n.state] = n
		a.answers[n.said[len(n.said)-1].key] = n
	}
	for _, c := range calls(n.answer) {
		if c.ID != "" {
			a.calls[c.ID] = n
		}
	}
	if n.answer.ID != "" {
		a.ids[n.answer.ID] = n
	}
}

// again joins a further try: it becomes the node's answer, and what came before
// is kept as a try.
func (n *node) again(next *node) {
	old := try{Seq: n.call.Seq, Error: n.call.Err, Aborted: n.call.Aborted, answer: n.answer}
	if n.answer != nil {
		old.Stop = n.answer.Stop
	}
	n.tries = append(n.tries, old)
	n.call, n.answer, n.said = next.call, next.answer, next.said
}

// previous is the node that a request of the responses dialect names instead
// of repeating it.
func (a *Assembly) previous(r *model.Request) *node {
	var id string
	if raw, ok := r.Extra["previous_response_id"]; !ok || json.Unmarshal(raw, &id) != nil {
		return nil
	}
	return a.ids[id]
}

// place gives n its parent: the longest beginning of its request that is
// another's request and answer. Where the client has rewritten what was before,
// the answer that it repeats last tells.
func (a *Assembly) place(n *node, q []atom, hashes []key, previous *node) {
	if previous != nil {
		n.join(previous, q)
		return
	}
	at, parent := 0, (*node)(nil)
	for i := len(q); i > 0 && parent == nil; i-- {
		if p := a.states[hashes[i]]; p != nil {
			at, parent = i, p
		}
	}
	last := len(q) - 1
	for last >= at && !q[last].assistant() {
		last--
	}
	if last >= at { // it quotes answers beyond that
		if p := a.answerer(&q[last]); p != nil && p != parent {
			if kept := last + 1 - len(p.said); 2*kept >= p.depth {
				n.edited = true
				n.join(p, q[last+1:])
				return
			}
			n.delta, n.continues = q, p // the rest was dropped
			return
		}
	}
	if parent != nil {
		n.join(parent, q[at:])
		return
	}
	n.delta = q
	a.origin(n)
}

// answerer is the latest node whose answer ended with what x repeats. Some
// clients spell a call anew (an alias of its tool, a default filled in): its id
// tells then.
func (a *Assembly) answerer(x *atom) *node {
	if n := a.answers[x.key]; n != nil || x.part.Call == nil {
		return n
	}
	return a.calls[x.part.Call.ID]
}

func (n *node) join(parent *node, delta []atom) {
	n.parent, n.delta = parent, slices.Clone(delta) // a slice of the request would keep all of it
	n.head = parent.head
	parent.children = append(parent.children, n)
}

// near is how many of the latest calls a new conversation is compared with.
const near = 16

// minQuote is the shortest text, in bytes, whose repetition tells that one
// conversation knows of another.
const minQuote = 24

// origin finds what a new conversation comes from: the summary that it begins
// with, or the call of a tool that began it.
func (a *Assembly) origin(n *node) {
	var texts []string
	for _, x := range n.delta {
		if x.part.Kind == model.PartText {
			texts = append(texts, strings.TrimSpace(x.part.Text))
		}
	}
	recent := a.nodes[max(0, len(a.nodes)-near):]
	for i := len(recent) - 1; i >= 0; i-- {
		if t := strings.TrimSpace(answerText(recent[i].answer)); len(t) >= minQuote && containsAny(texts, t) {
			n.continues = recent[i]
			return
		}
	}
	for i := len(recent) - 1; i >= 0; i-- {
		if n.restarts(recent[i].head) {
			n.continues = recent[i]
			return
		}
	}
	for i := len(recent) - 1; i >= 0; i-- {
		p := recent[i]
		if p.call.Side != "" {
			continue
		}
		running := len(p.children) == 0 // else only an agent in the background can come of it
		for _, c := range calls(p.answer) {
			if n.spawned == nil && running {
				n.spawned = p // the weak case: it runs while that turn's calls do
			}
			if quoted(c.Arguments, texts, running) {
				n.spawned, n.spawnedBy = p, c.ID
				return
			}
		}
	}
}

// restarts says whether n begins as the conversation of head did, with more
// said at once: a client's own words in place of what it dropped.
func (n *node) restarts(head *node) bool {
	if head == n || len(n.tools) == 0 || len(head.tools) == 0 || &n.tools[0] != &head.tools[0] || n.system != head.system {
		return false
	}
	first, again := firstText(head.delta), firstText(n.delta)
	return len(first) >= minQuote && len(again) > len(first) && strings.HasPrefix(again, first)
}

func firstText(atoms []atom) string {
	for _, x := range atoms {
		if x.part.Kind == model.PartText && x.role == model.RoleUser {
			return strings.TrimSpace(x.part.Text)
		}
	}
	return ""
}

// quoted says whether one of the texts holds a string of the arguments: any, or
// one that tells an agent what to do.
func quoted(arguments string, texts []string, every bool) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &fields) != nil {
		return false
	}
	for name, v := range fields {
		if !every && !slices.Contains([]string{"prompt", "task", "message", "instruction", "instructions", "query", "question", "input"}, name) {
			continue
		}
		var s string
		if json.Unmarshal(v, &s) != nil {
			continue
		}
		if s = strings.TrimSpace(s); len(s) >= minQuote && containsAny(texts, s) {
			return true
		}
	}
	return false
}

func containsAny(texts []string, s string) bool {
	for _, t := range texts {
		if strings.Contains(t, s) {
			return true
		}
	}
	return false
}

func calls(r *model.Response) []model.Call {
	if r == nil {
		return nil
	}
	var all []model.Call
	for _, p := range r.Message.Parts {
		if p.Kind == model.PartCall && p.Call != nil {
			all = append(all, *p.Call)
		}
	}
	return all
}

// answerText is all that an answer says aloud.
func answerText(r *model.Response) string { return texts(r, model.PartText, model.PartRefusal) }

func reasoningText(r *model.Response) string { return texts(r, model.PartReasoning) }

func texts(r *model.Response, kinds ...model.PartKind) string {
	if r == nil {
		return ""
	}
	var all []string
	for _, p := range r.Message.Parts {
		for _, k := range kinds {
			if p.Kind == k && p.Text != "" {
				all = append(all, p.Text)
			}
		}
	}
	return strings.Join(all, "\n\n")
}
