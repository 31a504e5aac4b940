package scripted

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"turns:\n  - txt: x\n":                                            `s.yaml:2: unknown field "txt"`,
		"turns:\n  - text: [1]\n":                                         "s.yaml:2: ",
		"turns:\n  - text: a\n  - calls: [{bash: a, read: b}]\n":          "s.yaml:3: a call is exactly one",
		"turns:\n  - calls:\n      - {tool: x, args: {}, arguments: y}\n": "s.yaml:3: args and arguments",
		"turns:\n  - calls:\n      - {bash: x, args: {a: 1}}\n":           "s.yaml:3: args and arguments belong",
		"turns:\n  - calls: [{write: {content: x}}]\n":                    "s.yaml:2: write needs a path",
		"turns:\n  - stop: bored\n":                                       `s.yaml:2: stop "bored"`,
		"turns:\n  - fault: {kind: flood}\n":                              `s.yaml:2: no fault "flood"`,
		"faults:\n  - {kind: cut, status: 500}\n":                         "s.yaml:2: a status beside",
		"faults:\n  - {status: 200}\n":                                    "s.yaml:2: status 200",
		"faults:\n  - {kind: cut, first: -1}\n":                           "s.yaml:2: numbers",
		"scripts:\n  - when: {task: '('}\n":                               "s.yaml:2: error parsing regexp",
		"dialects: [chat, latin]\n":                                       `s.yaml:1: no dialect "latin"`,
		"turns: [{text: a}]\nscripts: [{name: x}]\n":                      "s.yaml:1: turns beside scripts",
		"turns:\n  - {times: 100001}\n":                                   "s.yaml:2: more than 100000 turns",
		"turns:\n  - {times: 99999}\n  - {times: 2}\n":                    "s.yaml:3: more than 100000 turns",
		"a: &x [1]\nb: *x\n":                                              "s.yaml:1: anchors",
		"turns: [\n":                                                      "s.yaml:",
		"turns: []\n---\nturns: []\n":                                     "2 documents",
		"pace: -1s":                                                       "s.yaml:",
		"turns:\n  - {text: a, again: [{text: b, again: [{text: c}]}]}":   "s.yaml:2: again and times",
		strings.Repeat("#", 9<<20):                                        "larger than",
	} {
		_, err := Parse("s.yaml", []byte(in))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v; want %s", in, err, want)
		}
	}
	for _, in := range []string{"", "# nothing\n", "turns: []\n", "key: x\n"} {
		if _, err := Parse("s.yaml", []byte(in)); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := Open("/nonexistent/x.yaml"); err == nil {
		t.Error("a file that is not there was opened")
	}
}

func TestTimes(t *testing.T) {
	f, err := Parse("s.yaml", []byte("turns:\n  - {text: 'no {n}', times: 3, calls: [{bash: 'echo {n}'}, {write: {path: 'f{n}', content: '{n}'}}]}\n  - {text: '{n} stays'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tn := range f.Scripts[0].Turns {
		s := tn.Text
		for _, c := range tn.Calls {
			if c.Bash != nil {
				s += "|" + *c.Bash
			} else {
				s += "|" + c.Write.Path + c.Write.Content
			}
		}
		got = append(got, s)
	}
	if want := "[no 1|echo 1|f11 no 2|echo 2|f22 no 3|echo 3|f33 {n} stays]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// No text makes the reader panic, and what it takes has turns within bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte("turns:\n  - {text: a, calls: [{bash: ls}], fault: {kind: cut, each: 1}}\n"))
	f.Add([]byte("scripts:\n  - {name: x, when: {task: y, tools: true}, turns: [{times: 3, text: '{n}'}]}\nfaults: [{status: 500}]\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse("f", b)
		if err != nil {
			return
		}
		for _, s := range file.Scripts {
			if len(s.Turns) > maxTurns {
				t.Fatalf("%d turns", len(s.Turns))
			}
		}
	})
}
