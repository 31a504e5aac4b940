package programs

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/internal/grade/program"
)

// errNotLiteral: the text is Python, perhaps, but no literal.
var errNotLiteral = errors.New("not a literal")

const maxDepth = 50

// reader reads Python's literals out of one line of code.
type reader struct {
	s  string
	at int
}

func (r *reader) space() {
	for r.at < len(r.s) && strings.IndexByte(" \t\n\r\f", r.s[r.at]) >= 0 {
		r.at++
	}
}

// take passes a word or sign, if it comes next.
func (r *reader) take(word string) bool {
	r.space()
	if !strings.HasPrefix(r.s[r.at:], word) {
		return false
	}
	end := r.at + len(word)
	if isName(word[len(word)-1]) && end < len(r.s) && isName(r.s[end]) {
		return false
	}
	r.at = end
	return true
}

func isName(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// name passes an identifier; empty: none comes next.
func (r *reader) name() string {
	r.space()
	from := r.at
	for r.at < len(r.s) && isName(r.s[r.at]) {
		r.at++
	}
	if n := r.s[from:r.at]; n == "" || n[0] > '9' || n[0] < '0' {
		return n
	}
	r.at = from
	return ""
}

// literal reads one: a display, a string, a number, a constant, float("inf"), set().
func (r *reader) literal(depth int) (program.Value, error) {
	r.space()
	if depth > maxDepth || r.at == len(r.s) {
		return program.Value{}, errNotLiteral
	}
	switch c := r.s[r.at]; {
	case c == '[':
		items, _, err := r.items("[", "]", depth)
		return program.Value{Kind: program.List, Items: items}, err
	case c == '(':
		items, comma, err := r.items("(", ")", depth)
		if err == nil && len(items) == 1 && !comma {
			return items[0], nil
		}
		return program.Value{Kind: program.Tuple, Items: items}, err
	case c == '{':
		return r.braces(depth)
	case c == '-' || c == '+':
		r.at++
		v, err := r.literal(depth + 1)
		if err != nil || c == '+' && (v.Kind == program.Int || v.Kind == program.Float) {
			return v, err
		}
		return negative(v)
	case '0' <= c && c <= '9' || c == '.':
		return r.number()
	case r.quoted() >= 0:
		return r.texts()
	}
	return r.word(depth)
}

func negative(v program.Value) (program.Value, error) {
	switch v.Kind {
	case program.Int:
		v.I = new(big.Int).Neg(v.I)
	case program.Float:
		v.F = -v.F
	default:
		return v, errNotLiteral
	}
	return v, nil
}

// items reads literals between brackets; comma: the last one has one behind it.
func (r *reader) items(open, end string, depth int) (items []program.Value, comma bool, err error) {
	items = []program.Value{}
	if !r.take(open) {
		return nil, false, errNotLiteral
	}
	for {
		if r.take(end) {
			return items, comma, nil
		}
		if len(items) > 0 && !comma {
			return nil, false, errNotLiteral
		}
		v, err := r.literal(depth + 1)
		if err != nil {
			return nil, false, err
		}
		items = append(items, v)
		comma = r.take(",")
	}
}

// braces reads a set or a dict.
func (r *reader) braces(depth int) (program.Value, error) {
	from := r.at
	if items, _, err := r.items("{", "}", depth); err == nil && len(items) > 0 {
		return program.NewSet(items), nil
	}
	r.at = from + 1
	dict := program.Value{Kind: program.Dict, Items: []program.Value{}}
	for {
		if r.take("}") {
			return lastWins(dict), nil
		}
		k, err := r.literal(depth + 1)
		if err != nil || !r.take(":") {
			return dict, errNotLiteral
		}
		v, err := r.literal(depth + 1)
		if err != nil {
			return dict, err
		}
		dict.Items = append(dict.Items, k, v)
		if !r.take(",") && !strings.HasPrefix(strings.TrimLeft(r.s[r.at:], " \t\n"), "}") {
			return dict, errNotLiteral
		}
	}
}

// lastWins keeps of several values for one key the last, at the first's place.
func lastWins(d program.Value) program.Value {
	out := program.Value{Kind: program.Dict, Items: []program.Value{}}
next:
	for i := 0; i < len(d.Items); i += 2 {
		for j := 0; j < len(out.Items); j += 2 {
			if (program.Equality{Bools: true}).Differ(out.Items[j], d.Items[i]) == "" {
				out.Items[j+1] = d.Items[i+1]
				continue next
			}
		}
		out.Items = append(out.Items, d.Items[i:i+2]...)
	}
	return out
}

func (r *reader) number() (program.Value, error) {
	from := r.at
	for r.at < len(r.s) && (isName(r.s[r.at]) || r.s[r.at] == '.' || strings.IndexByte("+-", r.s[r.at]) >= 0 && r.exponent(from)) {
		r.at++
	}
	text := r.s[from:r.at]
	if len(text) > 4000 || strings.Contains(text, "__") || strings.HasSuffix(text, "_") {
		return program.Value{}, errNotLiteral
	}
	text = strings.ReplaceAll(text, "_", "")
	based := len(text) > 1 && text[0] == '0' && strings.ContainsRune("xXoObB", rune(text[1]))
	if n, ok := new(big.Int).SetString(text, map[bool]int{true: 0, false: 10}[based]); ok {
		if !based && len(text) > 1 && text[0] == '0' && n.Sign() != 0 {
			return program.Value{}, errNotLiteral // 010 is no Python
		}
		return program.NewInt(n), nil
	}
	if strings.Trim(text, "0123456789.eE+-") != "" {
		return program.Value{}, errNotLiteral
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return program.Value{}, errNotLiteral
	}
	return program.Value{Kind: program.Float, F: f}, nil
}

// exponent reports whether a sign here belongs to the number that began there.
func (r *reader) exponent(from int) bool {
	return r.at > from && r.s[r.at-1]|0x20 == 'e' && !strings.HasPrefix(strings.ToLower(r.s[from:]), "0x")
}

// quoted is the length of a string's prefix; -1: no string begins here.
func (r *reader) quoted() int {
	for n := 0; n <= 2 && r.at+n < len(r.s); n++ {
		switch c := r.s[r.at+n]; {
		case c == '\'' || c == '"':
			return n
		case strings.IndexByte("rRbBuU", c) < 0:
			return -1
		}
	}
	return -1
}

// texts reads one string, or several that stand side by side.
func (r *reader) texts() (program.Value, error) {
	var all program.Value
	for first := true; ; first = false {
		r.space()
		n := r.quoted()
		if n < 0 {
			return all, nil
		}
		prefix := strings.ToLower(r.s[r.at : r.at+n])
		r.at += n
		kind := program.String
		if strings.Contains(prefix, "b") {
			kind = program.Bytes
		}
		s, err := r.body(strings.Contains(prefix, "r"), kind == program.Bytes)
		if err != nil || !first && all.Kind != kind {
			return all, errNotLiteral
		}
		all.Kind = kind
		all.S += s
	}
}

// body reads a string from its quote on.
func (r *reader) body(raw, bytes bool) (string, error) {
	quote := r.s[r.at : r.at+1]
	if strings.HasPrefix(r.s[r.at:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	r.at += len(quote)
	var b strings.Builder
	for r.at < len(r.s) {
		switch c := r.s[r.at]; {
		case strings.HasPrefix(r.s[r.at:], quote):
			r.at += len(quote)
			return b.String(), nil
		case c == '\n' && len(quote) == 1, bytes && c >= 0x80:
			return "", errNotLiteral
		case c == '\\' && raw && r.at+1 < len(r.s):
			b.WriteString(r.s[r.at : r.at+2])
			r.at += 2
		case c == '\\':
			if err := r.escape(&b, bytes); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
			r.at++
		}
	}
	return "", errNotLiteral
}

func (r *reader) escape(b *strings.Builder, bytes bool) error {
	if r.at+1 >= len(r.s) {
		return errNotLiteral
	}
	c := r.s[r.at+1]
	r.at += 2
	if i := strings.IndexByte(`\'"abfnrtv`, c); i >= 0 {
		b.WriteByte("\\'\"\a\b\f\n\r\t\v"[i])
		return nil
	}
	digits, base := 0, 16
	switch {
	case c == '\n':
		return nil
	case c == 'x':
		digits = 2
	case c == 'u' && !bytes:
		digits = 4
	case c == 'U' && !bytes:
		digits = 8
	case '0' <= c && c <= '7':
		r.at--
		base = 8
		for digits < 3 && r.at+digits < len(r.s) && '0' <= r.s[r.at+digits] && r.s[r.at+digits] <= '7' {
			digits++
		}
	case c == 'N' && !bytes:
		return errNotLiteral
	default: // Python keeps the backslash
		b.WriteByte('\\')
		r.at--
		return nil
	}
	if r.at+digits > len(r.s) {
		return errNotLiteral
	}
	n, err := strconv.ParseUint(r.s[r.at:r.at+digits], base, 32)
	if err != nil || n > utf8.MaxRune || 0xD800 <= n && n < 0xE000 {
		return errNotLiteral
	}
	r.at += digits
	if bytes {
		b.WriteByte(byte(n))
	} else {
		b.WriteRune(rune(n))
	}
	return nil
}

// word reads None, True, False, float('inf'), set() and frozenset([…]).
func (r *reader) word(depth int) (program.Value, error) {
	switch r.name() {
	case "None":
		return program.Value{Kind: program.Null}, nil
	case "True":
		return program.Value{Kind: program.Bool, B: true}, nil
	case "False":
		return program.Value{Kind: program.Bool}, nil
	case "float":
		args, _, err := r.items("(", ")", depth)
		if err != nil || len(args) != 1 || args[0].Kind != program.String {
			return program.Value{}, errNotLiteral
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(args[0].S), 64)
		if err != nil || strings.ContainsAny(args[0].S, "_xXpP") {
			return program.Value{}, errNotLiteral
		}
		return program.Value{Kind: program.Float, F: f}, nil
	case "set", "frozenset":
		args, _, err := r.items("(", ")", depth)
		if err != nil || len(args) > 1 {
			return program.Value{}, errNotLiteral
		}
		var items []program.Value
		if len(args) == 1 {
			if k := args[0].Kind; k != program.List && k != program.Tuple && k != program.Set {
				return program.Value{}, errNotLiteral
			}
			items = args[0].Items
		}
		v := program.NewSet(items)
		if v.Items == nil {
			v.Items = []program.Value{}
		}
		return v, nil
	}
	return program.Value{}, errNotLiteral
}

// Literal reads a text that is one Python literal.
func Literal(s string) (program.Value, error) {
	r := &reader{s: s}
	v, err := r.literal(0)
	if err != nil {
		return v, err
	}
	if r.space(); r.at < len(r.s) {
		return v, fmt.Errorf("%w: %.40q follows", errNotLiteral, r.s[r.at:])
	}
	return v, nil
}
