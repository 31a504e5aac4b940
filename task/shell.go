package task

import "strings"

// command is one simple command of a shell script, for lint.
type command struct {
	Position // of its first word
	words    []string
	piped    string // first word of the command that reads its output
}

// commands splits a script into simple commands. It knows quotes, escapes,
// comments, continued lines and here-documents; it expands nothing, and what
// it does not understand it reads as words.
func commands(text string) []command {
	s := shellScanner{text: text, line: 1}
	s.scan()
	return s.out
}

type shellScanner struct {
	text        string
	pos         int
	line, start int // start is the offset of the current line
	out         []command
	cur         command
	pipe        bool // the current command reads from the one before
	heredocs    []string
}

func (s *shellScanner) scan() {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '\n':
			s.end(false)
			s.newline()
			s.skipHeredocs()
		case c == ' ' || c == '\t' || c == '\r':
			s.pos++
		case c == '\\' && strings.HasPrefix(s.text[s.pos+1:], "\n"):
			s.pos++
			s.newline()
		case c == '#':
			if n := strings.IndexByte(s.text[s.pos:], '\n'); n >= 0 {
				s.pos += n
			} else {
				s.pos = len(s.text)
			}
		case strings.IndexByte(";&|(){}", c) >= 0 && !s.expansion():
			s.operator(c)
		default:
			s.word()
		}
	}
	s.end(false)
}

// expansion says whether a brace begins a word such as {} or {a,b}.
func (s *shellScanner) expansion() bool {
	c := s.text[s.pos]
	if c != '{' && c != '}' {
		return false
	}
	next := strings.IndexByte(" \t\n;", byteAt(s.text, s.pos+1)) >= 0 || s.pos+1 == len(s.text)
	return !next
}

func byteAt(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func (s *shellScanner) operator(c byte) {
	n := 1
	if byteAt(s.text, s.pos+1) == c && strings.IndexByte(";&|", c) >= 0 {
		n = 2
	}
	s.pos += n
	s.end(c == '|' && n == 1)
}

func (s *shellScanner) newline() {
	s.pos++
	s.line++
	s.start = s.pos
}

// end closes the current command; pipe says that the next one reads from it.
func (s *shellScanner) end(pipe bool) {
	if len(s.cur.words) > 0 {
		if n := len(s.out); s.pipe && n > 0 {
			s.out[n-1].piped = s.cur.words[0]
		}
		s.out = append(s.out, s.cur)
		s.pipe = pipe
	}
	s.cur = command{}
}

// word reads one word, without its quotes.
func (s *shellScanner) word() {
	if len(s.cur.words) == 0 {
		s.cur.Position = Position{s.line, s.pos - s.start + 1}
	}
	var b strings.Builder
	from := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if strings.IndexByte(" \t\r\n;&|()", c) >= 0 && !strings.HasSuffix(s.text[from:s.pos], "$") &&
			!(c == '&' && s.pos > from && strings.IndexByte("<>", s.text[s.pos-1]) >= 0) {
			break
		}
		switch c {
		case '\\':
			s.pos++
			if byteAt(s.text, s.pos) == '\n' {
				s.newline()
				continue
			}
			if s.pos < len(s.text) {
				b.WriteByte(s.text[s.pos])
				s.pos++
			}
		case '\'', '"':
			s.quoted(&b, c)
		default:
			b.WriteByte(c)
			s.pos++
		}
	}
	if raw := s.text[from:s.pos]; strings.HasPrefix(raw, "<<") && !strings.HasPrefix(raw, "<<<") {
		s.heredoc(strings.TrimLeft(strings.TrimPrefix(b.String(), "<<"), "-"))
		return
	}
	s.cur.words = append(s.cur.words, b.String())
	if w := s.cur.words; len(w) == 1 && leading(w[0]) {
		s.cur.words = nil
	}
}

// leading says whether a word comes before a command and is none.
func leading(w string) bool {
	switch w {
	case "if", "then", "else", "elif", "do", "while", "until", "!", "time", "exec", "sudo", "fi", "done", "esac":
		return true
	}
	return false
}

func (s *shellScanner) quoted(b *strings.Builder, q byte) {
	for s.pos++; s.pos < len(s.text); {
		c := s.text[s.pos]
		switch {
		case c == q:
			s.pos++
			return
		case c == '\n':
			b.WriteByte(c)
			s.newline()
			continue
		case c == '\\' && q == '"' && s.pos+1 < len(s.text) && s.text[s.pos+1] != '\n':
			s.pos++
			c = s.text[s.pos]
		}
		b.WriteByte(c)
		s.pos++
	}
}

// heredoc notes a delimiter; it may be the next word.
func (s *shellScanner) heredoc(delimiter string) {
	if delimiter == "" {
		rest := strings.TrimLeft(s.text[s.pos:], " \t")
		line, _, _ := strings.Cut(rest, "\n")
		delimiter, _, _ = strings.Cut(strings.TrimSpace(line), " ")
		delimiter = strings.Trim(delimiter, `'"`)
	}
	if delimiter != "" {
		s.heredocs = append(s.heredocs, delimiter)
	}
}

func (s *shellScanner) skipHeredocs() {
	for len(s.heredocs) > 0 && s.pos < len(s.text) {
		line, _, _ := strings.Cut(s.text[s.pos:], "\n")
		if strings.TrimSpace(line) == s.heredocs[0] {
			s.heredocs = s.heredocs[1:]
		}
		s.pos += len(line)
		if s.pos < len(s.text) {
			s.newline()
		}
	}
}

// args drops assignments before the command's name.
func (c command) args() []string {
	for i, w := range c.words {
		if name, _, ok := strings.Cut(w, "="); !ok || strings.ContainsAny(name, "-/.") || name == "" {
			return c.words[i:]
		}
	}
	return nil
}
