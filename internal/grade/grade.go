package grade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// Where Harbor's verifiers look, relative to the root of the sandbox.
const (
	testsDir     = "tests"
	logsDir      = "logs"
	verifierDir  = "logs/verifier"
	artifactsDir = "logs/artifacts"
)

// Request is one step's grading. The job has ended and frozen the agent's
// sandbox before, except in live mode.
type Request struct {
	Key     task.Key
	Mode    task.VerifierMode // decided by the job; unset means sealed
	Backend sandbox.Backend
	Store   *image.Store
	Image   image.Image // the agent's
	End     EndState
	Workdir image.Path // where the agent worked and the verifier runs; empty: the image's, else "/"
	Env     []string   // of the test script, resolved
	// Inputs lists what of a test directory is copied, as task.Task's method
	// does; nil means everything but .harborignore files.
	Inputs func(dir string) ([]string, error)
	// VerifierImage is a separate verifier's; nil means the task's image again.
	// The tests are put into it unless the key says that it holds them.
	VerifierImage *image.Image
	// Trial is the trial's id, from which secret choices are drawn: a second
	// grading under the same id makes the same ones.
	Trial string
	// Attempted: the agent did anything at all. It explains a failure and
	// changes no verdict.
	Attempted bool
	// Plain: no canaries are planted. It is for repetitions of what a grading with
	// them has shown; nothing else may be concluded from a pass.
	Plain bool
	// Every: each canary is in place in the run with canaries, and none is drawn.
	// It is for whoever looks for canaries; a verdict of it means nothing.
	Every     bool
	Given     []string        // directories of the host whose content was put into the workdir before the agent began
	Live      sandbox.Sandbox // the agent's, in live mode only
	Beside    sandbox.Sandbox // sealed mode: the agent's, whose services the verifier's sandbox has, as they are; nil: none
	KeepAlive bool            // live mode: later steps follow, so the agent's processes stay

	// Order makes runners take their tests in an order drawn by it; 0: their own.
	Order   uint64
	Seal    []image.LayerID // what the verifier has installed before; above everything else
	Limits  sandbox.Limits
	UID     sandbox.UIDMode
	Network sandbox.Network // of the verifier; zero: none
	Egress  sandbox.Egress  // where another network than none leads

	// Ahead is a sandbox that was made before the work was known; it is used if
	// that turns out to need no other. Nil: none was.
	Ahead *Ahead
	// Later frees what nobody waits for; nil: at once.
	Later func(func())

	Out       image.HostPath // the trial's verifier/ directory, made if missing
	Artifacts image.HostPath // the trial's artifacts/ directory, as Collect filled it
	OutputCap int64          // bytes of the script's output that are kept; 0: 10 MiB
	LogFiles  int            // files of /logs/verifier that are kept besides rewards; 0: 10,000
	Grace     time.Duration  // between SIGTERM and SIGKILL at the timeout; 0: 2 s

	Cache image.HostPath // where a plan's references keep what they return; empty: nowhere

	placed map[string]image.Entry // files of the grader's that lie over the work; nil: there is no check plan
}

// EndState is what an agent left: a frozen tree, as a layer of the store or as
// a snapshot that Grade commits. Both empty: it changed nothing.
type EndState struct {
	Snapshot sandbox.Snapshot
	Layer    image.LayerID
}

// Verdict is what a step's work is worth.
type Verdict struct {
	Cause    trial.Cause
	Detail   string                 // one line for people
	Rewards  map[string]json.Number // nil: no verifier result
	Evidence trial.Evidence
	Mode     task.VerifierMode
	TestExit *int // of the script; nil when it did not end by itself

	TestsTime time.Duration // the script's own
	GradeTime time.Duration // everything, the script's included
	CPU       *time.Duration
	MaxRSS    *int64   // bytes
	Notes     []string // said aloud

	Checks *trial.Checks // of a check plan; nil: there is none
}

const (
	defaultTimeout = 600 * time.Second // Harbor's
	defaultGrace   = 2 * time.Second
	defaultOutput  = 10 << 20
	maxScript      = 16 << 20
)

