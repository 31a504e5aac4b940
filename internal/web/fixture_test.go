package web

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/trial"
)

var fixtureStart = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

// fixtureTasks are names as people give them.
var fixtureTasks = []string{
	"fix-timezone-parser", "repair-nginx-config", "merge-conflict-hell", "csv-dedupe-stream", "sqlite-recover-wal",
	"port-makefile-to-ninja", "race-in-cache", "utf8-truncation", "broken-systemd-unit", "quoted-printable-mail",
}

// fixtureJob makes a job of tasks × agents × k in dir, with trial directories
// where files is set. The same arguments always give the same job.
func fixtureJob(t testing.TB, dir string, tasks, k int, files bool) *Job {
	t.Helper()
	rnd := rand.New(rand.NewPCG(7, uint64(tasks)))
	agents := []string{"oracle", "nop", "script:partial.sh"}
	j := &Job{
		Name: "2026-03-14__09-26-53", Dir: dir, State: StateFinished, Started: fixtureStart, Concurrent: 2,
		Version: "0.1.0", Seq: 4711, Planned: tasks * len(agents) * k,
	}
	for rep := 1; rep <= k; rep++ {
		for i := range tasks {
			for a, agent := range agents {
				tr := fixtureTrial(rnd, fixtureTask(i), agent, rep, a)
				tr.Dir = filepath.Join(dir, tr.Name)
				if files {
					writeTrial(t, tr)
				}
				j.Trials = append(j.Trials, tr)
			}
		}
	}
	j.Finished = fixtureStart.Add(94*time.Second + 300*time.Millisecond)
	j.Updated = j.Finished
	j.Notes = []Note{{"", "the image debian:12 is not here; fallback_image host is used"}, {j.Trials[0].Name, "the task asks for an allow-list network; the job caps it to none"}}
	j.Replaced = []Replaced{{Trial: j.Trials[1].Name, Attempt: 1, Kept: ".attempts/" + j.Trials[1].Name + ".1", Cause: trial.CauseSandboxLost, Why: "retry"}}
	return j
}

func fixtureTask(i int) string {
	if i < len(fixtureTasks) {
		return fixtureTasks[i]
	}
	return fmt.Sprintf("%s-%03d", fixtureTasks[i%len(fixtureTasks)], i)
}

func fixtureTrial(rnd *rand.Rand, task, agent string, rep, a int) *Trial {
	const letters = "abcdefghijkmnpqrstuvwxyz23456789"
	id := make([]byte, 7)
	for i := range id {
		id[i] = letters[rnd.IntN(len(letters))]
	}
	tr := &Trial{
		Name: task + "__" + string(id), Task: task, Agent: agent, Rep: rep, Attempt: 1, State: StateFinished,
		Evidence: trial.SelfReported, Started: fixtureStart.Add(time.Duration(rnd.IntN(60_000)) * time.Millisecond),
		Modes: trial.Modes{Backend: "ns", UID: "single", Grade: "state", Verifier: "sealed", Network: "none", VerifierNetwork: "none"},
		Image: trial.ImageUsed{ID: "sha256:1f0c9be27f", Source: "debian:12"}, Timed: true,
	}
	endings := []trial.Cause{trial.CauseSolved}
	switch a {
	case 1:
		endings = []trial.Cause{trial.CauseUnsolved}
	case 2:
		endings = []trial.Cause{
			trial.CauseSolved, trial.CauseSolved, trial.CauseSolved, trial.CauseUnsolved, trial.CauseUnsolved, trial.CauseAgentTimeout,
			trial.CauseVoid, trial.CauseTaskUnhealthy, trial.CauseSandboxLost, trial.CauseAgentExit,
		}
	}
	end, err := endings[rnd.IntN(len(endings))].Ending()
	if err != nil {
		panic(err)
	}
	tr.Outcome, tr.Fault, tr.Cause = end.Outcome, end.Fault, end.Cause
	if end.Counted {
		r := 0.0
		if end.Outcome == trial.Pass {
			r = 1
		}
		tr.Reward, tr.Rewards = &r, []Reward{{"reward", fmt.Sprint(r)}}
	} else {
		tr.Evidence, tr.Detail = "", "health check of the environment: connect to 127.0.0.1:8080: connection refused"
	}
	for i, p := range trial.Phases() {
		ms := 0.3 + 4*rnd.Float64()
		if !own(p) {
			ms = 20 + 900*rnd.Float64()*float64(a+1)
		} else {
			tr.Overhead += ms
		}
		if i < 2 || end.Counted {
			tr.Phases = append(tr.Phases, trial.PhaseTime{Phase: p, Millis: ms})
			tr.Wall += ms
		}
	}
	tr.Finished = tr.Started.Add(time.Duration(tr.Wall * 1e6))
	if a == 2 {
		in, out, cost := int64(12_000+rnd.IntN(60_000)), int64(800+rnd.IntN(3000)), 0.02+rnd.Float64()/10
		tr.Usage = trial.Usage{InputTokens: &in, OutputTokens: &out, CostUSD: &cost}
		if rnd.IntN(8) == 0 {
			tr.Usage.CostUSD = nil
		}
		calls := 14
		tr.Calls, tr.Times = &calls, &trial.Times{Wall: tr.Wall, Working: tr.Wall, Waiting: 1500, Model: tr.Wall / 2}
	}
	zero := 0
	tr.AgentExit = &zero
	if end.Counted {
		tr.TestExit = &zero
		tr.EndState = []trial.EndState{{Layer: "sha256:9b1de0a4c7e1f2", Bytes: 14_233, Files: 3}}
	}
	return tr
}

