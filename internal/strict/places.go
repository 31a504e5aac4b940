package strict

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Places says where the keys of a TOML document stand.
type Places map[string]place

type place struct{ line, column int }

// At makes a fault of the key at path, names and indices: "commands", 0,
// "run". A key that is not written has the place of the nearest one around it.
func (p Places) At(err error, path ...any) Fault {
	f := Fault{Err: err}
	parts := make([]string, len(path))
	for i, at := range path {
		switch at := at.(type) {
		case int:
			parts[i] = index(at)
			f.Key = append(f.Key, strconv.Itoa(at))
		case string:
			parts[i] = at
			f.Key = append(f.Key, at)
		default:
			panic(fmt.Sprintf("a key of type %T", at))
		}
	}
	for n := len(parts); n > 0; n-- {
		if at, ok := p[join(parts[:n])]; ok {
			f.Line, f.Column = at.line, at.column
			break
		}
	}
	return f
}

// index sets indices apart from keys that look like numbers.
func index(i int) string { return "\x00" + strconv.Itoa(i) }

func join(parts []string) string { return strings.Join(parts, "\x01") }

// maxNesting bounds how deep tables and lists may stand in each other: parsers
// recurse, and a megabyte of brackets must not end the process.
const maxNesting = 100

// nested finds brackets and dotted keys past the bound, in a document that
// nobody has parsed yet. Brackets in strings and comments count as well where
// they are never closed: nobody's file has a hundred.
func nested(b []byte) (line int, deep bool) {
	depth, dots := 0, 0
	line = 1
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\n':
			line++
			dots = 0
		case '"', '\'':
			end := skipString(b, i)
			line += bytes.Count(b[i:min(end, len(b))], []byte("\n"))
			i = end
		case '#':
			n := bytes.IndexByte(b[i:], '\n')
			if n < 0 {
				return 0, false
			}
			i += n - 1
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '.':
			dots++
		}
		if depth > maxNesting || dots > maxNesting {
			return line, true
		}
	}
	return 0, false
}

// skipString returns the index of the last byte of the string that starts at
// i; an unterminated one ends at its line or at the document's end.
func skipString(b []byte, i int) int {
	q := b[i]
	long := bytes.HasPrefix(b[i:], []byte{q, q, q})
	j := i + 1
	if long {
		j = i + 3
	}
	for ; j < len(b); j++ {
		switch {
		case b[j] == '\\' && q == '"':
			j++
		case !long && b[j] == '\n':
			return j - 1
		case !long && b[j] == q:
			return j
		case long && bytes.HasPrefix(b[j:], []byte{q, q, q}):
			return j + 2
		}
	}
	return len(b)
}

// Where walks the syntax of a document that [TOML] has decoded, and notes where
// its keys stand; of one that it has not, those before the fault.
func Where(b []byte) Places {
	w := walker{text: b, found: Places{}, entries: map[string]int{}}
	if _, deep := nested(b); deep {
		return w.found
	}
	w.p.Reset(b)
	var prefix []string
	for w.p.NextExpression() {
		switch e := w.p.Expression(); e.Kind {
		case unstable.Table:
			prefix = w.header(e, false)
		case unstable.ArrayTable:
			prefix = w.header(e, true)
		case unstable.KeyValue:
			w.keyValue(prefix, e)
		}
	}
	return w.found
}

type walker struct {
	p       unstable.Parser
	text    []byte
	found   Places
	entries map[string]int // arrays of tables: entries so far
	// Lines are counted once, going forward.
	offset, line, start int
}

// header resolves a table's header: the name of an array of tables stands for
// its last entry.
func (w *walker) header(e *unstable.Node, array bool) []string {
	var path []string
	for it := e.Key(); it.Next(); {
		n := it.Node()
		path = append(path, string(n.Data))
		w.note(path, n)
		id := join(path)
		if array && it.IsLast() {
			w.entries[id]++
		}
		if c := w.entries[id]; c > 0 {
			path = append(path, index(c-1))
			w.note(path, n)
		}
	}
	return path
}

func (w *walker) keyValue(prefix []string, e *unstable.Node) {
	path := prefix[:len(prefix):len(prefix)]
	for it := e.Key(); it.Next(); {
		path = append(path, string(it.Node().Data))
		w.note(path, it.Node())
	}
	w.value(path, e.Value())
}

func (w *walker) value(path []string, v *unstable.Node) {
	it := v.Children()
	switch v.Kind {
	case unstable.Array:
		for i := 0; it.Next(); i++ {
			at := append(path[:len(path):len(path)], index(i))
			w.note(at, it.Node())
			w.value(at, it.Node())
		}
	case unstable.InlineTable:
		for it.Next() {
			w.keyValue(path, it.Node())
		}
	}
}

func (w *walker) note(path []string, n *unstable.Node) {
	id := join(path)
	if _, ok := w.found[id]; ok || n.Raw.Length == 0 {
		return
	}
	offset := int(n.Raw.Offset)
	if offset < w.offset {
		w.offset, w.line, w.start = 0, 0, 0
	}
	for ; w.offset < offset; w.offset++ {
		if w.text[w.offset] == '\n' {
			w.line++
			w.start = w.offset + 1
		}
	}
	w.found[id] = place{w.line + 1, offset - w.start + 1}
}
