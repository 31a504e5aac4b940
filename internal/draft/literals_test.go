package draft

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/grade/checks"
)

func TestCandidates(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a.py":      {"def test_x():\n    assert add(1, 2) == 30\n", `assert add\(1, 2\) == (31|32|29|3)`},
		"b.py":      {"        self.assertEqual(f(), 'a\\'b')\n", `self\.assertEqual\(f\(\), '[b-z]\\'b'\)|self\.assertEqual\(f\(\), 'a\\'[ac-z]'\)`},
		"c.py":      {"    assert f(x) is True\n", "assert f\\(x\\) is False"},
		"d.test.js": {"  expect(add(1, 2)).toBe(3);\n", `expect\(add\(1, 2\)\)\.toBe\([245]\);`},
		"e.js":      {"assert.strictEqual(f(), \"X\");\n", `assert\.strictEqual\(f\(\), "[A-WYZ]"\);`},
		"f_test.go": {"\tif got := Add(1, 2); got != 3 {\n", `if got := Add\(1, 2\); got != [245] \{`},
		"g.rs":      {"        assert_eq!(show(62), \"1 \\\"m\\\" 2 s\");\n        assert_eq!(show(3), \"3 s\");\n", `assert_eq!\(show\(62\), "3 s"\);`},
		"q.rs":      {"    assert_to_string(r, \"12\");\n", `assert_to_string\(r, "\d+"\);`},
		"r.py":      {"    assert_shown(f(7), 'no')\n", `assert_shown\(f\((7|[689])\), '(no|on|[a-z]{2})'\)`},
		"H.java":    {"        assertEquals(1.5, half(3), 1e-9);\n", `assertEquals\([23]\.5, half\(3\), 1e-9\);`},
		"i.c":       {"    assert(add(1, 2) == 3);\n", `assert\(add\(1, 2\) == [245]\);`},
		"j.sh":      {"[ \"$(prog 2)\" = 4 ] || exit 1\n", `\[ "\$\(prog 2\)" = 4 \] \|\| exit [23]`},
		"k.t":       {"is(add(1, 2), 3, 'adds');\n", `is\(add\(1, 2\), [245], 'adds'\);`},
		"p.js":      {"  t.equal(show(1), 'one')\n", `t\.equal\(show\(1\), '(eno|noe|oen)'\)`},
		"o.py":      {"    assert show(3) == 'v3.11'\n", `assert show\(3\) == 'v(\d\.\d\d)'`},
		"s.py":      {"    expected = \"\\n\".join(\n        [\n            \"| a1 |\",\n            \"|----|\",\n        ]\n    )\n    assert_equal(expected, got)\n", `"\| a\d \|",`},
		"t.js":      {"  const wanted = 'one two'\n  t.check(got, wanted)\n", `const wanted = '[a-z ]+'`},
		"l.txt":     {"assert 1 == 1\n", ""},
		"m.py":      {"x = 1\n", ""},
		"n.py":      {"assert x == 007\n", ""},
	} {
		for seed := range int64(20) {
			all := Candidates(name, []byte(c.text), seed)
			if c.want == "" {
				if len(all) > 0 {
					t.Errorf("%s: %+v", name, all)
				}
				continue
			}
			found := false
			for _, k := range all {
				found = found || regexp.MustCompile("^(?:"+c.want+")$").MatchString(k.New)
				if strings.Count(c.text, k.Old) != 1 || k.Old == k.New || k.File != name {
					t.Errorf("%s: %+v", name, k)
				}
			}
			if !found {
				t.Errorf("%s: no %q among %+v", name, c.want, all)
			}
		}
	}
}

// A place in a list comes last, as another one may be outside of it.
func TestPlacesComeLast(t *testing.T) {
	text := "\tif got[1] != \"x\" {\n\tif want := list[k+1]; got != want {\n\tif n[2] == 3 {\n\tif want := []int{7}; f() != 9 {\n"
	var news []string
	for _, k := range Candidates("a_test.go", []byte(text), 1) {
		news = append(news, strings.TrimSpace(k.New))
	}
	place := func(s string) bool {
		return !strings.Contains(s, "[1]") && strings.Contains(s, "got[") || strings.Contains(s, "list[") || !strings.Contains(s, "n[2]") && strings.Contains(s, "n[")
	}
	first := slices.IndexFunc(news, place)
	if first < 0 || len(news)-first != 3 || slices.ContainsFunc(news[first:], func(s string) bool { return !place(s) }) {
		t.Errorf("%q", news)
	}
}

