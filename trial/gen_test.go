package trial

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

// fullResult has every field set; its config is one that Harbor wrote.
func fullResult(t testing.TB) *Result {
	_, base := readFile(t, "testdata/harbor-rewards.json")
	at := func(ms int) *time.Time {
		return ptr(time.Date(2026, 3, 4, 5, 6, 7, ms*1_000_000, time.UTC))
	}
	span := func(a, b int) *Span { return &Span{at(a), at(b)} }
	usage := Usage{InputTokens: num(1200), CacheTokens: num(200), OutputTokens: num(55), CostUSD: money(1)}
	r := &Result{
		ID: "7f2c5f5e-3d6f-4c55-9f0e-0f6a7a1f0c11", TaskName: "demo/right", TrialName: "right__AbCdEfG",
		TrialURI: "file:///srv/jobs/demo/right__AbCdEfG", TaskID: json.RawMessage(`{"path":"ds/right"}`),
		Source: ptr("ds"), TaskChecksum: base.TaskChecksum, Config: base.Config,
		AgentInfo: AgentInfo{Name: "scripted", Version: "1.2", Model: &ModelInfo{Name: "m-1", Provider: ptr("acme")}},
		AgentResult: &AgentResult{
			Usage: usage, ModelUsage: map[string]Usage{"acme/m-1": usage, "acme/m-2": {}},
			RolloutDetails: json.RawMessage(`[{"prompt_token_ids":[[1,2]],"completion_token_ids":[[3]],"logprobs":[[-0.5]]}]`),
			Metadata:       map[string]json.RawMessage{"note": json.RawMessage(`"a<b & c"`)},
		},
		VerifierResult:          &VerifierResult{Rewards: map[string]json.Number{"reward": "0", "speed": "0.25"}},
		VerifierEnvironmentMode: ptr("separate"),
		Exception:               &Exception{"AgentTimeoutError", "after 2 s", "Traceback\n  …\n", *at(3)},
		StartedAt:               at(0), FinishedAt: at(900),
		EnvironmentSetup: span(1, 2), AgentSetup: span(2, 3), AgentExecution: span(3, 500), Verifier: span(510, 800),
		StepResults: []StepResult{{StepName: "one", AgentResult: &AgentResult{Usage: usage}, VerifierResult: &VerifierResult{}, AgentExecution: span(3, 4), Verifier: span(4, 5)}},
	}
	err := r.SetAssay(Record{
		Outcome: Fail, Fault: FaultBudget, Cause: CauseAgentTimeout, Detail: "time was up", Attempt: 1, Rep: 2, Evidence: Canaried,
		Modes: Modes{"ns", "single", "patch", "sealed", "none", "none", "", "", ""}, Image: ImageUsed{ID: "sha256:00", Source: "host", Fallback: true},
		Task: "sha256:11", AgentExit: ptr(137), EndState: []EndState{{Layer: "l1", Bytes: 10, Files: 1}},
		Phases: []PhaseTime{{PhaseAgent, "", 497}}, Overhead: 12.5, Notes: []string{"fallback image"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func drawResult(t *rapid.T) *Result {
	text := rapid.StringN(0, 12, -1)
	when := func(label string) *time.Time {
		us := rapid.Ptr(rapid.Int64Range(0, 4e15), true).Draw(t, label)
		if us == nil {
			return nil
		}
		return ptr(time.UnixMicro(*us).UTC())
	}
	span := func(label string) *Span {
		if rapid.Bool().Draw(t, label+"?") {
			return nil
		}
		return &Span{when(label + " from"), when(label + " to")}
	}
	exception := func() *Exception {
		if rapid.Bool().Draw(t, "exception?") {
			return nil
		}
		return &Exception{text.Draw(t, "type"), text.Draw(t, "message"), text.Draw(t, "trace"), time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "at")).UTC()}
	}
	r := &Result{
		ID: text.Draw(t, "id"), TaskName: text.Draw(t, "task"), TrialName: text.Draw(t, "trial"), TrialURI: text.Draw(t, "uri"),
		TaskID: json.RawMessage(`{"path":"p"}`), Source: rapid.Ptr(text, true).Draw(t, "source"), TaskChecksum: text.Draw(t, "sum"),
		Config: json.RawMessage(`{}`), AgentInfo: AgentInfo{Name: text.Draw(t, "agent"), Version: "1"},
		AgentResult: drawAgentResult(t), VerifierResult: drawVerifierResult(t), Exception: exception(),
		StartedAt: when("started"), FinishedAt: when("finished"),
		EnvironmentSetup: span("setup"), AgentSetup: span("agent setup"), AgentExecution: span("agent"), Verifier: span("verifier"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "steps") {
		r.StepResults = append(r.StepResults, StepResult{
			StepName: text.Draw(t, "step"), AgentResult: drawAgentResult(t), VerifierResult: drawVerifierResult(t),
			Exception: exception(), AgentExecution: span("step agent"), Verifier: span("step verifier"),
		})
	}
	if rapid.Bool().Draw(t, "extra?") {
		r.Extra = map[string]json.RawMessage{"x_" + text.Draw(t, "extra key"): json.RawMessage(`{"a":[1,null]}`)}
	}
	return r
}

func drawAgentResult(t *rapid.T) *AgentResult {
	if rapid.Bool().Draw(t, "agent result?") {
		return nil
	}
	usage := func() Usage {
		n := rapid.Ptr(rapid.Int64Range(0, 1<<40), true)
		return Usage{n.Draw(t, "in"), n.Draw(t, "cache"), n.Draw(t, "out"), rapid.Ptr(rapid.Float64Range(0, 1e6), true).Draw(t, "cost")}
	}
	a := &AgentResult{Usage: usage()}
	if rapid.Bool().Draw(t, "models?") {
		a.ModelUsage = map[string]Usage{"m": usage()}
	}
	if rapid.Bool().Draw(t, "metadata?") {
		a.Metadata = map[string]json.RawMessage{"k": json.RawMessage(`"<&>"`)}
	}
	return a
}

func drawVerifierResult(t *rapid.T) *VerifierResult {
	switch rapid.IntRange(0, 2).Draw(t, "verifier") {
	case 0:
		return nil
	case 1:
		return &VerifierResult{}
	}
	n := rapid.SampledFrom([]json.Number{"0", "1", "1.0", "-2.5", "1e-9", "100000000000000000000000000000"})
	return &VerifierResult{Rewards: rapid.MapOf(rapid.StringN(1, 8, -1), n).Draw(t, "rewards")}
}
