package mutate

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"assay/internal/forge"
	"assay/internal/syntax"
)

// Describe words what a user meets: what was done, what came, what should have
// come. It knows the tests that fail and what they say, and nothing of the
// change but its place, which it keeps to itself: no file, no line and no name
// of a changed function unless the failing test names it too.
func (g *Generator) Describe(w *forge.World, c forge.Candidate, seen forge.Seen) forge.Statement {
	if len(seen.Failed) == 0 {
		return forge.Statement{}
	}
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	d := &describer{g: g, w: w, c: c, seen: seen, r: rand.New(rand.NewPCG(w.Seed, h.Sum64()))}
	d.read()
	return forge.Statement{Title: d.title(), Body: d.body(), Hints: d.hints()}
}

type describer struct {
	g    *Generator
	w    *forge.World
	c    forge.Candidate
	seen forge.Seen
	r    *rand.Rand

	symptoms []symptom // one of each kind, the clearest first
	secret   []string  // names that must not be said
}

func (d *describer) pick(s ...string) string { return s[d.r.IntN(len(s))] }

// read makes symptoms of the failures.
func (d *describer) read() {
	for _, s := range strings.Fields(d.c.Notes["functions"]) {
		d.secret = append(d.secret, s, s[strings.LastIndex(s, ".")+1:])
	}
	for _, e := range d.c.Broken {
		d.secret = append(d.secret, path.Base(e.Path), strings.TrimPrefix(e.Path, d.w.Env.Workdir+"/"))
	}
	kinds := map[string]bool{}
	for _, f := range d.seen.Failed[:min(len(d.seen.Failed), 40)] {
		s := d.symptom(f)
		if kinds[s.what] || kinds[s.topic] {
			continue
		}
		kinds[s.what], kinds[s.topic] = true, true
		d.symptoms = append(d.symptoms, s)
	}
	slices.SortStableFunc(d.symptoms, func(a, b symptom) int { return a.rank - b.rank })
	// What a test's own code names is no secret: the test is there to be read.
	for _, s := range d.symptoms {
		whole := d.source(s.file)
		d.secret = slices.DeleteFunc(d.secret, func(name string) bool {
			return len(name) < 3 || !strings.Contains(name, "/") && word(whole, name)
		})
		break
	}
}

func word(text, name string) bool {
	if name == "" {
		return false
	}
	ok, err := regexp.MatchString(`(^|\W)`+regexp.QuoteMeta(name)+`(\W|$)`, text)
	return ok && err == nil
}

func (d *describer) title() string {
	s := d.symptoms[0]
	about := s.topic
	if about == "" {
		about = d.w.Env.Name
	}
	switch s.kind {
	case "differs", "equal", "holds":
		return upper(fmt.Sprintf(d.pick("wrong result: %s", "%s: the result is wrong", "wrong value: %s", "unexpected value with %s"), about))
	case "accepts":
		return upper(fmt.Sprintf(d.pick("%s: bad input goes through", "no error where there should be one: %s"), about))
	case "raises":
		return upper(fmt.Sprintf(d.pick("unexpected error: %s", "%s: fails with an error", "error with %s"), about))
	case "panics":
		return upper(fmt.Sprintf(d.pick("panic: %s", "%s: panics", "crash with %s"), about))
	case "hangs":
		return upper(fmt.Sprintf(d.pick("%s: hangs", "no end: %s"), about))
	}
	return upper(fmt.Sprintf(d.pick("%s: does not work as it should", "something is wrong with %s", "broken: %s"), about))
}

func upper(s string) string {
	for i, r := range s {
		return string(unicode.ToUpper(r)) + s[i+len(string(r)):]
	}
	return s
}

