package compare

import (
	"strings"
	"testing"

	"assay/internal/store"
	"assay/trial"
)

func TestParseGates(t *testing.T) {
	for text, want := range map[string]Gate{
		"resolved >= 0.5":          {Metric: "resolved", End: Value, Op: ">=", Bound: 0.5},
		"pass>50%":                 {Metric: "resolved", End: Value, Op: ">", Bound: 0.5},
		"lower(resolved) >= 50 %":  {Metric: "resolved", End: Lower, Op: ">=", Bound: 0.5},
		"Upper( cost ) < $2.5":     {},
		"upper( cost ) < $2.5":     {Metric: "cost", End: Upper, Op: "<", Bound: 2.5},
		"pass@5 >= .8":             {Metric: "pass@K", K: 5, End: Value, Op: ">=", Bound: 0.8},
		"pass^3 >= 0":              {Metric: "pass^K", K: 3, End: Value, Op: ">=", Bound: 0},
		"time <= 90s":              {Metric: "time", End: Value, Op: "<=", Bound: 90},
		"mean_time <= 5m":          {Metric: "time", End: Value, Op: "<=", Bound: 300},
		"time_per_solved < 1500ms": {Metric: "time_per_solved", End: Value, Op: "<", Bound: 1.5},
		"lower(difference) >= -2%": {Metric: "difference", End: Lower, Op: ">=", Bound: -0.02},
		"turns <= 40":              {Metric: "turns", End: Value, Op: "<=", Bound: 40},
	} {
		got, err := ParseGates(text)
		if want.Metric == "" {
			if err == nil {
				t.Errorf("%q was read as %+v", text, got)
			}
			continue
		}
		if err != nil || len(got) != 1 {
			t.Errorf("%q: %v, %v", text, got, err)
			continue
		}
		want.Text = text
		if got[0] != want {
			t.Errorf("%q is %+v, want %+v", text, got[0], want)
		}
	}
	all, err := ParseGates("resolved >= 0.5 and cost < $1, graded >= 90% && turns<9")
	if err != nil || len(all) != 4 || all[2].Text != "graded >= 90%" {
		t.Errorf("%+v, %v", all, err)
	}
	for text, why := range map[string]string{
		"": "write for example", "resolved": "write for example", "resolved == 1": "neither", "resolved => 1": "neither", "resolved != 0": "neither",
		"solved >= 1": "is no metric; they are resolved", "pass@ >= 1": "whole number", "pass@0 >= 1": "whole number", "pass@x >= 1": "whole number", "pass@K >= 1": "whole number",
		"resolved >= 50": "write 0.5 or 50%", "resolved >= -0.1": "write 0.5", "resolved >= nan": "no number", "resolved >= 0x1p-2": "no number", "cost < inf": "no number",
		"lower(resolved >= 1": "not closed", "resolved >= 0.5 and": "write for example", "cost < 50%": "no number", "resolved >= $1": "no number", "resolved >=": "no number",
		strings.Repeat("x", 2000): "at most 1000",
	} {
		if got, err := ParseGates(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40q: %+v, %v; want %q", text, got, err, why)
		}
	}
}

func FuzzGate(f *testing.F) {
	for _, s := range []string{"resolved >= 0.5", "lower(pass@5)>50% and cost<$1", "difference >= -2%", "time<=5m", "lower(lower(x))", "pass^1<1e309", "&&,and"} {
		f.Add(s)
	}
	r, err := Compare([]*store.View{job("one", grades("bac.")...)}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		all, err := ParseGates(s)
		if err != nil {
			return
		}
		for _, g := range all {
			if g.Metric == "" || g.Op == "" || g.End == 0 || g.Bound != g.Bound {
				t.Fatalf("%q is half read: %+v", s, g)
			}
			if again, err := ParseGates(g.Text); err != nil || len(again) != 1 || again[0] != g {
				t.Fatalf("%q was read as %+v, and its text as %+v, %v", s, g, again, err)
			}
			g.Careful()
		}
		for _, c := range checkAll(r, all) {
			if c.Line == "" || c.Met && c.Value == nil {
				t.Fatalf("%+v", c)
			}
		}
	})
}

