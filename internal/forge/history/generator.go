package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/forge"
	"assay/internal/forge/decide"
	"assay/internal/repo"
)

// Generator mines the clone of its world. The zero value proposes from all of
// the past, with statements from the messages and changelogs alone.
type Generator struct {
	Issues Issues
	Since  time.Time // commits of before do not count
	Limits Limits
	Parser Parser // nil: entities are found by the shape of lines
	// Decider runs the suite without the change; nil: one is made for the world.
	Decider Decider
	// Blind proposes without running anything: the forge's bite run decides.
	Blind bool

	Funnel Funnel // of the last Propose
}

// Decider decides changes; *decide.Decider is one.
type Decider interface {
	Decide(ctx context.Context, changes iter.Seq[decide.Change], yield func(decide.Verdict) error) error
}

// Name is the generator's name in quotas and provenance.
func (g *Generator) Name() string { return "history" }

// Sifted is part of forge.Sifter.
func (g *Generator) Sifted() forge.Sifting {
	f := &g.Funnel
	s := forge.Sifting{Of: "commits", Total: f.Commits, Scan: f.Scan.Seconds(), Read: f.Read, Proposed: f.Proposed, Dropped: map[string]int{}}
	for r, n := range f.Rejected {
		s.Dropped[string(r)] = n
	}
	return s
}

// Propose reads the log once, puts what is likely first, and goes into the
// commits in that order.
func (g *Generator) Propose(ctx context.Context, w *forge.World, yield func(forge.Candidate) error) error {
	g.Funnel = Funnel{Rejected: map[Reason]int{}}
	if w.Git == "" {
		w.Say("history: there is no clone with a history")
		return nil
	}
	git, err := repo.OpenGit(ctx, w.Git, "")
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer git.Close()
	began := time.Now()
	commits, err := scan(ctx, git, ground(ctx, git, w.Env.Source.Commit))
	if err != nil {
		return fmt.Errorf("history: read the log of %s: %w", w.Git, err)
	}
	q := g.sift(commits, patterns(w.Env.Suite.TestFiles), w.Env.Subdir)
	g.Funnel.Commits, g.Funnel.Scan = len(commits), time.Since(began)
	w.Say("history: %d commits in %.1f s (%.0f a second), %d touch source and tests", len(commits), g.Funnel.Scan.Seconds(),
		float64(len(commits))/max(g.Funnel.Scan.Seconds(), 1e-3), len(q.todo))
	if git.Shallow {
		w.Say("history: the clone is shallow; git fetch --unshallow brings the rest of its past")
	}
	dir, err := os.MkdirTemp("", "assay-history-")
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer os.RemoveAll(dir)
	objects := git.Objects()
	defer objects.Close()
	objects.MaxObject = maxBlob
	x := &miner{g: g, w: w, git: git, objects: objects, back: reverser{git: git, dir: dir}, queue: q, people: people(commits), seen: map[string]bool{}}
	decider, done, err := g.decider(ctx, w)
	if err != nil {
		return err
	}
	defer done()
	return x.run(ctx, decider, yield)
}

// maxBlob is the largest file of a commit that is looked at.
const maxBlob = 4 << 20

// decider is the one that was given, or one for this world.
func (g *Generator) decider(ctx context.Context, w *forge.World) (Decider, func(), error) {
	if g.Blind || g.Decider != nil || w.Backend == nil || w.Images == nil {
		return g.Decider, func() {}, nil
	}
	c := decide.Config{Env: w.Env, Images: w.Images, Backend: w.Backend, Policy: decide.AllCovering, Say: w.Say}
	if w.Cache != "" {
		c.Journal = filepath.Join(w.Cache, "decided.ndjson")
	}
	d, err := decide.New(ctx, c)
	if err != nil {
		return nil, nil, fmt.Errorf("history: %w", err)
	}
	return d, func() {
		if err := d.Close(); err != nil {
			w.Say("history: %v", err)
		}
	}, nil
}

// queue is what is still to be looked at, best first.
type queue struct {
	todo []*mined
	// inner are the commits that a merge brought; they come into the queue when
	// the merge turns out to be no candidate.
	inner map[string][]*mined
}

// sift leaves what the log alone does not refuse.
func (g *Generator) sift(commits []*commit, isTest func(string) bool, subdir string) *queue {
	p, l := look(commits), g.Limits.filled()
	q := &queue{inner: map[string][]*mined{}}
	known := names{}
	kept := map[string]*mined{}
	var all []*mined
	for _, c := range commits {
		m, why := sift(c, p, l, isTest)
		if why == "" && !g.Since.IsZero() && c.when.Before(g.Since) {
			why = Old
		}
		if why == "" && subdir != "" {
			why = m.below(subdir)
		}
		if why == "" {
			m.now = map[string]string{}
			for _, f := range slices.Concat(m.source, m.tests, m.logs) {
				m.now[f.path] = known.now(f.path)
			}
			kept[c.id] = m
			all = append(all, m)
		} else {
			g.Funnel.reject(why)
		}
		known.pass(c)
		c.files = nil // the kept ones are sorted by kind already
	}
	for _, m := range all {
		if by := p.brought[m.id]; by != "" && kept[by] != nil {
			q.inner[by] = append(q.inner[by], m)
			continue
		}
		q.todo = append(q.todo, m)
	}
	slices.SortFunc(q.todo, better)
	return q
}

