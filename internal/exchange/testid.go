package exchange

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// IDFault says what is wrong with an expected test id.
type IDFault string

const (
	// IDTruncated: more [ than ], as where a log parser cut a parametrised
	// name at its first space.
	IDTruncated IDFault = "truncated"
	// IDAmbiguous: a truncated id that is the beginning of several others.
	IDAmbiguous IDFault = "ambiguous"
	// IDSpace: white space in it, which parsers that take the second word of a
	// line cut off.
	IDSpace IDFault = "space"
	// IDMangled: what no runner has in a test's name: colours, a duration, a
	// failure's message, an address, a temporary path.
	IDMangled IDFault = "mangled"
	// IDTwice: the id stands twice in one list.
	IDTwice IDFault = "twice"
	// IDBoth: the id stands in both lists.
	IDBoth IDFault = "both"
	// IDUnicode: not in Unicode's composed form, or no text at all.
	IDUnicode IDFault = "unicode"
)

// IDFinding is one fault of one id.
type IDFinding struct {
	Instance string  `json:"instance"`
	List     string  `json:"list"` // "FAIL_TO_PASS" or "PASS_TO_PASS"
	ID       string  `json:"id"`
	Fault    IDFault `json:"fault"`
	Detail   string  `json:"detail"`
}

func (f IDFinding) String() string {
	return fmt.Sprintf("%s: %s: %q is %s: %s", f.Instance, f.List, f.ID, f.Fault, f.Detail)
}

// Unusable reports whether a structured report can never hold the id.
func (f IDFinding) Unusable() bool {
	return f.Fault == IDTruncated || f.Fault == IDAmbiguous || f.Fault == IDMangled
}

// mangles are marks of text that a parser took for a part of a name.
var mangles = []struct {
	what string
	re   *regexp.Regexp
}{
	{"it holds a colour's escape", regexp.MustCompile(`\x1b\[|\[\d{1,2}(;\d{1,2})*m`)},
	{"it ends with a duration", regexp.MustCompile(`\s\(?\d+(\.\d+)?\s?m?s\)?$`)},
	{"it ends with a failure's message", regexp.MustCompile(`::\S+ - \S`)},
	{"it holds an address", regexp.MustCompile(`\b0x[0-9a-f]{8,}\b`)},
	{"it holds a temporary path", regexp.MustCompile(`/tmp/(tmp|pytest-)\w`)},
}

// CheckIDs finds the ids of a row that logs or reports will not hold as they
// stand there.
func CheckIDs(r *Row) []IDFinding {
	var all []IDFinding
	where := map[string]string{}
	for _, l := range []struct {
		name string
		ids  []string
	}{{"FAIL_TO_PASS", r.FailToPass}, {"PASS_TO_PASS", r.PassToPass}} {
		for _, id := range l.ids {
			add := func(f IDFault, detail string) {
				all = append(all, IDFinding{r.ID, l.name, id, f, detail})
			}
			switch where[id] {
			case "":
			case l.name:
				add(IDTwice, "it stands twice in this list")
			default:
				add(IDBoth, "it stands in both lists")
			}
			where[id] = l.name
			checkID(id, add)
		}
	}
	return append(all, ambiguous(r)...)
}

func checkID(id string, add func(IDFault, string)) {
	if !utf8.ValidString(id) || norm.NFC.String(id) != id {
		add(IDUnicode, "its characters are not in composed form: another spelling of the same name would be another id")
	}
	if truncated(id) {
		add(IDTruncated, "a bracket is open at its end: it was cut, probably at a space")
	}
	if strings.ContainsFunc(id, unicode.IsSpace) {
		add(IDSpace, "some parsers end an id at its first space")
	}
	if strings.TrimSpace(id) == "" {
		add(IDMangled, "it is empty")
	}
	for _, m := range mangles {
		if m.re.MatchString(id) {
			add(IDMangled, m.what)
		}
	}
}

func truncated(id string) bool { return strings.Count(id, "[") > strings.Count(id, "]") }

// ambiguous finds truncated ids that several other ids of the row begin with.
func ambiguous(r *Row) (all []IDFinding) {
	both := append(append([]string{}, r.FailToPass...), r.PassToPass...)
	for i, id := range both {
		if !truncated(id) {
			continue
		}
		n := 0
		for _, other := range both {
			if other != id && strings.HasPrefix(other, id) {
				n++
			}
		}
		list := "FAIL_TO_PASS"
		if i >= len(r.FailToPass) {
			list = "PASS_TO_PASS"
		}
		if n > 0 {
			all = append(all, IDFinding{r.ID, list, id, IDAmbiguous, fmt.Sprintf("%d other ids of the row begin with it", n)})
		}
	}
	return all
}
