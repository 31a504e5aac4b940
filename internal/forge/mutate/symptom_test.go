package mutate

import (
	"strings"
	"testing"

	"assay/internal/forge"
	"assay/internal/repo"
)

// Messages as the runners of all ecosystems word them.
func TestClassify(t *testing.T) {
	for _, c := range []struct{ message, kind, want, got string }{
		{"assertion failed: matches.is_match(\"a\")", "holds", `matches.is_match("a")`, ""},
		{"cJSON: tests.c:12: main: Assertion `x == 3' failed.", "holds", "x == 3", ""},
		{"panicked at src/lib.rs:3:5:\nindex out of bounds: the len is 2 but the index is 2", "panics", "panicked", "index out of bounds: the len is 2 but the index is 2"},
		{"panic: runtime error: index out of range [3] with length 3", "panics", "panic", "runtime error: index out of range [3] with length 3"},
		{"assertion `left == right` failed: widths\n  left: 1\n right: 2", "equal", "1", "2"},
		{"URL(\"/a\") = \"/b\", want \"/a\"", "differs", `"/a"`, `"/b"`},
		{"expected methods \"GET,OPTIONS\" but got: \"\"", "differs", `methods "GET,OPTIONS"`, `""`},
		{"Expected 7 routes, found 2", "differs", "7 routes", "2"},
		{"Parse returned 3; expected 4", "differs", "4", "3"},
		{"Error:      \tNot equal: \nexpected: 1\nactual  : 2\nTest: TestX", "differs", "1", "2"},
		{"AssertionError: expected 'a' to be 'b' // Object.is equality", "differs", "'b'", "'a'"},
		{"AssertionError: expected 1 to strictly equal 2", "differs", "2", "1"},
		{"Expected values to be strictly equal:\n+ actual - expected\n\n+ 'a'\n- 'b'", "differs", "'b'", "'a'"},
		{"AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:\n\n3 !== 4\n", "equal", "3", "4"},
		{"An error is expected but got nil.", "accepts", "error", ""},
		{"expect(received).toThrow(expected)\n\nReceived function did not throw", "accepts", "error", ""},
		{"Error: expect(received).toEqual(expected) // deep equality\n\n- Expected  - 1\n+ Received  + 2", "", "", ""},
		{"java.lang.IllegalStateException: closed", "raises", "java.lang.IllegalStateException", "closed"},
		{"org.opentest4j.AssertionFailedError: expected: <1> but was: <2>", "differs", "1", "2"},
		{"AssertionError: ", "", "", ""},
	} {
		if kind, want, got := classify(c.message); kind != c.kind || want != c.want || got != c.got {
			t.Errorf("%q: %s, %q, %q", c.message, kind, want, got)
		}
	}
}

// What says nothing is left out, and values that the runner cut are no values.
func TestDescribeVague(t *testing.T) {
	w := &forge.World{Env: &repo.Environment{Name: "n", Workdir: "/app"}}
	say := func(message string) string {
		s := New(Config{}).Describe(w, forge.Candidate{Name: "x", Notes: map[string]string{"functions": "Table.render_all"}},
			forge.Seen{Failed: []forge.Failure{{ID: "pytest:tests/test_a.py::test_grid", Message: message}}})
		return s.Title + "\n" + s.Body
	}
	long := "AssertionError: assert {'type': 'obj...': False, ...} == {'$id': 'my-i...bject'}}, ...}\n  Omitting 3 identical items, use -vv to show\n" +
		"  Right contains 1 more item:\n  {'title': 'A'}\n  Use -v to get more diff"
	for _, c := range []struct {
		message string
		is, not []string
	}{
		{"AssertionError: ", []string{"`tests/test_a.py::test_grid`"}, []string{"AssertionError"}},
		{long, []string{"Right contains 1 more item", "{'title': 'A'}"}, []string{"obj...", "-vv", "Use -v"}},
		{"TypeError: render_all() takes 1 argument", []string{"TypeError"}, []string{"render_all"}},
		{"assert render_all(1) == 2", []string{"test_grid"}, []string{"render_all"}},
	} {
		got := say(c.message)
		for _, s := range c.is {
			if !strings.Contains(got, s) {
				t.Errorf("%q: no %q in\n%s", c.message, s, got)
			}
		}
		for _, s := range c.not {
			if strings.Contains(got, s) {
				t.Errorf("%q: %q in\n%s", c.message, s, got)
			}
		}
	}
	if got := say("TypeError: x"); strings.Contains(got, "bad input") {
		t.Errorf("an error that comes is taken for one that does not:\n%s", got)
	}
}
