package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// text is hostile text that JSON can hold.
func text() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune("\"\\\n\r\t\b\f\x7f<>&é\u2028😀[]{}:, "))), 0, 30, -1).
		Filter(func(s string) bool { return !strings.ContainsAny(s, "\x00\ufffd") })
}

// id is what may name an instance.
func id() *rapid.Generator[string] { return rapid.StringMatching(`[a-z]{1,8}__[a-z]{1,8}-[0-9]{1,5}`) }

// A file of records comes out as it went in, whatever stands between them.
func TestLayoutRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.SampledFrom([]string{"", " ", "\n", "\r\n", "\t \n\n"})
		n := rapid.IntRange(1, 6).Draw(t, "n")
		kind := rapid.SampledFrom([]Kind{KindLines, KindList, KindMap}).Draw(t, "kind")
		var b strings.Builder
		open, sep, end := "", "", ""
		if kind == KindList {
			open, sep, end = "[", ",", "]"
		} else if kind == KindMap {
			open, sep, end = "{", ",", "}"
		}
		b.WriteString(space.Draw(t, "s") + open)
		for i := range n {
			if i > 0 {
				b.WriteString(space.Draw(t, "s") + sep)
			}
			b.WriteString(space.Draw(t, "s"))
			if kind == KindMap {
				key, _ := json.Marshal(fmt.Sprintf("%d%s", i, text().Draw(t, "key")))
				b.WriteString(string(key) + space.Draw(t, "s") + ":" + space.Draw(t, "s"))
			}
			v, _ := json.MarshalIndent(map[string]any{"instance_id": text().Draw(t, "v"), "x": []int{1}}, "", space.Draw(t, "i"))
			b.Write(v)
		}
		b.WriteString(space.Draw(t, "s") + end + space.Draw(t, "s"))
		items, layout, err := split([]byte(b.String()))
		if err != nil {
			t.Fatalf("%q: %v", b.String(), err)
		}
		if len(items) != n || layout.Kind != kind {
			t.Fatalf("%q: %d records of a %s, want %d of a %s", b.String(), len(items), layout.Kind, n, kind)
		}
		var records [][]byte
		for _, it := range items {
			records = append(records, it.raw)
			if at := strings.Count(b.String()[:strings.Index(b.String(), string(it.raw))], "\n") + 1; n == 1 && at != it.line {
				t.Fatalf("%q: record in line %d, want %d", b.String(), it.line, at)
			}
		}
		got, err := layout.Join(records)
		if err != nil || string(got) != b.String() {
			t.Fatalf("%q came back as %q, %v", b.String(), got, err)
		}
	})
}

// What SWE-bench's own writers make is what ours make of it again.
func TestReportsRoundTrip(t *testing.T) {
	ids := func(t *rapid.T, name string) []string { return rapid.SliceOfN(text(), 0, 5).Draw(t, name) }
	rapid.Check(t, func(t *rapid.T) {
		r := InstanceReport{
			ID: text().Draw(t, "id"), PatchIsNone: rapid.Bool().Draw(t, "none"), PatchExists: rapid.Bool().Draw(t, "exists"),
			Applied: rapid.Bool().Draw(t, "applied"), Resolved: rapid.Bool().Draw(t, "resolved"), Infra: rapid.Bool().Draw(t, "infra"),
		}
		if rapid.Bool().Draw(t, "why") {
			s := text().Draw(t, "reason")
			r.InfraReason = &s
		}
		if rapid.Bool().Draw(t, "tests") {
			split := func(name string) Split { return Split{ids(t, name+"s"), ids(t, name+"f")} }
			r.Tests = &TestsStatus{split("a"), split("b"), split("c"), split("d")}
		}
		first, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseInstanceReport(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if d := cmp.Diff(r, again, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("%s", d)
		}
		second, err := again.Marshal()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%s\nbecame\n%s\n%v", first, second, err)
		}

		s := RunSummary{
			Total: rapid.IntRange(0, 9).Draw(t, "total"), Submitted: ids(t, "1"), Completed: ids(t, "2"), Incomplete: ids(t, "3"), EmptyPatch: ids(t, "4"),
			Resolved: ids(t, "5"), Unresolved: ids(t, "6"), Error: ids(t, "7"), Infra: ids(t, "8"), Ambiguous: ids(t, "9"),
			Reasons: rapid.MapOfN(text(), text(), 0, 3).Draw(t, "why"),
		}
		if rapid.Bool().Draw(t, "engine") {
			s.Engine = &Leftovers{ids(t, "c"), ids(t, "i")}
		}
		one, err := s.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseRunSummary(one)
		if err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		two, err := back.Marshal()
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("%s\nbecame\n%s\n%v", one, two, err)
		}
	})
}

