package fake

import (
	"fmt"
	"strings"
)

// The language is a small part of the shell's: lists with ; & && ||, pipes,
// redirections, quotes, $NAME ${NAME} $1 $? $$ $(command) $((a+b)), while,
// until, for, if, { }, ( ), and the tools in tools.go. There are no functions,
// no case, no globs and no word splitting except of unquoted variables.

// part is a piece of a word.
type part struct {
	text   string
	quoted bool
	kind   byte // 0 text, 'v' variable, 'c' command, 'a' arithmetic
}

type word []part

// literal is a word's text if nothing in it is quoted or expanded.
func (w word) literal() string {
	if len(w) == 1 && w[0].kind == 0 && !w[0].quoted {
		return w[0].text
	}
	return ""
}

// token is a word or an operator.
type token struct {
	op   string
	word word
}

// tree of commands.
type (
	stmt interface{}
	list []item
	item struct {
		cmd        stmt
		background bool
	}
	andOr struct {
		left, right stmt
		and         bool
	}
	negated  struct{ cmd stmt }
	pipeline []stmt
	group    struct {
		body   list
		sub    bool
		redirs []redir
		loop   string // "", while, until, for, if
		cond   list
		orElse list
		name   string
		words  []word
	}
	simple struct {
		assigns []assign
		words   []word
		redirs  []redir
	}
	assign struct {
		name  string
		value word
	}
	redir struct {
		fd int
		op string
		to word
	}
)

type syntaxError string

func (e syntaxError) Error() string { return "syntax error: " + string(e) }

const operators = ";\n&|()<>"

// lex splits a script.
func lex(src string) ([]token, error) {
	var out []token
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\\' && i+1 < len(src) && src[i+1] == '\n':
			i += 2
		case c == '#':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case strings.IndexByte(operators, c) >= 0:
			op := string(c)
			for _, two := range []string{"&&", "||", ">>", ">&", "<&"} {
				if strings.HasPrefix(src[i:], two) {
					op = two
				}
			}
			i += len(op)
			if op == "\n" {
				op = ";"
			}
			out = append(out, token{op: op})
		default:
			w, n, err := lexWord(src[i:])
			if err != nil {
				return nil, err
			}
			i += n
			if l := w.literal(); i < len(src) && (src[i] == '>' || src[i] == '<') && len(l) == 1 && l >= "0" && l <= "9" {
				out = append(out, token{op: l}) // the descriptor of a redirection
				continue
			}
			out = append(out, token{word: w})
		}
	}
	return out, nil
}

