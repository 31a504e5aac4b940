package repo

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/grade/checks"
)

func example() *Environment {
	return &Environment{Version: 1, Name: "shop", Image: "forge/shop:00", Tag: "00", Workdir: "/app", User: "root", UIDMode: "root",
		Languages: []string{"python"}, System: "setuptools", Limits: checks.Needs{MemoryMB: 100},
		Suite: Suite{
			Commands: []Command{{Command: checks.Command{Name: "unit", Run: "true", Report: "pytest-log", Files: []string{"/logs/verifier/unit.log"}}, Select: "run {tests}"}},
			Files:    []string{"shop/a.py", "shop/b.py"}, Static: []string{"1-4,40-", "1"}, Ranges: []string{"5-9", "20-30"}, Runs: 3,
			Tests: []Test{
				{ID: "t.py::one", Command: "unit", File: "t.py", Stability: Stable, Millis: 1.5, Covers: []int{0}, Lines: []int{0}},
				{ID: "t.py::two", Command: "unit", Stability: Stable, Covers: []int{0, 1}, Lines: []int{1, -1}},
				{ID: "t.py::three", Command: "unit", Stability: Stable},
				{ID: "t.py::four", Command: "unit", Stability: Flaky, Covers: []int{}, Lines: []int{}},
			},
		}}
}

