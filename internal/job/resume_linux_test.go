package job

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/store"
	"assay/trial"
)

// results are the bytes of every committed result of a job.
func results(t *testing.T, c Config) map[string][]byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(c.Dir, "*", store.ResultFile))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, f := range found {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(filepath.Dir(f))] = b
	}
	return all
}

// keptAll checks that results that stood before stand unchanged.
func keptAll(t *testing.T, before, after map[string][]byte) {
	t.Helper()
	for name, b := range before {
		if !bytes.Equal(b, after[name]) {
			t.Errorf("%s: a committed result was lost or repeated", name)
		}
	}
}

// Run again with a larger k, more tasks and more agents, a job executes only
// what is missing.
func TestGrow(t *testing.T) {
	w := newWorld(t)
	x, y := w.task("x", nil), w.task("y", nil)
	c := w.config("grow", []Arm{gold()}, x)
	w.run(c)
	for _, grow := range []struct {
		change func(*Config)
		ran    int
	}{
		{func(*Config) {}, 0},
		{func(c *Config) { c.Attempts = 2 }, 1},
		{func(c *Config) { c.Tasks = append(c.Tasks, y) }, 2},
		{func(c *Config) { c.Arms = append(c.Arms, idle()) }, 4},
	} {
		before := results(t, c)
		grow.change(&c)
		sum, v := w.run(c)
		after := results(t, c)
		keptAll(t, before, after)
		if sum.Ran != grow.ran || sum.Skipped != len(before) || len(after) != len(before)+grow.ran || v.Ended != len(after) {
			t.Errorf("ran %d of %d, skipped %d: %d results; want %d more than %d", sum.Ran, sum.Planned, sum.Skipped, len(after), grow.ran, len(before))
		}
	}
	v := w.view(c)
	if len(v.Trials) != 8 || v.Planned != 8 || v.State != store.Done {
		t.Errorf("%d trials, %d planned, %s", len(v.Trials), v.Planned, v.State)
	}
}

// An interrupted job drops what was running, keeps what was done, and goes on
// from there.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop := errors.New("interrupted by the user")
	var waiting atomic.Int32
	slow := acting("slow", func(ctx context.Context, s agent.Session) (agent.Report, error) {
		if waiting.Add(1) == 2 { // both slots are taken
			time.AfterFunc(100*time.Millisecond, func() { cancel(stop) })
		}
		ran, err := s.Exec(ctx, agent.Program{Args: []string{"/bin/sh", "-c", "sleep 100"}, Log: "log"})
		return agent.Report{Exit: &ran.Exit}, err
	})
	c := w.config("stop", []Arm{gold(), slow, idle()}, w.task("x", nil), w.task("y", nil), w.task("z", nil))
	var sum Summary
	within(t, 20*time.Second, "stopping", func() {
		var err error
		if sum, err = Run(ctx, c, w.deps()); err != nil {
			t.Fatal(err)
		}
	})
	v := w.view(c)
	if sum.Planned != 9 || sum.Ran != 3 || v.Ended != sum.Ran || v.State != store.Cancelled {
		t.Errorf("%+v; %d ended, job is %s", sum, v.Ended, v.State)
	}
	dropped := 0
	for _, tr := range v.Trials {
		if tr.Outcome == trial.Infra {
			t.Errorf("%s: an interruption was booked as %s", tr.Name, tr.Record.Cause)
		}
		if k := kinds(v, tr.Name); strings.Contains(k, "dropped#1") {
			dropped++
			if tr.Agent != "slow" || tr.Status == store.TrialFinished {
				t.Errorf("%s of %s: %s, %s", tr.Name, tr.Agent, tr.Status, k)
			}
		}
	}
	if dropped != 2 {
		t.Errorf("%d running attempts were dropped, want 2", dropped)
	}
	if !closedAll(w.spy.lines()) {
		t.Error("a sandbox was left behind")
	}

	before := results(t, c)
	c.Arms[1] = Arm{Spec: "slow", Agent: gold().Agent}
	again, v := w.run(c)
	keptAll(t, before, results(t, c))
	if again.Ran != 9-sum.Ran || again.Skipped != sum.Ran || v.Ended != 9 || v.State != store.Done {
		t.Errorf("resume: %+v after %+v; %d ended, job is %s", again, sum, v.Ended, v.State)
	}
	for _, tr := range v.Trials {
		want := trial.CauseSolved
		if tr.Agent == "nop" {
			want = trial.CauseUnsolved
		}
		w.want(tr, want, "")
	}
}

