package history

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
)

// told is what a commit's task says, and where that comes from.
type told struct {
	forge.Statement
	from   string // "issue 12", "request 12", "changelog", "message", "message and failures", "failures"
	issue  string
	taken  int // places that were stripped
	images int
	issues int // that the commit closes
	url    bool
	title  string // of a statement that failures have to complete
	asked  string // the text before it was stripped
}

var (
	conventional = regexp.MustCompile(`(?i)^\s*(?:(?:fix|bug|bugfix|hotfix|feat|feature|perf|bug fix)(?:\([^)]*\))?!?:\s*|\[[^\]]{1,30}\]\s*)+`)
	byDoing      = regexp.MustCompile(`(?i)[,;]?\s+(?:by|via|through)\s+[a-z-]+ing\b[^.]*`)
	mergeSubject = regexp.MustCompile(`^Merge (?:pull request|PR|branch|remote-tracking branch|MR)\b.*`)
	trailingRef  = regexp.MustCompile(`\s*\((?:#|gh-|!|bpo-)\d+\)`)
	reverted     = regexp.MustCompile(`(?i)this reverts (?:the )?(?:merge )?commit\s+[0-9a-f]+(?:,? reversing\s+changes made to [0-9a-f]+)?\.?`)
	bullet       = regexp.MustCompile(`^\s*(?:[-*+•]|\d+[.)]|\.\.)\s+`)
	logHead      = regexp.MustCompile(`(?i)^\s*(?:#+|=+|-+|~+|\^+|v?\d+\.\d+|unreleased|version\b|released?\b|\*\*[^*]+\*\*:?$|[A-Z][\w /]{2,30}:?$)`)
)

// tell words a task's statement from what people wrote about the change: the
// issue that it closed, the changelog's entry, the message, in this order. One
// that says too little is left empty: the forge words it by the failures.
func tell(m *mined, source []change, names, logs []string, issues Issues, s *stripper) told {
	refs := references(m.message)
	t := told{}
	for _, r := range refs {
		if r.closes {
			t.issues++
		}
	}
	title, body := m.headline()
	text := body
	if is, ok := issues.of(refs); ok {
		t.issue, t.from = is.Key, "issue "+is.Key
		if is.Pull {
			t.from = "request " + is.Key
		}
		title, text, t.images = is.Title, is.Body, is.Images
	} else if entry := changelogEntry(logs); entry != "" {
		t.from, text = "changelog", entry
	} else {
		t.from = "message"
	}
	t.asked = title + "\n\n" + text
	t.url = address.MatchString(text)
	var n int
	t.Title, t.taken = s.clean(shorten(title))
	t.Title = strings.Trim(strings.Join(strings.Fields(t.Title), " "), ".:,;- ")
	t.Body, n = s.clean(text)
	t.taken += n
	if t.from == "message" {
		t.Body = byDoing.ReplaceAllString(t.Body, "")
		var n int
		t.Body, n = asked(t.Body, names)
		t.taken += n
	}
	if t.Body == "" {
		t.Body = t.Title
	}
	t.Title = upper(clip(t.Title, 120))
	if m.reverting != nil && t.issue == "" || len(strings.Fields(t.Title+" "+t.Body)) < minStatement || s.holds(t.Title+"\n"+t.Body) {
		// A task that says the wrong thing, or the solution, is worse than one that only shows the symptom.
		t.Statement, t.from = forge.Statement{}, "failures"
	}
	if t.from == "message" && len(strings.Fields(t.Title+" "+t.Body)) < fewWords {
		t.title, t.Statement, t.from = t.Title, forge.Statement{}, "message and failures"
	}
	return t
}

var (
	doing    = regexp.MustCompile(`^\s*(?:[-*]\s+)?(?:Also,?\s+)?(?i:add|use|copy|move|change|make|replace|remove|introduce|call|pass|check|set|wrap|convert|rename|switch|store|keep|rewrite|refactor|extract|update|simplify|guard)s?\s`)
	aboutOwn = regexp.MustCompile(`(?i)^\s*(?:[-*]\s+)?(?:\[?docs?\b|(?:also,?\s+)?(?:this (?:commit|patch|change|pr|mr) )?(?:also )?(?:add|update|fix|extend|improve|rename)(?:s|ed)?\s+(?:(?:a|an|the|some|more|new|unit|regression|another)\s+)*(?:tests?|docs?|documentation|docstrings?|examples?|changelog|readme)\b)`)
)

// asked leaves of a message what is wanted: paragraphs and points that say what
// the author did to a named thing of the code, or to tests and texts, are about
// the solution. The first one is what the commit is for, and stays.
func asked(body string, names []string) (string, int) {
	var keep []string
	taken := 0
	for i, p := range strings.Split(body, "\n\n") {
		named := doing.MatchString(p) && slices.ContainsFunc(names, func(n string) bool { return len(n) > 3 && hasWord([]byte(p), n) })
		if i > 0 && (named || aboutOwn.MatchString(p)) && !strings.Contains(p, "```") {
			taken++
			continue
		}
		keep = append(keep, p)
	}
	return strings.Join(keep, "\n\n"), taken
}

