package program

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Mode is a word of a plan's "compare".
type Mode string

const (
	Exact         Mode = "exact"          // byte by byte; of values: equal
	Text          Mode = "text"           // but for white space at line ends and empty lines at the end; the default of programs
	Tokens        Mode = "tokens"         // the same words, whatever is between them
	Numbers       Mode = "numbers"        // words; numbers among them within the tolerances
	JSON          Mode = "json"           // the same structure
	JSONUnordered Mode = "json-unordered" // with lists in any order
	Unordered     Mode = "unordered"      // of a function: the items in any order, as often
	AsSet         Mode = "set"            // of a function: the same items, however often
	Truth         Mode = "truth"          // of a function: as true or as false as what is wanted
	SQL           Mode = "sql"            // rows
)

// Modes lists what a group of cases may compare by; called: of functions.
func Modes(called bool) []Mode {
	if called {
		return []Mode{Exact, Numbers, Unordered, AsSet, Truth}
	}
	return []Mode{Text, Exact, Tokens, Numbers, JSON, JSONUnordered}
}

// DefaultTolerance is both tolerances of "numbers" where the plan has none.
const DefaultTolerance = 1e-6

// differText says in one line where got is not the wanted text; empty: it is.
func differText(m Mode, e Equality, want, got string) string {
	switch m {
	case Exact:
		return differLines(want, got, func(w, g string) bool { return w == g })
	case Tokens, Numbers:
		w, g := strings.Fields(want), strings.Fields(got)
		for i := range min(len(w), len(g)) {
			if w[i] != g[i] && !(m == Numbers && e.sameNumber(w[i], g[i])) {
				return fmt.Sprintf("word %d: want %q, got %q", i+1, shorten(w[i], shown), shorten(g[i], shown))
			}
		}
		if len(w) != len(g) {
			return fmt.Sprintf("want %d words, got %d", len(w), len(g))
		}
		return ""
	case JSON, JSONUnordered:
		return e.differJSON(m == JSONUnordered, want, got)
	}
	return differLines(trimmed(want), trimmed(got), func(w, g string) bool { return w == g })
}

func (e Equality) differJSON(unordered bool, want, got string) string {
	w, err := ParseJSON([]byte(want))
	if err != nil {
		return "what is expected is not JSON: " + err.Error()
	}
	g, err := ParseJSON([]byte(got))
	if err != nil {
		return "not JSON: " + err.Error()
	}
	e.Unordered = unordered
	return e.Differ(w, g)
}

// trimmed is s without white space at line ends and without empty lines at the end.
func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRightFunc(l, unicode.IsSpace)
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

func differLines(want, got string, same func(w, g string) bool) string {
	if same(want, got) {
		return ""
	}
	w, g := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d: want %q, got %q", i+1, shorten(w[i], shown), shorten(g[i], shown))
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// sameNumber compares two words as numbers.
func (e Equality) sameNumber(want, got string) bool {
	w, ok := numeral(want)
	g, ok2 := numeral(got)
	return ok && ok2 && e.numbers(w, g)
}

// numeral reads a decimal number, inf or nan, and no other spelling that Go or
// C would take.
func numeral(s string) (Value, bool) {
	body := strings.TrimLeft(s, "+-")
	if len(s)-len(body) > 1 {
		return Value{}, false
	}
	if !slices.Contains([]string{"nan", "inf", "infinity"}, strings.ToLower(body)) && strings.Trim(body, "0123456789.eE+-") != "" {
		return Value{}, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !strings.Contains(err.Error(), "range") {
		return Value{}, false
	}
	return Value{Kind: Float, F: f}, true
}

// truth is what a condition makes of v in Python.
func truth(v Value) bool {
	switch v.Kind {
	case Null:
		return false
	case Bool:
		return v.B
	case Int:
		return v.I.Sign() != 0
	case Float:
		return v.F != 0
	case Complex:
		return v.Items[0].F != 0 || v.Items[1].F != 0
	case String, Bytes:
		return v.S != ""
	case List, Tuple, Set, Dict:
		return len(v.Items) > 0
	case Range:
		return rangeKey(v.Items[0].I, v.Items[1].I, v.Items[2].I) != "r;"
	}
	return true
}

// differValue compares what a function returned.
func differValue(m Mode, e Equality, want, got Value) string {
	switch m {
	case Unordered:
		return e.Anyorder(want, got)
	case AsSet:
		return e.AsSets(want, got)
	case Truth:
		if truth(want) == truth(got) {
			return ""
		}
		return fmt.Sprintf("want what is %v, got %v", truth(want), got)
	}
	return e.Differ(want, got)
}