// lexWord reads one word and says how long it is.
func lexWord(s string) (w word, n int, err error) {
	add := func(text string, quoted bool, kind byte) {
		if kind == 0 && len(w) > 0 && w[len(w)-1].kind == 0 && w[len(w)-1].quoted == quoted {
			w[len(w)-1].text += text
			return
		}
		w = append(w, part{text, quoted, kind})
	}
	i := 0
	for i < len(s) {
		c := s[i]
		switch {
		case c == '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return nil, 0, syntaxError("a quote does not end")
			}
			add(s[i+1:i+1+end], true, 0)
			i += end + 2
		case c == '"':
			add("", true, 0)
			for i++; ; {
				if i >= len(s) {
					return nil, 0, syntaxError("a quote does not end")
				}
				if s[i] == '"' {
					i++
					break
				}
				switch {
				case s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`\n", s[i+1]) >= 0:
					if s[i+1] != '\n' {
						add(s[i+1:i+2], true, 0)
					}
					i += 2
				case s[i] == '$':
					n, err := lexDollar(s[i:], true, add)
					if err != nil {
						return nil, 0, err
					}
					i += n
				default:
					add(s[i:i+1], true, 0)
					i++
				}
			}
		case c == '\\' && i+1 < len(s):
			if s[i+1] != '\n' {
				add(s[i+1:i+2], true, 0)
			}
			i += 2
		case c == '$':
			n, err := lexDollar(s[i:], false, add)
			if err != nil {
				return nil, 0, err
			}
			i += n
		case c == ' ' || c == '\t' || c == '\r' || strings.IndexByte(operators, c) >= 0:
			return w, i, nil
		default:
			add(s[i:i+1], false, 0)
			i++
		}
	}
	return w, i, nil
}

// lexDollar reads an expansion.
func lexDollar(s string, quoted bool, add func(string, bool, byte)) (int, error) {
	switch {
	case strings.HasPrefix(s, "$(("):
		end := strings.Index(s, "))")
		if end < 0 {
			return 0, syntaxError("$(( does not end")
		}
		add(s[3:end], quoted, 'a')
		return end + 2, nil
	case strings.HasPrefix(s, "$("):
		depth := 0
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					add(s[2:i], quoted, 'c')
					return i + 1, nil
				}
			}
		}
		return 0, syntaxError("$( does not end")
	case strings.HasPrefix(s, "${"):
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return 0, syntaxError("${ does not end")
		}
		add(s[2:end], quoted, 'v')
		return end + 1, nil
	}
	n := 1
	for n < len(s) && (isName(s[n]) || (n > 1 && isDigit(s[n]))) {
		n++
	}
	if n == 1 && len(s) > 1 && (isDigit(s[1]) || strings.IndexByte("?$#@*!", s[1]) >= 0) {
		n = 2
	}
	if n == 1 {
		add("$", quoted, 0)
		return 1, nil
	}
	add(s[1:n], quoted, 'v')
	return n, nil
}

func isName(c byte) bool  { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// parser builds the tree.
type parser struct {
	toks []token
	i    int
	deep int
}

const maxNesting = 100

func parse(src string) (list, error) {
	toks, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	l, err := p.list()
	if err == nil && p.i < len(p.toks) {
		err = syntaxError(fmt.Sprintf("unexpected %q", p.peek()))
	}
	return l, err
}

// peek is the next operator or plain word; empty at the end.
func (p *parser) peek() string {
	if p.i >= len(p.toks) {
		return ""
	}
	if t := p.toks[p.i]; t.op != "" {
		return t.op
	}
	return p.toks[p.i].word.literal()
}

func (p *parser) op(ops ...string) bool {
	if p.i < len(p.toks) && p.toks[p.i].op != "" {
		for _, o := range ops {
			if p.toks[p.i].op == o {
				return true
			}
		}
	}
	return false
}

// list reads until one of the ends, which it leaves.
func (p *parser) list(ends ...string) (list, error) {
	if p.deep++; p.deep > maxNesting {
		return nil, syntaxError("nested too deep")
	}
	defer func() { p.deep-- }()
	var out list
	for {
		for p.op(";") {
			p.i++
		}
		if p.i >= len(p.toks) || has(ends, p.peek()) {
			return out, nil
		}
		c, err := p.andOr()
		if err != nil {
			return nil, err
		}
		out = append(out, item{c, p.op("&")})
		switch {
		case p.op("&", ";"):
			p.i++
		case p.i < len(p.toks) && !has(ends, p.peek()):
			return nil, syntaxError(fmt.Sprintf("unexpected %q", p.peek()))
		}
	}
}

func has(list []string, s string) bool {
	for _, l := range list {
		if l == s && s != "" {
			return true
		}
	}
	return false
}

func (p *parser) andOr() (stmt, error) {
	left, err := p.pipeline()
	for err == nil && p.op("&&", "||") {
		and := p.op("&&")
		p.i++
		for p.op(";") {
			p.i++
		}
		var right stmt
		right, err = p.pipeline()
		left = andOr{left, right, and}
	}
	return left, err
}

func (p *parser) pipeline() (stmt, error) {
	if p.peek() == "!" {
		p.i++
		c, err := p.pipeline()
		return negated{c}, err
	}
	var out pipeline
	for {
		c, err := p.command()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		if !p.op("|") {
			break
		}
		p.i++
	}
	if len(out) == 1 {
		return out[0], nil
	}
	return out, nil
}

func (p *parser) expect(word string) error {
	if p.peek() != word {
		return syntaxError(fmt.Sprintf("%q is missing", word))
	}
	p.i++
	return nil
}

func (p *parser) command() (stmt, error) {
	switch kw := p.peek(); kw {
	case "(", "{":
		p.i++
		end := map[string]string{"(": ")", "{": "}"}[kw]
		body, err := p.list(end)
		if err == nil {
			err = p.expect(end)
		}
		return p.finish(&group{body: body, sub: kw == "("}, err)
	case "while", "until":
		p.i++
		g := &group{loop: kw}
		var err error
		if g.cond, err = p.list("do"); err == nil {
			err = p.doDone(g)
		}
		return p.finish(g, err)
	case "for":
		return p.forLoop()
	case "if":
		p.i++
		g, err := p.ifElse()
		return p.finish(g, err)
	case "then", "do", "done", "fi", "else", "elif", "}", ")":
		return nil, syntaxError(fmt.Sprintf("unexpected %q", kw))
	}
	return p.simple()
}

func (p *parser) doDone(g *group) (err error) {
	if err = p.expect("do"); err == nil {
		if g.body, err = p.list("done"); err == nil {
			err = p.expect("done")
		}
	}
	return err
}

func (p *parser) forLoop() (stmt, error) {
	p.i++
	g := &group{loop: "for", name: p.peek()}
	p.i++
	if err := p.expect("in"); err != nil {
		return nil, err
	}
	for p.i < len(p.toks) && p.toks[p.i].op == "" {
		g.words = append(g.words, p.toks[p.i].word)
		p.i++
	}
	for p.op(";") {
		p.i++
	}
	return p.finish(g, p.doDone(g))
}

func (p *parser) ifElse() (*group, error) {
	g := &group{loop: "if"}
	var err error
	if g.cond, err = p.list("then"); err == nil {
		err = p.expect("then")
	}
	if err == nil {
		g.body, err = p.list("else", "elif", "fi")
	}
	if err != nil {
		return nil, err
	}
	switch p.peek() {
	case "elif":
		p.i++
		next, err := p.ifElse()
		g.orElse = list{{cmd: next}}
		return g, err
	case "else":
		p.i++
		if g.orElse, err = p.list("fi"); err != nil {
			return nil, err
		}
	}
	return g, p.expect("fi")
}

// finish reads the redirections of a compound command.
func (p *parser) finish(g *group, err error) (stmt, error) {
	for err == nil {
		var r redir
		var ok bool
		if r, ok, err = p.redir(); !ok {
			break
		}
		g.redirs = append(g.redirs, r)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (p *parser) redir() (r redir, ok bool, err error) {
	r.fd = -1
	if p.i < len(p.toks) && len(p.toks[p.i].op) == 1 && isDigit(p.toks[p.i].op[0]) {
		r.fd = int(p.toks[p.i].op[0] - '0')
		p.i++
	}
	if !p.op("<", ">", ">>", ">&", "<&") {
		return r, false, nil
	}
	r.op = p.toks[p.i].op
	if p.i++; p.i >= len(p.toks) || p.toks[p.i].op != "" && !isDigit(p.toks[p.i].op[0]) {
		return r, false, syntaxError("a redirection leads nowhere")
	}
	r.to = p.toks[p.i].word
	p.i++
	if r.fd < 0 && r.op[0] == '>' {
		r.fd = 1
	} else if r.fd < 0 {
		r.fd = 0
	}
	return r, true, nil
}

func (p *parser) simple() (stmt, error) {
	c := &simple{}
	for p.i < len(p.toks) {
		r, ok, err := p.redir()
		if err != nil {
			return nil, err
		}
		if ok {
			c.redirs = append(c.redirs, r)
			continue
		}
		t := p.toks[p.i]
		if t.op != "" {
			break
		}
		p.i++
		if name, value, ok := assignment(t.word); ok && len(c.words) == 0 {
			c.assigns = append(c.assigns, assign{name, value})
			continue
		}
		c.words = append(c.words, t.word)
	}
	if len(c.words)+len(c.assigns)+len(c.redirs) == 0 {
		return nil, syntaxError(fmt.Sprintf("a command is missing before %q", p.peek()))
	}
	return c, nil
}

func assignment(w word) (string, word, bool) {
	if len(w) == 0 || w[0].kind != 0 || w[0].quoted {
		return "", nil, false
	}
	name, rest, ok := strings.Cut(w[0].text, "=")
	if !ok || name == "" || !isName(name[0]) {
		return "", nil, false
	}
	for i := range len(name) {
		if !isName(name[i]) && !isDigit(name[i]) {
			return "", nil, false
		}
	}
	return name, append(word{{text: rest, quoted: true}}, w[1:]...), true
}
