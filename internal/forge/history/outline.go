package history

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"assay/internal/syntax"
)

// Parser gives syntax trees; *syntax.Parser is one.
type Parser interface {
	Parse(ctx context.Context, lang syntax.Language, src []byte) (*syntax.Tree, error)
}

// entity is a named part of a source: a function, a class, a method.
type entity struct {
	name        string
	first, last int // lines, from 1
}

// outline lists the entities of a source, outer ones first. It asks the syntax
// tree, and without one, or a grammar, the shape of the lines.
func outline(ctx context.Context, p Parser, path string, src []byte) []entity {
	lang, ok := syntax.ByPath(path)
	if p == nil || !ok {
		return sketch(src)
	}
	t, err := p.Parse(ctx, lang, src)
	if err != nil {
		return sketch(src)
	}
	var all []entity
	t.Root.Walk(func(n *syntax.Node) bool {
		if n.Named && definition.MatchString(n.Kind) {
			if name := n.Child("name"); name != nil && name.End-name.Start < 200 {
				last := n.Row + 1 + strings.Count(t.Text(n), "\n")
				all = append(all, entity{t.Text(name), n.Row + 1, last})
			}
		}
		return true
	})
	return all
}

var (
	definition = regexp.MustCompile(`^(async_)?(function|method|class|struct|enum|union|interface|trait|type|constructor|generator_function|record|object|module|macro|mod)(_|$).*?(definition|declaration|item|spec|specifier|signature)?$`)
	defLine    = regexp.MustCompile(`^(\s*)(?:export\s+)?(?:default\s+)?(?:(?:public|private|protected|internal|static|final|abstract|async|pub(?:\([\w: ]+\))?|unsafe|const|inline|extern|virtual|override|synchronized|open|sealed)\s+)*(?:def|class|func|fn|function\*?|interface|trait|struct|enum|impl|module|type|record|object)\s+(?:\([^)]*\)\s*)?([A-Za-z_$][\w$]*)`)
)

// sketch finds entities by the lines that begin them; one ends where a line
// with no deeper indentation follows that closes nothing.
func sketch(src []byte) []entity {
	var all []entity
	type open struct{ at, indent int }
	var stack []open
	lines := strings.Split(string(src), "\n")
	for i, l := range lines {
		body := strings.TrimLeft(l, " \t")
		if body == "" {
			continue
		}
		indent := len(l) - len(body)
		closer := strings.ContainsRune(")}]", rune(body[0]))
		for len(stack) > 0 && indent <= stack[len(stack)-1].indent && (!closer || indent < stack[len(stack)-1].indent) {
			all[stack[len(stack)-1].at].last = i // the line before this one
			stack = stack[:len(stack)-1]
		}
		if m := defLine.FindStringSubmatch(l); m != nil {
			all = append(all, entity{m[2], i + 1, len(lines)})
			stack = append(stack, open{len(all) - 1, indent})
		}
	}
	return all
}

// touched are the names of entities that hold some of the lines.
func touched(all []entity, lines []int) []string {
	var names []string
	for _, e := range all {
		if slices.ContainsFunc(lines, func(l int) bool { return l >= e.first && l <= e.last }) && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

// without lists the names of a that b has not.
func without(a, b []entity) []string {
	var names []string
	for _, e := range a {
		if !slices.ContainsFunc(b, func(x entity) bool { return x.name == e.name }) && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return names
}
