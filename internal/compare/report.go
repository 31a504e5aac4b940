package compare

import (
	"fmt"
	"slices"

	"assay/internal/stats"
	"assay/internal/store"
	"assay/trial"
)

// Report is everything a comparison came to.
type Report struct {
	Jobs      []Job    `json:"jobs"`
	By        By       `json:"by"`
	Sentences []string `json:"sentences"` // the answers, most telling first
	Notes     []string `json:"notes,omitempty"`
	Arms      []Arm    `json:"arms"`
	Pairs     []Pair   `json:"pairs"`
	Sources   []Source `json:"sources,omitempty"` // each figure again, by data set; none when there is one
	Tiers     []Tier   `json:"tiers,omitempty"`
	Declared  []Tier   `json:"declared_tiers,omitempty"` // by the difficulty that tasks declare
	Tasks     []Task   `json:"tasks"`
	Scale     Scale    `json:"scale"`
}

// Job is one that trials were taken from.
type Job struct {
	Name    string         `json:"name"`
	Dir     string         `json:"dir"`
	Foreign bool           `json:"foreign,omitempty"`
	State   store.JobState `json:"state"`
	Planned int            `json:"planned"`
	Graded  int            `json:"graded"`
}

// Source is one data set: the figures on its tasks alone.
type Source struct {
	Name     string `json:"name"`
	Tasks    int    `json:"tasks"`
	Arms     []Arm  `json:"arms"`
	Pairs    []Pair `json:"pairs"`
	Tiers    []Tier `json:"tiers,omitempty"`
	Declared []Tier `json:"declared_tiers,omitempty"`
}

// Tier is the tasks of one difficulty, with each arm's rate on them in the
// order of [Report.Arms].
type Tier struct {
	Name  string        `json:"name"`
	Tasks int           `json:"tasks"`
	Rates []*stats.Rate `json:"rates"` // null: nothing graded
}

// Task is one row of the grid.
type Task struct {
	Name   string        `json:"name"`
	Digest string        `json:"digest,omitempty"`
	Labels Labels        `json:"labels"`
	Cells  []Cell        `json:"cells"`           // in the order of [Report.Arms]
	Pooled *float64      `json:"pooled"`          // mean of the arms' rates; null: nothing graded
	Tier   string        `json:"tier,omitempty"`  // by Pooled
	Window stats.Window  `json:"window"`          // over all arms' attempts
	Corr   *float64      `json:"discrimination"`  // null: insufficient
	Logits *stats.Placed `json:"rasch,omitempty"` // null: insufficient
}

// Cell is one arm's attempts at one task.
type Cell struct {
	Passed  int `json:"passed"`
	Graded  int `json:"graded"`
	Planned int `json:"planned"`
}

// Scale says how well the tasks together tell agents apart.
type Scale struct {
	Agents int      `json:"agents"`
	Tasks  int      `json:"tasks"` // that every arm has a graded attempt at
	KR20   *float64 `json:"kr20"`  // null: insufficient
	Why    string   `json:"insufficient,omitempty"`
}

// Compare reads nothing but the views; the same views give the same report.
func Compare(views []*store.View, opt Options) (*Report, error) {
	if opt.By == "" {
		opt.By = ByArm
	}
	for _, m := range opt.Across {
		if !slices.Contains(ModeNames(), m) {
			return nil, fmt.Errorf("%q is no mode; they are %v", m, ModeNames())
		}
	}
	g := gather(views, opt)
	baseline, err := g.keep(opt)
	if err != nil {
		return nil, err
	}
	r := &Report{By: opt.By, Jobs: jobsOf(views)}
	c := newGrid(g, nil)
	r.Arms = c.figures()
	r.Pairs = c.pairs(baseline)
	r.Tasks, r.Scale = c.items()
	r.Tiers, r.Declared = c.tiers(r.Tasks)
	r.Sources = g.sources(baseline)
	r.Notes = append(r.Notes, g.notes...)
	r.Notes = append(r.Notes, c.versions()...)
	r.Notes = append(r.Notes, fewGroups(r.Pairs)...)
	r.Sentences = answers(r, len(r.Pairs))
	return r, nil
}

// fewGroups warns of intervals that cannot speak of other repositories.
func fewGroups(pairs []Pair) []string {
	for _, p := range pairs {
		if d := p.Diff; d != nil && d.GroupsTooFew() {
			return []string{fmt.Sprintf("some of the %d tasks share repositories that are too few, or too uneven, to stand for others: intervals are by task, and speak of tasks of these repositories", d.Tasks)}
		}
	}
	return nil
}

func jobsOf(views []*store.View) (all []Job) {
	for _, v := range views {
		all = append(all, Job{v.Name, v.Dir, v.Foreign, v.State, v.Planned, v.Graded})
	}
	return all
}

// sources repeats the figures on each data set where there are several.
func (g *gathered) sources(baseline int) (all []Source) {
	n := map[string]int{}
	for _, k := range g.order {
		n[g.tasks[k].labels.Source]++
	}
	if len(n) < 2 {
		return nil
	}
	for _, name := range sortedKeys(n) {
		c := newGrid(g, &name)
		shown := name
		if shown == "" {
			shown = "no data set"
		}
		src := Source{Name: shown, Tasks: len(c.rows), Arms: c.figures(), Pairs: c.pairs(baseline)}
		tasks, _ := c.items()
		src.Tiers, src.Declared = c.tiers(tasks)
		all = append(all, src)
	}
	return all
}

// grid is tasks × arms.
type grid struct {
	g    *gathered
	arms []string
	rows []row
}

type row struct {
	*taskInfo
	cells [][]attempt // by arm
}

// newGrid takes the tasks that an arm planned to try, of one data set or (nil)
// of all.
func newGrid(g *gathered, source *string) *grid {
	c := &grid{g: g, arms: g.arms}
	arm := map[string]int{}
	for i, a := range g.arms {
		arm[a] = i
	}
	own := map[string][]attempt{}
	for _, a := range g.attempts {
		if _, ok := arm[a.arm]; ok {
			own[a.task] = append(own[a.task], a)
		}
	}
	for _, k := range g.order {
		t := g.tasks[k]
		if len(own[k]) == 0 || source != nil && t.labels.Source != *source {
			continue
		}
		r := row{taskInfo: t, cells: make([][]attempt, len(g.arms))}
		for _, a := range own[k] {
			r.cells[arm[a.arm]] = append(r.cells[arm[a.arm]], a)
		}
		c.rows = append(c.rows, r)
	}
	return c
}

// tally counts attempts as rates want them.
func tally(all []attempt) (t stats.Tally) {
	for _, a := range all {
		t.Planned++
		if a.Status != store.TrialFinished {
			continue
		}
		switch {
		case a.Fault == trial.FaultCancelled:
			t.Cancelled++
		case a.Outcome == trial.Pass:
			t.Pass++
		case a.Outcome == trial.Fail:
			t.Fail++
		case a.Outcome == trial.Inconclusive:
			t.Inconclusive++
		case a.Outcome == trial.Invalid:
			t.Invalid++
		default:
			t.Infra++
		}
	}
	return t
}
