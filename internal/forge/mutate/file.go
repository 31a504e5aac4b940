package mutate

import (
	"slices"
	"strings"

	"assay/internal/syntax"
)

// edit replaces bytes of a file.
type edit struct {
	start, end int
	text       string
}

// file is a parsed source with its language's shape.
type file struct {
	path  string // relative to the working directory
	tree  *syntax.Tree
	src   []byte
	shape *shape
	wrong int // faults of the text before any change: macros of C

	members map[string][]string                  // "Color": RED, GREEN as they are used in the file
	fields  map[*syntax.Node][]string            // of a class: what its objects keep
	locals  map[*syntax.Node]map[string]variable // of a function
}

func (f *file) role(n *syntax.Node) role {
	if n == nil {
		return noRole
	}
	return f.shape.roles[n.Kind]
}

func (f *file) text(n *syntax.Node) string {
	if n == nil {
		return ""
	}
	return string(f.src[n.Start:n.End])
}

func (f *file) is(n *syntax.Node, any ...role) bool {
	return n != nil && slices.Contains(any, f.role(n))
}

// named are the children that are part of the language, not comments or
// punctuation.
func (f *file) named(n *syntax.Node) []*syntax.Node {
	var out []*syntax.Node
	if n == nil {
		return nil
	}
	for _, c := range n.Children {
		if c.Named && f.role(c) != comment {
			out = append(out, c)
		}
	}
	return out
}

// sides are the operands and the operator of a binary expression; a chain of
// comparisons has none.
func (f *file) sides(n *syntax.Node) (left, op, right *syntax.Node, ok bool) {
	if !f.is(n, binary) {
		return nil, nil, nil, false
	}
	operands := f.named(n)
	operands = slices.DeleteFunc(operands, func(c *syntax.Node) bool { return c.Field == "operator" || c.Field == "operators" })
	if len(operands) != 2 {
		return nil, nil, nil, false
	}
	for _, c := range n.Children {
		if c.Start >= operands[0].End && c.End <= operands[1].Start && f.role(c) != comment {
			if op != nil {
				return nil, nil, nil, false
			}
			op = c
		}
	}
	return operands[0], op, operands[1], op != nil
}

// bare is what stands in parentheses.
func (f *file) bare(n *syntax.Node) *syntax.Node {
	for f.is(n, wrapped) {
		in := f.named(n)
		if len(in) != 1 {
			return n
		}
		n = in[0]
	}
	return n
}

// up is the nearest node above n with a role.
func (f *file) up(n *syntax.Node, any ...role) *syntax.Node {
	for p := n.Parent; p != nil; p = p.Parent {
		if f.is(p, any...) {
			return p
		}
	}
	return nil
}

// condition is what a branch, a loop or a choice asks.
func (f *file) condition(n *syntax.Node) *syntax.Node {
	if c := n.Child("condition"); c != nil {
		return f.bare(c)
	}
	if f.is(n, ternary) && f.shape.indented {
		if in := f.named(n); len(in) == 3 {
			return in[1]
		}
	}
	return nil
}

// asked reports whether an expression decides something: it is, or is part of,
// a condition.
func (f *file) asked(n *syntax.Node) bool {
	for p := n.Parent; p != nil; n, p = p, p.Parent {
		if f.is(p, ifBranch, while, loop, ternary) {
			return f.bare(p.Child("condition")) == f.bare(n) || f.condition(p) == n
		}
		if !f.is(p, binary, unary, wrapped) {
			return false
		}
	}
	return false
}

// negated writes that an expression does not hold.
func (f *file) negated(n *syntax.Node) string {
	t := f.text(n)
	if left, op, right, ok := f.sides(n); ok {
		if other := f.shape.equal[f.text(op)]; other != "" {
			return f.text(left) + string(f.src[left.End:op.Start]) + other + string(f.src[op.End:right.Start]) + f.text(right)
		}
		if f.shape.indented && f.is(n, binary) && n.Kind == "comparison_operator" {
			return f.shape.not + t
		}
		return f.shape.not + "(" + t + ")"
	}
	if in, ok := f.negation(n); ok {
		return f.text(in)
	}
	if f.is(n, ternary, assign, awaiting) || strings.HasSuffix(n.Kind, "_operator") && n.Kind != "not_operator" || n.Kind == "lambda" {
		return f.shape.not + "(" + t + ")"
	}
	return f.shape.not + t
}

