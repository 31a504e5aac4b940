package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/draft"
	"assay/internal/grade/checks"
	"assay/internal/image"
)

// perTask is how many canaries a command of a task has.
const perTask = 4

// huntVersion is part of the name of the file that keeps what a hunt found; a
// better hunt has another one, and begins anew.
const huntVersion = "4"

// maxCanaryFile is the largest test file in which canaries are looked for, in
// bytes.
const maxCanaryFile = 1 << 20

// hunt looks for canaries of the healthy suite, once for all tasks: gold of
// what is broken on purpose is the healthy state. They change files of the
// image, so that no task carries a copy of its tests, or those that it hides.
func (f *forge) hunt(ctx context.Context) error {
	file := filepath.Join(f.home, "canaries-"+huntVersion+"-"+f.cfg.Env.Tag+".json")
	if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &f.canaries) == nil {
		return nil
	}
	f.canaries = map[string][]checks.Canary{}
	if f.cfg.Canaries <= 0 {
		return nil
	}
	a := &attempt{made: f.nobody("canaries"), lists: f.healthyLists()}
	a.plan, a.tests = planOf(&f.cfg.Env.Suite, a.lists, nil, nil)
	tries := f.cfg.Canaries
	if f.cfg.For > 0 { // a try runs the suite twice
		tries = max(2, min(tries, int(f.cfg.For.Milliseconds()/10/int64(max(1, f.cfg.Env.Suite.Millis))*int64(f.cfg.Concurrent))))
	}
	h := draft.Hunt{Seed: int64(f.cfg.Seed), Tries: tries, Round: 2 * f.cfg.Concurrent, Image: map[string][]byte{}, Spread: true, Files: map[string]string{}}
	for _, t := range f.cfg.Env.Suite.Tests {
		file := t.File
		if file == "" {
			file = moduleFile(t.ID, func(rel string) bool { return f.inSource[rel] })
		}
		if file != "" {
			h.Files[t.Global()] = path.Join(f.cfg.Env.Workdir, file)
		}
	}
	for _, rel := range slices.Concat(f.testFiles, slices.Sorted(maps.Keys(f.inSource))) {
		at := path.Join(f.cfg.Env.Workdir, rel)
		if b, err := f.healthy.ReadFile(at, maxCanaryFile); err == nil {
			h.Image[at] = b
		}
	}
	if err := f.put(a, "hunt"); err != nil {
		return err
	}
	f.cfg.Say("canaries: the healthy suite runs at most %d times with changed expectations", tries)
	plan, err := checks.Load(filepath.Join(a.t.Dir, "tests"))
	if err != nil {
		return err
	}
	caught, _, err := draft.Canaries(ctx, a.t, plan, h,
		draft.Config{Dir: filepath.Join(f.tmp, "hunted"), Concurrent: f.cfg.Concurrent, Gold: f.cfg.Arms.Idle, Idle: f.cfg.Arms.Idle}, f.cfg.Deps)
	if err != nil {
		return err
	}
	for _, k := range caught {
		f.canaries[k.Command] = k.Canaries
	}
	f.tellHunt()
	return writeJSON(file, f.canaries)
}

// tellHunt says how many tests have a canary: without any, no candidate will be
// admitted.
func (f *forge) tellHunt() {
	broken := map[string]bool{}
	for command, all := range f.canaries {
		for _, k := range all {
			for _, id := range k.Breaks {
				broken[command+":"+id] = true
			}
		}
	}
	if len(broken) == 0 {
		f.cfg.Say("canaries: no test has one, in %d test files; tasks that only such tests tell of are turned away as forgeable: give more runs (--canaries N), or take them as self-reported (--canaries 0)", len(f.testFiles))
		return
	}
	f.cfg.Say("canaries: of %d of %d tests", len(broken), len(f.steady))
}

// healthyLists expects what passes in the healthy state.
func (f *forge) healthyLists() lists {
	l := lists{passToPass: map[string][]string{}}
	for g := range f.steady {
		name, id, _ := strings.Cut(g, ":")
		l.passToPass[name] = append(l.passToPass[name], id)
	}
	return l
}

