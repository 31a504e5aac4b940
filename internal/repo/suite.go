package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// SuiteConfig says what is run and how long. Backend, Image and Commands are
// needed.
type SuiteConfig struct {
	Backend  sandbox.Backend
	Image    image.Image // the healthy one
	Workdir  string      // absolute; empty: the image's, else /app
	Commands []Command
	Runs     int           // 0: 3
	Seed     uint64        // of orders and hash seeds
	Limit    time.Duration // of one run of one command; 0: 10 minutes
	Budget   time.Duration // of all that is done; 0: 30 minutes
	UID      sandbox.UIDMode
	User     string // empty: the image's
	Limits   sandbox.Limits
	Env      []string // for trying something out: what a suite needs belongs into the image
	// Egress lets a run reach the network once, to see whether that is what
	// failing tests want; nil: what they print has to tell.
	Egress     sandbox.Egress
	NoCoverage bool
	NoVariants bool                             // do not try what might cure failing tests
	Say        func(format string, args ...any) // progress for people; nil: none
}

// SuiteError: no test of the suite passes in every run, so that it can decide
// nothing. Its findings say why, worst first.
type SuiteError struct {
	Findings []Finding
	Output   string // the end of what the commands printed
}

func (e *SuiteError) Error() string {
	var b strings.Builder
	b.WriteString("the suite has no test that passes in every run")
	for i, f := range e.Findings {
		if i == 4 {
			fmt.Fprintf(&b, "; and %d more findings", len(e.Findings)-i)
			break
		}
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// String is a finding for people, on one line.
func (f Finding) String() string {
	s := string(f.Kind)
	if f.Command != "" {
		s += " (" + f.Command + ")"
	}
	s += ": " + f.Detail
	if f.Remedy != "" {
		s += ": " + f.Remedy
	}
	return s
}

// RunSuite runs a suite several times, each time in a fresh fork of the healthy
// image and without network, and says which of its tests are stable, how long
// they take and what they cover. The runs differ in the order of tests, where
// the runner can, and in what hashes are seeded with. What became of a test is
// read from reports alone; an exit status decides only for a command without
// one. The suite comes back also beside a [SuiteError].
func RunSuite(ctx context.Context, c SuiteConfig) (Suite, error) {
	r, err := newSuiteRun(c)
	if err != nil {
		return Suite{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.c.Budget+r.c.Limit, errors.New("the suite's budget and one more run are used up"))
	defer cancel()
	for i := range r.c.Commands {
		if err := r.command(ctx, i); err != nil {
			return r.suite, fmt.Errorf("run the suite: %s: %w", r.c.Commands[i].Name, err)
		}
	}
	r.suite.Commands = r.c.Commands
	if err := r.locate(ctx); err != nil {
		return r.suite, fmt.Errorf("run the suite: %w", err)
	}
	if !r.c.NoVariants {
		if err := r.variants(ctx); err != nil {
			return r.suite, fmt.Errorf("run the suite: %w", err)
		}
	}
	stable := slices.ContainsFunc(r.suite.Tests, func(t Test) bool { return t.Stability == Stable })
	if stable && !r.c.NoCoverage {
		if err := r.cover(ctx); err != nil {
			return r.suite, fmt.Errorf("run the suite: coverage: %w", err)
		}
	}
	if !stable {
		r.find(Finding{Kind: NoneStable, Detail: "no test passes in every run", Remedy: "see the other findings; name a part of the suite that passes"})
	}
	slices.SortStableFunc(r.suite.Findings, func(a, b Finding) int { return cmp.Compare(a.Kind.rank(), b.Kind.rank()) })
	if !stable {
		return r.suite, &SuiteError{Findings: r.suite.Findings, Output: r.output}
	}
	return r.suite, nil
}

// Passing runs a suite once, in a fork of the image and without network, and says
// which of its tests pass, by their global ids: a look at a tree that may be
// broken, without all that RunSuite measures. Of a command that is ended at its
// limit those count that had passed by then.
func Passing(ctx context.Context, c SuiteConfig) (map[string]bool, error) {
	r, err := newSuiteRun(c)
	if err != nil {
		return nil, err
	}
	passed := map[string]bool{}
	for _, c := range r.c.Commands {
		got, err := r.run(ctx, c, trial{seed: r.c.Seed})
		if err != nil {
			return nil, fmt.Errorf("run the suite: %s: %w", c.Name, err)
		}
		var tests []report.Test
		if got.timedOut {
			tests = got.ended
		} else if !got.fatal() {
			tests = got.report.Tests
		}
		for _, t := range tests {
			if t.Status == report.Passed {
				passed[Test{Command: c.Name, ID: t.ID}.Global()] = true
			}
		}
	}
	return passed, nil
}

// rank orders findings by what they cost.
func (k FindingKind) rank() int {
	order := []FindingKind{NoneStable, Hang, Crash, OutOfMemory, NoReport, VoidReport, NoTests, Collection, Partial, NeedNetwork, NeedDisplay, NeedRoot,
		NeedNotRoot, NeedZone, NeedLocale, NeedHome, FailingTest, FlakyTest, UnstableIDs}
	if i := slices.Index(order, k); i >= 0 {
		return i
	}
	return len(order)
}

// suiteRun is the work of RunSuite.
type suiteRun struct {
	c      SuiteConfig
	suite  Suite
	start  time.Time
	output string
	// kept are the results of the last whole run of a command, by its index.
	kept map[int]result
	// files of the working directory, relative to it, without dependencies.
	files []string
}

func newSuiteRun(c SuiteConfig) (*suiteRun, error) {
	if c.Backend == nil || len(c.Commands) == 0 {
		return nil, errors.New("run the suite: a backend and commands are needed")
	}
	if c.Workdir == "" {
		c.Workdir = cmp.Or(string(c.Image.Config.Workdir), "/app")
	}
	if !path.IsAbs(c.Workdir) {
		return nil, fmt.Errorf("run the suite: the working directory %q is not absolute", c.Workdir)
	}
	c.Workdir = path.Clean(c.Workdir)
	c.Runs = cmp.Or(c.Runs, 3)
	c.Limit = cmp.Or(c.Limit, 10*time.Minute)
	c.Budget = cmp.Or(c.Budget, 30*time.Minute)
	if c.Say == nil {
		c.Say = func(string, ...any) {}
	}
	c.Commands = slices.Clone(c.Commands)
	return &suiteRun{c: c, start: time.Now(), kept: map[int]result{}, suite: Suite{Commands: c.Commands, Runs: c.Runs, Tests: []Test{}, Files: []string{}, TestFiles: []string{}}}, nil
}

// left is what of the budget is not used.
func (r *suiteRun) left() time.Duration { return r.c.Budget - time.Since(r.start) }

func (r *suiteRun) find(f Finding) {
	const shown = 10
	if f.Count == 0 {
		f.Count = len(f.Tests)
	}
	f.Tests = f.Tests[:min(len(f.Tests), shown)]
	r.suite.Findings = append(r.suite.Findings, f)
	r.c.Say("%s", f)
}

// command runs one command as often as is asked for.
func (r *suiteRun) command(ctx context.Context, at int) error {
	c := &r.c.Commands[at]
	first, err := r.run(ctx, *c, trial{seed: r.c.Seed})
	if err != nil {
		return err
	}
	r.c.Say("%s: run 1 of %d: %s", c.Name, r.c.Runs, first.summary())
	if first.timedOut {
		part, ok, err := r.part(ctx, c, first)
		if err != nil || !ok {
			return err
		}
		first = part
	}
	r.output = first.tail
	r.judgeRun(*c, first)
	r.kept[at] = first
	if first.fatal() {
		return nil
	}
	runs, err := r.again(ctx, *c, first)
	if err != nil {
		return err
	}
	r.settle(*c, runs)
	r.suite.Runs = min(r.suite.Runs, len(runs))
	var walls []time.Duration
	for _, x := range runs {
		walls = append(walls, x.wall)
	}
	r.suite.Millis += millis(median(walls))
	return r.baseline(ctx, c, first)
}

// again makes the other runs. Every second one takes the tests in another
// order, but if too much fails by that alone, the suite is one that needs its
// order, and keeps it.
func (r *suiteRun) again(ctx context.Context, c Command, first result) ([]result, error) {
	runs := []result{first}
	shuffle := true
	for tries := 0; len(runs) < r.c.Runs && tries < 2*r.c.Runs; tries++ {
		if r.left() < first.wall {
			r.find(Finding{Kind: Partial, Command: c.Name, Detail: fmt.Sprintf("stability rests on %d runs of %d: the budget of %v is used up", len(runs), r.c.Runs, r.c.Budget),
				Remedy: "give a larger budget or a part of the suite"})
			break
		}
		t := trial{seed: r.c.Seed + uint64(len(runs)), shuffle: shuffle && len(runs)%2 == 1}
		next, err := r.run(ctx, c, t)
		if err != nil {
			return nil, err
		}
		if t.shuffle {
			if lost := next.lost(first); next.fatal() || 5*len(lost) > len(first.passed()) {
				shuffle = false
				r.find(Finding{Kind: FlakyTest, Command: c.Name, Tests: lost, Count: len(lost), Detail: fmt.Sprintf("%d tests fail when the tests are run in another order; the other runs keep the suite's own", len(lost)),
					Remedy: "let each test make what it needs"})
				continue
			}
		}
		r.c.Say("%s: run %d of %d: %s", c.Name, len(runs)+1, r.c.Runs, next.summary())
		runs = append(runs, next)
	}
	return runs, nil
}

func millis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

func median(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	ds = slices.Clone(ds)
	slices.Sort(ds)
	return (ds[(len(ds)-1)/2] + ds[len(ds)/2]) / 2
}
