package humaneval

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// fullSet returns the task directories of the whole data set.
func fullSet(t *testing.T) []string {
	t.Helper()
	src := os.Getenv("ASSAY_HUMANEVAL")
	if src == "" {
		t.Skip("ASSAY_HUMANEVAL does not name HumanEval.jsonl.gz: the whole data set is not part of this repository")
	}
	python(t)
	dirs := imported(t, src)
	if len(dirs) != 164 {
		t.Fatalf("%d tasks, want 164", len(dirs))
	}
	return dirs
}

// solvedBy judges one solution a task, as many at once as there are
// processors, and returns the names of the tasks that it solves.
func solvedBy(t *testing.T, dirs []string, call string, solution func(dir string) []byte) []string {
	t.Helper()
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		solved []string
		slots  = make(chan struct{}, runtime.NumCPU())
	)
	for _, dir := range dirs {
		s := sit(t, dir, solution(dir))
		s.call = call
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if v := s.judge(t); v.passed() {
				mu.Lock()
				defer mu.Unlock()
				solved = append(solved, filepath.Base(dir))
			}
		})
	}
	wait.Wait()
	slices.Sort(solved)
	return solved
}

func TestGoldSolvesAll(t *testing.T) {
	dirs := fullSet(t)
	solved := solvedBy(t, dirs, "10", func(dir string) []byte { return readFile(t, filepath.Join(dir, "solution", "solution.py")) })
	if len(solved) != 164 {
		t.Errorf("gold solves %d of 164: %v", len(solved), solved)
	}
	solved = solvedBy(t, dirs, "10", func(dir string) []byte { return readFile(t, filepath.Join(dir, "environment", "solution.py")) })
	if len(solved) != 0 {
		t.Errorf("doing nothing solves %v", solved)
	}
}

// Every cheat scores 0 of 164. Those that only cost the judge time are held by
// the small problems.
func TestCheatsSolveNone(t *testing.T) {
	dirs := fullSet(t)
	slow := []string{"closes_everything", "floods_output", "fork_bomb", "hangs", "huge_answers", "lying_length"}
	for name, source := range cheats(t) {
		if slices.Contains(slow, name) || testing.Short() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if solved := solvedBy(t, dirs, "1", func(string) []byte { return source }); len(solved) != 0 {
				t.Errorf("solves %d of 164: %v", len(solved), solved)
			}
		})
	}
}
