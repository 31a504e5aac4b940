package builtin

import "strings"

// block is a fenced block of a model's text, as CommonMark has it (4.5): it is
// opened by at least three backticks or tildes and closed by a line of at least
// as many of the same. Blocks do not nest.
type block struct {
	before string // the last line before it that is not blank
	info   string // what stands after the opening fence
	text   string // with the line end of its last line
	closed bool
}

// blocks finds all blocks of a text, the last one even if it is not closed.
func blocks(text string) []block {
	var all []block
	var cur *block
	var fence string
	var body strings.Builder
	before := ""
	for line := range strings.Lines(text) {
		bare := strings.TrimRight(line, "\r\n")
		indented := bare
		trimmed := strings.TrimLeft(bare, " ")
		if len(bare)-len(trimmed) > 3 {
			trimmed = indented // code by its indentation: no fence
		}
		mark, rest := opening(trimmed)
		switch {
		case cur == nil && mark != "":
			cur, fence = &block{before: before, info: strings.TrimSpace(rest)}, mark
			body.Reset()
		case cur != nil && len(mark) >= len(fence) && mark[0] == fence[0] && strings.TrimSpace(rest) == "":
			cur.text, cur.closed = body.String(), true
			all = append(all, *cur)
			cur, before = nil, ""
		case cur != nil:
			body.WriteString(strings.TrimSuffix(strings.TrimRight(line, "\n"), "\r") + "\n")
		case strings.TrimSpace(bare) != "":
			before = strings.TrimSpace(bare)
		}
	}
	if cur != nil {
		cur.text = body.String()
		all = append(all, *cur)
	}
	return all
}

// opening returns the fence that a line begins with, and what follows it.
func opening(line string) (mark, rest string) {
	for _, c := range "`~" {
		n := len(line) - len(strings.TrimLeft(line, string(c)))
		if n >= 3 && !(c == '`' && strings.Contains(line[n:], "`")) {
			return line[:n], line[n:]
		}
	}
	return "", ""
}
