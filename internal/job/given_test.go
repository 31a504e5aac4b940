package job

import (
	"errors"
	"testing"

	"assay/internal/agent/nop"
	"assay/task"
)

func given(digests ...string) (all []Given) {
	for _, d := range digests {
		all = append(all, Given{Digest: "sha256:" + d, Agent: nop.New()})
	}
	return all
}

// An arm of answers has a trial for each, and none where there is none.
func TestExpandGiven(t *testing.T) {
	tasks := []*task.Task{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	by := map[string][]Given{"a": given("1", "2"), "c": given("3")}
	cfg := Config{Tasks: tasks, Arms: []Arm{{Spec: "prediction:m", Agent: nop.New(), Given: func(t *task.Task) []Given { return by[t.Name] }}, {Spec: "nop", Agent: nop.New()}}}
	all, err := expand(cfg, map[string]string{"a": "sha256:a", "b": "sha256:b", "c": "sha256:c"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		got = append(got, p.task.Name+" "+p.arm.Spec+" "+p.answer())
	}
	want := []string{"a prediction:m sha256:1", "a nop ", "b nop ", "c prediction:m sha256:3", "c nop ", "a prediction:m sha256:2"}
	if len(got) != len(want) || cfg.trials() != len(want) {
		t.Fatalf("%q (%d), want %q", got, cfg.trials(), want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %q, want %q", i, got[i], want[i])
		}
	}

	// The same answers are found again; another one is refused.
	name := func(task string) string { return task + "__x" }
	var have []known
	for i, p := range all {
		p.name = name(p.task.Name)
		have = append(have, known{name: p.name, planned: p.info(), attempt: 1, finished: i < 3})
	}
	run, fresh, err := match(all, have, name)
	if err != nil || len(run) != 3 || len(fresh) != 0 {
		t.Errorf("%d to run, %d new, %v", len(run), len(fresh), err)
	}
	by["c"] = given("4")
	if all, err = expand(cfg, map[string]string{"a": "sha256:a", "b": "sha256:b", "c": "sha256:c"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := match(all, have, name); !errors.Is(err, ErrChanged) {
		t.Errorf("another answer in the same cell: %v", err)
	}
}
