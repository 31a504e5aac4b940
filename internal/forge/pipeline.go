package forge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"assay/internal/proof"
	"assay/task"
)

// errEnough ends a generator of which nothing more is wanted.
var errEnough = errors.New("enough")

// feed is one generator at work, in a goroutine of its own.
type feed struct {
	gen  Generator
	want int // 0: all
	ch   chan Candidate
	err  error // of Propose, once ch is closed

	asked    bool // Propose was called
	ended    bool
	admitted int        // of all runs
	taken    int        // candidates of this run
	ready    []*attempt // bitten, in order, not proved yet
	dups     int
}

// full reports whether nothing more is to be taken of a feed.
func (d *feed) full(probe int) bool {
	return d.ended || d.want > 0 && d.admitted+len(d.ready) >= d.want || probe > 0 && d.taken >= probe
}

// need is how many of its bitten candidates are to be proved now.
func (d *feed) need() int {
	if d.want == 0 {
		return len(d.ready)
	}
	return max(0, min(len(d.ready), d.want-d.admitted))
}

// outcome is what a run came to, beside the ledger.
type outcome struct {
	feeds []*feed
	lost  int
	spent map[string]float64 // seconds of the pump's time, by generator
}

// spend shares the time since begin out among the generators of a batch.
func (o *outcome) spend(begin time.Time, batch []*attempt) {
	each := time.Since(begin).Seconds() / float64(max(1, len(batch)))
	for _, a := range batch {
		o.spent[a.cand.Generator] += each
	}
}

func (f *forge) run(ctx context.Context) (*outcome, error) {
	o := &outcome{spent: map[string]float64{}}
	inner, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wake := make(chan struct{}, 1)
	for _, g := range f.cfg.Generators {
		d := &feed{gen: g, want: f.cfg.Want[g.Name()], ch: make(chan Candidate, 4)}
		for _, r := range f.ledger.all {
			if r.Stage == StageAdmitted && r.Generator == g.Name() && f.dirs[r.Task] == r.Key {
				d.admitted++
			}
		}
		o.feeds = append(o.feeds, d)
		if d.want > 0 && d.admitted >= d.want {
			d.ended = true
			continue
		}
		w := f.world(g.Name())
		d.asked = true
		wg.Go(func() { d.propose(inner, w, wake) })
	}
	err := f.pump(inner, o, wake)
	cancel(errEnough)
	for _, d := range o.feeds {
		go func() {
			for range d.ch { // whoever waits to hand one over
			}
		}()
	}
	wg.Wait()
	for _, d := range o.feeds {
		if d.err != nil && !errors.Is(d.err, errEnough) && ctx.Err() == nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", d.gen.Name(), d.err))
		}
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return o, err
}

