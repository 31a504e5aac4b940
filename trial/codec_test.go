package trial

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite goldens")

// Files that Harbor 0.25 wrote come back byte for byte.
func TestHarborFilesRoundTrip(t *testing.T) {
	for _, name := range harborFiles(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			want, r := readFile(t, name)
			got, err := r.Format()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("-harbor +assay:\n%s", d)
			}
			if _, ok, err := r.Assay(); ok || err != nil {
				t.Errorf("a foreign result has a record: %v %v", ok, err)
			}
		})
	}
}

func TestFullResultGolden(t *testing.T) {
	r := fullResult(t)
	got, err := r.Format()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "assay-full.golden.json", got)
	back, err := Parse(got)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.Format()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(got), string(again)); d != "" {
		t.Errorf("second writing differs:\n%s", d)
	}
}

func TestTimesArePydantics(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "2026-01-02T03:04:05Z"},
		{time.Date(2026, 1, 2, 3, 4, 5, 1_000_000, time.UTC), "2026-01-02T03:04:05.001000Z"},
		{time.Date(2026, 1, 2, 3, 4, 5, 999, time.UTC), "2026-01-02T03:04:05Z"},
		{time.Date(2026, 1, 2, 3, 4, 5, 123456789, zone), "2026-01-02T01:04:05.123456Z"},
	} {
		b, err := marshal(&Span{StartedAt: &c.at})
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"started_at":"` + c.want + `","finished_at":null}`; string(b) != want {
			t.Errorf("got %s, want %s", b, want)
		}
	}
	var s Span
	for _, text := range []string{"2026-01-02T03:04:05.5", "2026-01-02T03:04:05.5Z", "2026-01-02 03:04:05.500000+00:00", "2026-01-02T05:04:05.5+02:00"} {
		if err := json.Unmarshal([]byte(`{"started_at":"`+text+`"}`), &s); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if want := time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC); !s.StartedAt.Equal(want) {
			t.Errorf("%s read as %s", text, s.StartedAt)
		}
	}
	if err := json.Unmarshal([]byte(`{"started_at":"yesterday"}`), &s); err == nil {
		t.Error("a time in words was read")
	}
}

func TestExtraKeysSurvive(t *testing.T) {
	in := `{"id":"x","zeta":{"a":[1,2]},"alpha":1e5,"ID":"other","agent_info":{"name":"a","version":"1"}}`
	r, err := Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != "x" || len(r.Extra) != 3 {
		t.Fatalf("id %q, extra %v", r.ID, r.Extra)
	}
	out, err := marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(out), `,"step_results":null,"ID":"other","alpha":1e5,"zeta":{"a":[1,2]}}`) {
		t.Errorf("extra keys are not at the end: %s", out)
	}
}

func TestUnknownModelUsageIsLeftOut(t *testing.T) {
	a := AgentResult{ModelUsage: map[string]Usage{"m": {InputTokens: num(3)}}}
	b, err := marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"model_usage":{"m":{"n_input_tokens":3,"cost_usd":null}}`) {
		t.Errorf("%s: Harbor refuses null counts by model and reads missing ones as 0", b)
	}
	var back AgentResult
	if err := json.Unmarshal(b, &back); err != nil || back.ModelUsage["m"].OutputTokens != nil {
		t.Errorf("unknown became known: %+v %v", back.ModelUsage, err)
	}
}

func TestRewardsMustBeNumbers(t *testing.T) {
	for _, bad := range []string{`{"rewards":{"reward":null}}`, `{"rewards":{"reward":"one"}}`, `{"rewards":{"reward":{}}}`, `{"rewards":[1]}`} {
		if _, err := Parse([]byte(`{"verifier_result":` + bad + `}`)); err == nil {
			t.Errorf("%s was read", bad)
		} else if !strings.Contains(err.Error(), "verifier_result") {
			t.Errorf("error %q does not name the key", err)
		}
	}
}

func TestAssayRecord(t *testing.T) {
	rec := Record{Outcome: Fail, Fault: FaultBudget, Cause: CauseAgentTimeout, Attempt: 2, Rep: 1}
	r := &Result{TrialName: "t__1"}
	if err := r.SetAssay(rec); err != nil {
		t.Fatal(err)
	}
	got, ok, err := r.Assay()
	if err != nil || !ok {
		t.Fatalf("ok %v, err %v", ok, err)
	}
	rec.V = RecordVersion
	if d := cmp.Diff(rec, got); d != "" {
		t.Error(d)
	}
	for _, bad := range []Record{
		{Outcome: Pass, Fault: FaultNone, Cause: CauseAgentTimeout},
		{Outcome: Fail, Fault: FaultAgent, Cause: "bad_luck"},
		{},
	} {
		if err := r.SetAssay(bad); err == nil {
			t.Errorf("%+v was recorded", bad)
		}
	}
	for _, bad := range []string{`{"v":99,"cause":"solved"}`, `{"v":1,"cause":"bad_luck"}`, `[]`} {
		r.AgentResult.Metadata["assay"] = json.RawMessage(bad)
		if _, _, err := r.Assay(); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// Harbor takes a present agent_result at the root for the whole trial's usage.
func TestAssayRecordOfSteps(t *testing.T) {
	r := &Result{StepResults: []StepResult{
		{StepName: "a", AgentResult: &AgentResult{Usage: Usage{InputTokens: num(5)}}},
		{StepName: "b", AgentResult: &AgentResult{Usage: Usage{InputTokens: num(7)}}},
		{StepName: "c"},
	}}
	if s := r.TotalUsage(); s.InputTokens == nil || *s.InputTokens != 12 {
		t.Errorf("total before %v", show(s.InputTokens))
	}
	if err := r.SetAssay(Record{Outcome: Pass, Fault: FaultNone, Cause: CauseSolved}); err != nil {
		t.Fatal(err)
	}
	if u := r.AgentResult.Usage; !same(u.InputTokens, num(12)) || u.CostUSD != nil {
		t.Errorf("root usage %v, cost %v", show(u.InputTokens), show(u.CostUSD))
	}
	if s := r.TotalUsage(); !same(s.InputTokens, num(12)) {
		t.Errorf("total after %v", show(s.InputTokens))
	}
}

func TestResultRoundTripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawResult(t)
		b, err := r.Format()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if d := cmp.Diff(r, back); d != "" {
			t.Fatalf("-wrote +read:\n%s", d)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, name := range harborFiles(f) {
		b, _ := readFile(f, name)
		f.Add(b)
	}
	f.Add([]byte(`{"agent_result":{"metadata":{"assay":{"v":1,"cause":"solved"}}},"step_results":[{}]}`))
	f.Add([]byte(`{"verifier_result":{"rewards":{"a":1e400,"b":-0}},"started_at":"2026-01-01T00:00:00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		r.Assay()
		if rec := Derive(r); rec.Outcome == "" {
			t.Errorf("derived no outcome")
		}
		out, err := r.Format()
		if err != nil {
			t.Fatalf("read but cannot be written: %v", err)
		}
		back, err := Parse(out)
		if err != nil {
			t.Fatalf("written but cannot be read: %v\n%s", err, out)
		}
		again, err := back.Format()
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("not stable (%v):\n%s\n%s", err, out, again)
		}
	})
}

func harborFiles(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/harbor-*.json")
	if err != nil || len(names) < 5 {
		t.Fatalf("fixtures: %v %v", names, err)
	}
	return names
}

func readFile(t testing.TB, name string) ([]byte, *Result) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	p := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(p, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}
