package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// The grid: every agent at every task, each trial with its own ending, all of
// Harbor's fields and assay's record filled in.
func TestGrid(t *testing.T) {
	w := newWorld(t)
	a, b := w.task("first", nil), w.task("second", files{"tests/test.sh": notSolved})
	c := w.config("grid", []Arm{gold(), idle()}, a, b)
	c.Attempts, c.Concurrent = 2, 4
	sum, v := w.run(c)
	if sum.Planned != 8 || sum.Ran != 8 || sum.Skipped != 0 || sum.Counts[trial.Pass] != 2 || sum.Counts[trial.Fail] != 6 {
		t.Errorf("summary %+v", sum)
	}
	if v.Planned != 8 || v.Ended != 8 || v.Graded != 8 {
		t.Errorf("view: %d planned, %d ended, %d graded", v.Planned, v.Ended, v.Graded)
	}
	for _, tr := range v.Trials {
		want := trial.CauseUnsolved
		if tr.Task == "first" && tr.Agent == "oracle" {
			want = trial.CauseSolved
		}
		w.want(tr, want, "")
		if got := kinds(v, tr.Name); got != "planned#0 started#1 finished#1" {
			t.Errorf("%s: events %s", tr.Name, got)
		}
		r, m := tr.Record, tr.Record.Modes
		if m.Backend != "ns" || m.Network != "none" || m.VerifierNetwork != "none" || m.Verifier != "sealed" || m.Grade != "state" || m.UID == "" {
			t.Errorf("%s: modes %+v", tr.Name, m)
		}
		if r.Image.Source != "host" || r.Image.ID == "" || r.Image.Fallback || tr.Evidence != trial.SelfReported || r.TestExit == nil {
			t.Errorf("%s: record %+v", tr.Name, r)
		}
		phases := map[trial.Phase]bool{}
		for _, p := range r.Phases {
			phases[p.Phase] = true
		}
		for _, p := range trial.Phases() {
			if p != trial.PhaseRecord && !phases[p] {
				t.Errorf("%s: phase %s is not measured", tr.Name, p)
			}
		}
		if tr.Result.VerifierEnvironmentMode == nil || *tr.Result.VerifierEnvironmentMode != "separate" || tr.Result.FinishedAt == nil {
			t.Errorf("%s: result %+v", tr.Name, tr.Result)
		}
		if len(tr.Steps) != 1 || tr.Steps[0].Trajectory == "" {
			t.Errorf("%s left no trajectory", tr.Name)
		}
		if diff := w.text(tr, store.DiffFile); strings.Contains(diff, "+done") != (tr.Agent == "oracle") {
			t.Errorf("%s: diff %q", tr.Name, diff)
		}
	}
}

// Infrastructure faults are retried, the lost attempts kept with their results,
// and what came of it in the end is the trial's.
func TestInfraFaultsAreRetriedAndKept(t *testing.T) {
	for _, c := range []struct {
		at    string // the first time this is done it fails
		err   error
		cause trial.Cause
	}{
		{"create", errors.New("clone: resource temporarily unavailable"), trial.CauseSandboxStart},
		{"put /solution", sandbox.ErrLost, trial.CauseSandboxLost},
		{"start /bin/sh -c exec 2>&1", sandbox.ErrLost, trial.CauseSandboxLost}, // the agent's program
		{"box1 end", sandbox.ErrLost, trial.CauseSandboxLost},
		{"box2 create", errors.New("clone: resource temporarily unavailable"), trial.CauseHarness}, // the grader's
		{"put /tests", sandbox.ErrLost, trial.CauseSandboxLost},
		{"get /logs/verifier", sandbox.ErrLost, trial.CauseSandboxLost},
	} {
		t.Run(c.at, func(t *testing.T) {
			w := newWorld(t)
			failed := false
			w.spy.fail = func(what string) error {
				if !failed && strings.Contains(what, c.at) {
					failed = true
					return c.err
				}
				return nil
			}
			tr := w.one(gold(), w.task("x", nil))
			w.want(tr, trial.CauseSolved, "")
			if len(tr.Replaced) != 1 || tr.Replaced[0].Cause != c.cause || tr.Replaced[0].Why != "retry" || tr.Attempt != 2 {
				t.Fatalf("attempt %d, replaced %+v; want one lost to %s", tr.Attempt, tr.Replaced, c.cause)
			}
			b, err := os.ReadFile(filepath.Join(filepath.Dir(tr.Dir), tr.Replaced[0].Kept, store.ResultFile))
			if err != nil {
				t.Fatal(err)
			}
			res, err := trial.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			if rec, ok, err := res.Assay(); err != nil || !ok || rec.Outcome != trial.Infra || rec.Cause != c.cause {
				t.Errorf("the kept result says %+v, %v", rec, err)
			}
		})
	}
}

