package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"assay/internal/grade/report"
	"assay/trial"
)

// statuses are drawn with many passes among them, so that resolved work occurs.
func drawStatus(t *rapid.T) report.Status {
	return rapid.SampledFrom([]report.Status{report.Passed, report.Passed, report.Passed, report.Passed, report.Passed, report.Passed,
		report.Failed, report.Errored, report.Skipped, report.XFailed, report.XPassed, report.Unknown}).Draw(t, "status")
}

func drawReport(t *rapid.T, ids []string) *report.Report {
	r := &report.Report{}
	for _, id := range ids {
		if rapid.IntRange(0, 15).Draw(t, "missing") == 0 {
			continue
		}
		kind := rapid.SampledFrom([]report.Kind{"", report.KindAssertion, report.KindException, report.KindBuild, report.KindTimeout}).Draw(t, "kind")
		r.Tests = append(r.Tests, report.Test{ID: id, Status: drawStatus(t), Kind: kind})
	}
	if rapid.IntRange(0, 9).Draw(t, "flagged") == 0 {
		r.Flags = append(r.Flags, report.Flag{Kind: rapid.SampledFrom([]report.FlagKind{report.FlagDuplicate, report.FlagCounts, report.FlagExit, report.FlagCut, report.FlagStray, report.FlagBuild}).Draw(t, "flag")})
	}
	return r
}

func drawRan(t *rapid.T, c Command, ids []string) Ran {
	r := Ran{Name: c.Name}
	switch rapid.IntRange(0, 24).Draw(t, "ended") {
	case 0:
		r.NotStarted = "no"
		return r
	case 1:
		r.TimedOut = true
	case 2:
		r.OutOfMemory, r.Signal = true, syscall.SIGKILL
	case 3:
		r.Signal = syscall.SIGSEGV
	case 4, 5, 6, 7:
		r.Exit = 1
	case 8:
		r.ReportErr = "x"
		return r
	case 9:
		return r
	}
	if c.Report != "" {
		r.Report = drawReport(t, ids)
	}
	return r
}

// draw makes a plan and what was seen of it.
func draw(t *rapid.T) (*Plan, Observation) {
	p := &Plan{Version: 1}
	o := Observation{Attempted: rapid.Bool().Draw(t, "attempted"), Untouched: rapid.Bool().Draw(t, "untouched"), Planted: map[string][]int{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "commands") {
		c := Command{Name: fmt.Sprintf("c%d", i), Run: "x", Separate: rapid.Bool().Draw(t, "separate")}
		ids := []string{"a", "b", "c", "d"}
		if rapid.IntRange(0, 3).Draw(t, "report") > 0 {
			c.Report, c.FailToPass, c.PassToPass = "pytest", []string{"a", "b"}, []string{"c"}
			for _, id := range []string{"a", "c"} {
				c.Canaries = append(c.Canaries, Canary{File: "f", Old: id, New: "x", Breaks: []string{id}})
			}
		}
		p.Commands = append(p.Commands, c)
		o.Commands = append(o.Commands, drawRan(t, c, ids))
		if c.Report != "" && rapid.Bool().Draw(t, "canary") {
			o.Planted[c.Name] = rapid.SliceOfN(rapid.IntRange(0, 1), 1, 2).Draw(t, "planted")
			r := drawRan(t, c, ids)
			for _, k := range o.Planted[c.Name] { // mostly they do fail
				if r.Report != nil && rapid.IntRange(0, 3).Draw(t, "bites") > 0 {
					set(&r, c.Canaries[k].Breaks[0]+"=failed")
					r.Exit = 1
				}
			}
			o.Canary = append(o.Canary, r)
		}
	}
	p.Cases = []Cases{{Name: "io", ids: []string{"a", "b"}, PassToPass: []string{"b"}}}
	o.Cases = []CasesRan{{Name: "io", Tests: drawReport(t, []string{"a", "b"}).Tests}}
	p.State = []State{{Name: "s", Path: "x"}}
	o.State = []StateSeen{{Name: "s", Held: rapid.IntRange(0, 5).Draw(t, "held") > 0}}
	p.Milestones = []Milestone{{Name: "1", Checks: []string{"io:a"}}, {Name: "2", Checks: []string{"state:s"}}}
	return p, o
}

func verdictJSON(t *rapid.T, v Verdict) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Invariants of every verdict.
func checkVerdict(t *rapid.T, p *Plan, o Observation, v Verdict) {
	if v.Resolved != (v.Outcome == trial.Pass) || v.Resolved != (v.Cause == trial.CauseSolved) || v.Strict && !v.Resolved {
		t.Fatalf("resolved %t, strict %t, %s by %s", v.Resolved, v.Strict, v.Outcome, v.Cause)
	}
	if v.Void != "" && (v.Resolved || v.Partial != 0) || v.Resolved && v.Partial != 1 || v.Partial == 1 && !v.Resolved {
		t.Fatalf("void %q, resolved %t, partial %v", v.Void, v.Resolved, v.Partial)
	}
	n := len(v.FailToPass.Passed) + len(v.FailToPass.Failed) + len(v.PassToPass.Passed) + len(v.PassToPass.Failed)
	if n != len(p.Expected()) {
		t.Fatalf("%d checks in the lists, %d are expected", n, len(p.Expected()))
	}
	if v.Resolved && len(v.FailToPass.Failed)+len(v.PassToPass.Failed) > 0 || v.Cause == trial.CauseUnsolved {
		t.Fatalf("%+v", v)
	}
	reached := true
	for _, m := range v.Milestones {
		if m.Reached && !reached {
			t.Fatalf("a milestone reached after one that is not: %+v", v.Milestones)
		}
		reached = m.Reached
	}
}

// The same observation, in any order, gives the same bytes.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o := draw(t)
		v := Judge(p, o)
		checkVerdict(t, p, o, v)
		first := verdictJSON(t, v)
		again := o
		again.Commands, again.Canary = rapid.Permutation(o.Commands).Draw(t, "commands"), rapid.Permutation(o.Canary).Draw(t, "canary")
		for i, r := range again.Commands {
			if r.Report != nil {
				other := *r.Report
				other.Tests = rapid.Permutation(r.Report.Tests).Draw(t, "tests")
				again.Commands[i].Report = &other
			}
		}
		if b := verdictJSON(t, Judge(p, again)); !bytes.Equal(b, first) {
			t.Fatalf("%s\n%s", first, b)
		}
	})
}

