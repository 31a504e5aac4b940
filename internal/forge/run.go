package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/proof"
	"assay/internal/repo"
	"assay/internal/sandbox"
	"assay/task"
)

// Home is the directory, in a set's, of all that is no task.
const Home = ".forge"

// Config asks for tasks of one environment.
type Config struct {
	Dir        string // of the set; task directories lie directly in it
	Env        *repo.Environment
	Git        string // a local clone with history; empty: none
	Generators []Generator
	Want       map[string]int // tasks admitted of each generator, those of earlier runs included; 0: all it has
	Seed       uint64
	TestBudget int  // tests of a task's runs; 0: the whole suite
	Canaries   int  // changes of tests that are tried, once for the environment; 0: none
	Hints      int  // of each statement
	HideTests  bool // of bugs: the files of the tests that fail are not in what the agent gets
	Concurrent int
	Deps       job.Deps
	Arms       proof.Arms
	GitProgram string         // to look into repositories; empty: there is none
	Lines      image.HostPath // what shared layers hold, for the search of leaks
	Probe      int            // candidates of each generator, then the report; 0: no probe
	For        time.Duration  // after it nothing new is begun, and canaries take about a fifth of it; 0: until there is what is wanted
	Say        func(format string, args ...any)
	OnRecord   func(Record) // of every candidate; may be nil
	// Label gives a task's [metadata.assay.labels]; nil: it gets none.
	Label func(*task.Task) (map[string]any, error)
}

// forge is a run under way.
type forge struct {
	cfg     Config
	began   time.Time
	home    string // DIR/.forge
	tmp     string // below it, removed at the end
	healthy *image.View
	git     *orphanage // nil: the image has no repository
	times   Times
	later   time.Time
	ledger  *ledger

	testFiles  []string // of the healthy image, relative to its working directory
	isTest     map[string]bool
	inSource   map[string]bool // sources that hold tests of their own, as Rust's do
	steady     map[string]bool // stable tests that pass under the grader, by global id
	shaky      map[string]bool // tests of the suite that are anything but stable
	known      map[string]bool // every test of the suite
	bound      map[string]bool // of them those that run with their whole command only
	canaries   map[string][]checks.Canary
	describers map[string]Describer
	current    map[string]bool   // keys that this run has met
	dirs       map[string]string // admitted: key by directory
}

// Run proposes and admits until every generator has what is wanted of it or has
// no more. What it did before in the same directory counts.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	begin := time.Now()
	f, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer f.close()
	run, err := f.run(ctx)
	for _, d := range run.feeds {
		if name := d.gen.Name(); run.spent[name] > 0 {
			err = errors.Join(err, f.ledger.append(Record{Stage: StageRun, Generator: name, Seconds: run.spent[name]}))
		}
	}
	if lerr := f.ledger.append(Record{Stage: StageRun, Seconds: time.Since(begin).Seconds(), Sifted: run.sifted()}); err == nil {
		err = lerr
	}
	rep := f.report(run, time.Since(begin))
	if werr := writeJSON(filepath.Join(f.home, "forge.json"), rep); err == nil {
		err = werr
	}
	return rep, err
}

