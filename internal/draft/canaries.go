package draft

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/job"
	"assay/task"
)

// Hunt bounds the search for canaries; the zero value works.
type Hunt struct {
	Seed       int64
	PerCommand int // wanted of each; zero: 3, and at least one of each test file and each fail-to-pass test
	Tries      int // candidates that are run, up to four times as many while a command has none; zero: 60
	Round      int // of them in one job; zero: 8
	// Image are files of the image, by their absolute paths, in which canaries
	// are looked for as well.
	Image map[string][]byte
	// Spread tries one of every test at the same time, of the fail-to-pass tests
	// where there are any, before it tries them one by one.
	Spread bool
	// Files say in which file a test is, as it is called here, by "COMMAND:ID".
	Files map[string]string
}

// Caught is what the search found for one command.
type Caught struct {
	Command  string
	Canaries []checks.Canary
	Files    []string // test files without one
	Tests    []string // fail-to-pass tests that none breaks: work may forge these unseen
}

// Canaries looks for canaries of the plan's commands that have a report and are
// not separate: each candidate is run with gold, and kept for a command where
// some of the tests that passed fail with it and no other test changes. Those
// that the plan has already stay.
func Canaries(ctx context.Context, t *task.Task, p *checks.Plan, h Hunt, c Config, deps job.Deps) ([]Caught, int, error) {
	if h.PerCommand == 0 {
		h.PerCommand = 3
	}
	if h.Tries == 0 {
		h.Tries = 60
	}
	if h.Round == 0 {
		h.Round = 8
	}
	s := &search{plan: p, hunt: h, content: map[string][]byte{}, queue: map[string][]checks.Canary{}, unseen: map[string]int{}, caught: map[string][]checks.Canary{}, lists: map[string]map[string]bool{}}
	if err := s.prepare(testsDir(t.Dir, c.Step)); err != nil {
		return nil, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(h.Image)) {
		s.offer(name, h.Image[name])
	}
	tried := 0
	if h.Spread {
		var err error
		if tried, err = s.spread(ctx, t, c, deps); err != nil {
			return nil, tried, err
		}
	}
	for round := 0; tried < s.limit(); round++ {
		batch := s.next(min(h.Round, s.limit()-tried))
		if len(batch) == 0 {
			break
		}
		c.say("canaries: %d tried, %d more", tried, len(batch))
		tasks := make([]*task.Task, len(batch))
		for i, k := range batch {
			var err error
			if tasks[i], err = c.copyOf(t, fmt.Sprintf("canary-%d-%d", round, i), s.with(k)); err != nil {
				return nil, tried, err
			}
		}
		got, err := c.run(ctx, fmt.Sprintf("canaries-%d", round), c.Gold, 1, tasks, deps)
		if err != nil {
			return nil, tried, err
		}
		for i, k := range batch {
			for _, e := range got[tasks[i].Name] {
				s.take(k, e)
			}
			_ = os.RemoveAll(tasks[i].Dir) // the copies of a large task are many; Dir goes as a whole
		}
		tried += len(batch)
	}
	return s.result(), tried, nil
}

// search is a hunt under way.
type search struct {
	plan    *checks.Plan
	hunt    Hunt
	files   []string          // test files that have candidates
	content map[string][]byte // of them
	queue   map[string][]checks.Canary
	unseen  map[string]int             // changes of a file that no run showed; -1: one was seen
	caught  map[string][]checks.Canary // by command
	lists   map[string]map[string]bool // ids that a command expects
	hopes   []string                   // commands that take canaries
}

