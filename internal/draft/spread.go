package draft

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/job"
	"assay/task"
)

// spread tries a candidate of every test at the same time. Which test a change
// is in is known where a test's name stands where the test begins. Each run has
// half of the candidates, another half each time, so a few runs tell what each
// of them breaks, and show when one breaks a test that it is not in.
func (s *search) spread(ctx context.Context, t *task.Task, c Config, deps job.Deps) (tried int, err error) {
	all := s.wanting(s.everywhere())
	c.every = true
	some, parted := half, false
	for round := 0; tried < s.hunt.Tries; round++ {
		hopes := s.oneEach(all)
		if len(hopes) == 0 {
			break
		}
		n := min(s.hunt.Round, s.hunt.Tries-tried)
		c.say("canaries: one of each of %d tests, %d times", len(hopes), n)
		tasks := make([]*task.Task, n)
		for i := range tasks {
			if tasks[i], err = c.copyOf(t, fmt.Sprintf("spread-%d-%d", round, i), s.withAll(some(hopes, i, n))); err != nil {
				return tried, err
			}
		}
		got, err := c.run(ctx, fmt.Sprintf("spread-%d", round), c.Gold, 1, tasks, deps)
		if err != nil {
			return tried, err
		}
		var runs []spreadRun
		for i, one := range tasks {
			for _, e := range got[one.Name] {
				runs = append(runs, spreadRun{e, some(hopes, i, n)})
			}
			_ = os.RemoveAll(one.Dir) // Dir goes as a whole
		}
		tried += n
		unread := s.learn(hopes, runs)
		for h, stopped := range unread {
			if stopped || !parted {
				h.in.queue = slices.Insert(h.in.queue, 0, h.Canary)
			}
		}
		if len(unread) > 0 {
			some, parted = part, true // what stops all others, as by a compiler, spoils its own part alone
		}
	}
	return tried, nil
}

// stretch is a test's lines in a file, from its name to what begins after it.
type stretch struct {
	file     string
	from, to int                 // bytes
	ids      map[string][]string // by command
	queue    []checks.Canary     // candidates that were not tried
	done     bool                // one of them is caught
}

// hope is a candidate on trial.
type hope struct {
	checks.Canary
	in *stretch
}

// spreadRun is what a run with some of the candidates showed.
type spreadRun struct {
	evidence
	planted []*hope
}

// half are the candidates that the i-th run of a round has: of two runs the
// one has what the other has not, and of four any two candidates are apart in
// one at least, but for every fourth.
func half(hopes []*hope, i, _ int) []*hope {
	var out []*hope
	for j, h := range hopes {
		if (j>>(i/2%4)&1 == 0) == (i%2 == 0) {
			out = append(out, h)
		}
	}
	return out
}

// part are the candidates that the i-th of n runs alone has.
func part(hopes []*hope, i, n int) []*hope {
	var out []*hope
	for j := i; j < len(hopes); j += n {
		out = append(out, hopes[j])
	}
	return out
}

// begins finds the lines at which functions, methods, classes and named blocks
// of tests begin; what it takes for one by mistake is no test's name.
var begins = regexp.MustCompile(`^[ \t]*(?:` + strings.Join([]string{
	`(?:async\s+)?def\s+(\w+)`,
	`func\s+(?:\([^)]*\)\s*)?(\w+)`,
	`(?:pub(?:\([^)]*\))?\s+)?(?:async\s+)?fn\s+(\w+)`,
	`(?:\w+\.)?(?:it|test|specify|describe|suite|context)(?:\.\w+)?\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|` + "`([^`]*)`" + `)`,
	`@test\s+["']([^"']*)["']`,
	`(?:export\s+)?(?:abstract\s+)?class\s+(\w+)`,
	`(?:(?:public|private|protected|static|final)\s+)*[\w<>\[\],.*]+\s+\*?(\w+)\s*\([^;]*$`,
	`(?:function\s+)?(\w+)\s*\(\)\s*\{`,
}, "|") + `)`)

// beginning is one of those lines.
type beginning struct {
	name   string
	at     int // byte
	indent int
}

