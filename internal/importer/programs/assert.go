package programs

import (
	"slices"
	"strings"

	"assay/internal/grade/program"
)

// assertion is an assert statement that has the form of a case.
type assertion struct {
	fn      string
	args    []program.Value
	kwargs  program.Value // Invalid: none
	want    program.Value
	mode    program.Mode // empty: equal
	absTol  float64
	relTol  float64
	tolered bool
}

// readAssertion reads "assert f(LITERALS) == LITERAL" and what is like it, where
// f is one of funcs: set(f(…)) == set(…), sorted(f(…)) == sorted(…) or a list,
// math.isclose(f(…), …), f(…) is True, f(…) and not f(…).
func readAssertion(line string, funcs []string) (assertion, bool) {
	r := &reader{s: line}
	if !r.take("assert") {
		return assertion{}, false
	}
	a, ok := r.condition(funcs)
	if !ok {
		return a, false
	}
	if r.take(",") { // the message
		if _, err := r.literal(0); err != nil {
			return a, false
		}
	}
	r.take(";")
	r.space()
	return a, r.at == len(r.s) || r.s[r.at] == '#' && !strings.Contains(r.s[r.at:], "\n")
}

func (r *reader) condition(funcs []string) (assertion, bool) {
	start := r.at
	if r.take("math.isclose") || r.take("isclose") {
		return r.isclose(funcs)
	}
	r.at = start
	if r.take("not") {
		a, ok := r.call(funcs)
		a.mode, a.want = program.Truth, program.Value{Kind: program.Bool}
		return a, ok
	}
	if r.take("(") {
		if a, ok := r.condition(funcs); ok && r.take(")") {
			return a, true
		}
		r.at = start
	}
	wrapper := ""
	for _, w := range []string{"set", "sorted"} {
		if r.take(w) && r.take("(") {
			wrapper = w
			break
		}
		r.at = start
	}
	a, ok := r.call(funcs)
	if !ok || wrapper != "" && !r.take(")") {
		return a, false
	}
	switch {
	case r.take("=="):
		return r.wanted(a, wrapper)
	case wrapper != "":
		return a, false
	case r.take("is"):
		v, err := r.literal(0)
		a.want = v
		return a, err == nil && (v.Kind == program.Null || v.Kind == program.Bool)
	}
	a.mode, a.want = program.Truth, program.Value{Kind: program.Bool, B: true}
	return a, true
}

// wanted reads what a call's answer is compared with.
func (r *reader) wanted(a assertion, wrapper string) (assertion, bool) {
	start := r.at
	if wrapper == "sorted" && r.take("sorted") && r.take("(") {
		v, err := r.literal(0)
		a.want, a.mode = v, program.Unordered
		return a, err == nil && v.Kind == program.List && r.take(")")
	}
	r.at = start
	v, err := r.literal(0)
	if err != nil {
		return a, false
	}
	a.want = v
	switch wrapper {
	case "set":
		a.mode = program.AsSet
		return a, v.Kind == program.Set
	case "sorted":
		a.mode = program.Unordered
		return a, v.Kind == program.List && ascending(v.Items)
	}
	return a, true
}

// ascending: what sorted() gives is one order only.
func ascending(items []program.Value) bool {
	return slices.IsSortedFunc(items, func(a, b program.Value) int {
		switch {
		case a.Kind == program.String && b.Kind == program.String:
			return strings.Compare(a.S, b.S)
		case a.Kind == program.Int && b.Kind == program.Int:
			return a.I.Cmp(b.I)
		}
		return -1 // not known: it is a test script
	})
}

func (r *reader) isclose(funcs []string) (assertion, bool) {
	if !r.take("(") {
		return assertion{}, false
	}
	a, ok := r.call(funcs)
	if !ok || !r.take(",") {
		return a, false
	}
	v, err := r.literal(0)
	if err != nil || v.Kind != program.Int && v.Kind != program.Float {
		return a, false
	}
	if v.Kind == program.Int { // a tolerance is for floats
		f, _ := v.I.Float64()
		v = program.Value{Kind: program.Float, F: f}
	}
	a.want, a.mode, a.relTol, a.tolered = v, program.Numbers, 1e-9, true
	for r.take(",") {
		name := r.name()
		if !r.take("=") {
			return a, name == "" && r.take(")")
		}
		t, err := r.literal(0)
		if err != nil || t.Kind != program.Float {
			return a, false
		}
		switch name {
		case "rel_tol":
			a.relTol = t.F
		case "abs_tol":
			a.absTol = t.F
		default:
			return a, false
		}
	}
	return a, r.take(")")
}

// call reads a call of one of funcs with literals.
func (r *reader) call(funcs []string) (assertion, bool) {
	a := assertion{fn: r.name(), args: []program.Value{}}
	if !slices.Contains(funcs, a.fn) || !r.take("(") {
		return a, false
	}
	for first := true; !r.take(")"); first = false {
		if !first && !r.take(",") {
			return a, false
		}
		if !first && r.take(")") {
			break
		}
		start := r.at
		if n := r.name(); n != "" && r.take("=") && !strings.HasPrefix(r.s[r.at:], "=") {
			v, err := r.literal(0)
			if err != nil {
				return a, false
			}
			a.kwargs.Kind = program.Dict
			a.kwargs.Items = append(a.kwargs.Items, program.NewString(n), v)
			continue
		}
		r.at = start
		v, err := r.literal(0)
		if err != nil || a.kwargs.Kind != program.Invalid {
			return a, false
		}
		a.args = append(a.args, v)
	}
	// What follows the call makes it another expression: f(x)[0], f(x) + 1.
	r.space()
	return a, r.at == len(r.s) || strings.HasPrefix(r.s[r.at:], "==") || strings.HasPrefix(r.s[r.at:], "is ") ||
		strings.IndexByte("),;#", r.s[r.at]) >= 0
}
