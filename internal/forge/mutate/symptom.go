package mutate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"assay/internal/forge"
)

// symptom is what one failing test shows.
type symptom struct {
	topic    string // what the test is about, in words
	what     string // a sentence without its end
	said     string // the program's own words, one or a few lines
	id, file string
	kind     string
	rank     int // what is clear comes first
}

// vague is a symptom of which no more is known than that it is one.
func (s symptom) vague() bool { return s.kind == "" }

// symptom reads one failure.
func (d *describer) symptom(f forge.Failure) symptom {
	s := symptom{topic: topic(f.ID), id: f.ID, file: f.File, rank: 3}
	message := plain(f.Message)
	if message == "" && (f.Status != "missing" || d.seen.Mute) {
		message = plain(printed(d.seen.Output)) // of a test that never began it is about others
	}
	kind, want, got := classify(message)
	fits := short(want) && short(got) && !d.tells(want+" "+got)
	switch kind {
	case "hangs", "panics":
		fits = true
	case "raises", "accepts", "holds": // what else is said is cleaned of the place
		fits = short(want) && !d.tells(want)
	}
	if !fits {
		kind = ""
	}
	s.kind = kind
	switch kind {
	case "differs":
		s.rank = 0
		if m := named.FindStringSubmatch(want); m != nil && !strings.Contains(got, " ") {
			s.what = fmt.Sprintf("the %s is %s, and should be %s", m[1], code(got), code(m[2]))
			break
		}
		s.what = fmt.Sprintf(d.pick("the result is %[2]s, and should be %[1]s", "it gives %[2]s instead of %[1]s", "%[1]s was expected, %[2]s came"), code(want), code(got))
	case "equal":
		s.rank = 1
		s.what = fmt.Sprintf(d.pick("%s and %s should be equal, and are not", "%s comes out where it should equal %s", "it comes to %s, which should be the same as %s"), code(want), code(got))
	case "holds":
		s.rank = 1
		s.what = fmt.Sprintf(d.pick("%s should hold and does not", "%s is not so any more", "%s is expected, and is not the case"), code(want))
	case "raises":
		s.rank = 1
		s.what = fmt.Sprintf(d.pick("it ends with %s", "%s is raised where nothing should go wrong", "there is an unexpected %s"), code(want))
		s.said = got
	case "panics":
		s.rank = 1
		s.what = d.pick("it panics", "it ends with a panic", "there is a panic where nothing should go wrong")
		s.said = got
	case "accepts":
		s.rank = 1
		s.what = fmt.Sprintf(d.pick("wrong input is accepted: %s should be raised, and nothing is", "no %s is raised where there should be one"), code(want))
		if want == "error" {
			s.what = d.pick("wrong input is accepted: there should be an error, and there is none", "there is no error where there should be one")
		}
	case "hangs":
		s.rank = 2
		s.what = "it does not come to an end"
	default:
		s.what = d.pick("the outcome is not the right one", "it does not do what it should", "the result is wrong")
		s.said = firstLines(detail(message), 8)
	}
	if kind == "differs" && len(want)+len(got) < 24 && len(message) > len(want)+len(got)+40 {
		s.said = firstLines(detail(message), 3) // which says of what
	}
	if f.Status == "missing" && s.vague() {
		s.rank = 4
	}
	s.said = d.clean(s.said)
	return s
}

// short reports whether a value can be shown whole: runners cut long ones.
func short(s string) bool {
	return s != "" && len(s) < 160 && !strings.Contains(s, "\n") && !cut.MatchString(s)
}

// cut is how pytest shortens what it shows.
var cut = regexp.MustCompile(`[^.\s(\[]\.\.\.[^.\s)\]]`)

// named is an expected value with what it is, as messages of Go have it:
// "expected version 2 got 1".
var named = regexp.MustCompile(`^([a-z]{2,16}(?: [a-z]{2,16}){0,2}) ([^ ]+)$`)

// tells reports whether words give the place away.
func (d *describer) tells(s string) bool {
	return slices.ContainsFunc(d.secret, func(n string) bool { return len(n) > 2 && word(s, n) })
}