func TestEnvironmentFile(t *testing.T) {
	dir := t.TempDir()
	e := example()
	if err := WriteEnvironment(dir, e); err != nil {
		t.Fatal(err)
	}
	got, err := ReadEnvironment(dir)
	if err != nil {
		t.Fatal(err)
	}
	got.Suite.Tests[3].Covers, got.Suite.Tests[3].Lines = []int{}, []int{} // omitted where there is nothing
	if !reflect.DeepEqual(e, got) {
		t.Errorf("read %+v\nwrote %+v", got, e)
	}
	b, err := os.ReadFile(filepath.Join(dir, EnvironmentFile))
	if err != nil || !strings.Contains(string(b), "\"covers\": [0,1]") || !strings.Contains(string(b), "\"memory_mb\": 100") {
		t.Errorf("%s, %v", b, err)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 1 {
		t.Errorf("the directory holds %v", left)
	}
}

func TestEnvironmentFaultsHavePlaces(t *testing.T) {
	dir := t.TempDir()
	if err := WriteEnvironment(dir, example()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, EnvironmentFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"system"`, `"sistem"`, `e.json:16:2: json: unknown field "sistem"`},
		{`"v": 1`, `"v": 7`, "version 7 of the form"},
		{`"workdir": "/app"`, `"workdir": 3`, "e.json:10:"},
		{`"t.py::one"`, `"t.py::one`, "invalid character"},
		{`"workdir": "/app"`, `"workdir": "/app/.."`, "not a clean absolute path"},
		{`"shop/a.py"`, `"../a.py"`, "leads out of the workdir"},
		{`"covers": [0,1]`, `"covers": [0,9]`, "covers a file that is not in suite.files"},
		{`"1-4,40-"`, `"4-1"`, "are no lines"},
		{`"command": "unit"`, `"command": "other"`, `no command is called "other"`},
		{"\n}\n", "\n}{}", "something follows"},
	} {
		bad := strings.Replace(string(good), c.old, c.new, 1)
		if bad == string(good) {
			t.Errorf("%s is not in the file", c.old)
		}
		if _, err := DecodeEnvironment("e.json", []byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
	if _, err := ReadEnvironment(t.TempDir()); err == nil || !strings.Contains(err.Error(), "assay repo setup") {
		t.Errorf("no file: %v", err)
	}
}

func TestRanges(t *testing.T) {
	rs, err := ParseRanges("12,3-9,10,40-")
	if err != nil || FormatRanges(rs) != "3-10,12,40-" {
		t.Errorf("%v, %v", FormatRanges(rs), err)
	}
	if got := FormatRanges(without(rs)); got != "1-2,11,13-39" {
		t.Errorf("without: %s", got)
	}
	for _, bad := range []string{"a", "0", "9-3", "1,,2", "-4"} {
		if _, err := ParseRanges(bad); err == nil {
			t.Errorf("%q is taken for lines", bad)
		}
	}
}

func TestCovering(t *testing.T) {
	c := example().Suite.Coverage()
	for _, x := range []struct {
		change map[string][]int
		want   []Reach
	}{
		{map[string][]int{"shop/a.py": {6}}, []Reach{Runs, Beside, Perhaps, Apart}},
		{map[string][]int{"shop/a.py": {2}}, []Reach{Runs, Runs, Perhaps, Perhaps}},
		{map[string][]int{"shop/a.py": {99}}, []Reach{Runs, Runs, Perhaps, Perhaps}},
		{map[string][]int{"shop/a.py": {15}}, []Reach{Beside, Beside, Perhaps, Apart}},
		{map[string][]int{"shop/b.py": {7}}, []Reach{Apart, Runs, Perhaps, Apart}},
		{map[string][]int{"shop/a.py": nil}, []Reach{Runs, Runs, Perhaps, Perhaps}},
		{map[string][]int{"shop/data.json": {1}}, []Reach{Perhaps, Perhaps, Perhaps, Perhaps}},
		{map[string][]int{"shop/b.py": {7}, "shop/a.py": {6}}, []Reach{Runs, Runs, Perhaps, Apart}},
	} {
		tests := slices.Clone(c.suite.Tests)
		tests[3].Covers = []int{}
		c.suite.Tests = tests
		if got := c.Covering(x.change); !slices.Equal(got, x.want) {
			t.Errorf("%v: %v, want %v", x.change, got, x.want)
		}
	}
}

func TestSelect(t *testing.T) {
	for _, c := range []struct {
		runner string
		tests  []Test
		want   string
	}{
		{"pytest", []Test{{ID: "t/a b.py::T::x[it's]"}, {ID: "t/c.py::y[␊]"}}, ` 't/a b.py::T::x[it'\''s]' t/c.py::y`},
		{"pytest", []Test{{ID: "tests.sub.test_x.TestA.TestB::t[a.b::c]"}, {ID: "a_test::f[␊]"}}, " 'tests/sub/test_x.py::TestA::TestB::t[a.b::c]' a_test.py::f"},
		{"pytest", []Test{{ID: "checks.all.Sum::t"}}, ""},
		{"go", []Test{{ID: "ex.org/a/b::TestX/one"}, {ID: "ex.org/a/c::TestY"}}, `-run '^(TestX|TestY)$' ex.org/a/b ex.org/a/c`},
		{"cargo", []Test{{ID: "src/lib.rs[alpha] tests::adds"}, {ID: "tests/it.rs[it] works"}}, `--no-fail-fast --lib --test it -- --exact tests::adds works 2>&1`},
		{"cargo", []Test{{ID: "src/lib.rs[alpha] tests::adds"}, {ID: "doc[alpha] src/lib.rs - sum (line 5)"}}, ""},
		{"jest", []Test{{ID: `src/a.test.js > group > is $1 \> 2`}}, `-t '^(group is \$1 > 2)$' --runTestsByPath src/a.test.js`},
		{"maven", []Test{{ID: "c.A::x(String)[1]"}, {ID: "c.A::y"}, {ID: "c.B"}}, `-Dtest=c.A#x+y,c.B `},
		{"ctest", []Test{{ID: "a.b"}, {ID: "c"}}, `-R '^(a\.b|c)$'`},
		{"tape", []Test{{ID: "g > ok", File: "test/a.js"}}, `tape test/a.js`},
		{"tape", []Test{{ID: "g > ok"}}, ""},
		{"make", []Test{{ID: "make"}}, ""},
	} {
		r, err := RunnerNamed(c.runner)
		if err != nil {
			t.Fatal(err)
		}
		cmd := r.Command(RunnerOptions{})
		got, ok := Select(cmd, c.tests)
		want := strings.ReplaceAll(c.want, "-Dtest=c.A#x+y,c.B ", "-Dtest='c.A#x+y,c.B' ")
		if ok != (c.want != "") || !strings.Contains(got+" ", want) {
			t.Errorf("%s: %q, want %q", c.runner, got, want)
		}
	}
	many := make([]Test, 5000)
	for i := range many {
		many[i].ID = "tests/test_of_many.py::test_with_a_long_name[" + strconv.Itoa(i) + "]"
	}
	r, _ := RunnerNamed("pytest")
	if got, ok := Select(r.Command(RunnerOptions{}), many); !ok || !strings.HasSuffix(got, " tests/test_of_many.py") {
		t.Errorf("too many for a line: %v, %d bytes", ok, len(got))
	}
}

func TestBudget(t *testing.T) {
	s := &example().Suite
	var ids []string
	for _, x := range Budget(s, []string{"unit:t.py::three"}, 2, 7) {
		ids = append(ids, x.ID)
	}
	if len(ids) != 2 || !slices.Contains(ids, "t.py::three") || slices.Contains(ids, "t.py::four") {
		t.Errorf("%v", ids)
	}
	if all := Budget(s, nil, 0, 7); len(all) != 3 {
		t.Errorf("without a limit: %v", all)
	}
	fewer := &Suite{Tests: s.Tests[1:]}
	if a, b := Budget(s, nil, 1, 3), Budget(fewer, nil, 1, 3); a[0].ID != "t.py::one" && a[0].ID != b[0].ID {
		t.Errorf("the sample changed with a test that was not in it: %v, %v", a, b)
	}
}

func FuzzDecodeEnvironment(f *testing.F) {
	dir := f.TempDir()
	if err := WriteEnvironment(dir, example()); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, EnvironmentFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEnvironment("e.json", b)
		if err != nil {
			return
		}
		c := e.Suite.Coverage()
		for _, name := range e.Suite.Files {
			c.Covering(map[string][]int{name: {1, 5}})
		}
		for _, cmd := range e.Suite.Commands {
			Select(cmd, e.Suite.Tests)
		}
	})
}

func FuzzReadCover(f *testing.F) {
	f.Add([]byte("{\"test\": \"t::a\", \"files\": {\"a.py\": [[5, 8]], \"b.py\": null}, \"unknown\": true}\n{\"static\": {\"a.py\": [[1, 4], [9, 0]]}}\n"))
	f.Add([]byte("{\"file\": \"t.js\", \"files\": {\"../a.js\": [[5, 1]]}}\n"))
	f.Add([]byte("P\texample.org/a\t/app/a\nX\t./a/b_test.go\nW\texample.org/a\nexample.org/a/x.go:1.2,3.4 1 0\nT\texample.org/a\tTestX\nexample.org/a/x.go:1.2,3.4 1 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newCovered()
		_ = c.read(b)
		g := goCover{covered: newCovered(), workdir: "/app", dir: "/app", packages: map[string]string{}, whole: map[string]map[string][]Range{}, blocks: map[string][]Range{}, exec: map[string]bool{}}
		g.read(b)
		tests := []Test{{ID: "t::a", Command: "unit", Stability: Stable}, {ID: "example.org/a::TestX/one", Command: "unit", Stability: Stable}, {ID: "b", Command: "unit", File: "t.js", Stability: Stable}}
		for _, found := range []*covered{c, g.finish("unit", tests)} {
			r := &suiteRun{suite: Suite{Commands: example().Suite.Commands, Tests: slices.Clone(tests), Files: []string{}}}
			r.apply("unit", found)
			e := example()
			e.Suite = r.suite
			if err := e.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
