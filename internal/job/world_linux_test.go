package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/remove"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// TestMain lets the test binary be the sandbox's own processes, and ends the
// backend that the tests share.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// place is a layer store with the image "host" and a backend on it.
type place struct {
	once    sync.Once
	dir     string
	images  *image.Store
	backend sandbox.Backend
	host    image.Image
	err     error
}

// shared is the place of all tests that need none of their own: sandboxes of
// one backend share nothing.
var shared place

func (p *place) open() (err error) {
	if p.dir, err = os.MkdirTemp("", "assay-job-test-"); err != nil {
		return err
	}
	if err := os.Chmod(p.dir, 0o755); err != nil { // for the user that sandboxes of root run as
		return err
	}
	p.images, err = image.Open(image.HostPath(filepath.Join(p.dir, "store")), image.Options{Volatile: true, Owner: ns.Owner()})
	if err != nil {
		return err
	}
	b, err := ns.Open(context.Background(), ns.Config{Store: p.images, Scratch: image.HostPath(filepath.Join(p.dir, "scratch"))})
	if err != nil {
		return err
	}
	p.backend = b
	p.host, err = p.images.Host(context.Background(), image.HostOptions{})
	return err
}

func (p *place) close() (err error) {
	if p.backend != nil {
		err = p.backend.Close()
	}
	if p.dir == "" {
		return err
	}
	return errors.Join(err, remove.Tree(p.dir))
}

// world is what one test runs its jobs in: the real sandbox, with a spy before
// it.
type world struct {
	t      *testing.T
	images *image.Store
	spy    *spy
	host   image.Image
	env    map[string]string // of the host, as Deps.Env tells it
	jobs   string            // folder of jobs
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return shared.world(t)
}

// world opens p, once, and skips the test where sandboxes are refused.
func (p *place) world(t *testing.T) *world {
	t.Helper()
	p.once.Do(func() { p.err = p.open() })
	var refused *doctor.Refusal
	if errors.As(p.err, &refused) {
		t.Skipf("no sandbox on this machine: %v", p.err)
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	return &world{t: t, images: p.images, spy: &spy{Backend: p.backend}, host: p.host, env: map[string]string{}, jobs: filepath.Join(t.TempDir(), "jobs")}
}

// on is the same world for a subtest.
func (w *world) on(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}

// deps wires rooms as the command line does.
func (w *world) deps() Deps {
	resolve := func(_ context.Context, ref string) (image.Image, error) {
		if ref == image.HostName {
			return w.host, nil
		}
		return w.images.Resolve(ref)
	}
	return Deps{
		Images: w.images, Backend: w.spy, Resolve: resolve, Version: "test",
		Build: func(ctx context.Context, b BuildRequest) (image.Image, error) {
			o := dockerfile.Options{Store: w.images, Backend: w.spy, Dir: image.HostPath(b.Dir), Resolve: b.Resolve, Base: b.Base}
			return dockerfile.Build(ctx, o)
		},
		Env: func(name string) (string, bool) { v, ok := w.env[name]; return v, ok },
	}
}

// files of a task, by path.
type files map[string]string

// A task on the host's tools that is solved by the word "done" in /app/answer.
const (
	taskTOML  = "[environment]\ndocker_image = \"host\"\nworkdir = \"/app\"\n"
	testSh    = "#!/bin/sh\nif [ \"$(cat /app/answer 2>/dev/null)\" = done ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
	solveSh   = "#!/bin/sh\necho done >/app/answer\n"
	notSolved = "#!/bin/sh\necho 0 >/logs/verifier/reward.txt\n"
)

// task writes and loads a task: the one above with some files changed; an
// empty text leaves a file out.
func (w *world) task(name string, changed files) *task.Task {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), name)
	all := files{"task.toml": taskTOML, "instruction.md": "Write done.", "environment/.keep": "\n", "tests/test.sh": testSh, "solution/solve.sh": solveSh}
	for p, text := range changed {
		all[p] = text
	}
	for p, text := range all {
		if text != "" {
			w.write(filepath.Join(dir, p), text)
		}
	}
	t, err := task.Load(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

func (w *world) write(p, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func gold() Arm { return Arm{Spec: "oracle", Agent: oracle.New()} }
func idle() Arm { return Arm{Spec: "nop", Agent: nop.New()} }

// acts is an agent made of a function of the test.
type acts struct {
	name  string
	needs func(task.Brief) (agent.Needs, error)
	run   func(ctx context.Context, s agent.Session) (agent.Report, error)
}

func (a acts) Info() trial.AgentInfo { return trial.AgentInfo{Name: a.name, Version: "1"} }

func (a acts) Needs(b task.Brief) (agent.Needs, error) {
	if a.needs == nil {
		return agent.Needs{}, nil
	}
	return a.needs(b)
}

func (a acts) Run(ctx context.Context, s agent.Session) (agent.Report, error) { return a.run(ctx, s) }

func acting(name string, run func(context.Context, agent.Session) (agent.Report, error)) Arm {
	return Arm{Spec: name, Agent: acts{name: name, run: run}}
}

// shell is an agent that runs one shell script in the workdir.
func shell(name, script string) Arm {
	return acting(name, func(ctx context.Context, s agent.Session) (agent.Report, error) {
		ran, err := s.Exec(ctx, agent.Program{Args: []string{"/bin/sh", "-c", script}, Log: "shell.txt"})
		r := agent.Report{Exit: &ran.Exit}
		r.Add(ran)
		return r, err
	})
}

// config is a job of this world, two trials at a time.
func (w *world) config(name string, arms []Arm, tasks ...*task.Task) Config {
	return Config{Dir: filepath.Join(w.jobs, name), Tasks: tasks, Arms: arms, Attempts: 1, Concurrent: 2}
}

// run runs a job to its end and reads what it left.
func (w *world) run(c Config) (Summary, *store.View) {
	w.t.Helper()
	s, err := Run(w.t.Context(), c, w.deps())
	if err != nil {
		w.t.Fatalf("run: %v", err)
	}
	return s, w.view(c)
}

func (w *world) view(c Config) *store.View {
	w.t.Helper()
	v, err := store.Read(c.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(v.Findings) > 0 {
		w.t.Errorf("the job directory is not as it should be: %v", v.Findings)
	}
	return v
}

// one runs one agent on one task and returns the trial.
func (w *world) one(arm Arm, t *task.Task) *store.Trial {
	w.t.Helper()
	_, v := w.run(w.config("one-"+t.Name+"-"+arm.Spec, []Arm{arm}, t))
	if len(v.Trials) != 1 {
		w.t.Fatalf("%d trials", len(v.Trials))
	}
	return v.Trials[0]
}

// want checks how a trial ended.
func (w *world) want(tr *store.Trial, cause trial.Cause, detail string) {
	w.t.Helper()
	e, err := cause.Ending()
	if err != nil {
		w.t.Fatal(err)
	}
	r := tr.Record
	if r.Cause != cause || r.Outcome != e.Outcome || r.Fault != e.Fault || !strings.Contains(r.Detail, detail) {
		w.t.Errorf("%s × %s ended %s/%s/%s (%s), want %s (%s); notes %q, the agent said %q%q, the tests %q", tr.Task, tr.Agent, r.Outcome, r.Fault, r.Cause,
			r.Detail, cause, detail, r.Notes, w.text(tr, "agent/oracle.txt"), w.text(tr, "agent/shell.txt"), w.text(tr, store.TestOutputFile))
	}
}

// trialOf finds the trial of a task and an agent; its first attempt of k.
func trialOf(t *testing.T, v *store.View, task, agent string) *store.Trial {
	t.Helper()
	i := slices.IndexFunc(v.Trials, func(tr *store.Trial) bool { return tr.Task == task && tr.Agent == agent })
	if i < 0 {
		t.Fatalf("no trial %s × %s", task, agent)
	}
	return v.Trials[i]
}

// kinds lists the events of a trial but its phases and steps.
func kinds(v *store.View, name string) string {
	var all []string
	for _, e := range v.Events {
		if e.Trial == name && e.Kind != trial.PhaseStarted && e.Kind != trial.PhaseFinished && e.Kind != trial.StepMade {
			all = append(all, fmt.Sprintf("%s#%d", strings.TrimPrefix(string(e.Kind), "trial."), e.Attempt))
		}
	}
	return strings.Join(all, " ")
}

// text reads a file of a trial; "" if there is none.
func (w *world) text(tr *store.Trial, rel string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(tr.Dir, rel))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(b)
}

// spy is a backend that tells what was done with it, and fails when told to.
type spy struct {
	sandbox.Backend
	mu    sync.Mutex
	boxes int
	log   []string
	fail  func(what string) error // asked before everything; nil goes on
	drops int
}

// did notes what is done to a box and asks whether it fails.
func (s *spy) did(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	s.log = append(s.log, what)
	if s.fail != nil {
		return s.fail(what)
	}
	return nil
}

func (s *spy) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *spy) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s.mu.Lock()
	s.boxes++
	name := fmt.Sprint("box", s.boxes)
	s.mu.Unlock()
	if err := s.did("%s create", name); err != nil {
		return nil, err
	}
	sb, err := s.Backend.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &spied{Sandbox: sb, spy: s, name: name}, nil
}

