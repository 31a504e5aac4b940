package programs

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/program"
	"assay/internal/importer"
	"assay/task"
)

func TestLiterals(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "-1": "-1", "+1.5": "1.5", "1_000": "1000", "0x1F": "31", "0b11": "3", "0o17": "15", "1e3": "1000.0", "1E-2": "0.01", ".5": "0.5", "5.": "5.0", "00": "0",
		"123456789012345678901234567890": `{"$int":"0x18ee90ff6c373e0ee4e3f0ad2"}`, "None": "null", "True": "true", "False": "false",
		"'a'": `"a"`, `"it's"`: `"it's"`, `'it\'s'`: `"it's"`, `"a" 'b'`: `"ab"`, `r'\d'`: `"\\d"`, `'\d\n\x41\u00e9\101'`: `"\\d\u000aA\u00e9A"`, `'''a
b'''`: `"a\u000ab"`, `b'\x00\xff'`: `{"$bytes":"AP8="}`, `'é'`: `"\u00e9"`, `""`: `""`,
		"[]": "[]", "[1, 'a',]": `[1,"a"]`, "()": `{"$tuple":[]}`, "(1)": "1", "(1,)": `{"$tuple":[1]}`, "( (1, 2), [3] )": `{"$tuple":[{"$tuple":[1,2]},[3]]}`,
		"{1, 2, 1.0}": `{"$set":[1,2]}`, "{}": "{}", "{'a': 1, 'b': [2]}": `{"a":1,"b":[2]}`, "{1: 2, (1, 2): 3,}": `{"$dict":[[1,2],[{"$tuple":[1,2]},3]]}`, "{1: 'a', True: 'b'}": `{"$dict":[[1,"b"]]}`,
		"set()": `{"$set":[]}`, "set([1, 1])": `{"$set":[1]}`, "frozenset((2,))": `{"$set":[2]}`, "float('inf')": `{"$float":"inf"}`, "-float('inf')": `{"$float":"-inf"}`, `float("nan")`: `{"$float":"nan"}`,
	} {
		v, err := Literal(text)
		if err != nil || string(v.Encode()) != want {
			t.Errorf("%s: %s, %v; want %s", text, v.Encode(), err, want)
		}
	}
	for _, text := range []string{"", "x", "1+1", "[1 2]", "[,]", "(,)", "{1, 2: 3}", "{1: 2 3: 4}", "'a", "'a\nb'", "f'a'", "010", "1__0", "1_", "1j", "0x", "1.2.3", "-'a'", "--x", "True()", "not 1", "[x for x in y]", "float('1_0')", "float(1)", "set(1)",
		`'\N{DASH}'`, `'\ud800'`, `b'é'`, `'a' b'b'`, strings.Repeat("[", 100), "1 if x else 2", "'a'.upper()"} {
		if v, err := Literal(text); err == nil {
			t.Errorf("%q is read as %v", text, v)
		}
	}
}

