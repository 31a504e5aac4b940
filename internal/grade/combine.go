package grade

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"assay/trial"
)

// Strategy says how the rewards of a multi-step task become one.
type Strategy string

const (
	// Mean: per key, the mean over the steps that have a verifier result; a
	// missing key counts 0. Harbor's default.
	Mean Strategy = "mean"
	// Final: the last executed step's rewards, verbatim.
	Final Strategy = "final"
)

// StepVerdict is what one executed step came to.
type StepVerdict struct {
	Name    string
	Cause   trial.Cause
	Detail  string
	Rewards map[string]json.Number // nil: the step has no verifier result
	Checked bool                   // by a check plan
}

// Combine makes the rewards of a trial from those of its executed steps, as
// Harbor 0.25 does (trial/trial.py). Nil means that the trial has no verifier
// result. The empty strategy is Mean.
func Combine(s Strategy, steps []StepVerdict) map[string]json.Number {
	if len(steps) == 0 {
		return nil
	}
	if s == Final {
		return steps[len(steps)-1].Rewards
	}
	keys := map[string]bool{}
	var valid []map[string]json.Number
	for _, st := range steps {
		if st.Rewards == nil {
			continue
		}
		valid = append(valid, st.Rewards)
		for k := range st.Rewards {
			keys[k] = true
		}
	}
	if len(keys) == 0 {
		return nil
	}
	out := make(map[string]json.Number, len(keys))
	for k := range keys {
		values := make([]json.Number, len(valid))
		for i, r := range valid {
			values[i] = r[k]
		}
		out[k] = mean(values)
	}
	return out
}

// mean is Python 3.12's sum(values) / len(values): integers exactly, floats
// with compensation, an integer after a float without. "" is a missing value,
// the integer 0.
func mean(values []json.Number) json.Number {
	whole := new(big.Int)
	for i, v := range values {
		if v == "" {
			continue
		}
		n, ok := integer(v)
		if !ok {
			return spellFinite(floatSum(whole, values[i:]) / float64(len(values)))
		}
		whole.Add(whole, n)
	}
	f, _ := new(big.Rat).SetFrac(whole, big.NewInt(int64(len(values)))).Float64()
	return spellFinite(f)
}

// floatSum goes on from a sum of integers with values of which the first is a
// float.
func floatSum(whole *big.Int, values []json.Number) float64 {
	sum, _ := new(big.Float).SetInt(whole).Float64()
	sum += toFloat(values[0])
	lost := 0.0
	compensate := whole.IsInt64() // beyond that Python adds one by one
	for _, v := range values[1:] {
		x := toFloat(v)
		n, isInt := integer(v)
		switch {
		case v == "" || isInt && n.IsInt64() || !compensate:
			sum += x
			continue
		case isInt:
			sum += lost // Python gives the compensation up here
			sum, lost, compensate = sum+x, 0, false
			continue
		}
		t := sum + x
		if math.Abs(sum) >= math.Abs(x) {
			lost += (sum - t) + x
		} else {
			lost += (x - t) + sum
		}
		sum = t
	}
	if !math.IsNaN(lost) && !math.IsInf(lost, 0) {
		sum += lost
	}
	return sum
}

// toFloat reads a number that was parsed before; out of range is ±Inf.
func toFloat(n json.Number) float64 {
	f, _ := strconv.ParseFloat(string(n), 64)
	return f
}

// spellFinite keeps a mean of huge rewards a number that JSON can hold.
func spellFinite(f float64) json.Number {
	if math.IsNaN(f) {
		f = 0
	}
	return spell(max(-math.MaxFloat64, min(f, math.MaxFloat64)))
}

// Below says whether a step's rewards are below a minimum, which ends the run,
// and names the first key that is. A missing key, or no verifier result, is
// minus infinity.
func Below(rewards map[string]json.Number, minimum map[string]float64) (why string, below bool) {
	for _, k := range sortedKeys(minimum) {
		got := math.Inf(-1)
		if n, ok := rewards[k]; ok {
			got = toFloat(n)
		}
		if got < minimum[k] {
			return fmt.Sprintf("%s = %s is below min_reward %s", k, number(got), number(minimum[k])), true
		}
	}
	return "", false
}

func number(f float64) string {
	if math.IsInf(f, 0) {
		return "none"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// Conclude says what a multi-step trial came to. Its rewards are Harbor's, its
// cause is stricter than a look at them: a step that was not graded for sure
// decides the trial, and a run that ended before its last declared step is not
// solved, so that neither crashing a verifier nor quitting early ever pays.
func Conclude(s Strategy, declared int, steps []StepVerdict) (cause trial.Cause, detail string, rewards map[string]json.Number) {
	rewards = Combine(s, steps)
	for _, st := range steps {
		if !graded(st.Cause) || st.Rewards == nil { // the mean of the others is not the whole's
			return st.Cause, fmt.Sprintf("step %q: %s", st.Name, st.Detail), rewards
		}
	}
	if len(steps) < declared {
		return trial.CauseUnsolved, fmt.Sprintf("ended after step %d of %d", len(steps), declared), rewards
	}
	if trial.Solved(rewards) {
		return trial.CauseSolved, "", rewards
	}
	for _, st := range steps { // a check plan knows more than that
		if e, err := st.Cause.Ending(); err == nil && e.Outcome == trial.Fail && st.Checked {
			return st.Cause, fmt.Sprintf("step %q: %s", st.Name, st.Detail), rewards
		}
	}
	return trial.CauseUnsolved, "", rewards
}

// graded reports whether a cause is a verdict on the work.
func graded(c trial.Cause) bool {
	e, err := c.Ending()
	return err == nil && (e.Outcome == trial.Pass || e.Outcome == trial.Fail)
}