func beginnings(content []byte) []beginning {
	var all []beginning
	at := 0
	for line := range strings.SplitAfterSeq(string(content), "\n") {
		if m := begins.FindStringSubmatch(line); m != nil {
			b := beginning{at: at, indent: len(line) - len(strings.TrimLeft(line, " \t"))}
			for _, name := range m[1:] {
				if name != "" {
					b.name = name
				}
			}
			all = append(all, b)
		}
		at += len(line)
	}
	return all
}

// parts splits an id into the names that it is made of, the innermost first,
// without parameters.
func parts(id string) []string {
	if i := strings.IndexAny(id, "[{"); i > 0 && !strings.Contains(id, "] ") {
		id = id[:i]
	}
	all := strings.FieldsFunc(strings.NewReplacer(" > ", "\x00", "::", "\x00", "] ", "\x00").Replace(id), func(r rune) bool { return r == 0 })
	slices.Reverse(all)
	var out []string
	for _, p := range all {
		out = append(out, p)
		if test, _, sub := strings.Cut(p, "/"); sub {
			out = append(out, test) // Go's subtests
		}
		if strings.Contains(p, ".") && !strings.Contains(p, " ") { // unittest's methods, Java's classes
			dotted := strings.Split(p, ".")
			slices.Reverse(dotted)
			out = append(out, dotted...)
		}
	}
	return out
}

// around is the name of what a beginning stands in, "" of one in nothing.
func around(all []beginning, i int) string {
	for j := i - 1; j >= 0; j-- {
		if all[j].indent < all[i].indent {
			return all[j].name
		}
	}
	return ""
}

// called is a test's own name, without its class's.
func called(id string) string {
	name := parts(id)[0]
	if !strings.Contains(name, " ") {
		name = name[strings.LastIndexByte(name, '.')+1:]
	}
	return name
}

// stretches are the tests of a file, by the names of ids; a name that stands
// there twice is that one's which is in what the id says, as a class, or else
// nobody's. A test that is called like the file, as a program of
// CTest's is, has it whole.
func stretches(file string, content []byte, ids map[string][]string) []*stretch {
	all := beginnings(content)
	byName := map[string][]int{}
	for i, b := range all {
		byName[b.name] = append(byName[b.name], i)
	}
	stem := strings.TrimSuffix(path.Base(file), path.Ext(file))
	whole := &stretch{file: file, to: len(content), ids: map[string][]string{}}
	found := map[int]*stretch{}
	for command, list := range ids {
		for _, id := range list {
			if id == stem {
				whole.ids[command] = []string{id}
				continue
			}
			names := parts(id)
			for n, name := range names {
				here := byName[name]
				if len(here) > 1 && n+1 < len(names) {
					here = slices.DeleteFunc(slices.Clone(here), func(i int) bool { return around(all, i) != names[n+1] })
				}
				if len(here) == 0 && len(byName[name]) == 0 {
					continue
				}
				if len(here) != 1 {
					break
				}
				i := here[0]
				if found[i] == nil {
					found[i] = &stretch{file: file, from: all[i].at, to: len(content), ids: map[string][]string{}}
					for _, next := range all[i+1:] {
						if next.indent <= all[i].indent {
							found[i].to = next.at
							break
						}
					}
				}
				found[i].ids[command] = append(found[i].ids[command], id)
				break
			}
		}
	}
	var out []*stretch
	if len(whole.ids) > 0 {
		out = append(out, whole)
	}
	for _, st := range found {
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b *stretch) int { return a.from - b.from })
	return out
}

// everywhere finds the tests of all files and shares the candidates out among
// them.
func (s *search) everywhere() []*stretch {
	var all []*stretch
	for _, file := range s.files {
		ids := map[string][]string{}
		for _, name := range s.hopes {
			for id := range s.lists[name] {
				if at, known := s.hunt.Files[checks.Global(name, id)]; !known || at == file {
					ids[name] = append(ids[name], id)
				}
			}
			slices.Sort(ids[name])
		}
		own := stretches(file, s.content[file], ids)
		for _, k := range s.queue[file] {
			at := strings.Index(string(s.content[file]), k.Old) + len(k.Old) - 1
			var inner *stretch
			for _, st := range own {
				if st.from <= at && at < st.to {
					inner = st // the last to begin
				}
			}
			if inner != nil {
				inner.queue = append(inner.queue, k)
			}
		}
		all = append(all, own...)
	}
	return all
}