// fewWords is how many words a message needs to stand alone; below, what the
// tests showed is told with it.
const fewWords = 14

// Describe words the statement of a candidate whose message says too little:
// its title, and what fails. It is part of forge.Describer; without a title it
// says nothing, and the forge's own words are taken.
func (g *Generator) Describe(w *forge.World, c forge.Candidate, seen forge.Seen) forge.Statement {
	title := c.Notes["title"]
	if title == "" || len(seen.Failed) == 0 {
		return forge.Statement{}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\nAt the moment this does not work:\n", title)
	told := map[string]bool{}
	for _, f := range seen.Failed {
		m := strings.TrimSpace(f.Message)
		if m, _, _ = strings.Cut(m, "\n"); m == "" || told[m] || len(told) == 3 {
			continue
		}
		told[m] = true
		fmt.Fprintf(&b, "\n- `%s`", strings.ReplaceAll(clip(m, 200), "`", "'"))
	}
	if len(told) == 0 {
		return forge.Statement{}
	}
	return forge.Statement{Title: title, Body: b.String()}
}

// minStatement is how many words a statement has at least; "Fix typo in core"
// tells nobody what is wrong.
const minStatement = 5

// headline is a message's title and body; a merge's title is the request's.
func (m *mined) headline() (title, body string) {
	title, body = m.subject(), m.body()
	if mergeSubject.MatchString(title) {
		title, body, _ = strings.Cut(body, "\n")
	}
	if quoted, ok := strings.CutPrefix(title, `Revert "`); ok {
		title = strings.TrimSuffix(quoted, `"`)
	}
	return strings.TrimSpace(title), strings.TrimSpace(reverted.ReplaceAllString(body, ""))
}

// shorten takes from a title what is about the commit and not about the matter.
func shorten(title string) string {
	title = conventional.ReplaceAllString(title, "")
	title = trailingRef.ReplaceAllString(title, "")
	return byDoing.ReplaceAllString(title, "")
}

func upper(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' && !strings.ContainsAny(strings.SplitN(s, " ", 2)[0], "._(:") {
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return s
}

// changelogEntry is what a commit added to the changelog, as prose.
func changelogEntry(added []string) string {
	var out []string
	for _, l := range added {
		t := strings.TrimSpace(bullet.ReplaceAllString(l, ""))
		if t == "" || logHead.MatchString(t) {
			continue
		}
		if len(out) > 0 && !bullet.MatchString(l) {
			out[len(out)-1] += " " + t
			continue
		}
		out = append(out, t)
	}
	text := strings.Join(out, "\n\n")
	if len(strings.Fields(text)) < 6 || len(text) > 2000 {
		return ""
	}
	return text
}

// of is the issue that a message is about: one that it closes, of a request the
// issue that the request closes, else the request.
func (all Issues) of(refs []reference) (Issue, bool) {
	var request Issue
	for _, closes := range []bool{true, false} {
		for _, r := range refs {
			is, ok := all[r.key]
			if !ok || r.closes != closes {
				continue
			}
			if !is.Pull {
				return is, true
			}
			for _, inner := range references(is.Title + "\n" + is.Body) {
				if x, ok := all[inner.key]; ok && inner.closes && !x.Pull {
					return x, true
				}
			}
			if request.Key == "" {
				request = is
			}
		}
	}
	return request, request.Key != ""
}

// hints go from the part of the project to the names in it.
func hints(source []change, entities []string) []string {
	var dirs, files []string
	for _, c := range source {
		if d := module(c.path); !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
		files = append(files, c.path)
	}
	for i, d := range dirs {
		if d == "." {
			dirs[i] = "the top directory"
		}
	}
	all := []string{
		fmt.Sprintf("What is wrong lies in %s.", list(dirs)),
		fmt.Sprintf("Look at %s.", list(files)),
	}
	if len(entities) > 0 {
		all = append(all, fmt.Sprintf("It is in %s of %s.", list(entities[:min(len(entities), 6)]), list(files)))
	}
	return all
}

func list(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

var slugOther = regexp.MustCompile(`[^a-z0-9]+`)

// slug is a title as a name: at most 40 bytes of small letters and digits.
func slug(title string) string {
	s := strings.Trim(slugOther.ReplaceAllString(strings.ToLower(title), "-"), "-")
	if len(s) > 40 {
		s = s[:40]
		if i := strings.LastIndexByte(s, '-'); i > 20 {
			s = s[:i]
		}
	}
	return strings.Trim(s, "-")
}

// ofTests reports whether a test's file is one of a commit's.
func ofTests(file string, tests []string) bool {
	return file != "" && slices.ContainsFunc(tests, func(t string) bool { return t == file || path.Clean(t) == path.Clean(file) })
}