func better(a, b *mined) int {
	return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.id, b.id))
}

// below leaves the tests of the part of the repository whose suite is run.
func (m *mined) below(dir string) Reason {
	m.tests = slices.DeleteFunc(m.tests, func(f file) bool { return !strings.HasPrefix(f.path, strings.Trim(dir, "/")+"/") })
	if len(m.tests) == 0 && m.reverting == nil {
		return NoTests
	}
	return ""
}

// people are the names of authors that are two words at least: "Ann" alone is
// in too many texts by accident.
func people(commits []*commit) *strings.Replacer {
	seen := map[string]bool{}
	var all []string
	for _, c := range commits {
		if n := c.author; strings.Contains(n, " ") && len(n) > 6 && !seen[n] && len(all) < 20_000 {
			seen[n] = true
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(all))
	for _, n := range all {
		pairs = append(pairs, n, "")
	}
	return strings.NewReplacer(pairs...)
}

// miner goes into commits.
type miner struct {
	g       *Generator
	w       *forge.World
	git     *repo.Git
	objects *repo.Objects
	back    reverser
	people  *strings.Replacer
	seen    map[string]bool // digests of broken trees
	tried   int             // trees of before a commit that were asked for

	*queue
}

const (
	chunk = 64 // commits whose patches are asked for together
	batch = 16 // candidates that are decided together
)

func (x *miner) run(ctx context.Context, d Decider, yield func(forge.Candidate) error) error {
	var ready []proposal
	for len(x.todo) > 0 {
		part := x.todo[:min(chunk, len(x.todo))]
		x.todo = x.todo[len(part):]
		x.g.Funnel.Read += len(part)
		changed, err := patches(ctx, x.git, part)
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		for _, m := range part {
			p, why, err := x.examine(ctx, m, changed[m.id])
			if err != nil {
				return fmt.Errorf("history: commit %s: %w", m.id, err)
			}
			if why != "" {
				x.refuse(m, why)
				continue
			}
			ready = append(ready, p)
			if len(ready) == batch {
				if err := x.propose(ctx, d, ready, yield); err != nil {
					return err
				}
				ready = ready[:0]
			}
		}
		if len(x.todo) == 0 { // what is refused now may bring more
			if err := x.propose(ctx, d, ready, yield); err != nil {
				return err
			}
			ready = ready[:0]
		}
	}
	return nil
}

// refuse counts, and lets in the commits of a merge that is none itself.
func (x *miner) refuse(m *mined, why Reason) {
	x.g.Funnel.reject(why)
	if in := x.inner[m.id]; len(in) > 0 {
		delete(x.inner, m.id)
		slices.SortFunc(in, better)
		x.todo = append(x.todo, in...)
	}
}

// accept counts a candidate, and the commits of its merge with it.
func (x *miner) accept(m *mined) {
	x.g.Funnel.Proposed++
	for range x.inner[m.id] {
		x.g.Funnel.reject(InMerge)
	}
	delete(x.inner, m.id)
}

// proposal is a candidate before its tests were run.
type proposal struct {
	forge.Candidate
	m     *mined
	files map[string][]byte // of the broken tree; nil: it cannot be decided file by file
	lines map[string][]int
}

// propose runs the suite on each broken tree and yields those that it notices.
func (x *miner) propose(ctx context.Context, d Decider, all []proposal, yield func(forge.Candidate) error) error {
	verdicts := map[string]decide.Verdict{}
	if d != nil {
		changes := func(yield func(decide.Change) bool) {
			for _, p := range all {
				if p.files != nil && !yield(decide.Change{ID: p.Name, Files: p.files, Lines: p.lines}) {
					return
				}
			}
		}
		if err := d.Decide(ctx, changes, func(v decide.Verdict) error { verdicts[v.ID] = v; return nil }); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	for _, p := range all {
		if v, ok := verdicts[p.Name]; ok {
			if why := judge(v); why != "" {
				x.refuse(p.m, why)
				continue
			}
			for id := range v.Failed {
				p.Expect = append(p.Expect, id)
			}
			slices.Sort(p.Expect)
		}
		x.accept(p.m)
		if err := yield(p.Candidate); err != nil {
			return err
		}
	}
	return nil
}

func judge(v decide.Verdict) Reason {
	switch {
	case v.Class == decide.Killed && len(v.Failed) > 0:
		return ""
	case v.Class == decide.Unviable:
		return Unviable
	case v.Class == decide.Lost:
		return Undecided
	}
	return NoKill
}

// digest tells broken trees apart.
func digest(d forge.Delta) string {
	h := sha256.New()
	for _, e := range d {
		fmt.Fprintf(h, "%d:%s %s %d:", len(e.Path), e.Path, e.Type, len(e.Data))
		h.Write(e.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// get reads a file of a commit; ok is false where there is none to be had.
func (x *miner) get(ctx context.Context, name string) (b []byte, ok bool, err error) {
	o, err := x.objects.Get(ctx, name)
	switch {
	case err == nil:
		return o.Data, o.Type == "blob", nil
	case errors.Is(err, repo.ErrNoObject), errors.Is(err, repo.ErrObjectTooLarge):
		return nil, false, nil
	}
	return nil, false, err
}
