package task

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Harbor reads ignore files with Python's pathspec 1.x, in two dialects: the
// root .gitignore by the "basic" one (the last pattern that matches decides),
// .harborignore by the "git" one (a match of the path itself beats a match of
// a directory above it). Both differ from git in corners, and the digest must
// not, so the translation to regular expressions is pathspec's own.
type ignoreDialect int

const (
	dialectBasic ignoreDialect = iota + 1
	dialectGit
)

const (
	maxIgnoreFile     = 256 << 10 // bytes
	maxIgnorePatterns = 2000
	maxIgnoreLine     = 1000 // bytes; regular expressions are linear in it
)

// ignorePattern is one line. dirMark is the index of the group that matched
// the slash of a directory, 0 when there is none.
type ignorePattern struct {
	re      *regexp.Regexp
	exclude bool // false for a line that starts with "!"
	dirMark int
}

// ignoreSpec is an ignore file.
type ignoreSpec struct {
	dialect  ignoreDialect
	patterns []ignorePattern
}

// parseIgnore compiles an ignore file's text.
func parseIgnore(text string, dialect ignoreDialect) (*ignoreSpec, error) {
	s := &ignoreSpec{dialect: dialect}
	for i, line := range splitLines(text) {
		if len(line) > maxIgnoreLine {
			return nil, fmt.Errorf("line %d: a pattern is at most %d bytes", i+1, maxIgnoreLine)
		}
		p, err := compileIgnore(line, dialect)
		if err != nil {
			return nil, fmt.Errorf("line %d: pattern %q: %w", i+1, clip(line, 60), err)
		}
		if p == nil {
			continue
		}
		if len(s.patterns) == maxIgnorePatterns {
			return nil, fmt.Errorf("line %d: more than %d patterns", i+1, maxIgnorePatterns)
		}
		s.patterns = append(s.patterns, *p)
	}
	return s, nil
}

// match says whether path (slash-separated, relative, a directory with a
// trailing slash) is excluded; decided is false when no pattern speaks of it.
func (s *ignoreSpec) match(path string) (excluded, decided bool) {
	byDirectory, ok := false, false
	for i := len(s.patterns) - 1; i >= 0; i-- {
		p := &s.patterns[i]
		at := p.re.FindStringSubmatchIndex(path)
		if at == nil {
			continue
		}
		if s.dialect == dialectBasic || p.dirMark == 0 || at[2*p.dirMark] < 0 {
			return p.exclude, true
		}
		if !ok {
			byDirectory, ok = p.exclude, true
		}
	}
	return byDirectory, ok
}

// compileIgnore returns nil for a line that says nothing.
func compileIgnore(line string, dialect ignoreDialect) (*ignorePattern, error) {
	if !strings.HasSuffix(line, `\ `) {
		line = strings.TrimRightFunc(line, pythonSpace)
	}
	if line == "" || line[0] == '#' || (dialect == dialectGit && line == "/") {
		return nil, nil
	}
	p := &ignorePattern{exclude: true}
	if line[0] == '!' {
		p.exclude = false
		line = line[1:]
	}
	all := dialect == dialectBasic && line == "/" // "everything"
	segs := strings.Split(line, "/")
	dirPattern := segs[len(segs)-1] == "" && !all
	segs, err := normalizeSegments(segs)
	if err != nil {
		return nil, err
	}
	expr, err := segmentsExpr(segs, dirPattern, dialect)
	if errors.Is(err, errRange) {
		return nil, nil // git discards such a pattern
	}
	if err != nil {
		return nil, err
	}
	if p.re, err = regexp.Compile(expr); err != nil {
		return nil, err
	}
	p.dirMark = max(p.re.SubexpIndex(dirMarkName), 0)
	return p, nil
}

const dirMarkName = "dir"

var errRange = errors.New("a bracket is not closed")

