package forge

import (
	"errors"
	"testing"
)

// A bug that leaves nothing passing is none, but where the only test there is
// was run and says that it failed.
func TestNothingPasses(t *testing.T) {
	for _, c := range []struct {
		name   string
		stable []string
		status string // of the tests; empty: they are in no report
		why    string
	}{
		{"one of one fails", []string{"a"}, "failed", ""},
		{"one of one does not run", []string{"a"}, "error", whyMute},
		{"one of one is missing", []string{"a"}, "", whyMute},
		{"all of two fail", []string{"a", "b"}, "failed", whyMute},
	} {
		f := &forge{steady: map[string]bool{}}
		a := &attempt{made: made{cand: Candidate{Grade: GradePatch}}, seen: sight{passed: map[string]bool{}, failed: map[string]Failure{}}}
		for _, id := range c.stable {
			f.steady["unit:"+id] = true
			if c.status != "" {
				a.seen.failed["unit:"+id] = Failure{ID: "unit:" + id, Status: c.status}
			}
		}
		var no *rejected
		err := f.bitten(a)
		if errors.As(err, &no); c.why == "" && err != nil || c.why != "" && (no == nil || no.why != c.why) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
