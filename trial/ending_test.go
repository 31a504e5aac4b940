package trial

import (
	"regexp"
	"slices"
	"testing"
)

// The table is the one place where an ending gets its meaning; these are the
// promises that tables, retries and rates rest on.
func TestEndingsInvariants(t *testing.T) {
	allowed := map[Outcome][]Fault{
		Pass:         {FaultNone},
		Fail:         {FaultAgent, FaultBudget},
		Inconclusive: {FaultAgent, FaultTask, FaultNone},
		Invalid:      {FaultTask},
		Infra:        {FaultInfra, FaultCancelled},
	}
	word := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[Cause]bool{}
	for _, e := range Endings() {
		if !word.MatchString(string(e.Cause)) {
			t.Errorf("cause %q is not a lower-case word", e.Cause)
		}
		if seen[e.Cause] {
			t.Errorf("cause %q stands twice", e.Cause)
		}
		seen[e.Cause] = true
		if !slices.Contains(allowed[e.Outcome], e.Fault) {
			t.Errorf("%s: outcome %q cannot be the fault of %q", e.Cause, e.Outcome, e.Fault)
		}
		if e.Retried && e.Fault != FaultInfra {
			t.Errorf("%s is retried but is the fault of %q: only infra is ever retried", e.Cause, e.Fault)
		}
		if e.Counted && (e.Outcome == Infra || e.Outcome == Invalid) {
			t.Errorf("%s is counted: infra and invalid trials say nothing about the agent", e.Cause)
		}
		if !e.Counted && (e.Outcome == Pass || e.Outcome == Fail) {
			t.Errorf("%s is a verdict and must be counted", e.Cause)
		}
		// Crashing the runner must never pay: whatever an agent can bring
		// about in the verifier stays in the denominator.
		if e.Outcome == Inconclusive && e.Fault != FaultNone && !e.Counted {
			t.Errorf("%s is inconclusive and not counted", e.Cause)
		}
		if len(e.Means) < 10 {
			t.Errorf("%s has no line for people", e.Cause)
		}
	}
}

func TestEndingOfUnregisteredCause(t *testing.T) {
	if _, err := Cause("bad_luck").Ending(); err == nil {
		t.Error("an unregistered cause has an ending")
	}
	if e, err := CauseVoid.Ending(); err != nil || e.Outcome != Inconclusive || !e.Counted {
		t.Errorf("void = %+v, %v", e, err)
	}
}

// Every name in the Harbor column leads back, through Derive's table, to a
// cause with the same outcome, or is one of Python's own exceptions, which say
// nothing about who is at fault.
func TestHarborNamesLeadBack(t *testing.T) {
	python := []string{"RuntimeError", "ValueError", "OSError"}
	causes := harborCauses()
	for _, e := range Endings() {
		if e.Harbor == "" || slices.Contains(python, e.Harbor) {
			continue
		}
		back, err := causes[e.Harbor].Ending()
		if err != nil {
			t.Errorf("%s: Harbor's %s is not in Derive's table: %v", e.Cause, e.Harbor, err)
		} else if back.Outcome != e.Outcome {
			t.Errorf("%s is %s, but Harbor's %s derives to %s", e.Cause, e.Outcome, e.Harbor, back.Outcome)
		}
	}
}

func TestOutcomesAndPhasesAreComplete(t *testing.T) {
	for _, e := range Endings() {
		if !slices.Contains(Outcomes(), e.Outcome) {
			t.Errorf("outcome %q of %s is not listed", e.Outcome, e.Cause)
		}
	}
	if n := len(Phases()); n != 8 {
		t.Errorf("%d phases, want 8", n)
	}
}
