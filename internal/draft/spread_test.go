package draft

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// Where each test's lines are, in the languages' own ways to begin one.
func TestStretches(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       map[string]string // an id, and a text that its lines hold; empty: it is nowhere
		not        string            // that they do not
	}{
		{"test_a.py", "import x\n\ndef test_one():\n    def inner():\n        pass\n    assert one\n\ndef helper():\n    assert help\n\nclass T:\n    def test_two(self):\n        assert two\n    def twice(self): pass\n\ndef twice():\n    assert 3\n",
			map[string]string{"test_a.py::test_one": "assert one", "test_a.py::T::test_two": "assert two", "test_a.T.test_two": "assert two", "test_a.py::test_one[1-x]": "assert one", "test_a.py::twice": ""}, "assert help"},
		{"test_b.py", "class A:\n    def test_x(self):\n        assert in_a\n\nclass B:\n    def test_x(self):\n        assert in_b\n",
			map[string]string{"test_b.py::A::test_x": "assert in_a", "test_b.B.test_x": "assert in_b", "test_b.py::C::test_x": ""}, ""},
		{"a_test.go", "package a\n\nfunc TestOne(t *testing.T) {\n\tone()\n}\n\nfunc (s *S) help() {\n\thelp()\n}\n\nfunc TestTwo(t *testing.T) {\n\ttwo()\n}\n",
			map[string]string{"example.org/a::TestOne": "one()", "example.org/a::TestTwo/some_case": "two()", "example.org/a::TestThree": ""}, "help()"},
		{"a.test.js", "describe('math', () => {\n  it('adds', () => {\n    adds()\n  })\n  it(\"takes away\", () => {\n    takes()\n  })\n})\ntest(`whole`, t => {\n  whole()\n})\n",
			map[string]string{"a.test.js > math > adds": "adds()", "a.test.js > math > takes away": "takes()", "whole > should be": "whole()"}, ""},
		{"t.rs", "#[test]\nfn plain() {\n    plain_();\n}\nmod m {\n    #[test]\n    fn deep() {\n        deep_();\n    }\n}\n",
			map[string]string{"tests/t.rs[t] plain": "plain_()", "tests/t.rs[t] m::deep": "deep_()"}, ""},
		{"ATest.java", "class ATest {\n    @Test\n    public void adds() throws Exception {\n        adding();\n    }\n\n    private static int help(int x) {\n        helping();\n    }\n}\n",
			map[string]string{"org.a.ATest::adds": "adding()", "org.a.ATest::adds{int}[1]": "adding()"}, "helping()"},
		{"parse_hex4.c", "static void all(void) {\n    hex();\n}\nint main(void) {\n    all();\n}\n",
			map[string]string{"parse_hex4": "hex()", "parse_number": "", "main": "all()"}, ""},
	} {
		for id, want := range c.want {
			got := ""
			for _, st := range stretches(c.file, []byte(c.text), map[string][]string{"unit": {id}}) {
				got += c.text[st.from:st.to]
			}
			if (want == "") != (got == "") || !strings.Contains(got, want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("%s: the lines of %s are\n%s", c.file, id, got)
			}
		}
	}
}

