package cli

import (
	"fmt"
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
		f("cut", "kind: cut", trial.CauseTruncated),
		f("reset", "kind: reset", trial.CauseModel),
		f("stall", "kind: stall", trial.CauseModel),
		f("html", "kind: html", trial.CauseModel),
		f("half-json", "kind: half-json", trial.CauseModel, trial.CauseTruncated),
		f("endless", "kind: endless", trial.CauseModel, trial.CauseAgentTimeout),
		f("huge-arguments", "kind: huge-arguments", trial.CauseModel, trial.CauseAgentTimeout),
		f("malformed-arguments", "kind: malformed-arguments", trial.CauseMalformedCall, trial.CauseLoop),
		f("unknown-tool", "kind: unknown-tool", trial.CauseLoop),
	}
}

// With the agents' retries off, no patience and 15 s for a trial, each fault of
// a server ends the trial with its cause, whatever the agent's exit status.
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
				if !slices.Contains(f.causes, got.Record.Cause) {
					t.Errorf("cause %s, want one of %v\n%s", got.Record.Cause, f.causes, agentText(got))
				}
				if took > time.Minute {
					t.Errorf("a trial of 15 s took %v", took)
				}
				equalsTraffic(t, got)
			})
		}
	}
}

// A limit ends every agent: soon, with its own cause, and nothing of what came
// later counts.
func TestClientStops(t *testing.T) {
	b := newClientBed(t)
	work := "turns:\n  - calls: [{bash: \"echo {n} >>steps; date +%s.%N >/tmp/last\"}]\n    times: 500\n    usage: {input: 1000, output: 100}\n"
	same := "turns:\n  - calls: [{bash: \"echo the same\"}]\n    times: 500\n"
	for _, agent := range clients("codex", "claude-code", "mini-swe-agent", "pi") {
		for _, c := range []struct {
			name, script string
			flags        []string
			cause        trial.Cause
		}{
			{"budget", work, []string{"--max-tokens", "5000"}, trial.CauseBudget},
			{"deadline", "latency: 400ms\n" + work, []string{"--agent-timeout", "12s", "--no-loop-stop"}, trial.CauseAgentTimeout},
			{"loop", same, nil, trial.CauseLoop},
		} {
			t.Run(agent+"/"+c.name, func(t *testing.T) {
				b.t = t
				name := c.name + "-" + strings.ReplaceAll(agent, "/", "-")
				got := b.run(name, agent, "scripted:"+b.write(name+".yaml", c.script), append([]string{"--agent-timeout", "60s"}, c.flags...)...)
				t.Logf("cause %s, %d calls, %s: %s", got.Record.Cause, *got.Record.Calls, times(got), got.Record.Detail)
				if got.Record.Cause != c.cause {
					t.Errorf("cause %s, want %s: %s\n%s", got.Record.Cause, c.cause, got.Record.Detail, agentText(got))
				}
			})
		}
	}
}

// times are how long the agent had, and when its last call was refused or ended.
func times(t *store.Trial) string {
	text, err := os.ReadFile(filepath.Join(t.Dir, "result.json"))
	if err != nil || t.Record.Times == nil {
		return fmt.Sprintf("no times (%v, %d bytes)", err, len(text))
	}
	return fmt.Sprintf("%.1f s", t.Record.Times.Wall/1000)
}
