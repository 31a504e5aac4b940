package report

import (
	"strings"
	"testing"
)

func TestTAP(t *testing.T) {
	for _, c := range []struct {
		name, text string
		exit       int
		want       string // status and id of each test, in order
		void       FlagKind
	}{
		{"no plan", "ok 1 - a\n", 0, "passed a", FlagCut},
		{"plan first", "1..2\nok 1 - a\nok 2 - b\n", 0, "passed a|passed b", ""},
		{"plan first, cut off", "1..2\nok 1 - a\n", 0, "passed a", FlagCounts},
		{"a point too many", "1..1\nok 1 - a\nok 2 - b\n", 0, "passed a|passed b", FlagCounts},
		{"a pass behind a failure", "1..2\nnot ok 1 - a\nok 1 - a\n", 1, "failed a|passed a (2)", FlagCounts},
		{"two plans", "1..1\nok 1 - a\n1..1\n", 0, "passed a", FlagCounts},
		{"a second stream", "1..1\nnot ok 1 - a\nTAP version 13\n1..1\nok 1 - a\n", 1, "failed a|passed a (2)", FlagStray},
		{"status 0 and a failure", "1..1\nnot ok 1 - a\n", 0, "failed a", FlagExit},
		{"status 1 and no failure", "1..1\nok 1 - a\n", 1, "passed a", FlagExit},
		{"no numbers", "1..2\nok a\nnot ok\n", 1, "passed a|failed #2", ""},
		{"directives", "1..5\nok 1 - a # SKIP no\nnot ok 2 b # TODO yet\nok 3 c # todo\nok 4 d \\# skip\nok 5 # skipped: e\n", 0,
			"skipped a|xfailed b|xpassed c|passed d # skip|skipped #5", ""},
		{"bail out", "1..3\nok 1 a\nBail out! no use\n", 1, "passed a", ""},
		{"bail out with status 0", "1..3\nok 1 a\nBail out! no use\n", 0, "passed a", FlagExit},
		{"a failed subtest below a pass", "    not ok 1 - b\n    1..1\nok 1 - a\n1..1\n", 0, "failed a > b|passed a", FlagCounts},
		{"a subtest without a plan", "    ok 1 - b\nok 1 - a\n1..1\n", 0, "passed a > b|passed a", FlagCounts},
		{"a subtest without its result", "1..1\nok 1 - a\n# Subtest: c\n    ok 1 - b\n    1..1\n", 0, "passed a", FlagCut},
		{"a todo below a pass", "    not ok 1 - b # TODO\n    1..1\nok 1 - a\n1..1\n", 0, "xfailed a > b|passed a", ""},
		{"braces", "ok 1 - a {\n    1..1\n    ok 1 - b\n}\nok 2 - c {\nok 3 - d\n1..3\n", 0, "passed a > b|passed a|passed c {|passed d", ""},
		{"words that begin like a result", "1..1\nokay\nok-ish 2\nnot okay\nok 1 a\n", 0, "passed a", ""},
		{"results in a diagnostic", "1..1\nnot ok 1 a\n  ---\n  out: |\n    ok 1 a\n  ok 1 a\n  ...\n", 1, "failed a", ""},
		{"CR LF", "1..1\r\nok 1 - a\r\n", 0, "passed a", ""},
		{"tape", "TAP version 13\n# g\nok 1 a\n# g\nok 2 a\n\n1..2\n# tests 2\n# pass  2\n\n# ok\n", 0, "passed g > a|passed g > a (2)", ""},
		{"tape, its numbers edited", "TAP version 13\n# g\nok 1 a\n\n1..1\n# tests 2\n# pass  2\n\n# ok\n", 0, "passed g > a", FlagCounts},
		{"tape, cut off", "TAP version 13\n# g\nok 1 a\n\n1..1\n", 0, "passed g > a", FlagCut},
	} {
		r, err := Read("tap", []Source{{Name: "stdout", Data: []byte(c.text)}}, c.exit)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, test := range r.Tests {
			got = append(got, string(test.Status)+" "+test.ID)
		}
		if g := strings.Join(got, "|"); g != c.want {
			t.Errorf("%s: got %s, want %s", c.name, g, c.want)
		}
		if void := r.Void(); (void == "") != (c.void == "") || c.void != "" && !r.flagged(c.void) {
			t.Errorf("%s: void %q, want %q", c.name, void, c.void)
		}
	}
	// Several files, as prove --archive leaves them, name their tests.
	r, err := Read("tap", []Source{
		{Name: "out/t/a.t", Data: []byte("1..1\nok 1 - same\n")},
		{Name: "out/t/b.t", Data: []byte("1..1\nok 1 - same\n")},
		{Name: "out/t/c.t", Data: []byte("1..0 # SKIP no\n")},
	}, 0)
	if err != nil || find(r, "out/t/a.t > same") != Passed || find(r, "out/t/b.t > same") != Passed || find(r, "out/t/c.t") != Skipped {
		t.Errorf("files: %v, %v", r, err)
	}
}