// Predictions come out as they went in, in each of the forms that are written.
func TestPredictionsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		seen := map[string]bool{}
		var all []Prediction
		for range n {
			p := Prediction{ID: id().Draw(t, "id"), Model: rapid.StringMatching(`[a-zA-Z0-9./:@-]{1,12}`).Draw(t, "model"), Kind: PredictsPatch, Text: text().Draw(t, "patch")}
			if rapid.Bool().Draw(t, "null") {
				p.Text, p.Null = "", true
			}
			if !seen[p.ID] {
				all = append(all, p)
			}
			seen[p.ID] = true
		}
		for _, kind := range []Kind{KindLines, KindList, KindMap} {
			first, err := WritePredictions(all, kind)
			if err != nil {
				t.Fatal(err)
			}
			got, layout, err := parsePredictions(first, "p")
			if err != nil {
				t.Fatalf("%s: %v", first, err)
			}
			if d := cmp.Diff(all, got, cmpopts.IgnoreFields(Prediction{}, "Raw", "Line")); d != "" {
				t.Fatal(d)
			}
			for i, p := range got {
				if p.Digest() != all[i].Digest() {
					t.Fatalf("another digest of %v", p)
				}
			}
			if layout.Kind != kind && len(all) > 1 {
				t.Fatalf("a %s was read as a %s", kind, layout.Kind)
			}
			second, err := WritePredictions(got, kind)
			if err != nil || !bytes.Equal(first, second) {
				t.Fatalf("%s\nbecame\n%s\n%v", first, second, err)
			}
		}
	})
}

// Python's own encoder writes the same bytes.
func TestDumpsIsPythons(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to compare with")
	}
	value := object{{"a", "é\u2028😀\"\\\x7f\x01/<&"}, {"b", []string{}}, {"c", object{}}, {"d", []any{1, true, nil, []string{"x", "y"}}}, {"ä", object{{"z", false}}}}
	for _, indent := range []int{0, 2, 4} {
		ours, err := dumps(value, indent)
		if err != nil {
			t.Fatal(err)
		}
		arg := fmt.Sprint(indent)
		if indent == 0 {
			arg = "None"
		}
		cmd := exec.Command(python, "-c", "import json,sys; sys.stdout.write(json.dumps(json.load(sys.stdin), indent="+arg+"))")
		cmd.Stdin = bytes.NewReader(ours)
		theirs, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours, theirs) {
			t.Errorf("indent %s:\n%s\nPython:\n%s", arg, ours, theirs)
		}
	}
}