func checkAll(r *Report, gates []Gate) []Gated {
	all, _ := r.Check(gates)
	return all
}

func gate(t *testing.T, text string) []Gate {
	t.Helper()
	g, err := ParseGates(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGatesOfAJob(t *testing.T) {
	ada := func(cause trial.Cause, n int) (all []spec) {
		for range n {
			all = append(all, spec{task: "t" + string(rune('a'+len(all))) + string(cause), agent: "ada", cause: cause})
		}
		return all
	}
	whole := compared(t, Options{}, job("one", append(ada(trial.CauseSolved, 12), ada(trial.CauseUnsolved, 8)...)...))
	cut := compared(t, Options{}, job("one", append(append(ada(trial.CauseSolved, 12), ada(trial.CauseUnsolved, 8)...), ada(trial.CauseSandboxLost, 5)...)...))
	none := compared(t, Options{}, job("one", ada(trial.CauseSandboxLost, 2)...))
	for _, c := range []struct {
		r    *Report
		gate string
		met  bool
		says string
	}{
		{whole, "resolved >= 0.6", true, "gate resolved >= 0.6: met by ada: 60 % (95 % interval 38 % to 78 %) on 20/20 trials graded"},
		{whole, "resolved > 60%", false, "not met by ada: 60 %"},
		{whole, "lower(resolved) >= 0.5", false, "its lower end counts"},
		{whole, "lower(resolved) >= 0.35", true, "its lower end counts"},
		{whole, "upper(resolved) < 0.8", true, "its upper end counts"},
		{cut, "resolved >= 0.6", true, "the job is partial: 5 of 25 trials have no verdict (5 lost to infrastructure), so that it lies between 48 % and 68 % whatever they had come to: the gate could go either way"},
		{cut, "resolved >= 0.4", true, "between 48 % and 68 % whatever they had come to"},
		{cut, "graded >= 90%", false, "80 % (95 % interval 61 % to 91 %) on 20/25 trials graded"},
		{none, "resolved >= 0", false, "nothing was graded (0/2 trials graded)"},
		{whole, "strict >= 0", false, "no graded trial has a check plan"},
		{whole, "cost_per_solved < 5", false, "no graded trial knows its cost"},
		{whole, "pass@3 >= 0", false, "no task has 3 graded attempts"},
		{whole, "pass^1 >= 0.6", true, "60 %"},
		{whole, "turns < 5", false, "no solved trial counted its model calls"},
		{whole, "difference >= 0", false, "no two arms"},
	} {
		all, met := c.r.Check(gate(t, c.gate))
		if met != c.met || len(all) != 1 || !strings.Contains(all[0].Line, c.says) {
			t.Errorf("%s: %v %q, want %v %q", c.gate, met, all[0].Line, c.met, c.says)
		}
	}
	if g := gate(t, "cost < 1")[0].Careful(); g.End != Upper {
		t.Errorf("%+v", g)
	}
	two := compared(t, Options{Baseline: "cyd"}, job("one", grades(strings.Repeat("b", 30)+strings.Repeat("a", 10))...))
	all, met := two.Check(gate(t, "lower(difference) >= -2% and resolved >= 0.5"))
	if !met || len(all) != 3 || all[0].Arm != "ada against cyd" {
		t.Errorf("%v %+v", met, all)
	}
	if _, met := (&Report{}).Check(gate(t, "resolved >= 0")); met {
		t.Error("nothing meets a gate")
	}
}

// What costs are unknown must not look cheap.
func TestUnknownCostsMeetNoGate(t *testing.T) {
	one := 1.0
	r := compared(t, Options{}, job("one",
		spec{task: "a", agent: "ada", cause: trial.CauseSolved, change: func(t *store.Trial) { t.Usage.CostUSD = &one }},
		spec{task: "b", agent: "ada", cause: trial.CauseSolved}))
	all, met := r.Check(gate(t, "cost_per_solved < 5"))
	if met || !strings.Contains(all[0].Line, "1 of 2 graded trials do not know their cost") {
		t.Errorf("%v %q", met, all[0].Line)
	}
}
