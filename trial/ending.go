package trial

import "fmt"

// Outcome says how a trial ended. The zero value is not an outcome: a result
// that nobody filled in never reads as a success.
type Outcome string

const (
	// Pass: the closed list of checks, or the foreign task's reward, says solved.
	Pass Outcome = "pass"
	// Fail: graded and not solved.
	Fail Outcome = "fail"
	// Invalid: the task itself is broken; says nothing about the agent.
	Invalid Outcome = "invalid"
	// Infra: assay or the machine failed; says nothing about the agent.
	Infra Outcome = "infra"
	// Inconclusive: the verifier gave no report that can be trusted. It counts
	// as unresolved, so that crashing the runner never pays.
	Inconclusive Outcome = "inconclusive"
)

// Outcomes lists every outcome in the order tables print them.
func Outcomes() []Outcome { return []Outcome{Pass, Fail, Inconclusive, Invalid, Infra} }

// Fault says whose doing the ending was.
type Fault string

const (
	FaultNone      Fault = "none"
	FaultAgent     Fault = "agent"
	FaultTask      Fault = "task"
	FaultInfra     Fault = "infra"
	FaultBudget    Fault = "budget" // a limit of time, memory, disk, tokens or money
	FaultCancelled Fault = "cancelled"
)

// Cause is a registered word for why a trial ended as it did. [Endings] is
// the register; later versions add words and never change the meaning of one.
type Cause string

const (
	CauseSolved          Cause = "solved"
	CauseUnsolved        Cause = "unsolved"
	CauseAgentExit       Cause = "agent_exit"       // the agent's program ended non-zero and the task is not solved
	CauseAgentCrash      Cause = "agent_crash"      // a signal that nobody of ours sent ended the agent's program
	CauseAgentTimeout    Cause = "agent_timeout"    // the deadline ended the agent and the task is not solved
	CauseNoSubmission    Cause = "no_submission"    // the agent ended without saying that it was done
	CauseContextLimit    Cause = "context_limit"    // the model's context or output limit ended the agent
	CauseAgentRefused    Cause = "agent_refused"    // the model declined the task
	CauseMalformedCall   Cause = "malformed_call"   // the model's last tool calls could not be read
	CauseBudget          Cause = "budget"           // tokens or money of the trial were used up
	CauseLoop            Cause = "loop"             // the agent repeated itself until it was stopped
	CauseDiskLimit       Cause = "disk_limit"       // the sandbox's disk was full when the agent ended
	CauseMemoryLimit     Cause = "memory_limit"     // the sandbox was killed for its memory
	CauseBuildError      Cause = "build_error"      // the work does not parse, compile, link or import
	CauseRuntimeError    Cause = "runtime_error"    // an expected check crashed or raised something
	CauseCheckTimeout    Cause = "check_timeout"    // a command or case of the checks did not end in time
	CauseWrongAnswer     Cause = "wrong_answer"     // a program's or function's result is not the expected one
	CauseTestMismatch    Cause = "test_mismatch"    // an expected test's assertion does not hold
	CauseMissingTest     Cause = "missing_test"     // an expected id is in no report
	CauseRegression      Cause = "regression"       // the task's own checks pass, and something that worked before fails
	CauseEmptyPatch      Cause = "empty_patch"      // the agent worked and left the tree as it was
	CauseNoAttempt       Cause = "no_attempt"       // the agent did nothing at all
	CauseForbiddenChange Cause = "forbidden_change" // the work changes what the task forbids
	CausePatchFailed     Cause = "patch_failed"     // a prediction's patch does not apply
	CauseVerifierTimeout Cause = "verifier_timeout" // the verifier did not end in time
	CauseRewardMissing   Cause = "reward_missing"   // no reward file
	CauseRewardEmpty     Cause = "reward_empty"     // a reward file of no bytes
	CauseRewardMalformed Cause = "reward_malformed" // a reward file that is not what Harbor reads
	CauseVoid            Cause = "void"             // a report that cannot be trusted
	CauseTaskMalformed   Cause = "task_malformed"   // the task directory cannot be read or run
	CauseTaskUnhealthy   Cause = "task_unhealthy"   // setup or health check failed before the agent began
	CauseImageBuild      Cause = "image_build"      // the task's Dockerfile failed
	CauseImageMissing    Cause = "image_missing"    // the image is not here and cannot be had
	CauseUnsupported     Cause = "unsupported"      // the task or agent needs what this backend does not do
	CauseAgentSetup      Cause = "agent_setup"      // the agent's own files could not be put in place
	CauseModel           Cause = "model_error"      // the model's provider failed, or could not be reached
	CauseModelAuth       Cause = "model_authentication"
	CauseModelSetup      Cause = "model_setup"      // unknown model or parameter: a retry cannot help
	CauseRateLimit       Cause = "rate_limit"       // the provider's limit of requests or tokens a minute
	CauseQuota           Cause = "model_quota"      // the account at the provider has no money left
	CauseOverload        Cause = "overload"         // the provider had no room
	CauseTruncated       Cause = "truncated_stream" // the provider's answers broke off
	CauseSandboxStart    Cause = "sandbox_start"    // no sandbox could be had
	CauseSandboxLost     Cause = "sandbox_lost"     // the sandbox died under the harness
	CauseHarness         Cause = "harness"          // an error of assay itself
	CauseHostDisk        Cause = "host_disk"        // the host's disk is full
	CauseUngraded        Cause = "ungraded"         // verification was switched off
	CauseCancelled       Cause = "cancelled"        // interrupted by the user
)

