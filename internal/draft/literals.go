package draft

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/grade/checks"
)

// assertions finds lines that assert, by a file's language. A line that is none
// costs one run and nothing else: what counts is which tests fail.
func assertions() map[string]*regexp.Regexp {
	of := func(re string, exts ...string) map[string]*regexp.Regexp {
		m := map[string]*regexp.Regexp{}
		for _, e := range exts {
			m[e] = regexp.MustCompile(re)
		}
		return m
	}
	all := map[string]*regexp.Regexp{}
	for _, m := range []map[string]*regexp.Regexp{
		of(`^\s*(assert\b|[\w.]*assert\w*\(|self\.fail)`, ".py"),
		of(`\b(assert\w*(\.\w+)?\(|expect\(|\.(is|deepEqual|equal|same|ok)\()|\.(toBe|toEqual|toStrictEqual|toMatch|toContain|toThrow)`, ".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"),
		of(`(!=|==|\b(want|expect)\w*\b|(assert|require)\.\w+\(|^\s*\{.*\},?\s*$)`, ".go"),
		of(`\b\w*assert\w*(!|\()`, ".rs"),
		of(`\b(assert\w*|expect\w*|isEqualTo|isTrue|isFalse|hasSize|contains)\s*\(`, ".java", ".kt", ".scala"),
		of(`\b(assert\w*|ASSERT\w*|EXPECT\w*|CHECK\w*|REQUIRE\w*|TEST_ASSERT\w*|ck_assert\w*)\s*\(|!=|==`, ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp"),
		of(`(\[\[? |\btest |assert|expect| = | -eq | == )`, ".sh", ".bats", ".bash"),
		of(`\b(is|ok|isnt|like|is_deeply|cmp_ok)\b`, ".t", ".pl"),
	} {
		for e, re := range m {
			all[e] = re
		}
	}
	return all
}

// message is a line of Go that says what went wrong: a changed text in it breaks
// no test, and a format without its verbs does not compile.
var message = regexp.MustCompile(`\.(Error|Fatal|Log|Skip|Panic|Print)(f|ln)?\(`)

// literal is a number, text or truth value. Texts end in their line.
var literal = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\b(?:True|False|true|false)\b|\b\d+(?:\.\d+)?\b`)

// labelled is an assertion whose last argument is a text: mostly its name, by
// which TAP reports it.
var labelled = regexp.MustCompile(`^\+?\s*(?:(?:await\s+)?(?:t|test|assert)\.\w+|is|ok|isnt|like|cmp_ok|is_deeply)\s*\(.*,\s*(?:"[^"]*"|'[^']*')\s*\)?;?\s*$`)

// maxAsserts bounds the candidates of one file.
const maxAsserts = 200

// Candidates derives changes of expectations from a test file, in an order that
// seed and the file's name determine. What they break is not known yet.
func Candidates(name string, content []byte, seed int64) []checks.Canary {
	all := string(content)
	lines := strings.SplitAfter(all, "\n")
	asserts := asserting(name, lines)
	if asserts == nil || bytes.IndexByte(content, 0) >= 0 {
		return nil
	}
	o := others{seed: fmt.Appendf(nil, "%d\x00%s\x00", seed, name)}
	for i, line := range lines {
		if asserts[i] {
			o.texts = append(o.texts, literal.FindAllString(line, -1)...)
		}
	}
	var first, second, last []checks.Canary
	for i, line := range lines {
		if !asserts[i] || len(first) == maxAsserts {
			continue
		}
		found, places := literals(line)
		for _, at := range places[:min(1, len(places))] {
			if k, ok := o.change(name, all, lines, i, at); ok {
				last = append(last, k)
			}
		}
		if len(found) == 0 {
			continue
		}
		// What is expected mostly stands last; where it does not, it stands first.
		likely, other := len(found)-1, 0
		if labelled.MatchString(line) {
			likely, other = len(found)-2, len(found)-1
		}
		if likely >= 0 {
			if k, ok := o.change(name, all, lines, i, found[likely]); ok {
				first = append(first, k)
			}
		}
		if likely != other {
			if k, ok := o.change(name, all, lines, i, found[other]); ok {
				second = append(second, k)
			}
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s", seed, name))
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])))
	r.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	r.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
	return slices.Concat(first, second, turned(name, all, lines), o.spelled(name, all, lines), last)
}

// expected begins what a test of Python or JavaScript expects, where that has
// lines of its own; texts are those that are one text and nothing else.
var (
	expected = regexp.MustCompile(`^\s*(?:const |let |var )?\w*(?:expect|want|should)\w*(?:: \w+)? = `)
	texts    = regexp.MustCompile(`^\s*[rbfu]?(?:"(?:[^"\\]|\\.)+"|'(?:[^'\\]|\\.)+'),?\s*$`)
)

// maxSpelled is how far below its first line an expectation's first text is
// looked for, in lines.
const maxSpelled = 12

