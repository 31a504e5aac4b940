package program

import (
	"errors"
	"fmt"
	"strings"
)

// Table is a query's result. A row's values are Null, Int, Float, String or Bytes.
type Table struct {
	Columns []string // nil: their names do not matter
	Width   int      // columns; -1: not known, for want of a row
	Rows    []Value  // a List each
}

// tableOf reads {"columns": […], "rows": [[…], …]}; columns may be left out or null.
func tableOf(v Value) (*Table, error) {
	f, err := object(v, "a result")
	if err != nil {
		return nil, err
	}
	t := &Table{Width: -1}
	if c, ok := f.get("columns", List, Null); ok && c.Kind == List {
		t.Width, t.Columns = len(c.Items), []string{}
		for _, x := range c.Items {
			if x.Kind != String {
				return nil, errors.New("columns is not a list of names")
			}
			t.Columns = append(t.Columns, x.S)
		}
	}
	rows, ok := f.get("rows", List)
	if !ok && f.err == nil {
		return nil, errors.New("there are no rows")
	}
	for i, r := range rows.Items {
		if r.Kind != List {
			return nil, fmt.Errorf("rows[%d] is not a list", i)
		}
		if t.Width < 0 {
			t.Width = len(r.Items)
		}
		if len(r.Items) != t.Width {
			return nil, fmt.Errorf("rows[%d] has %d values, not %d", i, len(r.Items), t.Width)
		}
		for _, x := range r.Items {
			if x.Kind != Null && x.Kind != Int && x.Kind != Float && x.Kind != String && x.Kind != Bytes {
				return nil, fmt.Errorf("rows[%d] holds a %s", i, x.Kind)
			}
		}
	}
	t.Rows = rows.Items
	return t, f.done("a result")
}

// differ says in one line where got is not the wanted result: names of columns
// if they are wanted, their count, the rows as often as they occur, and their
// order if it is wanted. NULL is NULL's equal here, and a text never a number's.
func (t *Table) differ(e Equality, ordered bool, got *Table) string {
	if t.Columns != nil {
		if w, g := strings.Join(t.Columns, ", "), strings.Join(got.Columns, ", "); w != g {
			return fmt.Sprintf("want the columns %s, got %s", w, shorten(g, shown))
		}
	}
	if t.Width >= 0 && got.Width >= 0 && t.Width != got.Width {
		return fmt.Sprintf("want %d columns, got %d", t.Width, got.Width)
	}
	if len(t.Rows) != len(got.Rows) {
		return fmt.Sprintf("want %d rows, got %d", len(t.Rows), len(got.Rows))
	}
	if ordered {
		return e.sequences("row", t.Rows, got.Rows)
	}
	return e.match("", t.Rows, got.Rows)
}

// Orders reports whether a query's own result has an order: whether ORDER BY
// stands in its last statement outside of brackets, texts and comments.
func Orders(sql string) bool {
	var words []string
	depth, start := 0, -1
	end := func(i int) {
		if start >= 0 && depth == 0 {
			words = append(words, strings.ToUpper(sql[start:i]))
		}
		start = -1
	}
	for i := 0; i < len(sql); i++ {
		if c := sql[i]; c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' {
			if start < 0 {
				start = i
			}
			continue
		}
		end(i)
		switch c := sql[i]; c {
		case '(':
			depth++
		case ')':
			depth--
		case ';':
			if rest := strings.TrimSpace(sql[i+1:]); depth == 0 && hasStatement(rest) {
				words = nil
			}
		case '\'', '"', '`', '[', '-', '/':
			i = pass(sql, i)
			words = append(words, "") // what stands between ORDER and BY, if anything
			if c == '-' || c == '/' {
				words = words[:len(words)-1]
			}
		}
	}
	end(len(sql))
	for i := 1; i < len(words); i++ {
		if words[i-1] == "ORDER" && words[i] == "BY" {
			return true
		}
	}
	return false
}

// hasStatement reports whether s holds more than comments and semicolons.
func hasStatement(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';':
		case (c == '-' || c == '/') && pass(s, i) > i:
			i = pass(s, i)
		default:
			return true
		}
	}
	return false
}

// pass returns the last byte of the text or comment that begins at i; i if none does.
func pass(sql string, i int) int {
	rest := sql[i+1:]
	var n int
	switch c := sql[i]; c {
	case '-', '/':
		open, end := "-", "\n"
		if c == '/' {
			open, end = "*", "*/"
		}
		if !strings.HasPrefix(rest, open) {
			return i
		}
		if n = strings.Index(rest[1:], end); n < 0 {
			return len(sql) - 1
		}
		return i + 1 + n + len(end)
	case '[':
		n = strings.IndexByte(rest, ']')
	default:
		n = strings.IndexByte(rest, c) // a doubled quote begins the next text at once
	}
	if n < 0 {
		return len(sql) - 1
	}
	return i + 1 + n
}
