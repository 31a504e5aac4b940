package forge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/proof"
	"assay/internal/repo"
	"assay/task"
)

// Why a candidate is not admitted; the funnel counts by these words.
const (
	whyMalformed = "malformed"    // its delta cannot be made of this image
	whyDuplicate = "duplicate"    // another candidate comes to the same
	whyInexact   = "inexact"      // its inverse does not lead back
	whyProtected = "protected"    // it changes what belongs to the tests
	whyUnbuilt   = "unbuilt"      // no image, or no grading, of it
	whyMasked    = "no-bite"      // no stable test fails
	whyMute      = "does-not-run" // nothing passes any more, where that is not wanted
	whyHangs     = "hangs"        // a command was ended at its limit
	whyVisible   = "visible"      // its tests cannot be hidden, where that is asked for
	whyGold      = "gold-fails"   // gold does not make it pass
	whyUnproved  = "not-proved"   // the proof has another reason
	whyLeak      = "leak"         // the solution can be read
	whyLoose     = "loose"        // an edit that means nothing solves it
	whyForgeable = "forgeable"    // no canary would tell a forged report from a real one
	whyUnstable  = "unstable"     // gold passes only sometimes
)

// rejected is why a candidate goes no further.
type rejected struct {
	why, detail string
}

func (r *rejected) Error() string { return r.why + ": " + r.detail }

func reject(why, format string, a ...any) error { return &rejected{why, fmt.Sprintf(format, a...)} }

// key is equal for candidates that come to the same task, whatever they are
// called: image, deltas, tests, what crosses.
func (f *forge) key(c Candidate, broken Delta) (string, error) {
	b, err := json.Marshal(struct {
		Tag    string
		Grade  Grade
		Broken Delta
		Gold   Delta
		Tests  Delta
		Hidden []string
		Hide   bool `json:",omitempty"`
	}{f.cfg.Env.Tag, c.Grade, broken, c.Gold, c.Tests, c.Hidden, f.withholds(c)})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}

// attempt is a candidate on its way through the gate.
type attempt struct {
	made
	key   string
	t     *task.Task // the directory that is looked at, later the one that is proved
	seen  sight      // in the broken state
	gold  *sight     // with gold, where that is not the healthy state
	lists lists
}

// work makes a candidate's trees: the broken state with its commit, and the way
// back, which is checked to be exact.
func (f *forge) work(ctx context.Context, c Candidate) (*attempt, error) {
	a := &attempt{made: made{cand: c, env: f.cfg.Env, healthy: f.healthy}}
	key, err := f.key(c, c.Broken)
	if err != nil {
		return nil, err
	}
	a.key = key
	if err := a.check(); err != nil {
		if _, ok := f.ledger.find(key); ok {
			return a, errKnown
		}
		return a, err
	}
	broken, err := a.brokenOn(f.healthy)
	if err != nil {
		if _, ok := f.ledger.find(key); ok {
			return a, errKnown
		}
		return a, reject(whyMalformed, "%v", err)
	}
	if a.key, err = f.key(c, broken); err != nil {
		return nil, err
	}
	if err := f.new(a); err != nil {
		return a, err
	}
	if len(broken) == 0 {
		return a, reject(whyMalformed, "its delta changes nothing")
	}
	if hit := f.touchesTests(c, broken); hit != "" {
		return a, reject(whyProtected, "%s belongs to the tests", hit)
	}
	return a, f.lay(ctx, a, broken)
}