// wanting are those of fail-to-pass tests that no canary breaks, where the plan
// has fail-to-pass tests, and all others where it has none.
func (s *search) wanting(all []*stretch) []*stretch {
	if !slices.ContainsFunc(s.plan.Expected(), func(k checks.Check) bool { return !k.PassToPass }) {
		return all
	}
	return slices.DeleteFunc(all, func(st *stretch) bool {
		for command, ids := range st.ids {
			bare := s.bare(command)
			if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(bare, id) }) {
				return false
			}
		}
		return true
	})
}

// oneEach takes a candidate of each test that has none yet, as many as a command
// may have.
func (s *search) oneEach(all []*stretch) []*hope {
	var out []*hope
	of := map[string][]checks.Canary{}
	for _, st := range all {
		for !st.done && len(st.queue) > 0 && len(out) < checks.MaxCanaries {
			k := st.queue[0]
			st.queue = st.queue[1:]
			if _, err := checks.Plant(s.content[st.file], append(slices.Clone(of[st.file]), k)); err != nil {
				continue
			}
			of[st.file] = append(of[st.file], k)
			s.queue[st.file] = slices.DeleteFunc(s.queue[st.file], func(o checks.Canary) bool { return o.Old == k.Old && o.New == k.New })
			out = append(out, &hope{k, st})
			break
		}
	}
	return out
}

// withAll is the plan with candidates of many tests.
func (s *search) withAll(hopes []*hope) *checks.Plan {
	p := s.with(checks.Canary{})
	for i := range p.Commands {
		c := &p.Commands[i]
		c.Canaries = nil
		for _, h := range hopes {
			if ids := h.in.ids[c.Name]; len(ids) > 0 {
				k := h.Canary
				k.Breaks = ids[:1]
				c.Canaries = append(c.Canaries, k)
			}
		}
	}
	return p
}

// learn keeps the candidates that broke tests of their own and no others. It
// gives back those of which no run told anything: true where the runs ended
// before their time, false where they could not be read.
func (s *search) learn(hopes []*hope, runs []spreadRun) map[*hope]bool {
	unread, read := map[*hope]bool{}, map[*hope]bool{}
	for _, name := range s.hopes {
		l := lesson{command: name, listed: s.lists[name], unread: unread, read: read, breaks: map[*hope]map[string]bool{}, guilty: map[*hope]bool{},
			foreign: map[string]map[*hope]bool{}, in: map[*hope][]int{}, fails: map[string][]int{}}
		for n, r := range runs {
			l.hear(n, r)
		}
		heirs := l.blame()
		for _, h := range hopes {
			if len(l.breaks[h]) == 0 || l.guilty[h] {
				continue
			}
			k := h.Canary
			k.Breaks = slices.DeleteFunc(slices.Clone(h.in.ids[name]), func(id string) bool { return !l.breaks[h][id] })
			k.Breaks = append(k.Breaks, heirs[h]...)
			if slices.Sort(k.Breaks); s.apart(k) {
				s.caught[name], h.in.done = append(s.caught[name], k), true
			}
		}
	}
	maps.DeleteFunc(unread, func(h *hope, _ bool) bool { return read[h] })
	return unread
}

// lesson is what runs tell of a command's candidates.
type lesson struct {
	command      string
	listed       map[string]bool           // ids that the command expects
	read, unread map[*hope]bool            // of all commands, as learn gives them back
	breaks       map[*hope]map[string]bool // tests of its own, in each run; nil: was in none
	guilty       map[*hope]bool            // of breaking what is another's, or of ending a run
	foreign      map[string]map[*hope]bool // ids that fail, and who may have done it
	ends         [][]*hope                 // of each run that ended before its time, who may have done it
	in           map[*hope][]int           // the runs that told of a candidate
	fails        map[string][]int          // the runs in which an id does not pass
}

