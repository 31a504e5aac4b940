package mutate

import (
	"slices"
	"strings"

	"assay/internal/syntax"
)

// ends reports whether a block leaves what it is in.
func (f *file) ends(b *syntax.Node) bool {
	in := f.statements(f.body(b))
	if len(in) == 0 {
		return false
	}
	last := in[len(in)-1]
	if f.is(last, expression) { // Rust
		if c := f.named(last); len(c) == 1 {
			last = c[0]
		}
	}
	if f.is(last, call) {
		_, name := f.callee(last)
		return slices.Contains([]string{"panic", "exit", "Exit", "abort", "Fatal", "Fatalf", "panic!"}, f.text(name))
	}
	return f.is(last, returning, throwing, breaking, continuing)
}

// version reports whether a branch is about the place it runs in, of which
// people do not change anything by mistake.
func (f *file) version(n *syntax.Node) bool {
	t := f.text(n.Child("condition"))
	return strings.Contains(t, "TYPE_CHECKING") || strings.Contains(t, "__name__") || strings.Contains(t, "version_info") || strings.Contains(t, "PY2")
}

// lone is an if that is a statement and has no other branch.
func (f *file) lone(n *syntax.Node) (stmt, then *syntax.Node, ok bool) {
	if !f.is(n, ifBranch) || n.Child("alternative") != nil || n.Kind == "elif_clause" || f.version(n) {
		return nil, nil, false
	}
	stmt = n
	if f.is(n.Parent, expression) {
		stmt = n.Parent
	}
	if !f.is(stmt.Parent, block) || n.Child("consequence") == nil {
		return nil, nil, false
	}
	return stmt, n.Child("consequence"), true
}

func missingGuard(f *file, n *syntax.Node, put func(...edit)) {
	stmt, then, ok := f.lone(n)
	if !ok || !f.ends(then) && !f.is(then, returning, throwing, breaking, continuing) {
		return
	}
	if e, ok := f.without(stmt); ok {
		put(e)
	}
}

func removedConditional(f *file, n *syntax.Node, put func(...edit)) {
	stmt, then, ok := f.lone(n)
	if !ok || f.ends(then) || f.rows(stmt) > 4 { // more is what the function is for
		return
	}
	if e, ok := f.without(stmt); ok {
		put(e)
	}
}

// inner is what a block holds, moved to the indentation of the node that it
// takes the place of.
func (f *file) inner(b, place *syntax.Node) (string, bool) {
	in := f.statements(f.body(b))
	if len(in) == 0 {
		return "", false
	}
	first, last := in[0], in[len(in)-1]
	if first.Row == place.Row {
		return f.text(first) + string(f.src[first.End:last.End]), true
	}
	old, now := f.indent(first), f.indent(place)
	lines := strings.SplitAfter(string(f.src[first.Start:f.past(last)]), "\n")
	for i, l := range lines[1:] {
		if rest, ok := strings.CutPrefix(l, old); ok {
			lines[i+1] = now + rest
		}
	}
	return strings.Join(lines, ""), true
}

// past is the end of a statement with the semicolon that its node may lack.
func (f *file) past(n *syntax.Node) int {
	if n.End < len(f.src) && f.src[n.End] == ';' {
		return n.End + 1
	}
	return n.End
}

func unconditionalBody(f *file, n *syntax.Node, put func(...edit)) {
	stmt, then, ok := f.lone(n)
	if !ok || f.ends(then) {
		return
	}
	if t, ok := f.inner(then, stmt); ok {
		put(at(stmt, t))
	}
}

// missingCase forgets one of several cases.
func missingCase(f *file, n *syntax.Node, put func(...edit)) {
	switch {
	case n.Kind == "elif_clause":
		put(f.cut(n.Start, n.End))
	case f.is(n, ifBranch) && f.is(n.Child("alternative"), ifBranch): // Go, Java: else if
		next := n.Child("alternative")
		if after := next.Child("alternative"); after != nil {
			put(at(next, f.text(after)))
		} else {
			put(edit{n.Child("consequence").End, next.End, ""})
		}
	case f.is(n, elseBranch) && len(f.named(n)) == 1 && f.is(f.named(n)[0], ifBranch) && f.is(n.Parent, ifBranch):
		if after := f.named(n)[0].Child("alternative"); after != nil {
			put(at(n, f.text(after)))
		} else {
			put(edit{n.Parent.Child("consequence").End, n.End, ""})
		}
	case f.is(n, caseBranch):
		t := f.text(n)
		if rest := strings.TrimSpace(t); strings.HasPrefix(rest, "default") || strings.HasPrefix(rest, "_ ") || strings.HasPrefix(rest, "case _") {
			return
		}
		put(f.cut(n.Start, n.End))
	}
}

func missingElse(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, ifBranch) {
		return
	}
	all := n.Children
	i := slices.IndexFunc(all, func(c *syntax.Node) bool { return c.Field == "alternative" })
	if i < 0 {
		return
	}
	other := all[len(all)-1]
	switch {
	case f.is(other, elseBranch) && f.shape.indented:
		put(f.cut(other.Start, other.End))
	case f.is(other, elseBranch) && len(f.named(other)) == 1 && !f.is(f.named(other)[0], ifBranch), f.is(other, block) || other.Kind == "block":
		if then := n.Child("consequence"); then != nil && f.shape.loose || f.is(n.Parent, block, expression) {
			put(edit{then.End, other.End, ""})
		}
	}
}

