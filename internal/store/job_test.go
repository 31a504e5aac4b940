package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/trial"
)

func ptr[T any](v T) *T { return &v }

// makeJob creates a job with n planned trials of one task each.
func makeJob(t testing.TB, n int, o Options) (*Job, []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "try1")
	j, err := Create(dir, Meta{Info: trial.JobInfo{Trials: n, Concurrent: 2, Version: "test"}, Config: JobConfig{Concurrent: 2, Agents: []AgentConfig{{Name: "scripted"}}}}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	var names []string
	for i := range n {
		p := plannedTask(i)
		name := j.NewName(p.Task)
		if err := j.Announce(trial.TrialPlanned, name, 0, p); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return j, names
}

func plannedTask(i int) trial.Planned {
	return trial.Planned{Task: fmt.Sprintf("demo/task-%d", i), Digest: Digest([]byte{byte(i)}), Agent: "scripted", Rep: 1}
}

// result is a passed trial's.
func result(t testing.TB, j *Job, name string, cause trial.Cause, attempt int) *trial.Result {
	t.Helper()
	e, err := cause.Ending()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	cfg, err := JobConfig{JobName: "try1"}.Trial(name, "tasks/x", "", j.ID(), AgentConfig{Name: "scripted"}).Full()
	if err != nil {
		t.Fatal(err)
	}
	r := &trial.Result{
		ID: NewID(), TaskName: "demo/" + name, TrialName: name, TrialURI: FileURI(j.TrialDir(name)), TaskID: json.RawMessage(`{"path":"tasks/x"}`),
		TaskChecksum: "0", Config: cfg, AgentInfo: trial.AgentInfo{Name: "scripted", Version: "1"},
		StartedAt: &at, FinishedAt: ptr(at.Add(1500 * time.Millisecond)),
	}
	if cause == trial.CauseSolved {
		r.VerifierResult = &trial.VerifierResult{Rewards: map[string]json.Number{"reward": "1"}}
	}
	if err := r.SetAssay(trial.Record{Outcome: e.Outcome, Fault: e.Fault, Cause: cause, Attempt: attempt, Rep: 1, Evidence: trial.Separate}); err != nil {
		t.Fatal(err)
	}
	return r
}

// do runs one attempt to a committed result.
func do(t testing.TB, j *Job, name string, cause trial.Cause) {
	t.Helper()
	s, _ := j.State(name)
	dir, err := j.Begin(name, s.Attempt+1, s.Planned)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, TestOutputFile), []byte("ok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := j.CommitResult(name, s.Attempt+1, result(t, j, name, cause, s.Attempt+1)); err != nil {
		t.Fatal(err)
	}
}

func reopen(t testing.TB, j *Job) (*Job, Recovery) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	k, rec, err := Open(j.Dir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k, rec
}

