package atif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// pen writes texts within the caps of one document. What it counts is what a
// text takes as JSON, since that is what a reader has to take.
type pen struct {
	one    int
	max    int64
	total  int64
	tokens bool // ids of tokens found no room
}

// cut makes s text, shortened to the caps with a marker that says how much is
// missing.
func (p *pen) cut(s string) string {
	most := p.one
	if p.total > p.max {
		most = min(most, maxLate)
	}
	if len(s) > most {
		kept := head(s, most)
		s = kept + cutMark(len(s)-len(kept))
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	p.total += width(s)
	return s
}

func cutMark(n int) string { return fmt.Sprintf("\n[%d bytes cut]", n) }

// room says whether n more bytes fit, and takes them.
func (p *pen) room(n int) bool {
	if p.total+int64(n) > p.max {
		return false
	}
	p.total += int64(n)
	return true
}

// width is about the bytes of s in JSON.
func width(s string) int64 {
	n := int64(len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n' || c == '\t' || c == '"' || c == '\\' || c == '\r':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}

// head is at most n bytes of s, not ending within a character.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

const (
	maxNest   = 100  // levels of a JSON value that stands in a document as it came
	maxDigits = 4000 // Python's JSON refuses longer numbers
)

// plain returns raw as a JSON value that every reader of a document can take,
// or false. Order of keys and spelling of numbers stay as they are.
func plain(raw []byte) (json.RawMessage, bool) {
	if !json.Valid(raw) || tooDeep(raw) {
		return nil, false
	}
	if !utf8.Valid(raw) || bytes.Contains(bytes.ToLower(raw), []byte(`\ud`)) {
		return respelled(raw) // half a surrogate pair is no text elsewhere
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return nil, false
	}
	return b.Bytes(), true
}

func respelled(raw []byte) (json.RawMessage, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil, false
	}
	return bytes.TrimSpace(b.Bytes()), true
}

// tooDeep looks at a valid JSON value: its nesting, and the length of its
// numbers.
func tooDeep(raw []byte) bool {
	depth, digits, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if quoted {
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
			continue
		}
		if c >= '0' && c <= '9' {
			if digits++; digits > maxDigits {
				return true
			}
			continue
		}
		digits = 0
		switch c {
		case '"':
			quoted = true
		case '{', '[':
			if depth++; depth > maxNest {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

// object is plain for what must be an object.
func object(raw string) (json.RawMessage, bool) {
	s := strings.TrimSpace(raw)
	if !strings.HasPrefix(s, "{") {
		return nil, false
	}
	return plain([]byte(s))
}