// writeTrial leaves what a trial leaves.
func writeTrial(t testing.TB, tr *Trial) {
	t.Helper()
	put(t, tr.Dir, "agent/trajectory.json", fixtureTrajectory(tr, 12))
	put(t, tr.Dir, "agent/workspace.diff", fixtureDiff)
	put(t, tr.Dir, "agent/script.log", "step 1: ok\nstep 2: ok\n")
	put(t, tr.Dir, "verifier/test-stdout.txt", fixtureTests)
	put(t, tr.Dir, "verifier/reward.txt", "1\n")
	put(t, tr.Dir, "verifier/reward-details.json", `{"checks":[{"name":"parses offsets","value":1},{"name":"keeps DST","value":0}]}`)
	put(t, tr.Dir, "trial.log", "09:26:53 setup\n09:26:54 agent\n")
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fixtureTrajectory(tr *Trial, turns int) string {
	type obj = map[string]any
	at := func(i int) string { return tr.Started.Add(time.Duration(i) * 7 * time.Second).Format(time.RFC3339) }
	steps := []obj{{"step_id": 1, "source": "user", "timestamp": at(0), "message": "The service reads timestamps such as `2024-03-10T02:30:00-05:00` wrongly: " +
		"an offset is applied twice when the local zone has daylight saving time.\n\nRepair `parse_timestamp` in /srv/app/timeparse.py so that all tests in the project pass. " +
		"Do not change the function's signature."}}
	commands := []string{
		"ls -la /srv/app", "sed -n 1,80p timeparse.py", "python3 -m pytest -q 2>&1 | tail -20", "grep -rn parse_timestamp .",
		"python3 - <<'PY'\nfrom timeparse import parse_timestamp\nprint(parse_timestamp('2024-03-10T02:30:00-05:00'))\nPY",
	}
	for i := range turns {
		out := "total 24\ndrwxr-xr-x 3 root root 4096 Mar 14 09:26 .\n-rw-r--r-- 1 root root 1822 Mar 14 09:26 timeparse.py\n"
		if i%5 == 2 {
			out = strings.Repeat("tests/test_timeparse.py::test_offset_case FAILED\n", 40) + "3 failed, 17 passed in 0.41s\n"
		}
		step := obj{
			"step_id": i + 2, "source": "agent", "timestamp": at(i + 1), "model_name": "replay-small",
			"message":     []string{"Let me look at what is there first.", "The offset is subtracted once by `fromisoformat` and once more by hand.", "Running the tests again."}[i%3],
			"tool_calls":  []obj{{"tool_call_id": fmt.Sprint("c", i), "function_name": "shell", "arguments": obj{"command": commands[i%len(commands)]}}},
			"observation": obj{"results": []obj{{"source_call_id": fmt.Sprint("c", i), "content": out}}},
			"metrics":     obj{"prompt_tokens": 1200 + 300*i, "completion_tokens": 90, "cost_usd": 0.0031},
		}
		if i%4 == 1 {
			step["reasoning_content"] = "If tzinfo is set already, utcoffset() must not be added again. Check naive inputs as well, since callers pass both."
		}
		steps = append(steps, step)
	}
	b, err := json.Marshal(obj{"schema_version": "ATIF-v1.8", "session_id": "s", "agent": obj{"name": tr.Agent, "version": "1.0"}, "steps": steps})
	if err != nil {
		panic(err)
	}
	return string(b)
}

const fixtureDiff = `diff --git a/timeparse.py b/timeparse.py
index 3b18e51..a95c1f0 100644
--- a/timeparse.py
+++ b/timeparse.py
@@ -12,9 +12,8 @@ def parse_timestamp(text):
     stamp = datetime.fromisoformat(text)
     if stamp.tzinfo is None:
         stamp = stamp.replace(tzinfo=LOCAL)
-    # fromisoformat already knows the offset
-    offset = stamp.utcoffset()
-    return (stamp - offset).replace(tzinfo=timezone.utc)
+    return stamp.astimezone(timezone.utc)
 
 
 def format_timestamp(stamp):
diff --git a/NOTES.md b/NOTES.md
new file mode 100644
--- /dev/null
+++ b/NOTES.md
@@ -0,0 +1,2 @@
+Offsets are applied once, by astimezone.
+-- checked with the New York spring gap
`

const fixtureTests = `============================= test session starts ==============================
collected 20 items

tests/test_timeparse.py ....................                              [100%]

============================== 20 passed in 0.38s ==============================
`
