package mutate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/internal/syntax"
)

func wrongArithmetic(f *file, n *syntax.Node, put func(...edit)) {
	l, op, r, ok := f.sides(n)
	if !ok || f.texts(l) || f.texts(r) {
		return
	}
	if t := f.text(op); (t == "+" || t == "%" || t == "*") && f.shape.loose && !f.number(l) && !f.number(r) {
		return // of strings or lists, which fails at once
	}
	to := map[string]string{"+": "-", "-": "+", "*": "+", "//": "/", "%": "//", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|", "/": "*", "**": "*"}
	if !f.shape.indented {
		to["%"] = "/"
	}
	if other := to[f.text(op)]; other != "" {
		put(at(op, other))
	}
}

// number reports whether an expression looks like one.
func (f *file) number(n *syntax.Node) bool {
	n = f.bare(n)
	if f.is(n, integer) || n.Kind == "float" {
		return true
	}
	if l, op, r, ok := f.sides(n); ok {
		return f.text(op) != "+" || f.number(l) || f.number(r)
	}
	id := f.text(n)
	if f.is(n, call) {
		id, _ = f.callee(n)
		return slices.Contains([]string{"len", "int", "float", "min", "max", "round", "abs", "sum", "ord"}, id) || strings.HasPrefix(id, "Math.")
	}
	if i := strings.LastIndexAny(id, "._"); i >= 0 {
		id = id[i+1:]
	}
	return slices.Contains([]string{"i", "j", "k", "n", "x", "y", "len", "length", "size", "count", "index", "idx", "offset", "pos", "position", "start", "end", "width", "height", "age",
		"num", "number", "total", "limit", "depth", "level", "ts", "time", "seconds", "days", "step", "lineno", "line", "col", "column", "indent", "nargs", "bits", "padding", "spacing"}, strings.ToLower(id))
}

func swappedOperands(f *file, n *syntax.Node, put func(...edit)) {
	l, op, r, ok := f.sides(n)
	if !ok || f.text(l) == f.text(r) {
		return
	}
	switch t := f.text(op); {
	case t != "+" && f.is(r, integer): // a length from one, four shifted: nobody writes it
	case t == "-" || t == "/" || t == "//" || t == "<<" || t == ">>" || t == "**",
		t == "%" && !f.texts(l),
		t == "+" && (f.texts(l) || f.texts(r)) && !f.is(l.Parent.Parent, binary) && !f.is(l, binary):
		put(f.swap(l, r)...)
	}
}

// brokenChain leaves out the middle of a chain: a + b + c.
func brokenChain(f *file, n *syntax.Node, put func(...edit)) {
	l, op, r, ok := f.sides(n)
	if !ok {
		return
	}
	ll, lop, lr, chained := f.sides(l)
	if !chained || f.text(op) != f.text(lop) || slices.Contains(f.shape.and, f.text(op)) || slices.Contains(f.shape.or, f.text(op)) {
		return
	}
	put(edit{ll.End, lr.End, ""})
	put(edit{lr.End, r.End, ""})
}

// small reads an integer that people count with.
func small(s string) (int, bool) {
	v, err := strconv.Atoi(s)
	return v, err == nil && v < 1000
}

// worded reports whether arguments become a message's text.
func (f *file) worded(args *syntax.Node) bool {
	c := args.Parent
	if !f.is(c, call) {
		return false
	}
	_, last := f.callee(c)
	name := strings.ToLower(f.text(last))
	return slices.ContainsFunc([]string{"error", "print", "format", "warn", "log", "fatal", "panic"}, func(w string) bool { return strings.Contains(name, w) })
}

// offByOne counts one too many or too few where places and lengths are
// counted: in indices, slices, ranges, beside lengths.
func offByOne(f *file, n *syntax.Node, put func(...edit)) {
	if l, op, r, ok := f.sides(n); ok && f.is(r, integer) && f.text(r) == "1" && (f.text(op) == "+" || f.text(op) == "-") {
		put(edit{l.End, r.End, ""}) // the one is forgotten
		return
	}
	if f.is(n, call) {
		fn, last := f.callee(n)
		lengths := []string{"len", "length", "size", "count", "strlen"}
		if (slices.Contains(lengths, fn) || slices.Contains(lengths, f.text(last))) && !f.is(n.Parent, expression, subscript) {
			if _, _, r, in := f.sides(n.Parent); in && !f.asked(n) && !f.is(r, integer) || f.is(n.Parent, slice, subscript) || f.is(n.Parent, arguments) && !f.worded(n.Parent) {
				put(edit{n.End, n.End, " - 1"})
			}
		}
		if fn == "range" {
			if a := f.given(n); len(a) == 1 {
				put(edit{a[0].Start, a[0].Start, "1, "})
				put(edit{a[0].End, a[0].End, " - 1"})
			} else if len(a) >= 2 && !f.is(a[1], integer) {
				put(edit{a[1].End, a[1].End, " - 1"})
			}
		}
		return
	}
	if v, ok := small(f.text(n)); ok && f.is(n, integer) && f.counted(n) && !f.onlyOne(n) {
		if v > 0 {
			put(at(n, strconv.Itoa(v-1)))
		}
		put(at(n, strconv.Itoa(v+1)))
	}
	if f.is(n, slice) && n.Kind == "slice" { // Python: a bound that is a name
		for _, c := range f.named(n) {
			if f.is(c, name, member) {
				put(edit{c.End, c.End, " + 1"})
			}
		}
	}
}

// onlyOne reports whether an index takes the first of what a call gives, which
// mostly has no second.
func (f *file) onlyOne(n *syntax.Node) bool {
	if !f.is(n.Parent, subscript) || f.text(n) != "0" {
		return false
	}
	in := f.named(n.Parent)
	return len(in) > 0 && f.is(in[0], call)
}

// counted reports whether an integer counts places.
func (f *file) counted(n *syntax.Node) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		switch {
		case f.is(p, subscript, slice):
			return true
		case f.is(p, arguments):
			fn, last := f.callee(p.Parent)
			t := f.text(last)
			return fn == "range" || slices.Contains([]string{"slice", "substring", "substr", "charAt", "charCodeAt", "splice", "at", "get", "nth", "skip", "take", "split", "SplitN", "rsplit", "insert", "pop"}, t)
		case !f.is(p, binary, unary, wrapped) && p.Kind != "unary_operator":
			return false
		}
	}
	return false
}

