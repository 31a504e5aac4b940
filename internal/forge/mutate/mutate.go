// Package mutate breaks code as people do: off by one, a forgotten check, a
// value that is not copied, an argument that is not handed on. Its operators
// are a table over syntax trees; each language adds a table of shapes. Every
// mutant parses, is decided by the stable tests before it is proposed, and is
// described by what users would see of it.
//
// It never touches tests, generated or vendored files, documentation or
// imports, and it admits nothing.
package mutate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"assay/internal/forge"
	"assay/internal/forge/decide"
	"assay/internal/image"
	"assay/internal/syntax"
)

// Name is the generator's name in candidates and provenance.
const Name = "mutate"

// Decide decides changes of a world's environment, in any order.
type Decide func(ctx context.Context, w *forge.World, changes iter.Seq[decide.Change], yield func(decide.Verdict) error) error

// Config is what a Generator needs. Parser and Decide are required.
type Config struct {
	Parser *syntax.Parser
	Decide Decide
	Most   int     // changes to decide; 0: 6000
	Broad  float64 // share of the stable tests; bugs that fail more come last; 0: 0.25
	Only   []string
}

// Generator proposes bugs.
type Generator struct{ c Config }

// New makes a generator.
func New(c Config) *Generator {
	if c.Most == 0 {
		c.Most = 6000
	}
	if c.Broad == 0 {
		c.Broad = 0.4
	}
	return &Generator{c}
}

// Name is "mutate".
func (g *Generator) Name() string { return Name }

// Operators are the names of all mistakes.
func Operators() []string {
	var out []string
	for _, o := range operators() {
		out = append(out, o.name)
	}
	return out
}

// Proposal is a change that parses and is not decided yet.
type Proposal struct {
	ID        string // of the content: equal in every run
	Operators []string
	Functions []string          // where, "Class.method"
	Files     map[string][]byte // by path relative to the working directory
	Lines     map[string][]int  // of the old files, from 1
}

func (p Proposal) change() decide.Change {
	return decide.Change{ID: p.ID, Files: p.Files, Lines: p.Lines}
}

// Proposals gives the changes of a world's sources, in the order of its seed.
func (g *Generator) Proposals(ctx context.Context, w *forge.World) iter.Seq2[Proposal, error] {
	return g.draw(ctx, sources(w), w.Seed, w.Say)
}

func (g *Generator) draw(ctx context.Context, files iter.Seq2[string, []byte], seed uint64, say func(string, ...any)) iter.Seq2[Proposal, error] {
	return func(yield func(Proposal, error) bool) {
		table := operators()
		if len(g.c.Only) > 0 {
			table = slices.DeleteFunc(table, func(o operator) bool { return !slices.Contains(g.c.Only, o.name) })
		}
		var all []*site
		for name, src := range files {
			f, err := newFile(ctx, g.c.Parser, name, src)
			switch {
			case errors.Is(err, syntax.ErrTooBig) || errors.Is(err, syntax.ErrTooLong):
				say("%s is left out: %v", name, err)
			case err != nil:
				yield(Proposal{}, err)
				return
			case f != nil:
				all = append(all, f.sites(table)...)
				f.forget()
			}
		}
		say("mutate: %d places for %d kinds of mistakes", len(all), len(table))
		g.proposals(ctx, ordered(all, table, seed), yield)
	}
}

// proposals makes changes of drawn sites; every seventh is of two mistakes in
// one function.
func (g *Generator) proposals(ctx context.Context, drawn []*site, yield func(Proposal, error) bool) {
	seen := map[string]bool{}
	for i, s := range drawn {
		if len(seen) >= g.c.Most {
			return
		}
		made := []*site{s}
		if i%7 == 6 {
			if other := beside(s, drawn[i+1:]); other != nil {
				made = append(made, other)
			}
		}
		p, ok, err := g.propose(ctx, made)
		if err != nil {
			yield(p, err)
			return
		}
		if ok && !seen[p.ID] {
			seen[p.ID] = true
			if !yield(p, nil) {
				return
			}
		}
	}
}

