package grade

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
)

// observer grades one step by its check plan. It sees; what is seen is judged
// by [checks.Judge].
type observer struct {
	Request
	plan      *checks.Plan
	planDir   string
	casesTime time.Duration
	tmp       *image.Temporary
	own       *image.Temporary // the grader\'s layers: one for each run, made just before it
	put       *placer
	spec      sandbox.Spec // of the verifier's sandbox, without the grader's layer
	draw      draw
	dir       string // the working directory, relative to the root
	all       []change
	work      []change // that crosses
	notes     []string

	// patterns of all reports, and what is the grader's besides what it places
	patterns  []string
	protected map[string]image.Entry
	logs      io.Writer // test-stdout.txt
	quiet     bool      // nothing of a run is kept
	boxes     []sandbox.Sandbox
}

// sighting is what was seen of one run of the commands.
type sighting struct {
	ran      []ran
	tampered map[string]bool
	state    map[string]checks.StateSeen
}

// checked grades by a plan.
func (r Request) checked(ctx context.Context, p *checks.Plan) (Verdict, error) {
	out, err := os.OpenFile(filepath.Join(string(r.Out), TestStdout), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return Verdict{}, err
	}
	defer out.Close()
	o := &observer{Request: r, plan: p, tmp: r.Store.Temporary(), own: r.Store.TemporaryOwn(), draw: r.draws(p), logs: out}
	if _, o.planDir, err = planIn(r.Key); err != nil {
		return Verdict{}, err
	}
	defer r.later(o.close)
	begin := time.Now()
	if err := o.prepare(ctx); err != nil {
		return Verdict{Notes: o.notes}, err
	}
	obs, ev, err := o.observe(ctx)
	if err != nil {
		return Verdict{Notes: o.notes}, err
	}
	v := checks.Judge(o.plan, obs[0])
	if v.Resolved && len(obs[0].Planted) > 0 && !o.Every {
		if v, err = o.again(ctx, v); err != nil {
			return Verdict{Notes: o.notes}, err
		}
	}
	ev.Seconds = time.Since(begin).Seconds()
	if err := errors.Join(writeJSON(r.Out, VerdictFile, v), writeJSON(r.Out, EvidenceFile, ev), out.Close()); err != nil {
		return Verdict{Notes: o.notes}, err
	}
	return o.verdict(v, ev), nil
}

// again grades the same work a second time, with the other canaries: one pair
// of runs is told apart by a coin too easily, and changes some tests alone. A
// work that is resolved is so every time.
func (o *observer) again(ctx context.Context, v checks.Verdict) (checks.Verdict, error) {
	o.draw.round++
	o.quiet = true
	obs, _, err := o.observe(ctx)
	if err != nil {
		return v, err
	}
	for _, one := range obs {
		if second := checks.Judge(o.plan, one); !second.Resolved {
			why := second.Void
			if why == "" {
				why = string(second.Cause)
			}
			return v.Doubted("a second grading of the same work says otherwise: " + why), nil
		}
	}
	return v, nil
}

// close frees what grading took.
func (o *observer) close() {
	for _, sb := range o.boxes {
		sb.Close()
	}
	o.own.Close()
	o.tmp.Close() // what stays is swept by the next start
}

// prepare describes the verifier's sandbox, of which both runs get one.
func (o *observer) prepare(ctx context.Context) (err error) {
	if o.dir, err = resolveDir(o.Store, o.Image.Layers, o.Workdir); err != nil {
		return err
	}
	base := o.Image.Layers
	if o.Mode == task.VerifierSeparate && o.VerifierImage != nil {
		base = o.VerifierImage.Layers
	}
	if o.put, err = o.placer(o.plan, o.tmp, base, o.dir); err != nil {
		return err
	}
	for _, c := range o.plan.Commands {
		more, err := o.put.reports(c)
		if err != nil {
			return err
		}
		o.patterns = append(o.patterns, more...)
	}
	if o.Mode == task.VerifierLive {
		return o.glance(ctx)
	}
	if o.End.Layer, err = o.endLayer(ctx); err != nil {
		return err
	}
	if err := o.changes(); err != nil {
		return err
	}
	switch o.Mode {
	case task.VerifierSeparate:
		o.spec, _, _, err = o.Request.spec(ctx, o.tmp)
	default:
		err = o.sealed(ctx)
	}
	if err != nil {
		return err
	}
	stack := slices.Concat(o.spec.Image.Layers, o.spec.Extra)
	wipe, err := o.put.wipe(ctx, o.patterns, stack)
	o.spec.Extra = append(o.spec.Extra, wipe...)
	return err
}

// glance looks at what is changed in the sandbox that lives, where a plan
// forbids something.
func (o *observer) glance(ctx context.Context) error {
	if len(o.plan.Forbidden) == 0 {
		return nil
	}
	snap, err := o.Live.Peek(ctx)
	if errors.Is(err, sandbox.ErrUnsupported) {
		o.say("what the plan forbids was not looked for: this backend cannot copy a sandbox that lives")
		return nil
	}
	if err == nil {
		o.End.Layer, err = o.Backend.Commit(ctx, snap)
		if d, ok := o.Backend.(sandbox.Dropper); ok {
			_ = d.Drop(snap) // it goes with the backend at the latest
		}
	}
	if err != nil {
		return byWork(ctx, fmt.Errorf("look for forbidden changes: %w", err))
	}
	return o.changes()
}

