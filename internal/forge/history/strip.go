package history

import (
	"regexp"
	"slices"
	"strings"
)

// stripper takes out of a text what would give the solution away, or what
// points to where it can be read.
type stripper struct {
	gold   map[string]bool   // lines that the solution adds, squeezed
	people *strings.Replacer // takes out whole names of the history's authors
}

// goldLine is the shortest line of a solution that is looked for in texts.
const goldLine = 10

func newStripper(source []change, people *strings.Replacer) *stripper {
	s := &stripper{gold: map[string]bool{}, people: people}
	old := map[string]bool{}
	for _, c := range source {
		for _, l := range c.removed {
			old[squeeze(l)] = true
		}
	}
	for _, c := range source {
		for _, l := range c.added {
			if q := squeeze(l); len(q) >= goldLine && !old[q] && strings.ContainsAny(q, "=(.[:{") {
				s.gold[q] = true
			}
		}
	}
	return s
}

// squeeze takes all white space out.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

var (
	trailer   = regexp.MustCompile(`(?i)^\s*[-*]?\s*(co-?authored-by|signed-off-by|reviewed-by|acked-by|tested-by|reported-by|suggested-by|helped-by|cc|change-id|reviewed-on|git-svn-id|cherry[- ]picked|\(cherry picked|fixes|closes|resolves|refs?|references|see( also)?|related( to)?|part of|links?|issues?|bugs?|pr|pull request|backports?( of)?|ticket|bpo|closed|fixed|relnotes?|differential revision|phabricator|jira|upstream|signed|author|committer|date|conflicts|svn|original commit)\b\s*:?\s*(:.*|#\d.*|gh-\d.*|https?://.*|[A-Z][A-Z0-9]+-\d+.*|[0-9a-f]{7,40}.*)$`)
	gerrit    = regexp.MustCompile(`^\s*(Co-authored-by|Signed-off-by|Change-Id|git-svn-id|Reviewed-by|Reviewed-on|Acked-by|Tested-by):`)
	diffLine  = regexp.MustCompile(`^(diff --git |index [0-9a-f]{7,}\.\.|@@ -\d|--- a/|\+\+\+ b/|new file mode |deleted file mode |similarity index |rename (from|to) )`)
	solution  = regexp.MustCompile(`(?i)\b((fixed|solved|resolved|addressed|mitigated|implemented|corrected|introduced|caused|broken) (by|in|with|via|through|since) (?:the |this |commit|pr\b|pull|#|changing|adding|using|removing|[0-9a-f]{7})|(the|a|my|this|proposed|suggested|possible|simple|easy|quick|one[- ]line) (fix|patch|solution|workaround) (is|was|would be|could be|might be|should be|seems|looks|:)|(can|could) be (fixed|solved|resolved) by|(a )?(pr|pull request|patch|fix) (is|has been|was) (attached|sent|submitted|opened|merged)|git bisect|bisected? (to|says))`)
	heading   = regexp.MustCompile(`(?i)^\s*(#{1,6}\s*|\*\*)(.*?)(\*\*)?:?\s*$`)
	answers   = regexp.MustCompile(`(?i)\b(solution|fix|patch|workaround|proposed|proposal|suggested|implementation|root cause|cause|checklist|additional links|related|references?|other comments|ai (generat|assist)\w*|disclosure|release notes?|testing|how (has )?this|changes|how (it|this) (works|was fixed))\b`)
	imageMark = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)|(?i)<img[^>]*>|!\S+\.(?:png|jpe?g|gif)(?:\|[^!]*)?!`)
	link      = regexp.MustCompile(`\[([^\]\n]*)\]\(\s*[a-z]+://[^)\s]*[^)]*\)`)
	address   = regexp.MustCompile(`<?\b(?:https?|ftp|git|ssh)://[^\s<>()\]"'` + "`" + `]*[^\s<>()\]"'` + "`" + `.,;:!?]>?|\bwww\.[^\s<>()]+`)
	email     = regexp.MustCompile(`<?[\w.+-]+@[\w-]+(?:\.[\w-]+)+>?`)
	hash      = regexp.MustCompile(`(?i)(?:\b(?:in |by |with |since |from )?(?:commit|revision|changeset|rev|sha)s?:?\s+)?\b[0-9a-f]{7,64}\b`)
	lineNo    = regexp.MustCompile(`(\.[A-Za-z]{1,5})(?::\d+(?::\d+)?\b|#L\d+(?:-L?\d+)?|\(\d+(?:,\d+)?\))`)
	lineWord  = regexp.MustCompile(`(?i),?\s*\b(?:on |at |in )?lines?\s+\d+(?:\s*(?:-|to|and|–)\s*\d+)?`)
	issueRef  = regexp.MustCompile(`(?i)\s*[\(\[]?(?:\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|re|addresses|by|in|from|with|since|for|issue|bug|pr|ticket|pull request):?\s+)*(?:(?:[\w.-]+/)?[\w.-]*\w#\d+|\B#\d+|\bgh-\d+|\bbpo-\d+)(?:\s*(?:,|and|&)\s*(?:#\d+|gh-\d+))*[\)\]]?`)
	handle    = regexp.MustCompile(`(^|[\s(,])@[A-Za-z\d](?:[A-Za-z\d-]{0,38})\b`)
	thanks    = regexp.MustCompile(`(?i)\s*[\(,;-]?\s*\b(?:thanks,?(?: to)?|thank you,?|reported by|patch by|contributed by|courtesy of|credits? to|h/t|based on (?:a |the )?(?:patch|work) by|authored by|written by|found by|noticed by|spotted by|discovered by)\s+(?:@?[A-Z][\w.'-]*)(?:\s+(?:van|von|de|der)?\s*[A-Z][\w.'-]*){0,3}\)?[.!]?`)
	roles     = regexp.MustCompile(`(?i)[{:](?:gh|gh-)?(?:issue|pr|bug|pull|user|commit|cve|mr|contributor|ticket)s?[}:]\x60[^\x60]*\x60,?`)
	ruler     = regexp.MustCompile(`^\s*[-=~^_*]{4,}\s*$`)
	bracketed = regexp.MustCompile(`\s*\([^()]{0,60}(?:#\d+|@[A-Za-z])[^()]{0,60}\)`)
	byHandle  = regexp.MustCompile(`(?i)[,;]?\s*\b(?:by|via|cc|from|with|to|and)\s+@[A-Za-z\d][\w-]*`)
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`)
	details   = regexp.MustCompile(`(?i)</?(details|summary|p|br|div|sub|sup)[^>]*>`)
	blank     = regexp.MustCompile(`\n{3,}`)
	empties   = regexp.MustCompile(`\(\s*\)|\[\s*\]`)
	spaces    = regexp.MustCompile(`([^\s])[ \t]{2,}`)
	dangling  = regexp.MustCompile(`(?i)(?:^|\s+)(?:to|of|by|in|from|with|since|see|at|per|via|for)\s*([.!])(\s|$)`) // what stood behind it was taken out
	hanging   = regexp.MustCompile(`\s+([,.;:!?])(\s|$)`)
)

// clean is a text without what it must not say, and how many places were taken out.
func (s *stripper) clean(text string) (string, int) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	taken := len(comment.FindAllStringIndex(text, -1))
	text = comment.ReplaceAllString(text, "")
	var out []string
	skip := 0     // level of a heading whose part is left out; 0: none
	hunk := false // in a fragment of a diff
	for _, b := range blocks(text) {
		if b.fence {
			if skip > 0 || s.betrays(b.lines) || isDiff(b.lines) {
				taken++
				continue
			}
			for i, l := range b.lines {
				b.lines[i] = s.places(l)
			}
			out = append(out, b.lines...)
			continue
		}
		for _, l := range b.lines {
			if m := heading.FindStringSubmatch(l); m != nil && strings.TrimSpace(m[2]) != "" {
				level := strings.Count(m[1], "#") + strings.Count(m[1], "**")*7
				if skip > 0 && level <= skip {
					skip = 0
				}
				if skip == 0 && answers.MatchString(m[2]) && len(m[2]) < 60 {
					skip = level
				}
			}
			hunk = diffLine.MatchString(l) || hunk && l != "" && strings.ContainsRune("+- \\", rune(l[0]))
			if skip > 0 || hunk || ruler.MatchString(l) || trailer.MatchString(l) || gerrit.MatchString(l) || s.gold[squeeze(strings.Trim(l, "`+ >"))] {
				taken++
				continue
			}
			c, n := s.prose(l)
			taken += n
			if c != "" || l == "" {
				out = append(out, c)
			}
		}
	}
	t := strings.TrimSpace(blank.ReplaceAllString(strings.Join(out, "\n"), "\n\n"))
	return t, taken
}

