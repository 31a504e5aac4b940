package grade

import (
	"strings"
	"testing"

	"assay/trial"
)

// Whatever the work does to what is looked at afterwards, it is the work's
// failure and none of the machine's, which would not count.
func TestNoWorkIsInfra(t *testing.T) {
	state := suitePlan + "\n[[state]]\nname = \"ring\"\npath = \"ring/x\"\ntype = \"file\"\n\n[[state]]\nname = \"quiet\"\nbaseline = true\nno_process = \"nobody-at-all\"\n"
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		for name, c := range map[string]struct {
			plan, run string
			want      trial.Cause
			walls     bool
			evidence  trial.Evidence
		}{
			"report in a ring": {suitePlan, `rm -rf "$R/logs/verifier"; ln -s verifier "$R/logs/verifier"; exit 1`, trial.CauseMissingTest, false, trial.Canaried},
			"report too deep":  {suitePlan, `rm -rf "$R/logs/verifier"; ln -s $(printf 'x/%.0s' $(seq 1500)) "$R/logs/verifier"; exit 1`, trial.CauseMissingTest, false, trial.Canaried},
			"path in a ring":   {state, `ln -s ring ring; . "$R/tests/suite.sh"`, trial.CauseTestMismatch, false, trial.SelfReported},
			"no shell":         {state, `mkdir ring; echo >ring/x; . "$R/tests/suite.sh"; s=$?; rm -rf /bin; exit $s`, trial.CauseRegression, true, trial.SelfReported},
		} {
			if c.walls && !w.walls {
				continue
			}
			t.Run(name, func(t *testing.T) {
				w := w.of(t)
				plan := strings.Replace(c.plan, `run = '. "$R/tests/suite.sh"'`, `run = ". ./run.sh"`, 1)
				w.judged(w.planned(w.agent("echo new >main.txt; cat >run.sh <<'END'\n"+c.run+"\nEND\n"), plan), c.want, c.evidence)
			})
		}
	})
}
