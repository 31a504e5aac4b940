package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"assay/internal/store"
	"assay/trial"
)

// By says what makes trials one arm.
type By string

const (
	ByArm   By = "arm"   // agent with model; the default
	ByAgent By = "agent" // whatever its model
	ByModel By = "model" // whatever its agent
	ByJob   By = "job"   // agent with model in one job: yesterday's build beside today's
)

// Labels are what is known of a task besides what its trials say; empty is
// unknown.
type Labels struct {
	Source     string `json:"source,omitempty"`     // data set
	Repository string `json:"repository,omitempty"` // that its code is from
	Difficulty string `json:"difficulty,omitempty"` // as the task declares it
}

// Options say what is compared. The zero value compares all arms, each with
// each.
type Options struct {
	By       By
	Arms     []string // only these, by name, agent or model; all of them when empty
	Baseline string   // compare only with this arm
	Across   []string // modes that may differ: backend, uid, verifier, network, …
	// Labels tells what is known of a trial's task; nil: only what its name says.
	Labels func(*store.Trial) Labels
}

// attempt is one planned trial.
type attempt struct {
	*store.Trial
	job    int // index of its view
	arm    string
	task   string // key of the task
	mode   string // what the verdict holds under; only of graded trials
	graded bool
	passed bool
}

// gathered is every trial once, by arm and task.
type gathered struct {
	opt      Options
	arms     []string // in the order in which they are met
	attempts []attempt
	tasks    map[string]*taskInfo
	order    []string // keys of tasks, by name
	notes    []string

	jobs    map[*store.View]string
	only    map[*store.View]trial.Modes // the one value of each mode that a job knows
	counted map[trial.Cause]bool
	modes   map[trial.Modes]string
}

type taskInfo struct {
	key, name, digest string
	labels            Labels
	group             int
}

// gather takes all trials of all jobs, each once.
func gather(views []*store.View, opt Options) *gathered {
	g := &gathered{opt: opt, tasks: map[string]*taskInfo{}, counted: map[trial.Cause]bool{}, modes: map[trial.Modes]string{}, only: map[*store.View]trial.Modes{}}
	for _, e := range trial.Endings() {
		g.counted[e.Cause] = e.Counted
	}
	g.jobNames(views)
	seen := map[string]string{}
	twice := map[string]int{}
	for i, v := range views {
		for _, t := range v.Trials {
			id := identity(v, t)
			if first, ok := seen[id]; ok {
				twice[fmt.Sprintf("%s are those of %s", v.Dir, first)]++
				continue
			}
			seen[id] = v.Dir
			g.take(i, v, t)
		}
	}
	for _, k := range sortedKeys(twice) {
		g.note("%d trials of %s and count once", twice[k], k)
	}
	slices.SortFunc(g.order, func(a, b string) int {
		return cmp.Or(cmp.Compare(g.tasks[a].name, g.tasks[b].name), cmp.Compare(a, b))
	})
	g.group()
	return g
}

// identity is the same for a trial however its job is reached: by a link, a
// copy, or twice on the command line.
func identity(v *store.View, t *store.Trial) string {
	if t.Result != nil && t.Result.ID != "" {
		return "id\x00" + t.Result.ID + "\x00" + t.Name
	}
	if v.ID != "" {
		return "job\x00" + v.ID + "\x00" + t.Name
	}
	return "dir\x00" + v.Dir + "\x00" + t.Name
}

func (g *gathered) take(job int, v *store.View, t *store.Trial) {
	a := attempt{Trial: t, job: job, arm: armName(g.opt.By, g.jobs[v], t)}
	// Tasks of one job that nobody knows the digest of are still the same tasks.
	key := t.Digest
	if key == "" {
		key = "unknown\x00" + cmp.Or(v.ID, v.Dir) + "\x00" + t.Task
	}
	key += "\x00" + t.Task
	a.task = key
	info := g.tasks[key]
	if info == nil {
		info = &taskInfo{key: key, name: t.Task, digest: t.Digest}
		g.tasks[key] = info
		g.order = append(g.order, key)
	}
	info.labels.or(labelsOf(t))
	if g.opt.Labels != nil && (info.labels.Difficulty == "" || info.labels.Repository == "") {
		l := g.opt.Labels(t)
		l.or(info.labels)
		info.labels = l
	}
	if t.Status == store.TrialFinished {
		if g.counted[t.Cause] {
			a.graded, a.passed = true, t.Outcome == trial.Pass
			a.mode = g.mode(g.fill(v, t.Record.Modes))
		}
	}
	if !slices.Contains(g.arms, a.arm) {
		g.arms = append(g.arms, a.arm)
	}
	g.attempts = append(g.attempts, a)
}

// jobNames names jobs apart: by their directory where two have one name.
func (g *gathered) jobNames(views []*store.View) {
	dirs := map[string]map[string]bool{}
	for _, v := range views {
		if dirs[v.Name] == nil {
			dirs[v.Name] = map[string]bool{}
		}
		dirs[v.Name][v.Dir] = true
	}
	g.jobs = map[*store.View]string{}
	for _, v := range views {
		g.jobs[v] = v.Name
		if len(dirs[v.Name]) > 1 {
			g.jobs[v] = v.Dir
		}
	}
}

func armName(by By, job string, t *store.Trial) string {
	arm := t.Agent
	if t.Model != "" {
		arm += " with " + t.Model
	}
	switch by {
	case ByAgent:
		return t.Agent
	case ByModel:
		return cmp.Or(t.Model, "no model")
	case ByJob:
		return arm + " in " + job
	}
	return arm
}

