package history

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Code is what is wrong with a mined task's statement or tests, in the words of
// SWE-rebench V2's annotation. A is a task with none of it.
type Code string

const (
	Good              Code = "A"
	TestCoupling      Code = "B1"  // tests look at the solution's inside
	ImplicitNaming    Code = "B2"  // tests need names that nobody tells
	ExternalInfo      Code = "B3"  // the statement rests on what stands elsewhere
	Ambiguous         Code = "B4"  // it says too little
	PatchArtefacts    Code = "B5"  // the commit does other things besides
	ImplicitKnowledge Code = "B6"  // tests expect values that nobody tells
	InlineTests       Code = "B7"  // tests stand in the source
	Visual            Code = "B8"  // the statement shows pictures
	NotEnglish        Code = "B9"  //
	TextFixtures      Code = "B10" // the expectation is a file of text
	ManyIssues        Code = "B11" // several matters in one
)

// Finding is a code and what it rests on.
type Finding struct {
	Code Code   `json:"code"`
	Why  string `json:"why"`
}

// judged is what quality looks at.
type judged struct {
	m             *mined
	told          told
	source, tests []change
	fresh         []string               // names of entities that the commit adds
	entities      []string               // names of entities that it changes
	mentions      func(name string) bool // whether the broken tree has the word anywhere in the changed files
}

// quality tells what can be told without a reader: each code is a rule, and a
// rule that does not hold proves nothing.
func quality(j judged) []Finding {
	var all []Finding
	add := func(c Code, format string, args ...any) {
		all = append(all, Finding{c, fmt.Sprintf(format, args...)})
	}
	said := strings.ToLower(j.told.Title + "\n" + j.told.Body)
	added := addedCode(j.tests)
	if private := inside(added, slices.Concat(j.fresh, j.entities)); len(private) > 0 {
		add(TestCoupling, "tests use %s", list(first(private, 5)))
	}
	if names := unsaid(j, added, said); len(names) > 0 {
		add(ImplicitNaming, "tests use %s, which the change adds and the statement does not name", list(first(names, 5)))
	}
	rest := len(strings.Fields(said))
	if j.told.Title != "" && (elsewhere.MatchString(j.told.asked) || j.told.url && rest < 40) {
		add(ExternalInfo, "the text points elsewhere")
	}
	if j.told.Title != "" && rest < 12 {
		add(Ambiguous, "%d words", rest)
	}
	if j.m.others > 0 || len(modules(j.source)) > 3 {
		add(PatchArtefacts, "%d files beside source, tests and changelog; %d directories of source", j.m.others, len(modules(j.source)))
	}
	if values := secrets(j.source, added, said); len(values) > 0 {
		add(ImplicitKnowledge, "tests expect %s", list(first(values, 3)))
	}
	if f := inline(j.source); f != "" {
		add(InlineTests, "in %s", f)
	}
	if j.told.images > 0 {
		add(Visual, "%d pictures", j.told.images)
	}
	if notEnglish(j.told.Body) {
		add(NotEnglish, "most of the text")
	}
	if f := textOnly(j.tests); f != "" {
		add(TextFixtures, "%s", f)
	}
	if j.told.issues > 1 {
		add(ManyIssues, "it closes %d issues", j.told.issues)
	}
	if len(all) == 0 {
		add(Good, "no rule found a flaw")
	}
	return all
}

func first(s []string, n int) []string { return s[:min(len(s), n)] }

