package program

import (
	"fmt"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// ParseJSON reads exactly one JSON value, without any meaning of "$…" keys. It
// differs from encoding/json where a judge must: a key that occurs twice is an
// error, 1 and 1.0 are not the same, and lone surrogates are kept.
func ParseJSON(data []byte) (Value, error) {
	if len(data) > MaxFrame {
		return Value{}, fmt.Errorf("%d bytes of JSON (at most %d)", len(data), MaxFrame)
	}
	p := &parser{data: data}
	v, err := p.value(0)
	if err == nil {
		if p.space(); p.at < len(data) {
			err = p.fail("something after the value")
		}
	}
	return v, err
}

var literals = [...]struct {
	text string
	v    Value
}{{"null", Value{Kind: Null}}, {"true", Value{Kind: Bool, B: true}}, {"false", Value{Kind: Bool}}}

type parser struct {
	data []byte
	at   int
	n    int // values so far
}

func (p *parser) fail(format string, a ...any) error {
	return fmt.Errorf("column %d: %s", p.at+1, fmt.Sprintf(format, a...))
}

func (p *parser) space() {
	for p.at < len(p.data) && (p.data[p.at] == ' ' || p.data[p.at] == '\t' || p.data[p.at] == '\n' || p.data[p.at] == '\r') {
		p.at++
	}
}

// take reports whether c comes next, after white space, and passes it.
func (p *parser) take(c byte) bool {
	p.space()
	if p.at < len(p.data) && p.data[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) value(depth int) (Value, error) {
	p.space()
	if p.n++; p.n > MaxItems {
		return Value{}, p.fail("more than %d values", MaxItems)
	}
	if depth > MaxDepth {
		return Value{}, p.fail("nested deeper than %d", MaxDepth)
	}
	if p.at == len(p.data) {
		return Value{}, p.fail("it ends where a value should be")
	}
	switch c := p.data[p.at]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		s, err := p.str()
		return Value{Kind: String, S: s}, err
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	}
	for _, w := range literals {
		if rest := p.data[p.at:]; len(rest) >= len(w.text) && string(rest[:len(w.text)]) == w.text {
			p.at += len(w.text)
			return w.v, nil
		}
	}
	return Value{}, p.fail("%q begins no value", p.data[p.at])
}

func (p *parser) array(depth int) (Value, error) {
	v := Value{Kind: List, Items: []Value{}}
	p.at++
	if p.take(']') {
		return v, nil
	}
	for {
		x, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.Items = append(v.Items, x)
		if p.take(']') {
			return v, nil
		}
		if !p.take(',') {
			return v, p.fail("a list goes on with , or ]")
		}
	}
}

func (p *parser) object(depth int) (Value, error) {
	v := Value{Kind: Dict, Items: []Value{}}
	seen := map[string]bool{}
	p.at++
	if p.take('}') {
		return v, nil
	}
	for {
		p.space()
		if p.at == len(p.data) || p.data[p.at] != '"' {
			return v, p.fail("a key is a string")
		}
		key, err := p.str()
		if err != nil {
			return v, err
		}
		if seen[key] {
			return v, p.fail("the key %q occurs twice", shorten(key, 80))
		}
		seen[key] = true
		if !p.take(':') {
			return v, p.fail("after a key comes a colon")
		}
		x, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.Items = append(v.Items, text(key), x)
		if p.take('}') {
			return v, nil
		}
		if !p.take(',') {
			return v, p.fail("an object goes on with , or }")
		}
	}
}

func (p *parser) digits() bool {
	from := p.at
	for p.at < len(p.data) && '0' <= p.data[p.at] && p.data[p.at] <= '9' {
		p.at++
	}
	return p.at > from
}

func (p *parser) next(chars string) bool {
	for i := range len(chars) {
		if p.at < len(p.data) && p.data[p.at] == chars[i] {
			p.at++
			return true
		}
	}
	return false
}

func (p *parser) number() (Value, error) {
	from := p.at
	p.next("-")
	zero := p.at < len(p.data) && p.data[p.at] == '0'
	whole := p.at
	if !p.digits() || zero && p.at > whole+1 {
		return Value{}, p.fail("not a number")
	}
	float := false
	if p.next(".") {
		float = true
		if !p.digits() {
			return Value{}, p.fail("not a number")
		}
	}
	if p.next("eE") {
		float = true
		p.next("+-")
		if !p.digits() {
			return Value{}, p.fail("not a number")
		}
	}
	s := string(p.data[from:p.at])
	if !float {
		if len(s) > 5000 { // more is written as {"$int": "0x…"}
			return Value{}, p.fail("an integer of %d digits", len(s))
		}
		n, _ := new(big.Int).SetString(s, 10)
		return Value{Kind: Int, I: n}, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return Value{}, p.fail("%s is out of range", shorten(s, 40))
	}
	return Value{Kind: Float, F: f}, nil
}

func (p *parser) str() (string, error) {
	p.at++
	from := p.at
	for p.at < len(p.data) && p.data[p.at] != '"' && p.data[p.at] != '\\' && p.data[p.at] >= 0x20 {
		p.at++
	}
	b := p.data[from:p.at:p.at]
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			if !validWTF8(b) {
				return "", p.fail("a string that is not UTF-8")
			}
			return string(b), nil
		case c < 0x20:
			return "", p.fail("a control character in a string")
		case c == '\\':
			var err error
			if b, err = p.escape(b); err != nil {
				return "", err
			}
		default:
			b = append(b, c)
			p.at++
		}
	}
	return "", p.fail("a string without an end")
}