// or fills what is empty.
func (l *Labels) or(m Labels) {
	l.Source, l.Repository, l.Difficulty = cmp.Or(l.Source, m.Source), cmp.Or(l.Repository, m.Repository), cmp.Or(l.Difficulty, m.Difficulty)
}

// labelsOf reads what a trial itself says: the data set is the first part of
// the task's name or the set that it was run from, and SWE-bench's names,
// owner__project-number, name the repository.
func labelsOf(t *store.Trial) (l Labels) {
	set, last, qualified := strings.Cut(t.Task, "/")
	if !qualified {
		set, last = "", t.Task
	}
	if set == "" && t.Result != nil && t.Result.Source != nil {
		set = *t.Result.Source
	}
	l.Source = set
	owner, rest, ok := strings.Cut(last, "__")
	if i := strings.LastIndexByte(rest, '-'); ok && owner != "" && i > 0 && digits(rest[i+1:]) {
		l.Repository = owner + "/" + rest[:i]
	}
	return l
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// modes are the conditions that two verdicts must share to be compared.
func modes(m trial.Modes) [][2]string {
	return [][2]string{
		{"backend", m.Backend}, {"uid", m.UID}, {"grade", m.Grade}, {"verifier", m.Verifier},
		{"network", m.Network}, {"verifier_network", m.VerifierNetwork}, {"services", cmp.Or(m.Services, "none")},
	}
}

// ModeNames are the modes that Options.Across may name.
func ModeNames() (all []string) {
	for _, m := range modes(trial.Modes{}) {
		all = append(all, m[0])
	}
	return all
}

// fill completes modes that a trial does not tell, from the only value that its
// job knows: another harness records the verifier's mode with its result, and
// an agent whose time was up has none. Leaving such a failure out as one of
// other modes would flatter it.
func (g *gathered) fill(v *store.View, m trial.Modes) trial.Modes {
	only, ok := g.only[v]
	if !ok {
		for _, t := range v.Trials {
			if !g.counted[t.Cause] {
				continue
			}
			for i, p := range modeFields(&t.Record.Modes) {
				if at := modeFields(&only)[i]; *at == "" {
					*at = *p
				} else if *p != "" && *p != *at {
					*at = "several"
				}
			}
		}
		g.only[v] = only
	}
	for i, p := range modeFields(&m) {
		if at := *modeFields(&only)[i]; *p == "" && at != "several" {
			*p = at
		}
	}
	return m
}

// modeFields are the modes that every trial has; services are an exception.
func modeFields(m *trial.Modes) []*string {
	return []*string{&m.Backend, &m.UID, &m.Grade, &m.Verifier, &m.Network, &m.VerifierNetwork}
}

func (g *gathered) mode(m trial.Modes) string {
	key, ok := g.modes[m]
	if !ok {
		key = modeKey(m, g.opt.Across)
		g.modes[m] = key
	}
	return key
}

func modeKey(m trial.Modes, across []string) string {
	var l []string
	for _, p := range modes(m) {
		if !slices.Contains(across, p[0]) {
			l = append(l, p[0]+"="+cmp.Or(p[1], "?"))
		}
	}
	return strings.Join(l, " ")
}

// group numbers the repositories; a task of no known one is a group of its own.
func (g *gathered) group() {
	at := map[string]int{}
	for _, k := range g.order {
		t := g.tasks[k]
		name := "task\x00" + t.key
		if r := t.labels.Repository; r != "" {
			name = r
		}
		if _, ok := at[name]; !ok {
			at[name] = len(at)
		}
		t.group = at[name]
	}
}

func (g *gathered) note(format string, args ...any) {
	if len(g.notes) < 50 {
		g.notes = append(g.notes, fmt.Sprintf(format, args...))
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// choose finds the arms that names stand for, in their order: a name in full,
// or an agent, model or job that names one alone.
// keep leaves the arms that were asked for, and the baseline among or beside
// them, whose index it returns; -1: there is none.
func (g *gathered) keep(opt Options) (baseline int, err error) {
	arms, base := g.arms, ""
	if opt.Baseline != "" {
		if base, err = g.find(opt.Baseline); err != nil {
			return -1, fmt.Errorf("baseline: %w", err)
		}
	}
	if len(opt.Arms) > 0 {
		if arms, err = g.choose(opt.Arms); err != nil {
			return -1, err
		}
	}
	if base != "" && !slices.Contains(arms, base) {
		arms = append([]string{base}, arms...)
	}
	g.arms = arms
	return slices.Index(arms, base), nil
}

func (g *gathered) choose(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		found, err := g.find(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, found) {
			out = append(out, found)
		}
	}
	return out, nil
}

func (g *gathered) find(name string) (string, error) {
	if slices.Contains(g.arms, name) {
		return name, nil
	}
	var found []string
	for _, arm := range g.arms {
		agent, rest, _ := strings.Cut(arm, " with ")
		model, job, _ := strings.Cut(rest, " in ")
		if _, j, ok := strings.Cut(arm, " in "); ok {
			job = j
			agent, _, _ = strings.Cut(agent, " in ")
		}
		if name == agent || name == model && model != "" || name == job && job != "" || name == rest {
			found = append(found, arm)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var all []string
	for _, a := range g.arms {
		all = append(all, fmt.Sprintf("%q", a))
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%q names %d arms; they are %s", name, len(found), strings.Join(all, ", "))
	}
	return "", fmt.Errorf("no arm is called %q; they are %s", name, strings.Join(all, ", "))
}
