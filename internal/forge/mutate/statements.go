package mutate

import (
	"slices"
	"strings"

	"assay/internal/syntax"
)

// assignment is the assignment that a statement is.
func (f *file) assignment(n *syntax.Node) (left, right *syntax.Node, ok bool) {
	if f.is(n, expression) {
		if in := f.named(n); len(in) == 1 {
			n = in[0]
		}
	}
	if !f.is(n, assign) {
		return nil, nil, false
	}
	left, right = n.Child("left"), n.Child("right")
	return left, right, left != nil && right != nil
}

// single is the one node of a list of one, which Go has everywhere.
func (f *file) single(n *syntax.Node) *syntax.Node {
	if n != nil && n.Kind == "expression_list" {
		if in := f.named(n); len(in) == 1 {
			return in[0]
		}
	}
	return n
}

// kept reports whether an assignment is to something that outlives the call.
func (f *file) kept(left *syntax.Node) bool { return f.is(f.single(left), member, subscript) }

// statement reports whether n is a statement, and not the inside of one.
func (f *file) statement(n *syntax.Node) bool { return n.Parent != nil && f.is(n.Parent, block) }

func missingAssignment(f *file, n *syntax.Node, put func(...edit)) {
	left, right, ok := f.assignment(n)
	if !ok || !f.statement(n) || !f.kept(left) || f.empty(right) || f.constructs(n) || f.rows(n) > 1 || f.purpose(n) {
		return
	}
	if e, ok := f.without(n); ok {
		put(e)
	}
}

// constructs reports whether a node is in what makes an object, where a
// missing field is seen at once.
func (f *file) constructs(n *syntax.Node) bool {
	fn := f.up(n, function)
	if fn == nil {
		return false
	}
	id := f.nameOf(fn)
	return id == "__init__" || id == "constructor" || id == "__new__" || fn.Kind == "constructor_declaration"
}

// purpose reports whether a function is there for this statement alone, so that
// nobody forgets it: a setter's one assignment.
func (f *file) purpose(n *syntax.Node) bool {
	fn := f.up(n, function)
	if fn == nil || f.body(fn) != n.Parent {
		return false
	}
	for _, other := range f.statements(n.Parent) {
		if other != n && !f.is(other, returning) && !(f.shape.indented && f.untouched(other)) {
			return false
		}
	}
	return true
}

// empty reports whether an expression is nothing yet: null, zero, an empty
// collection.
func (f *file) empty(n *syntax.Node) bool {
	n = f.single(n)
	return f.is(n, null, truth) || slices.Contains([]string{"[]", "{}", "()", "0", `""`, "''", "new Map()", "new Set()", "dict()", "set()", "list()"}, f.text(n))
}

// staleState forgets to reset what was remembered.
func staleState(f *file, n *syntax.Node, put func(...edit)) {
	if !f.statement(n) || f.purpose(n) {
		return
	}
	left, right, ok := f.assignment(n)
	stale := ok && f.kept(left) && !f.constructs(n) && (f.empty(right) || remembers(f.text(left)))
	if f.is(n, expression) {
		if in := f.named(n); len(in) == 1 && f.is(in[0], call) {
			fn, last := f.callee(in[0])
			stale = slices.Contains([]string{"clear", "reset", "invalidate", "pop", "discard", "remove", "delete", "flush", "close", "unlink", "Unlock", "Reset", "removeListener"}, f.text(last)) && strings.Contains(fn, ".") || remembers(fn)
		}
	}
	if n.Kind == "delete_statement" {
		stale = true
	}
	if !stale {
		return
	}
	if e, ok := f.without(n); ok {
		put(e)
	}
}

func remembers(s string) bool {
	s = strings.ToLower(s)
	return strings.Contains(s, "cache") || strings.Contains(s, "dirty") || strings.Contains(s, "memo") || strings.Contains(s, "last_") || strings.Contains(s, "pending")
}

// again is an assignment of a name from itself: x = f(x).
func (f *file) again(n *syntax.Node) (left, right *syntax.Node, ok bool) {
	left, right, ok = f.assignment(n)
	if !ok || !f.statement(n) {
		return nil, nil, false
	}
	l := f.single(left)
	if !f.is(l, name, member) {
		return nil, nil, false
	}
	used := false
	right.Walk(func(c *syntax.Node) bool {
		used = used || c.Kind == l.Kind && f.text(c) == f.text(l)
		return !used
	})
	return left, right, used
}