// lay makes an attempt's trees: broken is all that is taken away and changed,
// before its commit and its times.
func (f *forge) lay(ctx context.Context, a *attempt, broken Delta) (err error) {
	c := a.cand
	back := c.Gold
	if len(back) == 0 {
		if back, err = Invert(c.Broken, f.healthy); err != nil {
			return reject(whyMalformed, "%v", err)
		}
	}
	var later time.Time
	if f.times == TimesLater && c.Grade == GradePatch {
		later = f.later
	}
	if broken, err = broken.stamp(f.healthy, later); err != nil {
		return err
	}
	if f.git != nil {
		born, err := f.git.born(broken)
		if err != nil {
			return err
		}
		if born, err = born.stamp(f.healthy, time.Time{}); err != nil {
			return err
		}
		if broken, err = broken.with(born).On(f.healthy); err != nil {
			return reject(whyMalformed, "with its commit: %v", err)
		}
		if broken, err = broken.stamp(f.healthy, time.Time{}); err != nil {
			return err
		}
	}
	a.broken = broken
	return f.trees(ctx, a, back)
}

// check refuses candidates that nothing could be made of.
func (a *attempt) check() error {
	c, workdir := a.cand, a.env.Workdir
	if !slug(c.Name) {
		return reject(whyMalformed, "the name %.80q: small letters, digits, '-', '.', '_', at most 100", c.Name)
	}
	if c.Grade != GradePatch && c.Grade != GradeState {
		return reject(whyMalformed, "grade %q: patch or state", c.Grade)
	}
	for _, d := range []Delta{c.Broken, c.Gold, c.Tests} {
		if err := d.Check(); err != nil {
			return reject(whyMalformed, "%v", err)
		}
	}
	for _, d := range []Delta{c.Broken, c.Gold} {
		for _, e := range d {
			if c.Grade == GradePatch && !strings.HasPrefix(e.Path, workdir+"/") {
				return reject(whyMalformed, "%s is outside of %s, where no patch reaches", e.Path, workdir)
			}
		}
	}
	for _, e := range c.Tests {
		if rel, ok := strings.CutPrefix(e.Path, workdir+"/"); !ok || strings.HasPrefix(rel, ".git/") || e.Type != image.TypeFile {
			return reject(whyMalformed, "the test file %s is not below %s, or no file", e.Path, workdir)
		}
	}
	for _, h := range c.Hidden {
		if h == "" || path.IsAbs(h) || path.Clean(h) != h || strings.HasPrefix(h, "../") || h == ".." {
			return reject(whyMalformed, "the hidden path %.200q is not relative and clean", h)
		}
	}
	return nil
}

func slug(s string) bool {
	return s != "" && len(s) <= 100 && s[0] != '-' && s[0] != '.' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-._") == ""
}

// touchesTests names a path of a patch that belongs to the tests: what is put
// back before grading cannot be what is mended.
func (f *forge) touchesTests(c Candidate, broken Delta) string {
	if c.Grade != GradePatch || len(c.Tests) > 0 || len(c.Hidden) > 0 {
		return ""
	}
	for _, e := range broken {
		if f.isTest[strings.TrimPrefix(e.Path, f.cfg.Env.Workdir+"/")] {
			return e.Path
		}
	}
	return ""
}

// trees commits the broken tree and tries the way back.
func (f *forge) trees(ctx context.Context, a *attempt, back Delta) error {
	s, stack := f.cfg.Deps.Images, f.cfg.Env.Layers
	layer, err := Layer(ctx, s, stack, f.healthy, a.broken)
	if err != nil {
		return reject(whyMalformed, "%v", err)
	}
	a.layer = layer
	if a.state, err = s.View(append(slices.Clone(stack), layer)); err != nil {
		return err
	}
	if a.back, err = back.onto(a.state, f.healthy); err != nil {
		return reject(whyMalformed, "the way back: %v", err)
	}
	if a.back, err = a.back.stamp(a.state, time.Time{}); err != nil {
		return err
	}
	if len(a.cand.Gold) > 0 {
		return nil // it leads elsewhere than back
	}
	id, err := Layer(ctx, s, append(slices.Clone(stack), layer), f.healthy, a.back)
	if err != nil {
		return reject(whyInexact, "%v", err)
	}
	healed := append(slices.Clone(stack), layer)
	if id != "" {
		healed = append(healed, id)
	}
	v, err := s.View(healed)
	if err != nil {
		return err
	}
	bad, err := Differ(f.healthy, v, a.cand.Broken.roots(), true, 3)
	if err == nil && len(bad) > 0 {
		return reject(whyInexact, "after the inverse these differ from the healthy image: %s", strings.Join(bad, ", "))
	}
	return err
}