// changes notes what the end state changes.
func (o *observer) changes() error {
	if o.End.Layer == "" {
		return nil
	}
	v, err := o.Store.View(o.Image.Layers)
	if err != nil {
		return err
	}
	in, err := entriesOf(o.Store, o.End.Layer)
	if err != nil {
		return err
	}
	o.all = changesOf(v, in)
	p := *o.plan
	p.Forbidden = byLinks(v, o.dir, p.Forbidden)
	o.plan = &p
	return nil
}

// sealed lets the work cross, without what is the grader's.
func (o *observer) sealed(ctx context.Context) (err error) {
	names := o.Store.Temporary() // what stands in the sandboxes is made for each of them, at its time
	defer names.Close()
	plain, err := o.put.layer(ctx, names, nil)
	if err != nil {
		return err
	}
	if o.placed, err = placedFiles(o.Store, plain); err != nil {
		return err
	}
	o.Key.Protected = slices.Concat(o.Key.Protected, o.plan.Protected)
	var notes []string
	o.spec, _, notes, err = o.Request.spec(ctx, o.tmp)
	o.notes = append(o.notes, notes...)
	if err != nil {
		return err
	}
	v, err := o.Store.View(o.Image.Layers)
	if err != nil {
		return err
	}
	crossed, err := entriesOf(o.Store, o.spec.Extra...)
	if err != nil {
		return err
	}
	o.work = slices.DeleteFunc(changesOf(v, crossed), func(c change) bool { return within(c.path, verifierDir) })
	o.protected, err = protectedFiles(v, o.dir, o.Key.Protected)
	return err
}

// protectedFiles are what the image has at protected paths. The grader's own
// directories are none of them: nothing crosses to there.
func protectedFiles(v *image.View, dir string, protected []string) (map[string]image.Entry, error) {
	g, err := newGuard(dir, byLinks(v, dir, slices.DeleteFunc(slices.Clone(protected), isOurs)))
	if err != nil {
		return nil, &taskError{err}
	}
	roots, err := g.roots(v)
	if err != nil {
		return nil, err
	}
	out := map[string]image.Entry{}
	for _, root := range roots {
		err := v.Walk(root, func(e image.Entry) error {
			if e.Type == image.TypeFile || e.Type == image.TypeSymlink {
				out[e.Path] = e
			}
			return nil
		})
		if err != nil && !isMissing(err) {
			return nil, err
		}
	}
	return out, nil
}

// isOurs reports whether a protected path is one of those of every task.
func isOurs(p string) bool {
	return p == "/"+testsDir || p == "/"+verifierDir || p == "/solution"
}