// hear takes in the n-th run.
func (l *lesson) hear(n int, r spreadRun) {
	failed, gone, ok := r.broken(l.command)
	enders, stopped := r.stopped(l.command, failed, gone)
	if !ok || stopped && len(enders) == 0 {
		for _, h := range r.planted {
			if _, known := l.unread[h]; !known {
				l.unread[h] = false
			}
		}
		return
	}
	if stopped {
		l.ends = append(l.ends, enders)
	}
	own := map[string]bool{}
	for _, h := range r.planted {
		now, lost := map[string]bool{}, false
		for _, id := range h.in.ids[l.command] {
			own[id], lost = true, lost || gone[id]
			if failed[id] && (l.breaks[h] == nil || l.breaks[h][id]) {
				now[id] = true
			}
		}
		switch {
		case stopped && (lost || slices.Contains(enders, h)):
			l.unread[h] = true
		case lost:
			l.guilty[h], l.read[h] = true, true
		default:
			l.breaks[h], l.read[h], l.in[h] = now, true, append(l.in[h], n)
		}
	}
	for id := range failed {
		l.fails[id] = append(l.fails[id], n)
		if own[id] || gone[id] || !l.listed[id] {
			continue
		}
		suspects := map[*hope]bool{}
		for _, h := range r.planted {
			if l.foreign[id] == nil || l.foreign[id][h] {
				suspects[h] = true
			}
		}
		l.foreign[id] = suspects
	}
}

// blame finds the guilty, and the tests that candidates break although they are
// not in them, as other classes inherit them.
func (l *lesson) blame() (heirs map[*hope][]string) {
	heirs = map[*hope][]string{}
	for id, suspects := range l.foreign {
		if h := ancestor(id, l.command, suspects); h != nil && slices.Equal(l.in[h], l.fails[id]) {
			heirs[h] = append(heirs[h], id)
		} else {
			maps.Copy(l.guilty, suspects)
		}
	}
	for _, enders := range l.ends {
		// Of whom another run told is out of it, if there is anybody else.
		if slices.ContainsFunc(enders, func(h *hope) bool { return l.guilty[h] || len(enders) > 1 && !l.read[h] }) {
			continue
		}
		for _, h := range enders {
			l.guilty[h], l.read[h] = true, true
		}
	}
	return heirs
}

// ancestor is the one of some candidates that is in a test called like id: that
// of a class which inherits its tests. Nil: there is none, or more than one.
func ancestor(id, command string, among map[*hope]bool) *hope {
	var found *hope
	for h := range among {
		if slices.ContainsFunc(h.in.ids[command], func(own string) bool { return called(own) == called(id) }) {
			if found != nil {
				return nil
			}
			found = h
		}
	}
	return found
}

// stopped reports whether a run with canaries ended before its time: tests are
// gone that no canary is in. One of those did it that broke a test of their own,
// and if there are such, of those that broke it otherwise than by an assertion.
// Which one is not told, as reports are in the order of ids.
func (r spreadRun) stopped(command string, failed, gone map[string]bool) (suspects []*hope, yes bool) {
	canary, _ := of(r.Canary, command)
	raised := map[string]bool{}
	for _, t := range canary.NotPassed {
		raised[t.ID] = t.Kind != "" && t.Kind != string(report.KindAssertion)
	}
	left := len(gone)
	var violent []*hope
	for _, h := range r.planted {
		bitten, violently := false, false
		for _, id := range h.in.ids[command] {
			if gone[id] {
				left--
			}
			bitten = bitten || failed[id] && !gone[id]
			violently = violently || raised[id]
		}
		if bitten {
			suspects = append(suspects, h)
		}
		if violently {
			violent = append(violent, h)
		}
	}
	if len(violent) > 0 {
		suspects = violent
	}
	return suspects, left > 0
}

// broken is what passed in a command's real run and did not in that with
// canaries, and what of it failed in no way, but was skipped or is not there;
// false: the two cannot be compared.
func (r spreadRun) broken(command string) (failed, gone map[string]bool, ok bool) {
	real, ok := of(r.Commands, command)
	canary, ok2 := of(r.Canary, command)
	if !ok || !ok2 || !real.whole() || !canary.whole() || canary.Exit == 0 {
		return nil, nil, false
	}
	failed, gone = map[string]bool{}, map[string]bool{}
	for _, id := range real.Passed {
		failed[id], gone[id] = true, true
	}
	for _, id := range canary.Passed {
		delete(failed, id)
		delete(gone, id)
	}
	for _, t := range canary.NotPassed {
		if t.Status == string(report.Failed) || t.Status == string(report.Errored) {
			delete(gone, t.ID)
		}
	}
	return failed, gone, true
}
