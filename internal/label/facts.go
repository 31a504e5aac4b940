package label

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Facts of a specification, in groups: what is wrong, what is wanted, how it
// shows, where it is.
const (
	Symptom      = "symptom"
	ErrorText    = "error text"
	Expected     = "expected"
	Constraint   = "constraint"
	Reproduction = "reproduction"
	Location     = "location"
	APIName      = "api name"
)

var (
	symptom    = regexp.MustCompile(`(?i)\b(fail(s|ed|ing|ure)?|errors?|wrong(ly)?|crash\w*|broken?|breaks?|hangs?|incorrect\w*|exceptions?|does(n['’]t| not)|do(n['’]t| not) work|cannot|can['’]t|no longer|missing|unexpected\w*|bugs?|regress\w*|instead of|stopped|invalid|ignor(es|ed)|leaks?|slow|lost|gave|gives|returns? (the )?wrong)\b`)
	errorText  = regexp.MustCompile(`Traceback \(most recent|\b\w*(Error|Exception|Warning)\b:?|\bpanic:|\berror(\[E\d+\])?:|\bfatal:|(?i:segmentation fault|exit (status|code) [1-9]|assertion failed|command not found|no such file|permission denied|undefined reference|cannot find (module|package))|\bE[A-Z]{4,}\b|npm ERR!|\bassert .+(==|!=)`)
	expected   = regexp.MustCompile(`(?i)\b(should|shall|must|expect(s|ed)?|ought|needs? to|has to|have to|want(s|ed)?|so that|make sure|ensure|supposed to|is to|are to|implement|add|create|write|return|support|allow|build|provide)\b`)
	constraint = regexp.MustCompile(`(?i)\b(must not|mustn['’]t|do not|don['’]t|never|only|at (most|least)|no more than|without (changing|breaking|using|adding)|backwards?[- ]compat\w*|keep|preserv\w+|within|unless|except|exactly|for good)\b`)
	repro      = regexp.MustCompile(`(?i)\b(steps to reproduce|reproduc\w+|to see (it|this)|when (i|we|you|one|it|calling|running|using|the)|if (i|we|you|one)|after (i|running|calling)|for example|e\.g\.|example)\b|(?m)^\s*(>>>|\$ |In \[\d+\])`)
	place      = regexp.MustCompile(`(?:^|[\s` + "`" + `"'(])((?:/|\./)?[\w@.+-]+(?:/[\w@.+-]+)+/?|[\w-]+\.(?:py|js|ts|tsx|go|rs|java|c|h|cpp|hpp|rb|php|sh|toml|ya?ml|json|cfg|ini|xml|txt|csv|md|html|sql))(?:$|[\s` + "`" + `"'),.:;])`)
	apiName    = regexp.MustCompile("`[^`\n]*[A-Za-z_][\\w.]*[^`\n]*`" + `|\b[a-z]+(?:_[a-z0-9]+)+\b|\b[a-z]+[a-z0-9]*[A-Z]\w*\b|\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+\b|\b[A-Za-z_]\w*(?:\.\w+)*\(\)?|(?:^|\s)--[a-z][a-z-]+`)
	fence      = regexp.MustCompile("(?s)(?:```|~~~)(.*?)(?:```|~~~|$)")
	// forged is the forge's own last paragraph, which says nothing of the matter.
	forged = regexp.MustCompile("(?m)^The project is in `[^`]*`\\. .*$|^Find the cause and mend it\\.$")
)

// groups are facts that answer one question; a full specification has one of each.
func groups() [][]string {
	return [][]string{{Symptom, ErrorText}, {Expected, Constraint}, {Reproduction}, {Location, APIName}}
}

// specify says what a statement tells. It looks for words and forms, so it
// knows what kinds of facts are there and not whether they are right.
func specify(text, workdir string) Specification {
	text = forged.ReplaceAllString(text, "")
	s := Specification{Words: len(strings.Fields(text)), Facts: []string{}}
	prose, code := fence.ReplaceAllString(text, "\n"), strings.Builder{}
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		code.WriteString(m[1] + "\n")
	}
	has := func(fact string, there bool) {
		if there {
			s.Facts = append(s.Facts, fact)
		}
	}
	shown := errorText.MatchString(code.String())
	has(Symptom, symptom.MatchString(prose))
	has(ErrorText, shown || errorText.MatchString(prose))
	has(Expected, expected.MatchString(prose))
	has(Constraint, constraint.MatchString(prose))
	has(Reproduction, repro.MatchString(text) || code.Len() > 0 && !shown)
	has(Location, located(text, workdir))
	has(APIName, apiName.MatchString(prose) || apiName.MatchString(code.String()))
	missing := 0
	for _, g := range groups() {
		if !slices.ContainsFunc(g, func(f string) bool { return slices.Contains(s.Facts, f) }) {
			missing++
		}
	}
	s.Level = Level(fmt.Sprintf("L%d", missing))
	s.Ambiguous = missing >= 3
	return s
}

// located: a path is named that is more than the working directory.
func located(text, workdir string) bool {
	for _, m := range place.FindAllStringSubmatch(text, -1) {
		p := strings.TrimSuffix(m[1], "/")
		if p != "" && p != workdir && p != "/app" && p != "/testbed" && p != "/workspace" && !strings.Contains(p, "and/or") {
			return true
		}
	}
	return false
}
