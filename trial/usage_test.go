package trial

import (
	"testing"

	"pgregory.net/rapid"
)

func num(n int64) *int64       { return &n }
func money(f float64) *float64 { return &f }

func TestSumUsage(t *testing.T) {
	all := Usage{InputTokens: num(10), CacheTokens: num(4), OutputTokens: num(2), CostUSD: money(0.5)}
	for _, c := range []struct {
		name    string
		in      []Usage
		input   *int64
		cost    *float64
		partial bool
	}{
		{"nothing is unknown, not zero", nil, nil, nil, false},
		{"all unknown stays null and is not partial", []Usage{{}, {}}, nil, nil, false},
		{"known", []Usage{all, all}, num(20), money(1), false},
		{"one unknown makes a lower bound", []Usage{all, {}}, num(10), money(0.5), true},
		{"one field unknown", []Usage{all, {InputTokens: num(0), CacheTokens: num(0), OutputTokens: num(0)}}, num(10), money(0.5), true},
		{"zero is a number", []Usage{{InputTokens: num(0)}}, num(0), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := SumUsage(c.in...)
			if !same(s.InputTokens, c.input) || !same(s.CostUSD, c.cost) || s.Partial != c.partial {
				t.Errorf("input %v cost %v partial %v", show(s.InputTokens), show(s.CostUSD), s.Partial)
			}
		})
	}
}

// A sum is never below any of its known parts, and partial exactly when a
// column mixes known and unknown.
func TestSumUsageIsALowerBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Usage {
			return Usage{InputTokens: rapid.Ptr(rapid.Int64Range(0, 1e9), true).Draw(t, "in")}
		})).Draw(t, "usages")
		s := SumUsage(in...)
		known := 0
		var want int64
		for _, u := range in {
			if u.InputTokens != nil {
				known++
				want += *u.InputTokens
			}
		}
		if (s.InputTokens == nil) != (known == 0) {
			t.Fatalf("null total with %d known parts", known)
		}
		if known > 0 && *s.InputTokens != want {
			t.Fatalf("total %d, want %d", *s.InputTokens, want)
		}
		if s.Partial != (known > 0 && known < len(in)) {
			t.Fatalf("partial %v with %d of %d known", s.Partial, known, len(in))
		}
	})
}

func same[T comparable](a, b *T) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func show[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// A root without numbers, as trials of several steps have, says nothing: the
// steps' numbers are the trial's.
func TestTotalUsageOfSteps(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	r := Result{AgentResult: &AgentResult{}, StepResults: []StepResult{
		{AgentResult: &AgentResult{Usage: Usage{InputTokens: n(3)}}}, {AgentResult: &AgentResult{Usage: Usage{InputTokens: n(4)}}},
	}}
	if got := r.TotalUsage(); got.InputTokens == nil || *got.InputTokens != 7 || got.Partial {
		t.Errorf("%+v", got)
	}
	r.AgentResult.InputTokens = n(9)
	if got := r.TotalUsage(); *got.InputTokens != 9 {
		t.Errorf("the root's own number: %+v", got)
	}
}
