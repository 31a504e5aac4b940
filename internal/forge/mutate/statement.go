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

// symptom is what one failing test shows.
type symptom struct {
	topic    string // what the test is about, in words
	what     string // a sentence without its end
	said     string // the program's own words, one or a few lines
	id, file string
	code     string // of the test, short
	rank     int
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

// symptom reads one failure.
func (d *describer) symptom(f forge.Failure) symptom {
	s := symptom{topic: topic(f.ID), id: f.ID, file: f.File, rank: 3}
	message := plain(f.Message)
	if message == "" {
		message = plain(d.seen.Output)
	}
	kind, want, got := classify(message)
	switch {
	case kind == "differs" && short(want) && short(got):
		s.rank = 0
		s.what = d.pick("the result is %[2]s, and should be %[1]s", "it gives %[2]s instead of %[1]s", "%[1]s was expected, %[2]s came")
		s.what = fmt.Sprintf(s.what, code(want), code(got))
	case kind == "equal" && short(want) && short(got):
		s.rank = 1
		s.what = fmt.Sprintf(d.pick("%s and %s come out where both should be equal", "%s is not equal to %s, and should be"), code(want), code(got))
	case kind == "raises":
		s.rank = 1
		s.what = fmt.Sprintf(d.pick("it ends with %s", "%s is raised where nothing should go wrong", "there is an unexpected %s"), code(want))
		s.said = got
	case kind == "accepts":
		s.rank = 1
		s.what = fmt.Sprintf(d.pick("wrong input is accepted: %s should be raised, and nothing is", "no %s is raised where there should be one"), code(want))
	case kind == "hangs":
		s.rank = 2
		s.what = "it does not come to an end"
	default:
		s.what = d.pick("the outcome is not the right one", "it does not do what it should", "the result is wrong")
		s.said = firstLines(message, 4)
	}
	s.said = d.clean(s.said)
	return s
}

func short(s string) bool { return s != "" && len(s) < 160 && !strings.Contains(s, "\n") }

func code(s string) string {
	if strings.Contains(s, "`") {
		return `"` + s + `"`
	}
	return "`" + s + "`"
}

// classify reads what the runners of all ecosystems say of an assertion.
func classify(m string) (kind, want, got string) {
	for _, p := range []struct {
		kind, pattern string
		wantFirst     bool
	}{
		{"accepts", `(?:DID NOT RAISE|did not raise)\W{0,6}(?:class)?\W{0,4}([\w.]+)`, true},
		{"accepts", `([\w.]+(?:Error|Exception)) not raised`, true},
		{"accepts", `Expected ([\w.]+) to be thrown, but nothing was thrown`, true},
		{"accepts", `Missing expected (?:exception|rejection)(?: \(?([\w.]+))?`, true},
		{"differs", `expected:?\s*<(.{0,200}?)> but was:?\s*<(.{0,200}?)>`, true},
		{"differs", `(?s)Expected:?\s+(\S[^\n]*)\n+\s*Received:?\s+([^\n]+)`, true},
		{"differs", `(?i)(?:expected|want(?:ed)?)[: =]+["']?(.{1,120}?)["']?[,;]?\s+(?:but )?(?:got|actual|was|received|have)[: =]+["']?([^\n]{1,120}?)["']?(?:\n|$)`, true},
		{"differs", `(?i)\bgot[: =]+["']?(.{1,120}?)["']?[,;]?\s+(?:expected|want(?:ed)?)[: =]+["']?([^\n]{1,120}?)["']?(?:\n|$)`, false},
		{"differs", `expected (.{1,120}?) to (?:deeply |strictly )?equal ([^\n]{1,120})`, false},
		{"equal", "(?s)`?left == right`? failed.*?left: ([^\n]+)\n\\s*right: ([^\n]+)", true},
		{"equal", `(?m)^(?:E\s+)?(?:AssertionError: )?assert ([^\n]{1,120}?) == ([^\n]{1,120})$`, true},
		{"equal", `AssertionError: ([^\n]{1,120}?) != ([^\n]{1,120})`, true},
		{"equal", `(?m)^\+?\s*([^\n]{1,120}?) !== ([^\n]{1,120})$`, true},
		{"hangs", `(?i)\b(timed out|timeout|exceeded.*time)\b()`, true},
		{"raises", `(?m)^(?:E\s+)?((?:[\w]+\.)*[A-Z]\w*(?:Error|Exception|Failure|Expired|Signature|Warning))\b:? ?([^\n]*)`, true},
		{"raises", `(?m)^(?:E\s+)?((?:[a-z_]\w*\.)*[A-Z][a-z]+[A-Z]\w*): ([^\n]+)`, true},
		{"raises", `(?m)(panic): ([^\n]+)`, true},
		{"raises", `(?s)(panick?ed) at [^\n]*:\s*\n([^\n]+)`, true},
	} {
		m := regexp.MustCompile(p.pattern).FindStringSubmatch(m)
		if m == nil {
			continue
		}
		a, b := m[1], ""
		if len(m) > 2 {
			b = m[2]
		}
		if p.kind == "raises" && (a == "AssertionError" || strings.HasSuffix(a, ".AssertionError") || strings.HasSuffix(a, "AssertionFailedError")) {
			return "", "", ""
		}
		if p.kind == "accepts" && a == "" {
			a = "error"
		}
		if !p.wantFirst {
			a, b = b, a
		}
		return p.kind, strings.TrimSpace(a), strings.TrimSpace(b)
	}
	return "", "", ""
}

// plain is a message without colours and without the places it names.
func plain(s string) string {
	s = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]").ReplaceAllString(s, "")
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return -1
	}, s)
	s = regexp.MustCompile(`(?m)^\s*[\w./-]+\.(go|py|rs|js|ts|java|c|cc|cpp|h):\d+(:\d+)?:?\s*`).ReplaceAllString(s, "")
	return strings.TrimSpace(s)
}