// every lists the indices of n things.
func every(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// hidden reports whether one of the chosen canaries stands in a file that is
// not in the image as it is in the tests: of all others the agent's code can
// know that they were changed.
func (o *observer) hidden(c checks.Command, chosen []int) (bool, error) {
	v, err := o.Store.View(o.Image.Layers)
	if err != nil {
		return false, err
	}
	for _, i := range chosen {
		if c.Canaries[i].OfImage() {
			continue
		}
		name := path.Clean(c.Canaries[i].File)
		b, err := o.put.original(name)
		if err != nil {
			return false, errPlan("canaries: %w", err)
		}
		sum := sha256.Sum256(b)
		known := slices.ContainsFunc(o.put.places(), func(at place) bool {
			if at.from != "" && !within(name, at.from) {
				return false
			}
			e, err := v.Lstat(path.Join(at.to, strings.TrimPrefix(name, at.from)))
			return err == nil && e.Digest == hexSum(sum[:])
		})
		if !known {
			return true, nil
		}
	}
	return false, nil
}

// say notes something aloud, once.
func (o *observer) say(text string) {
	if !slices.Contains(o.notes, text) {
		o.notes = append(o.notes, text)
	}
}

// idle reports whether the work that is graded is none.
func (o *observer) idle() bool {
	if o.Mode == task.VerifierSealed && o.Key.Grade == task.GradePatch {
		return len(o.work) == 0
	}
	return o.Mode != task.VerifierLive && untouched(o.all, o.dir, o.Given)
}

// run makes a verifier's sandbox, runs the commands in it, ends all that they
// left, and looks. The real run is also asked for the state.
func (o *observer) run(ctx context.Context, changed map[string][]byte, real bool) (*sighting, error) {
	id, err := o.put.layer(ctx, o.own, changed)
	if err != nil {
		return nil, err
	}
	own, err := placedFiles(o.Store, id)
	if err != nil {
		return nil, err
	}
	for p, e := range o.protected {
		if _, ours := own[p]; !ours {
			own[p] = e
		}
	}
	sb, err := o.box(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &sighting{state: map[string]checks.StateSeen{}}
	logs, all := string(o.Out), o.logs
	if !real || o.quiet {
		logs, all = "", io.Discard
	}
	if err := o.reorder(ctx, sb, o.plan); err != nil {
		return nil, err
	}
	begin := time.Now()
	if s.ran, err = o.commands(ctx, sb, o.plan, o.dir, timeScale(real), logs, all); err != nil {
		return nil, err
	}
	left := o.Key.Timeout - time.Since(begin)
	if real {
		if err := o.alive(ctx, sb, o.plan, s.state); err != nil {
			return nil, err
		}
	}
	if err := o.silence(ctx, sb); err != nil {
		return nil, err
	}
	if err := o.put.readReports(ctx, sb, s.ran); err != nil {
		return nil, err
	}
	if s.tampered, err = tampered(ctx, sb, own); err != nil || !real {
		return s, err
	}
	if err := o.paths(ctx, sb, o.plan, o.dir, s.state); err != nil {
		return nil, err
	}
	if err := o.outputs(ctx, sb, o.plan, left, s.state); err != nil {
		return nil, err
	}
	return s, o.silence(ctx, sb)
}

// box is a verifier's sandbox with the grader's files in it.
func (o *observer) box(ctx context.Context, grader image.LayerID) (sandbox.Sandbox, error) {
	if o.Mode == task.VerifierLive {
		err := o.clearReports(ctx, o.Live)
		if err == nil {
			err = errors.Join(putLogs(ctx, o.Live), o.layOver(ctx, o.Live, grader))
		}
		return o.Live, byWork(ctx, err)
	}
	spec := o.spec
	spec.Extra = slices.Concat(spec.Extra, o.Seal)
	if o.Mode == task.VerifierSealed {
		spec.Extra = append(spec.Extra, grader)
		spec.ReadOnly = o.readOnly()
	}
	sb, err := o.Backend.Create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create the verifier's sandbox: %w", err)
	}
	o.boxes = append(o.boxes, sb)
	if err := putLogs(ctx, sb); err != nil {
		return nil, err
	}
	if o.Mode != task.VerifierSeparate {
		return sb, nil
	}
	notes, err := o.putArtifacts(ctx, sb)
	if err != nil {
		return nil, byWork(ctx, fmt.Errorf("put artifacts: %w", err))
	}
	o.notes = append(o.notes, notes...)
	if err := o.clearReports(ctx, sb); err != nil {
		return nil, err
	}
	return sb, byWork(ctx, o.layOver(ctx, sb, grader))
}

// readOnly are the grader's own files: the tests with all that is there, and
// each file that is placed or protected. Beside the latter runners may write.
func (o *observer) readOnly() []image.Path {
	if !o.Backend.Capabilities().ReadOnly {
		return nil
	}
	out := []image.Path{"/" + testsDir}
	for _, own := range []map[string]image.Entry{o.placed, o.protected} {
		for _, p := range sortedKeys(own) {
			if !within(p, testsDir) && own[p].Type == image.TypeFile {
				out = append(out, image.Path("/"+p))
			}
		}
	}
	if len(out) > maxLocked {
		return out[:1] // what was changed of the others shows afterwards
	}
	return out
}

// clearReports removes what lies where reports will from a sandbox that is
// there already.
func (o *observer) clearReports(ctx context.Context, sb sandbox.Sandbox) error {
	old := map[string]bool{}
	for _, pattern := range o.patterns {
		root, wild := globRoot(pattern)
		if !wild {
			old["/"+pattern] = true
			continue
		}
		err := stream(ctx, sb, image.Path("/"+root), maxSearch, func(h *tar.Header, _ io.Reader) error {
			if name := path.Join(root, h.Name); glob(pattern, name) {
				old["/"+name] = true
			}
			return nil
		})
		if err != nil && !isMissing(err) && !errors.Is(err, sandbox.ErrTooLarge) {
			return err
		}
	}
	if len(old) == 0 {
		return nil
	}
	res, err := sandbox.Exec(ctx, sb, sandbox.Command{
		Args: append([]string{"/bin/sh", "-c", `rm -rf -- "$@"`, "sh"}, sortedKeys(old)...), Dir: "/", User: "0",
	}, sandbox.ExecOptions{Timeout: defaultTimeout})
	if err == nil && res.Cancelled {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("clear old reports: %w", err)
	}
	return nil
}

// layOver puts the grader's layer into a sandbox that is there already.
func (o *observer) layOver(ctx context.Context, sb sandbox.Sandbox, grader image.LayerID) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := Frozen(o.Store, grader).Get(ctx, "/", w, 0)
		w.CloseWithError(err)
		done <- err
	}()
	err := sb.Put(ctx, "/", r)
	r.CloseWithError(errSeen)
	if getErr := <-done; getErr != nil && (err == nil || errors.Is(err, getErr)) {
		err = getErr
	}
	if err != nil {
		return fmt.Errorf("put the tests: %w", err)
	}
	return nil
}

// writeJSON writes one of the trial's files.
func writeJSON(dir image.HostPath, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(string(dir), name), append(b, '\n'), 0o644)
}
