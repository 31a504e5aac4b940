package draft

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"assay/internal/grade/checks"
)

// saw makes the evidence of a run: tests that passed, and those that did not.
func saw(t *testing.T, passed, failed string) evidence {
	t.Helper()
	r := map[string]any{"name": "unit", "exit": 1, "tests": len(strings.Fields(passed + " " + failed)), "passed": strings.Fields(passed)}
	var not []map[string]string
	for _, id := range strings.Fields(failed) {
		id, status, ok := strings.Cut(id, "=")
		if !ok {
			status = "failed"
		}
		not = append(not, map[string]string{"id": id, "status": status})
	}
	r["not_passed"] = not
	b, err := json.Marshal(map[string]any{"commands": []any{r}, "canary": []any{r}})
	if err != nil {
		t.Fatal(err)
	}
	var e evidence
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSortTests(t *testing.T) {
	gold := []evidence{saw(t, "new old flaky sometimes", "never"), saw(t, "new old sometimes", "never flaky"), saw(t, "new old sometimes", "never")}
	idle := []evidence{saw(t, "old flaky", "new sometimes"), saw(t, "old sometimes", "")}
	l, err := sortTests("unit", gold, idle)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, got, want string }{
		{"fail-to-pass", strings.Join(l.FailToPass, " "), "new"},
		{"pass-to-pass", strings.Join(l.PassToPass, " "), "old"},
		{"unstable", strings.Join(l.Unstable, " "), "flaky sometimes"},
		{"never", strings.Join(l.Never, " "), "never"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
	// Nothing done may leave no report at all: the work is what makes it build.
	if l, err := sortTests("unit", gold[1:], []evidence{{}}); err != nil || !slices.Equal(l.FailToPass, []string{"new", "old", "sometimes"}) {
		t.Errorf("%+v %v", l, err)
	}
	if _, err := sortTests("unit", []evidence{{}}, idle); err == nil || !strings.Contains(err.Error(), "left no report") {
		t.Errorf("%v", err)
	}
	cut := saw(t, "a", "b")
	cut.Commands[0].Tests = 5
	if _, err := sortTests("unit", []evidence{cut}, idle); err == nil {
		t.Error("an evidence that does not have all tests")
	}
}

func TestTake(t *testing.T) {
	for name, c := range map[string]struct {
		passed, failed, breaks string
		exit                   int
	}{
		"bites":                 {"b c", "a", "a", 1},
		"bites two":             {"c", "a b=error", "a b", 1},
		"one is not expected":   {"a b", "c", "", 1},
		"nothing fails":         {"a b c", "", "", 1},
		"status 0":              {"b c", "a", "", 0},
		"a test is gone":        {"c", "a", "", 1},
		"a test is skipped":     {"c", "a b=skipped", "", 1},
		"only skipped":          {"b c", "a=skipped", "", 1},
		"what is not run there": {"", "", "", 1},
	} {
		s := &search{
			hopes: []string{"unit"}, caught: map[string][]checks.Canary{}, lists: map[string]map[string]bool{"unit": {"a": true, "b": true}},
			content: map[string][]byte{"f": []byte("x == 1\n")}, unseen: map[string]int{},
		}
		e := saw(t, "a b c", "")
		e.Canary = saw(t, c.passed, c.failed).Canary
		e.Canary[0].Exit = c.exit
		s.take(checks.Canary{File: "f", Old: "x == 1", New: "x == 2"}, e)
		got := ""
		if k := s.caught["unit"]; len(k) > 0 {
			got = strings.Join(k[0].Breaks, " ")
		}
		if got != c.breaks {
			t.Errorf("%s: breaks %q, want %q", name, got, c.breaks)
		}
		// A second change of the same text is none.
		before := len(s.caught["unit"])
		s.take(checks.Canary{File: "f", Old: "x == 1", New: "x == 3"}, e)
		if len(s.caught["unit"]) != before {
			t.Errorf("%s: two canaries in one place", name)
		}
	}
}

// What tests are named after is tried first, and what no test reads last, and
// not for its own sake.
func TestTurnsOfFiles(t *testing.T) {
	s := &search{
		plan:  &checks.Plan{Commands: []checks.Command{{Name: "unit", FailToPass: []string{"parse_list"}}}},
		hunt:  Hunt{PerCommand: 1},
		files: []string{"lib/frame.c", "parse_list.c", "print.c"}, queue: map[string][]checks.Canary{}, unseen: map[string]int{},
		hopes: []string{"unit"}, caught: map[string][]checks.Canary{}, lists: map[string]map[string]bool{"unit": {"parse_list": true, "print": true}},
		content: map[string][]byte{"print.c": []byte("1"), "lib/frame.c": []byte("1")},
	}
	for _, f := range s.files {
		for _, c := range "abcdef" {
			s.queue[f] = append(s.queue[f], checks.Canary{File: f, Old: string(c)})
		}
	}
	turns := func(n int, want string) {
		t.Helper()
		var got []string
		for _, k := range s.next(n) {
			got = append(got, k.File)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("tried %q, want %q", s, want)
		}
	}
	turns(3, "parse_list.c print.c lib/frame.c")
	for range 2 {
		s.take(checks.Canary{File: "lib/frame.c", Old: "1", New: "2"}, saw(t, "parse_list print", ""))
	}
	e := saw(t, "parse_list print", "")
	e.Canary = saw(t, "parse_list", "print").Canary
	s.take(checks.Canary{File: "print.c", Old: "1", New: "2"}, e)
	turns(4, "parse_list.c print.c parse_list.c print.c")
}