// detail is the part of a message that says something: a comparison in the
// runner's words, without its advice and without the mere name of an assertion.
func detail(m string) string {
	var out []string
	for l := range strings.Lines(m) {
		l = strings.TrimRight(l, " \t\r\n")
		t := strings.TrimSpace(l)
		if len(out) == 0 && bare.MatchString(t) || advice.MatchString(t) || t == "" && (len(out) == 0 || out[len(out)-1] == "") || cut.MatchString(t) {
			continue
		}
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

var (
	bare   = regexp.MustCompile(`^(\w+\.)*(AssertionError|AssertionFailedError|Error|Failed|Failure|FAILED|FAIL|exit status \d+)?( \[\w+\])?:?$|^exit status \d+$|^(--- )?FAIL\b.*$|^(assert|Error Trace|Test):?\s*$`)
	advice = regexp.MustCompile(`^(Omitting \d+ identical|Use -v|Full diff:|\.\.\. truncated|note: run with|\+ actual - expected|use -vv)|^At index \d+ diff: .*\.\.\.|RUST_BACKTRACE`)
)

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
		{"accepts", `Received function did not throw|expected \[Function[^\]]*\] to throw()`, true},
		{"accepts", `(?i)(?:an error is expected but got nil|expected (?:an )?error,? (?:but )?(?:got|have) (?:nil|none|no error))()`, true},
		{"differs", `expected:?\s*<(.{0,200}?)> but was:?\s*<(.{0,200}?)>`, true},
		{"differs", `(?s)Expected:?\s+(\S[^\n]*)\n+\s*Received:?\s+([^\n]+)`, true},
		{"differs", `(?m)\bexpected\s*: ([^\n]{1,120})\n\s*actual\s*: ([^\n]{1,120})`, true}, // testify, tape
		{"differs", `(?s)\+ actual - expected[^\n]*\n+\+ ([^\n]{1,120})\n- ([^\n]{1,120})(?:\n\s*|$)$`, false},
		{"differs", `(?i)(?:expected|want(?:ed)?)(?: to get| value)?[: =]+(.{1,120}?)[,;.]?\s+(?:but )?(?:got|actual|was|received|have|found)[: =]+([^\n]{1,120}?)(?:\n|$)`, true},
		{"differs", `(?i)\b(?:got|have)[: =]+([^\n]{1,120}?)[,;.]?\s+(?:expected|want(?:ed)?)[: =]+([^\n]{1,120}?)(?:\n|$)`, false},
		{"differs", `(?i)(?:\s=|\breturned|\bwas|\bgives|\bgave) ([^\n]{1,120}?)[,;:]? \(?(?:but )?(?:want(?:ed)?|expected|should be)[: ]+([^\n]{1,120}?)\)?(?:\n|$)`, false}, // Go's "F(x) = a, want b"
		{"differs", `expected (.{1,120}?) to (?:(?:deeply |strictly |deep |strict )?equal|be) ([^\n]{1,120}?)(?: // .*)?(?:\n|$)`, false},
		{"equal", "(?s)`?left == right`? failed.*?left: ([^\n]+)\n\\s*right: ([^\n]+)", true},
		{"equal", `(?m)^(?:E\s+)?(?:AssertionError: )?assert ([^\n]{1,120}?) == ([^\n]{1,120})$`, true},
		{"equal", `AssertionError: ([^\n]{1,120}?) != ([^\n]{1,120})`, true},
		{"equal", `(?m)^\+?\s*([^\n]{1,120}?) !== ([^\n]{1,120})$`, true},
		{"holds", `assertion failed: ([^\n]{1,150})`, true},
		{"holds", "[Aa]ssertion [`'\"]([^\n]{1,150}?)['\"] failed", true},
		{"hangs", `(?i)\b(timed out|timeout|exceeded.*time)\b()`, true},
		{"panics", `(?m)(panic): ([^\n]+)`, true},
		{"panics", `(?s)(panick?ed) at [^\n]*:\s*\n([^\n]+)`, true},
		{"raises", `(?m)^(?:E\s+)?((?:[\w]+\.)*[A-Z]\w*(?:Error|Exception|Failure|Expired|Signature|Warning))\b:? ?([^\n]*)`, true},
		{"raises", `(?m)^(?:E\s+)?((?:[a-z_]\w*\.)*[A-Z][a-z]+[A-Z]\w*): ([^\n]+)`, true},
	} {
		m := regexp.MustCompile(p.pattern).FindStringSubmatch(m)
		if m == nil {
			continue
		}
		a, b := m[1], ""
		if len(m) > 2 {
			b = m[2]
		}
		if p.kind == "raises" && (asserts.MatchString(a) || strings.HasPrefix(b, "expect(") || strings.HasPrefix(b, "expected ")) {
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

// printed is what a command printed without records of its runner, which are
// no words for people.
func printed(s string) string {
	var out []string
	for l := range strings.Lines(s) {
		if t := strings.TrimSpace(l); strings.Contains(t, `"Action":`) || strings.HasPrefix(t, "{") && strings.HasSuffix(t, "}") || passes.MatchString(t) {
			continue
		}
		out = append(out, strings.TrimRight(l, "\r\n"))
	}
	return strings.Join(out, "\n")
}

var passes = regexp.MustCompile(`^(ok|PASS|--- PASS|=== |PASSED)\b|\bPASSED$|\.\.\. ok$|^TAP version|^# |^1\.\.\d+$|^[.sxF]+ *(\[ *\d+%\])?$`)

// asserts are errors that a test itself makes: they say nothing of the code's.
var asserts = regexp.MustCompile(`(^|\.)(AssertionError|AssertionFailedError|ComparisonFailure|MultipleFailuresError)$`)

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
		p = abbreviation.ReplaceAllStringFunc(p, func(s string) string { return "_" + strings.ToLower(s) + "_" })
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

// abbreviation is one word with a number: MD5.
var abbreviation = regexp.MustCompile(`[A-Z]+[0-9]+`)

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
