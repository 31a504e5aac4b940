package mutate

import (
	"slices"
	"strings"

	"assay/internal/syntax"
)

// lostBase forgets one of several parents or interfaces.
func lostBase(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, class) {
		return
	}
	if n.Kind == "class_definition" {
		in := f.named(n.Child("superclasses"))
		for i, c := range in {
			if f.is(c, keyword) {
				continue
			}
			switch {
			case len(in) == 1:
				put(edit{n.Child("superclasses").Start, n.Child("superclasses").End, ""})
			case i > 0:
				put(edit{in[i-1].End, c.End, ""})
			default:
				put(edit{c.Start, in[1].Start, ""})
			}
		}
		return
	}
	for _, c := range n.Children {
		if c.Kind == "super_interfaces" || c.Kind == "superclass" || c.Kind == "class_heritage" {
			put(edit{f.blanks(c.Start), c.End, ""})
		}
	}
}

// blanks is where the blanks before a place begin.
func (f *file) blanks(at int) int {
	for at > 0 && f.src[at-1] == ' ' {
		at--
	}
	return at
}

// lostMethod leaves a method to the parent class.
func lostMethod(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, function) || f.constructs(n) {
		return
	}
	c := f.up(n, class)
	if c == nil || len(f.named(c.Child("superclasses"))) == 0 {
		return
	}
	whole := n
	if n.Parent.Kind == "decorated_definition" {
		whole = n.Parent
	}
	if whole.Parent.Parent != c {
		return
	}
	if id := f.nameOf(n); id == "__init__" || len(f.statements(whole.Parent)) < 2 {
		return
	}
	if e, ok := f.without(whole); ok {
		put(e)
	}
}

// shuffledMethods changes the order of two methods, which matters only where
// one takes the other's place.
func shuffledMethods(f *file, n *syntax.Node, put func(...edit)) {
	if !f.is(n, function) || f.up(n, class) == nil {
		return
	}
	in := f.named(n.Parent)
	i := slices.Index(in, n)
	if i >= 0 && i+1 < len(in) && f.is(in[i+1], function) {
		put(f.swap(n, in[i+1])...)
	}
}

func lostDecorator(f *file, n *syntax.Node, put func(...edit)) {
	if n.Kind != "decorated_definition" {
		return
	}
	for _, c := range n.Children {
		if c.Kind != "decorator" {
			continue
		}
		for _, known := range []string{"staticmethod", "classmethod", "wraps", "lru_cache", "cache", "total_ordering", "contextmanager", "cached_property"} {
			if strings.Contains(f.text(c), known) {
				put(edit{c.Start, c.End + len(f.indent(n)) + 1, ""})
			}
		}
	}
}
