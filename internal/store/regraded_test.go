package store

import (
	"testing"

	"assay/trial"
)

// A result that was set aside for a new verdict, which a crash prevented, is
// put back: the agent's work is there, and nobody works anew.
func TestHalfARegradeIsUndone(t *testing.T) {
	for name, begun := range map[string]bool{"set aside": false, "and the new one begun": true} {
		t.Run(name, func(t *testing.T) {
			j, names := makeJob(t, 1, Options{})
			do(t, j, names[0], trial.CauseUnsolved)
			if err := j.Replace(names[0], 1, nil, trial.Replaced{Cause: trial.CauseUnsolved, Why: WhyRegrade}); err != nil {
				t.Fatal(err)
			}
			if begun {
				if _, err := j.Begin(names[0], 2, trial.Planned{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			k, rec, err := Open(j.Dir(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			s, _ := k.State(names[0])
			if s.Finished == nil || s.Finished.Cause != trial.CauseUnsolved || s.Running {
				t.Errorf("%+v, %+v", s, rec)
			}
			if _, err := k.Result(names[0]); err != nil {
				t.Error(err)
			}
			if v, err := Read(j.Dir()); err != nil || v.Ended != 1 || len(v.Findings) > 0 {
				t.Errorf("%v %+v", err, v)
			}
		})
	}
	// A retry that was begun after a regrade is another run: nothing is put back.
	j, names := makeJob(t, 1, Options{})
	do(t, j, names[0], trial.CauseUnsolved)
	if err := j.Replace(names[0], 1, nil, trial.Replaced{Cause: trial.CauseUnsolved, Why: "rerun"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	k, _, err := Open(j.Dir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if s, _ := k.State(names[0]); s.Finished != nil {
		t.Errorf("%+v", s)
	}
}
