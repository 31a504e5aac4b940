package history

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// words is a source as a compiler would read it, near enough: without comments
// and white space. Where the indentation is part of the language, it stays.
// Two sources with equal words differ in comments or formatting only.
func words(p string, src string) []string {
	ext := strings.ToLower(path.Ext(p))
	hash := slices.Contains([]string{".py", ".pyx", ".pyi", ".rb", ".sh", ".pl", ".pm", ".ex", ".exs", ".jq"}, ext)
	python := slices.Contains([]string{".py", ".pyx", ".pyi"}, ext)
	l := lexer{src: src, hash: hash, python: python}
	return l.all()
}

type lexer struct {
	src          string
	hash, python bool
	i            int
	out          []string
	depth        int  // of brackets, in which lines mean nothing
	begun        bool // a token stands on this line
}

func (l *lexer) all() []string {
	for l.i < len(l.src) {
		if !l.step() {
			l.i++
		}
	}
	return l.out
}

func (l *lexer) emit(s string) {
	l.out = append(l.out, s)
	l.begun = true
}

// step takes one token; false: one byte that means nothing.
func (l *lexer) step() bool {
	rest := l.src[l.i:]
	c := rest[0]
	switch {
	case c == '\n':
		l.line()
		return false
	case c == ' ' || c == '\t' || c == '\r' || c == '\f':
		return false
	case c == '\\' && len(rest) > 1 && rest[1] == '\n' && l.python:
		l.i += 2
		return true
	case l.hash && c == '#', !l.hash && strings.HasPrefix(rest, "//"):
		end := strings.IndexByte(rest, '\n')
		if end < 0 {
			end = len(rest)
		}
		l.i += end
		return true
	case !l.hash && strings.HasPrefix(rest, "/*"):
		end := strings.Index(rest[2:], "*/")
		if end < 0 {
			l.i = len(l.src)
		} else {
			l.i += end + 4
		}
		return true
	case l.hash && (strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, `'''`)):
		l.long(rest[:3])
		return true
	case c == '"', c == '`' && !l.hash, c == '\'' && (l.hash || quoted(rest)):
		l.text(c)
		return true
	case word(c):
		n := 1
		for n < len(rest) && (word(rest[n]) || rest[n] == '.' && digit(c)) {
			n++
		}
		l.emit(rest[:n])
		l.i += n
		return true
	}
	switch c {
	case '(', '[', '{':
		l.depth++
	case ')', ']', '}':
		l.depth = max(0, l.depth-1)
	}
	l.emit(rest[:1])
	l.i++
	return true
}

// line ends one; in Python the next one's depth is a token.
func (l *lexer) line() {
	if !l.python || l.depth > 0 {
		l.begun = false
		return
	}
	rest := l.src[l.i+1:]
	for {
		body := strings.TrimLeft(rest, " \t\r")
		if body == "" {
			return
		}
		if body[0] == '\n' {
			rest = body[1:]
			continue
		}
		if body[0] == '#' {
			_, after, ok := strings.Cut(body, "\n")
			if !ok {
				return
			}
			rest = after
			continue
		}
		if l.begun || len(l.out) > 0 {
			l.out = append(l.out, "\n"+rest[:len(rest)-len(body)])
		}
		l.begun = false
		return
	}
}

// long is a Python string of three quotes; one that is a statement by itself
// documents, and is left out.
func (l *lexer) long(q string) {
	end := strings.Index(l.src[l.i+3:], q)
	stop := len(l.src)
	if end >= 0 {
		stop = l.i + end + 6
	}
	after := strings.TrimLeft(l.src[stop:], " \t\r")
	alone := !l.begun && l.depth == 0 && (after == "" || after[0] == '\n' || after[0] == '#')
	if !alone {
		l.emit(l.src[l.i:stop])
	}
	l.i = stop
}

// text is a string; one quote of a lifetime in Rust is not.
func (l *lexer) text(q byte) {
	for j := l.i + 1; j < len(l.src); j++ {
		switch l.src[j] {
		case '\\':
			if q != '`' {
				j++
			}
		case '\n':
			if q != '`' && q != '"' || l.hash {
				l.emit(l.src[l.i:j])
				l.i = j
				return
			}
		case q:
			l.emit(l.src[l.i : j+1])
			l.i = j + 1
			return
		}
	}
	l.emit(l.src[l.i:])
	l.i = len(l.src)
}

var character = regexp.MustCompile(`^'(?:\\.[^'\n]{0,8}|[^'\\\n]*)'`)

func quoted(s string) bool { return character.MatchString(s[:min(len(s), 200)]) }

func word(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || digit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// cosmetic reports whether two versions of a source mean the same.
func cosmetic(p string, a, b []byte) bool {
	return slices.Equal(words(p, string(a)), words(p, string(b)))
}