func open(ctx context.Context, cfg Config) (*forge, error) {
	cfg.Concurrent = max(1, cfg.Concurrent)
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	f := &forge{cfg: cfg, began: time.Now(), home: filepath.Join(cfg.Dir, Home), isTest: map[string]bool{}, steady: map[string]bool{}, shaky: map[string]bool{}, known: map[string]bool{},
		bound: map[string]bool{}, describers: map[string]Describer{}, current: map[string]bool{}, dirs: map[string]string{}}
	f.tmp = filepath.Join(f.home, "tmp")
	if err := os.MkdirAll(f.home, 0o755); err != nil {
		return nil, err
	}
	var err error
	if f.ledger, err = openLedger(filepath.Join(f.home, "ledger.ndjson")); err != nil {
		return nil, err
	}
	// Under the ledger's lock: what lies there is of a run that was killed.
	err = errors.Join(os.RemoveAll(f.tmp), os.MkdirAll(f.tmp, 0o755))
	if err == nil {
		err = f.prepare(ctx)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *forge) close() {
	_ = os.RemoveAll(f.tmp) // the next run removes what stays
	_ = f.ledger.close()    // every record was synced
}

func (f *forge) uid() sandbox.UIDMode { return sandbox.UIDMode(f.cfg.Env.UIDMode) }

// prepare reads the healthy image and looks at its suite under the grader.
func (f *forge) prepare(ctx context.Context) (err error) {
	env := f.cfg.Env
	if err := f.cfg.Deps.Images.Hold(env.Layers...); err != nil {
		return fmt.Errorf("healthy image %s: %w; make it again with 'assay repo setup'", env.Image, err)
	}
	if f.healthy, err = f.cfg.Deps.Images.View(env.Layers); err != nil {
		return err
	}
	if f.git, err = readOrphanage(f.healthy, env.Workdir); err != nil {
		return err
	}
	if f.times = timesOf(env); f.times == TimesLater {
		if f.later, err = Later(f.healthy, env.Workdir); err != nil {
			return err
		}
	}
	if f.testFiles, err = testFiles(f.healthy, env.Workdir, env.Suite.TestFiles); err != nil {
		return err
	}
	for _, p := range f.testFiles {
		f.isTest[p] = true
	}
	if f.inSource, err = testsInSource(f.healthy, env.Workdir, f.isTest); err != nil {
		return err
	}
	for _, g := range f.cfg.Generators {
		if d, ok := g.(Describer); ok {
			f.describers[g.Name()] = d
		}
	}
	if err := f.admitted(); err != nil {
		return err
	}
	if err := f.calibrate(ctx); err != nil {
		return err
	}
	return f.hunt(ctx)
}

// timesOf says whether an environment's build goes by times of files.
func timesOf(env *repo.Environment) Times {
	for _, l := range env.Languages {
		switch strings.ToLower(l) {
		case "rust", "c", "c++", "cpp", "java", "kotlin", "scala":
			return TimesLater
		}
	}
	switch env.System {
	case "cargo", "cmake", "make", "autotools", "meson", "maven", "gradle", "ninja":
		return TimesLater
	}
	return TimesHidden
}

// admitted finds the tasks that stand already. The directory is the truth: a
// task whose record was lost counts, and one that is gone does not.
func (f *forge) admitted() error {
	all, err := os.ReadDir(f.cfg.Dir)
	if err != nil {
		return err
	}
	for _, d := range all {
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(f.cfg.Dir, d.Name(), "task.toml"))
		if err != nil {
			continue // somebody else's directory
		}
		c, err := task.ParseConfig(b)
		if err != nil {
			continue
		}
		facts, _ := c.Metadata.Assay.Rest["forge"].(map[string]any)
		key, _ := facts["key"].(string)
		f.dirs[d.Name()] = key
		if rec, ok := f.ledger.find(key); key != "" && (!ok || rec.Stage != StageAdmitted) {
			if err := f.readmit(d.Name(), key, facts); err != nil {
				return err
			}
		}
	}
	return nil
}

// readmit writes the record of a task whose run was killed before it could.
func (f *forge) readmit(name, key string, facts map[string]any) error {
	n, err := size(filepath.Join(f.cfg.Dir, name))
	if err != nil {
		return err
	}
	gen, _ := facts["generator"].(string)
	cand, _ := facts["candidate"].(string)
	bad, _ := facts["fail_to_pass"].(int64)
	fine, _ := facts["pass_to_pass"].(int64)
	var p proof.Proof
	if b, err := os.ReadFile(filepath.Join(f.cfg.Dir, name, proof.File)); err != nil || json.Unmarshal(b, &p) != nil {
		p = proof.Proof{Level: proof.Quick} // somebody took it away; the task stands all the same
	}
	return f.ledger.append(Record{Key: key, Stage: StageAdmitted, Generator: gen, Name: cand, Built: true, Bitten: true, Task: name, Bytes: n, Fail: int(bad), Pass: int(fine),
		Level: string(p.Level), Evidence: string(p.Evidence)})
}

