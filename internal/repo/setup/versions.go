package setup

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// constraint is a version that a project wants.
type constraint struct {
	text string
	from string // the file
	soft bool
}

// constraints are the wishes of a project's files, the first of each place.
func constraints(wants []want, t *tree) []constraint {
	var out []constraint
	for _, w := range wants {
		for _, f := range t.match(w.File) {
			m := regexp.MustCompile(w.Matches).FindStringSubmatch(t.text(f))
			if m == nil {
				continue
			}
			text := w.Value
			if text == "" && len(m) > 1 {
				text = m[1]
			}
			if w.Kind == "min" {
				text = ">=" + text
			}
			out = append(out, constraint{text, f, w.Soft})
			break
		}
	}
	return out
}

// pick takes the first toolchain that every wish allows, else the first that
// every firm one does, else the first.
func (e *ecosystem) pick(wants []constraint) (int, string) {
	for _, soft := range []bool{true, false} {
		for i, t := range e.Toolchains {
			ok := true
			for _, w := range wants {
				ok = ok && (w.soft && !soft || satisfies(t.Version, w.text))
			}
			if ok {
				return i, fmt.Sprintf("%s %s on %s%s", e.Name, t.Version, t.Base, because(wants))
			}
		}
	}
	t := e.Toolchains[0]
	return 0, fmt.Sprintf("%s %s on %s, although no toolchain here is what the project wants%s", e.Name, t.Version, t.Base, because(wants))
}

func because(wants []constraint) string {
	var s []string
	for _, w := range wants {
		s = append(s, fmt.Sprintf("%.40q in %s", w.text, w.from))
	}
	if len(s) == 0 {
		return ""
	}
	return " (" + strings.Join(s, ", ") + ")"
}

var comparator = regexp.MustCompile(`(>=|<=|==|!=|~=|=|>|<|\^|~)?\s*v?(\d+(?:\.(?:\d+|\*|x))*)`)

// satisfies holds a version, "3.13", against a constraint in the words of pip
// or npm. What it does not understand it allows.
func satisfies(version, text string) bool {
	v := parseVersion(version)
	for alternative := range strings.SplitSeq(text, "||") {
		all := true
		for _, m := range comparator.FindAllStringSubmatch(alternative, 20) {
			want := parseVersion(m[2])
			c := compareVersions(v, want)
			same := compareVersions(v[:min(len(v), len(want))], want[:min(len(v), len(want))]) == 0
			switch m[1] {
			case ">=":
				all = all && (c >= 0 || same)
			case ">":
				all = all && c > 0
			case "<=":
				all = all && (c <= 0 || same)
			case "<":
				all = all && c < 0
			case "!=":
				all = all && !(same && len(want) <= len(v))
			case "^":
				all = all && (c >= 0 || same) && v[0] == want[0]
			case "~=", "~":
				all = all && (c >= 0 || same) && v[0] == want[0]
			default:
				all = all && same
			}
		}
		if all {
			return true
		}
	}
	return false
}

func parseVersion(s string) []int {
	var out []int
	for p := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(p)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	if len(out) == 0 {
		return []int{0}
	}
	return out
}

func compareVersions(a, b []int) int {
	for i := range max(len(a), len(b)) {
		var x, y int
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// neighbour is the toolchain with the next older or newer version; -1: none.
func (e *ecosystem) neighbour(at int, way string) int {
	best, now := -1, parseVersion(e.Toolchains[at].Version)
	for i, t := range e.Toolchains {
		v := parseVersion(t.Version)
		c := compareVersions(v, now)
		if way == "older" && c >= 0 || way == "newer" && c <= 0 {
			continue
		}
		if best < 0 || (way == "older") == (compareVersions(v, parseVersion(e.Toolchains[best].Version)) > 0) {
			best = i
		}
	}
	return best
}