// clean leaves out of the program's words what shows the place.
func (d *describer) clean(s string) string {
	var out []string
	place := regexp.MustCompile(`[\w/.-]+\.(go|py|rs|jsx?|tsx?|mjs|java|c|cc|cpp|h)\b(:\d+)*|line \d+|^\s*at |^\s*File "|^Traceback|^goroutine |0x[0-9a-f]{6,}|^\s*\^+\s*$`)
	for l := range strings.Lines(s) {
		l = strings.TrimRight(l, "\r\n")
		if place.MatchString(l) || slices.ContainsFunc(d.secret, func(n string) bool { return word(l, n) }) {
			continue
		}
		out = append(out, l)
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

func firstLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	out := strings.Join(lines[:min(n, len(lines))], "\n")
	return out[:min(len(out), 500)]
}

// topic makes words of a test's name: "tests/test_x.py::TestSigner::test_bad_sep[a]"
// is about "bad sep (signer)".
func topic(id string) string {
	if _, rest, ok := strings.Cut(id, ":"); ok && !strings.HasPrefix(rest, ":") {
		id = rest
	}
	if i := strings.IndexByte(id, '['); i > 0 {
		id = id[:i]
	}
	id = regexp.MustCompile(`\(.*\)$`).ReplaceAllString(id, "")
	fields := regexp.MustCompile(`::|#| > |/|\s›\s`).Split(id, -1)
	var names []string
	for _, p := range fields[max(0, len(fields)-2):] {
		if i := strings.LastIndexByte(p, '.'); i >= 0 && !strings.ContainsAny(p, " ") {
			if e := p[i+1:]; len(e) <= 4 && strings.ToLower(e) == e { // a file
				p = p[:i]
			} else {
				p = e
			}
		}
		words := slices.DeleteFunc(parts(strings.ReplaceAll(p, " ", "_")), func(w string) bool {
			return w == "" || w == "test" || w == "tests" || w == "should" || w == "it" || w == "spec" || w == "unit"
		})
		if len(words) > 0 {
			names = append(names, strings.Join(join(words), " "))
		}
	}
	if len(names) > 1 && names[0] == names[1] {
		names = names[1:]
	}
	if len(names) == 2 {
		return names[1] + " (" + names[0] + ")"
	}
	return strings.Join(names, ", ")
}

// join puts single letters together again, which capitals were torn into.
func join(words []string) []string {
	var out []string
	for i, w := range words {
		if len(w) == 1 && i > 0 && len(words[i-1]) == 1 && len(out) > 0 {
			out[len(out)-1] += w
			continue
		}
		out = append(out, w)
	}
	return out
}

func (d *describer) title() string {
	s := d.symptoms[0]
	about := s.topic
	if about == "" {
		about = d.w.Env.Name
	}
	switch {
	case s.rank == 0 || s.rank == 1 && strings.Contains(s.what, "equal"):
		return upper(fmt.Sprintf(d.pick("wrong result: %s", "%s: the result is wrong", "wrong value: %s", "unexpected value with %s"), about))
	case strings.Contains(s.what, "raised") && strings.Contains(s.what, "should"), strings.Contains(s.what, "accepted"):
		return upper(fmt.Sprintf(d.pick("%s: bad input goes through", "no error where there should be one: %s"), about))
	case s.rank == 1:
		return upper(fmt.Sprintf(d.pick("unexpected error: %s", "%s: fails with an error", "error with %s"), about))
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
	if snippet := d.example(s); snippet != "" {
		fmt.Fprintf(&b, "\n%s\n\n```%s\n%s\n```\n", d.pick("To see it:", "This shows it:", "A way to reproduce it:", "For example, this should hold:"), d.fence(s.file), snippet)
	}
	if more := d.symptoms[1:min(len(d.symptoms), 4)]; len(more) > 0 {
		fmt.Fprintf(&b, "\n%s\n\n", d.pick("Also seen:", "The same may be behind these:", "Other things that go wrong:"))
		for _, m := range more {
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
// the place that it does not have to.
func (d *describer) example(s symptom) string {
	if d.g.c.Parser == nil || s.file == "" || d.r.IntN(4) == 0 {
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