// Candidates of many tests are tried together: those that break their own test
// are kept, one that breaks another's, or none, is not.
func TestSpread(t *testing.T) {
	text := ""
	var ids []string
	for i := range 6 {
		text += fmt.Sprintf("def test_%d():\n    assert f(%d) == %d\n    assert f(10%d) == 20%d\n\n", i, i, 100+i, i, i)
		ids = append(ids, fmt.Sprintf("t.py::test_%d", i))
	}
	s := &search{plan: &checks.Plan{Version: 1, Commands: []checks.Command{{Name: "unit", Report: "pytest-log", PassToPass: ids}}}, hunt: Hunt{Files: map[string]string{"unit:t.py::test_5": "/elsewhere.py"}},
		hopes: []string{"unit"}, content: map[string][]byte{}, queue: map[string][]checks.Canary{}, caught: map[string][]checks.Canary{}, lists: map[string]map[string]bool{"unit": setOf(ids)}}
	s.offer("/app/t.py", []byte(text))
	all := s.everywhere()
	hopes := s.oneEach(all)
	if len(hopes) != 5 {
		t.Fatalf("%d tests have candidates", len(hopes))
	}
	p := s.withAll(hopes)
	if got := p.Commands[0].Canaries; len(got) != 5 || got[3].Breaks[0] != ids[3] || got[3].Old != hopes[3].Old {
		t.Fatalf("plan %+v", got)
	}
	// 1 breaks nothing, 2 breaks the fifth test as well, and 4 was never in place.
	run := func(planted ...int) spreadRun {
		r, k := ran{Name: "unit", Tests: 6, Passed: ids}, ran{Name: "unit", Tests: 6, Exit: 1}
		for i, id := range ids {
			if i != 1 && slices.Contains(planted, i) || i == 5 && slices.Contains(planted, 2) {
				k.NotPassed = append(k.NotPassed, test{ID: id, Status: "failed"})
			} else {
				k.Passed = append(k.Passed, id)
			}
		}
		out := spreadRun{evidence: evidence{Commands: []ran{r}, Canary: []ran{k}}}
		for _, i := range planted {
			out.planted = append(out.planted, hopes[i])
		}
		return out
	}
	if unread := s.learn(hopes, []spreadRun{run(0, 1, 2), run(1, 2, 3), {planted: hopes[3:]}}); !maps.Equal(unread, map[*hope]bool{hopes[4]: false}) {
		t.Errorf("not read: %v", unread)
	}
	got := map[string]string{}
	for _, k := range s.caught["unit"] {
		got[strings.Join(k.Breaks, " ")] = k.File
	}
	if want := map[string]string{ids[0]: "/app/t.py", ids[3]: "/app/t.py"}; !maps.Equal(got, want) {
		t.Errorf("caught %v, want %v", got, want)
	}
	// The others have another try, and what was caught stays.
	again := s.oneEach(all)
	if len(again) != 3 || again[0].in != hopes[1].in || again[0].Old == hopes[1].Old {
		t.Errorf("again: %+v", again)
	}
	// Any two are apart in some run.
	for i := range hopes {
		for j := range i {
			apart := false
			for r := range 6 {
				in := half(hopes, r, 6)
				apart = apart || slices.Contains(in, hopes[i]) != slices.Contains(in, hopes[j])
			}
			if !apart {
				t.Errorf("candidates %d and %d are always in place together", j, i)
			}
		}
	}
	// One of them ends the run: those of after it have another try.
	ended := run(0, 3)
	ended.planted = []*hope{again[0], again[1], again[2]}
	ended.Canary = []ran{{Name: "unit", Tests: 3, Exit: 2, Passed: ids[:2:2], NotPassed: ended.Canary[0].NotPassed[:1:1]}}
	ended.Canary[0].NotPassed[0].ID = ids[2]
	if unread := s.learn(again, []spreadRun{ended}); !maps.Equal(unread, map[*hope]bool{again[2]: true}) {
		t.Errorf("after a run that ended early: %v", unread)
	}
	if n := len(s.caught["unit"]); n != 2 {
		t.Errorf("%d canaries are caught", n)
	}
}