// propose runs the generator. A candidate is in the channel before wake says so.
func (d *feed) propose(ctx context.Context, w *World, wake chan<- struct{}) {
	ring := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	d.err = d.gen.Propose(ctx, w, func(c Candidate) error {
		c.Generator = d.gen.Name()
		select {
		case d.ch <- c:
			ring()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if ctx.Err() != nil && errors.Is(d.err, context.Canceled) {
		d.err = context.Cause(ctx) // it was told to end, and says so in its way
	}
	close(d.ch)
	ring()
}

// sifted is what the generators that proposed in this run lost before.
func (o *outcome) sifted() map[string]Sifting {
	if o == nil {
		return nil
	}
	all := map[string]Sifting{}
	for _, d := range o.feeds {
		if s, ok := d.gen.(Sifter); ok && d.asked {
			all[d.gen.Name()] = s.Sifted()
		}
	}
	return all
}

// pump takes candidates, looks at them, and proves those that bite, batch by
// batch, until no feed has or wants more.
func (f *forge) pump(ctx context.Context, o *outcome, wake <-chan struct{}) error {
	// Of a slow suite few at a time: only between batches does anything end.
	size := f.cfg.Concurrent * max(1, min(4, int(15_000/max(1, f.cfg.Env.Suite.Millis))))
	var over <-chan time.Time
	if f.cfg.For > 0 {
		over = time.After(f.cfg.For - time.Since(f.began))
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			f.cfg.Say("the time of %s is over", f.cfg.For)
			return nil
		default:
		}
		begin := time.Now()
		batch, err := f.collect(ctx, o, size)
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			if err := f.bite(ctx, o, batch); err != nil {
				return err
			}
			o.spend(begin, batch)
		}
		proved, err := f.prove(ctx, o)
		if err != nil {
			return err
		}
		if len(batch) > 0 || proved > 0 {
			continue
		}
		open := false
		for _, d := range o.feeds {
			open = open || !d.full(f.cfg.Probe)
		}
		if !open {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
		case <-over:
			f.cfg.Say("the time of %s is over", f.cfg.For)
			return nil
		}
	}
}

// collect takes what the feeds have ready, in turns.
func (f *forge) collect(ctx context.Context, o *outcome, n int) ([]*attempt, error) {
	var batch []*attempt
	in := map[*feed]int{}
	for more := true; more && len(batch) < n; {
		more = false
		for _, d := range o.feeds {
			// Beyond what is wanted, a few more: not every one bites.
			if d.full(f.cfg.Probe) || d.want > 0 && in[d] >= 2*(d.want-d.admitted)+1 || len(batch) == n {
				continue
			}
			select {
			case c, ok := <-d.ch:
				more = true
				if !ok {
					d.ended = true
					continue
				}
				d.taken++
				a, err := f.work(ctx, c)
				if a, err = f.settle(o, d, c, a, err, false); err != nil {
					return nil, err
				}
				if a != nil {
					batch = append(batch, a)
					in[d]++
				}
			default:
			}
		}
	}
	return batch, nil
}

// settle writes down why a candidate goes no further; it gives back one that
// does.
func (f *forge) settle(o *outcome, d *feed, c Candidate, a *attempt, err error, built bool) (*attempt, error) {
	var no *rejected
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, errKnown):
		return nil, nil
	case !errors.As(err, &no):
		return nil, fmt.Errorf("%s: candidate %s: %w", d.gen.Name(), c.Name, err)
	}
	rec := Record{Stage: StageRejected, Generator: d.gen.Name(), Name: c.Name, Why: no.why, Detail: no.detail, Built: built, Operators: c.Operators,
		Bitten: built && (no.why == whyGold || no.why == whyUnproved || no.why == whyLeak || no.why == whyUnstable || no.why == whyVisible || no.why == whyLoose || no.why == whyForgeable)}
	if no.why == whyDuplicate {
		d.dups++
		return nil, nil
	}
	if a != nil {
		rec.Key = a.key
	}
	return nil, f.tell(rec)
}

func (f *forge) tell(rec Record) error {
	if err := f.ledger.append(rec); err != nil {
		return err
	}
	if f.cfg.OnRecord != nil {
		f.cfg.OnRecord(rec)
	}
	return nil
}

// bite looks at broken states, and at gold where that is not the healthy one.
func (f *forge) bite(ctx context.Context, o *outcome, batch []*attempt) error {
	var all, golden []*task.Task
	for _, a := range batch {
		if err := f.bare(a); err != nil {
			return fmt.Errorf("candidate %s: %w", a.cand.Name, err)
		}
		all = append(all, a.t)
		if len(a.cand.Gold) > 0 || len(a.cand.Tests) > 0 {
			golden = append(golden, a.t)
		}
	}
	defer os.RemoveAll(filepath.Join(f.tmp, "look"))
	seen, err := f.look(ctx, f.cfg.Arms.Idle, all)
	if err != nil {
		return err
	}
	var gold map[string]sight
	if len(golden) > 0 {
		if gold, err = f.look(ctx, f.cfg.Arms.Gold, golden); err != nil {
			return err
		}
	}
	for _, a := range batch {
		d := o.of(a)
		var ok bool
		if a.seen, ok = seen[a.t.Name]; !ok || a.seen.lost != "" {
			o.lose(f, a, a.seen.lost)
			continue
		}
		if g, ok := gold[a.t.Name]; ok {
			if g.lost != "" {
				o.lose(f, a, g.lost)
				continue
			}
			a.gold = &g
		}
		err := f.bitten(a)
		if err == nil {
			err = f.withhold(ctx, a)
		}
		kept, err := f.settle(o, d, a.cand, a, err, a.seen.refused == "")
		if err != nil {
			return err
		}
		if kept != nil {
			d.ready = append(d.ready, kept)
		}
	}
	return nil
}