// taskError is a fault of the task that shows only when it is graded.
type taskError struct{ err error }

func (e *taskError) Error() string { return e.err.Error() }
func (e *taskError) Unwrap() error { return e.err }

// workError is a fault of the work that keeps it from being graded.
type workError struct{ err error }

func (e *workError) Error() string { return e.err.Error() }
func (e *workError) Unwrap() error { return e.err }

// byWork blames the work for an error of a tree that it has made, and in which
// the grader is at work: else breaking it would be a way out of being judged.
func byWork(ctx context.Context, err error) error {
	var te *taskError
	if err == nil || ctx.Err() != nil || errors.As(err, &te) || sandbox.Ended(err) {
		return err
	}
	return &workError{err}
}

// Grade puts a step's work before its verifier. An error is a fault of the
// harness or the machine, or the end of ctx; everything else, hostile agents
// and broken tasks included, is a verdict.
func Grade(ctx context.Context, r Request) (Verdict, error) {
	start := time.Now()
	r = r.orDefaults()
	v, err := grade(ctx, r)
	v.GradeTime, v.Mode = time.Since(start), r.Mode
	if v.Evidence == "" {
		v.Evidence = trial.SelfReported
	}
	var te *taskError
	var we *workError
	switch {
	case err == nil:
		return v, nil
	case ctx.Err() != nil:
		return v, fmt.Errorf("grade: %w", context.Cause(ctx))
	case errors.As(err, &we):
		v.Cause, v.Detail = trial.CauseUnsolved, we.Error()
		if full(err) || errors.Is(err, sandbox.ErrTooLarge) {
			v.Cause = trial.CauseDiskLimit
		}
		return v, nil
	case errors.As(err, &te):
		v.Cause, v.Detail = trial.CauseTaskMalformed, te.Error()
		return v, nil
	}
	return v, fmt.Errorf("grade: %w", err)
}

func (r Request) orDefaults() Request {
	if r.Mode == task.VerifierUnset {
		r.Mode = task.VerifierSealed
	}
	if r.Workdir == "" {
		r.Workdir = r.Image.Config.Workdir
	}
	if r.Workdir == "" {
		r.Workdir = "/"
	}
	if r.Key.Timeout <= 0 {
		r.Key.Timeout = defaultTimeout
	}
	if r.Key.Script == "" {
		r.Key.Script = "test.sh"
	}
	if r.OutputCap <= 0 {
		r.OutputCap = defaultOutput
	}
	if r.LogFiles <= 0 {
		r.LogFiles = maxLogsFiles
	}
	if r.Grace <= 0 {
		r.Grace = defaultGrace
	}
	if r.Network == "" {
		r.Network = sandbox.NetNone
	}
	return r
}

func grade(ctx context.Context, r Request) (Verdict, error) {
	if err := os.MkdirAll(string(r.Out), 0o755); err != nil {
		return Verdict{}, err
	}
	if err := clearRewards(string(r.Out)); err != nil {
		return Verdict{}, err
	}
	plan, err := Plan(r.Key)
	switch {
	case err != nil:
		return Verdict{}, err
	case r.Mode == task.VerifierLive:
		return r.live(ctx, plan)
	case plan != nil:
		return r.checked(ctx, plan)
	}
	tmp := r.Store.Temporary()
	var sb sandbox.Sandbox
	defer r.later(func() {
		if sb != nil {
			sb.Close()
		}
		tmp.Close() // what stays is swept by the next start
	})
	spec, work, notes, err := r.spec(ctx, tmp)
	if err != nil {
		return Verdict{Notes: notes}, err
	}
	if sb, err = r.create(ctx, spec); err != nil {
		return Verdict{Notes: notes}, fmt.Errorf("create the verifier's sandbox: %w", err)
	}
	if err := work.put(ctx, sb); err != nil {
		return Verdict{Notes: notes}, fmt.Errorf("put the workspace: %w", err)
	}
	v, err := r.verify(ctx, sb)
	v.Notes = append(notes, v.Notes...)
	return v, err
}