// beside is another mistake in the same function that leaves the first alone.
func beside(s *site, rest []*site) *site {
	if s.function == "" {
		return nil
	}
	for _, o := range rest[:min(len(rest), 4000)] {
		if o.file != s.file || o.function != s.function || o.operator == s.operator || o.weight < 4 {
			continue
		}
		if first, second := s.edits, o.edits; first[len(first)-1].end < second[0].start || second[len(second)-1].end < first[0].start {
			return o
		}
	}
	return nil
}

// propose applies sites of one file.
func (g *Generator) propose(ctx context.Context, made []*site) (Proposal, bool, error) {
	f := made[0].file
	p := Proposal{Files: map[string][]byte{}, Lines: map[string][]int{}}
	var edits []edit
	for _, s := range made {
		edits = append(edits, s.edits...)
		p.Operators = append(p.Operators, s.operator)
		if !slices.Contains(p.Functions, s.function) {
			p.Functions = append(p.Functions, s.function)
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.start - b.start })
	if !f.changes(edits) {
		return p, false, nil
	}
	changed := apply(f.src, edits)
	if ok, err := parses(ctx, g.c.Parser, f, changed); !ok || err != nil {
		return p, false, err
	}
	p.Files[f.path] = changed
	p.Lines[f.path] = lines(f.src, edits)
	p.ID = identity(p.Files)
	return p, true, nil
}