// Predictions of other people that must be refused, with the line and why.
func TestPredictionsRefused(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", " \n", "the file is empty"},
		{"broken", "{\"instance_id\": \"a\", \"model_patch\": \"x\"}\n{\"instance_id\"", "p:2: not JSON"},
		{"no id", `{"model_patch": "x"}`, "p:1: no instance_id and no task_id"},
		{"no answer", "\n\n{\"instance_id\": \"a\"}", "p:3: none of model_patch, solution and completion"},
		{"two answers", `{"task_id": "a", "solution": "x", "completion": "y"}`, "p:1: both solution and completion"},
		{"a patch twice", "[{\"instance_id\": \"a\", \"model_patch\": \"x\"},\n{\"instance_id\": \"a\", \"model_patch\": \"y\"}]", "p:2: a second patch of None for a, first in line 1"},
		{"a list", `{"instance_id": "a", "model_patch": ["x"]}`, "p:1: model_patch is a list"},
		{"a NUL", `{"instance_id": "a", "model_patch": "\u0000"}`, "p:1: the prediction is no text"},
		{"numbers", `[1]`, "p:1: a record must be a JSON object"},
		{"more", `[{"instance_id": "a", "model_patch": "x"}] x`, "something follows"},
	} {
		_, _, err := parsePredictions([]byte(c.in), "p")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What other people write is understood.
func TestPredictionsRead(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []Prediction
	}{
		{"mini-swe-agent", `{"a__b-1": {"model_name_or_path": "m", "instance_id": "a__b-1", "model_patch": "d"}}`, []Prediction{{ID: "a__b-1", Model: "m", Kind: PredictsPatch, Text: "d"}}},
		{"map keys are discarded", `{"other": {"instance_id": "a", "model_patch": "d"}, "z": {"instance_id": "b", "model_patch": null}}`,
			[]Prediction{{ID: "a", Model: NoModel, Kind: PredictsPatch, Text: "d"}, {ID: "b", Model: NoModel, Kind: PredictsPatch, Null: true}}},
		{"SWE-bench-Live", `{"a": {"model_patch": "d"}}`, []Prediction{{ID: "a", Model: NoModel, Kind: PredictsPatch, Text: "d"}}},
		{"EvalPlus", "{\"task_id\": \"HumanEval/0\", \"solution\": \"s\"}\n{\"task_id\": \"HumanEval/0\", \"solution\": \"t\"}\n",
			[]Prediction{{ID: "HumanEval/0", Model: NoModel, Kind: PredictsSolution, Text: "s"}, {ID: "HumanEval/0", Model: NoModel, Kind: PredictsSolution, Text: "t"}}},
		{"HumanEval", `{"task_id": "HumanEval/1", "completion": "  return 1"}`, []Prediction{{ID: "HumanEval/1", Model: NoModel, Kind: PredictsCompletion, Text: "  return 1"}}},
	} {
		got, _, err := parsePredictions([]byte(c.in), "p")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if d := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Prediction{}, "Raw", "Line")); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

const okRow = `{"instance_id": "a__b-1", "repo": "a/b", "patch": "", "FAIL_TO_PASS": "[\"t.py::x\"]", "PASS_TO_PASS": ["t.py::y"], "extra": {"k": 1}}`

