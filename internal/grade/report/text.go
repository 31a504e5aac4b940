package report

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// settle orders tests and flags by their names, for runners that run tests at
// the same time: two runs that went alike are told alike.
func (r *Report) settle() {
	slices.SortFunc(r.Tests, func(a, b Test) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(r.Flags, func(a, b Flag) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
}

// clip shortens text for people, at a whole character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