// Nothing that is taken out of a report ever makes work pass, and what is put
// into it does so only for ids that it did not have.
func TestReportsOnlyLose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o := draw(t)
		before := Judge(p, o)
		if before.Resolved {
			return
		}
		runs := [][]Ran{o.Commands, o.Canary}
		for _, run := range runs {
			for i := range run {
				if run[i].Report == nil || len(run[i].Report.Tests) == 0 {
					continue
				}
				whole := *run[i].Report
				k := rapid.IntRange(0, len(whole.Tests)-1).Draw(t, "which")
				if whole.Tests[k].Status == report.Passed {
					less := whole
					less.Tests = slices.Delete(slices.Clone(whole.Tests), k, k+1)
					run[i].Report = &less
					if Judge(p, o).Resolved {
						t.Fatalf("without %s of %s it is resolved", whole.Tests[k].ID, run[i].Name)
					}
				}
				more := whole
				more.Tests = append(slices.Clone(whole.Tests), report.Test{ID: whole.Tests[k].ID, Status: drawStatus(t)})
				run[i].Report = &more
				if &run[0] == &o.Commands[0] && Judge(p, o).Resolved {
					t.Fatalf("with a second result for %s of %s it is resolved", whole.Tests[k].ID, run[i].Name)
				}
				run[i].Report = &whole
			}
		}
	})
}

// Planting more canaries, or a stricter look, never turns fail into pass.
func TestDoubtOnlyLoses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o := draw(t)
		before := Judge(p, o)
		o.Tampered = rapid.SliceOfN(rapid.Just("/tests/x"), 0, 1).Draw(t, "tampered")
		for _, c := range p.Commands {
			if len(c.Canaries) > 0 {
				o.Planted[c.Name] = []int{0, 1}
			}
		}
		if after := Judge(p, o); after.Resolved && !before.Resolved {
			// It may: a canary that was thought planted, and passed, is planted still.
			t.Fatalf("resolved by doubt: %+v, before %+v", after, before)
		}
	})
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnop"))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		p, o := draw(t)
		checkVerdict(t, p, o, Judge(p, o))
	}))
}
