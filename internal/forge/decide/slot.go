package decide

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// driver runs tests of one command in a sandbox of its own.
type driver interface {
	// run runs the tests of each request on the healthy tree with its files
	// changed, and tells every outcome as it comes. An error means that the
	// driver is of no use any more; what it did not tell is not decided.
	run(ctx context.Context, rs []*request, tell func(*request, outcome)) error
	close() error
}

// request is a run of some tests on a changed tree. Without files it is the
// healthy one.
type request struct {
	files, old map[string][]byte
	tests      []*test
	stop       bool   // at the first that does not pass
	alone      bool   // nothing else runs meanwhile
	last       string // a test that runs after the others
}

// changed is what a server is told of the files: in JSON bytes are base64, and
// those of an empty file no null.
func (r *request) changed() map[string][]byte {
	out := make(map[string][]byte, len(r.files))
	for f, data := range r.files {
		out[f] = append([]byte{}, data...)
	}
	return out
}

// outcome is what came of a request.
type outcome struct {
	status   map[string]report.Status // by id
	broken   string                   // why it could not be built, or no test be collected; empty: it could
	crashed  string                   // how the runner's process ended in the midst of it; empty: it did not
	running  string                   // the test that ran when it ended
	timedOut bool
	output   string // of the first failure
	took     time.Duration
}

// slot is one of the places where changes are decided.
type slot struct {
	d       *Decider
	n       int
	drivers map[string]driver
}

func (s *slot) close() error {
	var errs []error
	for _, d := range s.drivers {
		errs = append(errs, d.close())
	}
	clear(s.drivers)
	return errors.Join(errs...)
}

// decide decides jobs of one group and tells each as soon as it is known.
func (s *slot) decide(ctx context.Context, jobs []*job, tell func(*job, Verdict)) {
	for _, j := range jobs {
		j.began = time.Now()
	}
	for i, c := range s.d.suite.commands {
		last := func(j *job) bool {
			return !slices.ContainsFunc(j.tests[i+1:], func(t []*test) bool { return len(t) > 0 })
		}
		var open []*job
		for _, j := range jobs {
			if len(j.tests[i]) > 0 && j.v.Class == "" {
				open = append(open, j)
			}
		}
		s.command(ctx, c, i, open, func(j *job) {
			if done := j.v.Class != "" && (s.d.c.Policy == FirstFailure || j.v.Class != Killed); done || last(j) {
				j.finish()
				tell(j, j.v)
			} else if j.v.Class == Killed {
				j.v.Class = "" // the other commands have more to say
			}
		})
		if ctx.Err() != nil {
			return
		}
	}
}

// finish closes a verdict after its last command.
func (j *job) finish() {
	switch {
	case j.v.Class != "":
	case len(j.v.Failed) > 0:
		j.v.Class = Killed
	case j.v.Ran == 0: // the drivers know that no test gets there
		j.v.Class = Uncovered
	default:
		j.v.Class = Survived
	}
}

// tries is how often a change is tried whose driver fails.
const tries = 2

// command decides jobs as far as one command can.
func (s *slot) command(ctx context.Context, c *command, at int, jobs []*job, done func(*job)) {
	left := jobs
	var fault error
	for range tries {
		if len(left) == 0 || ctx.Err() != nil {
			return
		}
		left, fault = s.attempt(ctx, c, at, left, done)
		if fault != nil {
			s.drop(c)
		}
	}
	if ctx.Err() != nil {
		return
	}
	for _, j := range left {
		j.v.Class, j.v.Output = Lost, fmt.Sprint(fault)
		done(j)
	}
}

// attempt runs jobs once and gives back those that are still open.
func (s *slot) attempt(ctx context.Context, c *command, at int, jobs []*job, done func(*job)) (left []*job, err error) {
	d, err := s.driver(ctx, c)
	if err != nil {
		return jobs, err
	}
	of := map[*request]*job{}
	var rs []*request
	for _, j := range jobs {
		r := &request{files: j.change.Files, old: j.old, tests: s.d.pick(c, j.tests[at]), stop: s.d.c.Policy == FirstFailure}
		of[r] = j
		rs = append(rs, r)
	}
	type late struct {
		r *request
		o outcome
	}
	var again []late
	err = d.run(ctx, rs, func(r *request, o outcome) {
		if o.timedOut || len(s.d.unproved(d, c, r, o)) > 0 {
			again = append(again, late{r, o})
		} else {
			s.d.settle(c, of[r], r, o)
			done(of[r])
			delete(of, r)
		}
	})
	for _, l := range again {
		if err != nil {
			break
		}
		var ok bool
		if ok, err = s.second(ctx, d, c, of[l.r], l.r, l.o); ok && err == nil {
			done(of[l.r])
			delete(of, l.r)
		}
	}
	for _, r := range rs {
		if of[r] != nil {
			left = append(left, of[r])
		}
	}
	if err == nil && len(left) > 0 {
		err = errors.New("no outcome")
	}
	return left, err
}