func wrongConstant(f *file, n *syntax.Node, put func(...edit)) {
	v, ok := small(f.text(n))
	if !ok || !f.is(n, integer) || f.counted(n) || f.is(n.Parent, defaulted) {
		return
	}
	if _, op, r, in := f.sides(n.Parent); in && r == n && v == 1 && (f.text(op) == "+" || f.text(op) == "-") {
		return // a forgotten one is off-by-one; nobody adds nothing
	}
	put(at(n, strconv.Itoa(v+1)))
	if v > 0 {
		put(at(n, strconv.Itoa(v-1)))
	}
}

func (f *file) opposite(n *syntax.Node) (string, bool) {
	switch f.text(n) {
	case f.shape.yes:
		return f.shape.no, true
	case f.shape.no:
		return f.shape.yes, true
	}
	return "", false
}

func wrongBoolean(f *file, n *syntax.Node, put func(...edit)) {
	if other, ok := f.opposite(n); ok && f.is(n, truth) && !f.is(n.Parent, defaulted) {
		put(at(n, other))
	}
}

func wrongDefault(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, defaulted) {
		return
	}
	v := n.Child("value")
	if v == nil {
		v = n.Child("right")
	}
	if v == nil {
		return
	}
	t := f.text(v)
	if other, ok := f.opposite(v); ok {
		put(at(v, other))
	} else if i, ok := small(t); ok && f.is(v, integer) {
		put(at(v, strconv.Itoa(i+1)))
		if i > 0 {
			put(at(v, "0"))
		}
	} else if f.is(v, text) && len(t) > 2 {
		put(at(v, t[:1]+t[len(t)-1:]))
	} else if f.is(v, tuple) && t != "()" && t != "[]" {
		put(at(v, "()"))
	}
}

// content is what a plain string literal holds between its quotes.
func (f *file) content(n *syntax.Node) (inner string, start int, ok bool) {
	t := f.text(n)
	if !f.is(n, text) || strings.ContainsAny(t[:min(1, len(t))], "fF`") {
		return "", 0, false
	}
	i := strings.IndexAny(t, `"'`)
	if i < 0 || i > 3 || strings.HasPrefix(t[i:], `"""`) || strings.HasPrefix(t[i:], "'''") || len(t) < i+2 || t[len(t)-1] != t[i] {
		return "", 0, false
	}
	return t[i+1 : len(t)-1], n.Start + i + 1, true
}

// wrongSeparator takes one mark for its neighbour.
func wrongSeparator(f *file, n *syntax.Node, put func(...edit)) {
	in, start, ok := f.content(n)
	if !ok {
		return
	}
	to := map[string]string{",": ";", ", ": ",", ".": ",", "-": "_", "_": "-", "/": "//", ":": ": ", ": ": ":", " ": "", "\\n": "\\r\\n", "&": ";", ";": ",", "|": ",", "--": "-", "::": ":", "\\r\\n": "\\n", "*": "", "+": " "}
	if other, ok := to[in]; ok {
		put(edit{start, start + len(in), other})
	}
}

