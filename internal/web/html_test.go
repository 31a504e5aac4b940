package web

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// markup is what a page is made of, as far as the tests ask.
type markup struct {
	ids    map[string]int
	hrefs  []string
	tags   map[string]int
	raw    map[string]string // content of script and style
	metas  []string
	text   strings.Builder
	faults []string
}

var (
	tagRE  = regexp.MustCompile(`(?s)^<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:\s+[a-zA-Z:_-]+(?:="[^"]*")?)*)\s*(/?)>`)
	attrRE = regexp.MustCompile(`([a-zA-Z:_-]+)(?:="([^"]*)")?`)
)

var voidTags = []string{"meta", "link", "input", "br", "rect"}

// parseMarkup reads a page far more strictly than a browser: every tag must be
// spelled as our templates spell it and nest properly, and a "<" that starts
// no tag is a fault, since our text is escaped.
func parseMarkup(page string) markup {
	m := markup{ids: map[string]int{}, tags: map[string]int{}, raw: map[string]string{}}
	fault := func(f string, args ...any) {
		if len(m.faults) < 20 {
			m.faults = append(m.faults, fmt.Sprintf(f, args...))
		}
	}
	rest, ok := strings.CutPrefix(page, "<!doctype html>\n")
	if !ok {
		fault("no doctype")
	}
	var open []string
	for rest != "" {
		i := strings.IndexByte(rest, '<')
		if i < 0 {
			i = len(rest)
		}
		m.text.WriteString(html.UnescapeString(rest[:i]))
		rest = rest[i:]
		if rest == "" {
			break
		}
		t := tagRE.FindStringSubmatch(rest)
		if t == nil {
			fault("a bare < at %.60q", rest)
			rest = rest[1:]
			continue
		}
		rest = rest[len(t[0]):]
		name := t[2]
		if t[1] == "/" {
			if len(open) == 0 || open[len(open)-1] != name {
				fault("</%s> closes %v", name, open)
				return m
			}
			open = open[:len(open)-1]
			continue
		}
		m.tags[name]++
		m.attributes(name, t[3], fault)
		if slices.Contains(voidTags, name) || t[4] == "/" {
			continue
		}
		if name == "script" || name == "style" {
			end := strings.Index(rest, "</"+name+">")
			if end < 0 {
				fault("%s does not end", name)
				return m
			}
			m.raw[name] = rest[:end]
			rest = rest[end+len(name)+3:]
			continue
		}
		open = append(open, name)
	}
	if len(open) > 0 {
		fault("never closed: %v", open)
	}
	return m
}

func (m *markup) attributes(tag, text string, fault func(string, ...any)) {
	for _, a := range attrRE.FindAllStringSubmatch(text, -1) {
		k, v := strings.ToLower(a[1]), html.UnescapeString(a[2])
		switch {
		case strings.HasPrefix(k, "on") || k == "style":
			fault("<%s> has %s=%q", tag, k, v)
		case k == "id":
			m.ids[v]++
		case k == "href" || k == "src" || k == "action" || k == "srcset" || k == "data":
			m.hrefs = append(m.hrefs, v)
		case k == "content":
			m.metas = append(m.metas, v)
		}
	}
	if tag == "th" && !strings.Contains(text, "scope=") {
		fault("a th without scope")
	}
	if tag == "svg" && !strings.Contains(text, "aria-label=") {
		fault("a picture without a label")
	}
}

// checkPage holds what every page must be.
func checkPage(t *testing.T, page string) markup {
	t.Helper()
	m := parseMarkup(page)
	for _, f := range m.faults {
		t.Error(f)
	}
	for id, n := range m.ids {
		if n > 1 {
			t.Errorf("id %q stands %d times", id, n)
		}
	}
	for _, h := range m.hrefs {
		if a, ok := strings.CutPrefix(h, "#"); ok {
			if m.ids[a] == 0 {
				t.Errorf("#%s leads nowhere", a)
			}
		} else if strings.Contains(h, "//") || strings.Contains(h, ":") {
			t.Errorf("a link leaves the page: %q", h)
		}
	}
	if m.tags["title"] != 1 || m.tags["h1"] == 0 || m.tags["main"] != 1 {
		t.Errorf("title, h1 and main: %d, %d, %d", m.tags["title"], m.tags["h1"], m.tags["main"])
	}
	return m
}
