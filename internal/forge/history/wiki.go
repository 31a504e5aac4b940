package history

import (
	"regexp"
	"strings"
)

var (
	wikiHead  = regexp.MustCompile(`(?m)^[ \t]*h([1-6])\.[ \t]+`)
	wikiFence = regexp.MustCompile(`\{(?:code|noformat)(?::[^}\n]{0,200})?\}`)
	wikiMono  = regexp.MustCompile(`\{\{([^{}\n]{1,500})\}\}`)
	wikiLink  = regexp.MustCompile(`\[([^\]|\n]{1,500})\|[^\]\n]{1,1000}\]`)
	wikiMark  = regexp.MustCompile(`\{(?:quote|color|panel)(?::[^}\n]{0,200})?\}`)
	wikiList  = regexp.MustCompile(`(?m)^[ \t]*([*#]+)[ \t]+`)
)

// markdown is a text in the markup of Jira's older interface as people's other
// texts are: what is stripped from them is known by their marks. In code nothing
// changes.
func markdown(text string) string {
	var b strings.Builder
	code := false
	for text != "" {
		at := wikiFence.FindStringIndex(text)
		part, mark := text, ""
		if at != nil {
			part, mark, text = text[:at[0]], "```", text[at[1]:]
		} else {
			text = ""
		}
		if !code {
			part = prose(part)
		}
		b.WriteString(part)
		if mark == "" {
			break
		}
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(mark)
		if code = !code; !strings.HasPrefix(text, "\n") {
			b.WriteByte('\n')
		}
	}
	if code {
		b.WriteString("\n```")
	}
	return b.String()
}

func prose(s string) string {
	// Lists come before headings, whose marks in Markdown are those of lists here.
	s = wikiList.ReplaceAllString(s, "- ")
	s = wikiHead.ReplaceAllStringFunc(s, func(m string) string {
		return strings.Repeat("#", int(strings.TrimSpace(m)[1]-'0')) + " "
	})
	s = wikiMono.ReplaceAllString(s, "`$1`")
	s = wikiLink.ReplaceAllString(s, "$1")
	return wikiMark.ReplaceAllString(s, "")
}
