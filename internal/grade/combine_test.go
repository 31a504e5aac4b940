package grade

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/trial"
)

func step(name string, cause trial.Cause, r rewards) StepVerdict {
	return StepVerdict{Name: name, Cause: cause, Rewards: r, Detail: "why"}
}

func TestCombine(t *testing.T) {
	s, u, m := trial.CauseSolved, trial.CauseUnsolved, trial.CauseRewardMissing
	for _, c := range []struct {
		name  string
		how   Strategy
		steps []StepVerdict
		want  rewards
	}{
		{"none", Mean, nil, nil},
		{"mean", Mean, []StepVerdict{step("a", s, one("1")), step("b", u, one("0"))}, one("0.5")},
		{"default is mean", "", []StepVerdict{step("a", s, one("1")), step("b", u, one("0"))}, one("0.5")},
		{"a missing key counts 0", Mean, []StepVerdict{step("a", s, rewards{"x": "1"}), step("b", u, rewards{"y": "1"})}, rewards{"x": "0.5", "y": "0.5"}},
		{"a step without a result is left out", Mean, []StepVerdict{step("a", s, one("1")), step("b", m, nil)}, one("1.0")},
		{"an empty result counts", Mean, []StepVerdict{step("a", s, one("1")), step("b", u, rewards{})}, one("0.5")},
		{"only empty results", Mean, []StepVerdict{step("b", u, rewards{})}, nil},
		{"no result at all", Mean, []StepVerdict{step("b", m, nil)}, nil},
		{"thirds", Mean, []StepVerdict{step("a", s, one("1")), step("b", u, one("0")), step("c", u, one("0"))}, one("0.3333333333333333")},
		{"compensated", Mean, []StepVerdict{step("a", s, one("0.1")), step("b", u, one("0.2")), step("c", u, one("0.3"))}, one("0.19999999999999998")},
		{"a sum out of range stays a number", Mean, []StepVerdict{step("a", s, one("1e308")), step("b", s, one("1.7e308"))}, one("1.7976931348623157e+308")},
		{"final verbatim", Final, []StepVerdict{step("a", u, one("0")), step("b", s, one("1.50"))}, one("1.50")},
		{"final without a result", Final, []StepVerdict{step("a", s, one("1")), step("b", m, nil)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Combine(c.how, c.steps)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		rewards rewards
		min     map[string]float64
		why     string
	}{
		{one("1"), nil, ""},
		{one("1"), map[string]float64{"reward": 1}, ""},
		{one("0.5"), map[string]float64{"reward": 1}, "reward = 0.5 is below min_reward 1"},
		{nil, map[string]float64{"reward": 0}, "reward = none is below min_reward 0"},
		{rewards{"a": "1"}, map[string]float64{"reward": -5}, "reward = none is below min_reward -5"},
		{rewards{"a": "1", "b": "0"}, map[string]float64{"b": 0.5, "a": 1}, "b = 0 is below min_reward 0.5"},
		{nil, map[string]float64{"reward": math.Inf(-1)}, ""},
	} {
		why, below := Below(c.rewards, c.min)
		if why != c.why || below != (c.why != "") {
			t.Errorf("Below(%v, %v) = %q, %v, want %q", c.rewards, c.min, why, below, c.why)
		}
	}
}

// Neither crashing a later verifier nor stopping early turns a mean into a pass.
func TestConclude(t *testing.T) {
	s, u, m, v := trial.CauseSolved, trial.CauseUnsolved, trial.CauseRewardMissing, trial.CauseVoid
	a, b := step("a", s, one("1")), step("b", s, one("1"))
	for _, c := range []struct {
		name     string
		how      Strategy
		declared int
		steps    []StepVerdict
		want     trial.Cause
	}{
		{"all solved", Mean, 2, []StepVerdict{a, b}, s},
		{"half solved", Mean, 2, []StepVerdict{a, step("b", u, one("0"))}, u},
		{"quit early", Mean, 2, []StepVerdict{a}, u},
		{"crashed the second verifier", Mean, 2, []StepVerdict{a, step("b", m, nil)}, m},
		{"left the second verifier no room", Mean, 2, []StepVerdict{a, step("b", trial.CauseDiskLimit, nil)}, trial.CauseDiskLimit},
		{"void in the middle", Final, 3, []StepVerdict{a, step("b", v, nil), b}, v},
		{"final counts the last", Final, 2, []StepVerdict{step("a", u, one("0")), b}, s},
		{"final, quit early", Final, 2, []StepVerdict{a}, u},
		{"timed out but graded", Mean, 1, []StepVerdict{step("a", trial.CauseAgentTimeout, one("0"))}, u},
		{"infra", Mean, 2, []StepVerdict{a, step("b", trial.CauseSandboxLost, nil)}, trial.CauseSandboxLost},
		{"nothing ran", Mean, 2, nil, u},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, detail, _ := Conclude(c.how, c.declared, c.steps)
			if got != c.want {
				t.Errorf("cause %s (%s), want %s", got, detail, c.want)
			}
			if got != s && got != u && detail != `step "b": why` {
				t.Errorf("detail %q does not name the step", detail)
			}
		})
	}
}
