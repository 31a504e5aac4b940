package forge

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/draft"
	"assay/internal/grade/checks"
)

// perTask is how many canaries a command of a task has.
const perTask = 3

// maxCanaryFile is the largest test file that is changed, in bytes: a task that
// has a canary in it carries a copy.
const maxCanaryFile = 16 << 10

// maxCanaryFiles is what all copies of a task take, in bytes.
const maxCanaryFiles = 8 << 10

// hunt looks for canaries of the healthy suite, once for all tasks: gold of
// what is broken on purpose is the healthy state.
func (f *forge) hunt(ctx context.Context) error {
	file := filepath.Join(f.home, "canaries-"+f.cfg.Env.Tag+".json")
	if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &f.canaries) == nil {
		return nil
	}
	f.canaries = map[string][]checks.Canary{}
	if f.cfg.Canaries <= 0 {
		return nil
	}
	a := &attempt{made: f.nobody("canaries"), lists: lists{passToPass: map[string][]string{}}}
	for g := range f.steady {
		name, id, _ := strings.Cut(g, ":")
		a.lists.passToPass[name] = append(a.lists.passToPass[name], id)
	}
	a.plan, a.tests = planOf(&f.cfg.Env.Suite, a.lists, nil, nil)
	for _, rel := range f.testFiles {
		b, err := f.healthy.ReadFile(path.Join(f.cfg.Env.Workdir, rel), maxCanaryFile)
		if err != nil || len(draft.Candidates(rel, b, int64(f.cfg.Seed))) == 0 {
			continue // too large, or nothing in it that a canary could be made of
		}
		a.tests[path.Join("repo", rel)] = b
		a.plan.Place = map[string]string{"repo": f.cfg.Env.Workdir}
	}
	if a.plan.Place == nil {
		return writeJSON(file, f.canaries)
	}
	if err := f.put(a, "hunt"); err != nil {
		return err
	}
	f.cfg.Say("canaries: at most %d changes of the healthy suite's tests are tried", f.cfg.Canaries)
	plan, err := checks.Load(filepath.Join(a.t.Dir, "tests"))
	if err != nil {
		return err
	}
	caught, _, err := draft.Canaries(ctx, a.t, plan, draft.Hunt{Seed: int64(f.cfg.Seed), Tries: f.cfg.Canaries, Round: 2 * f.cfg.Concurrent},
		draft.Config{Dir: filepath.Join(f.tmp, "hunted"), Concurrent: f.cfg.Concurrent, Gold: f.cfg.Arms.Idle, Idle: f.cfg.Arms.Idle}, f.cfg.Deps)
	if err != nil {
		return err
	}
	for _, k := range caught {
		f.canaries[k.Command] = k.Canaries
	}
	return writeJSON(file, f.canaries)
}

// addCanaries plants, for each command of a task, the canaries that break tests
// of its lists: those of fail-to-pass first, one of a file before a second one.
// Only files that carry one are copied.
func (f *forge) addCanaries(a *attempt) {
	taken := 0
	for i := range a.plan.Commands {
		c := &a.plan.Commands[i]
		rank := func(k checks.Canary) int {
			if slices.ContainsFunc(k.Breaks, func(id string) bool { return slices.Contains(a.lists.failToPass[c.Name], id) }) {
				return 0
			}
			return 1
		}
		all := slices.Clone(f.canaries[c.Name])
		slices.SortStableFunc(all, func(x, y checks.Canary) int { return rank(x) - rank(y) })
		for _, k := range all {
			if len(c.Canaries) == perTask {
				break
			}
			k.Breaks = slices.DeleteFunc(slices.Clone(k.Breaks), func(id string) bool {
				return !slices.Contains(a.lists.failToPass[c.Name], id) && !slices.Contains(a.lists.passToPass[c.Name], id)
			})
			rel := strings.TrimPrefix(k.File, "repo/")
			if len(k.Breaks) == 0 || a.edits(rel) {
				continue
			}
			b, err := f.healthy.ReadFile(path.Join(f.cfg.Env.Workdir, rel), maxCanaryFile)
			if err != nil {
				continue
			}
			if _, there := a.tests[k.File]; !there {
				if taken += len(b); taken > maxCanaryFiles {
					taken -= len(b)
					continue
				}
			}
			c.Canaries = append(c.Canaries, k)
			a.tests[k.File] = b
			a.plan.Place = map[string]string{"repo": f.cfg.Env.Workdir}
			a.plan.Protected = slices.DeleteFunc(a.plan.Protected, func(p string) bool { return p == rel })
		}
	}
}

// edits reports whether the candidate itself changes a path of the working
// directory.
func (a *attempt) edits(rel string) bool {
	at := path.Join(a.env.Workdir, rel)
	for _, e := range a.cand.Broken {
		if e.Path == at || strings.HasPrefix(at, e.Path+"/") {
			return true
		}
	}
	return false
}
