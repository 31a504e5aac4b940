package job

import (
	"context"
	"strings"
	"sync"
	"testing"

	"assay/internal/agent"
	"assay/task"
	"assay/trial"
)

// steps are the files of a task of some steps, each graded by how many lines
// its agent wrote into /app/STEP: the reward is the number in tests, if there.
func steps(toml string, names ...string) files {
	f := files{"task.toml": toml + taskTOML, "instruction.md": "", "tests/test.sh": "", "solution/solve.sh": ""}
	for _, n := range names {
		f["task.toml"] += "[[steps]]\nname = \"" + n + "\"\n"
		f["steps/"+n+"/instruction.md"] = "Do " + n + "."
		f["steps/"+n+"/tests/test.sh"] = "#!/bin/sh\ncat /app/" + n + " >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n"
		f["steps/"+n+"/solution/solve.sh"] = "#!/bin/sh\necho 1 >/app/" + n + "\n"
	}
	return f
}

func TestSteps(t *testing.T) {
	w := newWorld(t)
	half := "#!/bin/sh\necho 0.5 >/app/one\n"
	for _, c := range []struct {
		name   string
		toml   string
		change files
		cause  trial.Cause
		reward string
		ran    int
		note   string
	}{
		{"mean", "", nil, trial.CauseSolved, "1", 2, ""},
		{"mean of halves", "", files{"steps/one/solution/solve.sh": half}, trial.CauseUnsolved, "0.75", 2, ""},
		{"final", "multi_step_reward_strategy = \"final\"\n", files{"steps/one/solution/solve.sh": half}, trial.CauseSolved, "1", 2, ""},
		{"stop", "", files{"steps/one/solution/solve.sh": half, "min": "0.8"}, trial.CauseUnsolved, "0.5", 1, "ends the run"},
		{"stop counts as not solved", "multi_step_reward_strategy = \"final\"\n", files{"min": "1.5"}, trial.CauseUnsolved, "1", 1, "ends the run"},
		{"enough to go on", "", files{"steps/one/solution/solve.sh": half, "min": "0.5"}, trial.CauseUnsolved, "0.75", 2, ""},
		{"a step without a reward", "multi_step_reward_strategy = \"final\"\n", files{"steps/one/tests/test.sh": "#!/bin/sh\n"}, trial.CauseRewardMissing, "1", 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			all := steps(c.toml, "one", "two")
			for p, text := range c.change {
				all[p] = text
			}
			if least := all["min"]; least != "" {
				all["task.toml"] = strings.Replace(all["task.toml"], "name = \"one\"\n", "name = \"one\"\nmin_reward = "+least+"\n", 1)
				all["min"] = ""
			}
			tr := w.one(gold(), w.task(strings.ReplaceAll(c.name, " ", "-"), all))
			w.want(tr, c.cause, "")
			got := ""
			if v := tr.Result.VerifierResult; v != nil {
				got = string(v.Rewards["reward"])
			}
			if strings.TrimSuffix(got, ".0") != c.reward || len(tr.Result.StepResults) != c.ran {
				t.Errorf("reward %s after %d steps, want %s after %d", got, len(tr.Result.StepResults), c.reward, c.ran)
			}
			if n := strings.Join(tr.Record.Notes, "\n"); !strings.Contains(n, c.note) || c.note == "" && n != "" {
				t.Errorf("notes %q, want %q", n, c.note)
			}
			for i, s := range tr.Result.StepResults {
				if s.StepName != []string{"one", "two"}[i] || s.AgentExecution == nil || s.Verifier == nil {
					t.Errorf("step result %+v", s)
				}
			}
		})
	}
}