func (p *parser) escape(b []byte) ([]byte, error) {
	if p.at++; p.at == len(p.data) {
		return nil, p.fail("a string without an end")
	}
	c := p.data[p.at]
	p.at++
	switch c {
	case '"', '\\', '/':
		return append(b, c), nil
	case 'b':
		return append(b, '\b'), nil
	case 'f':
		return append(b, '\f'), nil
	case 'n':
		return append(b, '\n'), nil
	case 'r':
		return append(b, '\r'), nil
	case 't':
		return append(b, '\t'), nil
	case 'u':
		u, ok := p.unit()
		if !ok {
			return nil, p.fail("\\u wants four hexadecimal digits")
		}
		if 0xDC00 <= u && u < 0xE000 { // the second half of what was cut before it
			if n := len(b); n >= 3 && b[n-3] == 0xED && b[n-2] >= 0xA0 && b[n-2] < 0xB0 {
				high := 0xD000 | rune(b[n-2]&0x3F)<<6 | rune(b[n-1]&0x3F)
				return utf8.AppendRune(b[:n-3], (high-0xD800)<<10|(u-0xDC00)+0x10000), nil
			}
		}
		if 0xD800 <= u && u < 0xE000 {
			return append(b, 0xE0|byte(u>>12), 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F), nil
		}
		return utf8.AppendRune(b, u), nil
	}
	return nil, p.fail("\\%c is no escape", c)
}

func (p *parser) unit() (rune, bool) {
	if len(p.data)-p.at < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.data[p.at:p.at+4]), 16, 16)
	p.at += 4
	return rune(n), err == nil
}

// surrogate returns the lone surrogate that s begins with.
func surrogate[T string | []byte](s T) (rune, bool) {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), true
}

func validWTF8(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if _, ok := surrogate(b); !ok {
				return false
			}
			n = 3
		}
		b = b[n:]
	}
	return true
}

// quote writes s as JSON in ASCII.
func quote(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	unit := func(u rune) {
		b = append(b, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	b = append(b, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			if u, ok := surrogate(s); ok {
				r, n = u, 3
			}
		}
		s = s[n:]
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case 0x20 <= r && r < 0x7F:
			b = append(b, byte(r))
		case r >= 0x10000:
			unit(0xD800 + (r-0x10000)>>10)
			unit(0xDC00 + (r-0x10000)&0x3FF)
		default:
			unit(r)
		}
	}
	return append(b, '"')
}