// negation is the operand of a "not".
func (f *file) negation(n *syntax.Node) (*syntax.Node, bool) {
	if !f.is(n, unary) || !strings.HasPrefix(f.text(n), strings.TrimSpace(f.shape.not)) || strings.HasPrefix(f.text(n), "!=") {
		return nil, false
	}
	in := f.named(n)
	if len(in) == 0 {
		return nil, false
	}
	return in[len(in)-1], true
}

// statements are those of a block, in order.
func (f *file) statements(n *syntax.Node) []*syntax.Node {
	if !f.is(n, block) {
		return nil
	}
	return slices.DeleteFunc(f.named(n), func(c *syntax.Node) bool {
		return c.Kind == "switch_label" || n.Kind == "case_statement" && c.Field == "value"
	})
}

// body is the block of statements of a function, branch or loop, whatever
// stands between.
func (f *file) body(n *syntax.Node) *syntax.Node {
	for n != nil {
		if f.is(n, block) {
			return n
		}
		next := n.Child("body")
		if next == nil {
			next = n.Child("consequence")
		}
		if next == nil {
			for _, c := range f.named(n) {
				if f.is(c, block) || c.Kind == "block" {
					next = c
				}
			}
		}
		if next == n {
			return nil
		}
		n = next
	}
	return nil
}

// without takes a statement out, with its lines where it has them for itself.
// The only one of a branch or a loop stays: nobody leaves an empty one behind.
func (f *file) without(n *syntax.Node) (edit, bool) {
	p := n.Parent
	if !f.is(p, block) || f.rows(n) > mostForgotten {
		return edit{}, false
	}
	if len(f.statements(p)) == 1 {
		if owner := f.up(n, function, ifBranch, elseBranch, loop, while, trying, catching, using, caseBranch); !f.is(owner, function) {
			return edit{}, false
		}
		if f.shape.indented {
			return edit{n.Start, n.End, "pass"}, true
		}
	}
	return f.cut(n.Start, n.End), true
}

// mostForgotten is how many lines people leave out by mistake: whole passages
// are missed by whoever reads the change.
const mostForgotten = 8

// rows is how many lines a node is on.
func (f *file) rows(n *syntax.Node) int { return 1 + strings.Count(f.text(n), "\n") }

// cut takes out a stretch of text, with its lines where it has them for itself
// and with the remark behind it.
func (f *file) cut(start, stop int) edit {
	end, first := stop, start
	for end < len(f.src) && (strings.IndexByte("; \t,", f.src[end]) >= 0) {
		end++
	}
	for first > 0 && (f.src[first-1] == ' ' || f.src[first-1] == '\t') {
		first--
	}
	if first > 0 && f.src[first-1] != '\n' {
		return edit{start, stop, ""}
	}
	rest := string(f.src[end:min(end+2, len(f.src))])
	if rest == "//" || f.shape.indented && strings.HasPrefix(rest, "#") {
		for end < len(f.src) && f.src[end] != '\n' {
			end++
		}
	}
	if end < len(f.src) && f.src[end] == '\r' {
		end++
	}
	if end < len(f.src) && f.src[end] != '\n' {
		return edit{start, stop, ""}
	}
	// A blank line does not stay alone before a closing brace.
	if after := strings.TrimLeft(string(f.src[end:min(end+80, len(f.src))]), " \t\r\n"); strings.HasPrefix(after, "}") && strings.HasSuffix(string(f.src[:first]), "\n\n") {
		first--
	}
	return edit{first, f.gap(first, min(end+1, len(f.src))), ""}
}

