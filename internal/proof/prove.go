package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// Arms are the agents of a proof.
type Arms struct {
	Gold  job.Arm
	Idle  job.Arm // does nothing
	Empty job.Arm // works, and leaves everything as it was
	// Harmless edits sources in a way that means nothing. It is for tasks whose
	// whole machine crosses: a build that is out of date, or damaged, is mended by
	// whatever makes it be built again, cheats among it. No Spec: it is left out.
	Harmless job.Arm
}

// Config asks for the proof of some tasks.
type Config struct {
	Dir        string // of the jobs that run the proof; the caller removes it
	Tasks      []*task.Task
	Level      Level // zero: Quick
	Gold       int   // runs of the gold solution; zero: 2, or 5 at the full level
	Image      string
	UID        sandbox.UIDMode // zero: the backend's first, whatever an older proof says
	Concurrent int
	Arms       Arms
	Leaks      bool           // look for the solution where an agent could read it
	Git        string         // the program, to look into repositories; empty: there is none
	Cache      image.HostPath // of what shared layers hold; empty: none
	Battery    Battery        // of the full level
}

// Prove shows what the level asks for. A proved task gets its proof.json; one
// that is not loses a stale one.
func Prove(ctx context.Context, cfg Config, deps job.Deps) ([]Proof, error) {
	if cfg.Level == "" {
		cfg.Level = Quick
	}
	if cfg.Gold == 0 {
		cfg.Gold = map[Level]int{Quick: 2, Full: 5}[cfg.Level]
	}
	base := job.Config{Tasks: cfg.Tasks, Image: cfg.Image, UID: cfg.UID, Concurrent: cfg.Concurrent}
	if m := deps.Backend.Capabilities().UIDModes; base.UID == "" && len(m) > 0 {
		base.UID = m[0]
	}
	gold, idle := base, base
	gold.Dir, gold.Arms, gold.Attempts = filepath.Join(cfg.Dir, "gold"), []job.Arm{cfg.Arms.Gold}, cfg.Gold
	gold.Shuffle = true
	gold.Repeats, idle.Repeats = cfg.Level == Quick, cfg.Level == Quick
	idle.Dir, idle.Arms, idle.Attempts = filepath.Join(cfg.Dir, "nop"), []job.Arm{cfg.Arms.Idle, cfg.Arms.Empty}, 1
	run := &runs{cfg: cfg, uid: base.UID, deps: deps, goldDir: gold.Dir, trials: map[string][]*store.Trial{}}
	jobs := []job.Config{gold, idle}
	if harmless := idle; cfg.Arms.Harmless.Spec != "" {
		harmless.Dir, harmless.Arms = filepath.Join(cfg.Dir, "harmless"), []job.Arm{cfg.Arms.Harmless}
		harmless.Tasks = slices.DeleteFunc(slices.Clone(cfg.Tasks), func(t *task.Task) bool { return !run.editsTell(t) })
		if len(harmless.Tasks) > 0 {
			jobs = append(jobs, harmless)
		}
	}
	for _, c := range jobs {
		defer deps.Images.Release(image.HostPath(c.Dir))
		v, err := runJob(ctx, c, deps)
		if err != nil {
			return nil, err
		}
		for _, tr := range v.Trials {
			run.trials[tr.Task] = append(run.trials[tr.Task], tr)
		}
	}
	leaks, err := run.leaks(ctx)
	if err != nil {
		return nil, err
	}
	var proofs []Proof
	for i, t := range cfg.Tasks {
		p, err := run.judge(t)
		if err != nil {
			return proofs, err
		}
		p.addLeaks(leaks[i], merged(t) && t.Key(0).Grade == task.GradeState)
		proofs = append(proofs, p)
	}
	if cfg.Level == Full {
		if err := run.full(ctx, proofs); err != nil {
			return nil, err
		}
	}
	for i, t := range cfg.Tasks {
		proofs[i].conclude()
		if err := proofs[i].save(t.Dir); err != nil {
			return proofs, err
		}
	}
	return proofs, nil
}

// runJob runs one job of a proof to its end. Half a proof is none, and says
// nothing about an older one.
func runJob(ctx context.Context, c job.Config, deps job.Deps) (*store.View, error) {
	if _, err := job.Run(ctx, c, deps); err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("prove: %w", context.Cause(ctx))
	}
	v, err := store.Read(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	return v, nil
}