// A context that is over before anything began runs nothing.
func TestInterruptedAtOnce(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := w.config("none", []Arm{gold()}, w.task("x", nil))
	sum, err := Run(ctx, c, w.deps())
	if err != nil || sum.Ran != 0 || len(results(t, c)) != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if sum, _ := w.run(c); sum.Ran != 1 {
		t.Errorf("resume: %+v", sum)
	}
}

// Chosen trials are repeated, and the replaced attempts kept and named; a word
// that names none moves nothing.
func TestRerun(t *testing.T) {
	w := newWorld(t)
	c := w.config("again", []Arm{gold(), idle(), shell("crash", "exit 3")}, w.task("x", nil))
	c.Attempts = 2
	_, v := w.run(c)
	first := trialOf(t, v, "x", "oracle").Name
	attempts := map[string]int{} // by agent, of the first trial
	for _, again := range []struct {
		words []string
		ran   int
		agent string
	}{
		{[]string{"agent_exit"}, 2, "crash"},
		{[]string{"unsolved"}, 2, "nop"},
		{[]string{"none"}, 2, "oracle"},
		{[]string{"pass"}, 2, "oracle"},
		{[]string{first}, 1, "oracle"},
		{[]string{first, "pass", "solved"}, 2, "oracle"},
	} {
		c.Rerun = again.words
		before := results(t, c)
		sum, v := w.run(c)
		after := results(t, c)
		changed := 0
		for _, tr := range v.Trials {
			if bytes.Equal(before[tr.Name], after[tr.Name]) {
				continue
			}
			changed++
			if tr.Agent != again.agent {
				t.Errorf("%v repeated %s", again.words, tr.Agent)
			}
			last := tr.Replaced[len(tr.Replaced)-1]
			kept, err := os.ReadFile(filepath.Join(c.Dir, last.Kept, store.ResultFile))
			if err != nil || last.Why != "rerun" || !bytes.Equal(kept, before[tr.Name]) {
				t.Errorf("%v: the replaced attempt of %s is not kept: %+v, %v", again.words, tr.Name, last, err)
			}
		}
		if sum.Ran != again.ran || changed != again.ran {
			t.Errorf("%v: ran %d, changed %d, want %d", again.words, sum.Ran, changed, again.ran)
		}
		attempts[again.agent]++
	}
	v = w.view(c)
	if tr := trialOf(t, v, "x", "oracle"); tr.Attempt != 5 || len(tr.Replaced) != 4 {
		t.Errorf("attempt %d, %d replaced; want 5 and 4", tr.Attempt, len(tr.Replaced))
	}

	before := results(t, c)
	for _, words := range [][]string{{"typo"}, {"solved", "typo"}, {"infra"}} {
		c.Rerun = words
		if _, err := Run(t.Context(), c, w.deps()); err == nil || !strings.Contains(err.Error(), words[len(words)-1]) {
			t.Errorf("%v: %v", words, err)
		}
	}
	if after := results(t, c); len(after) != len(before) {
		t.Errorf("a refused rerun left %d of %d results", len(after), len(before))
	}
}

// A task that changed since is refused before anything is written, and the
// remedy is named.
func TestChangedTaskIsRefused(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", nil)
	c := w.config("changed", []Arm{gold()}, x)
	w.run(c)
	before, err := os.ReadFile(filepath.Join(c.Dir, store.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(x.Dir, "instruction.md"), "Write something else.")
	c.Attempts = 2
	if _, err := Run(t.Context(), c, w.deps()); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "--job-name") {
		t.Errorf("got %v; want ErrChanged with its remedy", err)
	}
	after, err := os.ReadFile(filepath.Join(c.Dir, store.EventsFile))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("a refused job has new events (%v)", err)
	}
	w.write(filepath.Join(x.Dir, "instruction.md"), "Write done.")
	if sum, _ := w.run(c); sum.Ran != 1 {
		t.Errorf("changed back: %+v", sum)
	}
}

// While one runs a job, another cannot.
func TestOneWriter(t *testing.T) {
	w := newWorld(t)
	c := w.config("two", []Arm{idle()}, w.task("x", nil))
	second := error(nil)
	deps := w.deps()
	deps.OnEvent = func(e trial.Event) {
		if e.Kind == trial.TrialStarted {
			_, second = Run(t.Context(), c, w.deps())
		}
	}
	if _, err := Run(t.Context(), c, deps); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(second, store.ErrLocked) {
		t.Errorf("the second writer got %v", second)
	}
}
