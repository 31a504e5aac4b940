package mutate

import (
	"slices"
	"strings"

	"assay/internal/syntax"
)

// lostNormalisation forgets a method that only makes a value regular.
func lostNormalisation(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, call) || f.is(n.Parent, expression) {
		return
	}
	_, last := f.callee(n)
	if o := f.object(n); o != nil && slices.Contains(f.shape.drops, f.text(last)) && len(f.given(n)) <= 1 && !f.asPackage(o) {
		put(at(n, f.text(o)))
	}
}

// asPackage reports whether a name is one of Go's packages.
func (f *file) asPackage(o *syntax.Node) bool {
	return f.tree.Language == syntax.Go && f.is(o, name) && slices.Contains([]string{"strings", "bytes", "path", "filepath", "url", "sort", "slices", "maps", "unicode", "math", "fmt"}, f.text(o))
}

func lostConversion(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, call) || f.is(n.Parent, expression) {
		return
	}
	fn, _ := f.callee(n)
	if a := f.given(n); slices.Contains(f.shape.converts, fn) && len(a) == 1 && !f.is(a[0], keyword) && !strings.Contains(a[0].Kind, "generator") && !strings.Contains(a[0].Kind, "splat") {
		put(at(n, f.text(a[0])))
	}
}

// missingCopy hands out what it should have copied.
func missingCopy(f *file, n *syntax.Node, put func(...edit)) {
	switch {
	case f.is(n, call):
		if f.is(n.Parent, expression) {
			return
		}
		fn, last := f.callee(n)
		a := f.given(n)
		o := f.object(n)
		switch {
		case o != nil && len(a) == 0 && slices.Contains([]string{"copy", "slice", "concat", "clone"}, f.text(last)) && f.tree.Language != syntax.Rust && f.tree.Language != syntax.Go:
			put(at(n, f.text(o)))
		case slices.Contains(f.shape.copies, fn) || strings.HasSuffix(fn, ".deepcopy") || fn == "copy.copy":
			if len(a) == 1 && f.is(a[0], name, member, subscript, call) && !f.is(a[0], keyword) {
				put(at(n, f.text(a[0])))
			}
		}
	case n.Kind == "array" && f.shape.loose:
		if in := f.named(n); len(in) == 1 && in[0].Kind == "spread_element" {
			put(at(n, strings.TrimPrefix(f.text(in[0]), "...")))
		}
	case f.is(n, subscript) && f.shape.indented:
		in := f.named(n)
		if len(in) == 2 && f.text(in[1]) == ":" {
			put(at(n, f.text(in[0])))
		}
	}
}

// lostFallback does without what stands in for a missing value.
func lostFallback(f *file, n *syntax.Node, put func(...edit)) {
	if left, op, right, ok := f.sides(n); ok && !f.asked(n) && f.shape.loose {
		if t := f.text(op); t == "or" || t == "||" || t == "??" {
			put(edit{left.End, right.End, ""})
		}
	}
	if n.Kind == "optional_chain" && f.text(n) == "?." && f.is(n.Parent, member) {
		put(at(n, "."))
	}
	if f.is(n, call) {
		_, last := f.callee(n)
		if a := f.given(n); len(a) == 2 && f.text(last) == "get" && f.shape.indented && !f.is(a[1], keyword) {
			put(edit{a[0].End, a[1].End, ""})
		}
		if o := f.object(n); o != nil && f.tree.Language == syntax.Rust && (f.text(last) == "unwrap_or" || f.text(last) == "unwrap_or_else") {
			put(at(n, f.text(o)+".unwrap()"))
		}
	}
}

func missingAwait(f *file, n *syntax.Node, put func(...edit)) {
	if in := f.named(n); f.is(n, awaiting) && len(in) == 1 {
		put(at(n, f.text(in[0])))
	}
}

func confusedMethod(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, call) {
		return
	}
	fn, last := f.callee(n)
	for _, p := range f.shape.methods {
		if f.text(last) == p[0] && fn != "" && (fn != p[0] || !f.shape.loose || slices.Contains([]string{"min", "any", "floor"}, fn)) {
			put(at(last, p[1]))
		}
	}
}

func (f *file) plain(n *syntax.Node) bool { return f.is(n, name, member, subscript) }

func swappedArguments(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, call) {
		return
	}
	fn, last := f.callee(n)
	if slices.Contains(f.shape.swapless, fn) || slices.Contains(f.shape.swapless, f.text(last)) {
		return
	}
	a := f.given(n)
	for i := 0; i+1 < len(a); i++ {
		if f.plain(a[i]) && f.plain(a[i+1]) && f.text(a[i]) != f.text(a[i+1]) && f.alike(a[i], a[i+1]) {
			put(f.swap(a[i], a[i+1])...)
		}
	}
}

// alike reports whether nothing is known against one variable in the place of
// the other.
func (f *file) alike(a, b *syntax.Node) bool {
	fn := f.up(a, function)
	if fn == nil {
		return true
	}
	vars := f.scope(fn)
	va, vb := vars[f.text(a)], vars[f.text(b)]
	return va.kind == vb.kind
}

// swappedValues mixes up two arguments that have names.
func swappedValues(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, arguments) && n.Kind != "object" && n.Kind != "dictionary" && n.Kind != "literal_value" && n.Kind != "field_initializer_list" {
		return
	}
	var before *syntax.Node
	for _, c := range f.named(n) {
		v := c.Child("value")
		if !f.is(c, keyword) || v == nil || !f.plain(v) {
			before = nil
			continue
		}
		if before != nil && f.text(before) != f.text(v) {
			put(f.swap(before, v)...)
		}
		before = v
	}
}

