package script

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	maxFile  = 4 << 20
	maxSteps = 10_000
	maxStep  = 100 << 10 // bytes: a step is one argument of the shell, and the kernel takes 128 KiB
)

// step is one block of the file.
type step struct {
	title string
	tasks []string // globs; empty: every task
	text  string
	line  int // where it begins, from 1
}

// meant reports whether the step is for the named task. A glob is matched
// against the whole name and against its last part.
func (s step) meant(task string) bool {
	if len(s.tasks) == 0 {
		return true
	}
	for _, g := range s.tasks {
		for _, name := range []string{task, path.Base(task)} {
			if ok, err := path.Match(g, name); err == nil && ok {
				return true
			}
		}
	}
	return false
}

// parse splits a file into steps. Each runs as its own shell: variables and
// the current directory do not live from step to step.
//
//	#!/bin/sh
//	# step: look around
//	ls -la
//
//	# step: repair it
//	# task: demo/csv-*
//	sed -i 's/a/b/' total.sh
//
// A line "# step:", with or without a title, begins a step. In a file without
// such a line blank lines separate the steps, except within a here-document
// and before a line that is indented or closes a block ("fi", "done", "}", …).
// "# task: GLOB" among a step's first comment lines limits it to the tasks of
// that name; several such lines are alternatives. A step of comments only is
// none.
func parse(text []byte) ([]step, error) {
	switch {
	case len(text) > maxFile:
		return nil, fmt.Errorf(" larger than %d bytes", maxFile)
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return nil, fmt.Errorf(" not a text of UTF-8")
	}
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	marked := false
	for _, l := range lines {
		if _, ok := comment(l, "step"); ok {
			marked = true
		}
	}
	var steps []step
	for _, b := range split(lines, marked) {
		st, err := b.step()
		if err != nil {
			return nil, err
		}
		if st.text == "" {
			continue
		}
		if steps = append(steps, st); len(steps) > maxSteps {
			return nil, fmt.Errorf("%d: more than %d steps", st.line, maxSteps)
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("1: no step: the file holds no command")
	}
	return steps, nil
}

// block is a run of lines.
type block struct {
	lines []string
	first int // number of the first line, from 1
}

func split(lines []string, marked bool) []block {
	var all []block
	cur := block{first: 1}
	end := func(next int) {
		all = append(all, cur)
		cur = block{first: next}
	}
	heredoc := ""
	next := following(lines)
	for i, l := range lines {
		_, begins := comment(l, "step")
		switch {
		case marked && begins:
			end(i + 1)
		case marked:
		case heredoc != "":
			if strings.TrimLeft(l, "\t") == heredoc {
				heredoc = ""
			}
		case strings.TrimSpace(l) == "" && !goesOn(next[i]):
			end(i + 2)
			continue
		default:
			heredoc = opensHeredoc(l)
		}
		cur.lines = append(cur.lines, l)
	}
	return append(all, cur)
}

// following finds for every line the next one that is not blank.
func following(lines []string) []string {
	next := make([]string, len(lines))
	cur := ""
	for i := len(lines) - 1; i >= 0; i-- {
		next[i] = cur
		if strings.TrimSpace(lines[i]) != "" {
			cur = lines[i]
		}
	}
	return next
}

// goesOn reports whether a line after blank ones belongs to the block before
// them.
func goesOn(l string) bool {
	if l == "" {
		return false
	}
	if l[0] == ' ' || l[0] == '\t' {
		return true
	}
	word := strings.FieldsFunc(l, func(r rune) bool { return strings.ContainsRune(" \t;|&<>", r) })
	if len(word) == 0 {
		return strings.HasPrefix(l, ";;")
	}
	switch word[0] {
	case "fi", "done", "esac", "else", "elif", "}", ")", "then", "do":
		return true
	}
	return false
}

// opensHeredoc returns the word that ends the here-document that a line opens.
func opensHeredoc(l string) string {
	before, rest, ok := strings.Cut(l, "<<")
	if !ok || strings.HasPrefix(rest, "<") || strings.Contains(before, "((") || strings.HasPrefix(strings.TrimSpace(l), "#") {
		return ""
	}
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "-"), " \t")
	if rest == "" {
		return ""
	}
	if q := rest[0]; q == '\'' || q == '"' {
		word, _, _ := strings.Cut(rest[1:], string(q))
		return word
	}
	rest = strings.TrimPrefix(rest, `\`)
	n := strings.IndexFunc(rest, func(r rune) bool { return strings.ContainsRune(" \t;|&<>()", r) })
	if n >= 0 {
		rest = rest[:n]
	}
	return rest
}

// step reads a block's headers. Its text is empty for a block of comments.
func (b block) step() (step, error) {
	st := step{line: b.first}
	commands, headers := false, true
	for i, l := range b.lines {
		t := strings.TrimSpace(l)
		if t == "" {
			continue
		}
		if !strings.HasPrefix(t, "#") {
			commands, headers = true, false
			continue
		}
		if !headers {
			continue
		}
		if title, ok := comment(l, "step"); ok {
			st.title = title
		}
		if glob, ok := comment(l, "task"); ok {
			if _, err := path.Match(glob, ""); err != nil || glob == "" {
				return st, fmt.Errorf("%d: %q is not a pattern for a task's name", b.first+i, glob)
			}
			st.tasks = append(st.tasks, glob)
		}
	}
	if !commands {
		if len(st.tasks) > 0 {
			return st, fmt.Errorf("%d: a step that names tasks holds no command: join it with what follows", b.first)
		}
		return step{}, nil
	}
	st.text = strings.Trim(strings.Join(b.lines, "\n"), "\n") + "\n"
	if len(st.text) > maxStep {
		return st, fmt.Errorf("%d: a step of more than %d bytes: split it", b.first, maxStep)
	}
	return st, nil
}

// comment reads "# key: value".
func comment(l, key string) (value string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(l), "#")
	if !ok {
		return "", false
	}
	rest, ok = strings.CutPrefix(strings.TrimSpace(rest), key+":")
	return strings.TrimSpace(rest), ok
}
