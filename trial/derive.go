package trial

import (
	"encoding/json"
	"strings"
)

// harborCauses maps the exception names of Harbor 0.25 to causes. It is wider
// than the Harbor column of [Endings]: several names share a cause. Names that
// are missing here are causes of the harness.
// Source: harbor/models/trial/error_policy.py.
func harborCauses() map[string]Cause {
	byCause := map[Cause][]string{
		CauseAgentExit:       {"NonZeroAgentExitCodeError"},
		CauseAgentTimeout:    {"AgentTimeoutError"},
		CauseContextLimit:    {"ContextWindowExceededError", "OutputTokenExceededError", "ContextLengthExceededError", "OutputLengthExceededError"},
		CauseAgentRefused:    {"AgentSafetyRefusalError", "ContentPolicyViolationError"},
		CauseMemoryLimit:     {"SandboxLikelyOutOfMemoryError", "MemoryLimitExceededError"},
		CauseVerifierTimeout: {"VerifierTimeoutError"},
		CauseRewardMissing:   {"RewardFileNotFoundError"},
		CauseRewardEmpty:     {"RewardFileEmptyError"},
		CauseRewardMalformed: {"VerifierOutputParseError"},
		CauseTaskUnhealthy:   {"HealthcheckError"},
		CauseImageBuild:      {"SandboxBuildFailedError"},
		CauseUnsupported:     {"ServiceOperationsUnsupportedError", "MissingExtraError", "DspyImportError", "VercelScopeError"},
		CauseAgentSetup:      {"AgentSetupTimeoutError"},
		CauseModel: {"ApiError", "ApiInternalServerError", "ApiResponseStalledError", "UnknownApiError", "NetworkConnectionError",
			"ApiConnectionError", "InternalServerError", "APIConnectionError", "APIError", "Timeout"},
		CauseRateLimit: {"ApiRateLimitError", "RateLimitError"},
		CauseOverload:  {"ApiOverloadedError", "ServiceUnavailableError"},
		CauseTruncated: {"ApiConnectionClosedError"},
		CauseQuota:     {"ApiUsageLimitError"},
		CauseModelAuth: {"AgentAuthenticationError", "AuthenticationError", "PermissionDeniedError"},
		CauseModelSetup: {"ModelNotFoundError", "UnsupportedModelParametersError", "ApiProviderResourceNotFoundError", "BadRequestError",
			"UnprocessableEntityError", "UnsupportedParamsError", "APIResponseValidationError", "BudgetExceededError", "NotFoundError"},
		CauseSandboxStart: {"EnvironmentStartTimeoutError"},
		CauseSandboxLost: {"SSHAccessError", "GKEExecStreamClosedError", "GKEPodNotFoundError", "RuntimeRequestError",
			"AddTestsDirError", "DownloadVerifierDirError"},
		CauseCancelled: {"CancelledError"},
	}
	m := map[string]Cause{}
	for c, names := range byCause {
		for _, n := range names {
			m[n] = c
		}
	}
	return m
}

// duringAgent are the causes after which Harbor still runs the verifier, so
// that a reward may stand beside them. They explain a reward that does not
// pass; an exception of any other kind that stands beside a reward happened
// after the verdict and does not change it.
func duringAgent(c Cause) bool {
	switch c {
	case CauseAgentExit, CauseAgentTimeout, CauseContextLimit, CauseAgentRefused, CauseMemoryLimit,
		CauseModel, CauseModelAuth, CauseModelSetup, CauseRateLimit, CauseOverload, CauseTruncated, CauseQuota:
		return true
	}
	return false
}

// Derive makes a Record for a result that assay did not write, from its
// exception, rewards and timing. A reward that passes wins over everything, as
// for assay's own trials; a verdict with no reward goes by the exception.
// Attempt is 1; Rep and the task's digest stay unknown.
func Derive(r *Result) Record {
	rewards := r.rewards()
	cause, detail := CauseUngraded, ""
	if e := r.firstException(); e != nil {
		c, known := harborCauses()[e.Type]
		if !known {
			c = CauseHarness
		}
		cause, detail = c, e.Type+": "+firstLine(e.Message)
	}
	switch {
	case Solved(rewards):
		cause = CauseSolved
	case rewards != nil && !duringAgent(cause):
		cause = CauseUnsolved
	}
	rec := Record{V: RecordVersion, Cause: cause, Detail: detail, Attempt: 1, Modes: r.modes()}
	if e, err := cause.Ending(); err == nil {
		rec.Outcome, rec.Fault = e.Outcome, e.Fault
	}
	if rewards != nil {
		rec.Evidence = SelfReported
	}
	rec.Phases = r.derivePhases()
	if r.StartedAt != nil && r.FinishedAt != nil {
		rec.Overhead = millis(&Span{r.StartedAt, r.FinishedAt})
		for _, p := range rec.Phases {
			if p.Phase == PhaseAgent || p.Phase == PhaseTests {
				rec.Overhead -= p.Millis
			}
		}
	}
	return rec
}

// rewards are the trial's, nil when nobody graded it.
func (r *Result) rewards() map[string]json.Number {
	if r.VerifierResult == nil {
		return nil
	}
	return r.VerifierResult.Rewards
}

// firstException is the root's, else that of the first step that has one, in
// Harbor's order of reading.
func (r *Result) firstException() *Exception {
	if r.Exception != nil {
		return r.Exception
	}
	for i := range r.StepResults {
		if r.StepResults[i].Exception != nil {
			return r.StepResults[i].Exception
		}
	}
	return nil
}

// modes reads backend and verifier mode; the network of a foreign trial is not
// recorded anywhere.
func (r *Result) modes() Modes {
	var cfg struct {
		Environment struct {
			Type       string `json:"type"`
			ImportPath string `json:"import_path"`
		} `json:"environment"`
	}
	m := Modes{Grade: "state"}
	if json.Unmarshal(r.Config, &cfg) == nil {
		m.Backend = cfg.Environment.Type
		if m.Backend == "" {
			m.Backend = cfg.Environment.ImportPath
		}
	}
	if v := r.VerifierEnvironmentMode; v != nil {
		m.Verifier = map[string]string{"shared": "live", "separate": "separate"}[*v]
	}
	return m
}

// derivePhases reads Harbor's timing pairs. Its verifier span includes moving
// the tests in and the rewards out.
func (r *Result) derivePhases() []PhaseTime {
	var all []PhaseTime
	add := func(p Phase, step string, s *Span) {
		if s == nil || s.StartedAt == nil || s.FinishedAt == nil {
			return
		}
		if n := len(all); n > 0 && all[n-1].Phase == p && all[n-1].Step == step {
			all[n-1].Millis += millis(s)
			return
		}
		all = append(all, PhaseTime{p, step, millis(s)})
	}
	add(PhaseSetup, "", r.EnvironmentSetup)
	add(PhaseSetup, "", r.AgentSetup)
	add(PhaseAgent, "", r.AgentExecution)
	add(PhaseTests, "", r.Verifier)
	for _, s := range r.StepResults {
		add(PhaseAgent, s.StepName, s.AgentExecution)
		add(PhaseTests, s.StepName, s.Verifier)
	}
	return all
}

func millis(s *Span) float64 { return float64(s.FinishedAt.Sub(*s.StartedAt).Microseconds()) / 1000 }

// firstLine is the first line of s, at most 300 bytes.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}
