package mirrors

import "strings"

// entry is one "key = value" of an INI file.
type entry struct {
	section, key, value string
	line                int
}

// ini reads what pip's configparser and npm's ini agree on: sections, key and
// value, comments, and values that go on in indented lines (pip's alone).
func ini(text string, continued bool) (all []entry) {
	section, n := "", 0
	for raw := range strings.Lines(text) {
		n++
		l := strings.TrimSpace(raw)
		switch {
		case l == "" || l[0] == '#' || l[0] == ';':
		case continued && (raw[0] == ' ' || raw[0] == '\t') && len(all) > 0:
			e := &all[len(all)-1]
			e.value = strings.TrimSpace(e.value + " " + l)
		case l[0] == '[' && strings.HasSuffix(l, "]"):
			section = l[1 : len(l)-1]
		default:
			key, value, ok := strings.Cut(l, "=")
			if !ok && continued {
				key, value, _ = strings.Cut(l, ":")
			}
			all = append(all, entry{section, strings.TrimSpace(key), strings.TrimSpace(value), n})
		}
	}
	return all
}