func (s *search) prepare(tests string) error {
	for _, c := range s.plan.Commands {
		rd, err := report.ReaderOf(c.Report)
		if err != nil || rd.Parity || c.Separate {
			continue
		}
		s.hopes = append(s.hopes, c.Name)
		s.caught[c.Name] = slices.Clone(c.Canaries)
		f2p, p2p := c.Expected()
		s.lists[c.Name] = map[string]bool{}
		for _, id := range slices.Concat(f2p, p2p) {
			s.lists[c.Name][id] = true
		}
	}
	not := map[string]bool{checks.File: true, checks.ScriptName: true, checks.QuarantineFile: true}
	for _, f := range []report.Format{"pytest-log", "unittest", "node-test", "mocha-log"} {
		if name, _, ok := report.Support(f); ok {
			not[name] = true
		}
	}
	root, err := os.OpenRoot(tests)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || not[path.Base(name)] {
			return err
		}
		if fi, err := d.Info(); err != nil || fi.Size() > 1<<20 {
			return err
		}
		b, err := fs.ReadFile(root.FS(), name)
		if err != nil {
			return err
		}
		s.offer(name, b)
		return nil
	})
}

// offer takes a file that may have canaries.
func (s *search) offer(name string, b []byte) {
	if all := Candidates(name, b, s.hunt.Seed); len(all) > 0 {
		s.files = append(s.files, name)
		s.queue[name], s.content[name] = all, b
	}
}

// limit is how many candidates are run: without any canary a command's reports
// are as good as its word, so the first is worth more than all that follow.
func (s *search) limit() int {
	if slices.ContainsFunc(s.hopes, func(c string) bool { return len(s.caught[c]) == 0 }) {
		return 4 * s.hunt.Tries
	}
	return s.hunt.Tries
}

// wants reports whether a file's canaries are still looked for: it has none, or
// some command has too few.
func (s *search) wants(file string) bool {
	if len(s.queue[file]) == 0 {
		return false
	}
	for _, c := range s.hopes {
		has := slices.ContainsFunc(s.caught[c], func(k checks.Canary) bool { return k.File == file })
		if len(s.caught[c]) < s.hunt.PerCommand || !s.unread(file) && (!has && !s.covered(file) || len(s.bare(c)) > 0) {
			return true
		}
	}
	return false
}

// bare are a command's fail-to-pass tests that no canary breaks.
func (s *search) bare(command string) []string {
	i := slices.IndexFunc(s.plan.Commands, func(c checks.Command) bool { return c.Name == command })
	f2p, _ := s.plan.Commands[i].Expected()
	return slices.DeleteFunc(slices.Clone(f2p), func(id string) bool {
		return slices.ContainsFunc(s.caught[command], func(k checks.Canary) bool { return slices.Contains(k.Breaks, id) })
	})
}

// covered reports whether any command has a canary of the file.
func (s *search) covered(file string) bool {
	for _, all := range s.caught {
		if slices.ContainsFunc(all, func(k checks.Canary) bool { return k.File == file }) {
			return true
		}
	}
	return false
}

// unread reports whether changes of a file went unseen, one after the other:
// most likely no test reads it.
func (s *search) unread(file string) bool { return s.unseen[file] >= 2 }

// named reports whether one of ids has the file's name in it, as those of many
// runners do.
func named(file string, ids iter.Seq[string]) bool {
	stem := strings.TrimSuffix(path.Base(file), path.Ext(file))
	for id := range ids {
		if strings.Contains(id, stem) {
			return true
		}
	}
	return false
}

// late says how late a file's turn is: first those that lack a canary, or that a
// fail-to-pass test without one is named after, and of them those that any test
// is named after; last what no test reads.
func (s *search) late(file string) int {
	late, bare := 0, false
	some := false
	for _, c := range s.hopes {
		bare = bare || named(file, slices.Values(s.bare(c)))
		some = some || named(file, maps.Keys(s.lists[c]))
	}
	if s.unread(file) {
		late += 4
	}
	if s.covered(file) && !bare {
		late += 2
	}
	if !some {
		late++
	}
	return late
}