// forgottenArgument does not hand on the last argument.
func forgottenArgument(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, call) || !f.shape.loose {
		return
	}
	a := f.given(n)
	if len(a) == 0 {
		return
	}
	_, last := f.callee(n)
	if slices.Contains(f.shape.swapless, f.text(last)) {
		return
	}
	for i, k := range a {
		named := f.is(k, keyword) && k.Child("value") != nil && !f.shape.isScript()
		if !named && (i != len(a)-1 || len(a) < 2 || f.shape.indented || !f.plain(k)) {
			continue
		}
		if i > 0 {
			put(edit{a[i-1].End, k.End, ""})
		} else if len(a) > 1 {
			put(edit{k.Start, a[1].Start, ""})
		} else {
			put(at(k, ""))
		}
	}
}

func (s *shape) isScript() bool { return s.loose && !s.indented }

// variable is a parameter or what a function assigns.
type variable struct {
	declared int    // where it begins to be
	kind     string // its declared type, "" where there is none
	group    int    // bound together: the same tuple
}

// scope are the variables of a function.
func (f *file) scope(fn *syntax.Node) map[string]variable {
	if s, ok := f.locals[fn]; ok {
		return s
	}
	out := map[string]variable{}
	groups := 0
	fn.Walk(func(n *syntax.Node) bool {
		if n != fn && f.is(n, function, class) {
			return false
		}
		switch {
		case f.is(n.Parent, parameters) || n.Parent != nil && strings.HasSuffix(n.Parent.Kind, "parameter_list") || n.Parent != nil && n.Parent.Kind == "formal_parameters":
			f.bind(out, n, 0)
			return false
		case n.Field == "left" && f.is(n.Parent, assign, loop, declare):
			groups++
			f.bind(out, n, groups)
		}
		return true
	})
	f.locals[fn] = out
	return out
}

// bind notes the names of a parameter or a target.
func (f *file) bind(out map[string]variable, n *syntax.Node, group int) {
	kind := f.text(n.Child("type"))
	add := func(id *syntax.Node) {
		t := f.text(id)
		if old, ok := out[t]; !ok || old.declared > id.Start {
			out[t] = variable{id.Start, kind, group}
		}
	}
	switch {
	case f.is(n, name):
		add(n)
	case f.is(n, tuple):
		for _, c := range f.named(n) {
			if f.is(c, name) {
				add(c)
			}
		}
	default:
		for _, c := range f.named(n) {
			if f.is(c, name) && (c.Field == "name" || c.Field == "pattern" || c.Field == "left" || c.Field == "" && kind != "") {
				add(c)
			}
		}
	}
}

// wrongVariable takes another variable that is at hand and looks alike.
func wrongVariable(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, name) || n.Field == "name" || n.Field == "attribute" || n.Field == "left" || n.Field == "function" {
		return
	}
	if !f.is(n.Parent, arguments, binary, returning, subscript, slice, augmented, assign, ternary) && n.Field != "right" && n.Field != "object" {
		return
	}
	fn := f.up(n, function)
	if fn == nil || f.is(n.Parent, assign) && n.Field != "right" {
		return
	}
	vars := f.scope(fn)
	own := f.text(n)
	mine, ok := vars[own]
	if !ok || own == f.shape.self || own == "cls" {
		return
	}
	var likely []string
	for id, v := range vars {
		if id == own || id == f.shape.self || id == "cls" || id == "_" || v.declared >= n.Start || strings.HasPrefix(id, "*") {
			continue
		}
		if v.kind != mine.kind && v.kind != "" && mine.kind != "" || id == "err" || id == "ok" {
			continue
		}
		if f.shape.loose && v.group != 0 && v.group == mine.group || v.kind != "" && v.kind == mine.kind || akin(id, own) {
			likely = append(likely, id)
		}
	}
	slices.Sort(likely)
	around := n.Parent
	if f.is(around, arguments) {
		around = around.Parent
	}
	for _, id := range likely {
		if !strings.Contains(f.text(around), id) {
			put(at(n, id))
		}
	}
}

// akin reports whether two names share a word or begin alike.
func akin(a, b string) bool {
	for _, w := range parts(a) {
		if len(w) > 2 && slices.Contains(parts(b), w) {
			return true
		}
	}
	return len(a) > 3 && len(b) > 3 && a[:4] == b[:4]
}

// parts are a name's words.
func parts(s string) []string {
	var out []string
	word := ""
	for i, r := range s {
		if r == '_' || r >= 'A' && r <= 'Z' && i > 0 {
			out = append(out, word)
			word = ""
		}
		if r != '_' {
			word += strings.ToLower(string(r))
		}
	}
	return append(out, word)
}

// wrongAttribute takes another field of the object that looks alike.
func wrongAttribute(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, member) || f.shape.self == "" || n.Field == "left" || n.Field == "function" || len(f.named(n)) != 2 {
		return
	}
	in := f.named(n)
	if f.text(in[0]) != f.shape.self {
		return
	}
	c := f.up(n, class)
	if c == nil {
		return
	}
	own := f.text(in[1])
	for _, other := range f.fieldsOf(c) {
		if other != own && akin(strings.Trim(other, "_"), strings.Trim(own, "_")) {
			put(at(in[1], other))
			return
		}
	}
}

// fieldsOf are the fields that a class's methods assign.
func (f *file) fieldsOf(c *syntax.Node) []string {
	if out, ok := f.fields[c]; ok {
		return out
	}
	var out []string
	c.Walk(func(n *syntax.Node) bool {
		if f.is(n, member) && n.Field == "left" {
			if in := f.named(n); len(in) == 2 && f.text(in[0]) == f.shape.self && !slices.Contains(out, f.text(in[1])) {
				out = append(out, f.text(in[1]))
			}
		}
		return true
	})
	slices.Sort(out)
	f.fields[c] = out
	return out
}
