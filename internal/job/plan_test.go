package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

func grid(tasks, arms []string, k int) Config {
	c := Config{Attempts: k}
	for _, t := range tasks {
		c.Tasks = append(c.Tasks, &task.Task{Name: t})
	}
	for _, a := range arms {
		c.Arms = append(c.Arms, Arm{Spec: a})
	}
	return c
}

func namer() func(string) string {
	n := 0
	return func(t string) string { n++; return fmt.Sprintf("%s__%d", t, n) }
}

func TestExpandTouchesEveryTaskFirst(t *testing.T) {
	all, err := expand(grid([]string{"x", "y"}, []string{"oracle", "nop"}, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		got = append(got, fmt.Sprintf("%d%s-%s", p.rep, p.task.Name, p.arm.Spec))
	}
	want := "1x-oracle 1x-nop 1y-oracle 1y-nop 2x-oracle 2x-nop 2y-oracle 2y-nop"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("order\n got %s\nwant %s", s, want)
	}
}

func TestExpandRefusesWhatCannotBeToldApart(t *testing.T) {
	if _, err := expand(grid([]string{"x", "x"}, []string{"nop"}, 1), nil); err == nil {
		t.Error("two tasks of one name")
	}
	if _, err := expand(grid([]string{"x"}, []string{"nop", "nop"}, 1), nil); err == nil {
		t.Error("one agent twice")
	}
}

// A larger k, more tasks and more agents run only what is missing, whatever
// was begun and never ended runs again, and names stay.
func TestMatchRunsOnlyWhatIsMissing(t *testing.T) {
	small, err := expand(grid([]string{"x"}, []string{"nop"}, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = match(small, nil, namer()); err != nil {
		t.Fatal(err)
	}
	have := []known{
		{name: small[0].name, planned: trial.Planned{Task: "x", Agent: "nop", Rep: 1}, attempt: 1, finished: true},
		{name: small[1].name, planned: trial.Planned{Task: "x", Agent: "nop", Rep: 2}, attempt: 3, finished: false},
	}
	large, err := expand(grid([]string{"x", "y"}, []string{"nop", "oracle"}, 3), nil)
	if err != nil {
		t.Fatal(err)
	}
	later := namer()
	run, fresh, err := match(large, have, func(t string) string { return "new-" + later(t) })
	if err != nil {
		t.Fatal(err)
	}
	if len(large) != 12 || len(run) != 11 || len(fresh) != 10 {
		t.Fatalf("planned %d, to run %d, fresh %d; want 12, 11, 10", len(large), len(run), len(fresh))
	}
	for _, p := range run {
		if p.name == have[0].name {
			t.Error("a finished trial runs again")
		}
		if p.name == have[1].name && p.attempt != 4 {
			t.Errorf("an attempt that never ended gets number %d, want 4", p.attempt)
		}
	}
}

func TestMatchRefusesAChangedTask(t *testing.T) {
	all, err := expand(grid([]string{"x"}, []string{"nop"}, 1), map[string]string{"x": "sha256:new"})
	if err != nil {
		t.Fatal(err)
	}
	have := []known{{name: "x__1", planned: trial.Planned{Task: "x", Digest: "sha256:old", Agent: "nop", Rep: 1}, finished: true}}
	_, _, err = match(all, have, namer())
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "--job-name") {
		t.Errorf("got %v; want ErrChanged with its remedy", err)
	}
}

// Nothing that is not the agent's doing is ever blamed on it.
func TestBlame(t *testing.T) {
	for _, c := range []struct {
		err   error
		phase trial.Phase
		want  trial.Cause
	}{
		{context.Canceled, trial.PhaseAgent, trial.CauseCancelled},
		{&image.MissingError{Ref: "x"}, trial.PhaseImage, trial.CauseImageMissing},
		{fmt.Errorf("wrap: %w", &image.MissingError{Ref: "x"}), trial.PhaseGrade, trial.CauseImageMissing},
		{errors.New("RUN failed"), trial.PhaseImage, trial.CauseImageBuild},
		{sandbox.ErrUnsupported, trial.PhaseSetup, trial.CauseUnsupported},
		{errors.New("clone: EAGAIN"), trial.PhaseSetup, trial.CauseSandboxStart},
		{sandbox.ErrLost, trial.PhaseAgent, trial.CauseSandboxLost},
		{fmt.Errorf("write: %w", syscall.ENOSPC), trial.PhaseRecord, trial.CauseHostDisk},
		{errors.New("anything"), trial.PhaseAgent, trial.CauseHarness},
		{&endError{trial.CauseTaskUnhealthy, errors.New("x")}, trial.PhaseSetup, trial.CauseTaskUnhealthy},
	} {
		got := blame(c.err, c.phase)
		if got != c.want {
			t.Errorf("%v in %s: %s, want %s", c.err, c.phase, got, c.want)
		}
		e, err := got.Ending()
		if err != nil {
			t.Error(err)
		}
		if e.Fault == trial.FaultAgent || e.Counted {
			t.Errorf("%v in %s counts against the agent", c.err, c.phase)
		}
	}
}

// How the agent ended never turns a verdict around.
func TestMergeNeverTurnsAVerdict(t *testing.T) {
	one := 1
	for _, c := range []struct {
		graded trial.Cause
		end    agentEnd
		want   trial.Cause
	}{
		{trial.CauseSolved, agentEnd{timedOut: true}, trial.CauseSolved},
		{trial.CauseSolved, agentEnd{exit: &one}, trial.CauseSolved},
		{trial.CauseUnsolved, agentEnd{}, trial.CauseUnsolved},
		{trial.CauseUnsolved, agentEnd{timedOut: true, exit: &one}, trial.CauseAgentTimeout},
		{trial.CauseUnsolved, agentEnd{exit: &one}, trial.CauseAgentExit},
		{trial.CauseRewardMissing, agentEnd{timedOut: true}, trial.CauseRewardMissing},
	} {
		if got, _ := merge(c.graded, "", c.end); got != c.want {
			t.Errorf("%s after %+v: %s, want %s", c.graded, c.end, got, c.want)
		}
	}
}