// runs are the trials that a proof rests on, by task.
type runs struct {
	cfg     Config
	deps    job.Deps
	goldDir string
	uid     sandbox.UIDMode
	trials  map[string][]*store.Trial
}

// judge reads a task's runs and says what they show.
func (r *runs) judge(t *task.Task) (Proof, error) {
	digest, err := task.Digest(t.Dir)
	if err != nil {
		return Proof{}, err
	}
	p := Proof{V: 2, Level: r.cfg.Level, Task: t.Name, Digest: digest, ProvedAt: time.Now().UTC(), By: r.deps.Version}
	passed := 0
	failed := map[string]int{} // runs of gold in which a check failed
	told := map[string]bool{}  // those that some report has as failed; the others were missing
	for _, tr := range r.trials[t.Name] {
		rec := tr.Record
		p.Runs = append(p.Runs, Run{Agent: tr.Agent, Outcome: rec.Outcome, Cause: rec.Cause, Millis: tr.Millis()})
		gold := tr.Agent == r.cfg.Arms.Gold.Spec
		switch {
		case tr.Digest != digest:
			p.because("the task changed while it was being proved")
		case rec.Outcome == trial.Infra:
			p.Lost = true
			p.because("%s: %s: %s", tr.Agent, rec.Cause, rec.Detail)
		case gold && rec.Outcome == trial.Pass:
			passed++
			p.Image, p.Modes = rec.Image.ID, rec.Modes
			if p.Evidence == "" || p.Evidence == trial.SelfReported { // of a repetition, perhaps
				p.Evidence = rec.Evidence
			}
			// What stands upon "host" has this machine's files in it, too.
			if im, err := job.ImageOf(r.goldDir, image.ID(rec.Image.ID)); rec.Image.Source == image.HostName || err == nil && len(im.Binds) > 0 {
				p.Local = true
			}
		case gold:
			p.because("gold ended %s (%s) %s", rec.Outcome, rec.Cause, rec.Detail)
		case rec.Outcome != trial.Fail:
			p.because("%s ended %s (%s) instead of fail: %s", r.doing(tr.Agent), rec.Outcome, rec.Cause, rec.Detail)
		}
		if gold {
			if err := failures(tr, failed, told); err != nil {
				return p, err
			}
			p.measure(t, rec)
		}
		p.modes(rec.Modes)
	}
	want := r.cfg.Gold + 2
	if r.editsTell(t) {
		want++
	}
	if len(p.Runs) != want && len(p.Reasons) == 0 {
		p.because("only %d of %d runs ended", len(p.Runs), want)
	}
	for id, n := range failed {
		if n < r.cfg.Gold {
			p.Unstable = append(p.Unstable, id)
		}
	}
	sort.Strings(p.Unstable)
	if len(p.Unstable) > 0 {
		p.because("%s", unstable(p.Unstable, told))
	}
	p.room()
	if passed != r.cfg.Gold && len(p.Reasons) == 0 {
		p.because("gold passed %d of %d runs", passed, r.cfg.Gold)
	}
	return p, nil
}

// Harmless is how a proof's reasons call edits that mean nothing.
const Harmless = "a harmless edit of the sources"

// editsTell reports whether a task must withstand a harmless edit.
func (r *runs) editsTell(t *task.Task) bool {
	return r.cfg.Arms.Harmless.Spec != "" && t.Key(0).Grade == task.GradeState
}

func (r *runs) doing(agent string) string {
	switch agent {
	case r.cfg.Arms.Empty.Spec:
		return "an empty diff"
	case r.cfg.Arms.Harmless.Spec:
		return Harmless
	}
	return "doing nothing"
}

func (p *Proof) because(format string, a ...any) {
	p.Reasons = append(p.Reasons, fmt.Sprintf(format, a...))
}

// modes refuses what no proof can be made under.
func (p *Proof) modes(m trial.Modes) {
	if m.Verifier == string(task.VerifierLive) || m.Network != "none" || m.VerifierNetwork != "none" {
		p.because("graded live or with network: cannot be proved")
	}
	if m.Services != "" {
		p.because("graded beside services that the agent had used: cannot be proved")
	}
}