// Reports are in the order of ids, so that nothing tells which of two changed
// tests ended a run, but a run that only one of them is in.
func TestSpreadAfterAPanic(t *testing.T) {
	text := ""
	var ids []string
	for i := range 5 {
		text += fmt.Sprintf("func Test%d(t *testing.T) {\n\tif f(%d) != %d {\n\t\tt.Fatal()\n\t}\n}\n\n", i, i, 100+i)
		ids = append(ids, fmt.Sprintf("a::Test%d", i))
	}
	// Test0 panics where it is changed; tests run from the last to the first.
	run := func(kinds bool, hopes []*hope, planted ...int) spreadRun {
		k := ran{Name: "unit", Exit: 1}
		for _, i := range []int{4, 2, 0, 1, 3} {
			if i == 0 && slices.Contains(planted, 0) || slices.Contains(planted, i) {
				kind := ""
				if kinds {
					kind = map[bool]string{true: "exception", false: "assertion"}[i == 0]
				}
				k.NotPassed = append(k.NotPassed, test{ids[i], "failed", kind})
			} else {
				k.Passed = append(k.Passed, ids[i])
			}
			if k.Tests++; i == 0 && slices.Contains(planted, 0) {
				break
			}
		}
		slices.Sort(k.Passed)
		slices.SortFunc(k.NotPassed, func(a, b test) int { return strings.Compare(a.ID, b.ID) })
		out := spreadRun{evidence: evidence{Commands: []ran{{Name: "unit", Tests: 5, Passed: ids}}, Canary: []ran{k}}}
		for _, i := range planted {
			out.planted = append(out.planted, hopes[i])
		}
		return out
	}
	for name, c := range map[string]struct {
		runs           [][]int
		caught, unread []int
		kinds          bool
	}{
		"two of which one was in a whole run":  {[][]int{{0, 2}, {1, 2}}, []int{1, 2}, []int{0}, false},
		"two that were in no other run":        {[][]int{{0, 2}, {1, 3}}, []int{1, 3}, []int{0, 2}, false},
		"one alone":                            {[][]int{{0, 3}, {1, 4}}, []int{1, 4}, []int{3}, false},
		"one alone, and another run with both": {[][]int{{0, 3}, {0, 4}, {3, 4}}, []int{3, 4}, nil, false},
		"one raised more than an assertion":    {[][]int{{0, 2, 1}, {4, 3}}, []int{2, 3, 4}, []int{1}, true},
		"nobody ends it":                       {[][]int{{1, 2}, {3, 4}}, []int{1, 2, 3, 4}, nil, false},
	} {
		s, hopes := searching(t, "go-test", ids, "/app/a_test.go", text, 5)
		var runs []spreadRun
		for _, planted := range c.runs {
			runs = append(runs, run(c.kinds, hopes, planted...))
		}
		want := map[*hope]bool{}
		for _, i := range c.unread {
			want[hopes[i]] = true
		}
		if unread := s.learn(hopes, runs); !maps.Equal(unread, want) {
			t.Errorf("%s: of %d nothing is told, want %v", name, len(unread), c.unread)
		}
		var got []string
		for _, k := range s.caught["unit"] {
			got = append(got, k.Breaks...)
		}
		var right []string
		for _, i := range c.caught {
			right = append(right, ids[i])
		}
		if slices.Sort(got); !slices.Equal(got, right) {
			t.Errorf("%s: caught %q, want %q", name, got, right)
		}
	}
}

// A test that other classes inherit is broken there, too, by a change in it: it
// is known by its name, and by its failing with that change and never without.
func TestSpreadOfWhatIsInherited(t *testing.T) {
	text := "class TestA:\n    def test_one(self):\n        assert f(1) == 10\n\n    def test_two(self):\n        assert f(2) == 20\n\n    def test_three(self):\n        assert f(3) == 30\n"
	own := []string{"t.py::TestA::test_one", "t.py::TestA::test_two", "t.py::TestA::test_three"}
	all := append(slices.Clone(own), "u.py::TestB::test_one", "u.py::TestB::test_three", "u.py::TestB::test_other")
	s, hopes := searching(t, "pytest-log", all, "/app/t.py", text, 3, all[3:]...)
	run := func(planted []int, failed ...string) spreadRun {
		k := ran{Name: "unit", Exit: 1, Tests: len(all)}
		for _, id := range all {
			if slices.Contains(failed, id) {
				k.NotPassed = append(k.NotPassed, test{ID: id, Status: "failed"})
			} else {
				k.Passed = append(k.Passed, id)
			}
		}
		out := spreadRun{evidence: evidence{Commands: []ran{{Name: "unit", Tests: len(all), Passed: all}}, Canary: []ran{k}}}
		for _, i := range planted {
			out.planted = append(out.planted, hopes[i])
		}
		return out
	}
	// What fails with a change once, and once does not, is not inherited.
	s.learn(hopes, []spreadRun{run([]int{0}, own[0], all[3]), run([]int{0, 1}, own[0], own[1])})
	if got := s.caught["unit"]; len(got) != 1 || !slices.Equal(got[0].Breaks, own[1:2]) {
		t.Errorf("caught %+v, want what breaks %s", got, own[1])
	}
	// What breaks test_three breaks a test of another name as well.
	s.caught["unit"] = nil
	s.learn(hopes, []spreadRun{run([]int{0, 1}, own[0], own[1], all[3]), run([]int{1, 2}, own[1], own[2], all[4], all[5]), run([]int{2}, own[2], all[4], all[5])})
	got := map[string]bool{}
	for _, k := range s.caught["unit"] {
		got[strings.Join(k.Breaks, " ")] = true
	}
	if want := setOf([]string{own[0] + " " + all[3], own[1]}); !maps.Equal(got, want) {
		t.Errorf("caught %v, want %v", got, want)
	}
}