func lines(src []byte, edits []edit) []int {
	var out []int
	for _, e := range edits {
		first := 1 + strings.Count(string(src[:e.start]), "\n")
		last := first + strings.Count(strings.TrimSuffix(string(src[e.start:e.end]), "\n"), "\n")
		for l := first; l <= last; l++ {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func identity(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(files[name]))
		h.Write(files[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Propose decides the proposals and yields those that stable tests kill, in the
// order of the proposals whatever order they were decided in: first those that
// few tests see. Of every few it also yields bugs combined of two files.
func (g *Generator) Propose(ctx context.Context, w *forge.World, yield func(forge.Candidate) error) error {
	q := &queue{g: g, w: w, yield: yield, verdicts: map[string]decide.Verdict{}, index: map[string]int{}}
	var failed error
	changes := func(yield func(decide.Change) bool) {
		for p, err := range g.Proposals(ctx, w) {
			if err != nil {
				failed = err
				return
			}
			q.asked(p)
			if !yield(p.change()) {
				return
			}
		}
	}
	if err := errors.Join(g.c.Decide(ctx, w, changes, q.take), failed); err != nil {
		return err
	}
	return q.finish()
}

// queue brings verdicts back into the order of their proposals.
type queue struct {
	g     *Generator
	w     *forge.World
	yield func(forge.Candidate) error

	mu        sync.Mutex // proposals are asked for and verdicts come from wherever the decider likes
	proposals []Proposal
	index     map[string]int

	verdicts map[string]decide.Verdict
	next     int
	broad    []forge.Candidate // that many tests see: last
	singles  []killed          // not yet in a combined bug
	kept     int
}

func (q *queue) asked(p Proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index[p.ID] = len(q.proposals)
	q.proposals = append(q.proposals, p)
}

// upcoming is the proposal whose verdict is to be told next, if it has one.
func (q *queue) upcoming() (Proposal, decide.Verdict, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next >= len(q.proposals) {
		return Proposal{}, decide.Verdict{}, false
	}
	p := q.proposals[q.next]
	v, ok := q.verdicts[p.ID]
	if ok {
		delete(q.verdicts, p.ID)
		q.proposals[q.next] = Proposal{} // its files are not needed any more
		q.next++
	}
	return p, v, ok
}

type killed struct {
	p      Proposal
	failed []string
}

func (q *queue) take(v decide.Verdict) error {
	q.mu.Lock()
	_, ok := q.index[v.ID]
	if ok {
		q.verdicts[v.ID] = v
	}
	q.mu.Unlock()
	if !ok {
		return fmt.Errorf("a verdict of %s, which was not asked for", v.ID)
	}
	for {
		p, v, ok := q.upcoming()
		if !ok {
			return nil
		}
		if err := q.decided(p, v); err != nil {
			return err
		}
	}
}

func (q *queue) decided(p Proposal, v decide.Verdict) error {
	failed := slices.Sorted(maps.Keys(v.Failed))
	if v.Class != decide.Killed || len(failed) == 0 || !runs(v) {
		return nil
	}
	c, err := q.g.candidate(q.w, p, failed, v.Whole)
	if err != nil {
		return err
	}
	stable := 0
	for _, t := range q.w.Env.Suite.Tests {
		if t.Stability == "stable" {
			stable++
		}
	}
	if float64(len(failed)) > q.g.c.Broad*float64(stable) && len(failed) > 3 {
		q.broad = append(q.broad, c)
		return nil
	}
	if err := q.yield(c); err != nil {
		return err
	}
	q.kept++
	if len(p.Operators) == 1 && float64(len(failed)) <= q.g.c.Broad/2*float64(stable)+2 {
		q.singles = append(q.singles, killed{p, failed})
	}
	if q.kept%9 == 0 {
		return q.combine()
	}
	return nil
}

// runs reports whether tests still ran: where all of them are missing, nothing
// could be imported.
func runs(v decide.Verdict) bool {
	missing := 0
	for _, status := range v.Failed {
		if status == "missing" || status == "" {
			missing++
		}
	}
	return missing < len(v.Failed) || len(v.Failed) < v.Ran
}

// combine makes one bug of two or three that were decided alone, in different
// files where there are such. Each is used once.
func (q *queue) combine() error {
	if len(q.singles) < 2 {
		return nil
	}
	chosen := []killed{q.singles[0]}
	rest := q.singles[1:]
	most := 2 + int((q.w.Seed+uint64(q.kept))/9%2)
	for pass := range 2 { // first other files, then other functions
		for i := 0; i < len(rest) && len(chosen) < most; i++ {
			if fits(chosen, rest[i], pass == 0) {
				chosen = append(chosen, rest[i])
				rest = slices.Delete(rest, i, i+1)
				i--
			}
		}
	}
	if len(chosen) < 2 {
		return nil
	}
	q.singles = rest
	p := Proposal{Files: map[string][]byte{}, Lines: map[string][]int{}}
	var failed []string
	for _, k := range chosen {
		p.Operators = append(p.Operators, k.p.Operators...)
		p.Functions = append(p.Functions, k.p.Functions...)
		failed = append(failed, k.failed...)
		for name := range k.p.Files {
			p.Files[name], p.Lines[name] = k.p.Files[name], k.p.Lines[name]
		}
	}
	slices.Sort(failed)
	p.ID = identity(p.Files)
	c, err := q.g.candidate(q.w, p, slices.Compact(failed), false)
	if err != nil {
		return err
	}
	return q.yield(c)
}

// fits reports whether a bug can be added: its files are others. Bugs of one
// file would have to be merged; those are proposed and decided as such.
func fits(chosen []killed, k killed, far bool) bool {
	for _, c := range chosen {
		for name := range k.p.Files {
			if _, taken := c.p.Files[name]; taken {
				return false
			}
			for other := range c.p.Files {
				if far && path.Dir(other) != path.Dir(name) {
					return false
				}
			}
		}
	}
	return true
}

func (q *queue) finish() error {
	for _, c := range q.broad {
		if err := q.yield(c); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a proposal as the forge takes it.
func (g *Generator) candidate(w *forge.World, p Proposal, failed []string, whole bool) (forge.Candidate, error) {
	c := forge.Candidate{Generator: Name, Name: Name + "-" + p.Operators[0] + "-" + p.ID[:8], Grade: forge.GradePatch, Operators: p.Operators, Seed: w.Seed,
		Covering: failed, Notes: map[string]string{"functions": strings.Join(p.Functions, " ")}}
	if len(p.Operators) > 1 {
		c.Name = fmt.Sprintf("%s-%d-%s-%s", Name, len(p.Operators), p.Operators[0], p.ID[:8])
	}
	if whole {
		c.Expect, c.Covering = failed, nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		at := path.Join(w.Env.Workdir, name)
		e, err := w.Tree.Lstat(at)
		if err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
		c.Broken = append(c.Broken, forge.Edit{Path: at, Type: image.TypeFile, Mode: e.Mode, UID: e.UID, GID: e.GID, Data: p.Files[name]})
		c.Notes["lines "+name] = strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Lines[name]), " ", ","), "[]")
	}
	return c, nil
}
