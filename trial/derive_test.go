package trial

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDeriveFromHarborFiles(t *testing.T) {
	for name, want := range map[string]Record{
		"harbor-rewards":  {Outcome: Pass, Fault: FaultNone, Cause: CauseSolved, Evidence: SelfReported},
		"harbor-steps":    {Outcome: Pass, Fault: FaultNone, Cause: CauseSolved, Evidence: SelfReported},
		"harbor-fail":     {Outcome: Fail, Fault: FaultAgent, Cause: CauseUnsolved, Evidence: SelfReported},
		"harbor-nop":      {Outcome: Fail, Fault: FaultAgent, Cause: CauseUnsolved, Evidence: SelfReported},
		"harbor-timeout":  {Outcome: Fail, Fault: FaultBudget, Cause: CauseAgentTimeout, Evidence: SelfReported},
		"harbor-noreward": {Outcome: Inconclusive, Fault: FaultAgent, Cause: CauseRewardMissing},
	} {
		_, r := readFile(t, "testdata/"+name+".json")
		got := Derive(r)
		if got.Outcome != want.Outcome || got.Fault != want.Fault || got.Cause != want.Cause || got.Evidence != want.Evidence {
			t.Errorf("%s: %s by %s (%s), evidence %q", name, got.Outcome, got.Fault, got.Cause, got.Evidence)
		}
		if got.Modes.Backend != "docker" || got.Attempt != 1 || got.V != RecordVersion {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Overhead <= 0 || len(got.Phases) < 3 {
			t.Errorf("%s: overhead %v ms, phases %v", name, got.Overhead, got.Phases)
		}
	}
}

func TestDeriveRules(t *testing.T) {
	yes, no, none := `{"reward":1}`, `{"reward":0}`, ""
	for _, c := range []struct {
		exception, rewards string
		want               Cause
	}{
		{"", yes, CauseSolved},
		{"", no, CauseUnsolved},
		{"", `{}`, CauseUnsolved},
		{"", none, CauseUngraded},
		{"AgentTimeoutError", yes, CauseSolved},
		{"AgentTimeoutError", no, CauseAgentTimeout},
		{"AgentTimeoutError", none, CauseAgentTimeout},
		{"NonZeroAgentExitCodeError", no, CauseAgentExit},
		{"ApiRateLimitError", no, CauseRateLimit},
		{"ApiRateLimitError", yes, CauseSolved},
		{"AgentAuthenticationError", none, CauseModelAuth},
		{"ContextWindowExceededError", no, CauseContextLimit},
		{"VerifierTimeoutError", none, CauseVerifierTimeout},
		{"RewardFileEmptyError", none, CauseRewardEmpty},
		{"VerifierOutputParseError", none, CauseRewardMalformed},
		{"EnvironmentStartTimeoutError", none, CauseSandboxStart},
		{"CancelledError", none, CauseCancelled},
		{"SomethingNewError", none, CauseHarness},
		{"SomethingNewError", no, CauseUnsolved}, // after the verdict, which stands
		{"SomethingNewError", yes, CauseSolved},
	} {
		r := &Result{}
		if c.exception != "" {
			r.Exception = &Exception{Type: c.exception, Message: "first\nsecond"}
		}
		if c.rewards != none {
			r.VerifierResult = &VerifierResult{}
			if err := json.Unmarshal([]byte(c.rewards), &r.VerifierResult.Rewards); err != nil {
				t.Fatal(err)
			}
		}
		got := Derive(r)
		if got.Cause != c.want {
			t.Errorf("%s with %s: %s, want %s", c.exception, c.rewards, got.Cause, c.want)
		}
		e, err := got.Cause.Ending()
		if err != nil || e.Outcome != got.Outcome || e.Fault != got.Fault {
			t.Errorf("%s: %s by %s is not the table's (%v)", got.Cause, got.Outcome, got.Fault, err)
		}
		if c.exception != "" && got.Detail != c.exception+": first" {
			t.Errorf("detail %q", got.Detail)
		}
	}
}

func TestDeriveUsesStepExceptions(t *testing.T) {
	r := &Result{StepResults: []StepResult{{}, {Exception: &Exception{Type: "AgentTimeoutError", Message: strings.Repeat("ä", 400)}}}}
	got := Derive(r)
	if got.Cause != CauseAgentTimeout {
		t.Errorf("cause %s", got.Cause)
	}
	if len(got.Detail) > 340 || !strings.HasSuffix(got.Detail, "…") {
		t.Errorf("detail of %d bytes", len(got.Detail))
	}
}
