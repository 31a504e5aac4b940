package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent/script"
	"assay/internal/grade/exploit"
	"assay/task"
)

// A cheat of any length becomes steps that a script agent takes, and does what
// it does in one piece.
func TestAttackStepsOfAnyLength(t *testing.T) {
	for _, lines := range []int{1, 9_000} {
		out := filepath.Join(t.TempDir(), "out")
		text := "cat >" + out + " <<'END'\n" + strings.Repeat("it's \\n \"all\" $HOME \u00e4 here\n", lines) + "END\nexit 3\n"
		steps := attackSteps(exploit.Pair{Attack: exploit.Attack{Does: "writes"}, Target: exploit.Target{Task: "a/b[1]*"}, Script: text})
		if _, err := script.New("x", []byte(steps)); err != nil {
			t.Fatal(err)
		}
		ended := 0
		for _, s := range strings.Split(steps, "# step: ")[1:] {
			_, line, _ := strings.Cut(s, "\n# task: a/b\\[1]\\*\n")
			if line == "" {
				t.Fatalf("a step for another task: %.80q", s)
			}
			err := exec.Command("/bin/sh", "-c", line).Run()
			if x, ok := err.(*exec.ExitError); ok {
				ended = x.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(out)
		if n := strings.Count(string(b), "it's \\n \"all\" $HOME \u00e4 here\n"); err != nil || n != lines || ended != 3 {
			t.Errorf("%d lines came through as %d, status %d: %v", lines, n, ended, err)
		}
	}
}

// What a task's keywords name goes before what its commands look like.
func TestKeywordsSayTheEcosystem(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"task.toml":         "[task]\nname = \"a/b\"\nkeywords = [\"javascript\"]\n[environment]\ndocker_image = \"host\"\nworkdir = \"/app\"\n",
		"instruction.md":    "Mend it.\n",
		"tests/test.sh":     "exit 1\n",
		"tests/checks.toml": "version = 1\n[[commands]]\nname = \"unit\"\nrun = \"./run.sh\"\nreport = \"tap\"\nfail_to_pass = [\"one\"]\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	x, err := task.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for chosen, want := range map[string]exploit.Ecosystem{"": exploit.JavaScript, "go": exploit.Go} {
		got, err := (&taskAttackCmd{Ecosystem: chosen}).targets([]*task.Task{x})
		if err != nil || len(got) != 1 || got[0].Ecosystem != want {
			t.Errorf("%q: %+v, %v", chosen, got, err)
		}
	}
}