func TestAssertions(t *testing.T) {
	funcs := []string{"f", "g"}
	for line, want := range map[string]string{
		"assert f(1, 'a') == (1,)":                  `{"args":[1,"a"],"func":"f","id":"x","want":{"$tuple":[1]}}`,
		"assert f([1,2],)==3":                       `{"args":[[1,2]],"func":"f","id":"x","want":3}`,
		"assert (f(1) == 2), 'message'":             `{"args":[1],"func":"f","id":"x","want":2}`,
		"assert g(1, k = {2}) == None # why":        `{"args":[1],"func":"g","id":"x","kwargs":{"k":{"$set":[2]}},"want":null}`,
		"assert f() is True":                        `{"args":[],"func":"f","id":"x","want":true}`,
		"assert f(1)":                               `{"args":[1],"compare":"truth","func":"f","id":"x","want":true}`,
		"assert not f(1)":                           `{"args":[1],"compare":"truth","func":"f","id":"x","want":false}`,
		"assert set(f(1)) == set([2, 1])":           `{"args":[1],"compare":"set","func":"f","id":"x","want":{"$set":[2,1]}}`,
		"assert sorted(f(1)) == sorted(['b', 'a'])": `{"args":[1],"compare":"unordered","func":"f","id":"x","want":["b","a"]}`,
		"assert sorted(f(1)) == [1, 2]":             `{"args":[1],"compare":"unordered","func":"f","id":"x","want":[1,2]}`,
		"assert math.isclose(f(1), 2, abs_tol=0.1)": `{"abs_tol":0.1,"args":[1],"compare":"numbers","func":"f","id":"x","rel_tol":1e-9,"want":2.0}`,
		"assert sorted(f(1)) == [2, 1]":             "",
		"assert f(x) == 1":                          "",
		"assert f(1) == g(1)":                       "",
		"assert f(1)[0] == 1":                       "",
		"assert f(1) + 1 == 1":                      "",
		"assert f(1) == 1 + 1":                      "",
		"assert f(1) == 1 == 1":                     "",
		"assert f(1) == 1 and f(2) == 2":            "",
		"assert f(1) != 1":                          "",
		"assert f(1) is not None":                   "",
		"assert h(1) == 1":                          "",
		"assert f(*[1]) == 1":                       "",
		"assert f(k=1, 2) == 1":                     "",
		"assert len(f(1)) == 1":                     "",
		"assert f(1) == 1\nassert f(2) == 3":        "",
		"assert f(1) == 1; import os":               "",
		"assert f(1) == 'a' % 2":                    "",
		"assertf(1) == 1":                           "",
		"assert math.isclose(f(1), 2, 0.1)":         "",
		"for x in [1]: assert f(x) == 1":            "",
		"assert f(1) # x\nassert False":             "",
	} {
		a, ok := readAssertion(line, funcs)
		got := ""
		if ok {
			b, err := json.Marshal(a.asCase("x"))
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

// imported imports a file and returns the task directories by name.
func imported(t *testing.T, im importer.Importer, src string) string {
	t.Helper()
	out := t.TempDir()
	if _, err := im.Import(context.Background(), src, out, importer.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, f := range task.Lint(out) {
		if f.Severity != task.Note {
			t.Error(f)
		}
	}
	return out
}

func TestTasks(t *testing.T) {
	for _, tt := range []struct {
		im    importer.Importer
		src   string
		tasks map[string]string // name to the ids of its checks
	}{
		{MBPP{}, "testdata/mbpp.jsonl", map[string]string{
			"mbpp-0011": "cases:test-1 cases:test-2 cases:test-3 cases:challenge-1 cases:challenge-2",
			"mbpp-0012": "cases:test-1 cases:test-2 cases:test-3 cases:challenge-1",
			"mbpp-0013": "asserts:asserts",
		}},
		{MBPP{}, "testdata/sanitized.json", map[string]string{"mbpp-0021": "cases:test-1 cases:test-2 cases:test-3", "mbpp-0022": "cases:test-1 cases:test-2"}},
		{EvalPlus{}, "testdata/humanevalplus.jsonl", map[string]string{"humanevalplus-900": "cases:base-1 cases:base-2 cases:plus-1-3", "humanevalplus-032": "cases:roots-1"}},
		{EvalPlus{}, "testdata/mbppplus.jsonl", map[string]string{"mbppplus-0002": "cases:base-1 cases:plus-1-2", "mbppplus-0252": "cases:base-1 cases:base-2"}},
	} {
		out := imported(t, tt.im, tt.src)
		for name, want := range tt.tasks {
			p, err := checks.Load(filepath.Join(out, name, "tests"))
			if err != nil {
				t.Error(err)
				continue
			}
			var ids []string
			for _, c := range p.Expected() {
				ids = append(ids, c.ID)
			}
			if got := strings.Join(ids, " "); got != want {
				t.Errorf("%s has the checks %s", name, got)
			}
			for _, g := range p.Cases {
				if _, err := program.Load(os.DirFS(filepath.Join(out, name, "tests")), g); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if entries, err := os.ReadDir(out); err != nil || len(entries) != len(tt.tasks) {
			t.Errorf("%s: %d tasks, %v", tt.src, len(entries), err)
		}
		again, err := tt.im.Import(context.Background(), tt.src, out, importer.Options{})
		if err != nil || again.Unchanged != len(tt.tasks) {
			t.Errorf("%s again: %+v %v", tt.src, again, err)
		}
	}
}

// What MBPP+'s loader rebuilds, and what the agent must not see.
func TestInputs(t *testing.T) {
	out := imported(t, EvalPlus{}, "testdata/mbppplus.jsonl")
	b, err := os.ReadFile(filepath.Join(out, "mbppplus-0002/tests/cases.ndjson"))
	if err != nil || !strings.Contains(string(b), `"args":[{"$tuple":[3,4,5,6]},{"$tuple":[5,7,4,10]}],"compare":"set"`) {
		t.Errorf("%s %v", b, err)
	}
	b, err = os.ReadFile(filepath.Join(out, "mbppplus-0252/tests/cases.ndjson"))
	if err != nil || !strings.Contains(string(b), `"args":[{"$complex":[3.0,4.0]}]`) {
		t.Errorf("%s %v", b, err)
	}
	for number, tt := range map[int][2]string{
		63: {`[[[1,2],[3]]]`, `[[{"$tuple":[1,2]},{"$tuple":[3]}]]`}, 75: {`[[[1]],2]`, `[[{"$tuple":[1]}],2]`}, 106: {`[[1],[2]]`, `[[1],{"$tuple":[2]}]`},
		115: {`[[[1,1],[]]]`, `[[{"$set":[1]},{}]]`}, 124: {`["1","2j"]`, `[1.0,{"$complex":[0.0,2.0]}]`}, 250: {`[[1],2]`, `[{"$tuple":[1]},2]`},
		259: {`[[[1]]]`, `[{"$tuple":[{"$tuple":[1]}]}]`}, 722: {`[{"a":[1]},2]`, `[{"a":{"$tuple":[1]}},2]`}, 580: {`[[1,[2]]]`, `[{"$tuple":[1,{"$tuple":[2]}]}]`}, 1: {`[[1]]`, `[[1]]`},
	} {
		v, err := program.Decode([]byte(tt[0]))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(revive(number, v).Encode()); got != tt[1] {
			t.Errorf("%d: %s, want %s", number, got, tt[1])
		}
	}
	all, err := inputs(json.RawMessage(`[[Infinity, -Infinity, NaN, "Infinity \" NaN"]]`))
	if err != nil || string(all[0].Encode()) != `[{"$float":"inf"},{"$float":"-inf"},{"$float":"nan"},"Infinity \" NaN"]` {
		t.Errorf("%v %v", all, err)
	}
	err = filepath.WalkDir(out, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(p, "/environment/") && !strings.HasSuffix(p, "instruction.md") {
			return err
		}
		b, err := os.ReadFile(p)
		if strings.Contains(string(b), "set(a) & set(b)") || strings.Contains(string(b), "abs(z)") {
			t.Errorf("%s tells the solution", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFaultsNameTheirPlace(t *testing.T) {
	good := `{"task_id": 1, "text": "t", "code": "def f(): pass", "test_list": ["assert f() == 1"], "test_setup_code": "", "challenge_test_list": []}`
	plus := `{"task_id": "Mbpp/1", "prompt": "p", "entry_point": "f", "canonical_solution": "def f(x): pass", "base_input": [[1]], "plus_input": []}`
	for _, tt := range []struct {
		im         importer.Importer
		good, line string
		want       string
	}{
		{MBPP{}, good, "{", ":2: not an MBPP problem"},
		{MBPP{}, good, good, `:2: task_id "MBPP/1" occurs twice`},
		{MBPP{}, good, strings.Replace(good, `"task_id": 1`, `"task_id": 2, "more": 1`, 1), `unknown field "more"`},
		{MBPP{}, good, strings.Replace(good, `1, "text"`, `-1, "text"`, 1), "is not a number of a problem"},
		{MBPP{}, good, strings.Replace(strings.Replace(good, `1, "text"`, `2, "text"`, 1), "def f()", "def g()", 1), "calls no function that the code defines"},
		{MBPP{}, good, `{"task_id": 2, "text": "t", "code": "def f(): pass", "test_list": []}`, "test_list is missing"},
		{MBPP{}, good, `{"task_id": 2, "text": "\u0000", "code": "def f(): pass", "test_list": ["assert f()"]}`, "prompt is not text"},
		{EvalPlus{}, plus, strings.Replace(plus, "Mbpp/1", "Mbpp/../1", 1), "is neither HumanEval/NUMBER nor Mbpp/NUMBER"},
		{EvalPlus{}, plus, strings.Replace(plus, "Mbpp/1", "Mbpp/01", 1), "is neither"},
		{EvalPlus{}, plus, strings.Replace(strings.Replace(plus, "Mbpp/1", "Mbpp/2", 1), `"f"`, `"f; rm"`, 1), "is not a Python name"},
		{EvalPlus{}, plus, strings.Replace(strings.Replace(plus, "Mbpp/1", "Mbpp/2", 1), "[[1]]", "[1]", 1), "base_input: not a list of lists"},
		{EvalPlus{}, plus, strings.Replace(strings.Replace(plus, "Mbpp/1", "Mbpp/2", 1), "[[1]]", "[]", 1), "base_input is empty"},
	} {
		dir := t.TempDir()
		src, out := filepath.Join(dir, "p.jsonl"), filepath.Join(dir, "out")
		if err := os.WriteFile(src, []byte(tt.good+"\n"+tt.line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := tt.im.Import(context.Background(), src, out, importer.Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), src+":2: ") {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("something was written: %v", err)
		}
	}
}

func FuzzLiteral(f *testing.F) {
	for _, s := range []string{"{1: 2, 'a': (3,)}", `b"\x00" r'\d'`, "float('inf')", "[1e5, -0x1F]", "assert f(1, k=2) == {3}, 'm'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := Literal(s)
		if err == nil {
			if _, err := program.Decode(v.Encode()); err != nil {
				t.Errorf("%q is read as %s: %v", s, v.Encode(), err)
			}
		}
		if a, ok := readAssertion(s, []string{"f"}); ok {
			b, err := json.Marshal(a.asCase("x"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := program.Parse(b, checks.Cases{Name: "c", Call: "python", Source: "s.py"}); err != nil {
				t.Errorf("%q becomes %s: %v", s, b, err)
			}
		}
	})
}

func FuzzRecords(f *testing.F) {
	for _, src := range []string{"testdata/mbpp.jsonl", "testdata/humanevalplus.jsonl", "testdata/mbppplus.jsonl"} {
		b, err := os.ReadFile(src)
		if err != nil {
			f.Fatal(err)
		}
		for l := range strings.Lines(string(b)) {
			f.Add([]byte(l))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, err := parseMBPP(line); err == nil {
			if r, err := p.record(); err == nil {
				_, _ = r.dir()
			}
		}
		if p, err := parseEvalPlus(line); err == nil {
			if r, err := p.record(); err == nil {
				_, _ = r.dir()
			}
		}
	})
}
