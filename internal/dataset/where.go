package dataset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where is a condition on rows:
//
//	reward >= 1 && agent == "react" && !(task ~ "hard") && cost_usd != null
//
// Fields compare with constants of their type by == != < <= > >=, texts by ~
// (contains) too; && || ! and parentheses join conditions; a field that holds
// true or false is a condition by itself. Unknown numbers are null: they equal
// null and are neither less nor more than anything.
type Where struct{ root test }

type test func(*Row) bool

// ParseWhere reads a condition; an empty one holds for every row. name stands
// before the place in errors: the flag, or the file that it was read from.
func ParseWhere(name, text string) (*Where, error) {
	if strings.TrimSpace(text) == "" {
		return &Where{func(*Row) bool { return true }}, nil
	}
	p := &parser{name: name, text: text}
	p.next()
	t, err := p.or(0)
	if err == nil && p.kind != endToken {
		err = p.errorf("%s is one too many: join conditions with && or ||", p.shown())
	}
	if err != nil {
		return nil, err
	}
	return &Where{t}, nil
}

// Holds says whether a row meets the condition.
func (w *Where) Holds(r *Row) bool { return w.root(r) }

// Fields are the names that conditions may use.
func Fields() []string {
	var all []string
	for _, f := range fields() {
		all = append(all, f.name)
	}
	return all
}

// field is what conditions know of a row. value is a string, a bool, a float64
// or nil.
type field struct {
	name  string
	kind  kind
	value func(*Row) any
}

type kind string

const (
	textKind   kind = "text"
	numberKind kind = "number"
	boolKind   kind = "true or false"
)

func fields() []field {
	str := func(name string, f func(*Row) string) field {
		return field{name, textKind, func(r *Row) any { return f(r) }}
	}
	num := func(name string, f func(*Row) int) field {
		return field{name, numberKind, func(r *Row) any { return float64(f(r)) }}
	}
	return []field{
		str("id", func(r *Row) string { return r.ID }), str("job", func(r *Row) string { return r.Job }),
		str("trial", func(r *Row) string { return r.Trial }), str("step", func(r *Row) string { return r.Step }),
		str("trajectory_id", func(r *Row) string { return r.Trajectory }),
		str("task", func(r *Row) string { return r.Task }), str("task_digest", func(r *Row) string { return r.TaskDigest }),
		str("proof", func(r *Row) string { return r.Proof }), str("agent", func(r *Row) string { return r.Agent }),
		str("agent_version", func(r *Row) string { return r.AgentVersion }), str("model", func(r *Row) string { return r.Model }),
		num("rep", func(r *Row) int { return r.Rep }), num("attempt", func(r *Row) int { return r.Attempt }),
		{"reward", numberKind, func(r *Row) any { return known(r.Reward) }},
		str("outcome", func(r *Row) string { return string(r.Outcome) }), str("cause", func(r *Row) string { return string(r.Cause) }),
		str("fault", func(r *Row) string { return string(r.Fault) }), str("evidence", func(r *Row) string { return string(r.Evidence) }),
		str("termination", func(r *Row) string { return string(r.Termination) }),
		{"trainable", boolKind, func(r *Row) any { return r.Trainable }},
		num("turns", func(r *Row) int { return r.Turns }), num("n_messages", func(r *Row) int { return r.Messages }),
		num("tool_calls", func(r *Row) int { return r.ToolCalls }),
		{"prompt_tokens", numberKind, func(r *Row) any { return known(r.PromptTokens) }},
		{"completion_tokens", numberKind, func(r *Row) any { return known(r.CompletionTokens) }},
		{"cost_usd", numberKind, func(r *Row) any { return known(r.CostUSD) }},
	}
}

func known[N int64 | float64](n *N) any {
	if n == nil {
		return nil
	}
	return float64(*n)
}

type token int

const (
	endToken token = iota + 1
	nameToken
	textToken
	numberToken
	markToken // an operator or a parenthesis
	badToken
)

type parser struct {
	name, text string
	at, start  int // next byte; first byte of the token
	kind       token
	word       string // of the token; a text's content
}

func (p *parser) errorf(format string, args ...any) error {
	before := p.text[:p.start]
	if p.kind == endToken {
		before = strings.TrimRight(before, " \t\r\n")
	}
	line := 1 + strings.Count(before, "\n")
	column := 1 + len([]rune(before[strings.LastIndexByte(before, '\n')+1:]))
	return fmt.Errorf("%s:%d:%d: %s", p.name, line, column, fmt.Sprintf(format, args...))
}

func (p *parser) shown() string {
	if p.kind == endToken {
		return "the end"
	}
	return strconv.Quote(p.text[p.start:p.at])
}