// mayHaveCanaries reports whether the healthy suite's canaries hold for a task:
// not where solved, and graded, is something else than healthy.
func (a *attempt) mayHaveCanaries() bool {
	healed := map[string]bool{}
	for _, e := range slices.Concat(a.cand.Gold, a.cand.Tests) {
		was, err := a.healthy.Lstat(e.Path)
		switch {
		case e.Type == "" && errors.Is(err, fs.ErrNotExist):
		case err != nil || e.Type != image.TypeFile || was.Type != e.Type:
			return false
		default:
			now, nerr := e.Content(a.healthy)
			old, oerr := a.healthy.ReadFile(e.Path, maxData)
			if nerr != nil || oerr != nil || !bytes.Equal(now, old) {
				return false
			}
		}
		healed[e.Path] = true
	}
	return len(a.cand.Gold) == 0 || !slices.ContainsFunc(a.cand.Broken, func(e Edit) bool { return !healed[e.Path] })
}

// fitting are the canaries of a command that break tests of a task's lists:
// those of fail-to-pass first, then one of a test before a second one.
func (f *forge) fitting(a *attempt, command string) []checks.Canary {
	failing, passing := setOf(a.lists.failToPass[command]), setOf(a.lists.passToPass[command])
	met := map[string]bool{}
	rank := map[string]int{} // by old text and file
	var all []checks.Canary
	for _, k := range f.canaries[command] {
		k.Breaks = slices.DeleteFunc(slices.Clone(k.Breaks), func(id string) bool { return !failing[id] && !passing[id] })
		at, ok := a.graded(k.File)
		if rel, _ := strings.CutPrefix(k.File, a.env.Workdir+"/"); f.inSource[rel] && a.cand.Grade != GradeState {
			continue // the work may change that file, and its text would not be there
		}
		if len(k.Breaks) == 0 || !ok {
			continue
		}
		k.File = at
		n := 0
		if !slices.ContainsFunc(k.Breaks, func(id string) bool { return failing[id] }) {
			n += 2
		}
		if met[k.Breaks[0]] {
			n++
		}
		met[k.Breaks[0]] = true
		rank[k.File+"\x00"+k.Old] = n
		all = append(all, k)
	}
	slices.SortStableFunc(all, func(x, y checks.Canary) int { return rank[x.File+"\x00"+x.Old] - rank[y.File+"\x00"+y.Old] })
	return all[:min(len(all), perTask)]
}

// kept are tests that a cut of a task's lists must leave: of each canary that
// fits it one that it breaks.
func (f *forge) kept(a *attempt) map[string]bool {
	keep := map[string]bool{}
	if !a.mayHaveCanaries() {
		return keep
	}
	for _, c := range f.cfg.Env.Suite.Commands {
		failing := setOf(a.lists.failToPass[c.Name])
		for _, k := range f.fitting(a, c.Name) {
			i := max(0, slices.IndexFunc(k.Breaks, func(id string) bool { return failing[id] }))
			keep[checks.Global(c.Name, k.Breaks[i])] = true
		}
	}
	return keep
}

// addCanaries plants, for each command of a task, the canaries that fit it.
func (f *forge) addCanaries(a *attempt) {
	if !a.mayHaveCanaries() {
		return
	}
	for i := range a.plan.Commands {
		c := &a.plan.Commands[i]
		c.Canaries = append(c.Canaries, f.fitting(a, c.Name)...)
	}
}

func setOf(ids []string) map[string]bool {
	m := make(map[string]bool, len(ids))
	for _, id := range ids {
		m[id] = true
	}
	return m
}

// edits reports whether the candidate itself changes a path of the image, or
// one above it.
func (a *attempt) edits(at string) bool {
	return slices.ContainsFunc(a.cand.Broken, func(e Edit) bool { return e.Path == at || strings.HasPrefix(at, e.Path+"/") })
}
