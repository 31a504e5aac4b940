package mutate

import (
	"slices"
	"strings"

	"assay/internal/syntax"
)

// at replaces a node.
func at(n *syntax.Node, text string) edit { return edit{n.Start, n.End, text} }

func swapOperator(f *file, n *syntax.Node, to map[string]string, put func(...edit)) {
	_, op, _, ok := f.sides(n)
	if !ok {
		return
	}
	if other := to[f.text(op)]; other != "" {
		put(at(op, other))
	}
}

func wrongBoundary(f *file, n *syntax.Node, put func(...edit)) {
	if !f.neverBelow(n) {
		swapOperator(f, n, map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">"}, put)
	}
}

// neverBelow reports whether a comparison asks if a length is above zero: with
// another operator it would always be the same, which nobody writes.
func (f *file) neverBelow(n *syntax.Node) bool {
	l, op, r, ok := f.sides(n)
	if !ok || f.text(op) != ">" || f.text(r) != "0" {
		return false
	}
	id := f.text(l)
	if f.is(l, call) {
		_, last := f.callee(l)
		id = f.text(last)
	}
	if i := strings.LastIndexAny(id, ".>"); i >= 0 {
		id = id[i+1:]
	}
	return slices.Contains([]string{"len", "length", "size", "count", "strlen", "Length", "Count", "Len"}, id)
}

func wrongDirection(f *file, n *syntax.Node, put func(...edit)) {
	if _, _, r, ok := f.sides(n); ok && f.text(r) != "0" { // whose sign is mistaken is seen at once
		swapOperator(f, n, map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<="}, put)
	}
}

func wrongEquality(f *file, n *syntax.Node, put func(...edit)) {
	swapOperator(f, n, f.shape.equal, put)
}

func (f *file) connective(n *syntax.Node) (left, op, right *syntax.Node, other string, ok bool) {
	left, op, right, ok = f.sides(n)
	switch t := f.text(op); {
	case !ok:
	case slices.Contains(f.shape.and, t):
		return left, op, right, f.shape.or[0], true
	case slices.Contains(f.shape.or, t):
		return left, op, right, f.shape.and[0], true
	}
	return nil, nil, nil, "", false
}

// wrongConnective takes one for the other where something is decided, or a
// truth is given back; elsewhere "or" gives a default.
func wrongConnective(f *file, n *syntax.Node, put func(...edit)) {
	if _, op, _, other, ok := f.connective(n); ok && (f.asked(n) || !f.shape.loose) {
		put(at(op, other))
	}
}

func forgottenCondition(f *file, n *syntax.Node, put func(...edit)) {
	left, _, right, _, ok := f.connective(n)
	if !ok || !f.asked(n) && f.shape.loose {
		return
	}
	put(edit{left.End, right.End, ""})
	// Without the first half the second may stand on nothing, as people see at once.
	if !strings.Contains(f.text(right), strings.TrimPrefix(f.text(left), f.shape.not)) {
		put(edit{left.Start, right.Start, ""})
	}
}

func missingNegation(f *file, n *syntax.Node, put func(...edit)) {
	if in, ok := f.negation(n); ok {
		put(at(n, f.text(in)))
	}
	_, op, _, ok := f.sides(n)
	if !ok {
		return
	}
	if t := f.text(op); t == "not in" || t == "is not" {
		put(at(op, strings.TrimSuffix(strings.TrimPrefix(t, "not "), " not")))
	}
}

func invertedCondition(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, ifBranch, ternary) {
		return
	}
	c := f.condition(n)
	if c == nil || strings.HasPrefix(c.Kind, "let_") {
		return
	}
	if _, not := f.negation(c); !not { // that is missing-negation
		put(at(c, f.negated(c)))
	}
}

// weakNullCheck asks whether a value is true where it was asked whether there
// is one: empty values and zeros go wrong.
func weakNullCheck(f *file, n *syntax.Node, put func(...edit)) {
	left, op, right, ok := f.sides(n)
	if !ok || !f.shape.loose || !f.is(right, null) && !(f.is(right, name) && f.text(right) == "undefined") {
		return
	}
	whole := f.text(left)
	if !f.is(left, name, member, subscript, call) {
		return
	}
	switch f.text(op) {
	case "is", "==", "===":
		put(at(n, f.shape.not+whole))
	case "is not", "!=", "!==":
		put(at(n, whole))
	}
}

// foundAtZero takes the first place for not found.
func foundAtZero(f *file, n *syntax.Node, put func(...edit)) {
	left, op, right, ok := f.sides(n)
	if !ok {
		return
	}
	switch l, o, r := f.text(left), f.text(op), strings.ReplaceAll(f.text(right), " ", ""); {
	case r == "-1" && (o == "!=" || o == "!=="), r == "0" && o == ">=":
		put(edit{left.Start, right.End, l + " > 0"})
	case r == "-1" && (o == "==" || o == "==="), r == "0" && o == "<":
		put(edit{left.Start, right.End, l + " <= 0"})
	}
}

// narrowType forgets all but one of the types that are asked for.
func narrowType(f *file, n *syntax.Node, put func(...edit)) {
	if f.is(n, call) {
		fn, _ := f.callee(n)
		a := f.given(n)
		if (fn == "isinstance" || fn == "issubclass") && len(a) == 2 && f.is(a[1], tuple) {
			for _, one := range f.named(a[1]) {
				put(at(a[1], f.text(one)))
			}
		}
		return
	}
	left, op, right, ok := f.sides(n)
	if in := f.named(right); ok && (f.text(op) == "in" || f.text(op) == "not in") && f.is(right, tuple) && len(in) > 1 && left != nil {
		last, before := in[len(in)-1], in[len(in)-2]
		rest := ""
		if len(in) == 2 {
			rest = ","
		}
		put(edit{before.End, last.End, rest})
	}
}