func missingReassignment(f *file, n *syntax.Node, put func(...edit)) {
	if _, _, ok := f.again(n); ok && (f.is(n.Parent.Parent, loop, ifBranch) || len(f.statements(n.Parent)) > 1) {
		if e, ok := f.without(n); ok {
			put(e)
		}
	}
}

// lostResult calls and throws away what the call gives.
func lostResult(f *file, n *syntax.Node, put func(...edit)) {
	left, right, ok := f.again(n)
	if ok && f.is(f.single(right), call) && f.object(f.single(right)) != nil {
		put(edit{left.Start, right.Start, ""})
	}
}

func missingCall(f *file, n *syntax.Node, put func(...edit)) {
	in := f.named(n)
	if !f.is(n, expression) || !f.statement(n) || len(in) != 1 {
		return
	}
	c := in[0]
	if f.is(c, awaiting) {
		if in := f.named(c); len(in) == 1 {
			c = in[0]
		}
	}
	if !f.is(c, call) {
		return
	}
	_, last := f.callee(c)
	if slices.Contains(f.shape.quiet, f.text(last)) {
		return
	}
	if e, ok := f.without(n); ok {
		put(e)
	}
}

func wrongUpdate(f *file, n *syntax.Node, put func(...edit)) {
	if n.Kind == "inc_statement" || n.Kind == "update_expression" {
		if n.Field == "increment" || n.Field == "update" || f.is(n.Parent, loop) || n.Parent.Kind == "for_clause" {
			return // the head of a loop that would never end
		}
		if t := f.text(n); strings.HasSuffix(t, "++") {
			put(edit{n.End - 2, n.End, "--"})
		}
		return
	}
	if !f.is(n, augmented) && !f.is(n, assign) {
		return
	}
	left, right := n.Child("left"), n.Child("right")
	if left == nil || right == nil {
		return
	}
	between := string(f.src[left.End:right.Start])
	op := strings.TrimSpace(between)
	if len(op) < 2 || !strings.HasSuffix(op, "=") || strings.ContainsAny(op, ":!") {
		return
	}
	start := left.End + strings.Index(between, op)
	put(edit{start, start + len(op), "="})
	if other := map[string]string{"+=": "-=", "-=": "+=", "*=": "+=", "/=": "*=", "|=": "&=", "&=": "|=", "<<=": ">>="}[op]; other != "" && !f.texts(right) && (!f.shape.loose || f.number(right)) {
		put(edit{start, start + len(op), other})
	}
}

// shuffledStatements does two things in the wrong order that have something to
// do with each other.
func shuffledStatements(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, block) {
		return
	}
	in := f.statements(n)
	for i := 0; i+1 < len(in); i++ {
		a, b := in[i], in[i+1]
		if a.Row == b.Row || !f.simple(a) || !f.simple(b) {
			continue
		}
		// What the first makes the second must not need: that fails at once.
		made := f.makes(a)
		if made != "" && strings.Contains(f.text(b), made) && !strings.Contains(made, ".") {
			if _, _, again := f.again(b); !again {
				continue
			}
		}
		if common(f.words(a), f.words(b)) {
			put(f.swap(a, b)...)
		}
	}
}

func (f *file) simple(n *syntax.Node) bool {
	_, _, assigns := f.assignment(n)
	return assigns || f.is(n, expression) && len(f.named(n)) == 1 && f.is(f.named(n)[0], call, augmented, assign)
}

func (f *file) makes(n *syntax.Node) string {
	if left, _, ok := f.assignment(n); ok {
		return f.text(left)
	}
	return ""
}

func (f *file) words(n *syntax.Node) map[string]bool {
	out := map[string]bool{}
	n.Walk(func(c *syntax.Node) bool {
		if f.is(c, name) || strings.HasSuffix(c.Kind, "field_identifier") || c.Kind == "property_identifier" {
			if t := f.text(c); t != f.shape.self && len(t) > 1 {
				out[t] = true
			}
		}
		return true
	})
	return out
}

func common(a, b map[string]bool) bool {
	for w := range a {
		if b[w] {
			return true
		}
	}
	return false
}