// searching is a search in one file, and its first candidates, so many; some
// ids are known to be of another file.
func searching(t *testing.T, format report.Format, ids []string, file, text string, want int, elsewhere ...string) (*search, []*hope) {
	t.Helper()
	files := map[string]string{}
	for _, id := range elsewhere {
		files["unit:"+id] = "/elsewhere"
	}
	s := &search{plan: &checks.Plan{Version: 1, Commands: []checks.Command{{Name: "unit", Report: format, PassToPass: ids}}}, hunt: Hunt{Files: files},
		hopes: []string{"unit"}, content: map[string][]byte{}, queue: map[string][]checks.Canary{}, caught: map[string][]checks.Canary{}, lists: map[string]map[string]bool{"unit": setOf(ids)}}
	s.offer(file, []byte(text))
	hopes := s.oneEach(s.everywhere())
	if len(hopes) != want {
		t.Fatalf("%d tests have candidates, want %d", len(hopes), want)
	}
	return s, hopes
}

func setOf(ids []string) map[string]bool {
	m := map[string]bool{}
	for _, id := range ids {
		m[id] = true
	}
	return m
}

// Where a plan says which tests have to be made pass, those are wanted that no
// canary breaks; where it does not, all.
func TestSpreadWantsWhatFails(t *testing.T) {
	text := "def test_a():\n    assert f(1) == 1\n\ndef test_b():\n    assert f(2) == 2\n\ndef test_c():\n    assert f(3) == 3\n"
	for _, c := range []struct {
		failing, broken []string
		want            []string
	}{
		{nil, nil, []string{"t.py::test_a", "t.py::test_b", "t.py::test_c"}},
		{[]string{"t.py::test_a", "t.py::test_c"}, nil, []string{"t.py::test_a", "t.py::test_c"}},
		{[]string{"t.py::test_a", "t.py::test_c"}, []string{"t.py::test_a"}, []string{"t.py::test_c"}},
		{[]string{"t.py::test_a"}, []string{"t.py::test_a"}, nil},
	} {
		all := []string{"t.py::test_a", "t.py::test_b", "t.py::test_c"}
		k := checks.Command{Name: "unit", Report: "pytest-log", FailToPass: c.failing}
		k.PassToPass = slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(c.failing, id) })
		s := &search{plan: &checks.Plan{Version: 1, Commands: []checks.Command{k}}, hopes: []string{"unit"}, content: map[string][]byte{}, queue: map[string][]checks.Canary{},
			caught: map[string][]checks.Canary{}, lists: map[string]map[string]bool{"unit": setOf(all)}}
		if c.broken != nil {
			s.caught["unit"] = []checks.Canary{{File: "t.py", Breaks: c.broken}}
		}
		s.offer("t.py", []byte(text))
		var got []string
		for _, st := range s.wanting(s.everywhere()) {
			got = append(got, st.ids["unit"]...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("failing %q, broken %q: %q, want %q", c.failing, c.broken, got, c.want)
		}
	}
}
