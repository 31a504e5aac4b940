package atif

import (
	"cmp"
	"slices"
	"strings"
)

// Kind says how a document stands to the main one.
type Kind string

const (
	Main         Kind = "main"
	SubAgent     Kind = "sub-agent"    // began while a turn's calls ran
	Continuation Kind = "continuation" // goes on after a compaction
	Sample       Kind = "sample"       // the same question as another, asked on purpose
	Branch       Kind = "branch"       // leaves another document's conversation, and is not what it went on with
	Other        Kind = "other"        // nothing tells where it belongs
)

// root is one document to be: a way from a node down to a leaf.
type root struct {
	id    string
	kind  Kind
	nodes []*node
	of    *node // that it belongs to: the turn that began it, or the last before it
}

// roots are the documents, the main one first, then by their beginning; side
// are the calls beside the work.
func (a *Assembly) roots() (all []*root, side []*node) {
	work := a.nodes
	if kept := slices.DeleteFunc(slices.Clone(a.nodes), beside); len(kept) > 0 {
		side = slices.DeleteFunc(slices.Clone(a.nodes), func(n *node) bool { return !beside(n) })
		work = kept
	}
	longest := lengths(work)
	var heads []*node
	for _, n := range work {
		if n.parent == nil || longest[n.parent] == 0 {
			heads = append(heads, n)
		}
	}
	asked := map[key]int{}
	for _, n := range heads {
		asked[n.asked]++
	}
	main := a.main(heads, longest)
	for len(heads) > 0 {
		n := heads[0]
		heads = heads[1:]
		r := &root{kind: kindOf(n, asked)}
		if n == main {
			r.kind = Main
		}
		r.of = cmp.Or(n.parent, n.continues, n.spawned)
		if r.kind == Other || r.kind == Sample || r.kind == Main {
			r.of = nil
		}
		for n != nil {
			next := best(n, longest)
			r.nodes = append(r.nodes, n)
			for _, c := range n.children {
				if c != next && longest[c] > 0 {
					heads = append(heads, c)
				}
			}
			n = next
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(x, y *root) int {
		if x.kind == Main || y.kind == Main {
			return cmp.Compare(btoi(y.kind == Main), btoi(x.kind == Main))
		}
		return cmp.Compare(x.nodes[0].first(), y.nodes[0].first())
	})
	return all, side
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// first is the seq of the first try.
func (n *node) first() int {
	if len(n.tries) > 0 {
		return n.tries[0].Seq
	}
	return n.call.Seq
}

// beside says whether n is no part of the work: the gateway says so, and
// nothing went on from it.
func beside(n *node) bool { return n.call.Side != "" && len(n.children) == 0 }

// lengths counts, for every node, the nodes of the longest way down from it.
// Children come later than their parents.
func lengths(work []*node) map[*node]int {
	longest := make(map[*node]int, len(work))
	for i := len(work) - 1; i >= 0; i-- {
		n := work[i]
		most := 0
		for _, c := range n.children {
			most = max(most, longest[c])
		}
		longest[n] = most + 1
	}
	return longest
}

// best is the child that the conversation went on with: the one with the
// longest rest, and of equal ones the latest that was answered.
func best(n *node, longest map[*node]int) (top *node) {
	for _, c := range n.children {
		if longest[c] == 0 {
			continue
		}
		if top == nil || longest[c] > longest[top] || longest[c] == longest[top] && (c.answer != nil || top.answer == nil) {
			top = c
		}
	}
	return top
}

// main is the conversation about the brief: one that quotes it and has tools,
// else one that quotes it; of several the longest, of equal ones the first.
func (a *Assembly) main(heads []*node, longest map[*node]int) *node {
	brief := strings.TrimSpace(head(a.brief, 400))
	rank := func(n *node) int {
		switch {
		case n.spawned != nil && n.spawnedBy != "" || n.continues != nil:
			return 0
		case brief == "" || !quotes(n, brief):
			return 1
		case len(n.tools) == 0:
			return 2
		}
		return 3
	}
	var top *node
	most := -1
	for _, n := range heads {
		if r := rank(n); r > most || r == most && longest[n] > longest[top] {
			top, most = n, r
		}
	}
	return top
}

func quotes(n *node, brief string) bool {
	for _, x := range n.delta {
		if strings.Contains(x.part.Text, brief) {
			return true
		}
	}
	return strings.Contains(n.system, brief)
}

func kindOf(n *node, asked map[key]int) Kind {
	switch {
	case n.parent != nil:
		return Branch
	case n.continues != nil && n.continues.ended(n):
		return Continuation
	case n.spawned != nil && (n.spawnedBy != "" || n.spawned.wentOn(n)):
		return SubAgent
	case asked[n.asked] > 1:
		return Sample
	}
	return Other
}

// ended says whether n's conversation went no further once next had begun.
func (n *node) ended(next *node) bool {
	for _, c := range n.children {
		if c.call.Seq > next.call.Seq {
			return false
		}
	}
	return true
}

// wentOn says whether n's conversation went on after next began.
func (n *node) wentOn(next *node) bool { return !n.ended(next) }