func (d *describer) body() string {
	var b strings.Builder
	s := d.symptoms[0]
	lead := d.pick("Something goes wrong around **%s**", "There is a problem with **%s**", "**%s** used to work and does not any more", "Noticed while working with **%s**")
	about := s.topic
	if about == "" {
		about = d.w.Env.Name
	}
	fmt.Fprintf(&b, lead+": %s.\n", about, s.what)
	if s.said != "" {
		fmt.Fprintf(&b, "\n%s\n\n```text\n%s\n```\n", d.pick("It says:", "What is printed:", "The message:"), s.said)
	}
	snippet := d.example(s)
	if snippet != "" {
		fmt.Fprintf(&b, "\n%s\n\n```%s\n%s\n```\n", d.pick("To see it:", "This shows it:", "A way to reproduce it:", "For example, this should hold:"), d.fence(s.file), snippet)
	}
	if _, id, _ := strings.Cut(s.id, ":"); snippet == "" && s.vague() && id != "" && !d.tells(id) {
		fmt.Fprintf(&b, "\n%s %s.\n", d.pick("It shows in", "The test that notices it is", "It was noticed by"), code(id))
	}
	if more := d.symptoms[1:min(len(d.symptoms), 4)]; len(more) > 0 {
		fmt.Fprintf(&b, "\n%s\n\n", d.pick("Also seen:", "The same may be behind these:", "Other things that go wrong:"))
		for _, m := range more {
			if m.vague() {
				fmt.Fprintf(&b, "- %s\n", m.topic)
				continue
			}
			fmt.Fprintf(&b, "- %s: %s\n", m.topic, m.what)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", d.pick("Please find the cause and mend it; everything else should go on working as it does.",
		"Find out why and repair it in the code. What works now should still work afterwards.",
		"The cause should be mended, not the symptom. The existing behaviour elsewhere must stay as it is.",
		"Expected: the behaviour described in the documentation and the tests. Please repair it without changing anything else."))
	return b.String()
}

// example is the code of a failing test, if it is short and says nothing of
// the place that it does not have to. Of a hidden test it is given only where
// nothing else says what is wrong.
func (d *describer) example(s symptom) string {
	if skip := d.r.IntN(4) == 0 || len(d.c.Hidden) > 0; d.g.c.Parser == nil || s.file == "" || skip && !s.vague() {
		return ""
	}
	lang, ok := syntax.ByPath(s.file)
	src := d.source(s.file)
	if !ok || src == "" || shapeOf(lang) == nil {
		return ""
	}
	f, err := newFile(context.Background(), d.g.c.Parser, s.file, []byte(src))
	if err != nil || f == nil {
		return ""
	}
	last := regexp.MustCompile(`\W+`).Split(strings.TrimRight(regexp.MustCompile(`\[.*$`).ReplaceAllString(s.id, ""), "()"), -1)
	name := last[len(last)-1]
	var found string
	f.tree.Root.Walk(func(n *syntax.Node) bool {
		if found == "" && f.is(n, function) && f.nameOf(n) == name {
			found = f.block(n)
		}
		return found == ""
	})
	if strings.Count(found, "\n") > 18 || len(found) > 1200 {
		return ""
	}
	return found
}

// block is a function's body, moved to the left, without its documentation.
func (f *file) block(n *syntax.Node) string {
	in := f.statements(f.body(n))
	for len(in) > 0 && f.untouched(in[0]) && f.is(in[0], expression) {
		in = in[1:]
	}
	if len(in) == 0 {
		return ""
	}
	indent := f.indent(in[0])
	lines := strings.Split(string(f.src[in[0].Start:f.past(in[len(in)-1])]), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(strings.TrimPrefix(lines[i], indent), " \t\r")
	}
	return strings.Join(lines, "\n")
}

func (d *describer) fence(file string) string {
	lang, _ := syntax.ByPath(file)
	return string(lang)
}

func (d *describer) source(file string) string {
	if file == "" || d.w.Tree == nil {
		return ""
	}
	b, err := d.w.Tree.ReadFile(path.Join(d.w.Env.Workdir, file), maxSource)
	if err != nil {
		return ""
	}
	return string(b)
}

// hints go from vague to plain: how much, which tests, which file, which
// function.
func (d *describer) hints() []string {
	var tests []string
	for _, f := range d.seen.Failed[:min(len(d.seen.Failed), 5)] {
		_, id, _ := strings.Cut(f.ID, ":")
		tests = append(tests, code(id))
	}
	more := ""
	if n := len(d.seen.Failed) - len(tests); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	out := []string{fmt.Sprintf("%d of the %d tests of the suite that pass otherwise do not.", len(d.seen.Failed), len(d.seen.Failed)+d.seen.Passed),
		"These tests fail: " + strings.Join(tests, ", ") + more + "."}
	var files []string
	for _, e := range d.c.Broken {
		files = append(files, code(strings.TrimPrefix(e.Path, d.w.Env.Workdir+"/")))
	}
	out = append(out, "The cause is in "+strings.Join(files, " and ")+".")
	if fns := strings.Fields(d.c.Notes["functions"]); len(fns) > 0 {
		for i := range fns {
			fns[i] = code(fns[i])
		}
		out = append(out, "Look at "+strings.Join(fns, " and ")+".")
	}
	return out
}