func (o *outcome) of(a *attempt) *feed {
	for _, d := range o.feeds {
		if d.gen.Name() == a.cand.Generator {
			return d
		}
	}
	return nil // every candidate is a feed's
}

// lose counts a candidate of which nothing is known. It may come again in
// another run.
func (o *outcome) lose(f *forge, a *attempt, why string) {
	o.lost++
	f.cfg.Say("%s: no verdict on %s: %s", a.cand.Generator, a.cand.Name, cut(why, 300))
}

// prove proves what bites, in the order in which it was proposed, and admits
// what is proved. It gives back how many it tried.
func (f *forge) prove(ctx context.Context, o *outcome) (int, error) {
	var batch []*attempt
	for _, d := range o.feeds {
		n := d.need()
		batch = append(batch, d.ready[:n]...)
		d.ready = d.ready[n:]
	}
	if len(batch) == 0 {
		return 0, nil
	}
	defer o.spend(time.Now(), batch)
	dir, err := os.MkdirTemp(f.tmp, "proof-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	defer os.RemoveAll(filepath.Join(f.tmp, "prove"))
	var provable []*attempt
	var tasks []*task.Task
	for _, a := range batch {
		err := f.final(a)
		kept, err := f.settle(o, o.of(a), a.cand, a, err, true)
		if err != nil {
			return 0, err
		}
		if kept != nil {
			provable, tasks = append(provable, a), append(tasks, a.t)
		}
	}
	if len(tasks) == 0 {
		return len(batch), nil
	}
	proofs, err := proof.Prove(ctx, proof.Config{Dir: filepath.Join(dir, "p"), Tasks: tasks, Level: proof.Quick, UID: f.uid(), Concurrent: f.cfg.Concurrent,
		Arms: f.cfg.Arms, Leaks: true, Git: f.cfg.GitProgram, Cache: f.cfg.Lines}, f.cfg.Deps)
	if err != nil {
		return 0, err
	}
	for i, a := range provable {
		if err := f.take(o, a, proofs[i]); err != nil {
			return 0, err
		}
	}
	return len(batch), nil
}

// take admits a proved task, and writes down why another is not.
func (f *forge) take(o *outcome, a *attempt, p proof.Proof) error {
	d := o.of(a)
	if p.Lost {
		o.lose(f, a, fmt.Sprint(p.Reasons))
		return nil
	}
	if err := conclude(p); err != nil {
		_, err = f.settle(o, d, a.cand, a, err, true)
		return err
	}
	name, err := f.admit(a)
	if err != nil {
		return err
	}
	n, err := size(filepath.Join(f.cfg.Dir, name))
	if err != nil {
		return err
	}
	f.dirs[name] = a.key
	d.admitted++
	bad, fine := a.lists.count()
	return f.tell(Record{Key: a.key, Stage: StageAdmitted, Generator: d.gen.Name(), Name: a.cand.Name, Built: true, Bitten: true, Task: name, Bytes: n,
		Fail: bad, Pass: fine, Level: string(p.Level), Evidence: string(p.Evidence), Operators: a.cand.Operators})
}
