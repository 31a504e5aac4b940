package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// serverFault is a way in which a model's server fails, and the causes that it
// may give a trial.
type serverFault struct {
	name, yaml string
	causes     []trial.Cause
}

// serverFaults are all of them. Each is what every request meets.
func serverFaults() []serverFault {
	f := func(name, yaml string, causes ...trial.Cause) serverFault { return serverFault{name, yaml, causes} }
	return []serverFault{
		f("unauthorized", "kind: unauthorized", trial.CauseModelAuth),
		f("rate-limit", "kind: rate-limit, retry_after: 1s", trial.CauseRateLimit),
		f("server-error", "kind: server-error", trial.CauseModel),
		f("overloaded", "kind: overloaded", trial.CauseOverload),
		f("context", "kind: context", trial.CauseContextLimit),
		f("refusal", "kind: refusal", trial.CauseAgentRefused),
		f("cut", "kind: cut, events: 1", trial.CauseTruncated),
		f("reset", "kind: reset", trial.CauseModel),
		f("stall", "kind: stall, events: 1", trial.CauseModel),
		f("html", "kind: html", trial.CauseModel),
		f("half-json", "kind: half-json, events: 1", trial.CauseModel, trial.CauseTruncated),
		f("endless", "kind: endless", trial.CauseModel, trial.CauseAgentTimeout),
		f("huge-arguments", "kind: huge-arguments", trial.CauseModel, trial.CauseAgentTimeout),
		f("malformed-arguments", "kind: malformed-arguments", trial.CauseMalformedCall, trial.CauseLoop),
		f("unknown-tool", "kind: unknown-tool", trial.CauseLoop),
	}
}

// notices reports whether an agent ends by itself, and sooner than we end it,
// where a model goes wrong again and again: mini takes three answers that it
// cannot read, gemini-cli looks for repetitions in texts and calls, and in its
// dialect arguments are never half an object.
func notices(agent, fault string) bool {
	return agent == "mini-swe-agent" && fault == "unknown-tool" || agent == "gemini-cli" && slices.Contains([]string{"endless", "malformed-arguments", "unknown-tool"}, fault)
}

// With the agents' retries off, no patience and 15 s for a trial, each fault of a server ends the trial with its cause, whatever the agent's exit status.
func TestClientFaults(t *testing.T) {
	b := newClientBed(t)
	for _, agent := range clients("codex") {
		for _, f := range serverFaults() {
			t.Run(agent+"/"+f.name, func(t *testing.T) {
				b.t = t
				name := "fault-" + strings.ReplaceAll(agent, "/", "-") + "-" + f.name
				script := b.write(name+".yaml", "chunk: 65536\nfaults: [{"+f.yaml+"}]\n"+scriptFor(agent))
				begin := time.Now()
				got := b.run(name, agent, "scripted:"+script, "--patience", "0s", "--no-agent-retries", "--agent-timeout", "15s")
				took := time.Since(begin)
				t.Logf("cause %s (%s) after %.1f s, %d calls: %s", got.Record.Cause, got.Record.Fault, took.Seconds(), *got.Record.Calls, got.Record.Detail)
				if !slices.Contains(f.causes, got.Record.Cause) && !(notices(agent, f.name) && got.Record.Cause == trial.CauseUnsolved) {
					t.Errorf("cause %s, want one of %v\n%s", got.Record.Cause, f.causes, agentText(got))
				}
				if took > 5*time.Minute {
					t.Errorf("it hung for %v", took)
				}
				if !slices.Contains([]string{"endless", "huge-arguments"}, f.name) { // of these the trajectory holds a part
					equalsTraffic(t, got)
				}
			})
		}
	}
	b.harborTakes(t)
}

// stopCase is a limit that an agent runs into.
type stopCase struct {
	name, script string
	flags        []string
	cause        trial.Cause
}

// stopCases are those of an agent; aider asks once and runs no commands.
func stopCases(agent string) []stopCase {
	work := "turns:\n  - calls: [{bash: \"echo {n} >>steps\"}]\n    times: 500\n    usage: {input: 1000, output: 100}\n"
	same := "turns:\n  - calls: [{bash: \"echo the same\"}]\n    times: 500\n"
	limit := "15s"
	if os.Getenv("ASSAY_CLIENTS") == "" {
		limit = "5s"
	}
	slow := stopCase{"deadline", "latency: 400ms\n" + work, []string{"--agent-timeout", limit, "--no-loop-stop"}, trial.CauseAgentTimeout}
	if agent == "aider" {
		slow.script = "latency: 100s\n" + aiderWritesHello
		other := strings.ReplaceAll(aiderWritesHello, "hello.txt", "other.txt") + "    usage: {input: 1000, output: 100}\n"
		return []stopCase{slow, {"budget", other, []string{"--max-tokens", "1000"}, trial.CauseBudget}}
	}
	return []stopCase{slow, {"budget", work, []string{"--max-tokens", "5000"}, trial.CauseBudget}, {"loop", same, nil, trial.CauseLoop}}
}

// A limit ends every agent, soon and with its own cause.
func TestClientStops(t *testing.T) {
	b := newClientBed(t)
	for _, agent := range clients("codex", "claude-code") {
		for _, c := range stopCases(agent) {
			t.Run(agent+"/"+c.name, func(t *testing.T) {
				b.t = t
				name := c.name + "-" + strings.ReplaceAll(agent, "/", "-")
				got := b.run(name, agent, "scripted:"+b.write(name+".yaml", c.script), append([]string{"--agent-timeout", "120s"}, c.flags...)...)
				late := afterStop(t, got, c)
				t.Logf("cause %s after %d calls; the agent was gone %.2f s after its limit", got.Record.Cause, *got.Record.Calls, late.Seconds())
				if c.name == "loop" && slices.Contains([]string{"qwen-code", "gemini-cli", "cline"}, agent) && *got.Record.Calls < 10 {
					return // these notice it themselves, and sooner
				}
				if agent == "aider" && c.name == "deadline" && got.Record.Cause == trial.CauseModel {
					return // its one call may have waited for most of its time: then the server is to blame
				}
				if got.Record.Cause != c.cause {
					t.Errorf("cause %s, want %s: %s\n%s", got.Record.Cause, c.cause, got.Record.Detail, agentText(got))
				}
				if late > 20*time.Second { // 2 s is what is measured; a busy machine is no failure
					t.Errorf("the agent was gone %v after its limit", late)
				}
			})
		}
	}
}

// afterStop is how long an agent's time went on after its deadline, or after
// the end of the last call that was answered.
func afterStop(t testing.TB, got *store.Trial, c stopCase) time.Duration {
	t.Helper()
	var res struct {
		Agent struct {
			Began time.Time `json:"started_at"`
			Ended time.Time `json:"finished_at"`
		} `json:"agent_execution"`
	}
	text, err := os.ReadFile(filepath.Join(got.Dir, "result.json"))
	if err == nil {
		err = json.Unmarshal(text, &res)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.name == "deadline" {
		limit, err := time.ParseDuration(c.flags[1])
		if err != nil {
			t.Fatal(err)
		}
		return res.Agent.Ended.Sub(res.Agent.Began) - limit
	}
	last := res.Agent.Began
	for _, x := range exchanges(t, got) {
		if end := x.Time.Add(time.Duration(x.Millis * float64(time.Millisecond))); x.Status == 200 && end.After(last) {
			last = end
		}
	}
	return res.Agent.Ended.Sub(last)
}