func (s *spy) Drop(snap sandbox.Snapshot) error {
	s.mu.Lock()
	s.drops++
	s.mu.Unlock()
	return s.Backend.(sandbox.Dropper).Drop(snap)
}

// spied is a sandbox of a spy's.
type spied struct {
	sandbox.Sandbox
	spy  *spy
	name string
}

func (x *spied) Held() (held, unheld []string) { return x.Sandbox.(sandbox.Held).Held() }

func (x *spied) Outlet() string { return x.Sandbox.(sandbox.Outlet).Outlet() }

func (x *spied) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := x.spy.did("%s start %s", x.name, strings.Join(c.Args, " ")); err != nil {
		return nil, err
	}
	return x.Sandbox.Start(ctx, c)
}

func (x *spied) Put(ctx context.Context, dst image.Path, r io.Reader) error {
	if err := x.spy.did("%s put %s", x.name, dst); err != nil {
		return err
	}
	return x.Sandbox.Put(ctx, dst, r)
}

func (x *spied) Get(ctx context.Context, src image.Path, w io.Writer, limit int64) error {
	if err := x.spy.did("%s get %s", x.name, src); err != nil {
		return err
	}
	return x.Sandbox.Get(ctx, src, w, limit)
}

func (x *spied) Kill(ctx context.Context) error {
	if err := x.spy.did("%s kill", x.name); err != nil {
		return err
	}
	return x.Sandbox.Kill(ctx)
}

func (x *spied) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	if err := x.spy.did("%s snapshot", x.name); err != nil {
		return "", err
	}
	return x.Sandbox.Snapshot(ctx)
}

func (x *spied) End(ctx context.Context) (sandbox.Snapshot, error) {
	if err := x.spy.did("%s end", x.name); err != nil {
		return "", errors.Join(err, x.Sandbox.Close())
	}
	return x.Sandbox.(sandbox.Ender).End(ctx)
}

func (x *spied) Close() error {
	_ = x.spy.did("%s close", x.name)
	return x.Sandbox.Close()
}

// within fails a test that takes longer, with what it was about.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took > d {
		t.Errorf("%s took %v, want at most %v", what, took, d)
	}
}
