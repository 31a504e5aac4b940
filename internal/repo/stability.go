package repo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"assay/internal/grade/report"
)

// settle makes the suite's tests of a command's runs.
func (r *suiteRun) settle(c Command, runs []result) {
	type seen struct {
		test  report.Test
		times []time.Duration
		all   map[report.Status]int
		runs  int
	}
	var order []string
	tests := map[string]*seen{}
	usable := 0
	for _, run := range runs {
		if run.fatal() {
			continue // its tests are absent in it: none of them is stable
		}
		usable++
		for _, t := range run.report.Tests {
			s := tests[t.ID]
			if s == nil {
				s = &seen{test: t, all: map[report.Status]int{}}
				tests[t.ID] = s
				order = append(order, t.ID)
			}
			s.runs++
			s.all[t.Status]++
			if t.Status == report.Passed {
				s.times = append(s.times, t.Took)
			}
		}
	}
	var flaky, failing, moving []string
	for _, id := range order {
		s := tests[id]
		if s.runs == 1 && usable > 1 {
			moving = append(moving, id)
			continue
		}
		t := Test{ID: id, Command: c.Name, Millis: millis(median(s.times))}
		switch skipped := s.all[report.Skipped] + s.all[report.XFailed]; {
		case s.all[report.Passed] == len(runs):
			t.Stability = Stable
		case s.all[report.Passed] > 0:
			t.Stability = Flaky
			flaky = append(flaky, id)
		case skipped == s.runs:
			t.Stability = Skipped
		default:
			t.Stability = Failing
			failing = append(failing, id)
		}
		r.suite.Tests = append(r.suite.Tests, t)
	}
	if len(flaky) > 0 {
		r.find(Finding{Kind: FlakyTest, Command: c.Name, Tests: flaky, Detail: fmt.Sprintf("%d tests pass in some runs and not in others; they decide nothing", len(flaky))})
	}
	if len(failing) > 0 {
		r.find(Finding{Kind: FailingTest, Command: c.Name, Tests: failing, Detail: fmt.Sprintf("%d tests fail in every run; they decide nothing", len(failing))})
	}
	if len(moving) > 0 {
		r.find(Finding{Kind: UnstableIDs, Command: c.Name, Tests: moving, Detail: fmt.Sprintf("%d ids were there in one run alone: a time, a number by chance or an address is in their names; such tests decide nothing", len(moving))})
	}
	if n := len(runs) - usable; n > 0 {
		for _, run := range runs {
			if run.fatal() {
				r.judgeRun(c, run)
				break
			}
		}
	}
}

// baseline measures what a change costs: every source as if changed, and the
// build, in a fork whose caches are those of the image.
func (r *suiteRun) baseline(ctx context.Context, c *Command, first result) error {
	c.BaselineMillis = millis(first.wall)
	if r.left() < 2*first.wall {
		return nil
	}
	b, err := r.run(ctx, *c, trial{seed: r.c.Seed, touch: true, limit: max(r.c.Limit, 5*time.Minute)})
	if err != nil {
		return err
	}
	if b.timedOut || b.fatal() {
		r.find(Finding{Kind: Partial, Command: c.Name, Detail: "the run that begins with a whole build came to nothing (" + b.summary() + "); limits rest on a run without it",
			Remedy: "see that the build works offline in the image"})
		return nil
	}
	c.BaselineMillis = max(c.BaselineMillis, millis(b.wall))
	return nil
}

// part makes a smaller suite of one that was cut off at its limit: the files
// whose tests had ended by half of it. Not ok if nothing ended, or a test hung.
func (r *suiteRun) part(ctx context.Context, c *Command, cut result) (result, bool, error) {
	r.output = cut.tail
	var sum time.Duration
	for _, t := range cut.ended {
		sum += t.Took
	}
	if len(cut.ended) == 0 || cut.running != "" && 2*sum < cut.wall {
		f := Finding{Kind: Hang, Command: c.Name, Detail: fmt.Sprintf("the command was ended after %v", cut.wall.Round(time.Second)), Remedy: "give a larger limit, or a command that leaves out what hangs"}
		if cut.running != "" {
			f.Tests = []string{cut.running}
			f.Detail += ", in the midst of " + cut.running
		}
		r.find(f)
		return result{}, false, nil
	}
	var whole []Test
	var used time.Duration
	for _, t := range cut.ended {
		if used += t.Took; used > cut.wall/2 {
			break
		}
		whole = append(whole, Test{ID: t.ID, Command: c.Name, File: fileOf(*c, t.ID)})
	}
	line, ok := Select(*c, byFile(*c, whole))
	if !ok {
		r.find(Finding{Kind: Hang, Command: c.Name, Detail: fmt.Sprintf("the suite takes longer than %v", r.c.Limit), Remedy: "give a larger limit or a command that runs a part"})
		return result{}, false, nil
	}
	r.find(Finding{Kind: Partial, Command: c.Name, Count: len(whole), Detail: fmt.Sprintf("the suite takes longer than %v; its first %d tests are the suite from now on", r.c.Limit, len(whole)),
		Remedy: "give a larger limit to have all of it"})
	c.Run, c.Args = line, nil
	next, err := r.run(ctx, *c, trial{seed: r.c.Seed})
	if err == nil && next.timedOut {
		r.find(Finding{Kind: Hang, Command: c.Name, Detail: "this part, too, takes longer than the limit", Remedy: "give a larger limit or a command that runs less"})
		return result{}, false, nil
	}
	return next, err == nil, err
}

// byFile puts whole files in the place of tests, for runners whose command line
// has files: a list of thousands of tests is none of a suite.
func byFile(c Command, tests []Test) []Test {
	if c.Report != "pytest-log" && c.Report != "pytest" {
		return tests
	}
	var out []Test
	for _, t := range tests {
		f := Test{ID: t.File, Command: t.Command, File: t.File}
		if t.File != "" && !slices.ContainsFunc(out, func(o Test) bool { return o.ID == f.ID }) {
			out = append(out, f)
		}
	}
	return out
}
