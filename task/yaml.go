package task

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parseYAML reads a mapping. Anchors are refused: expanding them lets a small
// file fill the memory, and no task needs them.
func parseYAML(file, text string) (*document, error) { return parseYAMLAs(file, text, nil) }

// parseCompose reads a mapping with anchors and merge keys, as Compose files
// have them, up to a bound.
func parseCompose(file, text string) (*document, error) {
	return parseYAMLAs(file, text, map[string]ast.Node{})
}

// maxAliased bounds the values that all aliases of a file stand for.
const maxAliased = 20_000

func parseYAMLAs(file, text string, anchors map[string]ast.Node) (*document, error) {
	d := &document{file: file, places: map[string]Position{}}
	err := yamlGuard(file, text, func() error {
		f, err := parser.ParseBytes([]byte(text), 0)
		if err != nil {
			return err
		}
		if len(f.Docs) == 0 || f.Docs[0].Body == nil {
			return &SyntaxError{File: file, Message: "is empty"}
		}
		v := &yamlTree{d: d, anchors: anchors}
		root, err := v.value(nil, f.Docs[0].Body, 0)
		if err != nil {
			return err
		}
		m, ok := root.(map[string]any)
		if !ok {
			return &SyntaxError{File: file, Position: Position{1, 1}, Message: "must be a mapping"}
		}
		d.root = m
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// yamlGuard runs a parser on hostile text: nesting is bounded first, and a
// panic of the library becomes an error of the file.
func yamlGuard(file, text string, parse func() error) (err error) {
	if line := yamlTooDeep(text); line > 0 {
		return &SyntaxError{File: file, Position: Position{line, 1}, Message: fmt.Sprintf("lists or mappings nested deeper than %d", maxNesting)}
	}
	defer func() {
		if p := recover(); p != nil {
			err = &SyntaxError{File: file, Message: fmt.Sprintf("is no YAML that can be read: %v", p)}
		}
	}()
	err = parse()
	var own *SyntaxError
	var theirs yaml.Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.As(err, &theirs):
		s := &SyntaxError{File: file, Message: theirs.GetMessage()}
		if tk := theirs.GetToken(); tk != nil && tk.Position != nil {
			s.Position = Position{tk.Position.Line, tk.Position.Column}
			s.Excerpt = strings.TrimRight(theirs.FormatError(false, true), "\n")
		}
		return s
	}
	return &SyntaxError{File: file, Message: err.Error()}
}

// yamlTooDeep names the first line whose nesting is past the bound, or 0. The
// library's time and stack grow with the square of it. Quoted text, comments
// and block scalars are skipped.
func yamlTooDeep(text string) int {
	depth, block := 0, -1 // block is the indentation that a block scalar is deeper than
	quote := byte(0)
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		indent := len(line) - len(trimmed)
		if block >= 0 && (trimmed == "" || indent > block) {
			continue
		}
		block = -1
		nested := 0 // "- - a: b:" opens a level each
		before := byte('\n')
		for j := 0; j < len(trimmed); j++ {
			c := trimmed[j]
			space := j+1 == len(trimmed) || trimmed[j+1] == ' ' || trimmed[j+1] == '\t'
			switch {
			case quote != 0:
				if c == '\\' && quote == '"' {
					j++
				} else if c == quote {
					quote = 0
				}
				continue
			case (c == '"' || c == '\'') && strings.IndexByte("\n:-,[{?", before) >= 0:
				quote = c
			case c == '#' && (j == 0 || trimmed[j-1] == ' '):
				j = len(trimmed)
			case c == '[' || c == '{':
				depth++
			case c == ']' || c == '}':
				depth = max(depth-1, 0)
			case strings.IndexByte("-?:!", c) >= 0 && (space || c == '!'):
				nested++
			}
			if c != ' ' && c != '\t' {
				before = c
			}
			if depth > maxNesting || nested > maxNesting || indent > 10*maxNesting {
				return i + 1
			}
		}
		if depth == 0 && quote == 0 && blockHeader(trimmed) {
			block = indent
		}
	}
	return 0
}

// blockHeader says whether a line ends with "|" or ">" and their indicators.
func blockHeader(line string) bool {
	line, _, _ = strings.Cut(line, " #")
	line = strings.TrimRight(strings.TrimRight(line, " \t"), "+-0123456789")
	return strings.HasSuffix(line, "|") || strings.HasSuffix(line, ">")
}

// yamlTree turns syntax into plain values and notes where keys stand.
type yamlTree struct {
	d       *document
	anchors map[string]ast.Node // nil: they are refused
	inAlias int
	aliased int // values made for aliases
}

func (y *yamlTree) value(k key, n ast.Node, depth int) (any, error) {
	if depth > maxNesting {
		return nil, y.refuse(n, "mappings nested too deep")
	}
	if y.inAlias > 0 {
		if y.aliased++; y.aliased > maxAliased {
			return nil, y.refuse(n, fmt.Sprintf("aliases stand for more than %d values", maxAliased))
		}
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		m := make(map[string]any, len(n.Values))
		for _, kv := range n.Values {
			if err := y.pair(k, m, kv, depth); err != nil {
				return nil, err
			}
		}
		return m, nil
	case *ast.MappingValueNode:
		m := map[string]any{}
		return m, y.pair(k, m, n, depth)
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for i, item := range n.Values {
			y.note(k.at(i), item)
			v, err := y.value(k.at(i), item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case *ast.AnchorNode:
		if y.anchors == nil {
			return nil, y.refuse(n, "anchors and aliases are not read; write the value out")
		}
		v, err := y.value(k, n.Value, depth+1)
		y.anchors[n.Name.String()] = n.Value // only now: it cannot hold itself
		return v, err
	case *ast.AliasNode:
		if y.anchors == nil {
			return nil, y.refuse(n, "anchors and aliases are not read; write the value out")
		}
		to, ok := y.anchors[n.Value.String()]
		if !ok {
			return nil, y.refuse(n, fmt.Sprintf("there is no anchor %.50q before this", n.Value.String()))
		}
		y.inAlias++
		defer func() { y.inAlias-- }()
		return y.value(k, to, depth+1)
	case *ast.TagNode:
		return y.value(k, n.Value, depth+1)
	case nil, *ast.NullNode:
		return nil, nil
	}
	var v any
	if err := yaml.NodeToValue(n, &v); err != nil {
		return nil, err
	}
	if u, ok := v.(uint64); ok {
		return int64(u), nil
	}
	return v, nil
}

func (y *yamlTree) pair(k key, m map[string]any, kv *ast.MappingValueNode, depth int) error {
	if _, ok := kv.Key.(*ast.MergeKeyNode); ok && y.anchors != nil {
		return y.merge(k, m, kv, depth)
	}
	name := kv.Key.String()
	if s, ok := kv.Key.(*ast.StringNode); ok {
		name = s.Value
	}
	at := k.with(name)
	y.note(at, kv.Key)
	v, err := y.value(at, kv.Value, depth+1)
	m[name] = v
	return err
}

// merge adds what a mapping does not say itself; of several, the first wins.
func (y *yamlTree) merge(k key, m map[string]any, kv *ast.MappingValueNode, depth int) error {
	v, err := y.value(k, kv.Value, depth+1)
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		from, ok := one.(map[string]any)
		if !ok {
			return y.refuse(kv.Value, "only mappings are merged")
		}
		for name, val := range from {
			if _, said := m[name]; !said {
				m[name] = val
			}
		}
	}
	return nil
}

func (y *yamlTree) note(k key, n ast.Node) {
	// A mapping's own token is the colon of its first pair.
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 && !m.IsFlowStyle {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		y.d.places[k.id()] = Position{tk.Position.Line, tk.Position.Column}
	}
}

func (y *yamlTree) refuse(n ast.Node, message string) error {
	e := &SyntaxError{File: y.d.file, Message: message}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		e.Position = Position{tk.Position.Line, tk.Position.Column}
	}
	return e
}
