package draft

import (
	"strings"
	"testing"

	"assay/internal/grade/checks"
)

func TestCandidates(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a.py":      {"def test_x():\n    assert add(1, 2) == 3\n", "assert add(1, 2) == 4"},
		"b.py":      {"        self.assertEqual(f(), 'a\\'b')\n", `self.assertEqual(f(), 'a\'b~')`},
		"c.py":      {"    assert f(x) is True\n", "assert f(x) is False"},
		"d.test.js": {"  expect(add(1, 2)).toBe(3);\n", "expect(add(1, 2)).toBe(4);"},
		"e.js":      {"assert.strictEqual(f(), \"x\");\n", `assert.strictEqual(f(), "x~");`},
		"f_test.go": {"\tif got := Add(1, 2); got != 3 {\n", "if got := Add(1, 2); got != 4 {"},
		"g.rs":      {"        assert_eq!(add(1, 2), 3);\n", "assert_eq!(add(1, 2), 4);"},
		"H.java":    {"        assertEquals(1.5, half(3), 1e-9);\n", "assertEquals(2.5, half(3), 1e-9);"},
		"i.c":       {"    assert(add(1, 2) == 3);\n", "assert(add(1, 2) == 4);"},
		"j.sh":      {"[ \"$(prog 2)\" = 4 ] || exit 1\n", "[ \"$(prog 2)\" = 4 ] || exit 2"},
		"k.t":       {"is(add(1, 2), 3, 'adds');\n", "is(add(1, 2), 3, 'adds~');"},
		"l.txt":     {"assert 1 == 1\n", ""},
		"m.py":      {"x = 1\n", ""},
		"n.py":      {"assert x == 007\n", ""},
	} {
		all := Candidates(name, []byte(c.text), 1)
		if c.want == "" {
			if len(all) > 0 {
				t.Errorf("%s: %+v", name, all)
			}
			continue
		}
		found := false
		for _, k := range all {
			found = found || k.New == c.want
			if strings.Count(c.text, k.Old) != 1 || k.Old == k.New || k.File != name {
				t.Errorf("%s: %+v", name, k)
			}
		}
		if !found {
			t.Errorf("%s: no %q among %+v", name, c.want, all)
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
