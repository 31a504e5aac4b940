package trajectory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMeasure(t *testing.T) {
	n, f := ptr[int64], ptr[float64]
	user := Step{Source: User, Timestamp: "2026-01-02T03:04:00Z"}
	agent := func(m *Metrics, calls *int64, tools ...string) Step {
		s := Step{Source: Agents, Metrics: m, LLMCalls: calls}
		for _, name := range tools {
			s.ToolCalls = append(s.ToolCalls, ToolCall{Function: name})
		}
		return s
	}
	all := &Metrics{PromptTokens: n(10), CompletionTokens: n(2), CachedTokens: n(1), CostUSD: f(0.5)}
	copied := agent(all, n(1), "bash")
	copied.CopiedContext = ptr(true)
	late := user
	late.Source, late.Timestamp = System, "2026-01-02T03:04:02.5Z"
	for _, c := range []struct {
		name  string
		steps []Step
		final *FinalMetrics
		want  Measures
	}{
		{"no agent at all is unknown, not zero", []Step{user, late}, nil,
			Measures{Steps: 2, User: 1, System: 1, Duration: ptr(2500 * time.Millisecond)}},
		{"no model was asked: zero, known", []Step{agent(nil, n(0), "solve")}, nil,
			Measures{Steps: 1, Agent: 1, ToolCalls: 1, Tools: map[string]int{"solve": 1}, LLMCalls: n(0), PromptTokens: n(0), CompletionTokens: n(0), CachedTokens: n(0), CostUSD: f(0)}},
		{"all known", []Step{agent(all, n(1), "bash", "edit"), agent(all, n(2), "bash")}, nil,
			Measures{Steps: 2, Agent: 2, ToolCalls: 3, Tools: map[string]int{"bash": 2, "edit": 1}, LLMCalls: n(3), PromptTokens: n(20), CompletionTokens: n(4), CachedTokens: n(2), CostUSD: f(1)}},
		{"one step tells nothing: a lower bound", []Step{agent(all, n(1)), agent(nil, nil)}, nil,
			Measures{Steps: 2, Agent: 2, PromptTokens: n(10), CompletionTokens: n(2), CachedTokens: n(1), CostUSD: f(0.5), Partial: true}},
		{"nobody tells: unknown", []Step{agent(nil, nil)}, nil,
			Measures{Steps: 1, Agent: 1}},
		{"nobody but the document's own totals", []Step{agent(nil, n(4))}, &FinalMetrics{PromptTokens: n(7)},
			Measures{Steps: 1, Agent: 1, LLMCalls: n(4), PromptTokens: n(7), Stated: true}},
		{"the steps win over the totals", []Step{agent(all, n(1))}, &FinalMetrics{PromptTokens: n(7)},
			Measures{Steps: 1, Agent: 1, LLMCalls: n(1), PromptTokens: n(10), CompletionTokens: n(2), CachedTokens: n(1), CostUSD: f(0.5)}},
		{"copied steps are counted once, elsewhere", []Step{copied, agent(all, n(1), "edit")}, nil,
			Measures{Steps: 2, Agent: 2, Copied: 1, ToolCalls: 1, Tools: map[string]int{"edit": 1}, LLMCalls: n(1), PromptTokens: n(10), CompletionTokens: n(2), CachedTokens: n(1), CostUSD: f(0.5)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want.Tools == nil {
				c.want.Tools = map[string]int{}
			}
			got := (&Trajectory{Steps: c.steps, FinalMetrics: c.final}).Measure()
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestJoin(t *testing.T) {
	n, f := ptr[int64], ptr[float64]
	m := Measures{PromptTokens: n(10), CompletionTokens: n(1)}
	m.Join(Measures{PromptTokens: n(5), CostUSD: f(0.5)})
	if *m.PromptTokens != 15 || *m.CompletionTokens != 1 || m.CachedTokens != nil || *m.CostUSD != 0.5 || !m.Partial {
		t.Errorf("%+v", m)
	}
	m = Measures{PromptTokens: n(10)}
	if m.Join(Measures{PromptTokens: n(5)}); m.Partial || *m.PromptTokens != 15 {
		t.Errorf("%+v", m)
	}
}
