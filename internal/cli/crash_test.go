package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// crashBed is a job that is killed and resumed over and over.
type crashBed struct {
	bin, set, store string
	marker          string // argument of every process the job's agents leave behind
	trials          int    // of the job
}

// TestCrash kills a job with SIGKILL, once at each named write, rename and event
// boundary and at random moments besides, and resumes each: zero lost, zero
// repeated, zero corrupt, no process left.
// ASSAY_CRASH_TRIALS sets how many trials the job has (12, of which four run at a
// time: nearly all of the test's time is theirs), ASSAY_CRASH_RANDOM how many
// random moments (10), ASSAY_CRASH_SEED the seed, ASSAY_CRASH_EVERY=N takes only
// every Nth boundary (1).
func TestCrash(t *testing.T) {
	needSandbox(t)
	b := newCrashBed(t)
	full := b.reference(t)
	every := max(1, number("ASSAY_CRASH_EVERY", 1))
	for i, name := range store.Boundaries() {
		if i%every != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(scratch(t), "job")
			times := passed(name)
			err := b.command(dir, fmt.Sprintf("ASSAY_CRASH_AT=%s:%d", name, 1+i%max(1, times))).Run()
			if times == 0 && err == nil {
				err = b.rerun(dir, name)
			}
			if !killed(err) {
				t.Fatalf("boundary %s is passed less often than %d times: %v", name, 1+i%max(1, times), err)
			}
			b.resume(t, dir)
		})
	}
	n, seed := number("ASSAY_CRASH_RANDOM", 10), uint64(number("ASSAY_CRASH_SEED", int(time.Now().UnixNano())))
	t.Logf("%d random moments within %s, seed %d", n, full, seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		at := time.Duration(rnd.Int64N(int64(full)))
		t.Run(fmt.Sprintf("random-%d", i), func(t *testing.T) {
			dir := filepath.Join(scratch(t), "job")
			cmd := b.command(dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(at)
			cmd.Process.Kill()
			cmd.Wait()
			b.resume(t, dir)
		})
	}
}

// passed is how often a boundary is passed in a new job, at least and up to
// seven times; 0: only when an attempt is set aside.
func passed(boundary string) int {
	switch what, _, _ := strings.Cut(boundary, "."); what {
	case "config":
		return 1
	case "summary": // lock.json and result.json
		return 2
	case "attempt":
		return 0
	}
	return 7
}

// number is an environment variable's value.
func number(name string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return standard
}