// block is a run of lines, fenced as code or not.
type block struct {
	lines []string
	fence bool
}

func blocks(text string) []block {
	var all []block
	cur := block{}
	mark := ""
	flush := func(next bool) {
		if len(cur.lines) > 0 {
			all = append(all, cur)
		}
		cur = block{fence: next}
	}
	for l := range strings.SplitSeq(text, "\n") {
		l = strings.TrimRight(l, " \t\r")
		t := strings.TrimLeft(l, " >")
		opens := strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") || t == "{code}" || strings.HasPrefix(t, "{code:") || t == "{noformat}"
		switch {
		case mark == "" && opens:
			flush(true)
			mark = t[:3]
			cur.lines = append(cur.lines, l)
		case mark != "" && strings.HasPrefix(t, mark):
			cur.lines = append(cur.lines, l)
			mark = ""
			flush(false)
		default:
			cur.lines = append(cur.lines, l)
		}
	}
	flush(false)
	return all
}

// betrays reports whether code holds lines of the solution.
func (s *stripper) betrays(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return s.gold[squeeze(strings.TrimLeft(l, "+- >"))] || s.gold[squeeze(l)] })
}

func isDiff(lines []string) bool {
	head := strings.TrimLeft(lines[0], " >`~")
	if head == "diff" || head == "patch" || strings.HasPrefix(head, "suggestion") {
		return true
	}
	return slices.ContainsFunc(lines, diffLine.MatchString)
}