func normalizeSegments(segs []string) ([]string, error) {
	switch {
	case segs[0] == "":
		segs = segs[1:]
	case len(segs) == 1 || (len(segs) == 2 && segs[1] == ""):
		if segs[0] != "**" {
			segs = append([]string{"**"}, segs...)
		}
	}
	if len(segs) == 0 {
		return nil, errors.New("names nothing")
	}
	if segs[len(segs)-1] == "" {
		segs[len(segs)-1] = "**"
	}
	out := segs[:1]
	for _, s := range segs[1:] {
		if s == "**" && out[len(out)-1] == "**" {
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

func segmentsExpr(segs []string, dirPattern bool, dialect ignoreDialect) (string, error) {
	slash := "/"
	if dialect == dialectGit && dirPattern {
		slash = "(?P<" + dirMarkName + ">/)"
	}
	switch strings.Join(segs, "/") {
	case "**":
		if dirPattern {
			return slash, nil
		}
		return ".", nil
	case "**/*":
		return ".", nil
	case "**/*/**":
		return slash, nil
	}
	var b strings.Builder
	var bad badRange // an open bracket further on takes precedence
	needSlash := false
	for i, seg := range segs {
		last := i == len(segs)-1
		if seg == "**" {
			switch {
			case i == 0:
				b.WriteString("^(?:.+/)?")
			case !last:
				b.WriteString("(?:/.+)?")
				needSlash = true
			default:
				b.WriteString(slash)
			}
			continue
		}
		if i == 0 {
			b.WriteByte('^')
		}
		if needSlash {
			b.WriteByte('/')
		}
		if seg == "*" {
			b.WriteString("[^/]+")
		} else if err := globExpr(&b, seg, dialect); err != nil && !errors.As(err, &bad) {
			return "", err
		}
		if last {
			b.WriteString(endExpr(seg, dialect))
		}
		needSlash = true
	}
	if bad != "" {
		return "", bad
	}
	return b.String(), nil
}

// badRange is a class such as [z-a]. Python finds it last, when the whole
// expression is compiled.
type badRange string

func (b badRange) Error() string { return "bad range " + string(b) }

// pythonEnd is "$" of Python's re: before a final line break too.
const pythonEnd = `(?:\n?\z)`

func endExpr(seg string, dialect ignoreDialect) string {
	switch {
	case dialect == dialectGit:
		return "(?:(?P<" + dirMarkName + ">/)|" + pythonEnd + ")"
	case seg == "*":
		return "/?" + pythonEnd
	}
	return "(?:/|" + pythonEnd + ")"
}

// globExpr translates one segment.
func globExpr(b *strings.Builder, glob string, dialect ignoreDialect) error {
	rs := []rune(glob)
	var bad error
	for i := 0; i < len(rs); i++ {
		switch c := rs[i]; c {
		case '\\':
			i++
			if i == len(rs) {
				return errors.New("ends with a backslash")
			}
			b.WriteString(regexp.QuoteMeta(string(rs[i])))
		case '*':
			b.WriteString("[^/]*")
		case '?':
			b.WriteString("[^/]")
		case '[':
			n, err := classExpr(b, rs[i+1:])
			if errors.Is(err, errRange) && dialect == dialectBasic {
				b.WriteString(`\[`)
				continue
			}
			if errors.Is(err, errRange) {
				return err
			}
			if err != nil {
				bad = err
			}
			i += n
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return bad
}

// classExpr translates a bracket expression, given what follows the opening
// bracket, and returns how many runes it took. As in pathspec a class may
// match a slash.
func classExpr(b *strings.Builder, rs []rune) (int, error) {
	j := 0
	negated := j < len(rs) && (rs[j] == '!' || rs[j] == '^')
	if negated {
		j++
	}
	start := j
	if j < len(rs) && rs[j] == ']' {
		j++
	}
	for j < len(rs) && rs[j] != ']' {
		j++
	}
	if j >= len(rs) {
		return 0, errRange
	}
	b.WriteByte('[')
	if negated {
		b.WriteByte('^')
	}
	set := rs[start:j]
	var bad error
	for i := 0; i < len(set); i++ {
		lo, hi := set[i], set[i]
		if i+2 < len(set) && set[i+1] == '-' {
			hi = set[i+2]
			i += 2
		}
		if hi < lo {
			bad = badRange(fmt.Sprintf("%c-%c", lo, hi))
			break
		}
		fmt.Fprintf(b, `\x{%x}-\x{%x}`, lo, hi)
	}
	b.WriteByte(']')
	return j + 1, bad
}

// splitLines is Python's str.splitlines.
func splitLines(s string) []string {
	var out []string
	start := 0
	for i, r := range s {
		if i < start {
			continue // the second half of \r\n
		}
		switch r {
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029, '\r':
			out = append(out, s[start:i])
			start = i + utf8.RuneLen(r)
			if r == '\r' && strings.HasPrefix(s[start:], "\n") {
				start++
			}
		}
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// pythonSpace is what Python's str.strip removes.
func pythonSpace(r rune) bool {
	return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f)
}
