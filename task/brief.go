package task

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"
)

// defaultVerifierTimeout holds where a verifier names none, in steps too.
const defaultVerifierTimeout = 600 * time.Second

// forever stands for an infinite limit where 0 would mean the default.
const forever = 100 * 365 * 24 * time.Hour

// stepLayout is what one step has on disk; paths are relative to the task.
type stepLayout struct {
	tests    []string
	solution string
	script   string
	workdir  string
	context  string // directory the image is built in, "environment" when empty
	place    verifierPlace

	testFiles     map[string][]byte
	solutionFiles map[string][]byte
}

// summary notes what Brief and Key need to know of the disk.
func (l *loader) summary() []stepLayout {
	if len(l.c.Steps) == 0 {
		return []stepLayout{l.stepSummary(nil)}
	}
	out := make([]stepLayout, len(l.c.Steps))
	for i := range l.c.Steps {
		out[i] = l.stepSummary(&l.c.Steps[i])
	}
	return out
}

func (l *loader) stepSummary(s *StepConfig) stepLayout {
	sl := stepLayout{place: l.verifier(s)}
	dirs := []string{"tests"}
	if s != nil {
		dirs = append(dirs, stepDir(s.Name)+"tests")
		if w := stepDir(s.Name) + "workdir"; l.t.isDir(w) {
			sl.workdir = w
		}
	}
	for _, dir := range dirs {
		if l.t.isDir(dir) {
			sl.tests = append(sl.tests, dir)
		}
	}
	sl.script = "test.sh"
	if sl.place.os == OSWindows {
		sl.script = "test.bat"
	}
	if solve, ok := l.script(s, "solution", "solve", l.c.Environment.OS); ok {
		sl.solution = filepath.Dir(solve)
	}
	return sl
}

// step gives the configuration of a step; nil in a single-step task.
func (t *Task) step(i int) *StepConfig {
	if i < 0 || i >= len(t.Steps) {
		panic(fmt.Sprintf("task %s: step %d of %d", t.Name, i, len(t.Steps)))
	}
	if !t.MultiStep() {
		return nil
	}
	return &t.Config.Steps[i]
}

func (t *Task) places(i int) stepLayout {
	if i < len(t.layout) {
		return t.layout[i]
	}
	return stepLayout{script: "test.sh"}
}

// Brief is what an agent may know of the step with this index, counted from 0.
func (t *Task) Brief(step int) Brief {
	s := t.step(step)
	c := &t.Config
	b := Brief{
		Task:        t.Name,
		Step:        t.Steps[step].Name,
		Index:       step,
		Instruction: t.Steps[step].Instruction,
		Workdir:     c.Environment.Workdir,
		Env:         maps.Clone(c.Environment.Env),
		User:        c.Agent.User,
		Network:     phaseNetwork(c.Environment.network(), c.Agent.NetworkMode, c.Agent.AllowedHosts),
		SkillsDir:   c.Environment.SkillsDir,
		MCPServers:  slices.Clone(c.Environment.MCPServers),
		Answer:      slices.Clone(c.Metadata.Assay.Answer),
	}
	limit := c.Agent.TimeoutSec
	if s != nil {
		b.User = cmpOr(s.Agent.User, b.User)
		b.Network = phaseNetwork(b.Network, s.Agent.NetworkMode, s.Agent.AllowedHosts)
		if s.Agent.TimeoutSec != nil {
			limit = s.Agent.TimeoutSec
		}
	}
	if limit != nil {
		b.Timeout = seconds(*limit)
	}
	return b
}

// Key is what the grader needs for the step with this index, counted from 0.
// Its directories are those that were there when the task was loaded.
func (t *Task) Key(step int) Key {
	s := t.step(step)
	c := &t.Config
	at := t.places(step)
	k := Key{
		Step:          t.Steps[step].Name,
		Script:        at.script,
		TestFiles:     at.testFiles,
		SolutionFiles: at.solutionFiles,
		SolutionEnv:   maps.Clone(c.Solution.Env),
		VerifierEnv:   maps.Clone(c.Verifier.Env),
		User:          c.Verifier.User,
		Timeout:       defaultVerifierTimeout,
		Mode:          t.verifierMode(s),
		Collect:       slices.Clone(c.Verifier.Collect),
		Artifacts:     slices.Clone(c.Artifacts),
		Grade:         t.Grade(),
		Protected:     protected(c.Metadata.Assay.Protected),
	}
	for _, dir := range at.tests {
		k.Tests = append(k.Tests, t.host(dir))
	}
	if at.solution != "" {
		k.Solution = t.host(at.solution)
	}
	limit := c.Verifier.TimeoutSec
	if s != nil {
		limit = s.Verifier.TimeoutSec // never the task's
		k.User = cmpOr(s.Verifier.User, k.User)
		k.Collect = append(k.Collect, s.Verifier.Collect...)
		k.Artifacts = append(k.Artifacts, s.Artifacts...)
		k.MinReward = maps.Clone(s.MinReward)
		if k.VerifierEnv == nil {
			k.VerifierEnv = map[string]string{}
		}
		maps.Copy(k.VerifierEnv, s.Verifier.Env)
	}
	if limit != nil {
		if k.Timeout = seconds(*limit); k.Timeout == 0 {
			k.Timeout = forever
		}
	}
	t.verifierPlace(&k, s, at.place)
	return k
}