// second looks again at what one run does not decide: a timeout counts when it
// comes again with nothing else running (if it need not count at once), a failure only of a test that passes
// on the healthy tree when it runs in such a selection.
func (s *slot) second(ctx context.Context, d driver, c *command, j *job, r *request, o outcome) (bool, error) {
	if o.timedOut && !anyFailed(r, o) && !s.d.c.Once {
		r.alone, r.last = true, o.running
		var err error
		if o, err = once(ctx, d, r); err != nil {
			return false, err
		}
	}
	for range 3 {
		open := s.d.unproved(d, c, r, o)
		if len(open) == 0 {
			break
		}
		runs := healthyRuns
		unfit, err := s.healthy(ctx, d, c, open, &runs)
		if err != nil {
			return false, err
		}
		if !unfit {
			continue
		}
		// Some test fails by itself: what is left of the selection decides.
		r.tests = s.d.pick(c, r.tests)
		if o, err = once(ctx, d, r); err != nil {
			return false, err
		}
	}
	s.d.settle(c, j, r, o)
	return true, nil
}

const healthyRuns = 40 // to tell a selection's tests apart

// healthy runs tests on the healthy tree and notes which pass; it reports
// whether one did not. A selection of which nothing ran is told apart by halves:
// a runner ends at once where it does not know one of its names. What the runs
// left do not tell apart does not pass.
func (s *slot) healthy(ctx context.Context, d driver, c *command, tests []*test, runs *int) (unfit bool, err error) {
	*runs--
	null, err := once(ctx, d, &request{tests: tests})
	if err == nil && null.timedOut {
		null, err = once(ctx, d, &request{tests: tests, alone: true})
	}
	if err == nil && null.timedOut {
		err = errors.New("the healthy tree does not end within its limit")
	}
	if err != nil {
		return false, err
	}
	if len(null.status) > 0 || len(tests) == 1 || *runs <= 0 {
		return s.d.prove(c, tests, null), nil
	}
	half := len(tests) / 2
	for _, part := range [][]*test{tests[:half], tests[half:]} {
		bad, err := s.healthy(ctx, d, c, part, runs)
		if err != nil {
			return unfit, err
		}
		unfit = unfit || bad
	}
	return unfit, nil
}

func once(ctx context.Context, d driver, r *request) (o outcome, err error) {
	told := false
	err = d.run(ctx, []*request{r}, func(_ *request, got outcome) { o, told = got, true })
	if err == nil && !told {
		err = errors.New("no outcome")
	}
	return o, err
}

// driver is the slot's for a command, made when there is none.
func (s *slot) driver(ctx context.Context, c *command) (driver, error) {
	if d := s.drivers[c.Name]; d != nil {
		return d, nil
	}
	d, err := s.warm(ctx, c)
	if err != nil {
		return nil, err
	}
	if d == nil {
		if d, err = newCold(ctx, s.d, c); err != nil {
			return nil, err
		}
	}
	s.drivers[c.Name] = d
	return d, nil
}

// warm makes the command's own driver; nil: it has none that does for it.
func (s *slot) warm(ctx context.Context, c *command) (driver, error) {
	for _, k := range kinds() {
		if s.d.isCold(c) || !k.takes(c) {
			continue
		}
		d, err := k.open(ctx, s.d, c)
		if err == nil {
			return d, nil
		}
		if ctx.Err() != nil || errors.Is(err, sandbox.ErrLost) {
			return nil, err
		}
		s.d.turnCold(c, err.Error())
	}
	return nil, nil
}

func (s *slot) drop(c *command) {
	if d := s.drivers[c.Name]; d != nil {
		_ = d.close() // it failed already
		delete(s.drivers, c.Name)
	}
}

// kind is a way to run commands of an ecosystem.
type kind struct {
	name  string
	takes func(*command) bool
	open  func(context.Context, *Decider, *command) (driver, error)
	batch bool // several changes of a directory share a build
}

