package report

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// line spells a name on one line of valid UTF-8, so that a list of ids can have
// one a line and a terminal shows what stands there: a control character
// becomes its picture (ESC is U+241B), other line breaks a blank.
func line(s string) string {
	plain := func(r rune) bool {
		return r != utf8.RuneError && !unicode.IsControl(r) && r != '\u2028' && r != '\u2029'
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case plain(r), r == utf8.RuneError:
			return r
		case r < 0x20:
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		}
		return ' '
	}, s)
}

// join makes an id of a file and the titles from the outermost to the test's
// own. A title's own " > " is spelt with a backslash, so that a group called
// "a > b" is not a group b in a group a.
func join(file string, titles ...string) string {
	var b strings.Builder
	b.WriteString(file)
	for _, t := range titles {
		if b.Len() > 0 {
			b.WriteString(" > ")
		}
		b.WriteString(strings.ReplaceAll(t, " > ", ` \> `))
	}
	return b.String()
}

// below spells an absolute path relative to root, if it is below it, and any
// path without a leading "./".
func below(root, file string) string {
	file = strings.TrimPrefix(file, "file://")
	if root != "" && path.IsAbs(file) {
		if rest, ok := strings.CutPrefix(path.Clean(file), strings.TrimSuffix(path.Clean(root), "/")+"/"); ok {
			return rest
		}
	}
	if file == "" {
		return ""
	}
	return path.Clean(file)
}

// worst is the worse of two statuses.
func worst(a, b Status) Status {
	if worse[b] > worse[a] {
		return b
	}
	return a
}

// namesakes flags tests that differ in nothing but what key leaves out: tools
// that read logs take them for one.
func (r *Report) namesakes(what string, key func(id string) string) {
	first := make(map[string]string, len(r.Tests))
	told := map[string]bool{}
	for _, t := range r.Tests {
		k := key(t.ID)
		if k == "" {
			continue
		}
		other, again := first[k]
		if !again {
			first[k] = t.ID
			continue
		}
		if !told[k] && len(told) < 100 {
			told[k] = true
			r.flag(FlagNamesake, t.ID, "as "+other+", "+what)
		}
	}
}

// byTitles flags tests whose titles are the same in two files: parsers of logs
// know no files there.
func byTitles(read func([]Source) (*Report, error)) func([]Source) (*Report, error) {
	return func(sources []Source) (*Report, error) {
		r, err := read(sources)
		if err == nil {
			r.namesakes("in another file", func(id string) string { _, titles, _ := strings.Cut(id, " > "); return titles })
		}
		return r, err
	}
}

// count is how many tests have one of the statuses.
func (r *Report) count(of ...Status) (n int) {
	for _, t := range r.Tests {
		for _, s := range of {
			if t.Status == s {
				n++
			}
		}
	}
	return n
}