func TestCreateCommitRead(t *testing.T) {
	var seen []trial.Kind
	j, names := makeJob(t, 3, Options{OnEvent: func(e trial.Event) { seen = append(seen, e.Kind) }})
	do(t, j, names[0], trial.CauseSolved)
	do(t, j, names[1], trial.CauseUnsolved)
	v, err := Read(j.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if v.State != Running || v.Planned != 3 || v.Ended != 2 || v.Graded != 2 || v.Foreign || v.ID != j.ID() {
		t.Errorf("state %s, planned %d, ended %d, graded %d, foreign %v", v.State, v.Planned, v.Ended, v.Graded, v.Foreign)
	}
	if len(v.Findings) > 0 {
		t.Errorf("findings %v", v.Findings)
	}
	first := v.Trials[0]
	if first.Name != names[0] || first.Outcome != trial.Pass || first.Task != "demo/task-0" || first.Rep != 1 || first.Attempt != 1 || first.Millis() != 1500 {
		t.Errorf("%+v", first)
	}
	if d := cmp.Diff([]StepFiles{{TestOutput: TestOutputFile}}, first.Steps); d != "" {
		t.Error(d)
	}
	if last := v.Trials[2]; last.Status != TrialPlanned || last.Agent != "scripted" || last.Outcome != "" {
		t.Errorf("%+v", last)
	}
	for i, e := range v.Events {
		if e.Seq != uint64(i+1) || e.V != trial.EventVersion || e.Time.IsZero() {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if len(seen) != len(v.Events) || seen[0] != trial.JobStarted {
		t.Errorf("seen %v", seen)
	}
	f := data[trial.Finished](v.Events[len(v.Events)-1])
	if b, err := os.ReadFile(filepath.Join(v.Trials[1].Dir, ResultFile)); err != nil || f.Digest != Digest(b) || f.Cause != trial.CauseUnsolved || f.Millis != 1500 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	j, _ := makeJob(t, 1, Options{})
	_, _, err := Open(j.Dir(), Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d;", os.Getpid())) {
		t.Errorf("second writer: %v", err)
	}
	if _, err := Create(j.Dir(), Meta{}, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("create over a locked job: %v", err)
	}
	if err := Remove(j.Dir()); !errors.Is(err, ErrLocked) {
		t.Errorf("remove a locked job: %v", err)
	}
	j.Close()
	if _, err := Create(j.Dir(), Meta{}, Options{}); !errors.Is(err, ErrExists) {
		t.Errorf("create over a job: %v", err)
	}
	if _, _, err := Open(t.TempDir(), Options{}); !errors.Is(err, ErrNoJob) {
		t.Errorf("open nothing: %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(other, Meta{}, Options{}); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("create in a full directory: %v", err)
	}
	if err := Remove(other); !errors.Is(err, ErrNoJob) {
		t.Errorf("remove what is no job: %v", err)
	}
}

func TestBeginAndCommitRefuse(t *testing.T) {
	j, names := makeJob(t, 2, Options{})
	p := plannedTask(0)
	for _, bad := range []string{"", ".hidden", "a/b", "..", "new\nline", "bad\xff", strings.Repeat("x", 300)} {
		if _, err := j.Begin(bad, 1, p); err == nil {
			t.Errorf("trial name %q was taken", bad)
		}
	}
	if _, err := j.Begin(names[0], 2, p); err == nil {
		t.Error("attempt 2 before attempt 1")
	}
	if err := j.CommitResult(names[0], 1, result(t, j, names[0], trial.CauseSolved, 1)); err == nil {
		t.Error("a result of an attempt that was not begun")
	}
	do(t, j, names[0], trial.CauseSolved)
	if err := j.CommitResult(names[0], 1, result(t, j, names[0], trial.CauseSolved, 1)); err == nil {
		t.Error("a second result")
	}
	if _, err := j.Begin(names[0], 2, p); err == nil {
		t.Error("a finished trial was begun again")
	}
	if _, err := j.Result(names[1]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("result of a planned trial: %v", err)
	}
	if r, err := j.Result(names[0]); err != nil || r.TrialName != names[0] {
		t.Errorf("result: %v", err)
	}
	if err := j.Append(trial.Event{Kind: trial.Noted, Data: json.RawMessage(`{"text":"` + strings.Repeat("x", maxLine) + `"}`)}); err == nil {
		t.Error("an event longer than a line may be")
	}
}

func TestReplaceAndDrop(t *testing.T) {
	j, names := makeJob(t, 1, Options{})
	name := names[0]
	if _, err := j.Begin(name, 1, plannedTask(0)); err != nil {
		t.Fatal(err)
	}
	lost := result(t, j, name, trial.CauseSandboxLost, 1)
	if err := j.Replace(name, 1, lost, trial.Replaced{Cause: trial.CauseSandboxLost, Why: "retry"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Replace(name, 1, lost, trial.Replaced{}); err == nil {
		t.Error("replaced twice")
	}
	if _, err := j.Begin(name, 2, plannedTask(0)); err != nil {
		t.Fatal(err)
	}
	if err := j.Drop(name, 2, "interrupted"); err != nil {
		t.Fatal(err)
	}
	do(t, j, name, trial.CauseUnsolved)
	old, err := j.Result(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Replace(name, 3, old, trial.Replaced{Cause: trial.CauseUnsolved, Why: "rerun"}); err != nil {
		t.Fatal(err)
	}
	do(t, j, name, trial.CauseSolved)
	v, err := Read(j.Dir())
	if err != nil {
		t.Fatal(err)
	}
	got := v.Trials[0]
	want := []Replaced{
		{1, ".attempts/" + name + ".1", trial.CauseSandboxLost, "retry"},
		{2, ".attempts/" + name + ".2", "", "interrupted"},
		{3, ".attempts/" + name + ".3", trial.CauseUnsolved, "rerun"},
	}
	if d := cmp.Diff(want, got.Replaced); d != "" {
		t.Error(d)
	}
	if got.Attempt != 4 || got.Outcome != trial.Pass || len(v.Trials) != 1 {
		t.Errorf("%+v", got)
	}
	for _, n := range []string{"1", "3"} {
		if tr, err := ReadTrial(filepath.Join(j.Dir(), AttemptsDir, name+"."+n)); err != nil || tr.Status != TrialFinished {
			t.Errorf("kept attempt %s: %v", n, err)
		}
	}
	if _, rec := reopen(t, j); !rec.Clean() {
		t.Errorf("recovery found %v", rec.Lines())
	}
}
