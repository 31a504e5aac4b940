package forge

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"assay/internal/image"
)

// withholds reports whether the tests that a candidate breaks are to be kept
// from the agent: those of bugs, where it is asked for. Who mends an environment
// has to see what fails there, and the past brings hidden tests of its own.
func (f *forge) withholds(c Candidate) bool {
	return f.cfg.HideTests && c.Grade == GradePatch && len(c.Tests) == 0
}

// withhold hides the files of the tests that a bitten candidate fails: they are
// neither in the agent's tree nor in its repository and come at grading. What
// the tests do is as it was seen, so nothing is run again.
func (f *forge) withhold(ctx context.Context, a *attempt) error {
	if !f.withholds(a.cand) || len(a.cand.Hidden) > 0 {
		return nil
	}
	files := map[string]string{}
	for _, t := range f.cfg.Env.Suite.Tests {
		files[t.Global()] = t.File
	}
	hide := map[string]bool{}
	for name, ids := range a.lists.failToPass {
		for _, id := range ids {
			switch file := files[name+":"+id]; {
			case file == "":
				return reject(whyVisible, "the suite does not say in which file %s is", id)
			case !f.isTest[file]:
				return reject(whyVisible, "%s is in %s, which is no file of tests alone", id, file)
			default:
				hide[file] = true
			}
		}
	}
	a.cand.Hidden = slices.Sorted(maps.Keys(hide))
	broken, err := a.brokenOn(f.healthy)
	if err != nil {
		return reject(whyMalformed, "with its tests hidden: %v", err)
	}
	return f.lay(ctx, a, broken)
}

// brokenOn is all that a candidate takes from the agent's tree or changes in it.
func (a *attempt) brokenOn(healthy *image.View) (Delta, error) {
	d := a.cand.Broken
	for _, h := range a.cand.Hidden {
		d = d.with(Delta{{Path: path.Join(a.env.Workdir, h)}})
	}
	return d.On(healthy)
}

// graded is where a plan finds a test file of the healthy image at grading: in
// the image, or below tests/ where it comes with the task. False: it is not as it
// was.
func (a *attempt) graded(file string) (name string, ok bool) {
	rel, _ := strings.CutPrefix(file, a.env.Workdir+"/")
	if slices.ContainsFunc(a.cand.Tests, func(e Edit) bool { return e.Path == file }) ||
		slices.ContainsFunc(a.cand.Hidden, func(h string) bool { return rel == h || strings.HasPrefix(rel, h+"/") }) {
		return path.Join(placedTests, rel), true
	}
	return file, !a.edits(file)
}