// What infrastructure lost for good is infra: never a failure, never counted.
func TestInfraIsNeverAFailure(t *testing.T) {
	w := newWorld(t)
	w.spy.fail = func(what string) error {
		if strings.Contains(what, "put /tests") {
			return sandbox.ErrLost
		}
		return nil
	}
	c := w.config("lost", []Arm{gold()}, w.task("x", nil))
	c.Retries = 1
	sum, v := w.run(c)
	tr := v.Trials[0]
	w.want(tr, trial.CauseSandboxLost, "put tests")
	if len(tr.Replaced) != 1 || tr.Attempt != 2 || tr.Reward != nil || v.Graded != 0 {
		t.Errorf("attempt %d, reward %v, replaced %v, graded %d", tr.Attempt, tr.Reward, tr.Replaced, v.Graded)
	}
	if sum.Counts[trial.Infra] != 1 || sum.Counts[trial.Fail] != 0 {
		t.Errorf("counts %v", sum.Counts)
	}
	if w.text(tr, store.ExceptionFile) == "" {
		t.Error("no exception.txt")
	}

	c.Dir += "2"
	c.Retries = -1
	if _, v = w.run(c); v.Trials[0].Attempt != 1 {
		t.Errorf("with no retries attempt %d", v.Trials[0].Attempt)
	}
}

// What an agent does to itself is its result: once, not again and again.
func TestAgentFaultsAreNotRetried(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", nil)
	for _, c := range []struct {
		script string
		cause  trial.Cause
	}{
		{"exit 3", trial.CauseAgentExit},
		{"kill -9 $$", trial.CauseAgentCrash},
		{"true", trial.CauseUnsolved},
		{"echo done >answer; exit 3", trial.CauseSolved}, // how it ended never turns a verdict
		{"exec /no/such/program", trial.CauseAgentExit},
	} {
		tr := w.one(shell(strings.ReplaceAll(c.script, "/", "-"), c.script), x)
		w.want(tr, c.cause, "")
		if tr.Attempt != 1 || len(tr.Replaced) > 0 {
			t.Errorf("%s: attempt %d, replaced %v", c.script, tr.Attempt, tr.Replaced)
		}
	}
}

// A deadline ends an agent; work that is right by then is right.
func TestDeadline(t *testing.T) {
	w := newWorld(t)
	limited := files{"task.toml": taskTOML + "[agent]\ntimeout_sec = 100\n"}
	c := w.config("late", []Arm{shell("late", "sleep 60; echo done >answer"), shell("in-time", "echo done >answer; sleep 60")}, w.task("x", limited))
	c.AgentLimit = time.Second
	within(t, 30*time.Second, "the job", func() {
		_, v := w.run(c)
		w.want(trialOf(t, v, "x", "late"), trial.CauseAgentTimeout, "deadline")
		w.want(trialOf(t, v, "x", "in-time"), trial.CauseSolved, "")
		if got := kinds(v, trialOf(t, v, "x", "late").Name); got != "planned#0 started#1 deadline#1 finished#1" {
			t.Errorf("events %s", got)
		}
	})
}

// A task's own limits reach its sandboxes, the result says what held them, and
// an agent that dies of one is said to. Work that is right all the same is right.
func TestMemoryLimit(t *testing.T) {
	w := newWorld(t)
	const hog = "head -c 1500000000 /dev/zero | tail -c 1500000000 | cat >/dev/null"
	limited := files{"task.toml": taskTOML + "memory_mb = 96\ncpus = 1\n"}
	c := w.config("memory", []Arm{shell("dies", hog+"; exit 3"), shell("goes-on", hog+"; exit 0"), shell("solves", hog+"; echo done >answer; exit 3")}, w.task("x", limited))
	_, v := w.run(c)
	w.want(trialOf(t, v, "x", "dies"), trial.CauseMemoryLimit, "status 3")
	w.want(trialOf(t, v, "x", "goes-on"), trial.CauseUnsolved, "")
	w.want(trialOf(t, v, "x", "solves"), trial.CauseSolved, "")
	for _, tr := range v.Trials {
		u := tr.Record.Use
		all := strings.Join(append(append([]string{}, u.LimitsHeld...), u.LimitsUnheld...), " ")
		if !strings.Contains(strings.Join(u.LimitsHeld, " "), "memory:") || !strings.Contains(all, "cpus") || !strings.Contains(all, "pids:") {
			t.Errorf("%s: held %v, unheld %v", tr.Name, u.LimitsHeld, u.LimitsUnheld)
		}
		if !strings.Contains(strings.Join(tr.Record.Notes, "\n"), "memory limit") {
			t.Errorf("%s: notes %q", tr.Name, tr.Record.Notes)
		}
	}
}