// bare writes an attempt's directory for the first look.
func (f *forge) bare(a *attempt) error {
	a.plan, a.tests = f.openPlan(protect(f.healthy, f.cfg.Env.Workdir, f.testsFor(a.cand), a.cand.Broken))
	if err := a.placeTests(); err != nil {
		return err
	}
	a.words = "(not written yet)\n"
	return f.put(a, "look")
}

// put writes the directory anew and loads it.
func (f *forge) put(a *attempt, stage string) error {
	dir := filepath.Join(f.tmp, stage, f.dirName(a))
	if err := a.write(dir); err != nil {
		return err
	}
	t, err := task.Load(dir)
	if err != nil {
		return err
	}
	if f.cfg.Label != nil && stage == "prove" {
		// Labels are of what a directory holds, so it comes first.
		labels, err := f.cfg.Label(t)
		if err != nil {
			return err
		}
		t.Config.Metadata.Assay.Rest["labels"] = labels
		if err := task.WriteConfig(dir, t.Config); err != nil {
			return err
		}
	}
	a.t = t
	return nil
}

// placedTests is the directory below tests/ of what is laid over the working
// directory at grading.
const placedTests = "repo"

// placeTests adds the candidate's own test files to the plan, and the healthy
// image's where it hides them.
func (a *attempt) placeTests() error {
	put := func(rel string, b []byte) {
		a.tests[path.Join(placedTests, rel)] = b
		if a.plan.Place == nil {
			a.plan.Place = map[string]string{placedTests: a.env.Workdir}
		}
	}
	for _, h := range a.cand.Hidden {
		err := a.healthy.Walk(path.Join(a.env.Workdir, h), func(e image.Entry) error {
			if e.Type != image.TypeFile {
				return nil
			}
			b, err := a.healthy.ReadFile(e.Path, maxObject)
			put(strings.TrimPrefix("/"+e.Path, a.env.Workdir+"/"), b)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, e := range a.cand.Tests {
		b, err := e.Content(a.healthy)
		if err != nil {
			return err
		}
		put(strings.TrimPrefix(e.Path, a.env.Workdir+"/"), b)
	}
	// What is placed is protected by that.
	a.plan.Protected = slices.DeleteFunc(a.plan.Protected, func(p string) bool {
		for rel := range a.tests {
			if r, ok := strings.CutPrefix(rel, placedTests+"/"); ok && (r == p || strings.HasPrefix(r, p+"/")) {
				return r == p
			}
		}
		return false
	})
	return nil
}

// bitten judges what a first look showed, and sorts the tests into the closed
// lists.
func (f *forge) bitten(a *attempt) error {
	s := a.seen
	switch {
	case s.refused != "":
		return reject(whyUnbuilt, "%s", cut(s.refused, 500))
	case a.gold != nil && a.gold.refused != "":
		return reject(whyUnbuilt, "with gold: %s", cut(a.gold.refused, 500))
	case s.hung && a.cand.Grade == GradePatch:
		return reject(whyHangs, "a command of the suite was ended at its limit")
	}
	good := f.steady // passed in the healthy state, under the grader
	if a.gold != nil {
		good = maps.Clone(a.gold.passed)
		for id := range good {
			if f.shaky[id] {
				delete(good, id)
			}
		}
	}
	a.lists = lists{failToPass: map[string][]string{}, passToPass: map[string][]string{}}
	for g := range good {
		name, id, _ := strings.Cut(g, ":")
		if s.passed[g] {
			a.lists.passToPass[name] = append(a.lists.passToPass[name], id)
		} else {
			a.lists.failToPass[name] = append(a.lists.failToPass[name], id)
		}
	}
	bad, fine := a.lists.count()
	switch {
	case len(good) == 0:
		return reject(whyGold, "no stable test passes with gold")
	case bad == 0:
		return reject(whyMasked, "every one of %d stable tests passes", fine)
	case fine == 0 && a.cand.Grade == GradePatch && !a.loneFailure():
		return reject(whyMute, "none of %d stable tests passes", bad)
	}
	return nil
}

// loneFailure reports whether the one test of a suite was run and says that it
// failed: then the rest of the project does run.
func (a *attempt) loneFailure() bool {
	for name, ids := range a.lists.failToPass {
		for _, id := range ids {
			if a.seen.failed[checks.Global(name, id)].Status != "failed" {
				return false
			}
		}
	}
	bad, fine := a.lists.count()
	return bad == 1 && fine == 0
}

// final makes the task that is to be proved: cut to its budget, with its words.
func (f *forge) final(a *attempt) error {
	seen := a.whatWasSeen(f.cfg.Env)
	failing, passing := a.lists.count()
	chosen := f.chosen(a)
	plan, files := planOf(&f.cfg.Env.Suite, a.lists, chosen, protect(f.healthy, f.cfg.Env.Workdir, f.testsFor(a.cand), a.cand.Broken))
	for i := range plan.Commands {
		limit := f.limit(plan.Commands[i].Name)
		if !a.seen.hung { // else who leaves it broken waits for it, in every trial
			limit *= 2
		}
		plan.Commands[i].TimeoutSec = limit
	}
	a.plan, a.tests = plan, files
	if err := f.recordFault(a); err != nil {
		return err
	}
	if err := a.placeTests(); err != nil {
		return err
	}
	f.addCanaries(a)
	bad, fine := a.lists.count()
	a.facts = map[string]any{"key": a.key, "fail_to_pass": bad, "pass_to_pass": fine, "failing": failing, "passing": passing, "changed": changed(a.cand.Broken)}
	if a.cand.Statement.Body == "" && a.cand.Statement.Title == "" {
		if d, ok := f.describers[a.cand.Generator]; ok {
			a.cand.Statement = d.Describe(f.world(a.cand.Generator), a.cand, seen)
		}
		if a.cand.Statement.Body == "" {
			a.cand.Statement = describe(f.cfg.Env, a.cand, seen)
		}
	}
	a.words = instruction(a.cand, f.cfg.Env, f.cfg.Hints)
	if len(a.cand.Hidden) > 0 {
		a.facts["hidden"] = a.cand.Hidden
	}
	a.facts["hints"] = min(f.cfg.Hints, len(a.cand.Statement.Hints))
	a.facts["statement_words"] = len(strings.Fields(a.words))
	if err := f.told(a); err != nil {
		return err
	}
	return f.put(a, "prove")
}

// told refuses a fault or bug for whose tests the runner's word is all that
// there would be: cheats pass it, and there are others to take. A commit of the past is not made again,
// and stays, labelled; so does everything where no canaries are asked for.
func (f *forge) told(a *attempt) error {
	if f.cfg.Canaries <= 0 || len(a.cand.Tests) > 0 || !a.plan.SelfReported() {
		return nil
	}
	return reject(whyForgeable, "none of its failing tests has a canary; without any (--canaries 0) it would be admitted as self-reported")
}

// recordFault keeps with the task what breaks its environment and what mends
// it, without the commit that hides the one and the other.
func (f *forge) recordFault(a *attempt) error {
	if a.cand.Grade != GradeState {
		return nil
	}
	r, err := NewFault(f.cfg.Env.Image, f.cfg.Env.Layers, f.healthy, a.cand.Broken, a.cand.Operators, time.Time{})
	if err != nil {
		return fmt.Errorf("record of the fault: %w", err)
	}
	a.tests[FaultFile], err = r.Encode()
	return err
}

// changed are the paths of a delta, a few of them.
func changed(d Delta) []string {
	var out []string
	for _, e := range d {
		if len(out) < 50 {
			out = append(out, e.Path)
		}
	}
	return out
}

// chosen cuts the closed lists to the budget: of the tests that fail a steady
// sample, of the others first those that cover the change. It gives back which
// tests of a command are run; a command that is not there runs as a whole, as
// where most of its tests are wanted, or some that the suite does not know.
func (f *forge) chosen(a *attempt) map[string][]repo.Test {
	n := f.cfg.TestBudget
	if n <= 0 {
		return nil
	}
	covering := map[string]bool{}
	for _, id := range a.cand.Covering {
		covering[id] = true
	}
	must := f.kept(a)
	keep := f.cut(a.lists.failToPass, n, nil, must)
	left := max(n-len(keep), n/4)
	for id := range f.cut(a.lists.passToPass, left, covering, must) {
		keep[id] = true
	}
	if len(a.cand.Tests) > 0 {
		return nil
	}
	chosen, stable := map[string][]repo.Test{}, map[string]int{}
	for _, t := range f.cfg.Env.Suite.Tests {
		if f.steady[t.Global()] {
			stable[t.Command]++
		}
		if keep[t.Global()] {
			chosen[t.Command] = append(chosen[t.Command], t)
		}
	}
	for name, all := range chosen {
		if 2*len(all) >= stable[name] {
			delete(chosen, name)
		}
	}
	return chosen
}

// cut keeps n of the suite's tests in lists, those of must before those of first
// before others, last those for which a whole command would have to run, in an
// order that only the seed and their ids decide; tests that the suite does not
// know all stay. It gives back what is left.
func (f *forge) cut(l map[string][]string, n int, first, must map[string]bool) map[string]bool {
	var all []string
	keep := map[string]bool{}
	for name, ids := range l {
		for _, id := range ids {
			if g := name + ":" + id; f.known[g] {
				all = append(all, g)
			} else {
				keep[g] = true
			}
		}
	}
	rank := func(g string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %t %s", f.cfg.Seed, first[g], g))
		switch {
		case must[g]:
			return "0" + string(sum[:])
		case f.bound[g]:
			return "3" + string(sum[:])
		case first[g]:
			return "1" + string(sum[:])
		}
		return "2" + string(sum[:])
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	for _, g := range all[:min(n, len(all))] {
		keep[g] = true
	}
	for name, ids := range l {
		l[name] = slices.DeleteFunc(ids, func(id string) bool { return !keep[name+":"+id] })
	}
	return keep
}

// conclude turns a proof into the reason for which a candidate is not admitted;
// nil: it is.
func conclude(p proof.Proof) error {
	if p.Proved {
		return nil
	}
	text := strings.Join(p.Reasons, "; ")
	why := whyUnproved
	switch {
	case len(p.Unstable) > 0:
		why = whyUnstable
	case strings.Contains(text, "the solution can be read"):
		why = whyLeak
	case strings.Contains(text, proof.Harmless+" ended pass") && !strings.Contains(text, "doing nothing ended pass"):
		why = whyLoose
	case strings.Contains(text, "gold ended"):
		why = whyGold
	}
	return reject(why, "%s", cut(text, 1000))
}

// size is what a task directory takes, in bytes.
func size(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			n += fi.Size()
		}
		return err
	})
	return n, err
}

// admit gives a proved task its place, by one rename.
func (f *forge) admit(a *attempt) (string, error) {
	name := f.dirName(a)
	to := filepath.Join(f.cfg.Dir, name)
	if err := syncTree(a.t.Dir); err != nil {
		return "", fmt.Errorf("admit %s: %w", name, err)
	}
	if err := os.Rename(a.t.Dir, to); err != nil {
		return "", fmt.Errorf("admit %s: %w", name, err)
	}
	return name, nil
}

// syncTree makes sure that a task's files are on disk before their name is.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