// wrongKey is a slip in a word that is looked up.
func wrongKey(f *file, n *syntax.Node, put func(...edit)) {
	in, start, ok := f.content(n)
	if !ok || len(in) < 4 || len(in) > 24 || strings.ContainsAny(in, " %{}\\<>/") {
		return
	}
	looked := f.is(n.Parent, subscript) || f.is(n.Parent, binary) || f.is(n.Parent, keyword)
	if f.is(n.Parent, arguments) {
		_, last := f.callee(n.Parent.Parent)
		looked = slices.Contains([]string{"get", "pop", "setdefault", "has", "Get", "getattr", "Header", "header"}, f.text(last))
	}
	if !looked {
		return
	}
	switch {
	case strings.Contains(in, "_"):
		put(edit{start, start + len(in), strings.Replace(in, "_", "-", 1)})
	case strings.Contains(in, "-"):
		put(edit{start, start + len(in), strings.Replace(in, "-", "_", 1)})
	case strings.HasSuffix(in, "s"):
		put(edit{start, start + len(in), in[:len(in)-1]})
	case strings.ToLower(in) != in:
		put(edit{start, start + len(in), strings.ToLower(in)})
	default:
		put(edit{start, start + len(in), in + "s"})
	}
}

// wrongPattern makes a slip in a regular expression.
func wrongPattern(f *file, n *syntax.Node, put func(...edit)) {
	var in string
	var start int
	switch {
	case f.is(n, regex):
		p := n.Child("pattern")
		if p == nil {
			return
		}
		in, start = f.text(p), p.Start
	case f.is(n, text) && f.is(n.Parent, arguments):
		fn, _ := f.callee(n.Parent.Parent)
		if a := f.given(n.Parent.Parent); !slices.Contains(f.shape.patterns, fn) || len(a) == 0 || a[0] != n {
			return
		}
		t := f.text(n)
		i := strings.IndexAny(t, "\"'`")
		if i < 0 || len(t) < 2*i+4 {
			return
		}
		in, start = t[i+1:len(t)-1], n.Start+i+1
	default:
		return
	}
	for _, s := range []struct{ old, new string }{{"+", "*"}, {"*", "+"}, {"^", ""}, {"$", ""}, {`\.`, "."}, {"*?", "*"}, {`\d`, `\w`}, {"A-Z", ""}, {"0-9", "1-9"}, {"?:", ""}, {`\s`, " "}, {`\b`, ""}, {`\w+`, `\w`}} {
		if i := strings.LastIndex(in, s.old); i >= 0 && !(s.old == "^" && i > 0 && in[i-1] == '[') && !(i > 0 && in[i-1] == '\\') {
			put(edit{start + i, start + i + len(s.old), s.new})
		}
	}
}

// wrongMember takes a constant's neighbour.
func wrongMember(f *file, n *syntax.Node, put func(...edit)) {
	if f.tree.Language == syntax.Go || !f.is(n, member) && n.Kind != "scoped_identifier" || f.is(n.Parent, member) {
		return
	}
	owner, own, ok := f.constant(n)
	if !ok {
		return
	}
	others := f.members[owner]
	for i, o := range others {
		if o == own && len(others) > 1 {
			put(edit{n.End - len(own), n.End, others[(i+1)%len(others)]})
		}
	}
}

// constant reads "Color.RED": something of a capital name that is all capitals
// or, like Go's, itself begins with one.
func (f *file) constant(n *syntax.Node) (owner, own string, ok bool) {
	t := f.text(n)
	sep := "."
	if strings.Contains(t, "::") {
		sep = "::"
	}
	i := strings.LastIndex(t, sep)
	if i <= 0 || strings.ContainsAny(t, " ()[]\n") {
		return "", "", false
	}
	owner, own = t[:i], t[i+len(sep):]
	return owner, own, len(own) > 1 && own == strings.ToUpper(own) && strings.ToLower(own) != own
}

func swappedTernary(f *file, n *syntax.Node, put func(...edit)) {
	if yes, no, ok := f.choices(n); ok && f.text(yes) != f.text(no) {
		put(f.swap(yes, no)...)
	}
}

func removedTernary(f *file, n *syntax.Node, put func(...edit)) {
	if yes, no, ok := f.choices(n); ok {
		put(at(n, f.text(yes)))
		put(at(n, f.text(no)))
	}
}

func (f *file) choices(n *syntax.Node) (yes, no *syntax.Node, ok bool) {
	in := f.named(n)
	if !f.is(n, ternary) || len(in) != 3 {
		return nil, nil, false
	}
	if f.shape.indented {
		return in[0], in[2], true
	}
	return in[1], in[2], true
}

func swappedTuple(f *file, n *syntax.Node, put func(...edit)) {
	in := f.named(n)
	if !f.is(n, tuple) || len(in) < 2 || len(in) > 4 || !f.is(n.Parent, returning, assign, declare) {
		return
	}
	for i := range in[1:] {
		if a, b := in[i], in[i+1]; f.is(a, name, member, subscript, call) && f.is(b, name, member, subscript, call) && f.text(a) != f.text(b) {
			put(f.swap(a, b)...)
			return
		}
	}
}

func (f *file) String() string { return fmt.Sprintf("%s (%s)", f.path, f.tree.Language) }