func newCrashBed(t *testing.T) *crashBed {
	t.Helper()
	dir := scratch(t)
	b := &crashBed{bin: filepath.Join(dir, "assay"), set: filepath.Join(dir, "task"), store: filepath.Join(dir, "store")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	b.trials = max(8, number("ASSAY_CRASH_TRIALS", 12)&^1)
	b.marker = fmt.Sprintf("86399.%d", os.Getpid())
	files := map[string]string{
		"task.toml":              "[metadata.assay]\ngrade = \"patch\"\nfallback_image = \"host\"\n",
		"instruction.md":         "write 1 to /app/answer",
		"environment/Dockerfile": "FROM nowhere/at-all:1\nWORKDIR /app\n",
		"tests/test.sh":          "#!/bin/sh\ncat /app/answer > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
		"solution/solve.sh":      "#!/bin/sh\nsleep " + b.marker + " &\necho 1 > /app/answer\n",
	}
	for name, text := range files {
		p := filepath.Join(b.set, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(b.bin, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *crashBed) command(dir string, env ...string) *exec.Cmd {
	cmd := exec.Command(b.bin, "run", "-q", "-p", b.set, "-a", "oracle", "-a", "nop", "-k", strconv.Itoa(b.trials/2), "-n", "4",
		"-o", filepath.Dir(dir), "--job-name", filepath.Base(dir), "--no-report")
	cmd.Env = append(append(os.Environ(), "ASSAY_STORE="+b.store), env...)
	return cmd
}

// rerun repeats one trial of a finished job and crashes at a boundary.
func (b *crashBed) rerun(dir, boundary string) error {
	done, err := filepath.Glob(filepath.Join(dir, "*", "result.json"))
	if err != nil || len(done) == 0 {
		return fmt.Errorf("nothing to repeat: %v", err)
	}
	cmd := exec.Command(b.bin, "job", "resume", "-q", dir, "--rerun", filepath.Base(filepath.Dir(done[0])))
	cmd.Env = append(os.Environ(), "ASSAY_STORE="+b.store, "ASSAY_CRASH_AT="+boundary+":1")
	return cmd.Run()
}

func killed(err error) bool {
	ee, ok := err.(*exec.ExitError)
	return ok && ee.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// reference runs the job undisturbed and says how long it takes.
func (b *crashBed) reference(t *testing.T) time.Duration {
	t.Helper()
	dir := filepath.Join(scratch(t), "job")
	if out, err := b.command(dir).CombinedOutput(); err != nil { // also fills the image store
		t.Fatalf("%v\n%s", err, out)
	}
	b.check(t, dir)
	dir = filepath.Join(scratch(t), "job")
	begin := time.Now()
	if out, err := b.command(dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return time.Since(begin)
}

// resume runs the killed job again and checks what came of it.
func (b *crashBed) resume(t *testing.T, dir string) {
	t.Helper()
	b.nobody(t)
	before := results(t, dir)
	if out, err := b.command(dir).CombinedOutput(); err != nil {
		t.Fatalf("resume: %v\n%s", err, out)
	}
	b.check(t, dir)
	after := results(t, dir)
	for name, data := range before {
		if !json.Valid(data) {
			t.Errorf("%s: a torn result.json was visible after the kill", name)
		} else if !bytes.Equal(after[name], data) {
			t.Errorf("%s: its committed result was lost or repeated", name)
		}
	}
	b.nobody(t)
}

func results(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, f := range found {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(filepath.Dir(f))] = data
	}
	return all
}

// check reads the finished job's files itself, not through the code under test.
func (b *crashBed) check(t *testing.T, dir string) {
	t.Helper()
	all := results(t, dir)
	if len(all) != b.trials {
		t.Errorf("%d results, want %d", len(all), b.trials)
	}
	data, err := os.ReadFile(filepath.Join(dir, "events.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	finished, cells := map[string]string{}, map[string]string{}
	seq := uint64(0)
	for line := range bytes.Lines(data) {
		var e trial.Event
		if err := json.Unmarshal(line, &e); err != nil || !bytes.HasSuffix(line, []byte("\n")) {
			t.Fatalf("event after %d is torn: %v %q", seq, err, line)
		}
		if seq++; e.Seq != seq {
			t.Fatalf("event %d has seq %d", seq, e.Seq)
		}
		switch e.Kind {
		case trial.TrialPlanned:
			var p trial.Planned
			if err := json.Unmarshal(e.Data, &p); err != nil {
				t.Fatal(err)
			}
			cell := fmt.Sprintf("%s × %s #%d", p.Task, p.Agent, p.Rep)
			if other, twice := cells[cell]; twice && other != e.Trial {
				t.Errorf("%s is planned as %s and %s", cell, other, e.Trial)
			}
			cells[cell] = e.Trial
		case trial.TrialRetried: // repeated because the user asked for it
			delete(finished, e.Trial)
		case trial.TrialStarted:
			if finished[e.Trial] != "" {
				t.Errorf("%s began again after it had finished", e.Trial)
			}
		case trial.TrialFinished:
			var f trial.Finished
			if err := json.Unmarshal(e.Data, &f); err != nil {
				t.Fatal(err)
			}
			finished[e.Trial] = f.Digest
		}
	}
	for name, data := range all {
		sum := sha256.Sum256(data)
		if want := "sha256:" + hex.EncodeToString(sum[:]); finished[name] != want {
			t.Errorf("%s: the event's digest %q is not result.json's %q", name, finished[name], want)
		}
		var r struct {
			AgentInfo struct{ Name string } `json:"agent_info"`
			Verifier  struct {
				Rewards map[string]float64
			} `json:"verifier_result"`
		}
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{"oracle": 1, "nop": 0}[r.AgentInfo.Name]
		if got, ok := r.Verifier.Rewards["reward"]; !ok || got != want {
			out, _ := os.ReadFile(filepath.Join(dir, name, "verifier", "test-stdout.txt"))
			diff, _ := os.ReadFile(filepath.Join(dir, name, "agent", "workspace.diff"))
			t.Errorf("%s: %s has reward %v, want %v\ntest output %q\ndiff %q\n%s", name, r.AgentInfo.Name, r.Verifier.Rewards, want, out, diff, data)
		}
	}
}

// nobody checks that no process of the job is left: neither assay's own nor
// one that an agent left in the background.
func (b *crashBed) nobody(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var left []string
	for ctx.Err() == nil {
		if left = b.living(); len(left) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left behind: %s", strings.Join(left, ", "))
}

func (b *crashBed) living() []string {
	var left []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if exe, _ := os.Readlink(filepath.Join(p, "exe")); exe == b.bin {
			left = append(left, p)
			continue
		}
		if cmd, _ := os.ReadFile(filepath.Join(p, "cmdline")); bytes.Contains(cmd, []byte(b.marker)) {
			left = append(left, p+" "+string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		}
	}
	return left
}
