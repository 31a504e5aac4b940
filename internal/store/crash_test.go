package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/trial"
)

// TestMain lets this binary be the child of the crash test: it works on a job
// and kills itself at a boundary.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_CRASH_DIR"); dir != "" {
		if err := workload(dir, killer(os.Getenv("STORE_CRASH_AT"))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// killer ends this process, as a power cut would, the nth time that it passes
// a boundary: "result.renamed:3".
func killer(at string) func(string) {
	name, nth, _ := strings.Cut(at, ":")
	left, _ := strconv.Atoi(nth)
	return func(passed string) {
		if passed != name {
			return
		}
		if left--; left == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

const crashTrials = 6

func crashName(i int) string { return fmt.Sprintf("task-%d__AAAAAA%d", i, i+2) }

// workload runs or resumes a job of six trials to its end. Trial 1 loses its
// first attempt to infrastructure; trial 2 is rerun once after it has a
// result. Every execution is noted beside the job.
func workload(dir string, boundary func(string)) error {
	o := Options{Boundary: boundary}
	j, _, err := Open(dir, o)
	if errors.Is(err, ErrNoJob) {
		j, err = Create(dir, Meta{Info: trial.JobInfo{Trials: crashTrials, Version: "test"}}, o)
	}
	if err != nil {
		return err
	}
	defer j.Close()
	for i := range crashTrials {
		if _, known := j.State(crashName(i)); !known {
			if err := j.Announce(trial.TrialPlanned, crashName(i), 0, plannedTask(i)); err != nil {
				return err
			}
		}
	}
	for i := range crashTrials {
		if err := crashTrial(j, dir, i); err != nil {
			return err
		}
	}
	if err := j.WriteSummary(time.Now(), 0, true, nil); err != nil {
		return err
	}
	return j.Announce(trial.JobFinished, "", 0, struct{}{})
}

func crashTrial(j *Job, dir string, i int) error {
	name := crashName(i)
	t, _ := j.State(name)
	replaced := func(why string) bool {
		return slices.ContainsFunc(t.Replaced, func(r Replaced) bool { return r.Why == why })
	}
	if t.Finished == nil {
		attempt := t.Attempt + 1
		if err := note(dir, name, attempt); err != nil {
			return err
		}
		trialDir, err := j.Begin(name, attempt, t.Planned)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(trialDir, TestOutputFile), bytes.Repeat([]byte("x"), 5000), 0o644); err != nil {
			return err
		}
		if i == 1 && !replaced("retry") {
			if err := j.Replace(name, attempt, crashResult(name, attempt, trial.CauseSandboxLost), trial.Replaced{Cause: trial.CauseSandboxLost, Why: "retry"}); err != nil {
				return err
			}
			return crashTrial(j, dir, i)
		}
		if err := j.CommitResult(name, attempt, crashResult(name, attempt, trial.CauseSolved)); err != nil {
			return err
		}
	}
	if t, _ = j.State(name); i == 2 && !replaced("rerun") {
		if err := j.Replace(name, t.Attempt, nil, trial.Replaced{Cause: trial.CauseSolved, Why: "rerun"}); err != nil {
			return err
		}
		return crashTrial(j, dir, i)
	}
	return nil
}

func crashResult(name string, attempt int, cause trial.Cause) *trial.Result {
	e, err := cause.Ending()
	if err != nil {
		panic(err)
	}
	r := &trial.Result{TrialName: name, TaskName: name, Config: json.RawMessage("{}"), TaskID: json.RawMessage("{}"), AgentInfo: trial.AgentInfo{Name: "scripted"}}
	if err := r.SetAssay(trial.Record{Outcome: e.Outcome, Fault: e.Fault, Cause: cause, Attempt: attempt, Rep: 1}); err != nil {
		panic(err)
	}
	return r
}

func note(dir, name string, attempt int) error {
	f, err := os.OpenFile(dir+".executed", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %d\n", name, attempt)
	return err
}

// Every named boundary is passed, and none that has no name.
func TestBoundariesAreNamed(t *testing.T) {
	seen := map[string]bool{}
	if err := workload(filepath.Join(t.TempDir(), "job"), func(b string) { seen[b] = true }); err != nil {
		t.Fatal(err)
	}
	for _, b := range Boundaries() {
		if !seen[b] {
			t.Errorf("boundary %s is never passed", b)
		}
		delete(seen, b)
	}
	for b := range seen {
		t.Errorf("boundary %s has no name in Boundaries", b)
	}
}

// A process killed at any boundary leaves a job that a resume completes with
// nothing lost, nothing repeated and nothing corrupt. The resume is killed
// once, too.
func TestCrashAtEveryBoundary(t *testing.T) {
	again := []string{"event.write.half:1", "attempt.moved:1", "result.renamed:1", "finished.appended:1", "event.write.before:2"}
	for i, b := range Boundaries() {
		for _, nth := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s:%d", b, nth), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "job")
				if killed := crash(t, dir, fmt.Sprintf("%s:%d", b, nth)); !killed && nth == 1 {
					t.Fatal("the child was not killed")
				}
				if nth == 1 {
					crash(t, dir, again[i%len(again)])
				}
				finish1(t, dir)
			})
		}
	}
}

