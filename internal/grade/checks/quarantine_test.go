package checks

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"assay/internal/grade/report"
	"assay/trial"
)

const flaky = `version = 1
[[commands]]
name = "unit"
run = "x"
report = "pytest"
files = ["/r.xml"]
fail_to_pass = ["new"]
pass_to_pass = ["old", "sometimes"]
[[commands.canaries]]
file = "t"
old = "a"
new = "b"
breaks = ["sometimes", "old"]
[[milestones]]
name = "all"
checks = ["unit:new", "unit:sometimes"]
`

func TestQuarantine(t *testing.T) {
	fsys := func(text string) fstest.MapFS {
		return fstest.MapFS{"t": {Data: []byte("a\n")}, QuarantineFile: {Data: []byte(text)}}
	}
	plain, err := Decode([]byte(flaky), fstest.MapFS{"t": {Data: []byte("a\n")}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decode([]byte(flaky), fsys(string(QuarantineText([]string{"unit:sometimes"}))))
	if err != nil {
		t.Fatal(err)
	}
	if p.Digest() == plain.Digest() || !slices.Equal(p.Quarantine(), []string{"unit:sometimes"}) || len(p.Expected()) != 2 {
		t.Errorf("%v, %v", p.Quarantine(), p.Expected())
	}
	seen := Observation{
		Attempted: true, Changed: []string{"/x"},
		Commands: []Ran{{Name: "unit", Exit: 1, Report: &report.Report{Tests: tests("new", "old", "sometimes=failed")}}},
		Canary:   []Ran{{Name: "unit", Exit: 1, Report: &report.Report{Tests: tests("new", "old=failed", "sometimes")}}},
		Planted:  map[string][]int{"unit": {0}},
	}
	if v := Judge(plain, seen); v.Cause != trial.CauseRegression {
		t.Errorf("without: %s %s", v.Cause, v.Void)
	}
	v := Judge(p, seen)
	if v.Cause != trial.CauseSolved || !v.Resolved || v.Strict || v.Milestones[0].Total != 1 || !v.Milestones[0].Reached {
		t.Errorf("with: %+v", v)
	}
	// Its canary's other test must still fail.
	seen.Canary[0].Report = &report.Report{Tests: tests("new", "old", "sometimes=failed")}
	if v := Judge(p, seen); v.Cause != trial.CauseVoid {
		t.Errorf("a canary that passed: %+v", v)
	}
	for text, want := range map[string]string{
		"unit:other\n": "none of the plan's checks", "sometimes\n": "write COMMAND:ID", "unit:new\n": "last fail-to-pass check",
	} {
		if _, err := Decode([]byte(flaky), fsys(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