// next reads a token.
func (p *parser) next() {
	for p.at < len(p.text) && strings.ContainsRune(" \t\r\n", rune(p.text[p.at])) {
		p.at++
	}
	p.start = p.at
	if p.at >= len(p.text) {
		p.kind, p.word = endToken, ""
		return
	}
	rest := p.text[p.at:]
	for _, mark := range []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "~", "!", "(", ")"} {
		if strings.HasPrefix(rest, mark) {
			p.take(markToken, len(mark))
			return
		}
	}
	switch c := rest[0]; {
	case c == '"':
		p.quoted(rest)
	case c == '-' || c == '.' || c >= '0' && c <= '9':
		p.take(numberToken, span(rest, func(c byte) bool { return strings.IndexByte("+-.eE0123456789", c) >= 0 }))
	case letter(c):
		p.take(nameToken, span(rest, func(c byte) bool { return letter(c) || c >= '0' && c <= '9' }))
	default:
		p.take(badToken, 1)
	}
}

func (p *parser) take(k token, n int) {
	p.kind, p.word = k, p.text[p.at:p.at+n]
	p.at += n
}

func (p *parser) quoted(rest string) {
	if prefix, err := strconv.QuotedPrefix(rest); err == nil {
		if s, err := strconv.Unquote(prefix); err == nil {
			p.take(textToken, len(prefix))
			p.word = s
			return
		}
	}
	p.take(badToken, len(rest))
}

func span(s string, in func(byte) bool) int {
	n := 1
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// maxDeep bounds parentheses and negations.
const maxDeep = 100

func (p *parser) or(depth int) (test, error) {
	return p.join("||", depth, p.and, func(x, y test) test { return func(r *Row) bool { return x(r) || y(r) } })
}

func (p *parser) and(depth int) (test, error) {
	return p.join("&&", depth, p.not, func(x, y test) test { return func(r *Row) bool { return x(r) && y(r) } })
}

func (p *parser) join(mark string, depth int, one func(int) (test, error), both func(x, y test) test) (test, error) {
	x, err := one(depth)
	for err == nil && p.kind == markToken && p.word == mark {
		p.next()
		var y test
		if y, err = one(depth); err == nil {
			x = both(x, y)
		}
	}
	return x, err
}

func (p *parser) not(depth int) (test, error) {
	if depth > maxDeep {
		return nil, p.errorf("nested deeper than %d levels", maxDeep)
	}
	if p.kind != markToken {
		return p.compare()
	}
	switch p.word {
	case "!":
		p.next()
		x, err := p.not(depth + 1)
		return func(r *Row) bool { return !x(r) }, err
	case "(":
		p.next()
		x, err := p.or(depth + 1)
		if err == nil && (p.kind != markToken || p.word != ")") {
			err = p.errorf("a ) is missing before %s", p.shown())
		}
		p.next()
		return x, err
	}
	return nil, p.errorf("a condition is missing before %s", p.shown())
}

// compare reads: field, operator, constant.
func (p *parser) compare() (test, error) {
	all := fields()
	i := slices.IndexFunc(all, func(f field) bool { return p.kind == nameToken && f.name == p.word })
	if p.kind == endToken {
		return nil, p.errorf("a condition is missing before the end")
	}
	if i < 0 {
		return nil, p.errorf("%s is no field; fields are %s", p.shown(), strings.Join(Fields(), ", "))
	}
	f := all[i]
	p.next()
	if p.kind != markToken || !slices.Contains([]string{"==", "!=", "<", "<=", ">", ">=", "~"}, p.word) {
		if f.kind == boolKind {
			return func(r *Row) bool { return f.value(r) == true }, nil
		}
		return nil, p.errorf("after %s stands %s, not one of == != < <= > >= ~", f.name, p.shown())
	}
	op := p.word
	if op == "~" && f.kind != textKind || f.kind == boolKind && op != "==" && op != "!=" {
		return nil, p.errorf("%s is %s: %s does not compare that", f.name, f.kind, op)
	}
	p.next()
	want, err := p.constant(f, op)
	if err != nil {
		return nil, err
	}
	p.next()
	return func(r *Row) bool { return holds(f.value(r), op, want) }, nil
}

// constant is the value of the token, of the field's type or null.
func (p *parser) constant(f field, op string) (any, error) {
	switch {
	case p.kind == nameToken && p.word == "null" && f.kind == numberKind && (op == "==" || op == "!="):
		return nil, nil
	case p.kind == textToken && f.kind == textKind:
		return p.word, nil
	case p.kind == nameToken && f.kind == boolKind && (p.word == "true" || p.word == "false"):
		return p.word == "true", nil
	case p.kind == numberToken && f.kind == numberKind:
		n, err := strconv.ParseFloat(p.word, 64)
		if err != nil {
			return nil, p.errorf("%s is no number", p.shown())
		}
		return n, nil
	case p.kind == badToken && strings.HasPrefix(p.text[p.start:], `"`):
		return nil, p.errorf("the text has no closing quote")
	}
	return nil, p.errorf("%s is %s, and %s is not", f.name, f.kind, p.shown())
}

func holds(have any, op string, want any) bool {
	switch op {
	case "==":
		return have == want
	case "!=":
		return have != want
	case "~":
		return strings.Contains(have.(string), want.(string))
	}
	var order int
	switch h := have.(type) {
	case float64:
		order = compare(h, want.(float64))
	case string:
		order = strings.Compare(h, want.(string))
	default:
		return false // null
	}
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

func compare(x, y float64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
