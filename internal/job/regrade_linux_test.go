package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"assay/internal/agent"
	"assay/internal/agent/nop"
	"assay/internal/grade"
	"assay/internal/image"
	"assay/trial"
)

// again loads a job and grades it once more.
func (w *world) again(c Config, names ...string) ([]Regraded, error) {
	w.t.Helper()
	cfg, err := Load(c.Dir, func(a ArmConfig) (Arm, error) { return Arm{Spec: a.Spec, Agent: nop.New()}, nil })
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.Concurrent = 2
	return Regrade(w.t.Context(), cfg, names, w.deps(), nil)
}

func TestRegrade(t *testing.T) {
	w := newWorld(t)
	var ran atomic.Int64
	tk := w.task("planned", withPlan(nil))
	plain := w.task("plain", nil)
	c := w.config("regraded", []Arm{gold(), idle(), shell("wrong", "echo other >answer; exit 3"), counted("counted", &ran)}, tk, plain)
	_, v := w.run(c)
	verdicts := func() map[string]string {
		all := map[string]string{}
		for _, tr := range w.view(c).Trials {
			all[tr.Name] = w.text(tr, "verifier/"+grade.VerdictFile) + string(tr.Record.Cause)
		}
		return all
	}
	first := verdicts()
	for round := 1; round <= 2; round++ {
		got, err := w.again(c)
		if err != nil || len(got) != len(v.Trials) {
			t.Fatalf("%v, %v", got, err)
		}
		for _, g := range got {
			if g.Skipped != "" || g.Was != g.Is || g.Cause != g.Before {
				t.Errorf("%+v", g)
			}
			if _, err := os.Stat(filepath.Join(c.Dir, g.Kept, "result.json")); err != nil {
				t.Errorf("the verdict before is gone: %v", err)
			}
		}
		for name, text := range verdicts() {
			if text != first[name] {
				t.Errorf("round %d, %s:\n%s\nbefore:\n%s", round, name, text, first[name])
			}
		}
	}
	if ran.Load() != 2 {
		t.Errorf("agents ran %d times, want one for each task", ran.Load())
	}
	for _, tr := range w.view(c).Trials {
		if tr.Record.Attempt != 3 || len(tr.Record.EndState) != 1 || w.text(tr, "agent/trajectory.json") == "" || tr.Record.Calls != nil {
			t.Errorf("%s: %+v", tr.Name, tr.Record)
		}
		if k := kinds(w.view(c), tr.Name); !strings.HasSuffix(k, "retried#2 started#3 finished#3") {
			t.Errorf("%s: %s", tr.Name, k)
		}
	}
	again, _ := w.run(c) // a resume finds nothing to do
	if again.Ran != 0 {
		t.Errorf("%d trials ran again", again.Ran)
	}
}

// counted is an agent that does nothing but be counted.
func counted(name string, ran *atomic.Int64) Arm {
	return acting(name, func(context.Context, agent.Session) (agent.Report, error) {
		ran.Add(1)
		return agent.Report{}, nil
	})
}

// A task whose tests were mended gives new verdicts to old work, for all of its
// trials or for none.
func TestRegradeChanged(t *testing.T) {
	w := newWorld(t)
	tk := w.task("mended", withPlan(files{"tests/want": "undone\n", "tests/checks.toml": strings.NewReplacer(`"done"`, `"undone"`, `"undone"`, `"redone"`).Replace(unitPlan)}))
	c := w.config("mended", []Arm{shell("a", "echo done >answer"), shell("b", "echo undone >answer")}, tk)
	_, v := w.run(c)
	a, b := trialOf(t, v, "mended", "a"), trialOf(t, v, "mended", "b")
	w.want(a, trial.CauseTestMismatch, "")
	w.want(b, trial.CauseSolved, "")
	w.write(filepath.Join(tk.Dir, "tests/want"), "done\n")
	w.write(filepath.Join(tk.Dir, "tests/checks.toml"), unitPlan)
	if _, err := w.again(c, a.Name); !errors.Is(err, ErrChanged) {
		t.Errorf("%v", err)
	}
	if _, err := w.again(c, "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v", err)
	}
	got, err := w.again(c)
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	v = w.view(c)
	w.want(trialOf(t, v, "mended", "a"), trial.CauseSolved, "")
	w.want(trialOf(t, v, "mended", "b"), trial.CauseTestMismatch, "")
}

// What cannot be graded again says why and stays.
func TestRegradeGone(t *testing.T) {
	w := newWorld(t)
	tk := w.task("gone", withPlan(nil))
	c := w.config("gone", []Arm{gold()}, tk)
	_, v := w.run(c)
	own := *w
	var err error
	if own.images, err = image.Open(image.HostPath(filepath.Join(t.TempDir(), "store")), image.Options{Volatile: true}); err != nil {
		t.Fatal(err)
	}
	got, err := own.again(c)
	if err != nil || len(got) != 1 || !strings.Contains(got[0].Skipped, "not in this store") || !strings.Contains(got[0].Skipped, v.Trials[0].Name) {
		t.Fatalf("%+v, %v", got, err)
	}
	w.want(w.view(c).Trials[0], trial.CauseSolved, "")
}