// Ending is one row of the table that gives every cause its meaning.
type Ending struct {
	Cause   Cause   `json:"cause"`
	Outcome Outcome `json:"outcome"` // the outcome this cause leads to; a timeout whose work passes anyway is CauseSolved
	Fault   Fault   `json:"fault"`
	Retried bool    `json:"retried"` // a retry may help; only infra is ever retried
	Counted bool    `json:"counted"` // stands in the denominator of a rate
	Harbor  string  `json:"harbor"`  // Harbor's exception name in exception_info, empty where Harbor records none
	Means   string  `json:"means"`   // one line for people
}

// Endings returns the table, one row a cause, in the order tables print them.
// The Harbor names are those of Harbor 0.25.
func Endings() []Ending {
	return []Ending{
		{CauseSolved, Pass, FaultNone, false, true, "", "the verifier says solved"},
		{CauseUnsolved, Fail, FaultAgent, false, true, "", "the verifier says not solved"},
		{CauseAgentExit, Fail, FaultAgent, false, true, "NonZeroAgentExitCodeError", "the agent's program ended with an error and the task is not solved"},
		{CauseAgentCrash, Fail, FaultAgent, false, true, "NonZeroAgentExitCodeError", "a signal ended the agent's program and the task is not solved"},
		{CauseAgentTimeout, Fail, FaultBudget, false, true, "AgentTimeoutError", "time was up before the task was solved"},
		{CauseNoSubmission, Fail, FaultAgent, false, true, "", "the agent ended without handing its work in"},
		{CauseContextLimit, Fail, FaultBudget, false, true, "ContextWindowExceededError", "the model's context or output limit ended the agent"},
		{CauseAgentRefused, Fail, FaultAgent, false, true, "AgentSafetyRefusalError", "the model declined the task"},
		{CauseMalformedCall, Fail, FaultAgent, false, true, "", "the model's last tool calls could not be read"},
		{CauseBudget, Fail, FaultBudget, false, true, "AgentTimeoutError", "tokens or money were used up before the task was solved"},
		{CauseLoop, Fail, FaultAgent, false, true, "", "the agent repeated itself until it was stopped"},
		{CauseDiskLimit, Fail, FaultBudget, false, true, "", "the sandbox's disk was full"},
		{CauseMemoryLimit, Fail, FaultBudget, false, true, "", "the sandbox was out of memory"},
		{CauseBuildError, Fail, FaultAgent, false, true, "", "the work does not compile or import"},
		{CauseRuntimeError, Fail, FaultAgent, false, true, "", "a check crashed or raised something"},
		{CauseCheckTimeout, Fail, FaultBudget, false, true, "", "a check did not end in time"},
		{CauseWrongAnswer, Fail, FaultAgent, false, true, "", "a result is not the expected one"},
		{CauseTestMismatch, Fail, FaultAgent, false, true, "", "an expected test's assertion does not hold"},
		{CauseMissingTest, Fail, FaultAgent, false, true, "", "an expected test was not reported"},
		{CauseRegression, Fail, FaultAgent, false, true, "", "what worked before is broken"},
		{CauseEmptyPatch, Fail, FaultAgent, false, true, "", "the agent worked and changed nothing"},
		{CauseNoAttempt, Fail, FaultAgent, false, true, "", "the agent did nothing"},
		{CauseForbiddenChange, Fail, FaultAgent, false, true, "", "the work changes what the task forbids"},
		{CausePatchFailed, Fail, FaultAgent, false, true, "", "the prediction's patch does not apply"},
		{CauseVerifierTimeout, Inconclusive, FaultAgent, false, true, "VerifierTimeoutError", "the verifier did not end in time"},
		{CauseRewardMissing, Inconclusive, FaultAgent, false, true, "RewardFileNotFoundError", "the verifier wrote no reward"},
		{CauseRewardEmpty, Inconclusive, FaultAgent, false, true, "RewardFileEmptyError", "the verifier wrote an empty reward file"},
		{CauseRewardMalformed, Inconclusive, FaultAgent, false, true, "VerifierOutputParseError", "the reward file is not a flat object of finite numbers"},
		{CauseVoid, Inconclusive, FaultAgent, false, true, "VerifierOutputParseError", "the test report cannot be trusted"},
		{CauseTaskMalformed, Invalid, FaultTask, false, false, "ValueError", "the task directory cannot be read"},
		{CauseTaskUnhealthy, Invalid, FaultTask, false, false, "HealthcheckError", "the task's environment was not healthy before the agent began"},
		{CauseImageBuild, Invalid, FaultTask, false, false, "RuntimeError", "the task's image does not build"},
		{CauseImageMissing, Infra, FaultInfra, false, false, "RuntimeError", "the task's image is not on this machine"},
		{CauseUnsupported, Infra, FaultInfra, false, false, "ValueError", "this backend cannot give what the task or agent needs"},
		{CauseAgentSetup, Infra, FaultInfra, true, false, "AgentSetupTimeoutError", "the agent's files could not be put in place"},
		{CauseModel, Infra, FaultInfra, true, false, "ApiError", "the model's provider failed"},
		{CauseRateLimit, Infra, FaultInfra, true, false, "ApiRateLimitError", "the provider's rate limit did not pass in time"},
		{CauseOverload, Infra, FaultInfra, true, false, "ApiOverloadedError", "the model's provider was overloaded"},
		{CauseTruncated, Infra, FaultInfra, true, false, "ApiConnectionClosedError", "the provider's answers broke off"},
		{CauseQuota, Infra, FaultInfra, false, false, "ApiUsageLimitError", "the account at the model's provider is used up"},
		{CauseModelAuth, Infra, FaultInfra, false, false, "AgentAuthenticationError", "the model's provider refused the credential"},
		{CauseModelSetup, Infra, FaultInfra, false, false, "ModelNotFoundError", "the model's name or parameters were refused"},
		{CauseSandboxStart, Infra, FaultInfra, true, false, "EnvironmentStartTimeoutError", "no sandbox could be started"},
		{CauseSandboxLost, Infra, FaultInfra, true, false, "RuntimeError", "the sandbox died under the harness"},
		{CauseHarness, Infra, FaultInfra, true, false, "RuntimeError", "an error of assay itself"},
		{CauseHostDisk, Infra, FaultInfra, false, false, "OSError", "the host's disk is full"},
		{CauseUngraded, Inconclusive, FaultNone, false, false, "", "nobody graded it: verification was switched off"},
		{CauseCancelled, Infra, FaultCancelled, false, false, "CancelledError", "interrupted"},
	}
}

// Ending looks c up in the table. An unregistered cause is an error: a result
// must never carry a word whose meaning nobody wrote down.
func (c Cause) Ending() (Ending, error) {
	for _, e := range Endings() {
		if e.Cause == c {
			return e, nil
		}
	}
	return Ending{}, fmt.Errorf("cause %q is not registered", c)
}