// Steps share their sandbox and nothing else: each has its own workdir files,
// health check, brief and verifier.
func TestStepsInOneSandbox(t *testing.T) {
	w := newWorld(t)
	all := steps("", "one", "two")
	all["steps/two/workdir/setup.sh"] = "echo set up in $PWD >given\n"
	all["steps/two/tests/test.sh"] = "#!/bin/sh\n[ -e one ] && grep -q 'set up in /app' given && echo 1 >/logs/verifier/reward.txt\n"
	x := w.task("x", all)
	var mu sync.Mutex
	var briefs, files []string
	arm := Arm{Spec: "reader", Agent: acts{name: "reader",
		needs: func(b task.Brief) (agent.Needs, error) {
			return agent.Needs{Files: agent.BriefFiles(b.Instruction), Env: map[string]string{"STEP": b.Step}}, nil
		},
		run: func(ctx context.Context, s agent.Session) (agent.Report, error) {
			out, err := look(ctx, s, `echo 1 >"$STEP"; cat `+string(agent.BriefFile))
			mu.Lock()
			defer mu.Unlock()
			briefs, files = append(briefs, s.Brief.Instruction), append(files, out)
			return agent.Report{}, err
		},
	}}
	tr := w.one(arm, x)
	w.want(tr, trial.CauseSolved, "")
	if got := strings.Join(files, "|"); got != "Do one.|Do two." || got != strings.Join(briefs, "|") {
		t.Errorf("the agent read %q of its file and was told %q", files, briefs)
	}
	if len(tr.Record.EndState) != 2 || len(tr.Steps) != 2 {
		t.Errorf("end states %+v, files %+v", tr.Record.EndState, tr.Steps)
	}

	all["steps/two/workdir/setup.sh"] = "echo no >&2; exit 4\n"
	w.want(w.one(arm, w.task("bad-setup", all)), trial.CauseTaskUnhealthy, "status 4")
}

// Whoever leaves a tree on which the next step cannot be set up has not solved
// it, now and when it is graded again; a task that cannot be set up at all stays
// the task's fault.
func TestSpoiltStep(t *testing.T) {
	w := newWorld(t)
	all := steps("", "one", "two")
	all["steps/one/tests/test.sh"] = "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n"
	all["steps/two/tests/test.sh"] = all["steps/one/tests/test.sh"]
	all["steps/two/workdir/setup.sh"] = "echo here >mark\n"
	all["steps/two/workdir/data.txt"] = "data\n"
	x := w.task("x", all)
	for _, spoil := range []string{"mkdir mark", "mkdir -p data.txt/x", "mkdir setup.sh"} {
		arm := Arm{Spec: spoil, Agent: acts{name: "spoiler", run: func(ctx context.Context, s agent.Session) (agent.Report, error) {
			_, err := look(ctx, s, spoil)
			return agent.Report{}, err
		}}}
		c := w.config(strings.NewReplacer(" ", "", "/", "").Replace(spoil), []Arm{arm}, x)
		_, v := w.run(c)
		tr := v.Trials[0]
		w.want(tr, trial.CauseUnsolved, "")
		if tr.Reward == nil || *tr.Reward != 0.5 || !strings.Contains(strings.Join(tr.Record.Notes, "\n"), "step two cannot be set up") {
			t.Errorf("%s: reward %v, %q", spoil, tr.Reward, tr.Record.Notes)
		}
		again, err := Regrade(t.Context(), c, nil, w.deps(), nil)
		if err != nil || len(again) != 1 || again[0].Skipped != "" || again[0].Cause != trial.CauseUnsolved {
			t.Errorf("%s: graded again: %+v, %v", spoil, again, err)
		}
		if r := w.view(c).Trials[0].Reward; r == nil || *r != 0.5 {
			t.Errorf("%s: graded again: reward %v", spoil, r)
		}
	}
}

// In live mode the processes of a step live on in the next, and its tests do
// not stay.
func TestLiveSteps(t *testing.T) {
	w := newWorld(t)
	all := steps("", "one", "two")
	all["steps/one/solution/solve.sh"] = "#!/bin/sh\n(setsid sh -c 'while :; do date +%N >/app/beat; sleep 0.02; done' >/dev/null 2>&1 &)\nwhile [ ! -s beat ]; do sleep 0.01; done\n"
	beats := "#!/bin/sh\na=$(cat beat); for i in $(seq 100); do sleep 0.1; [ \"$a\" = \"$(cat beat)\" ] || { echo 1 >/logs/verifier/reward.txt; exit; }; done\n"
	all["steps/one/tests/test.sh"], all["steps/two/tests/test.sh"] = beats, beats
	all["steps/two/solution/solve.sh"] = "#!/bin/sh\n[ ! -e /tests ] && [ ! -e /logs/verifier/reward.txt ]\n"
	c := w.config("live", []Arm{gold()}, w.task("x", all))
	c.Verifier = task.VerifierLive
	_, v := w.run(c)
	w.want(v.Trials[0], trial.CauseSolved, "")
	if e := v.Trials[0].Record.AgentExit; e == nil || *e != 0 {
		t.Errorf("the second step's agent saw the first step's tests or reward: exit %v", e)
	}
}
