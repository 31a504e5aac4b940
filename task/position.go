package task

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Position is a place in a text file; both count from 1, Column in bytes. The
// zero Position means that the place is the file as a whole.
type Position struct {
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// SyntaxError is a task file that cannot be parsed at all.
type SyntaxError struct {
	File string // path relative to the task directory
	Position
	Message string
	Excerpt string // the lines around the place, with a marker below it
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	if e.Excerpt != "" {
		s += "\n" + e.Excerpt
	}
	return s
}

// ConfigError is a field that Harbor would refuse too.
type ConfigError struct {
	File string
	Key  string // "steps[0].agent.timeout_sec"
	Position
	Message string
}

func (e *ConfigError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s: %s", e.File, e.Key, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", e.File, e.Line, e.Column, e.Key, e.Message)
}

// key is a path into a document; list indices are decimal numbers.
type key []string

func (k key) with(part string) key { return append(k[:len(k):len(k)], part) }

func (k key) at(i int) key { return k.with(indexMark + strconv.Itoa(i)) }

// indexMark sets indices apart from keys that look like numbers.
const indexMark = "\x00"

func (k key) id() string { return strings.Join(k, "\x01") }

func (k key) String() string {
	var b strings.Builder
	for _, part := range k {
		if n, ok := strings.CutPrefix(part, indexMark); ok {
			b.WriteString("[" + n + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(quoteKey(part))
	}
	return b.String()
}

func quoteKey(s string) string {
	bare := s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if bare {
		return s
	}
	return strconv.Quote(s)
}

// document is a parsed configuration file and where its keys stand.
type document struct {
	file   string
	root   map[string]any
	places map[string]Position
}

// place finds the nearest enclosing key that stands in the text.
func (d *document) place(k key) Position {
	for n := len(k); n > 0; n-- {
		if p, ok := d.places[k[:n].id()]; ok {
			return p
		}
	}
	return Position{}
}

// maxNesting bounds how deep tables and lists may stand in each other: the
// parsers recurse, and an attacker's megabyte of brackets must not end the
// process. Harbor's own parser gives up at a few hundred as well.
const maxNesting = 100

// parseTOML reads a document. Line ends are made one kind first, as Python's
// text mode does before Harbor parses.
func parseTOML(file string, data []byte) (*document, error) {
	data = newlines(data)
	if line, ok := tooDeep(data); ok {
		return nil, &SyntaxError{File: file, Position: Position{line, 1}, Message: fmt.Sprintf("lists or tables nested deeper than %d", maxNesting)}
	}
	d := &document{file: file, root: map[string]any{}}
	if err := toml.Unmarshal(data, &d.root); err != nil {
		return nil, syntaxError(file, err)
	}
	d.places = places(data)
	return d, nil
}

func syntaxError(file string, err error) error {
	var de *toml.DecodeError
	if !errors.As(err, &de) {
		return &SyntaxError{File: file, Message: strings.TrimPrefix(err.Error(), "toml: ")}
	}
	line, col := de.Position()
	return &SyntaxError{
		File: file, Position: Position{line, col},
		Message: strings.TrimPrefix(de.Error(), "toml: "),
		Excerpt: strings.TrimRight(de.String(), "\n"),
	}
}

func newlines(data []byte) []byte {
	if bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
}

// tooDeep looks for brackets and dotted keys nested past the bound, before
// anything recurses. Strings and comments are skipped.
func tooDeep(data []byte) (line int, deep bool) {
	depth, dots := 0, 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '\n':
			dots = 0
		case '"', '\'':
			i = skipString(data, i)
		case '#':
			if n := bytes.IndexByte(data[i:], '\n'); n < 0 {
				return 0, false
			} else {
				i += n - 1
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '.':
			dots++
		}
		if depth > maxNesting || dots > maxNesting {
			return 1 + bytes.Count(data[:i], []byte("\n")), true
		}
	}
	return 0, false
}

// skipString returns the index of the last byte of the TOML string that
// starts at i; an unterminated one ends at its line or at the document's end.
func skipString(data []byte, i int) int {
	q := data[i]
	if bytes.HasPrefix(data[i:], []byte{q, q, q}) {
		for j := i + 3; j < len(data); j++ {
			if data[j] == '\\' && q == '"' {
				j++
			} else if bytes.HasPrefix(data[j:], []byte{q, q, q}) {
				return j + 2
			}
		}
		return len(data)
	}
	for j := i + 1; j < len(data); j++ {
		switch {
		case data[j] == '\n':
			return j - 1
		case data[j] == '\\' && q == '"':
			j++
		case data[j] == q:
			return j
		}
	}
	return len(data)
}

// places walks the document's syntax once more and notes where each key
// stands. The document has been decoded before, so errors cannot occur here.
func places(data []byte) map[string]Position {
	w := placer{text: data, found: map[string]Position{}, counts: map[string]int{}}
	w.p.Reset(data)
	for w.p.NextExpression() {
		e := w.p.Expression()
		switch e.Kind {
		case unstable.Table:
			w.prefix = w.header(e, false)
		case unstable.ArrayTable:
			w.prefix = w.header(e, true)
		case unstable.KeyValue:
			w.keyValue(w.prefix, e)
		}
	}
	return w.found
}

type placer struct {
	p      unstable.Parser
	text   []byte
	found  map[string]Position
	counts map[string]int // arrays of tables: entries so far
	prefix key
	line   int // lines are counted once, going forward
	offset int
	start  int
}

// header resolves a table header: names of arrays of tables stand for their
// last entry.
func (w *placer) header(e *unstable.Node, array bool) key {
	var k key
	it := e.Key()
	for it.Next() {
		n := it.Node()
		k = k.with(string(n.Data))
		w.note(k, n)
		id := k.id()
		if array && it.IsLast() {
			w.counts[id]++
		}
		if c := w.counts[id]; c > 0 {
			k = k.at(c - 1)
			w.note(k, n)
		}
	}
	return k
}

func (w *placer) keyValue(prefix key, e *unstable.Node) {
	k := prefix
	it := e.Key()
	for it.Next() {
		k = k.with(string(it.Node().Data))
		w.note(k, it.Node())
	}
	w.value(k, e.Value())
}

func (w *placer) value(k key, v *unstable.Node) {
	switch v.Kind {
	case unstable.Array:
		it := v.Children()
		for i := 0; it.Next(); i++ {
			w.note(k.at(i), it.Node())
			w.value(k.at(i), it.Node())
		}
	case unstable.InlineTable:
		it := v.Children()
		for it.Next() {
			w.keyValue(k, it.Node())
		}
	}
}

func (w *placer) note(k key, n *unstable.Node) {
	id := k.id()
	if _, ok := w.found[id]; ok || n.Raw.Length == 0 {
		return
	}
	w.found[id] = w.at(int(n.Raw.Offset))
}

func (w *placer) at(offset int) Position {
	if offset < w.offset {
		w.line, w.offset, w.start = 0, 0, 0
	}
	for ; w.offset < offset; w.offset++ {
		if w.text[w.offset] == '\n' {
			w.line++
			w.start = w.offset + 1
		}
	}
	return Position{w.line + 1, offset - w.start + 1}
}