func TestAgentLimit(t *testing.T) {
	for _, c := range []struct{ own, limit, mult, want float64 }{
		{0, 0, 1, 0}, {10, 0, 1, 10}, {10, 0, 0, 10}, {10, 0, 2, 20}, {10, 15, 2, 15}, {0, 15, 2, 15}, {10, 15, 1, 10},
	} {
		cfg := Config{AgentLimit: time.Duration(c.limit * float64(time.Second)), TimeoutMult: c.mult}
		got := cfg.agentLimit(task.Brief{Timeout: time.Duration(c.own * float64(time.Second))})
		if got.Seconds() != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A panic or an error of an agent's own code is that trial's infrastructure
// fault; the others go on.
func TestOneTrialsPanicIsItsOwn(t *testing.T) {
	w := newWorld(t)
	boom := acting("boom", func(context.Context, agent.Session) (agent.Report, error) { panic("boom") })
	var tries atomic.Int32
	shaky := acting("shaky", func(context.Context, agent.Session) (agent.Report, error) {
		if tries.Add(1) == 1 {
			return agent.Report{}, errors.New("the disk of the host answered oddly")
		}
		return agent.Report{}, nil
	})
	c := w.config("panic", []Arm{boom, gold(), shaky}, w.task("x", nil), w.task("y", nil))
	c.Retries, c.Concurrent = 1, 1
	_, v := w.run(c)
	for _, tr := range v.Trials {
		switch tr.Agent {
		case "boom":
			w.want(tr, trial.CauseHarness, "panic: boom")
			if x := w.text(tr, store.ExceptionFile); !strings.Contains(x, "goroutine") {
				t.Errorf("no stack is kept: %q", x)
			}
			if tr.Attempt != 2 {
				t.Errorf("attempt %d", tr.Attempt)
			}
		case "oracle":
			w.want(tr, trial.CauseSolved, "")
		case "shaky":
			w.want(tr, trial.CauseUnsolved, "")
		}
	}
	if n := len(w.spy.lines()); n == 0 || !closedAll(w.spy.lines()) {
		t.Error("a sandbox was left behind")
	}
}

// closedAll reports whether every box that was created was closed.
func closedAll(lines []string) bool {
	open := map[string]bool{}
	for _, l := range lines {
		switch box, what, _ := strings.Cut(l, " "); what {
		case "create":
			open[box] = true
		case "close", "end":
			delete(open, box)
		}
	}
	return len(open) == 0
}

// What is wrong with a task, or cannot be had, has one clear ending, and the
// agent has not run.
func TestTasksThatCannotRun(t *testing.T) {
	w := newWorld(t)
	noImage := "[environment]\nworkdir = \"/app\"\n"
	for _, c := range []struct {
		name    string
		changed files
		cause   trial.Cause
		detail  string
	}{
		{"nothing to make an image of", files{"task.toml": noImage}, trial.CauseTaskMalformed, "neither Dockerfile nor docker_image"},
		{"no such image", files{"task.toml": "[environment]\ndocker_image = \"nowhere/at-all:1\"\n"}, trial.CauseImageMissing, "nowhere/at-all:1"},
		{"a build that fails", files{"task.toml": noImage, "environment/Dockerfile": "FROM host\nRUN exit 7\n"}, trial.CauseImageBuild, "7"},
		{"a Dockerfile that is none", files{"task.toml": noImage, "environment/Dockerfile": "FORM host\n"}, trial.CauseImageBuild, "FORM"},
		{"a missing variable", files{"task.toml": taskTOML + "[environment.env]\nKEY = \"${ASSAY_TEST_NOT_SET}\"\n"}, trial.CauseTaskMalformed, "ASSAY_TEST_NOT_SET"},
		{"not healthy", files{"task.toml": taskTOML + "[environment.healthcheck]\ncommand = \"echo sick >&2; exit 1\"\nretries = 2\ninterval_sec = 0.01\n"}, trial.CauseTaskUnhealthy, "sick"},
		{"a health check that hangs", files{"task.toml": taskTOML + "[environment.healthcheck]\ncommand = \"sleep 60\"\nretries = 1\ntimeout_sec = 0.1\n"}, trial.CauseTaskUnhealthy, "failed 1 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			ran := false
			tr := w.one(acting("witness", func(context.Context, agent.Session) (agent.Report, error) {
				ran = true
				return agent.Report{}, nil
			}), w.task(strings.ReplaceAll(c.name, " ", "-"), c.changed))
			w.want(tr, c.cause, c.detail)
			if ran || tr.Attempt != 1 || tr.Reward != nil {
				t.Errorf("the agent ran: %v; attempt %d, reward %v", ran, tr.Attempt, tr.Reward)
			}
		})
	}
}

// What an agent needs and cannot have ends the trial before any sandbox.
func TestAgentsThatCannotRun(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", nil)
	for name, needs := range map[string]agent.Needs{
		"model":   {Dialect: "chat"},
		"network": {Network: sandbox.NetFull},
	} {
		a := Arm{Spec: name, Agent: acts{name: name, needs: func(task.Brief) (agent.Needs, error) { return needs, nil }}}
		w.want(w.one(a, x), trial.CauseUnsupported, name)
	}
	a := Arm{Spec: "picky", Agent: acts{name: "picky", needs: func(task.Brief) (agent.Needs, error) { return agent.Needs{}, errors.New("not my kind of task") }}}
	w.want(w.one(a, x), trial.CauseUnsupported, "not my kind")
	if n := len(w.spy.lines()); n != 0 {
		t.Errorf("%d things were done to sandboxes: %v", n, w.spy.lines())
	}
	w.want(w.one(gold(), w.task("no-gold", files{"solution/solve.sh": ""})), trial.CauseUnsupported, "no solution")
	w.want(w.one(gold(), w.task("half-gold", files{"solution/solve.sh": "", "solution/notes": "x"})), trial.CauseUnsupported, "no solution")
}

// Variables of the host reach the agent and the verifier where the task names
// them, and nowhere else.
func TestHostVariables(t *testing.T) {
	w := newWorld(t)
	w.env["ASSAY_TEST_TOKEN"] = "s3cret"
	w.env["ASSAY_TEST_OTHER"] = "other"
	x := w.task("x", files{
		"task.toml": taskTOML + `[environment.env]
BOTH = "${ASSAY_TEST_TOKEN}"
STANDARD = "${ASSAY_TEST_NOT_SET:-standard}"
[verifier.env]
WANT = "${ASSAY_TEST_TOKEN}"
[solution.env]
GOLD = "g"
`,
		"solution/solve.sh": "#!/bin/sh\necho \"$BOTH $STANDARD $GOLD [$WANT] [$ASSAY_TEST_OTHER]\" >/app/answer\n",
		"tests/test.sh":     "#!/bin/sh\n[ \"$(cat answer)\" = \"$WANT standard g [] []\" ] && [ \"$BOTH\" = s3cret ] && [ -z \"$GOLD\" ] && echo 1 >/logs/verifier/reward.txt || cat answer\n",
	})
	tr := w.one(gold(), x)
	w.want(tr, trial.CauseSolved, "")
	if tr.Outcome != trial.Pass {
		t.Log(w.text(tr, store.TestOutputFile))
	}
	for _, table := range []string{"verifier", "solution"} {
		bad := w.task("bad-"+table, files{"task.toml": taskTOML + "[" + table + ".env]\nX = \"${ASSAY_TEST_NOT_SET}\"\n"})
		w.want(w.one(gold(), bad), trial.CauseTaskMalformed, "ASSAY_TEST_NOT_SET")
	}
}

// A health check may need its time.
func TestHealthCheckWaits(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", files{"task.toml": taskTOML + `[environment.healthcheck]
command = "echo x >>/tmp/tries; [ $(wc -l </tmp/tries) -ge 4 ]"
retries = 1
interval_sec = 60
start_period_sec = 30
start_interval_sec = 0.01
`})
	w.want(w.one(gold(), x), trial.CauseSolved, "")
}

// Images: a task's own, the user's, or the task's fallback: said aloud and
// recorded, and only where the own one is not here.
func TestImages(t *testing.T) {
	missing := "FROM nowhere/at-all:1\nWORKDIR /srv/work\nCOPY given.txt ./\n"
	toml := "[metadata.assay]\nfallback_image = \"host\"\n"
	tests := "#!/bin/sh\n[ \"$(pwd)\" = /srv/work ] && [ -e given.txt ] && echo 1 >/logs/verifier/reward.txt\n"
	t.Run("fallback", func(t *testing.T) {
		w := newWorld(t)
		x := w.task("x", files{"task.toml": toml, "environment/Dockerfile": missing, "environment/given.txt": "g", "tests/test.sh": tests})
		c := w.config("fallback", []Arm{idle()}, x)
		c.Attempts = 3
		_, v := w.run(c)
		for _, tr := range v.Trials {
			w.want(tr, trial.CauseSolved, "")
			if i := tr.Record.Image; !i.Fallback || i.Source != "host" || i.ID == "" {
				t.Errorf("recorded image %+v", i)
			}
			if n := strings.Join(tr.Record.Notes, "\n"); !strings.Contains(n, "nowhere/at-all:1") || !strings.Contains(n, `fallback image "host"`) {
				t.Errorf("the fallback is not said aloud: notes %q", n)
			}
			if got := kinds(v, tr.Name); !strings.Contains(got, "note#1") {
				t.Errorf("no event tells of the fallback: %s", got)
			}
			if img, err := ImageOf(c.Dir, image.ID(tr.Record.Image.ID)); err != nil || len(img.Layers) < 2 {
				t.Errorf("the image is not kept with the job: %+v, %v", img, err)
			}
		}
		if _, err := ImageOf(c.Dir, "sha256:0000"); err == nil {
			t.Error("an image that no job ran on was found")
		}
	})
	t.Run("the user's", func(t *testing.T) {
		w := newWorld(t)
		x := w.task("x", files{"task.toml": toml, "environment/Dockerfile": missing, "environment/given.txt": "g", "tests/test.sh": tests})
		c := w.config("override", []Arm{idle()}, x, w.task("named", files{"task.toml": "[environment]\ndocker_image = \"nowhere/else\"\nworkdir = \"/app\"\n"}))
		c.Image = "host"
		_, v := w.run(c)
		tr := trialOf(t, v, "x", "nop")
		w.want(tr, trial.CauseSolved, "")
		if tr.Record.Image.Fallback || len(tr.Record.Notes) > 0 {
			t.Errorf("image %+v, notes %q", tr.Record.Image, tr.Record.Notes)
		}
		w.want(trialOf(t, v, "named", "nop"), trial.CauseUnsolved, "")
	})
	t.Run("no fallback for a build that fails", func(t *testing.T) {
		w := newWorld(t)
		x := w.task("x", files{"task.toml": toml, "environment/Dockerfile": "FROM host\nRUN exit 7\n"})
		tr := w.one(idle(), x)
		w.want(tr, trial.CauseImageBuild, "")
		if tr.Record.Image.Fallback {
			t.Error("the fallback hid a broken Dockerfile")
		}
	})
	t.Run("a missing fallback", func(t *testing.T) {
		w := newWorld(t)
		x := w.task("x", files{"task.toml": "[environment]\ndocker_image = \"nowhere/one\"\n[metadata.assay]\nfallback_image = \"nowhere/two\"\n"})
		w.want(w.one(idle(), x), trial.CauseImageMissing, "nowhere/two")
	})
}

// An image is made once a job, whoever asks first; a fault that may pass is
// not remembered.
func TestImagesAreMadeOnce(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", files{"task.toml": "[environment]\nworkdir = \"/app\"\n", "environment/Dockerfile": "FROM host\n"})
	deps := w.deps()
	build := deps.Build
	var builds atomic.Int32
	deps.Build = func(ctx context.Context, b BuildRequest) (image.Image, error) {
		if builds.Add(1) == 1 {
			return image.Image{}, fmt.Errorf("RUN: %w", sandbox.ErrLost)
		}
		return build(ctx, b)
	}
	c := w.config("once", []Arm{gold()}, x)
	c.Attempts, c.Concurrent = 4, 1
	if _, err := Run(t.Context(), c, deps); err != nil {
		t.Fatal(err)
	}
	for _, tr := range w.view(c).Trials {
		w.want(tr, trial.CauseSolved, "")
	}
	if n := builds.Load(); n != 2 {
		t.Errorf("built %d times, want once and once again after the fault", n)
	}
}

// A stray Dockerfile where assay runs is no task's.
func TestNoDockerfileOfTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("Dockerfile", []byte("FROM x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if (environment{name: "x"}).builds() {
		t.Error("a task without environment/ is built from the working directory")
	}
}

// What cannot be recorded ends the job with an error; nothing is invented, and
// the job can be resumed.
func TestWhatCannotBeRecordedEndsTheJob(t *testing.T) {
	w := newWorld(t)
	vandal := acting("vandal", func(_ context.Context, s agent.Session) (agent.Report, error) {
		dir := filepath.Dir(string(s.Logs))
		return agent.Report{}, errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o644))
	})
	c := w.config("broken", []Arm{vandal}, w.task("x", nil), w.task("y", nil), w.task("z", nil))
	c.Concurrent = 1
	if _, err := Run(t.Context(), c, w.deps()); err == nil {
		t.Fatal("a job that could not be recorded ended well")
	}
	if v, err := store.Read(c.Dir); err != nil || v.Ended != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	c.Arms = []Arm{{Spec: "vandal", Agent: gold().Agent}}
	sum, err := Run(t.Context(), c, w.deps())
	if err != nil || sum.Counts[trial.Pass] != 3 {
		t.Errorf("resume: %+v, %v", sum, err)
	}
}

// Frozen trees are freed with their trial: a long job does not fill the memory.
func TestSnapshotsAreDropped(t *testing.T) {
	w := newWorld(t)
	c := w.config("drops", []Arm{gold()}, w.task("x", nil))
	c.Attempts = 3
	w.run(c)
	if w.spy.drops != 3 {
		t.Errorf("%d of 3 snapshots were dropped", w.spy.drops)
	}
	if !closedAll(w.spy.lines()) {
		t.Error("a sandbox was left behind")
	}
}

// A tree that cannot be kept is the agent's failure, judged as such and not
// tried again.
func TestSparseGiant(t *testing.T) {
	w := newWorld(t)
	c := w.config("sparse", []Arm{shell("giant", "echo done >answer; truncate -s 1T /app/giant || truncate -s 1T giant")}, w.task("x", nil))
	_, v := w.run(c)
	w.want(trialOf(t, v, "x", "giant"), trial.CauseDiskLimit, "holes")
}

// Nor is a tree that is deeper than a layer may be a way out of being judged.
func TestBottomlessTree(t *testing.T) {
	w := newWorld(t)
	deep := "echo done >answer; i=0; while [ $i -lt 300 ]; do mkdir d && cd d || exit; i=$((i+1)); done"
	c := w.config("deep", []Arm{shell("deep", deep)}, w.task("x", nil))
	_, v := w.run(c)
	w.want(trialOf(t, v, "x", "deep"), trial.CauseDiskLimit, "levels deep")
}

// Names that are too long for the host's paths stay where they are: what is kept
// of a trial can be made durable, and the other trials go on.
func TestLongNamesInLogs(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("/"+strings.Repeat("n", 200), 19)
	deep := "for d in /logs/artifacts /logs/verifier; do mkdir -p $d" + long + " && echo x >$d" + long + "/x || exit; done\n"
	c := w.config("long", []Arm{shell("long", deep+"echo done >answer"), idle()}, w.task("x", files{"tests/test.sh": "#!/bin/sh\n" + deep +
		"mkdir -p /tmp/z" + long + " && mv /logs/verifier/n* /tmp/z" + long + " && mv /tmp/z /logs/verifier/\n" + strings.TrimPrefix(testSh, "#!/bin/sh\n")}))
	_, v := w.run(c)
	tr := trialOf(t, v, "x", "long")
	w.want(tr, trial.CauseSolved, "")
	w.want(trialOf(t, v, "x", "nop"), trial.CauseUnsolved, "")
	if notes := strings.Join(tr.Record.Notes, "\n"); strings.Count(notes, "too long") != 2 {
		t.Errorf("not said of both: %s", notes)
	}
}