// gap goes over the blank lines behind whole lines that are taken out where
// there are some before them already: two gaps in a row would show the place.
func (f *file) gap(first, end int) int {
	before := strings.TrimRight(string(f.src[max(0, first-200):first]), " \t")
	if !strings.HasSuffix(before, "\n\n") && !strings.HasSuffix(before, "{\n") && !strings.HasSuffix(before, ":\n") {
		return end
	}
	for at := end; at < len(f.src); at++ {
		switch f.src[at] {
		case '\n':
			end = at + 1
		case ' ', '\t', '\r':
		default:
			return end
		}
	}
	return end
}

// forget lets go of the tree, which is many times the size of the text, once
// the places in it are found.
func (f *file) forget() {
	f.tree = &syntax.Tree{Language: f.tree.Language, Source: f.src}
	f.members, f.fields, f.locals = nil, nil, nil
}

// swap changes two nodes' places.
func (f *file) swap(a, b *syntax.Node) []edit {
	return []edit{{a.Start, a.End, f.text(b)}, {b.Start, b.End, f.text(a)}}
}

// indent is the white space before a node's line.
func (f *file) indent(n *syntax.Node) string {
	line := f.src[n.Start-n.Col : n.Start]
	return string(line[:len(line)-len(strings.TrimLeft(string(line), " \t"))])
}

// callee is the called function as it is written, and its last name.
func (f *file) callee(n *syntax.Node) (whole string, last *syntax.Node) {
	fn := n.Child("function")
	if fn == nil {
		fn = n.Child("constructor")
	}
	if fn == nil && n.Kind == "object_creation_expression" {
		fn = n.Child("type")
	}
	if fn == nil { // Java
		if last = n.Child("name"); last == nil {
			return "", nil
		}
		if o := n.Child("object"); o != nil {
			return f.text(o) + "." + f.text(last), last
		}
		return f.text(last), last
	}
	whole, last = f.text(fn), fn
	for _, field := range []string{"attribute", "property", "field", "name"} {
		if c := fn.Child(field); c != nil && fn.Kind != "identifier" {
			last = c
		}
	}
	return whole, last
}

// object is what a method is called on; nil: the call is of a function.
func (f *file) object(n *syntax.Node) *syntax.Node {
	if o := n.Child("object"); o != nil {
		return o
	}
	fn := n.Child("function")
	if !f.is(fn, member) {
		return nil
	}
	for _, field := range []string{"object", "operand", "value", "argument"} {
		if o := fn.Child(field); o != nil {
			return o
		}
	}
	return nil
}

// given are a call's arguments.
func (f *file) given(n *syntax.Node) []*syntax.Node {
	for _, c := range n.Children {
		if f.is(c, arguments) {
			return f.named(c)
		}
	}
	return nil
}

// texts reports whether an expression is, or is made of, strings.
func (f *file) texts(n *syntax.Node) bool {
	n = f.bare(n)
	if f.is(n, text) || strings.Contains(n.Kind, "string") || strings.Contains(n.Kind, "template") {
		return true
	}
	l, _, r, ok := f.sides(n)
	return ok && (f.texts(l) || f.texts(r))
}

// functionOf names the innermost function around a node, with its class.
func (f *file) functionOf(n *syntax.Node) string {
	var parts []string
	for p := n; p != nil; p = p.Parent {
		if f.is(p, function, class) {
			if id := f.nameOf(p); id != "" {
				parts = append(parts, id)
			}
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

func (f *file) nameOf(n *syntax.Node) string {
	if id := n.Child("name"); id != nil {
		return f.text(id)
	}
	if d := n.Child("declarator"); d != nil { // C
		for d != nil && d.Child("declarator") != nil {
			d = d.Child("declarator")
		}
		return f.text(d)
	}
	if t := n.Child("type"); t != nil && n.Kind == "impl_item" {
		return f.text(t)
	}
	if p := n.Parent; p != nil && (p.Kind == "variable_declarator" || p.Kind == "pair") {
		if id := p.Child("name"); id != nil {
			return f.text(id)
		}
		return f.text(p.Child("key"))
	}
	if p := n.Parent; p != nil && p.Kind == "assignment_expression" {
		return f.text(p.Child("left"))
	}
	return ""
}
