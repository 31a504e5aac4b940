package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/grade/exploit"
	"assay/internal/store"
	"assay/trial"
)

// No cheat passes: a slice of the battery that is another one every day, and
// another one for the ordinary user. The whole of it is `check --long attack`;
// so are all that exhaust something, which take as long as a command may.
func TestAttacksFail(t *testing.T) {
	needSandbox(t)
	seed := uint64(time.Now().Unix()/86400) + uint64(min(os.Getuid(), 1))
	if s := os.Getenv("ASSAY_ATTACK_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	// Compilers take most of the time: of the tasks that need one it is one a day,
	// and Go's, whose image takes half a minute, is for a day of its own.
	slow := []string{"rust", "java", "rust", "java", "go"}[seed%5]
	args := []string{"assay", "--json", "--store", scratch(t), "task", "attack", "-o", filepath.Join(scratch(t), "jobs"), "--job-name", "slice",
		"--seed", strconv.FormatUint(seed, 10), "--sample", "10", "--chains", "6"}
	for _, c := range []exploit.Class{exploit.Baseline, exploit.Shared, exploit.Answers, exploit.Matching, exploit.Logic, exploit.Untrusted,
		exploit.Privileges, exploit.HardCode, exploit.Tests, exploit.Time, exploit.Canaries} {
		args = append(args, "--classes", string(c))
	}
	for _, name := range attackable(t) {
		if name == slow || name != "go" && name != "rust" && name != "java" {
			args = append(args, filepath.Join(attackTasks, name))
		}
	}
	var out, errs bytes.Buffer
	code := Main(args, World{Stdout: &out, Stderr: &errs, Env: os.LookupEnv})
	t.Logf("seed %d\n%s", seed, out.String())
	if code != exitDone {
		t.Errorf("exit %d\n%s", code, errs.String())
	}
	if n := strings.Count(out.String(), `"type":"attack",`); n != 10 {
		t.Errorf("%d results of 10", n)
	}
}

// The whole matrix, with chains: every cheat at every task, none passes but
// what is listed as residual.
func TestAttackMatrix(t *testing.T) {
	dir := os.Getenv("ASSAY_ATTACK_MATRIX")
	if dir == "" {
		t.Skip("ASSAY_ATTACK_MATRIX names no directory for the job (check --long attack)")
	}
	needSandbox(t)
	args := []string{"assay", "--store", filepath.Join(dir, "store"), "task", "attack", "-o", dir, "--job-name", "matrix", "--chains", "40", "--seed", "7"}
	for _, name := range attackable(t) {
		args = append(args, filepath.Join(attackTasks, name))
	}
	var out bytes.Buffer
	code := Main(args, World{Stdout: &out, Stderr: os.Stderr, Env: os.LookupEnv})
	t.Logf("\n%s", out.String())
	if code != exitDone {
		t.Errorf("exit %d", code)
	}
}

// Whoever throws a coin in every run passes a plan with one canary now and
// then. That is listed, and no fault there.
func TestGuessIsResidual(t *testing.T) {
	trials := os.Getenv("ASSAY_ATTACK_GUESSES")
	if trials == "" {
		t.Skip("ASSAY_ATTACK_GUESSES says of how many trials (check --long attack)")
	}
	needSandbox(t)
	var out, errs bytes.Buffer
	code := Main([]string{"assay", "--store", scratch(t), "task", "attack", "../grade/exploit/testdata/guess/c", "--attacks", "tell-by-coin", "-k", trials,
		"-o", filepath.Join(scratch(t), "jobs"), "--job-name", "guess"}, World{Stdout: &out, Stderr: &errs, Env: os.LookupEnv})
	t.Logf("\n%s", out.String())
	if code != exitDone {
		t.Errorf("exit %d\n%s", code, errs.String())
	}
}

// A job of cheats is an ordinary one: it is resumed from its configuration
// alone, each cheat for the tasks that it was drawn for.
func TestAttackJobIsResumed(t *testing.T) {
	needSandbox(t)
	storeDir, dir := scratch(t), filepath.Join(scratch(t), "jobs")
	run := func(want int, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main(append([]string{"assay", "--store", storeDir}, args...), World{Stdout: &out, Stderr: &errs, Env: os.LookupEnv}); code != want {
			t.Fatalf("%q: exit %d\n%s%s", args, code, out.String(), errs.String())
		}
	}
	run(exitDone, "task", "attack", filepath.Join(attackTasks, "shell"), filepath.Join(attackTasks, "c"), "--attacks", "nothing", "--attacks", "by-name", "-o", dir, "--job-name", "j")
	run(exitDone, "job", "resume", filepath.Join(dir, "j"), "--rerun", "fail")
	v, err := store.Read(filepath.Join(dir, "j"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, tr := range v.Trials {
		seen[tr.Agent+" "+tr.Task]++
		if (tr.Agent == "oracle") != (tr.Outcome == trial.Pass) || tr.Agent != "oracle" && tr.Attempt != 2 {
			t.Errorf("%s at %s: %s, attempt %d", tr.Agent, tr.Task, tr.Outcome, tr.Attempt)
		}
	}
	want := map[string]int{"oracle attack/c": 1, "oracle attack/shell": 1, "nothing attack/c": 1, "nothing attack/shell": 1, "by-name attack/shell": 1}
	for k, n := range want {
		if seen[k] != n {
			t.Errorf("%s: %d trials, want %d", k, seen[k], n)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("trials %v", seen)
	}
}