func swappedBranches(f *file, n *syntax.Node, put func(...edit)) {
	then, other := n.Child("consequence"), n.Child("alternative")
	if !f.is(n, ifBranch) || then == nil || other == nil || f.version(n) {
		return
	}
	if f.is(other, elseBranch) {
		other = other.Child("body")
		if other == nil {
			if in := f.named(n.Child("alternative")); len(in) == 1 {
				other = in[0]
			}
		}
	}
	if other == nil || f.is(other, ifBranch) || other.Kind != then.Kind || f.text(then) == f.text(other) {
		return
	}
	put(f.swap(then, other)...)
}

func wrongExit(f *file, n *syntax.Node, put func(...edit)) {
	t := f.text(n)
	switch {
	case f.is(n, breaking) && strings.HasPrefix(t, "break") && f.up(n, loop, while, caseBranch, function) != nil && f.is(f.up(n, loop, while, caseBranch, function), loop, while):
		put(at(n, "continue"+strings.TrimPrefix(t, "break")))
	case f.is(n, continuing):
		put(at(n, "break"+strings.TrimPrefix(t, "continue")))
	}
}

func missingExit(f *file, n *syntax.Node, put func(...edit)) {
	stmt := n
	if f.is(n.Parent, expression) {
		stmt = n.Parent
	}
	if !f.is(n, breaking, continuing) {
		return
	}
	if f.is(stmt.Parent, caseBranch) && f.shape.loose { // a fall through
		put(f.cut(stmt.Start, stmt.End))
		return
	}
	if e, ok := f.without(stmt); ok {
		put(e)
	}
}

// returnInLoop gives back what the first turn found.
func returnInLoop(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, loop) || !f.is(n.Parent, block) || !f.shape.loose {
		return
	}
	in := f.statements(n.Parent)
	i := slices.Index(in, n)
	if i < 0 || i+1 >= len(in) || !f.is(in[i+1], returning) {
		return
	}
	b := f.body(n)
	inside := f.statements(b)
	if len(inside) == 0 || f.ends(n) {
		return
	}
	last := inside[len(inside)-1]
	if gone, ok := f.without(in[i+1]); ok && last.Row != n.Row {
		put(edit{f.past(last), f.past(last), "\n" + f.indent(inside[0]) + f.text(in[i+1])}, gone)
	}
}

func onceOnly(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, while) || !strings.HasPrefix(f.text(n), "while") || !f.shape.loose {
		return
	}
	exits := false
	n.Walk(func(c *syntax.Node) bool {
		exits = exits || f.is(c, breaking, continuing)
		return !exits
	})
	if !exits {
		put(edit{n.Start, n.Start + len("while"), "if"})
	}
}

func removedLoop(f *file, n *syntax.Node, put func(...edit)) {
	if f.is(n, loop, while) {
		stmt := n
		if f.is(n.Parent, expression) {
			stmt = n.Parent
		}
		if e, ok := f.without(stmt); ok && len(f.statements(stmt.Parent)) > 1 {
			put(e)
		}
	}
}

func removedWrapper(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, trying, using) || !f.is(n.Parent, block) {
		return
	}
	for _, c := range n.Children {
		if f.is(c, elseBranch) || strings.HasPrefix(c.Kind, "finally") {
			return // too much would go with it
		}
	}
	if t, ok := f.inner(n, n); ok && !strings.Contains(f.text(n), " as ") {
		put(at(n, t))
	}
}

func wrongException(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, name) && n.Kind != "type_identifier" {
		return
	}
	up := f.up(n, throwing, catching, block, function)
	if !f.is(up, throwing, catching) {
		return
	}
	for _, p := range f.shape.errors {
		if f.text(n) == p[0] && !strings.Contains(f.text(up.Parent), "except "+p[1]) {
			put(at(n, p[1]))
		}
	}
}

func narrowException(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, catching) {
		return
	}
	n.Walk(func(c *syntax.Node) bool {
		if f.is(c, tuple) {
			in := f.named(c)
			if len(in) > 1 {
				for _, e := range in {
					put(at(c, f.text(e)))
				}
			}
		}
		if c.Kind == "catch_type" {
			if in := f.named(c); len(in) > 1 {
				put(at(c, f.text(in[0])))
			}
		}
		return !f.is(c, block) && !f.is(c, tuple)
	})
}

// swallowedError goes on where there was an error.
func swallowedError(f *file, n *syntax.Node, put func(...edit)) {
	switch {
	case f.is(n, returning) && f.tree.Language == syntax.Go:
		in := f.named(n)
		if len(in) != 1 {
			return
		}
		all := f.named(in[0])
		if len(all) == 0 {
			return
		}
		if last := all[len(all)-1]; f.text(last) == "err" || f.is(last, call) && strings.HasPrefix(f.text(last), "errors.New") || strings.HasPrefix(f.text(last), "fmt.Errorf") {
			put(at(last, "nil"))
		}
	case f.is(n, throwing) && f.is(f.up(n, catching, function), catching):
		if f.shape.indented {
			put(at(n, "pass"))
		} else if e, ok := f.without(n); ok {
			put(e)
		}
	}
}

func missingReturn(f *file, n *syntax.Node, put func(...edit)) {
	in := f.named(n)
	if f.is(n, returning) && f.shape.loose && len(in) == 1 && f.is(in[0], call, awaiting) {
		put(edit{n.Start, in[0].Start, ""})
	}
}

func returnedNothing(f *file, n *syntax.Node, put func(...edit)) {
	in := f.named(n)
	if f.is(n, returning) && len(in) == 1 && len(f.shape.nothing) > 0 && !f.is(in[0], null, truth, integer, tuple) && f.tree.Language != syntax.Go {
		put(at(in[0], f.shape.nothing[0]))
	}
}
