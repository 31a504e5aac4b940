package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/internal/agent/command"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// A plan runs nothing and rests on earlier trials of the same tasks and agents.
func TestEstimate(t *testing.T) {
	w := newWorld(t)
	limits := files{"task.toml": taskTOML + "[agent]\ntimeout_sec = 10\n[verifier]\ntimeout_sec = 20\n"}
	x, y := w.task("x", limits), w.task("y", limits)
	c := w.config("planned", []Arm{gold()}, x)
	p, err := Estimate(t.Context(), c)
	if err != nil || p.Trials != 1 || p.Done != 0 || p.Expected != nil || p.Longest == nil || *p.Longest != 30 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := os.Stat(w.jobs); !errors.Is(err, os.ErrNotExist) {
		t.Error("a plan left something")
	}
	w.run(c)
	c.Attempts, c.TimeoutMult = 4, 2
	p, err = Estimate(t.Context(), c)
	if err != nil || p.Trials != 4 || p.Done != 1 || p.Measured != 3 || p.Expected == nil || *p.Expected <= 0 || *p.Longest != 3*40/2 {
		t.Errorf("%+v, %v", p, err)
	}
	elsewhere := c
	elsewhere.Dir, elsewhere.Attempts, elsewhere.Concurrent = filepath.Join(w.jobs, "new"), 8, 0
	p, err = Estimate(t.Context(), elsewhere)
	if err != nil || p.Done != 0 || p.Expected == nil || *p.Longest != 8*40/defaultConcurrent {
		t.Errorf("%+v, %v", p, err)
	}
	c.Tasks = append(c.Tasks, y)
	if p, err = Estimate(t.Context(), c); err != nil || p.Trials != 8 || p.Expected != nil {
		t.Errorf("time of a task that never ran is known: %+v, %v", p, err)
	}
	c.Tasks = []*task.Task{w.task("endless", nil)}
	if p, err = Estimate(t.Context(), c); err != nil || p.Longest != nil {
		t.Errorf("a task without a limit has an upper bound: %+v, %v", p, err)
	}
	c.AgentLimit = time.Second
	if p, err = Estimate(t.Context(), c); err != nil || p.Longest == nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// What a job keeps of its configuration is enough to run it on.
func TestLoad(t *testing.T) {
	w := newWorld(t)
	set := filepath.Join(t.TempDir(), "set")
	for _, n := range []string{"a", "b", "c"} {
		if err := os.CopyFS(filepath.Join(set, n), os.DirFS(w.task(n, nil).Dir)); err != nil {
			t.Fatal(err)
		}
	}
	tasks, _, err := task.LoadSet(set)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(c ArmConfig) (Arm, error) {
		if c.Spec == "oracle" {
			return gold(), nil
		}
		line, ok := strings.CutPrefix(c.Spec, "command:")
		if !ok {
			return Arm{}, fmt.Errorf("agent %q", c.Spec)
		}
		return Arm{Spec: "named", From: c.Spec, Agent: command.New(line), Instructions: c.Instructions, Env: c.Env, Options: c.Options}, nil
	}
	for _, c := range []Config{
		{Source: "set", Path: set, Tasks: tasks[:2], Attempts: 1, Retries: -1, Concurrent: 3, Image: "host", Verifier: task.VerifierLive, AgentLimit: 90 * time.Second, TimeoutMult: 1.5,
			Limits: sandbox.Limits{DiskBytes: 64 << 20}, MinFree: 1, Budget: Budget{Tokens: 7}, JobBudget: Budget{USD: 1.5}},
		{Path: tasks[2].Dir, Tasks: tasks[2:], Attempts: 2, Retries: 1, Concurrent: 1, TimeoutMult: 1},
	} {
		c.Dir, c.Backend = filepath.Join(w.jobs, "load-"+c.Source), "ns"
		c.Arms = []Arm{gold(), {Spec: "named", From: "command:echo done >answer", Agent: command.New("echo done >answer"),
			Instructions: "be quick", Env: map[string]string{"A": "b"}, Options: json.RawMessage(`{"effort":"low"}`)}}
		w.run(c)
		got, err := Load(c.Dir, parse)
		if err != nil {
			t.Fatal(err)
		}
		opts := []cmp.Option{cmp.Comparer(func(a, b *task.Task) bool { return a.Dir == b.Dir && a.Name == b.Name }), cmpopts.IgnoreFields(Arm{}, "Agent")}
		if d := cmp.Diff(c, got, opts...); d != "" {
			t.Errorf("-run +loaded:\n%s", d)
		}
		if sum, _ := w.run(got); sum.Ran != 0 {
			t.Errorf("a loaded job ran %d trials again", sum.Ran)
		}
		if _, err := Load(c.Dir, func(ArmConfig) (Arm, error) { return Arm{}, errors.New("no such agent") }); err == nil {
			t.Error("an unknown agent was loaded")
		}
	}
	if _, err := Load(filepath.Join(w.jobs, "none"), parse); !errors.Is(err, store.ErrNoJob) {
		t.Errorf("no job: %v", err)
	}
	foreign := filepath.Join(w.jobs, "foreign")
	w.write(filepath.Join(foreign, store.ConfigFile), `{"job_name": "foreign"}`)
	w.write(filepath.Join(foreign, "x__1", store.ResultFile), `{}`)
	if _, err := Load(foreign, parse); !errors.Is(err, store.ErrForeign) && !errors.Is(err, store.ErrNoJob) {
		t.Errorf("another harness's job: %v", err)
	}
}

// End states and images live as long as their job, and no longer.
func TestEndStatesBelongToTheJob(t *testing.T) {
	var own place // collecting takes everybody's garbage
	w := own.world(t)
	t.Cleanup(func() {
		if err := own.close(); err != nil {
			t.Error(err)
		}
	})
	c := w.config("ends", []Arm{gold()}, w.task("x", nil))
	_, v := w.run(c)
	ends := v.Trials[0].Record.EndState
	if len(ends) != 1 || ends[0].Files == 0 || ends[0].Bytes == 0 {
		t.Fatalf("end states %+v", ends)
	}
	layer := image.LayerID(ends[0].Layer)
	collect := func() bool {
		t.Helper()
		if err := w.images.Close(); err != nil { // this process still holds it
			t.Fatal(err)
		}
		if _, err := w.images.GC(t.Context(), image.GCOptions{Young: -1}); err != nil {
			t.Fatal(err)
		}
		return w.images.Has(layer)
	}
	if !collect() {
		t.Error("the end state was collected while its job exists")
	}
	if err := w.images.Release(image.HostPath(c.Dir)); err != nil {
		t.Fatal(err)
	}
	if collect() {
		t.Error("the end state outlives its job")
	}
}

// Harbor's pass@k: only where every trial has one reward of 0 or 1.
func TestPassAtK(t *testing.T) {
	group := func(rewards ...string) (all []*trial.Result) {
		for i, r := range rewards {
			res := &trial.Result{TaskName: []string{"x", "y"}[i%2]}
			if r != "" {
				res.VerifierResult = &trial.VerifierResult{}
				if err := json.Unmarshal([]byte(r), &res.VerifierResult.Rewards); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, res)
		}
		return all
	}
	one, zero := `{"reward": 1}`, `{"reward": 0}`
	for _, c := range []struct {
		group []*trial.Result
		want  map[int]float64
	}{
		{group(one, one, zero, one, one, "", zero, one), map[int]float64{2: (5.0/6 + 1) / 2, 4: 1}},
		{group(one, zero), map[int]float64{}},
		{group(one, one, `{"reward": 0.5}`, one), nil},
		{group(one, one, `{"a": 1, "b": 1}`, one), nil},
	} {
		got := passAtK(c.group)
		if d := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-9)); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	}
}