// conclude decides by the reasons.
func (p *Proof) conclude() {
	slices.Sort(p.Reasons)
	p.Reasons = slices.Compact(p.Reasons)
	p.Proved = len(p.Reasons) == 0
}

// stepDir is where a step's files are.
func stepDir(tr *store.Trial, st store.StepFiles) string {
	if st.Step == "" {
		return tr.Dir
	}
	return filepath.Join(tr.Dir, "steps", st.Step)
}

// unstable says what to do about checks that gold passes only sometimes. Of
// those that failed and those that were missing the former are to blame: a test
// that breaks its run off takes others with it, and no quarantine mends that.
func unstable(ids []string, told map[string]bool) string {
	var blame []string
	for _, id := range ids {
		if told[id] {
			blame = append(blame, id)
		}
	}
	if missing := len(ids) - len(blame); missing > 0 && len(blame) > 0 {
		return fmt.Sprintf("%d checks are unstable: %d failed in some runs, %s first, and %d were missing there: if a failure ends the run, leave its test out of the command's line; else put them into tests/%s",
			len(ids), len(blame), blame[0], missing, checks.QuarantineFile)
	}
	return fmt.Sprintf("%d checks are unstable, the first %s: put them into tests/%s", len(ids), ids[0], checks.QuarantineFile)
}

// failures counts, by check, the runs in which an expected one failed, in
// either of a grading's runs; told are those that a report has.
func failures(tr *store.Trial, failed map[string]int, told map[string]bool) error {
	for _, st := range tr.Steps {
		b, err := os.ReadFile(filepath.Join(stepDir(tr, st), "verifier", checks.VerdictFile))
		if os.IsNotExist(err) {
			continue
		}
		var v checks.Verdict
		if err == nil {
			err = json.Unmarshal(b, &v)
		}
		if err != nil {
			return fmt.Errorf("prove: verdict of %s: %w", tr.Name, err)
		}
		bad := map[string]bool{}
		expected := map[string]bool{}
		for _, l := range []checks.List{v.FailToPass, v.PassToPass} {
			for id, status := range l.Failed {
				bad[id] = true
				told[id] = told[id] || status != checks.Missing
			}
			for _, id := range l.Passed {
				expected[id] = true
			}
		}
		for _, f := range v.Flags { // gold forges nothing: what differs in the canary run is unstable
			if id := checks.Global(f.Command, f.ID); f.Kind == checks.FlagCanary && expected[id] {
				bad[id], told[id] = true, true
			}
		}
		for id := range bad {
			failed[id]++
		}
	}
	return nil
}

// measure keeps the worst of what gold's grading took.
func (p *Proof) measure(t *task.Task, rec trial.Record) {
	h := Headroom{}
	for _, ph := range rec.Phases {
		if ph.Phase == trial.PhaseTests {
			h.TestsMillis += ph.Millis
		}
	}
	for i := range t.Steps {
		h.LimitMillis += float64(t.Key(i).Timeout) / float64(time.Millisecond)
	}
	h.RSSBytes = rec.Use.MaxRSSBytes
	if mb := t.Config.Environment.MemoryMB; mb != nil && *mb > 0 {
		b := int64(*mb) << 20
		h.LimitBytes = &b
	}
	if h.LimitMillis > 0 {
		h.TimeShare = h.TestsMillis / h.LimitMillis
	}
	if h.RSSBytes != nil && h.LimitBytes != nil {
		s := float64(*h.RSSBytes) / float64(*h.LimitBytes)
		h.MemShare = &s
	}
	if p.Headroom == nil || h.TimeShare > p.Headroom.TimeShare || h.MemShare != nil && (p.Headroom.MemShare == nil || *h.MemShare > *p.Headroom.MemShare) {
		p.Headroom = &h
	}
}

// room says whether gold's grading has headroom enough.
func (p *Proof) room() {
	h := p.Headroom
	if h == nil {
		return
	}
	if h.TimeShare > maxTimeShare {
		p.because("gold's tests took %.0f %% of the verifier's time (at most %.0f %%): raise [verifier].timeout_sec", 100*h.TimeShare, 100*maxTimeShare)
	}
	if h.MemShare != nil && *h.MemShare > maxMemShare {
		p.because("gold took %.0f %% of the memory (at most %.0f %%): raise [environment].memory_mb", 100**h.MemShare, 100*maxMemShare)
	}
}