// spelled are the first texts of what tests expect and do not say in the line
// that asserts it, in the file's order: mostly outputs, spelled out line by line.
func (o others) spelled(name, all string, lines []string) []checks.Canary {
	if !slices.Contains([]string{".py", ".js", ".mjs", ".cjs", ".ts", ".mts"}, path.Ext(name)) {
		return nil
	}
	var out []checks.Canary
	open := 0 // lines that may still belong to it
	for i, line := range lines {
		switch {
		case expected.MatchString(line):
			open = maxSpelled
		case open > 0:
			open--
		}
		found := literal.FindAllStringIndex(line, -1)
		if open == 0 || len(found) == 0 || len(out) == maxAsserts || open < maxSpelled && !texts.MatchString(line) {
			continue
		}
		lit := line[found[len(found)-1][0]:found[len(found)-1][1]]
		if open == maxSpelled && (len(lit) < 4 || strings.Contains(line, ".join(")) {
			continue // what joins lines is on this one
		}
		if k, ok := o.change(name, all, lines, i, found[len(found)-1]); ok {
			out, open = append(out, k), 0
		}
	}
	return out
}

// index is a place in a list, as "got[1]" and "m[i+1]" name one.
var index = regexp.MustCompile(`[\w)\]]\[[\w+\-* ]*\]`)

// literals are those of a line, and by themselves those that say a place in a
// list: another one may lie outside, and where that is a panic it ends the run.
func literals(line string) (found, places [][]int) {
	in := index.FindAllStringIndex(line, -1)
	for _, at := range literal.FindAllStringIndex(line, -1) {
		if slices.ContainsFunc(in, func(x []int) bool { return x[0] < at[0] && at[1] < x[1] }) {
			places = append(places, at)
		} else {
			found = append(found, at)
		}
	}
	return found, places
}

// comparison is a condition of Go that compares with ==, or with !=.
var comparison = regexp.MustCompile(`^\s*(?:\} else )?if [^"` + "`" + `]*?\s(!=|==)\s[^"` + "`" + `]*\{\s*$`)

// turned are conditions before a message, asking for the opposite, in the file's order: Go's
// tests mostly compare what they got with what is nowhere a literal.
func turned(name, all string, lines []string) []checks.Canary {
	if path.Ext(name) != ".go" {
		return nil
	}
	var out []checks.Canary
	for i, line := range lines {
		m := comparison.FindStringSubmatchIndex(line)
		if m == nil || len(out) == maxAsserts || i+1 == len(lines) || !message.MatchString(lines[i+1]) {
			continue // what goes on after it may be anything, a panic too
		}
		to := "=="
		if line[m[2]:m[3]] == to {
			to = "!="
		}
		if k, ok := replaced(name, all, lines, i, m[2:], to); ok {
			out = append(out, k)
		}
	}
	return out
}

// asserting finds the lines of a test file that assert; nil: of such files
// nothing is known. Of a patch, which brings tests to a tree that has none of
// its own here, they are the lines that it adds: it applies with another
// expectation as well.
func asserting(name string, lines []string) map[int]bool {
	known := assertions()
	re, patch := known[path.Ext(name)], slices.Contains([]string{".patch", ".diff"}, path.Ext(name))
	if re == nil && !patch {
		return nil
	}
	found := map[int]bool{}
	for i, line := range lines {
		if patch {
			if to, ok := strings.CutPrefix(line, "+++ "); ok {
				re = known[path.Ext(strings.TrimSpace(to))]
				continue
			}
			var added bool
			if line, added = strings.CutPrefix(line, "+"); !added || re == nil {
				continue
			}
		}
		if re.MatchString(line) && !(path.Ext(name) == ".go" && message.MatchString(line)) {
			found[i] = true
		}
	}
	return found
}

// change makes a canary of one literal: its line, with as many lines before it
// as it takes to be found once.
func (o others) change(name, all string, lines []string, i int, at []int) (checks.Canary, bool) {
	lit := lines[i][at[0]:at[1]]
	to := o.other(lit, fmt.Sprint(i, ":", at[0]))
	return replaced(name, all, lines, i, at, to)
}

// replaced is a canary that says something else at one place of a line.
func replaced(name, all string, lines []string, i int, at []int, to string) (checks.Canary, bool) {
	line := strings.TrimSuffix(lines[i], "\n")
	if to == line[at[0]:at[1]] {
		return checks.Canary{}, false
	}
	start := len(line) - len(strings.TrimLeft(line, " \t"))
	old, changed := line[start:], line[start:at[0]]+to+line[at[1]:]
	for j := i - 1; strings.Index(all, old) != strings.LastIndex(all, old); j-- {
		if j < 0 || i-j > 10 {
			return checks.Canary{}, false
		}
		if j == i-1 {
			old, changed = line[:start]+old, line[:start]+changed
		}
		old, changed = lines[j]+old, lines[j]+changed
	}
	return checks.Canary{File: name, Old: old, New: changed}, true
}
