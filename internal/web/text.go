package web

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Clean makes hostile text fit to be shown. Terminal escape sequences go;
// broken UTF-8 becomes U+FFFD; other control characters become their visible
// pictures (U+2400…); a carriage return starts a new line, so that a progress
// bar cannot hide what stood before it; characters that reorder text (the
// "Trojan source" set) are written out. Line feeds and tabs stay.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			i += escapeLen(s[i:])
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(byte(r))
		case r == '\r':
			if !strings.HasPrefix(s[i:], "\n") {
				b.WriteByte('\n')
			}
		case r < 0x20:
			b.WriteRune(0x2400 + r)
		case r == 0x7f:
			b.WriteRune(0x2421)
		case r >= 0x80 && r < 0xa0: // C1 controls; terminals obey them too
			b.WriteRune(utf8.RuneError)
		case reorders(r):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < 0x20 && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

func reorders(r rune) bool {
	return r == 0x200e || r == 0x200f || r == 0x061c || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// maxEscape bounds how far an unfinished escape sequence may swallow text.
const maxEscape = 4096

// escapeLen is the length of the escape sequence at the start of s (ECMA-48):
// CSI … final byte, the string kinds (OSC, DCS, SOS, PM, APC) up to BEL or ST,
// ESC with intermediates. An unfinished one is the ESC alone.
func escapeLen(s string) int {
	if len(s) < 2 {
		return 1
	}
	end := min(len(s), maxEscape)
	switch s[1] {
	case '[':
		for i := 2; i < end; i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x7e {
				break
			}
		}
		return 1
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < end; i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
			if s[i] == '\n' {
				break
			}
		}
		return 1
	}
	i := 1
	for i < end && s[i] >= 0x20 && s[i] <= 0x2f {
		i++
	}
	if i < end && s[i] >= 0x30 && s[i] <= 0x7e {
		return i + 1
	}
	return 1
}

// Text is a piece of output as a page shows it.
type Text struct {
	Head, Tail string // cleaned; Tail is empty unless something was left out
	Left       int64  // bytes left out between them
	Size       int64  // bytes in all, before cleaning
	Lines      int    // lines shown
}

// Empty reports whether there was nothing at all.
func (t Text) Empty() bool { return t.Size == 0 }

// Long reports whether the text is folded at first.
func (t Text) Long() bool { return t.Lines > 24 || t.Left > 0 }

// All is what is shown, with the gap named.
func (t Text) All() string {
	if t.Left == 0 {
		return t.Head + t.Tail
	}
	return t.Head + fmt.Sprintf("\n… %s left out …\n", Bytes(t.Left)) + t.Tail
}

// Clip keeps at most limit bytes of s, three quarters from its start and the
// rest from its end, where results and errors stand.
func Clip(s string, limit int) Text {
	if len(s) <= limit {
		return newText(s, "", 0, int64(len(s)))
	}
	limit = max(limit, 0)
	h := limit * 3 / 4
	t := len(s) - (limit - h)
	for h > 0 && !utf8.RuneStart(s[h]) {
		h--
	}
	for t < len(s) && !utf8.RuneStart(s[t]) {
		t++
	}
	return newText(s[:h], s[t:], int64(t-h), int64(len(s)))
}

func newText(head, tail string, left, size int64) Text {
	t := Text{Head: Clean(head), Tail: Clean(tail), Left: left, Size: size}
	t.Lines = strings.Count(t.Head, "\n") + strings.Count(t.Tail, "\n") + 1
	return t
}

// budget is what one page may still show. Every piece of text takes from it,
// so that a page stays readable whatever a trial wrote.
type budget struct{ left int }

func (b *budget) take(s string, limit int) Text {
	t := Clip(s, min(limit, b.left))
	b.left -= len(t.Head) + len(t.Tail)
	b.left = max(b.left, 0)
	return t
}

// line is a short text on one line, as details are shown, of at most limit
// bytes.
func line(s string, limit int) string { return shorten(s, limit, 1) }

// name is like line for the names of agents, tasks and trials, which differ at
// their ends: what is too long loses its middle.
func name(s string, limit int) string { return shorten(s, limit, 0.35) }

// shorten keeps the given share of limit from the start of s and the rest from
// its end.
func shorten(s string, limit int, head float64) string {
	// Cleaning comes before cutting: half an escape sequence is text. What is
	// cleaned is bounded, so that a huge text costs little.
	if most := 4*limit + maxEscape; len(s) > 2*most {
		s = s[:most] + s[len(s)-most:]
	}
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if len(s) <= limit {
		return s
	}
	room := max(limit-len("…"), 0)
	cut := int(float64(room) * head)
	end := len(s) - (room - cut)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	return s[:cut] + "…" + s[end:]
}
