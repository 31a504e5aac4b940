package decide

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// Policy says when a change is decided.
type Policy string

const (
	// FirstFailure stops at the first stable test that does not pass.
	FirstFailure Policy = ""
	// AllCovering runs every covering test, so that Failed is complete.
	AllCovering Policy = "all"
)

// Config is what a Decider needs. Env, Images and Backend are required.
type Config struct {
	Env        *repo.Environment
	Images     *image.Store
	Backend    sandbox.Backend
	Concurrent int    // changes decided at a time; 0: one
	Policy     Policy // zero: FirstFailure
	// Journal is a file to which each verdict is appended as it comes, and from
	// which those of equal changes of an equal environment are taken: what was
	// decided stays decided, whenever the process ends. Empty: none.
	Journal string
	Cold    bool // every run starts a process of its own
	Limits  sandbox.Limits
	// Floor is the least time limit of a run; the limit is three times what the
	// suite takes uncached, with its build, where that is more. 0: 10 s.
	Floor time.Duration
	// Once takes a timeout for one at once. It is for callers that take no such
	// change: otherwise it must come again with nothing else running.
	Once bool
	Say  func(format string, args ...any) // nil: silence
}

// Decider decides changes of one environment. Decide may be called again, but
// not concurrently.
type Decider struct {
	c       Config
	suite   *suite
	tree    *image.View
	image   image.Image
	journal *journal
	alone   sync.RWMutex // read by each run, held by one that must be alone
	slots   []*slot

	mu    sync.Mutex
	proof map[string]bool // tests, by global id, that are known to pass or not when they run in a selection
	cold  map[string]bool // commands, by name, whose warm driver does not give what the suite gives
	begun map[string]*sync.Once
	jvms  map[string]*mavenGround // of commands, by name; each is learnt once
}

// New prepares; sandboxes are made when they are needed.
func New(ctx context.Context, c Config) (*Decider, error) {
	if c.Concurrent <= 0 {
		c.Concurrent = 1
	}
	if c.Floor <= 0 {
		c.Floor = floor
	}
	if c.Say == nil {
		c.Say = func(string, ...any) {}
	}
	if c.Limits.DiskBytes == 0 {
		c.Limits.DiskBytes = 2 << 30 // build caches grow
	}
	im, err := c.Images.Resolve(c.Env.Image)
	if err != nil {
		return nil, fmt.Errorf("decide: the healthy image: %w", err)
	}
	d := &Decider{c: c, image: im, suite: newSuite(c.Env),
		proof: map[string]bool{}, cold: map[string]bool{}, begun: map[string]*sync.Once{}, jvms: map[string]*mavenGround{}}
	for _, cmd := range d.suite.commands {
		d.begun[cmd.Name], d.jvms[cmd.Name] = &sync.Once{}, &mavenGround{}
	}
	if d.tree, err = c.Images.View(im.Layers); err != nil {
		return nil, fmt.Errorf("decide: the healthy tree: %w", err)
	}
	if c.Journal != "" {
		if d.journal, err = openJournal(c.Journal, ground(c)); err != nil {
			return nil, err
		}
	}
	for n := range c.Concurrent {
		d.slots = append(d.slots, &slot{d: d, n: n, drivers: map[string]driver{}})
	}
	return d, nil
}

// Close ends every sandbox. It may be repeated.
func (d *Decider) Close() error {
	var errs []error
	for _, s := range d.slots {
		errs = append(errs, s.close())
	}
	if d.journal != nil {
		errs = append(errs, d.journal.close())
	}
	return errors.Join(errs...)
}

// group is how many changes one build may hold, of drivers that can do that.
const group = 96