// next takes candidates, one of each file in turn.
func (s *search) next(n int) []checks.Canary {
	files := slices.Clone(s.files)
	rank := map[string]int{}
	for _, f := range files {
		rank[f] = s.late(f)
	}
	slices.SortStableFunc(files, func(a, b string) int { return rank[a] - rank[b] })
	var batch []checks.Canary
	for more := true; more && len(batch) < n; {
		more = false
		for _, f := range files {
			if len(batch) < n && s.wants(f) {
				batch, more = append(batch, s.queue[f][0]), true
				s.queue[f] = s.queue[f][1:]
			}
		}
	}
	return batch
}

// with is the plan with one canary and no other, for every command.
func (s *search) with(k checks.Canary) *checks.Plan {
	p := *s.plan
	p.Commands = slices.Clone(s.plan.Commands)
	p.Cases, p.State, p.Milestones, p.Spec, p.EdgeCases = nil, nil, nil, nil, nil
	for i := range p.Commands {
		c := &p.Commands[i]
		c.Canaries = nil
		if slices.Contains(s.hopes, c.Name) {
			f2p, p2p := c.Expected()
			one := k
			one.Breaks = slices.Concat(f2p, p2p)[:1] // what it breaks is what is asked
			c.Canaries = []checks.Canary{one}
		}
	}
	return &p
}

// take keeps a canary for the commands in which it bites.
func (s *search) take(k checks.Canary, e evidence) {
	if s.unseen[k.File] >= 0 {
		if s.unseen[k.File]++; s.seen(e) {
			s.unseen[k.File] = -1
		}
	}
	for _, name := range s.hopes {
		real, ok := of(e.Commands, name)
		canary, ok2 := of(e.Canary, name)
		if !ok || !ok2 || !real.whole() || !canary.whole() || canary.Exit == 0 || real.Tests != canary.Tests {
			continue
		}
		k.Breaks = nil
		passed := map[string]bool{}
		for _, id := range canary.Passed {
			passed[id] = true
		}
		failed := map[string]bool{}
		for _, t := range canary.NotPassed {
			failed[t.ID] = t.Status == string(report.Failed) || t.Status == string(report.Errored)
		}
		good := len(canary.Passed) <= len(real.Passed)
		for _, id := range real.Passed {
			switch {
			case passed[id]:
			case failed[id] && s.lists[name][id]:
				k.Breaks = append(k.Breaks, id)
			case !failed[id]:
				good = false // it is gone, or skipped: no canary's doing
			}
		}
		slices.Sort(k.Breaks)
		if good && len(k.Breaks) > 0 && s.apart(k) {
			s.caught[name] = append(s.caught[name], k)
		}
	}
}

// seen reports whether the canary run differs from the other at all.
func (s *search) seen(e evidence) bool {
	for _, name := range s.hopes {
		real, ok := of(e.Commands, name)
		canary, ok2 := of(e.Canary, name)
		if !ok || !ok2 || real.Exit != canary.Exit || real.Tests != canary.Tests || len(real.Passed) != len(canary.Passed) {
			return true
		}
	}
	return false
}

// apart reports whether a canary can be planted beside all others of its file.
func (s *search) apart(k checks.Canary) bool {
	all := []checks.Canary{k}
	for _, name := range s.hopes {
		for _, o := range s.caught[name] {
			if o.File == k.File {
				all = append(all, o)
			}
		}
	}
	_, err := checks.Plant(s.content[k.File], all)
	return err == nil
}

func (s *search) result() []Caught {
	var all []Caught
	for i := range s.plan.Commands {
		c := &s.plan.Commands[i]
		if !slices.Contains(s.hopes, c.Name) {
			continue
		}
		got := Caught{Command: c.Name, Canaries: s.caught[c.Name], Tests: s.bare(c.Name)}
		for _, f := range s.files {
			if !s.covered(f) {
				got.Files = append(got.Files, filepath.ToSlash(f))
			}
		}
		c.Canaries = got.Canaries
		all = append(all, got)
	}
	return all
}