// prose cleans one line of text.
func (s *stripper) prose(l string) (string, int) {
	was := l
	l = imageMark.ReplaceAllString(l, "")
	l = link.ReplaceAllString(l, "$1")
	l = address.ReplaceAllString(l, "")
	l = email.ReplaceAllString(l, "")
	l = s.hashes(l)
	l = sentences(l, func(x string) bool { return !solution.MatchString(x) })
	l = roles.ReplaceAllString(l, "")
	l = bracketed.ReplaceAllString(l, "")
	l = issueRef.ReplaceAllString(l, "")
	l = thanks.ReplaceAllString(l, "")
	l = byHandle.ReplaceAllString(l, "")
	l = handle.ReplaceAllString(l, "$1")
	l = s.people.Replace(l)
	l = details.ReplaceAllString(l, "")
	l = s.places(l)
	l = s.inline(l)
	if l == was {
		return l, 0
	}
	indent := l[:len(l)-len(strings.TrimLeft(l, " \t"))]
	l = empties.ReplaceAllString(l, "")
	l = spaces.ReplaceAllString(l, "$1 ")
	l = hanging.ReplaceAllString(l, "$1$2")
	l = dangling.ReplaceAllString(l, "$1$2")
	l = strings.TrimPrefix(strings.TrimSpace(l), ": ")
	l = indent + strings.TrimSpace(l)
	if strings.Trim(l, " \t-*#>.,:;()[]") == "" {
		l = ""
	}
	return l, 1
}

// places takes line numbers from file names and traces.
func (s *stripper) places(l string) string {
	l = lineNo.ReplaceAllString(l, "$1")
	return lineWord.ReplaceAllString(l, "")
}

// hashes takes out names of commits; a word of letters alone, or a number, is none.
func (s *stripper) hashes(l string) string {
	return hash.ReplaceAllStringFunc(l, func(m string) string {
		id := m[strings.LastIndexAny(m, " \t")+1:]
		if m == id && (!strings.ContainsAny(id, "0123456789") || !strings.ContainsAny(strings.ToLower(id), "abcdef")) || strings.HasPrefix(id, "0x") {
			return m
		}
		return ""
	})
}

var tick = regexp.MustCompile("`[^`\n]+`")

// inline takes out code between ticks that is a line of the solution.
func (s *stripper) inline(l string) string {
	return tick.ReplaceAllStringFunc(l, func(m string) string {
		if s.gold[squeeze(strings.Trim(m, "`"))] {
			return ""
		}
		return m
	})
}

var sentence = regexp.MustCompile(`.+?(?:[.!?]+(?:\s+|$)|$)`)

// sentences keeps those that keep says.
func sentences(l string, keep func(string) bool) string {
	if keep(l) {
		return l
	}
	var b strings.Builder
	for _, x := range sentence.FindAllString(l, -1) {
		if keep(x) {
			b.WriteString(x)
		}
	}
	return b.String()
}

// holds reports whether a text still has a line of the solution in it.
func (s *stripper) holds(text string) bool {
	q := squeeze(text)
	for l := range s.gold {
		if len(l) >= 20 && strings.Contains(q, l) {
			return true
		}
	}
	return false
}

// images counts pictures in a text.
func images(text string) int { return len(imageMark.FindAllStringIndex(text, -1)) }