// Decide decides each change and yields its verdict, in the order in which they
// come out. It ends with the first error of yield, which it returns; a change
// that cannot be decided is a verdict, not an error.
func (d *Decider) Decide(ctx context.Context, changes iter.Seq[Change], yield func(Verdict) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var out sync.Mutex
	tell := func(j *job, v Verdict) {
		out.Lock()
		defer out.Unlock()
		if ctx.Err() != nil {
			return
		}
		if d.journal != nil && v.Class != Lost && !j.known {
			if err := d.journal.put(j.key, v); err != nil {
				stop(err)
				return
			}
		}
		if err := yield(v); err != nil {
			stop(err)
		}
	}
	work := make(chan []*job)
	var busy sync.WaitGroup
	for _, s := range d.slots {
		busy.Go(func() {
			for jobs := range work {
				s.decide(ctx, jobs, tell)
			}
		})
	}
	d.feed(ctx, changes, work, tell)
	close(work)
	busy.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// feed sorts changes into groups that are worked on together.
func (d *Decider) feed(ctx context.Context, changes iter.Seq[Change], work chan<- []*job, tell func(*job, Verdict)) {
	open, order := map[string][]*job{}, []string{}
	send := func(jobs []*job) {
		select {
		case work <- jobs:
		case <-ctx.Done():
		}
	}
	for ch := range changes {
		if ctx.Err() != nil {
			return
		}
		j, v := d.prepare(ch)
		if v != nil {
			tell(j, *v)
			continue
		}
		if j.group == "" {
			send([]*job{j})
			continue
		}
		if open[j.group] = append(open[j.group], j); len(open[j.group]) == 1 {
			order = append(order, j.group)
		}
		if len(open[j.group]) == group*len(d.slots) {
			for _, part := range shares(open[j.group], len(d.slots)) {
				send(part)
			}
			open[j.group] = nil
		}
	}
	for _, g := range order {
		for _, part := range shares(open[g], len(d.slots)) {
			send(part)
		}
		open[g] = nil
	}
}

// shares deals jobs out to n hands, so that all have work of each kind.
func shares(jobs []*job, n int) [][]*job {
	var out [][]*job
	for i := range n {
		var part []*job
		for k := i; k < len(jobs); k += n {
			part = append(part, jobs[k])
		}
		if len(part) > 0 {
			out = append(out, part)
		}
	}
	return out
}

// job is a change on its way.
type job struct {
	change Change
	key    string
	known  bool              // the journal has its verdict
	old    map[string][]byte // files as they are; a missing one is new
	tests  [][]*test         // by command: those that cover it, in the order in which they run
	group  string            // changes of one group can share a build; empty: alone
	v      Verdict
	began  time.Time
}

// prepare says what there is to run, or the verdict where nothing is.
func (d *Decider) prepare(ch Change) (*job, *Verdict) {
	j := &job{change: ch, v: Verdict{ID: ch.ID, Failed: map[string]string{}}}
	lost := func(err error) (*job, *Verdict) {
		j.v.Class, j.v.Output = Lost, err.Error()
		return j, &j.v
	}
	var err error
	if j.old, err = d.olds(ch); err != nil {
		return lost(err)
	}
	if j.v.Patch, err = Patch(j.old, ch.Files); err != nil {
		return lost(err)
	}
	j.key = changeKey(ch)
	if d.journal != nil {
		if v, ok := d.journal.get(j.key); ok {
			v.ID, v.Patch, j.known = ch.ID, j.v.Patch, true
			return j, &v
		}
	}
	if j.v.Patch == "" {
		return lost(errors.New("the change changes nothing"))
	}
	any := false
	j.tests, any = d.suite.covering(j.old, ch)
	if !any {
		j.v.Class, j.v.Whole = Uncovered, true
		return j, &j.v
	}
	j.group = d.groupOf(j)
	return j, nil
}

// isCold says whether a command's runs start processes of their own.
func (d *Decider) isCold(c *command) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.c.Cold || d.cold[c.Name]
}

func (d *Decider) turnCold(c *command, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.cold[c.Name] {
		d.c.Say("%s: runs of %q start anew each time: %s", d.c.Env.Name, c.Name, why)
	}
	d.cold[c.Name] = true
}