var (
	identifier = regexp.MustCompile(`[A-Za-z_$][\w$]*`)
	elsewhere  = regexp.MustCompile(`(?i)\b(as (discussed|mentioned|described|reported|noted|suggested) (in|on|at|here|above)|see (the )?(discussion|thread|comment|ticket|issue|mailing|irc|gitter|slack|chat)|(stack ?overflow|mailing list|per (the )?(rfc|pep|spec)\b)|see also\b)`)
	literal    = regexp.MustCompile(`"((?:[^"\\\n]|\\.){4,200})"|'((?:[^'\\\n]|\\.){4,200})'`)
	numeral    = regexp.MustCompile(`(?:^|[^\w.])(\d{3,}(?:\.\d+)?|\d+\.\d{2,})(?:$|[^\w.])`)
	inlineTest = regexp.MustCompile(`#\[(?:tokio::)?test\]|#\[cfg\(test\)\]|^\s*(?:>>>|\.\.\.) |^\s*(?:///|//!)\s*(?:assert|` + "```" + `)`)
)

func addedCode(tests []change) string {
	var b strings.Builder
	for _, c := range tests {
		if !isSourceExt(strings.ToLower(path.Ext(c.path))) {
			continue
		}
		for _, l := range c.added {
			b.WriteString(l)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// inside are private names, by their spelling, of changed entities that tests use.
func inside(tests string, names []string) []string {
	used := map[string]bool{}
	for _, w := range identifier.FindAllString(tests, -1) {
		used[w] = true
	}
	var private []string
	for _, n := range names {
		if used[n] && strings.HasPrefix(n, "_") && !strings.HasPrefix(n, "__") && !slices.Contains(private, n) {
			private = append(private, n)
		}
	}
	return private
}

// unsaid are names that the solution brings, that tests need, and that stand
// neither in the statement nor in what the agent sees.
func unsaid(j judged, tests, said string) []string {
	used := map[string]bool{}
	for _, w := range identifier.FindAllString(tests, -1) {
		used[w] = true
	}
	var names []string
	for _, n := range j.fresh {
		if len(n) > 2 && used[n] && !strings.Contains(said, strings.ToLower(n)) && !j.mentions(n) && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

func modules(source []change) []string {
	var all []string
	for _, c := range source {
		if d := module(c.path); !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// secrets are literals that both the solution and its tests add, and nobody tells.
func secrets(source []change, tests, said string) []string {
	mine := map[string]bool{}
	old := map[string]bool{}
	collect := func(l string, to map[string]bool) {
		for _, m := range literal.FindAllStringSubmatch(l, -1) {
			to[m[1]+m[2]] = true
		}
		for _, m := range numeral.FindAllStringSubmatch(l, -1) {
			to[m[1]] = true
		}
	}
	for _, c := range source {
		for _, l := range c.removed {
			collect(l, old)
		}
		for _, l := range c.added {
			collect(l, mine)
		}
	}
	theirs := map[string]bool{}
	for l := range strings.Lines(tests) {
		collect(l, theirs)
	}
	var all []string
	for v := range theirs {
		if mine[v] && !old[v] && !strings.Contains(said, strings.ToLower(v)) {
			all = append(all, fmt.Sprintf("%q", clip(v, 60)))
		}
	}
	slices.Sort(all)
	return all
}

// inline is a source file in which the commit changed tests.
func inline(source []change) string {
	for _, c := range source {
		if slices.ContainsFunc(c.added, inlineTest.MatchString) {
			return c.path
		}
	}
	return ""
}

// textOnly is a file of text that stands for the expectation, where no code of
// tests was changed.
func textOnly(tests []change) string {
	name := ""
	for _, c := range tests {
		if isSourceExt(strings.ToLower(path.Ext(c.path))) {
			return ""
		}
		name = c.path
	}
	return name
}

var common = regexp.MustCompile(`(?i)\b(the|is|are|a|an|to|of|and|in|for|when|not|with|this|that|it|if|on|as|be|from|should)\b`)

// notEnglish: most letters are of another script, or hardly any of the words
// that no English text does without is there.
func notEnglish(text string) bool {
	letters, foreign := 0, 0
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
			if r > 0x24F {
				foreign++
			}
		}
	}
	n := len(strings.Fields(text))
	return letters > 20 && (foreign*2 > letters || n > 40 && len(common.FindAllString(text, -1))*30 < n)
}