// The same at random moments.
func TestCrashAtRandomMoments(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range 6 {
		dir := filepath.Join(t.TempDir(), fmt.Sprintf("job%d", i))
		for range 3 {
			cmd := child(dir, "")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.IntN(40_000)) * time.Microsecond)
			cmd.Process.Kill()
			cmd.Wait()
			before := survivors(t, dir)
			checkKept(t, dir, before)
		}
		finish1(t, dir)
	}
}

func child(dir, at string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_CRASH_DIR="+dir, "STORE_CRASH_AT="+at)
	return cmd
}

// crash runs the workload in a child that kills itself. A boundary that this
// run does not reach ends well.
func crash(t *testing.T, dir, at string) (killed bool) {
	t.Helper()
	out, err := child(dir, at).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("at %s: %v\n%s", at, err, out)
	}
	return err != nil
}

// survivors are the trials whose result is on disk, with its digest.
func survivors(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for i := range crashTrials {
		b, err := os.ReadFile(filepath.Join(dir, crashName(i), ResultFile))
		if err == nil {
			all[crashName(i)] = Digest(b)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return all
}

// checkKept opens the job and checks that the results on disk stand as they
// are and that the events before the torn end are still there.
func checkKept(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	old, err := os.ReadFile(filepath.Join(dir, EventsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	j, _, err := Open(dir, Options{})
	if errors.Is(err, ErrNoJob) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	whole := old[:bytes.LastIndexByte(old, '\n')+1]
	now, err := os.ReadFile(filepath.Join(dir, EventsFile))
	if err != nil || !bytes.HasPrefix(now, whole) {
		t.Errorf("events were lost (%v)", err)
	}
	for name, digest := range before {
		if s, _ := j.State(name); s.Finished == nil || s.Finished.Digest != digest {
			t.Errorf("%s had a result and has none now: %+v", name, s)
		}
	}
	for i := range crashTrials {
		name := crashName(i)
		if s, _ := j.State(name); s.Finished != nil && before[name] == "" {
			t.Errorf("%s is finished without a result", name)
		}
	}
}

// finish1 resumes the job and looks at the whole.
func finish1(t *testing.T, dir string) {
	t.Helper()
	before := survivors(t, dir)
	checkKept(t, dir, before)
	executed := lines(t, dir+".executed")
	if err := workload(dir, nil); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines(t, dir+".executed")[len(executed):] {
		name, _, _ := strings.Cut(line, " ")
		if before[name] != "" && name != crashName(2) { // trial 2 may be rerun on purpose
			t.Errorf("%s had a result and was run again", name)
		}
	}
	v, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if v.State != Done || v.Ended != crashTrials || v.Graded != crashTrials || len(v.Findings) > 0 {
		t.Errorf("state %s, ended %d, findings %v", v.State, v.Ended, v.Findings)
	}
	started := 0
	for i, e := range v.Events {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has seq %d", i+1, e.Seq)
		}
		if e.Kind == trial.TrialStarted {
			started++
		}
	}
	begun := 0
	for _, tr := range v.Trials {
		if tr.Outcome != trial.Pass || len(tr.Findings) > 0 {
			t.Errorf("%s: %s %v", tr.Name, tr.Outcome, tr.Findings)
		}
		begun += 1 + len(tr.Replaced)
		for _, r := range tr.Replaced {
			if _, err := os.Lstat(filepath.Join(dir, r.Kept)); r.Kept == "" || err != nil {
				t.Errorf("%s: attempt %d was not kept: %+v", tr.Name, r.Attempt, r)
			}
		}
	}
	if begun < started {
		t.Errorf("%d attempts were begun and %d are accounted for", started, begun)
	}
	noLeftovers(t, dir)
	j, rec, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if !rec.Clean() {
		t.Errorf("a complete job needed recovery: %v", rec.Lines())
	}
}

func noLeftovers(t *testing.T, dir string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), tempPrefix) {
			t.Errorf("left over: %s", path)
		}
		return err
	})
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")[:bytes.Count(b, []byte("\n"))]
}
