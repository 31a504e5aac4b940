package job

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"assay/task"
)

// The corpus of hand-written tasks: each field, legacy spelling and reward form
// of Harbor's comes to what the task itself says that its gold solution comes
// to, on the real sandbox.
func TestCorpus(t *testing.T) {
	w := newWorld(t)
	dirs, err := filepath.Glob("../../task/testdata/corpus/*")
	if err != nil {
		t.Fatal(err)
	}
	c := w.config("corpus", []Arm{gold()})
	c.Concurrent = 4
	expect := map[string]map[string]any{}
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		x, err := task.Load(abs)
		if err != nil {
			continue // task's own tests hold what is wrong with it
		}
		if e, ok := x.Config.Metadata.Assay.Rest["expect"].(map[string]any); ok {
			expect[x.Name] = e
			c.Tasks = append(c.Tasks, x)
		}
	}
	if len(c.Tasks) < 30 {
		t.Fatalf("%d tasks say what they come to, want at least 30", len(c.Tasks))
	}
	_, v := w.run(c)
	if len(v.Trials) != len(c.Tasks) {
		t.Errorf("%d trials of %d tasks", len(v.Trials), len(c.Tasks))
	}
	for _, tr := range v.Trials {
		want := expect[tr.Task]
		if got := string(tr.Outcome); got != want["outcome"] || string(tr.Record.Cause) != want["cause"] {
			t.Errorf("%s ended %s (%s) %s, want %v (%v); the tests said %q", tr.Task, got, tr.Record.Cause, tr.Record.Detail,
				want["outcome"], want["cause"], w.text(tr, "verifier/test-stdout.txt"))
		}
		var rewards map[string]json.Number
		if r := tr.Result.VerifierResult; r != nil {
			rewards = r.Rewards
		}
		all, _ := want["rewards"].(map[string]any)
		if one, ok := want["reward"]; ok {
			all = map[string]any{"reward": one}
		}
		if got, want := numbers(t, rewards), numbers(t, all); got != want {
			t.Errorf("%s: rewards %s, want %s", tr.Task, got, want)
		}
	}
}

// numbers spells rewards so that 1 and 1.0 are one; map keys come sorted.
func numbers[V any](t *testing.T, rewards map[string]V) string {
	t.Helper()
	b, err := json.Marshal(rewards)
	if err != nil {
		t.Fatal(err)
	}
	var plain map[string]float64
	if err := json.Unmarshal(b, &plain); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(plain)
}