func TestRows(t *testing.T) {
	r, err := ParseRow([]byte(okRow), 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.FailToPass, []string{"t.py::x"}) || !slices.Equal(r.PassToPass, []string{"t.py::y"}) || string(r.Value("extra")) != `{"k": 1}` || string(r.Raw) != okRow {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct{ from, to, want string }{
		{`"repo": "a/b"`, `"repo": 3`, "field repo is 3, and must be text"},
		{`"patch": "",`, ``, "field patch is missing"},
		{`"extra"`, `"repo"`, "field repo stands there twice"},
		{`"[\"t.py::x\"]"`, `"[]"`, "FAIL_TO_PASS is empty"},
		{`["t.py::y"]`, `[1]`, "field PASS_TO_PASS is a list"},
		{`"a__b-1"`, `"a b"`, "holds white space"},
		{`"patch": ""`, `"patch": "\ud800"`, "half of a character"},
	} {
		_, err := ParseRow([]byte(strings.Replace(okRow, c.from, c.to, 1)), 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
	if _, _, err := parseRows([]byte(okRow+"\n"+okRow), "f"); err == nil || !strings.Contains(err.Error(), "f:2: instance_id a__b-1 stands there twice, first in line 1") {
		t.Errorf("the same row twice: %v", err)
	}
}

func TestTestIDs(t *testing.T) {
	r := &Row{ID: "i", FailToPass: []string{"t.py::a[log(photon", "t.py::b", "t.py::b", "t.py::ok[1-[x]]"}, PassToPass: []string{
		"t.py::b", "t.py::a[log(photon /cm2)]", "t.py::c \x1b[32m", "t.py::d - assert 1 == 2", "test e (0.02s)", "t.py::f[<object at 0x7f3a2b1c0d00>]", "t.py::e\u0301"}}
	got := map[string]int{}
	for _, f := range CheckIDs(r) {
		got[string(f.Fault)]++
		if f.Instance != "i" || f.Detail == "" {
			t.Errorf("%+v", f)
		}
	}
	// c's colour opens a bracket and closes none.
	want := map[string]int{"truncated": 2, "twice": 1, "both": 1, "ambiguous": 1, "space": 5, "mangled": 4, "unicode": 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if all := CheckIDs(&Row{FailToPass: []string{"tests/test_x.py::TestA::test_b[1.5-ü-x]"}, PassToPass: []string{"TestAdd/sub_1", "crate::mod::test"}}); len(all) > 0 {
		t.Errorf("faults of honest ids: %v", all)
	}
}

// A Parquet file as data-set servers publish it: text columns, lists as text.
func TestParquet(t *testing.T) {
	type row struct {
		Repo string   `parquet:"repo"`
		ID   string   `parquet:"instance_id"`
		P    string   `parquet:"patch"`
		F2P  string   `parquet:"FAIL_TO_PASS"`
		P2P  []string `parquet:"PASS_TO_PASS,list"`
		Diff *string  `parquet:"difficulty,optional"`
	}
	easy := "<15 min fix"
	path := filepath.Join(t.TempDir(), "test.parquet")
	if err := parquet.WriteFile(path, []row{
		{"a/b", "a__b-1", "diff <é>", `["t.py::x"]`, []string{"t.py::y", "t.py::z"}, &easy}, {"a/b", "a__b-2", "", `["t.py::x"]`, nil, nil},
	}); err != nil {
		t.Fatal(err)
	}
	rows, layout, err := ReadRows(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].ID != "a__b-1" || rows[0].Patch != "diff <é>" || !slices.Equal(rows[0].PassToPass, []string{"t.py::y", "t.py::z"}) ||
		string(rows[0].Value("difficulty")) != `"<15 min fix"` || len(rows[1].PassToPass) != 0 || !slices.Equal(layout.IDs, []string{"a__b-1", "a__b-2"}) {
		t.Errorf("%+v", rows)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < len(b); cut += len(b)/40 + 1 {
		if err := os.WriteFile(path, b[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadRows(path); err == nil {
			t.Errorf("a file of %d of its %d bytes was read", cut, len(b))
		}
	}
}

func FuzzPredictions(f *testing.F) {
	for _, s := range []string{`{"instance_id": "a", "model_patch": "x"}`, `[{"task_id": "a", "solution": "x"}]`, `{"a": {"model_patch": null}}`, "[", "{}", `{"a": {}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, layout, err := parsePredictions(b, "p")
		if err != nil {
			return
		}
		var records [][]byte
		for _, p := range all {
			records = append(records, p.Raw)
		}
		if got, err := layout.Join(records); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%q came back as %q, %v", b, got, err)
		}
	})
}

func FuzzRows(f *testing.F) {
	f.Add([]byte(okRow))
	f.Add([]byte("[" + okRow + "]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, layout, err := parseRows(b, "p")
		if err != nil {
			return
		}
		var records [][]byte
		for _, r := range rows {
			CheckIDs(r)
			records = append(records, r.Raw)
		}
		if got, err := layout.Join(records); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%q came back as %q, %v", b, got, err)
		}
	})
}

func FuzzReports(f *testing.F) {
	r, _ := InstanceReport{ID: "a", Tests: &TestsStatus{}}.Marshal()
	s, _ := RunSummary{}.Marshal()
	f.Add(r)
	f.Add(s)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseInstanceReport(b); err == nil {
			if _, err := r.Marshal(); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := ParseRunSummary(b); err == nil {
			if _, err := s.Marshal(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