// dirName is a task's directory: the environment's name and the candidate's,
// and a part of its key where another task has that name.
func (f *forge) dirName(a *attempt) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return '-'
	}, strings.ToLower(f.cfg.Env.Name)), "-._")
	name += "-" + a.cand.Name
	if key, taken := f.dirs[name]; taken && key != a.key {
		name += "-" + a.key[:8]
	}
	return name
}

// calibrate looks once at the healthy suite under the grader: only what passes
// there, too, can be asked of anybody.
func (f *forge) calibrate(ctx context.Context) error {
	commands := map[string]repo.Command{}
	for _, c := range f.cfg.Env.Suite.Commands {
		commands[c.Name] = c
	}
	for _, t := range f.cfg.Env.Suite.Tests {
		f.known[t.Global()] = true
		if _, alone := repo.Select(commands[t.Command], []repo.Test{t}); !alone {
			f.bound[t.Global()] = true
		}
		if t.Stability != repo.Stable {
			f.shaky[t.Global()] = true
		}
	}
	file := filepath.Join(f.home, "healthy-"+f.cfg.Env.Tag+".json")
	var ids []string
	if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &ids) == nil && len(ids) > 0 {
		for _, id := range ids {
			f.steady[id] = true
		}
		return nil
	}
	a := &attempt{made: f.nobody("healthy")}
	if err := f.bare(a); err != nil {
		return fmt.Errorf("healthy suite: %w", err)
	}
	f.cfg.Say("the healthy suite under the grader")
	seen, err := f.look(ctx, f.cfg.Arms.Idle, []*task.Task{a.t})
	if err != nil {
		return fmt.Errorf("healthy suite: %w", err)
	}
	s := seen[a.t.Name]
	for _, t := range f.cfg.Env.Suite.Tests {
		if t.Stability == repo.Stable && s.passed[t.Global()] {
			f.steady[t.Global()] = true
			ids = append(ids, t.Global())
		}
	}
	if len(ids) == 0 {
		return fmt.Errorf("healthy suite: no stable test of %d passes under the grader: %s", len(f.known), cut(cmpText(s.refused, cmpText(s.lost, s.output)), 800))
	}
	return writeJSON(file, ids)
}

// nobody is a candidate that changes nothing.
func (f *forge) nobody(name string) made {
	return made{cand: Candidate{Generator: "none", Name: name, Grade: GradePatch}, env: f.cfg.Env, healthy: f.healthy, state: f.healthy, layer: ""}
}

// world is what a generator works with.
func (f *forge) world(name string) *World {
	cache := filepath.Join(f.home, "cache", name)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		cache = ""
	}
	return &World{Env: f.cfg.Env, Tree: f.healthy, Images: f.cfg.Deps.Images, Backend: f.cfg.Deps.Backend, Git: f.cfg.Git, Cache: cache, Seed: f.cfg.Seed,
		Say: func(format string, a ...any) { f.cfg.Say(name+": "+strings.TrimPrefix(format, name+": "), a...) }}
}

// errKnown ends an attempt whose outcome is in the ledger.
var errKnown = errors.New("known")

// new reports whether an attempt's content was tried before, in this run or an
// earlier one.
func (f *forge) new(a *attempt) error {
	if f.current[a.key] {
		return reject(whyDuplicate, "another candidate comes to the same")
	}
	f.current[a.key] = true
	rec, ok := f.ledger.find(a.key)
	if !ok {
		return nil
	}
	if rec.Stage == StageAdmitted && !slices.Contains(f.standing(), rec.Task) {
		return nil // somebody removed it
	}
	return errKnown
}

func (f *forge) standing() []string {
	var all []string
	for name := range f.dirs {
		all = append(all, name)
	}
	return all
}