// spec describes the fresh sandbox that the verifier gets. Layers that are made
// for it alone are tmp's; what is not in layers is to be put.
func (r Request) spec(ctx context.Context, tmp *image.Temporary) (sandbox.Spec, *handful, []string, error) {
	spec := r.pristine()
	if r.Mode == task.VerifierSeparate {
		if r.VerifierImage != nil {
			spec.Image = *r.VerifierImage
		}
		wipe, err := wipeLayer(ctx, r.Store, tmp, spec.Image.Layers, nil, append(r.emptied(), verifierDir))
		spec.Extra = wipe
		return spec, nil, nil, err
	}
	layer, err := r.endLayer(ctx)
	if err != nil {
		return spec, nil, nil, err
	}
	workdir, err := resolveDir(r.Store, r.Image.Layers, r.Workdir)
	if err != nil {
		return spec, nil, nil, err
	}
	if r.Key.Grade == task.GradePatch && workdir == "." {
		return spec, nil, nil, &taskError{errors.New(`grade = "patch" needs a workspace: set [environment].workdir to a directory other than "/"`)}
	}
	var work *handful
	var notes []string
	if spec.Extra, work, notes, err = crossing(ctx, r, tmp, layer, workdir); err != nil {
		return spec, nil, notes, fmt.Errorf("filter the end state: %w", err)
	}
	spec.Beside = r.Beside
	wipe, err := wipeLayer(ctx, r.Store, tmp, r.Image.Layers, spec.Extra, []string{verifierDir})
	spec.Extra = append(spec.Extra, wipe...)
	return spec, work, notes, err
}

// endLayer is the agent's work as a layer; empty: it changed nothing.
func (r Request) endLayer(ctx context.Context) (image.LayerID, error) {
	if r.End.Layer != "" || r.End.Snapshot == "" {
		return r.End.Layer, nil
	}
	layer, err := r.Backend.Commit(ctx, r.End.Snapshot)
	if err != nil {
		return "", fmt.Errorf("commit the end state: %w", err)
	}
	return layer, nil
}

// wipeLayer is a layer in which some directories are empty and open to every
// user, or none where the stack has nothing in them anyway: a reward that an
// image brings along is none.
func wipeLayer(ctx context.Context, store *image.Store, tmp *image.Temporary, base, extra []image.LayerID, dirs []string) ([]image.LayerID, error) {
	dirty, err := foulDirs(store, base, extra, dirs)
	if err != nil || len(dirty) == 0 {
		return nil, err
	}
	w, err := tmp.NewLayer(ctx, slices.Concat(base, extra)...)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	for _, d := range sortedKeys(dirty) {
		if err := w.Add(image.Entry{Path: d, Type: image.TypeDir, Mode: 0o777, Opaque: true}, nil); err != nil {
			return nil, err
		}
	}
	id, err := w.Commit()
	return []image.LayerID{id}, err
}

// foulDirs are the directories that hold something, or are none. Of the base it
// asks the view, which is made once for all trials.
func foulDirs(store *image.Store, base, extra []image.LayerID, dirs []string) (map[string]bool, error) {
	dirty := map[string]bool{}
	v, err := store.View(base)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		if d == "." {
			continue
		}
		e, err := v.Lstat(d)
		if err != nil {
			continue // the image has nothing of that name
		}
		in, err := v.ReadDir(d)
		if !e.IsDir() || err != nil || len(in) > 0 {
			dirty[d] = true
		}
	}
	for _, id := range extra {
		m, err := store.Manifest(id)
		if err != nil {
			return nil, err
		}
		for _, e := range m.Entries {
			for _, d := range dirs {
				if within(e.Path, d) && (e.Path != d || !e.IsDir()) && d != "." {
					dirty[d] = true
				}
			}
		}
	}
	return dirty, nil
}

// resolveDir follows the links that an image has in a directory's path, as the
// kernel did when the agent was started there.
func resolveDir(store *image.Store, stack []image.LayerID, dir image.Path) (string, error) {
	want := relative(dir)
	v, err := store.View(stack)
	if err != nil {
		return "", err
	}
	p, err := v.Resolve(path.Join("/", want))
	if isMissing(err) {
		return want, nil
	}
	return p, err
}

// full reports whether err says that a sandbox's disk is full.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
