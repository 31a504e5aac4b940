package exchange

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Files that Python's json.dumps wrote are read by people with diff and by
// programs byte by byte, so they are written here as it would: keys in the
// order given, ", " and ": " on one line, everything beyond ASCII escaped.

// member is a key and a value of an object.
type member struct {
	key   string
	value any
}

// object is a JSON object whose order counts.
type object []member

// dumps is json.dumps(v, indent=indent); indent 0 is None. It takes object,
// []any, []string, string, int, bool and nil.
func dumps(v any, indent int) ([]byte, error) {
	var b bytes.Buffer
	err := dumpInto(&b, v, indent, 0)
	return b.Bytes(), err
}

func dumpInto(b *bytes.Buffer, v any, indent, depth int) error {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case string:
		quotePython(b, v)
	case *string:
		if v == nil {
			return dumpInto(b, nil, indent, depth)
		}
		quotePython(b, *v)
	case []string:
		all := make([]any, len(v))
		for i, s := range v {
			all[i] = s
		}
		return dumpInto(b, all, indent, depth)
	case []any:
		return dumpBlock(b, '[', ']', len(v), indent, depth, func(i int) error { return dumpInto(b, v[i], indent, depth+1) })
	case object:
		return dumpBlock(b, '{', '}', len(v), indent, depth, func(i int) error {
			quotePython(b, v[i].key)
			b.WriteString(": ")
			return dumpInto(b, v[i].value, indent, depth+1)
		})
	default:
		return fmt.Errorf("write JSON: a %T", v)
	}
	return nil
}

func dumpBlock(b *bytes.Buffer, open, end byte, n, indent, depth int, each func(int) error) error {
	b.WriteByte(open)
	line := func(depth int) {
		if indent > 0 && n > 0 {
			b.WriteByte('\n')
			b.WriteString(strings.Repeat(" ", indent*depth))
		}
	}
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
			if indent == 0 {
				b.WriteByte(' ')
			}
		}
		line(depth + 1)
		if err := each(i); err != nil {
			return err
		}
	}
	line(depth)
	b.WriteByte(end)
	return nil
}

// quotePython writes a string as Python does with ensure_ascii. Bytes that are
// no UTF-8 become U+FFFD.
func quotePython(b *bytes.Buffer, s string) {
	const short = "\"\\\b\f\n\r\t"
	const letters = `"\bfnrt`
	b.WriteByte('"')
	for _, r := range s {
		if i := strings.IndexRune(short, r); i >= 0 {
			b.WriteByte('\\')
			b.WriteByte(letters[i])
			continue
		}
		switch {
		case r >= ' ' && r <= '~':
			b.WriteByte(byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
}