func kinds() []kind {
	return []kind{
		{name: "pytest", takes: takesPytest, open: newPytest},
		{name: "mocha", takes: takesMocha, open: newNode},
		{name: "jest", takes: takesJest, open: newNode},
		{name: "maven", takes: takesMaven, open: newMaven},
		{name: "gradle", takes: takesGradle, open: noGradle},
		{name: "go", takes: takesGo, open: newGo, batch: true},
		{name: "cargo", takes: takesCargo, open: newCargo, batch: true},
	}
}

// groupOf names the changes that can share a build with j's; empty: none.
func (d *Decider) groupOf(j *job) string {
	for i, c := range d.suite.commands {
		if len(j.tests[i]) == 0 || d.isCold(c) {
			continue
		}
		for _, k := range kinds() {
			if k.batch && k.takes(c) {
				for f := range j.change.Files {
					return c.Name + ":" + path.Dir(f)
				}
			}
		}
	}
	return ""
}

// turn waits until a run may begin: beside others, or alone.
func (d *Decider) turn(alone bool) (release func()) {
	if alone {
		d.alone.Lock()
		return d.alone.Unlock
	}
	d.alone.RLock()
	return d.alone.RUnlock
}

// box makes a sandbox of the healthy image, with what the suite's commands find
// where a grader puts it.
func (d *Decider) box(ctx context.Context) (sandbox.Sandbox, error) {
	sb, err := d.c.Backend.Create(ctx, d.spec(""))
	if err != nil {
		return nil, err
	}
	err = d.putAt(ctx, sb, "/tests", d.c.Env.Suite.SupportFiles())
	if err == nil {
		err = sandbox.PutAll(ctx, sb, "/logs/verifier", func(*tar.Writer) error { return nil })
	}
	if err == nil && d.c.Env.User != "" && d.c.Env.User != "root" {
		_, err = sandbox.Exec(ctx, sb, sandbox.Command{Args: []string{"/bin/chmod", "-R", "777", "/logs"}, User: "0"}, sandbox.ExecOptions{})
	}
	if err != nil {
		sb.Close()
		return nil, err
	}
	return sb, nil
}

func (d *Decider) spec(from sandbox.Snapshot) sandbox.Spec {
	return sandbox.Spec{Image: d.image, From: from, Limits: d.c.Limits, UID: sandbox.UIDMode(d.c.Env.UIDMode)}
}

// kept makes what is in a box the state that its Reset leads back to.
func (d *Decider) kept(ctx context.Context, sb sandbox.Sandbox) (sandbox.Sandbox, error) {
	snap, err := sb.Snapshot(ctx)
	if err != nil {
		return sb, err
	}
	next, err := d.c.Backend.Create(ctx, d.spec(snap))
	if err != nil {
		return sb, err
	}
	d.drop(snap) // the sandbox upon it lives on
	return next, sb.Close()
}

// drop frees a snapshot where the backend can.
func (d *Decider) drop(snap sandbox.Snapshot) {
	if k, ok := d.c.Backend.(sandbox.Dropper); ok && snap != "" {
		_ = k.Drop(snap) // it is freed at the end in any case
	}
}

// put writes files below the working directory.
func (d *Decider) put(ctx context.Context, sb sandbox.Trees, files map[string][]byte) error {
	return d.putAt(ctx, sb, d.c.Env.Workdir, files)
}

func (d *Decider) putAt(ctx context.Context, sb sandbox.Trees, dir string, files map[string][]byte) error {
	return sandbox.PutAll(ctx, sb, image.Path(dir), func(w *tar.Writer) error {
		for _, p := range slices.Sorted(maps.Keys(files)) {
			data := files[p]
			h := &tar.Header{Name: p, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg, ModTime: time.Now()}
			if e, err := d.tree.Lstat(path.Join(dir, p)); err == nil {
				h.Mode = int64(e.Mode & 0o777)
			}
			if err := w.WriteHeader(h); err != nil {
				return err
			}
			if _, err := w.Write(data); err != nil {
				return err
			}
		}
		return nil
	})
}

// dir is where the command runs.
func (d *Decider) dir(c *command) image.Path {
	if path.IsAbs(c.Dir) {
		return image.Path(c.Dir)
	}
	return image.Path(path.Join(d.c.Env.Workdir, c.Dir))
}

// variables are the command's environment. Hash seeds are fixed: what depends
// on one would be decided by chance.
func (c *command) variables() []string {
	out := []string{"PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1"}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		out = append(out, k+"="+c.Env[k])
	}
	return out
}