// verifierPlace fills in where the verifier runs and what network it asks for.
func (t *Task) verifierPlace(k *Key, s *StepConfig, p verifierPlace) {
	c := &t.Config
	baseline := c.Environment.network()
	if p.separate {
		k.Environment, k.Image, k.Bundled = p.env, p.image, p.bundled
		if p.dir != "" {
			k.ImageDir = t.host(p.dir)
		}
		if p.env != nil {
			baseline = p.env.network()
		}
	}
	k.Network = phaseNetwork(baseline, c.Verifier.NetworkMode, c.Verifier.AllowedHosts)
	if s != nil {
		k.Network = phaseNetwork(k.Network, s.Verifier.NetworkMode, s.Verifier.AllowedHosts)
	}
}

// Grade is what of the agent's work crosses to the grader; state unless the
// task says otherwise.
func (t *Task) Grade() GradeKind {
	if t.Config.Metadata.Assay.Grade == "" {
		return GradeState
	}
	return t.Config.Metadata.Assay.Grade
}

// verifierMode is assay's own setting, else Harbor's. Only an explicit "shared"
// asks for the agent's processes to survive: most tasks that say nothing never
// thought of it.
func (t *Task) verifierMode(s *StepConfig) VerifierMode {
	if m := t.Config.Metadata.Assay.Verifier; m != VerifierUnset {
		return m
	}
	switch verifierMode(&t.Config, s) {
	case EnvironmentSeparate:
		return VerifierSeparate
	case EnvironmentShared:
		return VerifierLive
	}
	return VerifierUnset
}

// protected adds the paths that belong to the grader in any task: what an
// agent leaves there must not meet the tests.
func protected(own []string) []string {
	all := append([]string{"/logs/verifier", "/solution", "/tests"}, own...)
	sort.Strings(all)
	return slices.Compact(all)
}

// host makes a path of the task absolute.
func (t *Task) host(rel string) string { return filepath.Join(t.Dir, filepath.FromSlash(rel)) }

// ImageDir is the directory that the environment's image is built in; empty
// when there is none.
func (t *Task) ImageDir() string {
	dir := cmpOr(t.places(0).context, "environment")
	if fi, err := os.Stat(t.host(dir)); err != nil || !fi.IsDir() {
		return ""
	}
	return t.host(dir)
}

// StepWorkdir is the directory that is copied into the working directory
// before the step, where its setup.sh runs; empty when there is none.
func (t *Task) StepWorkdir(step int) string {
	if t.step(step) == nil || t.places(step).workdir == "" {
		return ""
	}
	return t.host(t.places(step).workdir)
}

// Inputs lists what of one of the key's directories is copied into a sandbox:
// slash-separated paths below dir, parents first, without what .harborignore
// leaves out. Links are listed, not followed.
func (t *Task) Inputs(dir string) ([]string, error) {
	rel, err := filepath.Rel(t.Dir, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, fmt.Errorf("inputs of task %s: %s is not inside of it", t.Name, dir)
	}
	tr, err := openTree(t.Dir)
	if err != nil {
		return nil, err
	}
	in := inputList{t: tr, f: newFilter(tr), base: filepath.ToSlash(rel)}
	if err := in.below(""); err != nil {
		return nil, fmt.Errorf("inputs of task %s: %w", t.Name, err)
	}
	return in.out, nil
}

type inputList struct {
	t    *tree
	f    *filter
	base string
	out  []string
}

func (in *inputList) below(dir string) error {
	at := in.base + "/" + dir
	entries, err := os.ReadDir(in.t.path(at))
	if err != nil {
		return &LayoutError{Path: at, Message: reason(err).Error()}
	}
	for _, e := range entries {
		rel := dir + e.Name()
		if len(in.out) == maxTreeEntries {
			return &LayoutError{Path: rel, Message: fmt.Sprintf("the task has more than %d files", maxTreeEntries)}
		}
		x, err := in.f.excluded(in.base+"/"+rel, in.t.isDir(in.base+"/"+rel))
		if err != nil {
			return err
		}
		if x {
			continue
		}
		in.out = append(in.out, rel)
		if e.IsDir() {
			if err := in.below(rel + "/"); err != nil {
				return err
			}
		}
	}
	return nil
}

// network is the environment's policy; its mode is unset when the task says
// nothing, which Harbor reads as public.
func (e *Environment) network() Network {
	return Network{Mode: e.NetworkMode, Allow: slices.Clone(e.AllowedHosts)}
}

// phaseNetwork lets an explicit policy replace the one below it.
func phaseNetwork(below Network, mode NetworkMode, allow []string) Network {
	if mode == NetworkUnset {
		return below
	}
	return Network{Mode: mode, Allow: slices.Clone(allow)}
}

// seconds turns a limit into a duration: infinite and unimaginably long ones
// are no limit (0), those that are over before they begin one nanosecond.
func seconds(f float64) time.Duration {
	switch {
	case math.IsNaN(f) || f <= 0:
		return 1
	case f >= math.MaxInt64/float64(time.Second):
		return 0
	}
	return max(1, time.Duration(f*float64(time.Second)))
}
