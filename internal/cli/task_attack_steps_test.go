package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent/script"
	"assay/internal/grade/exploit"
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