// Nothing but what it says tells a changed expectation from a real one: every
// text is one that stands in the file, or has its own letters and digits.
func TestCandidatesBearNoMark(t *testing.T) {
	text := "assert f(1) == 'one'\nassert f(2) == 'two'\nassert f(3) == 'three'\n"
	for seed := range int64(50) {
		for _, k := range Candidates("t.py", []byte(text), seed) {
			if m := regexp.MustCompile(`'(.*)'`).FindString(k.New); !strings.Contains(text, m) {
				t.Errorf("%q stands nowhere else", m)
			}
		}
	}
}

// A line that stands twice is told apart by the lines before it; the order is
// the seed's.
func TestCandidatesRepeat(t *testing.T) {
	text := "def a():\n    assert f() == 1\n\ndef b():\n    assert f() == 1\n" + strings.Repeat("    assert g(3) == 9\n", 3)
	one, again, other := Candidates("t.py", []byte(text), 1), Candidates("t.py", []byte(text), 1), ""
	if len(one) < 3 {
		t.Fatalf("%+v", one)
	}
	for i, k := range one {
		if strings.Count(text, k.Old) != 1 {
			t.Errorf("%q stands %d times", k.Old, strings.Count(text, k.Old))
		}
		if again[i].Old != k.Old || again[i].New != k.New {
			t.Error("the same seed gives another order")
		}
		if _, err := checks.Plant([]byte(text), []checks.Canary{k}); err != nil {
			t.Error(err)
		}
	}
	for seed := range int64(20) {
		other += Candidates("t.py", []byte(text), seed)[0].Old + "|"
	}
	if !strings.Contains(other, "def a") || !strings.Contains(other, "def b") {
		t.Errorf("all seeds give one order: %s", other)
	}
}

// The name of an assertion is no expectation: it is changed last.
func TestCandidatesOfNamedAssertions(t *testing.T) {
	text := "  t.equal(count, 42, 'the result matches')\n  t.equal(this, that, 'this matches')\n  t.equal(done, true)\n"
	name := regexp.MustCompile(`'.*'`)
	for seed := range int64(20) {
		all := Candidates("t.js", []byte(text), seed)
		if len(all) != 4 {
			t.Fatalf("%+v", all)
		}
		for i, k := range all {
			if renamed := name.FindString(k.New) != name.FindString(k.Old); renamed != (i >= 2) {
				t.Errorf("seed %d: %d is %q", seed, i, k.New)
			}
		}
	}
}

func FuzzCandidates(f *testing.F) {
	f.Add("assert x == 'a' # \"\n", int64(3))
	f.Fuzz(func(t *testing.T, text string, seed int64) {
		for _, name := range []string{"a.py", "b.js", "c.sh", "d_test.go"} {
			for _, k := range Candidates(name, []byte(text), seed) {
				if _, err := checks.Plant([]byte(text), []checks.Canary{k}); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
			}
		}
	})
}

// Go's tests compare with what is no literal, and say what went wrong in texts
// that no test depends on.
func TestCandidatesOfGo(t *testing.T) {
	text := "func TestX(t *testing.T) {\n\tgot, err := f(1)\n\tif err != nil {\n\t\tt.Fatalf(\"want no error, got %v\", err)\n\t}\n\tif got != want() {\n\t\tt.Errorf(\"got %d, want %d\", got, want())\n\t}\n\tif s := `==`; s == \"a\" {\n\t}\n\tif other != nil {\n\t\tpanic(other)\n\t}\n" +
		"\tfor _, c := range []struct{ in string; n int }{\n\t\t{\"a\", 3},\n\t} {\n\t\t_ = c\n\t}\n}\n"
	var got []string
	for _, k := range Candidates("x_test.go", []byte(text), 1) {
		got = append(got, strings.TrimSpace(k.Old[strings.LastIndexByte(k.Old, '\n')+1:])+" -> "+strings.TrimSpace(k.New[strings.LastIndexByte(k.New, '\n')+1:]))
		if strings.Contains(k.New, "Errorf") != strings.Contains(k.Old, "Errorf") || strings.Contains(k.New, "got %d, want") != strings.Contains(k.Old, "got %d, want") {
			t.Errorf("a message was changed: %q", k.New)
		}
	}
	if slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "other") }) {
		t.Errorf("a condition before a panic is turned round: %q", got)
	}
	for _, want := range []string{"if err != nil { -> if err == nil {", "if got != want() { -> if got == want() {"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	row := slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, `{"a", 3}, -> {"a", `) })
	if n := len(got); !row || n < 4 || n > 6 {
		t.Errorf("candidates: %q", got)
	}
}
